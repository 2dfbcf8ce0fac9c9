/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In random worlds of multipath: a target whose machine loses its power, with all writes that were
 * not flushed, and comes back with another boot. One thread.
 *
 * A flush that succeeds promises that everything is stable that its user's writes were acknowledged
 * for, but for what the user has been told to be lost. The judgement looks at the medium: the model
 * alone takes every flush as the medium's own. Orderly restarts in between lose nothing, and no
 * user may be told of a loss that was none.
 */
#include "sim_mpath.h"

#include "base/clock.h"

#include <inttypes.h>
#include <string.h>

#define POWER_DOWN_MAX_MS 500

void power_choose(struct mrun *run, bool is_chosen)
{
	if (!is_chosen)
		return;
	run->power_one_in = 4 + (uint32_t)prng_below(&run->prng, 30);
	probe_make_volatile(run->world.ns[0].probe);
}

void power_strike(struct mrun *run)
{
	uint64_t down_ms;

	if (run->power_one_in == 0 || !prng_one_in(&run->prng, run->power_one_in))
		return;
	down_ms = prng_below(&run->prng, POWER_DOWN_MAX_MS);
	if (!mpath_run_happens(run))
		return;
	run->power_losses++;
	sim_trace(run->world.sim, "the target loses its power");
	model_power_loss(run->model, ++run->step);
	mworld_lose_power(&run->world, down_ms);
}

void power_note_write(struct mworker *worker)
{
	worker->acked[worker->block - worker->first_block] = worker->value;
}

/* Values of a block only rise: each has one writer, which writes one after the other. */
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

void power_flush_judge(struct mworker *worker)
{
	struct mrun *run = worker->run;
	const struct mpath_io *io = &worker->mop.io;

	run->stats.flushes++;
	if (io->result == MPATH_OK) {
		flush_check(worker);
		model_flush(run->model, worker->start);
	} else if (io->result == MPATH_LOST) {
		run->stats.flushes_lost++;
		if (worker->power_losses_told == run->power_losses)
			mpath_run_fail(run, "a flush reports a loss of writes that was none");
		worker->power_losses_told = run->power_losses;
		worker->losses_told = io->losses_told;
		memset(worker->acked, 0, sizeof(worker->acked));
	} else if (io->result != MPATH_NO_PATH && io->attempts <= 1) {
		mpath_run_fail(run, "a flush ended with result %d, status 0x%x", io->result,
			       io->status.value);
	}
}
