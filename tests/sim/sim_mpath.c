/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random worlds of multipath: a host with two or three paths reads and writes while paths are cut
 * and fall silent, targets stand still and ANA groups move; the model says what each read may
 * return. One thread.
 *
 * In a third of the seeds the last port is another target over the same blocks, without any guard
 * between the two, so that only the fence of the host keeps late writes from doing harm. Each
 * worker writes to blocks of its own, one command at a time: what is sent twice runs twice in a
 * row there, which is all that a host promises. Everybody reads everything.
 */
#include "sim_mpath.h"

#include "mpath_world.h"
#include "sim_model.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "host/mpath_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX      8
#define WORKER_BLOCKS    (MWORLD_BLOCKS / WORKERS_MAX)
#define TROUBLED_NS      (60 * NS_PER_S)
#define HEALED_NS        (120 * NS_PER_S)
#define PARTITION_MAX_MS 3000
#define FREEZE_MAX_MS    6000
#define IC_BYTES         128

enum step_kind {
	STEP_READ,
	STEP_WRITE,
	STEP_FUSED,
};

struct mrun;

struct mworker {
	struct mop mop; /* first: found from it */
	struct mrun *run;
	struct reactor_timer timer;
	enum step_kind kind;
	uint64_t first_block;
	uint64_t block;
	uint64_t value;
	uint64_t start;
	bool is_busy;
	uint64_t swept; /* blocks read after the troubles */
	/* What its blocks hold for sure; MODEL_NEVER: not known. */
	uint64_t known[WORKER_BLOCKS];
};

struct mrun {
	struct mworld world;
	struct mpath_run_stats *stats;
	struct prng prng;
	struct model *model;
	uint64_t seed;
	uint64_t step;
	uint64_t next_value;
	uint64_t hash;
	uint64_t commands_left;
	uint32_t chaos_max_us;
	uint32_t cut_one_in;
	uint32_t partition_one_in;
	uint32_t ana_one_in;
	uint32_t restart_one_in;
	uint32_t freeze_one_in;
	uint32_t remove_one_in;
	uint32_t flip_one_in; /* sends, with digests: a bit of it changes */
	uint32_t think_max_us;
	uint64_t frozen_until_ns; /* one target at a time */
	bool has_reset;
	bool is_healed;
	bool is_failed;
	uint64_t healed_until_ns[MWORLD_PORTS_MAX]; /* 0: not partitioned */
	struct reactor_timer chaos_timer;           /* of the control reactor */
	struct reactor_timer paths_timer;           /* of the host's */
	struct mworker workers[WORKERS_MAX];
	unsigned worker_count;
};

static struct mrun *run_now; /* the tap and the path's words have no room for it */

static void hash_add(struct mrun *run, uint64_t value)
{
	run->hash = (run->hash ^ value) * 0x100000001b3ull;
	run->hash ^= run->hash >> 29;
}

static void run_fail(struct mrun *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void run_fail(struct mrun *run, const char *format, ...)
{
	va_list args;

	if (run->is_failed)
		return;
	run->is_failed = true;
	printf("# seed %" PRIu64 ": ", run->seed);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" (at %.6f s)\n# replay: make sim MPATH=1 SEED=%" PRIu64 " TRACE=1\n",
	       (double)sim_now(run->world.sim) / 1e9, run->seed);
	fflush(stdout);
}

/* ---- commands ---------------------------------------------------------------------------------
 */

static void forget(struct mrun *run)
{
	uint64_t oldest = run->step + 1;

	for (unsigned i = 0; i < run->worker_count; i++) {
		if (run->workers[i].is_busy && run->workers[i].start < oldest)
			oldest = run->workers[i].start;
	}
	model_forget(run->model, oldest);
}

static void read_judge(struct mworker *worker)
{
	struct mrun *run = worker->run;
	uint64_t value = mop_value(&worker->mop);
	char why[160];

	if (worker->mop.io.result == MPATH_NO_PATH)
		return;
	if (worker->mop.io.result != MPATH_OK) {
		run_fail(run, "a read of block %" PRIu64 " ended with result %d, status 0x%x",
			 worker->block, worker->mop.io.result, worker->mop.io.status.value);
		return;
	}
	for (unsigned i = 0; i < MWORLD_BLOCK_BYTES; i += sizeof(value)) {
		if (memcmp(worker->mop.data + i, &value, sizeof(value)) != 0) {
			run_fail(run, "block %" PRIu64 " is torn at byte %u", worker->block, i);
			return;
		}
	}
	run->stats->blocks_checked++;
	hash_add(run, value);
	if (!model_read(run->model, worker->block, value, worker->start, run->step, why))
		run_fail(run, "block %" PRIu64 ": %s", worker->block, why);
}

static void write_judge(struct mworker *worker)
{
	struct mrun *run = worker->run;
	const struct mpath_io *io = &worker->mop.io;
	uint64_t *known = &worker->known[worker->block - worker->first_block];
	bool is_ok = io->result == MPATH_OK &&
		     (worker->kind == STEP_WRITE || worker->mop.second.result == MPATH_OK);

	if (is_ok) {
		model_write_done(run->model, worker->block, worker->value, worker->start, run->step,
				 true);
		*known = worker->value;
		return;
	}
	model_write_maybe(run->model, worker->block, worker->value, worker->start, run->step);
	*known = MODEL_NEVER;
	/* A pair is not sent again by itself when its data was spoilt, or its target stood still
	 * and cancelled it. */
	if ((run->flip_one_in > 0 || run->freeze_one_in > 0) && worker->kind == STEP_FUSED &&
	    (io->result == MPATH_STATUS || worker->mop.second.result == MPATH_STATUS))
		return;
	if (io->result != MPATH_NO_PATH && io->result != MPATH_UNKNOWN)
		run_fail(run, "a write of block %" PRIu64 " ended with result %d, status 0x%x 0x%x",
			 worker->block, io->result, io->status.value,
			 worker->mop.second.status.value);
}

static void worker_done(struct mop *mop)
{
	struct mworker *worker = container_of(mop, struct mworker, mop);
	struct mrun *run = worker->run;

	run->step++;
	run->stats->resent += mop->io.attempts > 1;
	run->stats->unknown += mop->io.result == MPATH_UNKNOWN;
	run->stats->no_path += mop->io.result == MPATH_NO_PATH;
	if (worker->kind == STEP_READ)
		read_judge(worker);
	else
		write_judge(worker);
	worker->is_busy = false;
	if (run->step % 64 == 0)
		forget(run);
	reactor_timer_arm(&worker->timer,
			  sim_now(run->world.sim) +
				  prng_below(&run->prng, run->think_max_us + 1) * NS_PER_US);
}

static void worker_read(struct mworker *worker, uint64_t block)
{
	worker->kind = STEP_READ;
	worker->block = block;
	mop_read(&worker->run->world, &worker->mop, block);
}

static void worker_change(struct mworker *worker)
{
	struct mrun *run = worker->run;
	uint64_t index = prng_below(&run->prng, WORKER_BLOCKS);
	uint64_t known = worker->known[index];

	worker->block = worker->first_block + index;
	worker->value = run->next_value++;
	model_write_begin(run->model, worker->block, worker->value, worker->start);
	if (known != MODEL_NEVER && prng_one_in(&run->prng, 8)) {
		worker->kind = STEP_FUSED;
		mop_fused(&run->world, &worker->mop, worker->block, known, worker->value);
	} else {
		worker->kind = STEP_WRITE;
		mop_write(&run->world, &worker->mop, worker->block, worker->value);
	}
}

static void on_worker_timer(struct reactor_timer *timer)
{
	struct mworker *worker = container_of(timer, struct mworker, timer);
	struct mrun *run = worker->run;
	bool is_last_look = run->is_healed || run->commands_left == 0;

	if (is_last_look && (!run->is_healed || worker->swept == MWORLD_BLOCKS))
		return;
	worker->start = ++run->step;
	worker->is_busy = true;
	worker->mop.then = worker_done;
	run->stats->commands++;
	if (is_last_look) {
		worker_read(worker, worker->swept++);
		return;
	}
	run->commands_left--;
	if (prng_one_in(&run->prng, 2))
		worker_read(worker, prng_below(&run->prng, MWORLD_BLOCKS));
	else
		worker_change(worker);
}

/* ---- troubles ---------------------------------------------------------------------------------
 */

static bool strikes(struct mrun *run, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&run->prng, one_in);
}

static void trouble_ana(struct mrun *run)
{
	static const enum ana_state states[] = {ANA_OPTIMIZED, ANA_OPTIMIZED, ANA_NON_OPTIMIZED,
						ANA_INACCESSIBLE, ANA_CHANGE};
	struct mworld *world = &run->world;

	if (!mworld_is_steady(world))
		return;
	run->stats->ana_changes++;
	world->ana[prng_below(&run->prng, world->port_count)][0] =
		states[prng_below(&run->prng, ARRAY_LEN(states))];
	mworld_apply_start(world);
}

/* It goes on with what waits in its sockets, sooner or later than its host gives it up. */
static void trouble_freeze(struct mrun *run)
{
	uint64_t ms = 1 + prng_below(&run->prng, FREEZE_MAX_MS);

	run->stats->freezes++;
	run->frozen_until_ns = sim_now(run->world.sim) + ms * NS_PER_MS;
	mworld_freeze(&run->world, (unsigned)prng_below(&run->prng, run->world.target_count), ms);
}

static void partitions_heal(struct mrun *run, uint64_t now_ns)
{
	for (unsigned i = 0; i < run->world.port_count; i++) {
		if (run->healed_until_ns[i] == 0 || run->healed_until_ns[i] > now_ns)
			continue;
		run->healed_until_ns[i] = 0;
		sim_net_partition(run->world.sim, &run->world.addrs[i], false);
	}
}

static void on_chaos_timer(struct reactor_timer *timer)
{
	struct mrun *run = container_of(timer, struct mrun, chaos_timer);
	struct mworld *world = &run->world;
	unsigned port = (unsigned)prng_below(&run->prng, world->port_count);
	uint64_t now_ns = sim_now(world->sim);

	partitions_heal(run, now_ns);
	if (run->is_healed)
		return;
	if (strikes(run, run->cut_one_in))
		run->stats->cuts += sim_net_cut(world->sim, &world->addrs[port]);
	if (run->healed_until_ns[port] == 0 && strikes(run, run->partition_one_in)) {
		run->stats->partitions++;
		run->healed_until_ns[port] =
			now_ns + (1 + prng_below(&run->prng, PARTITION_MAX_MS)) * NS_PER_MS;
		sim_net_partition(world->sim, &world->addrs[port], true);
	}
	if (strikes(run, run->ana_one_in))
		trouble_ana(run);
	if (now_ns >= run->frozen_until_ns && strikes(run, run->freeze_one_in))
		trouble_freeze(run);
	if (mworld_is_steady(world) && strikes(run, run->restart_one_in)) {
		run->stats->restarts++;
		mworld_restart(world, (unsigned)prng_below(&run->prng, world->target_count),
			       prng_below(&run->prng, 500));
	}
	reactor_timer_arm(timer,
			  now_ns + (1 + prng_below(&run->prng, run->chaos_max_us)) * NS_PER_US);
}

static void paths_add_all(struct mrun *run)
{
	struct mworld *world = &run->world;

	for (unsigned i = 0; i < world->port_count; i++) {
		int res = mpath_add_path(world->mpath, &world->addrs[i]);

		CHECK(res == 0 || res == -EEXIST);
	}
}

/* A path is taken away, whatever it does just now, or is there again. */
static void on_paths_timer(struct reactor_timer *timer)
{
	struct mrun *run = container_of(timer, struct mrun, paths_timer);
	struct mworld *world = &run->world;
	const struct net_addr *addr = &world->addrs[prng_below(&run->prng, world->port_count)];

	if (run->is_healed)
		return;
	if (strikes(run, run->remove_one_in)) {
		run->stats->removals++;
		if (mpath_remove_path(world->mpath, addr) == -ENOENT &&
		    mpath_path_count(world->mpath) < MPATH_PATHS_MAX)
			CHECK(mpath_add_path(world->mpath, addr) == 0);
	}
	reactor_timer_arm(timer,
			  sim_now(world->sim) +
				  (1 + prng_below(&run->prng, run->chaos_max_us)) * NS_PER_US);
}

/* ---- a run ------------------------------------------------------------------------------------
 */

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	struct mrun *run = arg;

	/* What negotiates digests has none. */
	if (offset >= IC_BYTES && len_bytes > 0 && !run->is_healed &&
	    strikes(run, run->flip_one_in)) {
		run->stats->flips++;
		bytes[prng_below(&run->prng, len_bytes)] ^=
			(uint8_t)(1u << prng_below(&run->prng, 8));
	}
	hash_add(run, (uint64_t)fd ^ offset << 20 ^ sim_now(run->world.sim));
	hash_add(run, crc32c(bytes, len_bytes));
}

/* Two targets that know nothing of each other must not be asked about each other. */
static void on_path(struct mworld *world, unsigned path, const char *what)
{
	if (!run_now->has_reset)
		world->mpath->paths[path]->identity.reset_limit = 0;
}

static uint32_t maybe(struct prng *prng, uint32_t low, uint32_t high)
{
	return prng_one_in(prng, 3) ? 0 : low + (uint32_t)prng_below(prng, high - low + 1);
}

static void probe_choose(struct mrun *run, struct probe *probe)
{
	prng_seed(&probe->prng, prng_next(&run->prng));
	probe->random_delay_us = 1 + prng_below(&run->prng, 3000);
	probe->spike_one_in = maybe(&run->prng, 5, 100);
	/* Below CQT: a target whose medium takes longer does not keep its word. */
	probe->spike_us = 300000;
	probe->is_deaf = prng_one_in(&run->prng, 2);
}

static void timeouts_choose(struct mrun *run)
{
	struct host_timeouts *timeouts = &run->world.config.timeouts;
	struct prng *prng = &run->prng;

	timeouts->keep_alive_ms = 300 + (uint32_t)prng_below(prng, 1200);
	timeouts->silence_ms = prng_one_in(prng, 3) ? 0 : 100 + (uint32_t)prng_below(prng, 150);
	timeouts->command_ms = 600 + (uint32_t)prng_below(prng, 1500);
	timeouts->stable_ms = 1 + (uint32_t)prng_below(prng, 1000);
	timeouts->reset_ms = 50 + (uint32_t)prng_below(prng, 1000);
	timeouts->fast_io_fail_ms =
		prng_one_in(prng, 3) ? 200 + (uint32_t)prng_below(prng, 3000) : 0;
	timeouts->quiesce_ms = 400;
	run->world.config.policy = (enum path_policy)prng_below(prng, 4);
	run->world.config.io_queues = 1 + (unsigned)prng_below(prng, 3);
	run->world.config.io_queue_size = 3 + (unsigned)prng_below(prng, 14); /* a pair fits */
	run->world.config.wants_header_digest = prng_one_in(prng, 2);
	run->world.config.wants_data_digest = prng_one_in(prng, 2);
	if (prng_one_in(prng, 3))
		run->world.config.hedge =
			(struct mpath_hedge){.percentile = 5000 + (uint32_t)prng_below(prng, 4900),
					     .extra_percent = 1 + (uint32_t)prng_below(prng, 50)};
	run->world.config.zero_copy_min_bytes = prng_one_in(prng, 3) ? 512 : 0;
}

static void world_choose(struct mrun *run)
{
	struct prng *prng = &run->prng;
	unsigned ports = 2 + (unsigned)prng_below(prng, 2);
	bool is_two = prng_one_in(prng, 3);
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

	if (is_two)
		mworld_create_two(&run->world, run->seed, ports, false, &options);
	else
		mworld_create(&run->world, run->seed, ports, &options);
	run->has_reset = !is_two && !prng_one_in(prng, 4);
	probe_choose(run, run->world.ns[0].probe);
	if (is_two)
		probe_choose(run, run->world.ns[0].second_probe);
	timeouts_choose(run);
	/* The target's own word, which it keeps. */
	run->world.quiesce_ms = prng_one_in(prng, 2) ? 400 : 0;
	mworld_apply(&run->world);
	run->commands_left = 200 + prng_below(prng, 600);
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
}

static bool is_busy(void *arg)
{
	struct mrun *run = arg;

	if (run->is_failed)
		return false;
	if (run->commands_left > 0)
		return true;
	return false;
}

static bool is_not_well(void *arg)
{
	struct mrun *run = arg;
	unsigned live = 0;

	if (run->is_failed)
		return false;
	for (unsigned i = 0; i < run->worker_count; i++) {
		if (run->workers[i].is_busy || run->workers[i].swept < MWORLD_BLOCKS)
			return true;
	}
	for (unsigned i = 0; i < mpath_path_count(run->world.mpath); i++)
		live += run->world.mpath->paths[i]->is_usable;
	/* Those that leave count until they are gone. */
	return live < run->world.port_count || mpath_path_count(run->world.mpath) > live ||
	       !mworld_is_steady(&run->world);
}

static void run_heal(struct mrun *run)
{
	static const struct sim_faults no_faults;
	struct mworld *world = &run->world;

	run->is_healed = true;
	sim_net_set_faults(world->sim, &no_faults);
	for (unsigned i = 0; i < world->port_count; i++) {
		run->healed_until_ns[i] = run->healed_until_ns[i] ? 1 : 0;
		world->ana[i][0] = ANA_OPTIMIZED;
	}
	sim_enter(world->control);
	reactor_timer_cancel(&run->chaos_timer);
	partitions_heal(run, sim_now(world->sim));
	sim_leave(world->control);
	while (!mworld_is_steady(world) && sim_step(world->sim))
		;
	mworld_apply(world);
	sim_enter(world->reactor);
	reactor_timer_cancel(&run->paths_timer);
	paths_add_all(run);
	for (unsigned i = 0; i < run->worker_count; i++) {
		if (!run->workers[i].is_busy)
			reactor_timer_arm(&run->workers[i].timer, sim_now(world->sim));
	}
	sim_leave(world->reactor);
}

static void workers_start(struct mrun *run)
{
	sim_enter(run->world.reactor);
	for (unsigned i = 0; i < run->worker_count; i++) {
		struct mworker *worker = &run->workers[i];

		worker->run = run;
		worker->first_block = i * WORKER_BLOCKS;
		reactor_timer_init(run->world.reactor, &worker->timer, on_worker_timer);
		reactor_timer_arm(&worker->timer, sim_now(run->world.sim));
	}
	reactor_timer_init(run->world.reactor, &run->paths_timer, on_paths_timer);
	if (run->remove_one_in > 0)
		reactor_timer_arm(&run->paths_timer, sim_now(run->world.sim));
	sim_leave(run->world.reactor);
	reactor_timer_init(run->world.control, &run->chaos_timer, on_chaos_timer);
	sim_enter(run->world.control);
	reactor_timer_arm(&run->chaos_timer, sim_now(run->world.sim));
	sim_leave(run->world.control);
}

static void run_play(struct mrun *run)
{
	struct mworld *world = &run->world;

	world->on_path = on_path;
	sim_net_set_tap(world->sim, on_bytes, run);
	mworld_connect(world);
	if (world->ready_res != 0 && !mworld_until_live(world, 1, 60000)) {
		run_fail(run, "no path could be connected: %s", world->ready_error.text);
		return;
	}
	workers_start(run);
	(void)sim_run_while(world->sim, is_busy, run, TROUBLED_NS);
	run->commands_left = 0;
	run_heal(run);
	if (!sim_run_while(world->sim, is_not_well, run, HEALED_NS))
		run_fail(run, "the troubles are over, but not everything is well again");
}

static void stats_add(struct mrun *run)
{
	for (unsigned i = 0; i < run->world.port_count; i++) {
		struct path_info info = mworld_info(&run->world, i);

		run->stats->losses += info.losses;
		run->stats->fences_by_reset += info.fences_by_reset;
		run->stats->fences_by_time += info.fences_by_time;
	}
}

bool mpath_run(uint64_t seed, struct mpath_run_stats *stats, uint64_t *ret_hash)
{
	struct mrun *run = calloc(1, sizeof(*run));
	bool is_ok;

	CHECK(run != NULL);
	run_now = run;
	run->seed = seed;
	run->stats = stats;
	run->hash = seed;
	run->next_value = 1;
	prng_seed(&run->prng, seed * 0x9e3779b97f4a7c15ull + 7);
	run->model = model_create(MWORLD_BLOCKS, false);
	world_choose(run);
	run_play(run);
	if (!run->is_failed)
		stats_add(run);
	/* After a violation nothing is known to be quiet: what it holds is left as it is. */
	if (run->is_failed) {
		sim_destroy(run->world.sim);
	} else if (mworld_destroy(&run->world) > 0) {
		printf("# seed %" PRIu64 ": something is left over\n", seed);
		run->is_failed = true;
	}
	hash_add(run, run->step);
	*ret_hash = run->hash;
	is_ok = !run->is_failed;
	if (is_ok) {
		model_destroy(run->model);
		free(run);
	}
	return is_ok;
}

void mpath_run_print(const struct mpath_run_stats *stats)
{
	printf("# %" PRIu64 " commands (%" PRIu64 " sent again, %" PRIu64 " unknown, %" PRIu64
	       " without a path), %" PRIu64 " blocks checked\n",
	       stats->commands, stats->resent, stats->unknown, stats->no_path,
	       stats->blocks_checked);
	printf("# %" PRIu64 " connections cut, %" PRIu64 " partitions, %" PRIu64
	       " ANA changes, %" PRIu64 " restarts, %" PRIu64 " targets frozen, %" PRIu64
	       " bits flipped, %" PRIu64 " paths removed or added, %" PRIu64 " paths lost, %" PRIu64
	       " fences by reset, %" PRIu64 " by time\n",
	       stats->cuts, stats->partitions, stats->ana_changes, stats->restarts, stats->freezes,
	       stats->flips, stats->removals, stats->losses, stats->fences_by_reset,
	       stats->fences_by_time);
}
