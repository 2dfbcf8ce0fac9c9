/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operator does while hosts work: changes masks, ANA states and sizes of namespaces. Also
 * the state store, in memory: it survives restarts of the target and may be full. One thread; runs
 * on the simulated control reactor.
 *
 * A restart keeps only a namespace's blocks and what was kept in the store: the live state is
 * recreated from the store, and a persistent reservation must be restored unchanged.
 */
#include "sim_media.h"
#include "sim_transition.h"
#include "sim_world.h"

#include "ns/reservation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Half of the seeds, and some of those with zero copy, get changes. */
void world_changes_choose(struct world *world, uint64_t seed)
{
	struct world_plan *plan = &world->plan;
	struct prng *prng = &world->change_prng;

	list_init(&world->kept);
	plan->has_resets = seed / 2 % 2 == 0;
	if (seed % 2 != 0 && seed % 8 != 7)
		return;
	prng_seed(prng, seed * 0xd1342543de82ef95ull + 3);
	plan->has_changes = true;
	plan->is_duel = seed % 16 == 6;
	plan->has_reservations = prng_one_in(prng, 2) || plan->is_duel;
	plan->has_bad_blocks = prng_one_in(prng, 2);
	plan->has_copies = prng_one_in(prng, 2);
	plan->mask_one_in = prng_one_in(prng, 3) ? 1 + (uint32_t)prng_below(prng, 10) : 0;
	plan->ana_one_in = prng_one_in(prng, 3) ? 1 + (uint32_t)prng_below(prng, 10) : 0;
	plan->grow_one_in = prng_one_in(prng, 3) ? 1 + (uint32_t)prng_below(prng, 10) : 0;
	plan->keep_fail_one_in = prng_one_in(prng, 3) ? 2 + (uint32_t)prng_below(prng, 10) : 0;
	/* Marks are stable, so the writes that clear them must be stable too. */
	if (seed % 16 == 14) {
		plan->has_bad_blocks = true;
		plan->power_loss_one_in = 1;
		plan->chaos_max_us = 2000;
	}
	/* Restarts show whether kept state is restored. */
	if ((plan->has_reservations || plan->has_bad_blocks) && prng_one_in(prng, 2))
		plan->restart_one_in = 5 + (uint32_t)prng_below(prng, 20);
}

/* ---- the state store ------------------------------------------------------------------------- */

struct kept {
	struct list node;
	char kind[32];
	char key[64];
	size_t bytes;
	uint8_t value[];
};

static struct kept *kept_find(const struct world *world, const char *kind, const char *key)
{
	list_for_each(node, &world->kept) {
		struct kept *kept = list_entry(node, struct kept, node);

		if (strcmp(kept->kind, kind) == 0 && strcmp(kept->key, key) == 0)
			return kept;
	}
	return NULL;
}

static int keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	struct world *world = arg;
	struct kept *kept = kept_find(world, kind, key);

	CHECK(reactor_current() == world->control);
	if (!sim_process_operate(sim_process_current()))
		return -EIO;
	if (world->phase == WORLD_TROUBLED && world->plan.keep_fail_one_in &&
	    prng_one_in(&world->change_prng, world->plan.keep_fail_one_in)) {
		world->stats->keep_failures++;
		return -ENOSPC;
	}
	if (kept) {
		list_remove(&kept->node);
		free(kept);
	}
	if (!value)
		return 0;
	kept = sim_alloc(sizeof(*kept) + value_bytes); /* it survives the target's process */
	snprintf(kept->kind, sizeof(kept->kind), "%s", kind);
	snprintf(kept->key, sizeof(kept->key), "%s", key);
	kept->bytes = value_bytes;
	memcpy(kept->value, value, value_bytes);
	list_push_back(&world->kept, &kept->node);
	return 0;
}

static int recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	const struct kept *kept = kept_find(arg, kind, key);

	if (!kept)
		return -ENOENT;
	*ret_value = malloc(kept->bytes ? kept->bytes : 1);
	CHECK(*ret_value != NULL);
	memcpy(*ret_value, kept->value, kept->bytes);
	*ret_bytes = kept->bytes;
	return 0;
}

struct keeper world_keeper(struct world *world)
{
	return (struct keeper){.keep = keep, .recall = recall, .arg = world};
}

void world_kept_free(struct world *world)
{
	struct list *node;

	while ((node = list_pop_front(&world->kept)) != NULL)
		free(list_entry(node, struct kept, node));
}

/* ---- restarts -------------------------------------------------------------------------------- */

struct ns_backing *world_backing_create(struct world *world, const struct world_ns *ns)
{
	struct keeper keeper = world_keeper(world);
	struct ns_backing *backing;
	struct ns_live *live;

	CHECK(ns_live_create(world->plan.data_reactors, &live) == 0);
	if (ns_live_recall(live, &ns->uuid, &keeper) != 0)
		world_fail(world, "namespace %u: the kept state cannot be read", ns->nsid);
	CHECK(ns_backing_create_for(ns->media, live, &backing) == 0);
	ns_live_put(live);
	return backing;
}

static void close_nothing(struct media *media)
{
}

/* Keeps the medium open: disks survive a restart of the machine. */
static void backing_put_without_medium(struct ns_backing *backing, struct media *media)
{
	const struct media_ops *ops = media->ops;
	struct media_ops deaf = *ops;
	struct media **children = media->children;
	unsigned child_count = media->child_count;
	bool is_wrapper = media->is_wrapper;
	char *spec = strdup(media->spec);

	CHECK(spec != NULL);
	deaf.close = close_nothing;
	media->ops = &deaf;
	media->children = NULL;
	media->child_count = 0;
	media->is_wrapper = false;
	ns_backing_put(backing);
	media->ops = ops;
	media->children = children;
	media->child_count = child_count;
	media->is_wrapper = is_wrapper;
	media->spec = spec;
}

static bool reservation_is_same(const struct reservation *a, const struct reservation *b)
{
	if (!a || !b)
		return a == b;
	return a->generation == b->generation && a->type == b->type && a->persists == b->persists &&
	       uuid_equal(&a->holder, &b->holder) && a->count == b->count &&
	       memcmp(a->registrants, b->registrants, a->count * sizeof(a->registrants[0])) == 0;
}

void world_ns_restart(struct world *world)
{
	for (unsigned i = 0; i < world->ns_count && world->plan.has_changes; i++) {
		struct world_ns *ns = &world->ns[i];
		struct reservation *was =
			reservation_get(ns_live_reservation(ns_backing_live(ns->backing)));
		const struct reservation *is;

		backing_put_without_medium(ns->backing, ns->media);
		ns->backing = world_backing_create(world, ns);
		is = ns_live_reservation(ns_backing_live(ns->backing));
		if (!reservation_is_same(was && was->persists ? was : NULL, is))
			world_fail(world, "namespace %u: after a restart %s", ns->nsid,
				   !is ? "its reservation is gone"
				       : "its reservation is a different one");
		world->stats->recalled += is != NULL && reservation_is_held(is);
		reservation_put(was);
		ns->reserve_quiet_at = world_step(world);
	}
}

/* ---- changes --------------------------------------------------------------------------------- */

bool world_ns_is_seen(const struct world_ns *ns, unsigned host_index)
{
	return ns->is_present && (ns->hidden_from >> host_index & 1) == 0;
}

/* Reopens the memory medium with more blocks at the end. */
static bool ns_grow(struct world *world, struct world_ns *ns)
{
	uint64_t room = WORLD_NS_BLOCKS_MAX - ns->block_count;
	uint64_t block_count = ns->block_count + 1 + prng_below(&world->change_prng, room + 1);
	struct media_error error;
	struct ns_backing *backing;
	struct media *media;
	char spec[64];

	if (!world_event(world) || ns->kind != WORLD_MEDIUM_MEM ||
	    block_count > WORLD_NS_BLOCKS_MAX)
		return false;
	snprintf(spec, sizeof(spec), "mem:%llu,block=%u",
		 (unsigned long long)block_count << ns->block_shift, 1u << ns->block_shift);
	/* Memory media have a size limit. */
	if (media_reopen(ns->media, spec, &media, &error) != 0)
		return false;
	CHECK(ns_backing_create_for(media, ns_backing_live(ns->backing), &backing) == 0);
	ns_backing_put(ns->backing);
	ns->backing = backing;
	ns->media = media;
	ns->block_count = block_count;
	return true;
}

static bool strikes(struct world *world, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&world->change_prng, one_in);
}

static enum ana_state ana_choose(struct prng *prng)
{
	static const enum ana_state states[] = {ANA_NON_OPTIMIZED, ANA_INACCESSIBLE,
						ANA_PERSISTENT_LOSS, ANA_CHANGE};

	return prng_one_in(prng, 2) ? ANA_OPTIMIZED : states[prng_below(prng, ARRAY_LEN(states))];
}

bool world_change(struct world *world)
{
	struct prng *prng = &world->change_prng;
	uint64_t block_count;
	struct world_ns *ns;
	unsigned seen_by;
	bool has_changed = false;

	if (!world->plan.has_changes)
		return false;
	ns = &world->ns[prng_below(prng, world->ns_count)];
	seen_by = duty_seen_by(world, ns);
	block_count = ns->block_count;
	if (strikes(world, world->plan.mask_one_in)) {
		unsigned host = 1u << prng_below(prng, world->plan.hosts);

		has_changed = world_event(world);
		ns->hidden_from ^= has_changed ? host : 0;
	}
	if (strikes(world, world->plan.ana_one_in)) {
		enum ana_state ana = ana_choose(prng);

		if (world_event(world)) {
			sim_transition_ana(world->counters, ns->ana, ana);
			ns->ana = ana;
			has_changed = true;
		}
	}
	if (strikes(world, world->plan.grow_one_in))
		has_changed |= ns_grow(world, ns);
	if (!has_changed)
		return false;
	seen_by ^= duty_seen_by(world, ns);
	duty_ns_changed(world, ns,
			ns->block_count == block_count ? seen_by
						       : seen_by | duty_seen_by(world, ns));
	ns->settled_at = MODEL_NEVER;
	world->stats->changes++;
	sim_trace(world->sim, "world: namespace %u hidden from %x, ANA %x, %llu blocks", ns->nsid,
		  ns->hidden_from, (unsigned)ns->ana, (unsigned long long)ns->block_count);
	return true;
}

void world_masks_build(struct world *world, struct snapshot *snapshot)
{
	struct subsystem *subsystem = snapshot->subsystems[0];

	if (!world->plan.has_changes)
		return;
	snapshot->mask_host_count = world->plan.hosts;
	snapshot->mask_hosts = calloc(world->plan.hosts, sizeof(*snapshot->mask_hosts));
	snapshot->masks = calloc(subsystem->ns_count + 1, sizeof(struct ns_mask *));
	CHECK(snapshot->mask_hosts != NULL && snapshot->masks != NULL);
	for (unsigned i = 0; i < world->plan.hosts; i++)
		snprintf(snapshot->mask_hosts[i], sizeof(snapshot->mask_hosts[i]),
			 "nqn.2026-11.io.weft:sim%u", i);
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		struct ns *ns = &subsystem->namespaces[i];
		const struct world_ns *from;
		struct ns_mask *mask;

		ns->ana_group = ns->nsid;
		/* The neighbour's namespace is visible to every host. */
		if (ns->nsid > world->ns_count)
			continue;
		from = &world->ns[ns->nsid - 1];
		if (from->hidden_from == 0)
			continue;
		mask = calloc(1, sizeof(*mask) + sizeof(mask->words[0]));
		CHECK(mask != NULL);
		mask->has_others = true;
		mask->host_count = world->plan.hosts;
		mask->words[0] = ~(uint64_t)from->hidden_from & ((1ull << mask->host_count) - 1);
		snapshot->masks[snapshot->mask_count++] = mask;
		ns->mask = mask;
	}
	subsystem->ana_group_max = world->ns_count;
}

void world_ana_build(struct world *world, struct port *port)
{
	if (!world->plan.has_changes)
		return;
	port->ana = calloc(world->ns_count, sizeof(*port->ana));
	CHECK(port->ana != NULL);
	for (unsigned i = 0; i < world->ns_count; i++) {
		if (world->ns[i].ana != ANA_OPTIMIZED)
			port->ana[port->ana_count++] = (struct ana_group_state){
				.group = world->ns[i].nsid, .state = world->ns[i].ana};
	}
}
