/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random worlds of multipath: a host with two or three paths reads and writes while paths are cut
 * or stall, targets freeze and ANA groups move. The model judges each read. One thread.
 *
 * In a third of the seeds the last port is another target over the same blocks. No guard is shared
 * between the two targets, so only the host's fence prevents harm by late writes. Each worker
 * writes its own blocks, one command at a time: a resent command then runs twice in sequence, which
 * is all that a host promises. Every worker reads all blocks.
 */
#include "sim_mpath.h"
#include "sim_transition.h"

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

#define GROUP_LEFT_NS    (200 * NS_PER_MS)
#define TROUBLED_NS      (60 * NS_PER_S)
#define HEALED_NS        (120 * NS_PER_S)
#define PARTITION_MAX_MS 3000
#define FREEZE_MAX_MS    6000
#define EDGE_APART_MS    20
#define IC_BYTES         128

static struct mrun *run_now; /* on_path has no argument for the run */

void mpath_hash_add(struct mrun *run, uint64_t value)
{
	run->hash = (run->hash ^ value) * 0x100000001b3ull;
	run->hash ^= run->hash >> 29;
}

void mpath_run_fail(struct mrun *run, const char *format, ...)
{
	va_list args;

	if (run->is_failed)
		return;
	run->is_failed = true;
	va_start(args, format);
	vsnprintf(run->verdict->what, sizeof(run->verdict->what), format, args);
	va_end(args);
	sim_trace(run->world.sim, "VIOLATION: %s", run->verdict->what);
}

bool mpath_run_happens(struct mrun *run)
{
	unsigned event = run->event_count++;
	bool is_in = scenario_has_event(run->scenario, event);

	/* Kept up to date for the report of a run that crashes. */
	run->verdict->events = run->event_count;
	run->verdict->commands = run->stats.commands;
	sim_trace(run->world.sim, "event %u%s", event, is_in ? "" : " is left out");
	return is_in;
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

/* When most PDUs are damaged, a host retries as often as allowed and then reports the error. */
static bool is_worn_out(const struct mrun *run, const struct mpath_io *io)
{
	return run->flip_one_in > 0 && io->result == MPATH_STATUS && io->attempts > IO_RETRIES &&
	       nvme_status_same(io->status, NVME_SC_TRANSIENT_TRANSPORT);
}

/* A fused pair is refused when the configuration changes between its two commands. If changes come
 * faster than a pair arrives, no pair ever runs. */
static bool is_outrun(const struct mworker *worker)
{
	const struct mpath_io *io = &worker->mop.io;

	return worker->run->ana_one_in > 0 && worker->kind == STEP_FUSED &&
	       io->result == MPATH_STATUS && io->attempts > IO_RETRIES &&
	       nvme_status_same(io->status, NVME_SC_FUSED_FAIL) &&
	       nvme_status_same(worker->mop.second.status, NVME_SC_FUSED_FAIL);
}

static void read_judge(struct mworker *worker)
{
	struct mrun *run = worker->run;
	uint64_t value = mop_value(&worker->mop);
	char why[160];

	if (worker->mop.io.result == MPATH_NO_PATH || is_worn_out(run, &worker->mop.io))
		return;
	if (worker->mop.io.result != MPATH_OK) {
		mpath_run_fail(run, "a read of block %" PRIu64 " ended with result %d, status 0x%x",
			       worker->block, worker->mop.io.result, worker->mop.io.status.value);
		return;
	}
	for (unsigned i = 0; i < MWORLD_BLOCK_BYTES; i += sizeof(value)) {
		if (memcmp(worker->mop.data + i, &value, sizeof(value)) != 0) {
			mpath_run_fail(run, "block %" PRIu64 " is torn at byte %u", worker->block,
				       i);
			return;
		}
	}
	run->stats.blocks_checked++;
	mpath_hash_add(run, value);
	if (!model_read(run->model, worker->block, value, worker->start, run->step, why))
		mpath_run_fail(run, "block %" PRIu64 ": %s", worker->block, why);
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
				 !run->is_volatile);
		power_note_write(worker);
		*known = worker->value;
		return;
	}
	model_write_maybe(run->model, worker->block, worker->value, worker->start, run->step);
	*known = MODEL_NEVER;
	/* A pair is not resent when its data was damaged or its frozen target cancelled it. */
	if ((run->flip_one_in > 0 || run->freeze_one_in > 0) && worker->kind == STEP_FUSED &&
	    (io->result == MPATH_STATUS || worker->mop.second.result == MPATH_STATUS))
		return;
	/* Nor when its queue was deleted and only the second command got that status. */
	if (worker->kind == STEP_FUSED && worker->mop.second.result == MPATH_STATUS &&
	    nvme_status_same(worker->mop.second.status, NVME_SC_ABORT_SQ_DELETION))
		return;
	if (is_worn_out(run, io) || is_outrun(worker))
		return;
	if (io->result != MPATH_NO_PATH && io->result != MPATH_UNKNOWN)
		mpath_run_fail(
			run, "a write of block %" PRIu64 " ended with result %d, status 0x%x 0x%x",
			worker->block, io->result, io->status.value,
			worker->mop.second.status.value);
}

static void worker_done(struct mop *mop)
{
	struct mworker *worker = container_of(mop, struct mworker, mop);
	struct mrun *run = worker->run;

	run->step++;
	sim_trace(run->world.sim,
		  "worker %u: kind %d, block %" PRIu64 ", value %" PRIu64
		  ": result %d, status 0x%x",
		  (unsigned)(worker - run->workers), worker->kind, worker->block, worker->value,
		  mop->io.result, mop->io.status.value);
	if (mop->io.result == MPATH_OK || mop->io.result == MPATH_STATUS)
		run->stats.statuses[mop->io.status.value % SIM_STATUS_MAX]++;
	run->stats.resent += mop->io.attempts > 1;
	run->stats.unknown += mop->io.result == MPATH_UNKNOWN;
	run->stats.no_path += mop->io.result == MPATH_NO_PATH;
	if (worker->kind == STEP_READ)
		read_judge(worker);
	else if (worker->kind == STEP_FLUSH)
		power_flush_judge(worker);
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
	/* The value that a Compare expects may be lost with the power. */
	if (known != MODEL_NEVER && prng_one_in(&run->prng, 8) && !run->is_volatile) {
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
	run->stats.commands++;
	if (is_last_look) {
		worker_read(worker, worker->swept++);
		return;
	}
	run->commands_left--;
	if (run->is_volatile && prng_one_in(&run->prng, 4)) {
		worker->kind = STEP_FLUSH;
		mop_flush(&run->world, &worker->mop, worker->losses_told, worker->flush_failed);
	} else if (prng_one_in(&run->prng, 2)) {
		worker_read(worker, prng_below(&run->prng, MWORLD_BLOCKS));
	} else {
		worker_change(worker);
	}
}

/* ---- troubles ---------------------------------------------------------------------------------
 */

static bool strikes(struct mrun *run, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&run->prng, one_in);
}

/* Moves the namespace to the other ANA group, or back. */
static void trouble_group(struct mrun *run)
{
	struct mworld_ns *ns = &run->world.ns[0];

	if (!mworld_is_steady(&run->world) || !mpath_run_happens(run))
		return;
	run->stats.group_moves++;
	ns->ana_group = ns->ana_group == 2 ? 1 : 2;
	mworld_apply_start(&run->world);
}

static void trouble_ana(struct mrun *run)
{
	static const enum ana_state states[] = {ANA_OPTIMIZED, ANA_OPTIMIZED, ANA_NON_OPTIMIZED,
						ANA_INACCESSIBLE, ANA_CHANGE};
	struct mworld *world = &run->world;
	enum ana_state state;
	unsigned port;

	if (!mworld_is_steady(world))
		return;
	state = states[prng_below(&run->prng, ARRAY_LEN(states))];
	port = (unsigned)prng_below(&run->prng, world->port_count);
	if (!mpath_run_happens(run))
		return;
	run->stats.ana_changes++;
	sim_transition_ana(run->counters, world->ana[port][0], state);
	world->ana[port][0] = state;
	mworld_apply_start(world);
}

/* Partitions the ports of the frozen target: it has received commands, but not that its host gave
 * it up. */
static void frozen_partition(struct mrun *run)
{
	struct mworld *world = &run->world;

	for (unsigned i = 0; i < world->port_count; i++) {
		bool is_of_second = world->target_count == 2 && i == world->port_count - 1;

		if (is_of_second != (run->frozen_target == 1) || run->healed_until_ns[i] != 0)
			continue;
		run->healed_until_ns[i] = run->frozen_until_ns + NS_PER_MS;
		sim_net_partition(world->sim, &world->addrs[i], true);
	}
}

/* Freezes a target. Commands in its sockets run later, before or after the host gives it up. */
static void trouble_freeze(struct mrun *run)
{
	const struct host_timeouts *timeouts = &run->world.config.timeouts;
	/* Lasts about until the controller ends by itself, or until its host may assume that. */
	bool is_long = run->is_apart && prng_one_in(&run->prng, 2);
	uint64_t edge_ms =
		(is_long ? 4 : 1) * (uint64_t)(timeouts->keep_alive_ms + timeouts->quiesce_ms);
	uint64_t ms = 1 + prng_below(&run->prng, run->is_edgy ? edge_ms : FREEZE_MAX_MS);
	unsigned target = (unsigned)prng_below(&run->prng, run->world.target_count);

	if (!mpath_run_happens(run))
		return;
	run->stats.freezes++;
	run->frozen_until_ns = sim_now(run->world.sim) + ms * NS_PER_MS;
	mworld_freeze(&run->world, target, ms);
	run->frozen_target = target;
	if (run->is_apart)
		run->apart_from_ns = sim_now(run->world.sim) + EDGE_APART_MS * NS_PER_MS;
}

static void partitions_heal(struct mrun *run, uint64_t now_ns)
{
	for (unsigned i = 0; i < run->world.port_count; i++) {
		late_heal(&run->late, run->world.sim, i, &run->world.addrs[i],
			  run->is_healed ? UINT64_MAX : now_ns);
		if (run->healed_until_ns[i] == 0 || run->healed_until_ns[i] > now_ns)
			continue;
		run->healed_until_ns[i] = 0;
		sim_net_partition(run->world.sim, &run->world.addrs[i], false);
	}
}

static void trouble_partition(struct mrun *run, unsigned port)
{
	uint64_t duration_ns = (1 + prng_below(&run->prng, PARTITION_MAX_MS)) * NS_PER_MS;

	if (!mpath_run_happens(run))
		return;
	run->stats.partitions++;
	run->healed_until_ns[port] = sim_now(run->world.sim) + duration_ns;
	sim_net_partition(run->world.sim, &run->world.addrs[port], true);
}

static void trouble_restart(struct mrun *run)
{
	uint64_t down_ms = prng_below(&run->prng, 500);
	unsigned target = (unsigned)prng_below(&run->prng, run->world.target_count);

	if (!mpath_run_happens(run))
		return;
	run->stats.restarts++;
	mworld_restart(&run->world, target, down_ms);
}

static bool late_happens(void *arg)
{
	return mpath_run_happens(arg);
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
	if (run->apart_from_ns > 0 && now_ns >= run->apart_from_ns) {
		run->apart_from_ns = 0;
		if (now_ns < run->frozen_until_ns)
			frozen_partition(run);
	}
	late_strike(&run->late, world->sim, port, &world->addrs[port], late_happens, run);
	if (strikes(run, run->cut_one_in) && mpath_run_happens(run))
		run->stats.cuts += sim_net_cut(world->sim, &world->addrs[port]);
	if (run->healed_until_ns[port] == 0 && strikes(run, run->partition_one_in))
		trouble_partition(run, port);
	if (strikes(run, run->ana_one_in))
		trouble_ana(run);
	if (strikes(run, 4 * run->ana_one_in))
		trouble_group(run);
	if (now_ns >= run->frozen_until_ns && strikes(run, run->freeze_one_in))
		trouble_freeze(run);
	if (mworld_is_steady(world) && strikes(run, run->restart_one_in))
		trouble_restart(run);
	power_strike(run);
	tenants_strike(run);
	reactor_timer_arm(timer,
			  now_ns + (1 + prng_below(&run->prng, run->chaos_max_us)) * NS_PER_US);
}

static void paths_add_all(struct mrun *run)
{
	struct mworld *world = &run->world;

	for (unsigned i = 0; i < world->port_count; i++) {
		int res = mpath_add_path(world->mpath, &world->path_addrs[i]);

		CHECK(res == 0 || res == -EEXIST);
	}
}

/* Removes a path in whatever state it is, or adds it again. */
static void on_paths_timer(struct reactor_timer *timer)
{
	struct mrun *run = container_of(timer, struct mrun, paths_timer);
	struct mworld *world = &run->world;
	const struct host_addr *addr =
		&world->path_addrs[prng_below(&run->prng, world->port_count)];

	if (run->is_healed)
		return;
	if (strikes(run, run->remove_one_in) && mpath_run_happens(run)) {
		run->stats.removals++;
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

	/* ICReq and ICResp have no digests. */
	if (offset >= IC_BYTES && len_bytes > 0 && !run->is_healed &&
	    strikes(run, run->flip_one_in)) {
		run->stats.flips++;
		bytes[prng_below(&run->prng, len_bytes)] ^=
			(uint8_t)(1u << prng_below(&run->prng, 8));
	}
	mpath_hash_add(run, (uint64_t)fd ^ offset << 20 ^ sim_now(run->world.sim));
	mpath_hash_add(run, crc32c(bytes, len_bytes));
}

static void on_path(struct mworld *world, unsigned path, const char *what)
{
	enum path_state *told = &run_now->path_states[path];

	sim_transition_path(run_now->counters, *told, world->mpath->paths[path]->state);
	*told = world->mpath->paths[path]->state;
	/* Two independent targets must not be asked to reset each other's controllers. */
	if (!run_now->has_reset)
		world->mpath->paths[path]->identity.reset_limit = 0;
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
	/* Paths being removed count until they are gone. */
	return !tenants_are_well(run) || live < run->world.port_count ||
	       mpath_path_count(run->world.mpath) > live || !mworld_is_steady(&run->world);
}

static void run_heal(struct mrun *run)
{
	static const struct sim_faults no_faults;
	struct mworld *world = &run->world;
	bool has_moved = world->ns[0].ana_group == 2;

	run->is_healed = true;
	sim_net_set_faults(world->sim, &no_faults);
	for (unsigned i = 0; i < world->port_count; i++) {
		run->healed_until_ns[i] = run->healed_until_ns[i] ? 1 : 0;
		world->ana[i][0] = has_moved ? ANA_INACCESSIBLE : ANA_OPTIMIZED;
	}
	if (has_moved)
		world->ns[0].ana_group = 1;
	sim_enter(world->control);
	reactor_timer_cancel(&run->chaos_timer);
	partitions_heal(run, sim_now(world->sim));
	sim_leave(world->control);
	while (!mworld_is_steady(world) && sim_step(world->sim))
		;
	tenants_heal(run);
	mworld_apply(world);
	sim_enter(world->reactor);
	reactor_timer_cancel(&run->paths_timer);
	paths_add_all(run);
	for (unsigned i = 0; i < run->worker_count; i++) {
		if (!run->workers[i].is_busy)
			reactor_timer_arm(&run->workers[i].timer, sim_now(world->sim));
	}
	sim_leave(world->reactor);
	if (!has_moved)
		return;
	/* The move alone must let hosts continue their commands. */
	sim_run_until(world->sim, sim_now(world->sim) + GROUP_LEFT_NS);
	world->ns[0].ana_group = 2;
	mworld_apply(world);
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

void mpath_run_play(struct mrun *run)
{
	struct mworld *world = &run->world;

	run_now = run;
	world->on_path = on_path;
	sim_net_set_tap(world->sim, on_bytes, run);
	tenants_prepare(run);
	mworld_connect(world);
	if (world->ready_res != 0 && !mworld_until_live(world, 1, 60000)) {
		mpath_run_fail(run, "no path could be connected: %s", world->ready_error.text);
		return;
	}
	workers_start(run);
	tenants_start(run);
	(void)sim_run_while(world->sim, is_busy, run, TROUBLED_NS);
	run->commands_left = 0;
	run_heal(run);
	if (!sim_run_while(world->sim, is_not_well, run, HEALED_NS))
		mpath_run_fail(run, "the faults have ended, but the paths have not recovered");
}
