/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Twins in the cluster world: a member that starts finds another file under the name of a shared
 * disk, as in a mount namespace of its own, and later the right file again. Events run outside of
 * all turns.
 *
 * The model knows only the right disk: a read that the twin answers, or a write that only the twin
 * gets, is found as wrong data. Members with the right file end too, killed or cleanly: the twin
 * must not be served in their place.
 *
 * In most of these seeds nodes keep no record of the file that they served last, as at a first
 * start. A member that reaches no other one then serves what it finds, so a twin appears only while
 * all members are linked. In the other seeds members are also cut off from each other before the
 * start with the twin, as when an image is renamed over while it is served and no link is up.
 * Members with the right file open continue, and the starting member, which served that file
 * before, must not serve the twin.
 */
#include "cluster_world.h"

#define FIRST_START_NS (5 * NS_PER_S)
#define PURPOSE_TWIN   91
#define PARTED_NS      (2500 * NS_PER_MS) /* longer than a start tries to reach members */

bool cluster_twin_is_on(uint64_t seed)
{
	return seed % 16 == 8;
}

void cluster_twin_features(struct cluster *world)
{
	world->features &= 1ull << CF_ZEROES | 1ull << CF_DEALLOCATE | 1ull << CF_COMPARE |
			   1ull << CF_COPY | 1ull << CF_DIGEST | 1ull << CF_ZERO_COPY;
	world->features |= 1ull << CF_TWIN;
}

bool cluster_twin_is_recorded(const struct cluster *world)
{
	return cluster_has(world, CF_TWIN) && world->seed / 16 % 4 == 1;
}

static bool is_parted(const struct cluster *world, const struct cluster_event *event)
{
	return cluster_twin_is_recorded(world) && event->draws[3] % 4 != 0;
}

/* All events become twins. An event does nothing until the links are up. */
void cluster_twin_plan(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_TWIN, 1);

	for (unsigned i = 0; i < world->event_count; i++) {
		struct cluster_event *event = &world->events[i];

		event->kind = CEV_TWIN;
		event->last_ns = (200 + prng_below(&prng, 1300)) * NS_PER_MS +
				 (is_parted(world, event) ? PARTED_NS : 0);
		event->is_off =
			!cluster_has(world, CF_TWIN) || !scenario_has_event(world->scenario, i);
	}
}

static bool is_serving(const struct cluster_node *node)
{
	return sim_node_state(node->node) == SIM_NODE_SERVING;
}

static bool is_linked(const struct cluster_node *node)
{
	struct peer_info infos[PEERS_MAX];
	unsigned count;

	if (!is_serving(node))
		return false;
	count = sim_node_peers(node->node, infos);
	for (unsigned i = 0; i < count; i++) {
		if (!infos[i].is_up)
			return false;
	}
	return count > 0;
}

/* Whether hosts may use the shared disk through the node, so that the node recorded the file. */
static bool has_served(const struct cluster *world, const struct cluster_node *node)
{
	const struct subsystem *subsystem = snapshot_find_subsystem(
		target_snapshot(sim_node_target(node->node)), world->subs[0].nqn);

	for (unsigned i = 0; subsystem != NULL && i < subsystem->ns_count; i++) {
		if (subsystem->namespaces[i].nsid == world->subs[0].disks[0]->nsid)
			return !subsystem->namespaces[i].is_withheld;
	}
	return false;
}

static void node_end(struct cluster_node *node, bool is_killed)
{
	node->down_ns = 20 * NS_PER_MS;
	if (is_killed)
		sim_node_kill(node->node, SIM_DEATH_KILLED);
	else
		sim_node_stop(node->node);
}

static void part(struct cluster *world, bool is_parted)
{
	world->is_twin_parted = is_parted;
	for (unsigned i = 0; i < world->node_count; i++)
		sim_net_partition(world->sim, &world->nodes[i].peer, is_parted);
}

static void twin_make(struct cluster *world, const struct cluster_disk *disk)
{
	struct sim_disk_options options = disk->options;

	options.name = "twin";
	if (world->twin == NULL)
		world->twin = sim_disk_create(world->sim, &options);
}

/* Restarts a member with the right file while another one is refused for its twin. */
static void right_end(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];

	if (node == world->twin_node)
		return;
	sim_trace(world->sim, "node %s: ends, and has the right file", node->name);
	cluster_count(world, "ends of others beside a member with another file", 1);
	node_end(node, event->draws[1] % 2 == 0);
	/* Either of the two may be back first. */
	if (event->draws[2] % 2 == 0)
		node_end(world->twin_node, true);
}

void cluster_twin_begin(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];
	struct cluster_disk *disk = world->subs[0].disks[0];

	for (unsigned i = 0; i < world->node_count; i++) {
		if (!is_linked(&world->nodes[i]) &&
		    !(world->is_twin_parted && is_serving(&world->nodes[i])))
			return;
	}
	if (world->twin_node != NULL)
		right_end(world, event);
	if (world->twin_node != NULL || !world->subs[0].is_shared ||
	    (is_parted(world, event) && !has_served(world, node)))
		return;
	twin_make(world, disk);
	world->twin_node = node;
	sim_trace(world->sim, "node %s: will find another file", node->name);
	cluster_count(world, "members with another file", 1);
	sim_disk_set_twin(disk->disk, world->twin, node->name);
	if (is_parted(world, event)) {
		cluster_count(world, "of them out of reach of the others", 1);
		part(world, true);
	}
	node_end(node, event->draws[1] % 2 == 0);
}

void cluster_twin_end(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = world->twin_node;

	if (node == NULL || node != &world->nodes[event->draws[0] % world->node_count])
		return;
	sim_trace(world->sim, "node %s: will find the right file", node->name);
	sim_disk_set_twin(world->subs[0].disks[0]->disk, NULL, "");
	world->twin_node = NULL;
	if (world->is_twin_parted)
		part(world, false);
	if (sim_node_state(node->node) == SIM_NODE_SERVING)
		node_end(node, event->draws[2] % 2 == 0);
	else if (sim_node_state(node->node) != SIM_NODE_DOWN)
		node_end(node, true);
}

void cluster_twin_started(const struct cluster_node *node)
{
	struct cluster *world = node->world;

	if (cluster_has(world, CF_TWIN) && sim_node_lives(node->node) == 1 &&
	    sim_now(world->sim) > FIRST_START_NS)
		cluster_fail(world, "node %s: its first start waits for members that it reaches",
			     node->name);
}

void cluster_twin_free(struct cluster *world)
{
	if (world->twin != NULL && !world->is_failed)
		sim_disk_destroy(world->twin);
}
