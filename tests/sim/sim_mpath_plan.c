/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multipath world: what a seed chooses, what shrinking removes, and the report of a run. One
 * thread.
 */
#include "sim_mpath.h"

#include "base/clock.h"
#include "host/mpath_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum feature {
	FEATURE_TWO_TARGETS,
	FEATURE_THIRD_PORT,
	FEATURE_NET_RESETS,
	FEATURE_STALLS,
	FEATURE_ZERO_COPY,
	FEATURE_ZERO_COPY_HELD,
	FEATURE_ZERO_COPY_REFUSED,
	FEATURE_CTRL_RESETS,
	FEATURE_HEDGES,
	FEATURE_DIGESTS,
	FEATURE_SPIKES,
	FEATURE_DEAF_MEDIA,
	FEATURE_SILENCE,
	FEATURE_FAST_IO_FAIL,
	FEATURE_CUTS,
	FEATURE_PARTITIONS,
	FEATURE_ANA,
	FEATURE_RESTARTS,
	FEATURE_FREEZES,
	FEATURE_FLIPS,
	FEATURE_REMOVALS,
	FEATURE_WORKERS,
	FEATURE_EDGES,
	FEATURE_LATE, /* the first of enum late_feature */
	/* The first of enum tenant_feature. This world does not use LATE_FLIPS. */
	FEATURE_TENANT = FEATURE_LATE + LATE_FEATURES - 1,
	FEATURE_POWER_LOSS = FEATURE_TENANT + TENANT_FEATURES,
	FEATURE_FLUSH_FAILURES,
	FEATURE_KILLS,
};

static const char *const feature_names[] = {
	"two_targets",
	"third_port",
	"net_resets",
	"stalls",
	"zero_copy",
	"zero_copy_held",
	"zero_copy_refused",
	"ctrl_resets",
	"hedges",
	"digests",
	"spikes",
	"deaf_media",
	"silence",
	"fast_io_fail",
	"cuts",
	"partitions",
	"ana",
	"restarts",
	"freezes",
	"flips",
	"removals",
	"workers",
	"edges",
	LATE_FEATURE_NAMES_BUT_FLIPS,
	TENANT_FEATURE_NAMES,
	"power",
	"flush_failures",
	"kills",
	NULL,
};

static bool feature(struct mrun *run, enum feature feature, bool is_chosen)
{
	if (!is_chosen || (run->scenario->features_off >> feature & 1))
		return false;
	run->verdict->features_on |= 1ull << feature;
	return true;
}

static uint32_t figure(struct mrun *run, enum feature which, uint32_t chosen)
{
	return feature(run, which, chosen > 0) ? chosen : 0;
}

static uint32_t maybe(struct prng *prng, uint32_t low, uint32_t high)
{
	return prng_one_in(prng, 3) ? 0 : low + (uint32_t)prng_below(prng, high - low + 1);
}

static void probe_choose(struct mrun *run, struct probe *probe)
{
	prng_seed(&probe->prng, prng_next(&run->prng));
	probe->random_delay_us = 1 + prng_below(&run->prng, 3000);
	probe->spike_one_in = figure(run, FEATURE_SPIKES, maybe(&run->prng, 5, 100));
	/* Below CQT: a slower medium would break the target's promise. */
	probe->spike_us = 300000;
	probe->is_deaf = feature(run, FEATURE_DEAF_MEDIA, prng_one_in(&run->prng, 2));
}

static void timeouts_choose(struct mrun *run)
{
	struct host_timeouts *timeouts = &run->world.config.timeouts;
	struct prng *prng = &run->prng;

	timeouts->keep_alive_ms = 300 + (uint32_t)prng_below(prng, 1200);
	timeouts->silence_ms = prng_one_in(prng, 3) ? 0 : 100 + (uint32_t)prng_below(prng, 150);
	timeouts->silence_ms = figure(run, FEATURE_SILENCE, timeouts->silence_ms);
	timeouts->command_ms = 600 + (uint32_t)prng_below(prng, 1500);
	timeouts->stable_ms = 1 + (uint32_t)prng_below(prng, 1000);
	timeouts->reset_ms = 50 + (uint32_t)prng_below(prng, 1000);
	timeouts->fast_io_fail_ms =
		prng_one_in(prng, 3) ? 200 + (uint32_t)prng_below(prng, 3000) : 0;
	timeouts->fast_io_fail_ms = figure(run, FEATURE_FAST_IO_FAIL, timeouts->fast_io_fail_ms);
	timeouts->quiesce_ms = 400;
	run->world.config.policy = (enum path_policy)prng_below(prng, 4);
	run->world.config.io_queues = 1 + (unsigned)prng_below(prng, 3);
	run->world.config.io_queue_size = 3 + (unsigned)prng_below(prng, 14); /* fits fused pairs */
	run->world.config.wants_header_digest = prng_one_in(prng, 2);
	run->world.config.wants_data_digest = prng_one_in(prng, 2);
	if (prng_one_in(prng, 3))
		run->world.config.hedge =
			(struct mpath_hedge){.percentile = 5000 + (uint32_t)prng_below(prng, 4900),
					     .extra_percent = 1 + (uint32_t)prng_below(prng, 50)};
	if (!feature(run, FEATURE_HEDGES, run->world.config.hedge.percentile > 0))
		run->world.config.hedge = (struct mpath_hedge){0};
	run->world.config.zero_copy_min_bytes =
		figure(run, FEATURE_ZERO_COPY, prng_one_in(prng, 3) ? 512 : 0);
}

static bool late_feature(void *arg, unsigned which, bool is_chosen)
{
	return feature(arg, (enum feature)(FEATURE_LATE + which), is_chosen);
}

static bool tenant_feature(void *arg, unsigned which, bool is_chosen)
{
	return feature(arg, (enum feature)(FEATURE_TENANT + which), is_chosen);
}

static void options_shrink(struct mrun *run, struct sim_options *options)
{
	options->faults.reset_ppm = figure(run, FEATURE_NET_RESETS, options->faults.reset_ppm);
	options->faults.stall_ppm = figure(run, FEATURE_STALLS, options->faults.stall_ppm);
	options->zc_hold_max_us = figure(run, FEATURE_ZERO_COPY_HELD, options->zc_hold_max_us);
	options->zc_refuse_one_in =
		figure(run, FEATURE_ZERO_COPY_REFUSED, options->zc_refuse_one_in);
}

static void troubles_shrink(struct mrun *run)
{
	struct mpath_config *config = &run->world.config;

	run->cut_one_in = figure(run, FEATURE_CUTS, run->cut_one_in);
	run->partition_one_in = figure(run, FEATURE_PARTITIONS, run->partition_one_in);
	run->ana_one_in = figure(run, FEATURE_ANA, run->ana_one_in);
	run->restart_one_in = figure(run, FEATURE_RESTARTS, run->restart_one_in);
	run->freeze_one_in = figure(run, FEATURE_FREEZES, run->freeze_one_in);
	run->remove_one_in = figure(run, FEATURE_REMOVALS, run->remove_one_in);
	/* Without digests flipped bits are not noticed. */
	if (!feature(run, FEATURE_DIGESTS,
		     config->wants_header_digest || config->wants_data_digest)) {
		config->wants_header_digest = config->wants_data_digest = false;
		run->flip_one_in = 0;
	}
	run->flip_one_in = figure(run, FEATURE_FLIPS, run->flip_one_in);
	if (!feature(run, FEATURE_WORKERS, run->worker_count > 1))
		run->worker_count = 1;
}

/* Switches off troubles that the judgement of tenants does not cover. */
static void tenants_calm(struct mrun *run)
{
	/* The wrong machine is recognised by comparison with the controllers of other paths. */
	if (run->tenants.twin_one_in > 0)
		run->remove_one_in = 0;
	if (!run->tenants.is_clone)
		return;
	run->cut_one_in = run->partition_one_in = run->restart_one_in = 0;
	run->freeze_one_in = run->flip_one_in = 0;
	run->late.is_on = false;
}

/* A frozen target has no power loss at the same time. A clone would have outdated blocks. */
static bool has_cache(struct mrun *run, bool is_chosen)
{
	if (!is_chosen || run->world.target_count == 2 || run->tenants.twin_one_in > 0 ||
	    run->tenants.is_clone)
		return false;
	run->freeze_one_in = 0;
	return true;
}

/* Chosen after all draws and from the seed itself, so that other seeds do not change. */
static void caches_choose(struct mrun *run)
{
	uint64_t seed = run->scenario->seed;
	bool has_power = seed / 3 % 3 == 1;
	bool has_faults = seed / 3 % 3 == 2 && seed % 2 == 1;

	power_choose(run, feature(run, FEATURE_POWER_LOSS, has_cache(run, has_power)));
	if (!feature(run, FEATURE_FLUSH_FAILURES, has_cache(run, has_faults)))
		return;
	power_faults_choose(run, feature(run, FEATURE_POWER_LOSS, seed % 4 == 1),
			    feature(run, FEATURE_KILLS, seed / 9 % 2 == 1));
}

/* With partitions too, troubles are long and seldom more frequent than fences take. */
static void apart_choose(struct mrun *run)
{
	run->is_apart = run->is_edgy && run->scenario->seed % 8 == 6;
	if (run->is_apart) {
		run->think_max_us = 20000;
		if (run->scenario->commands_max == 0)
			run->commands_left += 1500;
		run->chaos_max_us = 50000;
	}
}

void mpath_world_choose(struct mrun *run)
{
	struct prng *prng = &run->prng;
	unsigned ports = 2 + (unsigned)prng_below(prng, 2);
	/* From the seed itself, so that other seeds do not change. */
	bool is_edgy = run->scenario->seed % 4 == 2;
	bool is_two = prng_one_in(prng, 3);
	uint64_t commands_max = run->scenario->commands_max;
	struct sim_options options = {
		.latency_max_us = 1 + (uint32_t)prng_below(prng, 200),
		.connect_timeout_us = 1000000,
		.faults = {.reset_ppm = prng_one_in(prng, 3) ? (uint32_t)prng_below(prng, 2000) : 0,
			   .stall_ppm =
				   prng_one_in(prng, 3) ? (uint32_t)prng_below(prng, 10000) : 0,
			   .stall_max_us = 100 + (uint32_t)prng_below(prng, 200000)},
		.zc_hold_max_us = prng_one_in(prng, 3) ? 200000 : 0,
		.zc_refuse_one_in = prng_one_in(prng, 3) ? 6 : 0,
	};

	run->is_edgy = feature(run, FEATURE_EDGES, is_edgy);
	is_two = feature(run, FEATURE_TWO_TARGETS, is_two || run->is_edgy);
	late_choose(&run->late, run->scenario->seed);
	run->late.flip_one_in = 0; /* this world flips bits itself */
	late_shrink(&run->late, late_feature, run);
	tenants_choose(&run->tenants, run->scenario->seed, is_two);
	tenants_shrink(&run->tenants, tenant_feature, run);
	options.faults.slow_ppm = run->late.slow_ppm;
	if (run->tenants.is_clone)
		options.faults = (struct sim_faults){0};
	options_shrink(run, &options);
	if (!feature(run, FEATURE_THIRD_PORT, ports > 2))
		ports = 2;
	if (is_two)
		mworld_create_two(&run->world, run->scenario->seed, ports, false, &options);
	else if (run->tenants.is_wide)
		mworld_create_wide(&run->world, run->scenario->seed, ports, &options);
	else
		mworld_create(&run->world, run->scenario->seed, ports, &options);
	run->has_reset = feature(run, FEATURE_CTRL_RESETS, !is_two && !prng_one_in(prng, 4));
	probe_choose(run, run->world.ns[0].probe);
	if (is_two)
		probe_choose(run, run->world.ns[0].second_probe);
	timeouts_choose(run);
	/* The target promises this time and keeps it. */
	run->world.quiesce_ms = prng_one_in(prng, 2) ? 400 : 0;
	mworld_apply(&run->world);
	run->commands_left = 200 + prng_below(prng, 600);
	if (commands_max > 0 && commands_max < run->commands_left)
		run->commands_left = commands_max;
	run->chaos_max_us = 1000 + (uint32_t)prng_below(prng, 200000);
	run->cut_one_in = maybe(prng, 2, 20);
	run->partition_one_in = maybe(prng, 3, 30);
	run->ana_one_in = maybe(prng, 2, 20);
	run->restart_one_in = prng_one_in(prng, 3) ? 5 + (uint32_t)prng_below(prng, 40) : 0;
	run->freeze_one_in = prng_one_in(prng, 3) ? 3 + (uint32_t)prng_below(prng, 40) : 0;
	if (run->world.config.wants_header_digest && run->world.config.wants_data_digest)
		run->flip_one_in = prng_one_in(prng, 2) ? 30 + (uint32_t)prng_below(prng, 1000) : 0;
	run->remove_one_in = prng_one_in(prng, 3) ? 2 + (uint32_t)prng_below(prng, 20) : 0;
	run->think_max_us = prng_one_in(prng, 2) ? 20 : 5000;
	run->worker_count = 1 + (unsigned)prng_below(prng, WORKERS_MAX);
	if (run->is_edgy)
		run->freeze_one_in = 3;
	apart_choose(run);
	tenants_calm(run);
	troubles_shrink(run);
	caches_choose(run);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void stats_count(struct mrun *run, struct sim_counters *counters)
{
	struct mpath_run_stats *stats = &run->stats;
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{"blocks_checked", stats->blocks_checked},
		{"commands_sent_again", stats->resent},
		{"outcomes_unknown", stats->unknown},
		{"commands_without_a_path", stats->no_path},
		{"connections_cut", stats->cuts},
		{"partitions", stats->partitions},
		{"ANA_changes", stats->ana_changes},
		{"ANA_group_moves", stats->group_moves},
		{"target_restarts", stats->restarts},
		{"targets_frozen", stats->freezes},
		{"power_lost", run->power_losses},
		{"flushes", stats->flushes},
		{"flushes_that_report_lost_writes", stats->flushes_lost},
		{"flushes_that_the_medium_failed", stats->flushes_failed},
		{"failures_to_write_back", stats->write_backs_failed},
		{"rechecks", stats->rechecks},
		{"targets_killed", stats->kills},
		{"bits_flipped", stats->flips},
		{"paths_removed_or_added", stats->removals},
		{"paths_lost", stats->losses},
		{"one_way_partitions", run->late.one_ways},
		{"limits_of_bandwidth", run->late.limits},
		{"streams_ended", run->late.ends},
		{"fences_by_reset", stats->fences_by_reset},
		{"fences_by_time", stats->fences_by_time},
		{"commands_of_tenants", run->tenants.commands},
		{"stale_commands", run->tenants.stale},
		{"namespaces_replaced", run->tenants.replaced},
		{"namespaces_formatted", run->tenants.formatted},
		{"wrong_machines", run->tenants.twins},
		{"wrong_machines_refused", run->tenants.refusals},
	};

	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		sim_counter_add(counters, counts[i].name, counts[i].value);
	for (unsigned i = 0; i < SIM_STATUS_MAX; i++)
		counters->statuses[i] += stats->statuses[i];
}

static void paths_count(struct mrun *run)
{
	for (unsigned i = 0; i < run->world.port_count; i++) {
		struct path_info info = mworld_info(&run->world, i);

		run->stats.losses += info.losses;
		run->stats.fences_by_reset += info.fences_by_reset;
		run->stats.fences_by_time += info.fences_by_time;
	}
}

static void run_end(struct mrun *run)
{
	struct sim_verdict *verdict = run->verdict;

	verdict->simulated_ns = sim_now(run->world.sim) - NS_PER_S;
	verdict->commands = run->stats.commands;
	verdict->events = run->event_count;
	/* After a violation operations may be in flight, so objects are not freed one by one. */
	if (run->is_failed) {
		sim_destroy(run->world.sim);
	} else if (!tenants_close(run) || mworld_destroy(&run->world) > 0) {
		snprintf(verdict->what, sizeof(verdict->what), "something is left over");
		run->is_failed = true;
	}
	mpath_hash_add(run, run->step);
	verdict->hash = run->hash;
	verdict->is_ok = !run->is_failed;
}

static void mpath_run(const struct sim_scenario *scenario, struct sim_counters *counters,
		      struct sim_verdict *ret_verdict)
{
	struct mrun *run = calloc(1, sizeof(*run));

	CHECK(run != NULL);
	memset(ret_verdict, 0, sizeof(*ret_verdict));
	run->scenario = scenario;
	run->verdict = ret_verdict;
	run->counters = counters;
	run->hash = scenario->seed;
	run->next_value = 1;
	prng_seed(&run->prng, scenario->seed * 0x9e3779b97f4a7c15ull + 7);
	mpath_world_choose(run);
	run->model = model_create(MWORLD_BLOCKS, run->is_volatile);
	mpath_run_play(run);
	if (!run->is_failed)
		paths_count(run);
	run_end(run);
	stats_count(run, counters);
	if (ret_verdict->is_ok) {
		tenants_free(run);
		model_destroy(run->model);
		free(run);
	}
}

const struct sim_world_kind sim_world_mpath = {
	.name = "mpath",
	.features = feature_names,
	.run = mpath_run,
};
