/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss of acknowledged, unflushed writes in random worlds of multipath. The target's machine loses
 * power and returns with another boot, or its kernel fails to write data back, once or for a while,
 * and reports that at the next flush. Then the target stops properly, is killed, or an operator
 * rechecks the namespace before all users have flushed. One thread.
 *
 * A successful flush promises that the user's acknowledged writes are stable, except those reported
 * as lost to the user, by this flush or by a failed one. This is judged at the medium, because the
 * model alone would accept any flush of the medium. Restarts without a loss lose nothing, and no
 * user may get a report of a loss that did not happen.
 */
#include "sim_mpath.h"

#include "base/clock.h"
#include "ns/ns_live.h"

#include <inttypes.h>
#include <string.h>

#define POWER_DOWN_MAX_MS 500
#define FAILING_MAX_MS    300
#define RECHECK_ONE_IN    3
#define RECHECK_SOON_US   1000
#define LOSS_NOTED_NS     (20 * NS_PER_MS)

/* ---- troubles ---------------------------------------------------------------------------------
 */

static struct mrun *run_of(struct mworld *world)
{
	return container_of(world, struct mrun, world);
}

static void on_loss(struct mworld *world)
{
	struct mrun *run = run_of(world);

	sim_trace(world->sim, "the kernel gives up what was not flushed");
	model_power_loss(run->model, ++run->step);
}

static void medium_make_volatile(struct mrun *run)
{
	run->is_volatile = true;
	probe_make_volatile(run->world.ns[0].probe);
}

void power_choose(struct mrun *run, bool is_chosen)
{
	if (!is_chosen)
		return;
	run->power_one_in = 4 + (uint32_t)prng_below(&run->prng, 30);
	medium_make_volatile(run);
}

static void trouble_power(struct mrun *run)
{
	uint64_t down_ms = prng_below(&run->prng, POWER_DOWN_MAX_MS);

	if (!mpath_run_happens(run))
		return;
	run->power_losses++;
	sim_trace(run->world.sim, "the target loses its power");
	model_power_loss(run->model, ++run->step);
	mworld_lose_power(&run->world, down_ms);
}

/* A loss that the state store has not noted yet: after a kill now, no one could know of it. */
static bool has_just_lost(const struct mrun *run)
{
	const struct mworld_ns *ns = &run->world.ns[0];
	const struct probe *root = probe_root(ns->probe);

	return root->loss != ns_live_loss_noted(ns_backing_live(ns->backings[0])) &&
	       sim_now(run->world.sim) - root->loss_ns < LOSS_NOTED_NS;
}

static void trouble_kill(struct mrun *run)
{
	uint64_t down_ms = prng_below(&run->prng, POWER_DOWN_MAX_MS);

	if (!mpath_run_happens(run) || has_just_lost(run))
		return;
	run->stats.kills++;
	sim_trace(run->world.sim, "the target is killed");
	mworld_kill(&run->world, down_ms);
}

/* Fails the write-back once, or at each flush for a while. */
static void trouble_fault(struct mrun *run)
{
	struct probe *root = probe_root(run->world.ns[0].probe);
	bool is_once = prng_one_in(&run->prng, 2);
	uint64_t for_ns = (1 + prng_below(&run->prng, FAILING_MAX_MS)) * NS_PER_MS;

	if (!mpath_run_happens(run) || root->is_dark)
		return;
	run->stats.write_backs_failed++;
	if (is_once) {
		probe_lose(root);
	} else {
		root->is_failing = true;
		run->failing_until_ns = sim_now(run->world.sim) + for_ns;
	}
}

static void trouble_recheck(struct mrun *run)
{
	struct media *media = &run->world.ns[0].probe->media;

	if (!media_has_lost_writes(media) || !mpath_run_happens(run))
		return;
	run->stats.rechecks++;
	sim_trace(run->world.sim, "the namespace is rechecked");
	media_forgive(media);
}

static void on_recheck_timer(struct reactor_timer *timer)
{
	struct mrun *run = container_of(timer, struct mrun, recheck_timer);

	if (!run->is_healed)
		trouble_recheck(run);
}

static bool strikes(struct mrun *run, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&run->prng, one_in);
}

/* An operator may recheck before the loss is published and the host's command is answered. */
static void on_mark(struct mworld *world)
{
	struct mrun *run = run_of(world);
	uint64_t soon_us = prng_below(&run->prng, RECHECK_SOON_US);

	if (strikes(run, 2))
		reactor_timer_arm(&run->recheck_timer, sim_now(world->sim) + soon_us * NS_PER_US);
}

void power_faults_choose(struct mrun *run, bool has_power_losses, bool has_kills)
{
	static const struct sim_faults late = {.stall_ppm = 20000, .stall_max_us = 30000};
	struct prng *prng = &run->prng;

	run->fault_one_in = 2 + (uint32_t)prng_below(prng, 10);
	run->power_one_in = has_power_losses ? 10 + (uint32_t)prng_below(prng, 30) : 0;
	run->kill_one_in = has_kills ? 4 + (uint32_t)prng_below(prng, 20) : 0;
	if (run->restart_one_in == 0)
		run->restart_one_in = 4 + (uint32_t)prng_below(prng, 20);
	if (run->scenario->commands_max == 0)
		run->commands_left *= 2;
	/* Delays answers until long after their commands ran. */
	if (!has_power_losses && !run->tenants.is_clone)
		sim_net_set_faults(run->world.sim, &late);
	run->world.has_marks = true;
	run->world.on_loss = on_loss;
	run->world.on_mark = on_mark;
	reactor_timer_init(run->world.control, &run->recheck_timer, on_recheck_timer);
	medium_make_volatile(run);
}

static void faults_strike(struct mrun *run)
{
	if (run->failing_until_ns > 0 && sim_now(run->world.sim) >= run->failing_until_ns) {
		run->failing_until_ns = 0;
		probe_root(run->world.ns[0].probe)->is_failing = false;
	}
	if (strikes(run, run->fault_one_in))
		trouble_fault(run);
	if (strikes(run, run->fault_one_in > 0 ? RECHECK_ONE_IN : 0))
		trouble_recheck(run);
	if (mworld_is_steady(&run->world) && strikes(run, run->kill_one_in))
		trouble_kill(run);
}

void power_strike(struct mrun *run)
{
	if (mworld_is_steady(&run->world) && strikes(run, run->power_one_in))
		trouble_power(run);
	if (run->fault_one_in > 0)
		faults_strike(run);
}

/* ---- judgement --------------------------------------------------------------------------------
 */

void power_note_write(struct mworker *worker)
{
	worker->acked[worker->block - worker->first_block] = worker->value;
}

/* Values of a block only rise: its only writer writes one after the other. */
static void flush_check(struct mworker *worker)
{
	struct mrun *run = worker->run;
	const struct probe *probe = run->world.ns[0].probe;

	for (unsigned i = 0; i < WORKER_BLOCKS; i++) {
		uint64_t stable = probe_stable_value(probe, worker->first_block + i);

		if (stable < worker->acked[i])
			mpath_run_fail(run,
				       "a flush succeeded, and block %" PRIu64 " has value %" PRIu64
				       " on stable media, not the acknowledged %" PRIu64,
				       worker->first_block + i, stable, worker->acked[i]);
	}
}

/* Each power loss is reported once. A mark may become known long after it was drawn, and a write
 * answered in between counts as lost too: for marks only the number of reports is judged. */
static void lost_judge(struct mworker *worker)
{
	struct mrun *run = worker->run;
	bool is_none =
		run->fault_one_in > 0
			? worker->lost_flushes >=
				  run->power_losses + run->world.marks * (1 + run->worker_count)
			: worker->power_losses_told == run->power_losses;

	run->stats.flushes_lost++;
	worker->lost_flushes++;
	if (is_none)
		mpath_run_fail(run, "a flush reports lost writes, but no write was lost");
	worker->power_losses_told = run->power_losses;
	worker->losses_told = worker->mop.io.losses_told;
	memset(worker->acked, 0, sizeof(worker->acked));
}

static bool is_failed_by_medium(const struct mworker *worker)
{
	const struct mpath_io *io = &worker->mop.io;

	return worker->run->world.losses > 0 && io->result == MPATH_STATUS &&
	       nvme_status_same(io->status, NVME_SC_WRITE_FAULT);
}

void power_flush_judge(struct mworker *worker)
{
	struct mrun *run = worker->run;
	const struct mpath_io *io = &worker->mop.io;

	run->stats.flushes++;
	if (io->result == MPATH_OK) {
		flush_check(worker);
		model_flush(run->model, worker->start);
	} else if (io->result == MPATH_LOST) {
		lost_judge(worker);
	} else if (is_failed_by_medium(worker)) {
		run->stats.flushes_failed++;
		worker->flush_failed = io->flush;
		memset(worker->acked, 0, sizeof(worker->acked));
	} else if (io->result != MPATH_NO_PATH && io->attempts <= 1) {
		mpath_run_fail(run, "a flush ended with result %d, status 0x%x", io->result,
			       io->status.value);
	}
}
