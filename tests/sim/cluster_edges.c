/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Safe failover at its limits in the cluster world: one seed in four has nodes with shared disks,
 * writes that stay in flight for very long and ignore a cancel, and nodes that their hosts lose at
 * that moment, frozen, cut off or killed, while other nodes work. Resets, locks, KATO and CQT then
 * decide whether a write lands late. Runs during planning and outside of all turns. One thread.
 *
 * The seed alone selects this. All numbers come from generators of their own, so that the plans of
 * other seeds do not change.
 */
#include "cluster_world.h"

#define PURPOSE_EDGES    60 /* and the next three */
#define EVENTS_OTHER_MAX 10
#define EVENT_PAUSE_MS   300
#define EVENT_PAUSE_MAX  1200
#define AIMS_MAX         150
#define SLOW_NS          (300 * NS_PER_MS)
#define SPIKE_MIN_MS     300
#define SPIKE_MAX_MS     1800
#define DELAY_MAX_US     20000
#define APART_AFTER_MIN  (10 * NS_PER_MS)
#define THAW_EARLY_NS    (5 * NS_PER_MS)
#define APART_AFTER_MAX  (100 * NS_PER_MS)

bool cluster_edges_is_on(uint64_t seed)
{
	return seed % 4 == 2;
}

void cluster_edges_features(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_EDGES, 0);

	/* Fewer other features: most of them would end these situations. */
	world->features &= prng_next(&prng) >> 4;
	world->features &= prng_next(&prng) >> 4;
	world->features |= 1ull << CF_EDGES;
}

void cluster_edges_shape(struct cluster *world)
{
	static const unsigned peer_kinds[] = {0, 0, 1, 2};
	struct prng prng = cluster_prng(world, PURPOSE_EDGES, 1);
	uint32_t spike_ms = SPIKE_MIN_MS + (uint32_t)prng_below(&prng, SPIKE_MAX_MS - SPIKE_MIN_MS);

	world->node_count = 2 + prng_one_in(&prng, 4);
	world->peer_kind = peer_kinds[prng_below(&prng, ARRAY_LEN(peer_kinds))];
	world->troubled_ns = (4000 + prng_below(&prng, 6000)) * NS_PER_MS;
	world->commands_left += 500;
	world->subs[0].is_shared = true;
	for (unsigned i = 0; i < world->sub_count; i++)
		world->subs[i].node %= world->node_count;
	world->subs[0].ns_count = prng_one_in(&prng, 4) ? 1 : CLUSTER_NS_MAX;
	for (unsigned i = 0; i < world->node_count; i++) {
		if (world->nodes[i].port_count == 0)
			world->nodes[i].port_count = 1;
	}
	world->spike_max_us = spike_ms * 1000;
	/* A quarter of CQT is for a target that checks late, the rest for its medium. */
	world->quiesce_ms = (spike_ms + DELAY_MAX_US / 1000 + 50) * 4 / 3 + 50;
}

void cluster_edges_disk(struct cluster *world, struct sim_disk_options *options)
{
	struct prng prng = cluster_prng(world, PURPOSE_EDGES + 1, world->disk_count);

	options->delay_max_us = 1 + (uint32_t)prng_below(&prng, DELAY_MAX_US);
	options->spike_one_in = 3 + (uint32_t)prng_below(&prng, 15);
	options->spike_max_us = world->spike_max_us;
	options->cancel_deaf_one_in = 1 + (uint32_t)prng_below(&prng, 2);
}

/* The host detects a lost path early, but not because a disk is slow. */
void cluster_edges_timeouts(struct cluster *world, unsigned host, struct host_timeouts *timeouts)
{
	struct prng prng = cluster_prng(world, PURPOSE_EDGES + 2, host);

	timeouts->keep_alive_ms =
		200 + (uint32_t)prng_below(&prng, prng_one_in(&prng, 3) ? 800 : 200);
	timeouts->silence_ms = 60 + (uint32_t)prng_below(&prng, 130);
	timeouts->command_ms += world->spike_max_us / 1000;
	timeouts->quiesce_ms = world->quiesce_ms;
	timeouts->reset_ms = prng_one_in(&prng, 2) ? 50 + (uint32_t)prng_below(&prng, 200)
						   : 500 + (uint32_t)prng_below(&prng, 3000);
}

/* ---- events -----------------------------------------------------------------------------------
 */

/* Around the time when a host may assume that the node's controllers ended, or long before. */
static uint64_t last_choose(const struct cluster *world, struct prng *prng)
{
	uint64_t kato_ms = world->hosts[prng_below(prng, world->host_count)].kato_ms;
	uint64_t edge_ms = 2 * kato_ms + world->quiesce_ms;

	if (prng_one_in(prng, 2))
		return (100 + prng_below(prng, 1000)) * NS_PER_MS;
	return (edge_ms + prng_below(prng, 1000)) * NS_PER_MS;
}

/* Selects all ports of the node. */
static void aim_at(const struct cluster *world, struct cluster_event *event, unsigned node)
{
	event->draws[0] = node;
	event->draws[1] = world->nodes[node].port_count;
}

/* Selects a node with a write in flight that lands only after the hosts gave the node up. */
bool cluster_edges_aim(struct cluster *world, struct cluster_event *event)
{
	uint64_t after_ns = sim_now(world->sim) + SLOW_NS;

	if (event->aims_left == 0)
		return true;
	event->aims_left--;
	for (unsigned i = 0; i < world->subs[0].ns_count; i++) {
		const struct sim_process *writer =
			sim_disk_slow_writer(world->subs[0].disks[i]->disk, after_ns);

		for (unsigned n = 0; writer != NULL && n < world->node_count; n++) {
			if (sim_node_process(world->nodes[n].node) != writer)
				continue;
			cluster_count(world, "nodes struck while they write", 1);
			aim_at(world, event, n);
			return true;
		}
	}
	return event->aims_left == 0;
}

static void event_choose(struct cluster *world, unsigned number, uint64_t at_ns)
{
	static const enum cluster_event_kind kinds[] = {
		CEV_EDGE_FREEZE,    CEV_EDGE_FREEZE,  CEV_NODE_FREEZE,   CEV_NODE_FREEZE,
		CEV_PARTITION_FROM, CEV_PARTITION_TO, CEV_PARTITION,     CEV_CUT,
		CEV_NODE_KILL,      CEV_CONTROL_BUSY, CEV_REACTOR_STUCK,
	};
	struct prng prng = cluster_prng(world, PURPOSE_EDGES + 3, number);
	struct cluster_event *event = &world->events[number];

	event->kind = kinds[prng_below(&prng, ARRAY_LEN(kinds))];
	event->is_off = !scenario_has_event(world->scenario, number);
	event->at_ns = at_ns;
	event->last_ns = last_choose(world, &prng);
	for (unsigned i = 0; i < ARRAY_LEN(event->draws); i++)
		event->draws[i] = prng_next(&prng) >> 8;
	event->aims_left = 1 + (unsigned)prng_below(&prng, AIMS_MAX);
	aim_at(world, event, (unsigned)(event->draws[0] % world->node_count));
}

void cluster_edges_plan(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_EDGES + 3, UINT32_MAX);
	uint64_t at_ns = 0;

	if (world->event_count > EVENTS_OTHER_MAX)
		world->event_count = EVENTS_OTHER_MAX;
	while (world->event_count < CLUSTER_EVENTS_MAX) {
		at_ns += (EVENT_PAUSE_MS + prng_below(&prng, EVENT_PAUSE_MAX)) * NS_PER_MS;
		if (at_ns >= world->troubled_ns)
			break;
		event_choose(world, world->event_count++, at_ns);
	}
}

/* ---- a frozen and unreachable node ------------------------------------------------------------
 */

static void node_part(struct cluster *world, uint64_t number, bool is_apart)
{
	struct cluster_node *node =
		&world->nodes[world->events[number].draws[0] % world->node_count];

	for (unsigned i = 0; i < node->port_count; i++)
		sim_net_partition(world->sim, &node->addrs[i], is_apart);
}

static void action_part(struct cluster *world, uint64_t number)
{
	if (!world->is_healed)
		node_part(world, number, true);
}

/* Commands still reach the frozen node for a while. Then its ports are cut, so that it does not
 * learn that its hosts gave it up. */
void cluster_edges_freeze(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];
	uint64_t now_ns = sim_now(world->sim);
	uint64_t apart_ns = APART_AFTER_MIN + event->draws[2] % APART_AFTER_MAX;

	if (sim_node_state(node->node) == SIM_NODE_DOWN)
		return;
	/* The node thaws just before the cut ends, so it handles the data in its sockets first. */
	sim_node_freeze(node->node, now_ns + event->last_ns - THAW_EARLY_NS);
	if (apart_ns < event->last_ns)
		cluster_do_at(world, now_ns + apart_ns, action_part,
			      (uint64_t)(event - world->events));
}

void cluster_edges_thaw(struct cluster *world, const struct cluster_event *event)
{
	node_part(world, (uint64_t)(event - world->events), false);
}
