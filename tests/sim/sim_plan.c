/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a seed chooses: sizes, media, and which troubles are on. Most seeds switch most troubles
 * off, because a trouble that ends every connection hides other bugs. Also builds the namespaces
 * and their snapshots. One thread.
 */
#include "sim_media.h"
#include "sim_world.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const world_feature_names[] = {
	"hosts",
	"reactors",
	"namespaces",
	"discovery",
	"cuts",
	"partitions",
	"swaps",
	"restarts",
	"power_losses",
	"crashes",
	"leaves",
	"aborts",
	"admin",
	"small_pools",
	"net_resets",
	"stalls",
	"half_closes",
	"refusals",
	"small_windows",
	"segments",
	"short_recvs",
	"zero_copy",
	"changes",
	"reservations",
	"duel",
	"bad_blocks",
	"copies",
	"masks",
	"ana",
	"growth",
	"keep_failures",
	"ctrl_resets",
	"media_errors",
	"media_spikes",
	"deaf_media",
	"volatile_caches",
	"news",
	"misfits",
	"odds",
	"idle",
	"large",
	LATE_FEATURE_NAMES,
	WRECK_FEATURE_NAMES,
	NEIGHBOUR_FEATURE_NAMES,
	"late_data",
	NULL,
};

/* 0 (never) in two of three cases, else a number between low and high. */
static uint32_t maybe(struct prng *prng, uint32_t low, uint32_t high)
{
	if (!prng_one_in(prng, 3))
		return 0;
	return low + (uint32_t)prng_below(prng, high - low + 1);
}

void world_plan_choose(struct world *world, struct sim_options *options)
{
	struct prng *prng = &world->prng;
	struct world_plan *plan = &world->plan;

	*plan = (struct world_plan){
		.data_reactors = 1 + (unsigned)prng_below(prng, WORLD_REACTORS_MAX),
		.hosts = 1 + (unsigned)prng_below(prng, WORLD_HOSTS_MAX - 1),
		.has_discovery = prng_one_in(prng, 3),
		.commands_max = 300 + prng_below(prng, 900),
		.think_max_us = prng_one_in(prng, 2) ? 20 : 2000,
		.chaos_max_us = 1000 + (uint32_t)prng_below(prng, 60000),
		.cut_one_in = maybe(prng, 2, 20),
		.partition_one_in = maybe(prng, 5, 30),
		.swap_one_in = maybe(prng, 1, 10),
		.restart_one_in = maybe(prng, 5, 40),
		.power_loss_one_in = maybe(prng, 1, 20),
		.crash_one_in = maybe(prng, 50, 500),
		.leave_one_in = maybe(prng, 50, 500),
		.abort_one_in = maybe(prng, 2, 30),
		.admin_one_in = maybe(prng, 3, 30),
		.has_small_pools = prng_one_in(prng, 3),
		.faults =
			{
				.reset_ppm = maybe(prng, 100, 3000),
				.stall_ppm = maybe(prng, 100, 20000),
				.half_close_ppm = maybe(prng, 100, 2000),
				.refuse_ppm = maybe(prng, 10000, 300000),
				.stall_max_us = 100 + (uint32_t)prng_below(prng, 200000),
			},
	};
	*options = (struct sim_options){
		.latency_max_us = 1 + (uint32_t)prng_below(prng, 200),
		.post_max_us = 1 + (uint32_t)prng_below(prng, 50),
		.window_max_bytes = prng_one_in(prng, 3) ? 8192 : 0,
		.segment_max_bytes =
			prng_one_in(prng, 4) ? 1 + (uint32_t)prng_below(prng, 1500) : 0,
		.recv_max_bytes = prng_one_in(prng, 4) ? 64 + (uint32_t)prng_below(prng, 5000) : 0,
		.connect_timeout_us = 1000000,
		.faults = plan->faults,
	};
	/* From the seed itself: another draw would change the runs of all old seeds. */
	if (world->hash % 4 == 3) {
		plan->zero_copy = world->hash % 8 == 3 ? ZERO_COPY_ON : ZERO_COPY_AUTO;
		options->zc_hold_max_us = world->hash % 5 == 0 ? 20000 : 0;
		options->zc_refuse_one_in = world->hash % 3 == 0 ? 6 : 0;
		options->zc_copied_one_in = 2;
	}
}

static void figure_shrink(struct world *world, enum world_feature feature, uint32_t *figure)
{
	*figure = world_feature(world, feature, *figure > 0) ? *figure : 0;
}

static void flag_shrink(struct world *world, enum world_feature feature, bool *flag)
{
	*flag = world_feature(world, feature, *flag);
}

static void troubles_shrink(struct world *world)
{
	struct world_plan *plan = &world->plan;

	figure_shrink(world, FEATURE_CUTS, &plan->cut_one_in);
	figure_shrink(world, FEATURE_PARTITIONS, &plan->partition_one_in);
	figure_shrink(world, FEATURE_SWAPS, &plan->swap_one_in);
	figure_shrink(world, FEATURE_RESTARTS, &plan->restart_one_in);
	figure_shrink(world, FEATURE_POWER_LOSSES, &plan->power_loss_one_in);
	figure_shrink(world, FEATURE_CRASHES, &plan->crash_one_in);
	figure_shrink(world, FEATURE_LEAVES, &plan->leave_one_in);
	figure_shrink(world, FEATURE_ABORTS, &plan->abort_one_in);
	figure_shrink(world, FEATURE_ADMIN, &plan->admin_one_in);
	flag_shrink(world, FEATURE_SMALL_POOLS, &plan->has_small_pools);
	flag_shrink(world, FEATURE_NEWS, &plan->has_news);
	flag_shrink(world, FEATURE_LARGE, &plan->has_large);
	figure_shrink(world, FEATURE_MISFITS, &plan->misfit_one_in);
	figure_shrink(world, FEATURE_ODDS, &plan->odd_one_in);
	figure_shrink(world, FEATURE_IDLE, &plan->idle_one_in);
	flag_shrink(world, FEATURE_CTRL_RESETS, &plan->has_resets);
	flag_shrink(world, FEATURE_CHANGES, &plan->has_changes);
	if (!plan->has_changes) {
		plan->has_reservations = plan->is_duel = plan->has_bad_blocks = false;
		plan->has_copies = false;
		plan->mask_one_in = plan->ana_one_in = plan->grow_one_in = 0;
		plan->keep_fail_one_in = 0;
	}
	flag_shrink(world, FEATURE_RESERVATIONS, &plan->has_reservations);
	plan->is_duel &= plan->has_reservations;
	flag_shrink(world, FEATURE_DUEL, &plan->is_duel);
	plan->has_late_data &= plan->is_duel;
	flag_shrink(world, FEATURE_LATE_DATA, &plan->has_late_data);
	flag_shrink(world, FEATURE_BAD_BLOCKS, &plan->has_bad_blocks);
	flag_shrink(world, FEATURE_COPIES, &plan->has_copies);
	figure_shrink(world, FEATURE_MASKS, &plan->mask_one_in);
	figure_shrink(world, FEATURE_ANA, &plan->ana_one_in);
	figure_shrink(world, FEATURE_GROWTH, &plan->grow_one_in);
	figure_shrink(world, FEATURE_KEEP_FAILURES, &plan->keep_fail_one_in);
}

static bool late_feature(void *arg, unsigned feature, bool is_chosen)
{
	return world_feature(arg, (enum world_feature)(FEATURE_LATE + feature), is_chosen);
}

void world_plan_shrink(struct world *world, struct sim_options *options)
{
	struct world_plan *plan = &world->plan;
	struct sim_faults *faults = &options->faults;
	uint64_t commands_max = world->scenario->commands_max;

	if (!world_feature(world, FEATURE_HOSTS, plan->hosts > 1))
		plan->hosts = 1;
	if (!world_feature(world, FEATURE_REACTORS, plan->data_reactors > 1))
		plan->data_reactors = 1;
	flag_shrink(world, FEATURE_DISCOVERY, &plan->has_discovery);
	if (commands_max > 0 && commands_max < plan->commands_max)
		plan->commands_max = commands_max;
	troubles_shrink(world);
	figure_shrink(world, FEATURE_NET_RESETS, &faults->reset_ppm);
	figure_shrink(world, FEATURE_STALLS, &faults->stall_ppm);
	figure_shrink(world, FEATURE_HALF_CLOSES, &faults->half_close_ppm);
	figure_shrink(world, FEATURE_REFUSALS, &faults->refuse_ppm);
	late_shrink(&world->late, late_feature, world);
	wreck_shrink(world);
	neighbours_shrink(world, options);
	faults->slow_ppm = world->late.slow_ppm;
	plan->faults = *faults;
	figure_shrink(world, FEATURE_SMALL_WINDOWS, &options->window_max_bytes);
	figure_shrink(world, FEATURE_SEGMENTS, &options->segment_max_bytes);
	figure_shrink(world, FEATURE_SHORT_RECVS, &options->recv_max_bytes);
	if (!world_feature(world, FEATURE_ZERO_COPY, plan->zero_copy != ZERO_COPY_OFF))
		plan->zero_copy = ZERO_COPY_OFF;
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static struct media *disk_open(struct world *world, struct world_ns *ns,
			       const struct sim_media_options *from)
{
	const struct sim_disk_options options = {
		.seed = from->seed,
		.block_count = from->block_count,
		.block_bytes = from->block_bytes,
		.delay_max_us = from->delay_max_us,
		.spike_one_in = from->spike_one_in,
		.spike_max_us = from->delay_max_us * 100,
		.error_one_in = from->error_one_in,
		.cancel_deaf_one_in = from->cancel_deaf_one_in,
		.has_volatile_cache = from->has_volatile_cache,
		.can_discard = from->can_discard,
		.reads_zero_after_discard = from->reads_zero_after_discard,
	};

	ns->can_fail |= world->wreck.cut_one_in > 0;
	return wreck_medium_open(world, ns, &options);
}

static struct media *medium_open(struct world *world, struct world_ns *ns)
{
	struct prng *prng = &world->prng;
	unsigned block = 1u << ns->block_shift;
	unsigned long long size = ns->block_count << ns->block_shift;
	struct media_error error;
	struct media *media;
	char spec[256];

	if (ns->kind == WORLD_MEDIUM_SIM) {
		struct sim_media_options options = {
			.seed = prng_next(prng),
			.block_count = ns->block_count,
			.block_bytes = block,
			.delay_max_us = 1 + (uint32_t)prng_below(prng, 500),
			.spike_one_in = maybe(prng, 20, 200),
			.error_one_in = maybe(prng, 20, 200),
			.cancel_deaf_one_in = maybe(prng, 1, 4),
			.has_volatile_cache = prng_one_in(prng, 2),
			.can_discard = !prng_one_in(prng, 4),
			.reads_zero_after_discard = prng_one_in(prng, 2),
		};

		/* A duel needs commands that take long. */
		if (world->plan.is_duel)
			options.spike_one_in = 5;
		figure_shrink(world, FEATURE_MEDIA_SPIKES, &options.spike_one_in);
		figure_shrink(world, FEATURE_MEDIA_ERRORS, &options.error_one_in);
		figure_shrink(world, FEATURE_DEAF_MEDIA, &options.cancel_deaf_one_in);
		flag_shrink(world, FEATURE_VOLATILE_CACHES, &options.has_volatile_cache);
		/* A cancelled command would leave nothing to wait for. */
		if (world->plan.is_duel)
			options.cancel_deaf_one_in = 1;
		ns->can_fail = options.error_one_in > 0 || world->plan.power_loss_one_in > 0;
		if (world->wreck.is_on)
			return disk_open(world, ns, &options);
		return sim_media_open(&options);
	}
	if (ns->kind == WORLD_MEDIUM_MEM)
		snprintf(spec, sizeof(spec), "mem:%llu,block=%u", size, block);
	else if (ns->kind == WORLD_MEDIUM_NULL)
		snprintf(spec, sizeof(spec), "null:%llu,block=%u", size, block);
	else
		snprintf(spec, sizeof(spec),
			 "fault:delay:prob=20:ms=%u:seed=%u+tear:prob=3:seed=%u+"
			 "fail:op=any:prob=3:seed=%u@mem:%llu,block=%u",
			 1 + (unsigned)prng_below(prng, 9), (unsigned)prng_below(prng, 1000),
			 (unsigned)prng_below(prng, 1000), (unsigned)prng_below(prng, 1000), size,
			 block);
	ns->can_fail = ns->kind == WORLD_MEDIUM_FAULT;
	if (media_open(spec, &media, &error) != 0)
		check_failed(__FILE__, __LINE__, error.text);
	return media;
}

void world_ns_create(struct world *world)
{
	struct prng *prng = &world->prng;
	char name[64];

	world->media_before = sim_media_open_count();
	world->ns_count = 1 + (unsigned)prng_below(prng, WORLD_NS_MAX);
	/* All hosts must use the same namespace. */
	if (world->plan.is_duel)
		world->ns_count = 1;
	if (!world_feature(world, FEATURE_NAMESPACES, world->ns_count > 1))
		world->ns_count = 1;
	for (unsigned i = 0; i < world->ns_count; i++) {
		struct world_ns *ns = &world->ns[i];

		ns->nsid = i + 1;
		ns->kind = (enum world_medium)prng_below(prng, i == 0 ? 3 : 4);
		/* Memory media do not survive the process. */
		if ((world->wreck.crash_one_in > 0 && ns->kind != WORLD_MEDIUM_NULL) ||
		    (world->plan.is_duel && !world->plan.has_late_data))
			ns->kind = WORLD_MEDIUM_SIM;
		ns->block_shift = prng_one_in(prng, 2) ? 9 : 12;
		ns->block_count = 16 + prng_below(prng, WORLD_NS_BLOCKS_MAX - 16);
		ns->is_present = true;
		ns->ana = ANA_OPTIMIZED;
		ns->first_block_count = ns->block_count;
		snprintf(name, sizeof(name), "sim ns %u", ns->nsid);
		uuid_from_name(name, &ns->uuid);
		ns->settled_at = MODEL_NEVER;
		ns->media = medium_open(world, ns);
		ns->backing = world_backing_create(world, ns);
		/* The source of a Copy must not change by a loss of the cache. */
		if (world->plan.has_copies && ns->kind != WORLD_MEDIUM_NULL &&
		    !ns->media->has_volatile_cache)
			ns->quarry_first = ns->block_count - WORLD_QUARRY_BLOCKS;
		if (ns->kind != WORLD_MEDIUM_NULL)
			ns->model =
				model_create(WORLD_NS_BLOCKS_MAX, ns->media->has_volatile_cache);
	}
}

void world_ns_reopen(struct world *world)
{
	for (unsigned i = 0; i < world->ns_count; i++) {
		struct world_ns *ns = &world->ns[i];

		ns->media = ns->disk ? wreck_medium_open(world, ns, NULL) : medium_open(world, ns);
		ns->backing = world_backing_create(world, ns);
	}
}

void world_ns_destroy(struct world *world)
{
	wreck_enter(world);
	for (unsigned i = 0; i < world->ns_count; i++)
		ns_backing_put(world->ns[i].backing);
	wreck_leave(world);
	wreck_end(world);
	for (unsigned i = 0; i < world->ns_count; i++) {
		wreck_ns_free(&world->ns[i]);
		if (world->ns[i].model)
			model_destroy(world->ns[i].model);
	}
	if (sim_media_open_count() != world->media_before)
		world_fail(world, "a medium was not closed");
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static void *made(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	CHECK(memory != NULL);
	return memory;
}

static struct subsystem *subsystem_build(struct world *world)
{
	struct subsystem *subsystem = made(1, sizeof(*subsystem));

	text_copy(subsystem->nqn, sizeof(subsystem->nqn), TARGET_DEFAULT_NQN);
	text_copy(subsystem->serial, sizeof(subsystem->serial), "SIM1");
	text_copy(subsystem->model, sizeof(subsystem->model), "weft sim");
	subsystem->allows_any_host = true;
	subsystem->ana_group_max = 1;
	subsystem->namespaces = ns_array_create(world->ns_count + 1);
	CHECK(subsystem->namespaces);
	for (unsigned i = 0; i < world->ns_count; i++) {
		const struct world_ns *from = &world->ns[i];
		struct ns *ns = &subsystem->namespaces[subsystem->ns_count];

		if (!from->is_present)
			continue;
		subsystem->ns_count++;
		*ns = (struct ns){
			.nsid = from->nsid,
			.is_read_only = from->is_read_only,
			.ana_group = 1,
		};
		ns_bind(ns, ns_backing_get(from->backing));
		ns->uuid = from->uuid;
		memcpy(ns->nguid, ns->uuid.bytes, sizeof(ns->nguid));
	}
	neighbours_build(world, subsystem);
	return subsystem;
}

static void limits_choose(struct target_limits *limits)
{
	limits->ic_timeout_ms = 2000;
	limits->connect_timeout_ms = 2000;
	limits->data_timeout_ms = 3000;
}

struct snapshot *world_snapshot_build(struct world *world)
{
	struct snapshot *snapshot = snapshot_create();
	struct port *port;

	CHECK(snapshot != NULL);
	limits_choose(&snapshot->limits);
	snapshot->discovery_generation = world->step;
	world->duties.generation_built = world->step;
	snapshot->subsystem_count = 1;
	snapshot->subsystems = made(1, sizeof(*snapshot->subsystems));
	snapshot->subsystems[0] = subsystem_build(world);
	world_masks_build(world, snapshot);
	snapshot->port_count = 1;
	snapshot->ports = made(1, sizeof(*snapshot->ports));
	port = &snapshot->ports[0];
	port->id = 1;
	port->listen = world->addr;
	port->subsystems = made(1, sizeof(*port->subsystems));
	port->subsystems[0] = snapshot->subsystems[0];
	port->subsystem_count = 1;
	world_ana_build(world, port);
	port->zero_copy = world->plan.zero_copy;
	port->zero_copy_min_bytes = 600; /* more than a small block, less than a large one */
	return snapshot;
}
