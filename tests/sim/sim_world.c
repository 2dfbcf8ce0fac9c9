/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run from a seed to its verdict: the target's life (start, configuration changes, restarts),
 * troubles of network and media, and the end, when nothing may be leaked. One thread; callbacks run
 * on the simulated control reactor.
 */
#include "sim_world.h"

#include "sim_media.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "discovery/discovery.h"
#include "target/local.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TROUBLED_LIMIT_NS (60 * NS_PER_S)
#define HEALED_LIMIT_NS   (120 * NS_PER_S)
#define SHUTDOWN_GRACE_MS 200
#define TROUBLES_MAX      100
#define IC_BYTES          128

uint64_t world_step(struct world *world)
{
	return ++world->step;
}

void world_hash(struct world *world, uint64_t value)
{
	world->hash = (world->hash ^ value) * 0x100000001b3ull;
	world->hash ^= world->hash >> 29;
}

void world_fail(struct world *world, const char *format, ...)
{
	va_list args;

	if (world->is_failed)
		return;
	world->is_failed = true;
	va_start(args, format);
	vsnprintf(world->verdict->what, sizeof(world->verdict->what), format, args);
	va_end(args);
	sim_trace(world->sim, "VIOLATION: %s", world->verdict->what);
}

bool world_event(struct world *world)
{
	unsigned event = world->event_count++;
	bool happens = scenario_has_event(world->scenario, event);

	/* Kept up to date for the report of a run that crashes. */
	world->verdict->events = world->event_count;
	world->verdict->commands = world->stats->commands;
	sim_trace(world->sim, "event %u%s", event, happens ? "" : " is left out");
	return happens;
}

bool world_feature(struct world *world, enum world_feature feature, bool is_chosen)
{
	if (!is_chosen || (world->scenario->features_off >> feature & 1))
		return false;
	world->verdict->features_on |= 1ull << feature;
	return true;
}

bool world_ghost_is_gone(struct world *world, const struct world_ghost *ghost)
{
	/* Commands of a dead process may land until its disks are opened again. */
	if (world->wreck.is_down && !ghost->is_reset)
		return ghost->target_epoch != world->target_epoch;
	return ghost->is_reset || ghost->target_epoch != world->target_epoch || !world->target ||
	       !world->target->ctrls[ghost->cntlid];
}

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	struct world *world = arg;

	/* ICReq and ICResp have no digests. */
	if (offset >= IC_BYTES && world->phase == WORLD_TROUBLED)
		late_flip(&world->late, bytes, len_bytes);
	world_hash(world, (uint64_t)fd ^ offset << 20 ^ sim_now(world->sim));
	world_hash(world, crc32c(bytes, len_bytes));
}

/* ---- the target ------------------------------------------------------------------------------ */

static void on_applied(void *arg, int res, const char *error)
{
	struct world *world = arg;
	uint64_t now = world_step(world);

	/* Out of memory by fault injection: retry. */
	if (res == -ENOMEM && world->wreck.refuse_one_in > 0) {
		sim_trace(world->sim, "world: apply failed: %s", error);
		reactor_timer_arm(&world->start_timer, reactor_now_ns(world->control) + NS_PER_MS);
		return;
	}
	world->is_applying = false;
	world->duties.generation_settled = world->duties.generation_built;
	if (res != 0)
		world_fail(world, "apply failed: %s", error);
	for (unsigned i = 0; i < world->ns_count; i++) {
		if (world->ns[i].settled_at == MODEL_NEVER)
			world->ns[i].settled_at = now;
	}
}

static void config_apply(struct world *world)
{
	world->is_applying = true;
	target_apply(world->target, world_snapshot_build(world), on_applied, world);
}

void world_apply_and_drain(struct world *world, const struct target_scope *scope,
			   void (*drained)(void *arg, int res))
{
	world->is_applying = true;
	target_apply_and_drain(world->target, world_snapshot_build(world), scope, on_applied,
			       drained, world);
}

static void target_start(struct world *world)
{
	struct target_config config = {
		.control = world->control,
		.reactors = world->data,
		.reactor_count = world->plan.data_reactors,
		.discovery_log = discovery_log_read,
		.keeper = world_keeper(world),
		.random_seed = sim_seed(world->sim) + world->target_epoch,
		.buf_counts = {4, 2, 2},
	};

	if (!world->plan.has_small_pools)
		config.buf_counts[0] = config.buf_counts[1] = config.buf_counts[2] = 64;
	CHECK(target_create(&config, &world->target) == 0);
	config_apply(world);
}

static void on_start_timer(struct reactor_timer *timer)
{
	struct world *world = container_of(timer, struct world, start_timer);

	if (world->target)
		config_apply(world);
	else
		target_start(world);
}

static void on_target_stopped(void *arg)
{
	struct world *world = arg;
	struct target_stats stats;

	target_get_stats(world->target, &stats);
	if (stats.buffers_in_use > 0 || stats.connections > 0 || stats.ctrls > 0)
		world_fail(world, "shut down with %u buffers, %u connections, %u controllers",
			   stats.buffers_in_use, stats.connections, stats.ctrls);
	world->stats->keep_alive_expiries += stats.keep_alive_expiries;
	target_destroy(world->target);
	world->target = NULL;
	world->target_epoch++;
	world_ns_restart(world);
	world->is_stopping = false;
	if (world->phase != WORLD_LEAVING)
		reactor_timer_arm(&world->start_timer,
				  reactor_now_ns(world->control) +
					  prng_below(&world->prng, 200) * NS_PER_MS);
}

static void target_stop(struct world *world)
{
	world->is_stopping = true;
	target_shutdown(world->target, SHUTDOWN_GRACE_MS, on_target_stopped, world);
}

static bool target_is_steady(const struct world *world)
{
	return world->target && !world->is_applying && !world->is_stopping;
}

/* ---- troubles -------------------------------------------------------------------------------- */

static bool strikes(struct world *world, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&world->prng, one_in);
}

static void trouble_swap(struct world *world)
{
	struct world_ns *ns = &world->ns[prng_below(&world->prng, world->ns_count)];
	bool is_about_presence = prng_one_in(&world->prng, 2);
	unsigned seen_by;

	if (!world_event(world))
		return;
	seen_by = duty_seen_by(world, ns);
	if (is_about_presence)
		ns->is_present = !ns->is_present;
	else
		ns->is_read_only = !ns->is_read_only;
	duty_ns_changed(world, ns, seen_by ^ duty_seen_by(world, ns));
	ns->settled_at = MODEL_NEVER;
	world->stats->swaps++;
	sim_trace(world->sim, "world: namespace %u %s%s", ns->nsid,
		  ns->is_present ? "present" : "absent", ns->is_read_only ? " read-only" : "");
	config_apply(world);
}

static void ns_lose_power(struct world *world, struct world_ns *ns)
{
	if (ns->media->has_volatile_cache) {
		ns->lost_at = world_step(world);
		model_power_loss(ns->model, ns->lost_at);
		memset(ns->fused_from, 0, sizeof(ns->fused_from));
	}
	if (ns->disk)
		sim_disk_power_loss(ns->disk);
	else
		sim_media_power_loss(ns->media);
}

static void trouble_power_loss(struct world *world)
{
	struct world_ns *ns = &world->ns[prng_below(&world->prng, world->ns_count)];

	if (!world_event(world) || ns->kind != WORLD_MEDIUM_SIM)
		return;
	world->stats->power_losses++;
	sim_trace(world->sim, "world: namespace %u loses its cache", ns->nsid);
	ns_lose_power(world, ns);
}

static void on_heal_timer(struct reactor_timer *timer)
{
	struct world *world = container_of(timer, struct world, heal_timer);

	world->is_partitioned = false;
	sim_net_partition(world->sim, NULL, false);
}

static void trouble_partition(struct world *world)
{
	uint64_t duration_ns = prng_below(&world->prng, 4000) * NS_PER_MS;

	if (!world_event(world))
		return;
	world->is_partitioned = true;
	world->stats->partitions++;
	sim_net_partition(world->sim, NULL, true);
	reactor_timer_arm(&world->heal_timer, reactor_now_ns(world->control) + duration_ns);
}

static bool late_happens(void *arg)
{
	return world_event(arg);
}

static void on_chaos_timer(struct reactor_timer *timer)
{
	struct world *world = container_of(timer, struct world, chaos_timer);
	const struct world_plan *plan = &world->plan;

	/* With more troubles the run would do nothing else. */
	if (world->troubles_left == 0) {
		late_heal(&world->late, world->sim, 0, NULL, UINT64_MAX);
		return;
	}
	late_heal(&world->late, world->sim, 0, NULL, sim_now(world->sim));
	late_strike(&world->late, world->sim, 0, NULL, late_happens, world);
	wreck_strike(world);
	world->troubles_left--;
	if (strikes(world, plan->cut_one_in) && world_event(world))
		world->stats->cuts += sim_net_cut(world->sim, NULL);
	if (!world->is_partitioned && strikes(world, plan->partition_one_in))
		trouble_partition(world);
	if (strikes(world, plan->power_loss_one_in))
		trouble_power_loss(world);
	if (target_is_steady(world) && strikes(world, plan->swap_one_in))
		trouble_swap(world);
	else if (target_is_steady(world) && world_change(world))
		config_apply(world);
	if (target_is_steady(world) && strikes(world, plan->restart_one_in) && world_event(world)) {
		world->stats->restarts++;
		target_stop(world);
	}
	if (target_is_steady(world))
		neighbours_strike(world);
	reactor_timer_arm(timer,
			  reactor_now_ns(world->control) +
				  (1 + prng_below(&world->prng, plan->chaos_max_us)) * NS_PER_US);
}

static void world_heal(struct world *world)
{
	static const struct sim_faults no_faults;

	world->phase = WORLD_HEALED;
	wreck_heal(world);
	neighbours_leave(world);
	if (!world->wreck.is_down) {
		sim_enter(world->control);
		reactor_timer_cancel(&world->chaos_timer);
		reactor_timer_cancel(&world->heal_timer);
		sim_leave(world->control);
	}
	if (world->is_partitioned)
		sim_net_partition(world->sim, NULL, false);
	late_heal(&world->late, world->sim, 0, NULL, UINT64_MAX);
	sim_net_set_faults(world->sim, &no_faults);
	for (unsigned i = 0; i < world->ns_count; i++) {
		if (world->ns[i].disk)
			sim_disk_heal(world->ns[i].disk);
		else if (world->ns[i].kind == WORLD_MEDIUM_SIM)
			sim_media_heal(world->ns[i].media);
	}
	for (unsigned i = 0; i < world->host_count; i++)
		sim_host_wake(world->hosts[i]);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static bool is_starting(void *arg)
{
	return !target_is_steady(arg);
}

static bool is_troubled(void *arg)
{
	struct world *world = arg;

	duty_ctrls(world);
	fence_watch(world);
	neighbours_watch(world);
	return world->commands_left > 0 && !world->is_failed;
}

static bool is_not_content(void *arg)
{
	struct world *world = arg;

	duty_ctrls(world);
	fence_watch(world);
	if (world->is_failed)
		return false;
	for (unsigned i = 0; i < world->host_count; i++) {
		if (sim_host_lack(world->hosts[i]))
			return true;
	}
	return !target_is_steady(world) || !neighbours_are_gone(world) ||
	       world->neighbours.is_changing;
}

static void lack_tell(struct world *world)
{
	for (unsigned i = 0; i < world->host_count; i++) {
		const char *lack = sim_host_lack(world->hosts[i]);

		if (lack)
			world_fail(world, "the faults have ended, but host %u %s", i, lack);
	}
	world_fail(world, "the faults have ended, but the target is not steady");
}

static bool is_not_left(void *arg)
{
	struct world *world = arg;
	struct target_stats stats;

	for (unsigned i = 0; i < world->host_count; i++) {
		if (!sim_host_is_gone(world->hosts[i]))
			return true;
	}
	target_get_stats(world->target, &stats);
	return stats.connections > 0 || stats.ctrls > 0 || stats.buffers_in_use > 0;
}

static bool is_not_stopped(void *arg)
{
	return ((struct world *)arg)->target != NULL;
}

static void world_leave(struct world *world)
{
	world->phase = WORLD_LEAVING;
	for (unsigned i = 0; i < world->host_count; i++)
		sim_host_leave(world->hosts[i]);
	if (!sim_run_while(world->sim, is_not_left, world, HEALED_LIMIT_NS)) {
		struct target_stats stats;

		target_get_stats(world->target, &stats);
		world_fail(world, "all hosts left, but %u connections, %u controllers, %u buffers",
			   stats.connections, stats.ctrls, stats.buffers_in_use);
		return;
	}
	sim_enter(world->control);
	target_stop(world);
	sim_leave(world->control);
	if (!sim_run_while(world->sim, is_not_stopped, world, HEALED_LIMIT_NS)) {
		world_fail(world, "the target does not stop");
		return;
	}
	/* Remaining events of the network: connections close. */
	sim_run_until(world->sim, sim_now(world->sim) + 10 * NS_PER_S);
	if (sim_leaks(world->sim) > 0)
		world_fail(world, "%u sockets, timers or messages are left", sim_leaks(world->sim));
}

static void world_play(struct world *world)
{
	sim_enter(world->control);
	target_start(world);
	sim_leave(world->control);
	CHECK(sim_run_while(world->sim, is_starting, world, NS_PER_S));
	for (unsigned i = 0; i < world->host_count; i++)
		world->hosts[i] = sim_host_create(world, i, i == world->plan.hosts);
	neighbours_start(world);
	sim_enter(world->control);
	reactor_timer_arm(&world->chaos_timer, reactor_now_ns(world->control) + NS_PER_MS);
	sim_leave(world->control);
	(void)sim_run_while(world->sim, is_troubled, world, TROUBLED_LIMIT_NS);
	if (world->is_failed)
		return;
	world_heal(world);
	if (!sim_run_while(world->sim, is_not_content, world, HEALED_LIMIT_NS))
		lack_tell(world);
	if (!world->is_failed)
		world_leave(world);
}

static void reactors_create(struct world *world)
{
	/* In a world with processes, allocations of the control reactor never fail. */
	struct reactor_config config = {.cpu = -1,
					.index = world->wreck.is_on ? SIM_CONTROL_INDEX : 0};

	CHECK(reactor_create(&config, &world->control) == 0);
	for (unsigned i = 0; i < world->plan.data_reactors; i++) {
		config.index = i + 1;
		CHECK(reactor_create(&config, &world->data[i]) == 0);
	}
	reactor_timer_init(world->control, &world->chaos_timer, on_chaos_timer);
	reactor_timer_init(world->control, &world->heal_timer, on_heal_timer);
	reactor_timer_init(world->control, &world->start_timer, on_start_timer);
}

/* ---- the target's process dies, and another one follows -------------------------------------- */

void world_die(struct world *world)
{
	world->target = NULL;
	world->control = NULL;
	world->is_applying = false;
	world->is_stopping = false;
	for (unsigned i = 0; i < world->ns_count; i++) {
		struct world_ns *ns = &world->ns[i];

		ns->traits = *ns->media;
		ns->media = &ns->traits;
		ns->backing = NULL;
		ns->settled_at = MODEL_NEVER;
	}
}

void world_disks_lose_power(struct world *world)
{
	for (unsigned i = 0; i < world->ns_count; i++) {
		if (world->ns[i].disk)
			ns_lose_power(world, &world->ns[i]);
	}
}

void world_live_again(struct world *world)
{
	wreck_enter(world);
	reactors_create(world);
	world_ns_reopen(world);
	wreck_leave(world);
	world->target_epoch++;
	if (world->is_partitioned)
		on_heal_timer(&world->heal_timer);
	sim_enter(world->control);
	target_start(world);
	if (world->phase == WORLD_TROUBLED)
		reactor_timer_arm(&world->chaos_timer, reactor_now_ns(world->control) + NS_PER_MS);
	sim_leave(world->control);
}

static void world_free(struct world *world)
{
	for (unsigned i = 0; i < world->host_count; i++)
		sim_host_destroy(world->hosts[i]);
	neighbours_destroy(world);
	world_ns_destroy(world);
	world_kept_free(world);
	free(world->values);
}

/* ---- what a run did -------------------------------------------------------------------------- */

static void stats_count(const struct world_stats *stats, struct sim_counters *counters)
{
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{"blocks_checked", stats->blocks_checked},
		{"connects", stats->connects},
		{"connects_refused_or_failed", stats->connect_failures},
		{"connections_lost", stats->losses},
		{"host_crashes", stats->crashes},
		{"connections_cut", stats->cuts},
		{"partitions", stats->partitions},
		{"configuration_changes", stats->swaps},
		{"target_restarts", stats->restarts},
		{"losses_of_a_cache", stats->power_losses},
		{"keep_alive_expiries", stats->keep_alive_expiries},
		{"aborts", stats->aborts},
		{"commands_aborted", stats->aborted},
		{"live_changes", stats->changes},
		{"changes_of_reservations", stats->reservations},
		{"reservations_held_again", stats->recalled},
		{"changes_shut_out", stats->preempted},
		{"changes_fenced_before_they_began", stats->fenced},
		{"reads_fenced_on_their_way", stats->reads_fenced},
		{"copies", stats->copies},
		{"odd_commands", stats->odds},
		{"times_the_store_was_full", stats->keep_failures},
		{"resets_of_lost_controllers", stats->resets},
		{"resets_with_commands_about", stats->resets_fence},
	};

	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		sim_counter_add(counters, counts[i].name, counts[i].value);
	for (unsigned i = 0; i < SIM_STATUS_MAX; i++)
		counters->statuses[i] += stats->statuses[i];
}

static struct world *world_create(const struct sim_scenario *scenario, struct world_stats *stats,
				  struct sim_verdict *verdict)
{
	struct world *world = calloc(1, sizeof(*world));
	struct sim_options options;

	CHECK(world != NULL);
	world->scenario = scenario;
	world->verdict = verdict;
	world->stats = stats;
	world->next_value = 1;
	world->hash = scenario->seed;
	prng_seed(&world->prng, scenario->seed * 0x9e3779b97f4a7c15ull + 1);
	world_plan_choose(world, &options);
	world_changes_choose(world, scenario->seed);
	late_data_choose(world, &options);
	duty_choose(world, scenario->seed);
	late_choose(&world->late, scenario->seed);
	odd_choose(world, scenario->seed);
	wreck_choose(world, scenario->seed);
	neighbours_choose(world, scenario->seed);
	world_plan_shrink(world, &options);
	world->plan.is_narrow = options.window_max_bytes > 0;
	world->commands_left = world->plan.commands_max;
	world->troubles_left = TROUBLES_MAX;
	world->host_count = world->plan.hosts + world->plan.has_discovery;
	world->sim = sim_create(scenario->seed, &options);
	sim_net_set_tap(world->sim, on_bytes, world);
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &world->addr) == 0);
	wreck_begin(world);
	wreck_enter(world);
	reactors_create(world);
	world_ns_create(world);
	wreck_leave(world);
	neighbours_create(world);
	return world;
}

static void world_run(const struct sim_scenario *scenario, struct sim_counters *counters,
		      struct sim_verdict *ret_verdict)
{
	struct world_stats stats = {0};
	struct world *world;

	memset(ret_verdict, 0, sizeof(*ret_verdict));
	world = world_create(scenario, &stats, ret_verdict);
	world->counters = counters;
	world_play(world);
	world_hash(world, sim_now(world->sim));
	world_hash(world, world->step);
	ret_verdict->hash = world->hash;
	ret_verdict->simulated_ns = sim_now(world->sim) - NS_PER_S;
	ret_verdict->commands = stats.commands;
	sim_counter_add(counters, "one_way_partitions", world->late.one_ways);
	sim_counter_add(counters, "limits_of_bandwidth", world->late.limits);
	sim_counter_add(counters, "streams_ended", world->late.ends);
	sim_counter_add(counters, "bits_flipped", world->late.flips);
	ret_verdict->events = world->event_count;
	wreck_count(world);
	neighbours_count(world);
	stats_count(&stats, counters);
	/* After a violation operations may be in flight, so objects are not freed one by one. */
	if (!world->is_failed)
		world_free(world);
	ret_verdict->is_ok = !world->is_failed;
	sim_destroy(world->sim);
	if (ret_verdict->is_ok)
		free(world);
}

const struct sim_world_kind sim_world_target = {
	.name = "target",
	.features = world_feature_names,
	.run = world_run,
};
