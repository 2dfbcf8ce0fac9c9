/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run from a seed to its verdict: the target's life (start, configuration changes, restarts),
 * the troubles of network and media, and the end, at which nothing may be left over. One thread;
 * the callbacks here run on the simulated control reactor.
 */
#include "sim_world.h"

#include "sim_media.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "discovery/discovery.h"
#include "target/local.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TROUBLED_LIMIT_NS (60 * NS_PER_S)
#define HEALED_LIMIT_NS   (120 * NS_PER_S)
#define SHUTDOWN_GRACE_MS 200
#define TROUBLES_MAX      100

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
	printf("# seed %llu: ", (unsigned long long)sim_seed(world->sim));
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" (at %.6f s)\n# replay: make sim SEED=%llu TRACE=1\n",
	       (double)sim_now(world->sim) / 1e9, (unsigned long long)sim_seed(world->sim));
	fflush(stdout);
}

bool world_ghost_is_gone(struct world *world, const struct world_ghost *ghost)
{
	return ghost->is_reset || ghost->target_epoch != world->target_epoch || !world->target ||
	       !world->target->ctrls[ghost->cntlid];
}

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	struct world *world = arg;

	world_hash(world, (uint64_t)fd ^ offset << 20 ^ sim_now(world->sim));
	world_hash(world, crc32c(bytes, len_bytes));
}

/* ---- the target ------------------------------------------------------------------------------ */

static void on_applied(void *arg, int res, const char *error)
{
	struct world *world = arg;
	uint64_t now = world_step(world);

	world->is_applying = false;
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
	target_start(container_of(timer, struct world, start_timer));
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
				  sim_now(world->sim) + prng_below(&world->prng, 200) * NS_PER_MS);
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

	if (prng_one_in(&world->prng, 2))
		ns->is_present = !ns->is_present;
	else
		ns->is_read_only = !ns->is_read_only;
	ns->settled_at = MODEL_NEVER;
	world->stats->swaps++;
	sim_trace(world->sim, "world: namespace %u %s%s", ns->nsid,
		  ns->is_present ? "present" : "absent", ns->is_read_only ? " read-only" : "");
	config_apply(world);
}

static void trouble_power_loss(struct world *world)
{
	struct world_ns *ns = &world->ns[prng_below(&world->prng, world->ns_count)];

	if (ns->kind != WORLD_MEDIUM_SIM)
		return;
	world->stats->power_losses++;
	sim_trace(world->sim, "world: namespace %u loses its cache", ns->nsid);
	if (ns->media->has_volatile_cache) {
		model_power_loss(ns->model, world_step(world));
		memset(ns->fused_from, 0, sizeof(ns->fused_from));
	}
	sim_media_power_loss(ns->media);
}

static void on_heal_timer(struct reactor_timer *timer)
{
	struct world *world = container_of(timer, struct world, heal_timer);

	world->is_partitioned = false;
	sim_net_partition(world->sim, NULL, false);
}

static void trouble_partition(struct world *world)
{
	world->is_partitioned = true;
	world->stats->partitions++;
	sim_net_partition(world->sim, NULL, true);
	reactor_timer_arm(&world->heal_timer,
			  sim_now(world->sim) + prng_below(&world->prng, 4000) * NS_PER_MS);
}

static void on_chaos_timer(struct reactor_timer *timer)
{
	struct world *world = container_of(timer, struct world, chaos_timer);
	const struct world_plan *plan = &world->plan;

	/* After so many the run would be about nothing else. */
	if (world->troubles_left == 0)
		return;
	world->troubles_left--;
	if (strikes(world, plan->cut_one_in))
		world->stats->cuts += sim_net_cut(world->sim, NULL);
	if (!world->is_partitioned && strikes(world, plan->partition_one_in))
		trouble_partition(world);
	if (strikes(world, plan->power_loss_one_in))
		trouble_power_loss(world);
	if (target_is_steady(world) && strikes(world, plan->swap_one_in))
		trouble_swap(world);
	else if (target_is_steady(world) && world_change(world))
		config_apply(world);
	if (target_is_steady(world) && strikes(world, plan->restart_one_in)) {
		world->stats->restarts++;
		target_stop(world);
	}
	reactor_timer_arm(timer,
			  sim_now(world->sim) +
				  (1 + prng_below(&world->prng, plan->chaos_max_us)) * NS_PER_US);
}

static void world_heal(struct world *world)
{
	static const struct sim_faults no_faults;

	world->phase = WORLD_HEALED;
	sim_enter(world->control);
	reactor_timer_cancel(&world->chaos_timer);
	reactor_timer_cancel(&world->heal_timer);
	sim_leave(world->control);
	if (world->is_partitioned)
		sim_net_partition(world->sim, NULL, false);
	sim_net_set_faults(world->sim, &no_faults);
	for (unsigned i = 0; i < world->ns_count; i++) {
		if (world->ns[i].kind == WORLD_MEDIUM_SIM)
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

	return world->commands_left > 0 && !world->is_failed;
}

static bool is_not_content(void *arg)
{
	struct world *world = arg;

	if (world->is_failed)
		return false;
	for (unsigned i = 0; i < world->host_count; i++) {
		if (!sim_host_is_content(world->hosts[i]))
			return true;
	}
	return !target_is_steady(world);
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
	/* What is left of the network's own events: closed connections say goodbye. */
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
	sim_enter(world->control);
	reactor_timer_arm(&world->chaos_timer, sim_now(world->sim) + NS_PER_MS);
	sim_leave(world->control);
	(void)sim_run_while(world->sim, is_troubled, world, TROUBLED_LIMIT_NS);
	if (world->is_failed)
		return;
	world_heal(world);
	if (!sim_run_while(world->sim, is_not_content, world, HEALED_LIMIT_NS))
		world_fail(world, "the troubles are over, but not everything is well again");
	if (!world->is_failed)
		world_leave(world);
}

static void reactors_create(struct world *world)
{
	struct reactor_config config = {.cpu = -1};

	CHECK(reactor_create(&config, &world->control) == 0);
	for (unsigned i = 0; i < world->plan.data_reactors; i++) {
		config.index = i + 1;
		CHECK(reactor_create(&config, &world->data[i]) == 0);
	}
	reactor_timer_init(world->control, &world->chaos_timer, on_chaos_timer);
	reactor_timer_init(world->control, &world->heal_timer, on_heal_timer);
	reactor_timer_init(world->control, &world->start_timer, on_start_timer);
}

bool world_run(uint64_t seed, struct world_stats *stats, uint64_t *ret_hash)
{
	struct world *world = calloc(1, sizeof(*world));
	struct sim_options options;
	bool is_failed;

	CHECK(world != NULL);
	world->stats = stats;
	world->next_value = 1;
	world->hash = seed;
	prng_seed(&world->prng, seed * 0x9e3779b97f4a7c15ull + 1);
	world_plan_choose(world, &options);
	world_changes_choose(world, seed);
	world->commands_left = world->plan.commands_max;
	world->troubles_left = TROUBLES_MAX;
	world->host_count = world->plan.hosts + world->plan.has_discovery;
	world->sim = sim_create(seed, &options);
	sim_net_set_tap(world->sim, on_bytes, world);
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &world->addr) == 0);
	reactors_create(world);
	world_ns_create(world);
	world_play(world);
	world_hash(world, sim_now(world->sim));
	world_hash(world, world->step);
	*ret_hash = world->hash;
	/* After a violation nothing is known to be quiet: what it holds is left as it is. */
	if (!world->is_failed) {
		for (unsigned i = 0; i < world->host_count; i++)
			sim_host_destroy(world->hosts[i]);
		world_ns_destroy(world);
		world_kept_free(world);
		free(world->values);
	}
	is_failed = world->is_failed;
	sim_destroy(world->sim);
	if (!is_failed)
		free(world);
	return !is_failed;
}
