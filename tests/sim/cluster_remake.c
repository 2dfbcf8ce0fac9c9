/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that do more than add and remove: an NSID gets another namespace, on the same medium or
 * another one, in one change or in two; and a change takes a node very long while its hosts request
 * resets. Runs during planning and outside of all turns. One thread.
 *
 * A host's handle is a namespace, identified by its UUID (ADR 30). Each UUID stands for a disk.
 * What a host writes through the handle must land there, whatever the NSID means by then.
 *
 * The seed alone selects this. All numbers come from generators of their own, so that the plans of
 * other seeds do not change.
 */
#include "cluster_world.h"

#include <inttypes.h>
#include <stdio.h>

#define PURPOSE_REMAKE 70

enum remake_kind {
	REMAKE_UUID,   /* the same medium under another UUID */
	REMAKE_MEDIUM, /* the other medium under another UUID */
	REMAKE_RETURN, /* the other medium under the UUID that it had last */
	REMAKE_KINDS,
};

#define AIMS_MAX     100
#define RECENT_NS    NS_PER_MS /* older writes may be waiting for a path */
#define QUICK_MAX_MS 20
#define STALL_MIN_MS 2
#define STALL_MAX_MS 30 /* less than hosts wait before they give a path up */

bool cluster_remake_is_on(uint64_t seed)
{
	return seed % 4 == 1;
}

void cluster_remake_features(struct cluster *world)
{
	static const enum cluster_feature ours[] = {CF_IMAGE, CF_REMAKE, CF_LONG_APPLY};
	struct prng prng = cluster_prng(world, PURPOSE_REMAKE, 0);
	uint64_t draw = prng_next(&prng);
	bool is_calm = draw >> 32 & 1;

	/* Fewer other features: many of them would end these situations. Reservations end with the
	 * UUID, at a time that only the node knows. */
	world->features &= prng_next(&prng) >> 4;
	if (is_calm)
		world->features &= prng_next(&prng) >> 4 & prng_next(&prng) >> 4;
	world->features &= ~(1ull << CF_RESERVE);
	for (unsigned i = 0; i < ARRAY_LEN(ours) && !is_calm; i++) {
		if (draw >> (8 * i) & 1)
			world->features |= 1ull << ours[i];
	}
	world->features |=
		1ull << (is_calm && (draw >> 33 & 1) ? CF_REMAKE
						     : ours[(draw >> 40) % ARRAY_LEN(ours)]);
	if (draw >> 24 & 1)
		world->features |= 1ull << CF_ROLLBACK;
}

/* Long changes matter where members may kill each other, as in half of these seeds. */
void cluster_remake_shape(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_REMAKE, 2);
	bool is_wanted = prng_one_in(&prng, 2);

	if (!(world->features_drawn >> CF_LONG_APPLY & 1) || !is_wanted)
		return;
	world->node_count = 2 + prng_one_in(&prng, 3);
	world->peer_kind = 0;
	world->troubled_ns = (3000 + prng_below(&prng, 4000)) * NS_PER_MS;
	world->subs[0].is_shared = true;
	for (unsigned i = 0; i < world->sub_count; i++)
		world->subs[i].node %= world->node_count;
	for (unsigned i = 0; i < world->node_count; i++) {
		if (world->nodes[i].port_count == 0)
			world->nodes[i].port_count = 1;
	}
}

/* A third of all events become those of this file. */
void cluster_remake_plan(struct cluster *world)
{
	static const struct {
		enum cluster_feature feature;
		enum cluster_event_kind kind;
		uint64_t last_max_ms;
	} ours[] = {{CF_IMAGE, CEV_IMAGE, 1500},
		    {CF_REMAKE, CEV_REMAKE, 500},
		    {CF_LONG_APPLY, CEV_LONG_APPLY, 2500}};
	struct prng prng = cluster_prng(world, PURPOSE_REMAKE, 1);
	unsigned drawn[ARRAY_LEN(ours)];
	unsigned drawn_count = 0;

	for (unsigned i = 0; i < ARRAY_LEN(ours); i++) {
		if (world->features_drawn >> ours[i].feature & 1)
			drawn[drawn_count++] = i;
	}
	for (unsigned i = 0; i < world->event_count; i++) {
		unsigned pick = drawn[prng_below(&prng, drawn_count)];
		uint64_t last_ms = 30 + prng_below(&prng, ours[pick].last_max_ms);
		uint64_t quick_ms = 1 + prng_below(&prng, 2 * QUICK_MAX_MS);
		unsigned aims = 1 + (unsigned)prng_below(&prng, AIMS_MAX);
		bool is_ours = prng_below(&prng, 3) == 0;
		struct cluster_event *event = &world->events[i];

		if (is_ours) {
			event->kind = ours[pick].kind;
			event->last_ns = last_ms * NS_PER_MS;
			event->is_off = !cluster_has(world, ours[pick].feature) ||
					!scenario_has_event(world->scenario, i);
		}
		if (event->kind != CEV_REMAKE)
			continue;
		event->aims_left = aims;
		/* Half of the NSIDs that are removed first come back within QUICK_MAX_MS. */
		if (quick_ms <= QUICK_MAX_MS)
			event->last_ns = quick_ms * NS_PER_MS;
	}
	if (!(world->features_drawn >> CF_ROLLBACK & 1))
		return;
	for (unsigned i = 0; i < world->event_count; i++) {
		struct cluster_event *event = &world->events[i];

		if (!prng_one_in(&prng, 5))
			continue;
		event->kind = CEV_ROLLBACK;
		event->aims_left = 0;
		event->is_off =
			!cluster_has(world, CF_ROLLBACK) || !scenario_has_event(world->scenario, i);
	}
}

/* ---- another namespace under an NSID ----------------------------------------------------------
 */

static void uuid_new(struct cluster *world, struct cluster_disk *disk)
{
	char name[48];

	snprintf(name, sizeof(name), "disk %u, the %uth", disk->index, world->identity_count);
	uuid_from_name(name, &disk->uuid);
	cluster_identity_add(world, &disk->uuid, disk);
}

/* Selects an NSID that a host writes to now: a replacement between two bursts tests nothing. */
bool cluster_remake_aim(struct cluster *world, struct cluster_event *event)
{
	uint64_t since_ns = sim_now(world->sim) - RECENT_NS;

	if (event->aims_left == 0)
		return true;
	event->aims_left--;
	for (unsigned h = 0; h < world->host_count; h++) {
		const struct cluster_host *host =
			&world->hosts[(event->draws[3] + h) % world->host_count];

		for (unsigned i = 0; host->process != NULL && i < host->worker_count; i++) {
			const struct cluster_worker *worker = host->workers[i];

			if (!worker->is_busy || worker->kind != COP_WRITE ||
			    worker->start_ns < since_ns)
				continue;
			cluster_count(world, "NSIDs struck while hosts write", 1);
			event->draws[0] = worker->set.disk->index;
			return true;
		}
	}
	return event->aims_left == 0;
}

static void nodes_stall(struct cluster *world, bool is_stalled)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		for (unsigned p = 0; p < world->nodes[i].port_count; p++)
			sim_net_partition_one_way(world->sim, &world->nodes[i].addrs[p], true,
						  is_stalled);
	}
}

static void action_move(struct cluster *world, uint64_t arg)
{
	(void)arg;
	nodes_stall(world, false);
}

/* Keeps commands in the network until nodes have the other namespace in force, have compared it and
 * let hosts use it. */
static void stall_maybe(struct cluster *world, const struct cluster_event *event)
{
	uint64_t last_ms = STALL_MIN_MS + event->draws[3] / 8 % (STALL_MAX_MS - STALL_MIN_MS);
	uint64_t until_ns = sim_now(world->sim) + last_ms * NS_PER_MS;

	if (event->draws[3] % 3 == 0)
		return;
	cluster_fault(world, until_ns);
	nodes_stall(world, true);
	cluster_do_at(world, until_ns, action_move, 0);
}

static void ns_remake(struct cluster *world, const struct cluster_event *event)
{
	const struct cluster_disk *of = &world->disks[event->draws[0] % world->disk_count];
	enum remake_kind kind = (enum remake_kind)(event->draws[1] % REMAKE_KINDS);
	struct cluster_desired *desired = &world->desired;
	unsigned sub = of->subsystem, ns = of->nsid - 1;
	struct cluster_disk *disk;

	if (kind != REMAKE_UUID)
		desired->ns_other[sub] ^= (uint8_t)(1u << ns);
	disk = cluster_medium(world, desired, sub, ns);
	if (kind != REMAKE_RETURN)
		uuid_new(world, disk);
	desired->ns_uuid[sub][ns] = disk->uuid;
	desired->ns_absent[sub] &= (uint8_t) ~(1u << ns);
	desired->version++;
	sim_trace(world->sim, "subsystem %u: namespace %u is disk %u now (%d)", sub, ns + 1,
		  disk->index, (int)kind);
}

static bool can_remake(const struct cluster *world)
{
	return world->identity_count < CLUSTER_IDENTITIES_MAX - 8 &&
	       cluster_images_are_whole(world);
}

void cluster_remake_begin(struct cluster *world, const struct cluster_event *event)
{
	const struct cluster_disk *of = &world->disks[event->draws[0] % world->disk_count];

	if (!can_remake(world))
		return;
	stall_maybe(world, event);
	if (event->draws[2] % 2 == 0) {
		ns_remake(world, event);
		return;
	}
	world->desired.ns_absent[of->subsystem] |= (uint8_t)(1u << (of->nsid - 1));
	world->desired.version++;
}

void cluster_remake_end(struct cluster *world, const struct cluster_event *event)
{
	if (event->draws[2] % 2 == 1 && !world->is_healed && can_remake(world))
		ns_remake(world, event);
}

/* Called when the node reports its change as in force. */
void cluster_remake_note(struct cluster_node *node, const struct cluster_desired *former)
{
	for (unsigned s = 0; s < CLUSTER_SUBS_MAX; s++) {
		for (unsigned n = 0; n < CLUSTER_NS_MAX; n++) {
			if (!uuid_equal(&former->ns_uuid[s][n], &node->acked.ns_uuid[s][n]))
				node->uuid_since_ns[s][n] = sim_now(node->world->sim);
		}
	}
}

/* A write of `writer` landed on the disk. Fails if the namespace of its handle was replaced before
 * the write was sent. cluster_on_landed finds a write to another disk. */
void cluster_remake_check(const struct cluster_disk *disk, const struct cluster_value *value,
			  const struct sim_process *writer)
{
	struct cluster *world = disk->world;
	unsigned sub = disk->subsystem, ns = disk->nsid - 1;

	for (unsigned i = 0; i < world->node_count; i++) {
		struct cluster_node *node = &world->nodes[i];

		if (writer == NULL || sim_node_process(node->node) != writer || node->is_changing ||
		    node->is_store_behind || node->may_have_pending)
			continue;
		if (value->begin_ns > node->uuid_since_ns[sub][ns] &&
		    !uuid_equal(&world->identities[value->identity].uuid,
				&node->acked.ns_uuid[sub][ns]))
			cluster_fail(world,
				     "disk %u: node %s accepted a write for a namespace that it "
				     "had replaced before",
				     disk->index, node->name);
	}
}

/* ---- a change that takes long -----------------------------------------------------------------
 */

/* In the middle of the change. */
static void action_busy(struct cluster *world, uint64_t arg)
{
	const struct cluster_event *event = &world->events[arg];
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];

	if (sim_node_state(node->node) == SIM_NODE_SERVING)
		sim_node_freeze_control(node->node, sim_now(world->sim) + event->last_ns);
}

/* One port, or all of them. */
static void ports_part(struct cluster *world, const struct cluster_event *event, bool is_apart)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];
	uint64_t port = event->draws[2] % (2 * node->port_count);

	for (unsigned i = 0; i < node->port_count; i++) {
		if (port == i || port >= node->port_count)
			sim_net_partition(world->sim, &node->addrs[i], is_apart);
	}
}

/* As if the node applied thousands of namespaces: its control thread is held from some moment of a
 * change on, and hosts lose ports of the node, so that they ask the other members to reset it. One
 * node at a time, so that another member can be asked. Then a pause of the same length, for other
 * changes. */
void cluster_long_apply_begin(struct cluster *world, const struct cluster_event *event)
{
	if (world->long_apply != NULL || sim_now(world->sim) < world->long_apply_next_ns ||
	    world->node_count < 2)
		return;
	world->long_apply = event;
	world->desired.version++;
	cluster_do_at(world, sim_now(world->sim) + event->draws[1] % (2 * NS_PER_MS), action_busy,
		      (uint64_t)(event - world->events));
	ports_part(world, event, true);
}

void cluster_long_apply_end(struct cluster *world, const struct cluster_event *event)
{
	if (world->long_apply != event)
		return;
	world->long_apply = NULL;
	world->long_apply_next_ns = sim_now(world->sim) + event->last_ns;
	ports_part(world, event, false);
}
