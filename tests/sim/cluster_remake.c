/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeds of the cluster world whose operators do more than add and remove: an NSID gets another
 * namespace, on the same medium or another one, in one change or in two; and a change takes a node
 * very long while its hosts ask for resets. Runs in the plan, and from outside of all turns. One
 * thread.
 *
 * A handle of a host is a namespace, by its UUID (ADR 30). Each UUID stands for a disk, and what a
 * host writes through it must land there, whatever its NSID means by then.
 *
 * Which seeds have it is said by the seed itself, and all numbers are drawn apart, so that the
 * others are what they were.
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

bool cluster_remake_is_on(uint64_t seed)
{
	return seed % 4 == 1;
}

void cluster_remake_features(struct cluster *world)
{
	static const enum cluster_feature ours[] = {CF_IMAGE, CF_REMAKE, CF_LONG_APPLY};
	struct prng prng = cluster_prng(world, PURPOSE_REMAKE, 0);
	uint64_t draw = prng_next(&prng);

	/* Fewer of the other things: many of them end what is to be seen here. Reservations go with
	 * the UUID, at a time that only the node knows. */
	world->features &= prng_next(&prng) >> 4;
	world->features &= ~(1ull << CF_RESERVE);
	for (unsigned i = 0; i < ARRAY_LEN(ours); i++) {
		if (draw >> (8 * i) & 1)
			world->features |= 1ull << ours[i];
	}
	world->features |= 1ull << ours[(draw >> 40) % ARRAY_LEN(ours)];
	if (draw >> 24 & 1)
		world->features |= 1ull << CF_ROLLBACK;
}

/* A third of all events are ours. */
void cluster_remake_plan(struct cluster *world)
{
	static const struct {
		enum cluster_feature feature;
		enum cluster_event_kind kind;
		uint64_t last_max_ms;
	} ours[] = {{CF_IMAGE, CEV_IMAGE, 1500},
		    {CF_REMAKE, CEV_REMAKE, 500},
		    {CF_LONG_APPLY, CEV_LONG_APPLY, 5000}};
	struct prng prng = cluster_prng(world, PURPOSE_REMAKE, 1);

	for (unsigned i = 0; i < world->event_count; i++) {
		unsigned pick = (unsigned)prng_below(&prng, ARRAY_LEN(ours));
		uint64_t last_ms = 30 + prng_below(&prng, ours[pick].last_max_ms);
		bool is_ours = prng_below(&prng, 3) == 0;
		struct cluster_event *event = &world->events[i];

		if (!is_ours || !(world->features_drawn >> ours[pick].feature & 1))
			continue;
		event->kind = ours[pick].kind;
		event->last_ns = last_ms * NS_PER_MS;
		event->is_off = !cluster_has(world, ours[pick].feature) ||
				!scenario_has_event(world->scenario, i);
	}
	if (!(world->features_drawn >> CF_ROLLBACK & 1))
		return;
	for (unsigned i = 0; i < world->event_count; i++) {
		struct cluster_event *event = &world->events[i];

		if (!prng_one_in(&prng, 5))
			continue;
		event->kind = CEV_ROLLBACK;
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

/* When the node says that its change is in force. */
void cluster_remake_note(struct cluster_node *node, const struct cluster_desired *former)
{
	for (unsigned s = 0; s < CLUSTER_SUBS_MAX; s++) {
		for (unsigned n = 0; n < CLUSTER_NS_MAX; n++) {
			if (!uuid_equal(&former->ns_uuid[s][n], &node->acked.ns_uuid[s][n]))
				node->uuid_since_ns[s][n] = sim_now(node->world->sim);
		}
	}
}

/* A write landed on the disk, from that process: not one through a handle that was replaced before
 * it was sent. Where the medium is another one, the disk says so. */
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
				     "disk %u: node %s let a handle write whose namespace it had "
				     "replaced",
				     disk->index, node->name);
	}
}

/* ---- a change that takes long -----------------------------------------------------------------
 */

/* Somewhere in the middle of it. */
static void action_busy(struct cluster *world, uint64_t arg)
{
	const struct cluster_event *event = &world->events[arg];
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];

	if (sim_node_state(node->node) == SIM_NODE_SERVING)
		sim_node_freeze_control(node->node, sim_now(world->sim) + event->last_ns);
}

/* The node applies thousands of namespaces, as it were: its control thread is held from some moment
 * of a change on, and hosts lose a port of the node, so that they ask the others to reset it. */
void cluster_long_apply_begin(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];

	world->desired.version++;
	cluster_do_at(world, sim_now(world->sim) + event->draws[1] % (2 * NS_PER_MS), action_busy,
		      (uint64_t)(event - world->events));
	sim_net_partition(world->sim, &node->addrs[event->draws[2] % node->port_count], true);
}

void cluster_long_apply_end(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];

	sim_net_partition(world->sim, &node->addrs[event->draws[2] % node->port_count], false);
}
