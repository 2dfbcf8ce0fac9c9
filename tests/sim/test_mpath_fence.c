/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of a lost path. A write must not be sent again while its first copy may still reach the
 * medium, which the tests examine. Reads are resent at once. A command that cannot be repeated is
 * reported as unknown, and not too early. The real target, on the simulated reactor.
 */
#include "../unit/tap.h"
#include "mpath_world.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "host/mpath_internal.h"

#include <stdlib.h>

#define BLOCK 5

static struct mworld world;
static const struct sim_options orderly = {.is_orderly = true};

static struct probe *probe(void)
{
	return world.ns[0].probe;
}

/* Two live, stable paths. has_reset false: the host must wait for the time rule. */
static void world_open(uint64_t seed, bool has_reset)
{
	mworld_create(&world, seed, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	for (unsigned i = 0; i < 2 && !has_reset; i++)
		world.mpath->paths[i]->identity.reset_limit = 0;
}

/* A path that reconnects reports its reset limit again. */
static void reset_forbid(void)
{
	for (unsigned i = 0; i < mpath_path_count(world.mpath); i++)
		world.mpath->paths[i]->identity.reset_limit = 0;
}

/* Cuts the path; no reset is possible until it has reconnected. Returns when it was cut. */
static uint64_t cut_without_reset(unsigned path)
{
	uint64_t cut_ns = sim_now(world.sim);

	sim_net_cut(world.sim, &world.addrs[path]);
	for (unsigned i = 0; i < 20; i++) {
		mworld_run_ms(&world, 20);
		reset_forbid();
	}
	return cut_ns;
}

static bool has_begun(struct mworld *unused, void *arg)
{
	return probe()->writes_begun >= *(unsigned *)arg;
}

/* Sends a write that takes delay_ms in the medium; waits until it is there. Returns its path. */
static unsigned write_slowly(struct mop *mop, uint64_t value, uint64_t delay_ms)
{
	unsigned begun = probe()->writes_begun + 1;

	probe()->next_delay_ns = delay_ms * NS_PER_MS;
	mop_write(&world, mop, BLOCK, value);
	EXPECT(mworld_until(&world, has_begun, &begun, 1000));
	return mop->io.path == world.mpath->paths[0] ? 0 : 1;
}

static uint64_t read_value(void)
{
	struct mop mop = {0};

	mop_read(&world, &mop, BLOCK);
	EXPECT(mworld_until_done(&mop, 5000));
	return mop_value(&mop);
}

/* KATO of the controller plus CQT. */
static uint64_t wait_ms(unsigned path)
{
	const struct path *lost = world.mpath->paths[path];
	uint32_t quiesce_ms = lost->identity.quiesce_ms ? lost->identity.quiesce_ms
							: world.config.timeouts.quiesce_ms;

	return lost->kato_ms + quiesce_ms;
}

/* ---- the corruption ---------------------------------------------------------------------------
 */

/* Two targets serve the same blocks. A write is in the medium of the first target when its path
 * falls silent. The host writes it again through the second target, then a newer value. Returns the
 * block's value in the end. */
static uint64_t late_copy_scenario(bool is_fencing_off)
{
	struct mop first = {0};
	struct mop newer = {0};
	uint64_t last_ns, value;

	mworld_create_two(&world, 20, 2, false, &orderly);
	world.ana[1][0] = ANA_NON_OPTIMIZED;
	mworld_apply(&world);
	world.config.is_fencing_off = is_fencing_off;
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	reset_forbid();
	probe()->is_deaf = true;
	EXPECT_EQ(0, write_slowly(&first, 1, 900));
	sim_net_partition(world.sim, &world.addrs[0], true);
	EXPECT(mworld_until_done(&first, 20000));
	EXPECT_EQ(MPATH_OK, first.io.result);
	EXPECT_EQ(2, first.io.attempts);
	mop_write(&world, &newer, BLOCK, 2);
	EXPECT(mworld_until_done(&newer, 5000));
	EXPECT_EQ(MPATH_OK, newer.io.result);
	mworld_run_ms(&world, 2000);
	EXPECT_EQ(2, probe_landed(probe(), 1, &last_ns));
	value = probe_value(probe(), BLOCK);
	sim_net_partition(world.sim, &world.addrs[0], false);
	EXPECT_EQ(0, mworld_destroy(&world));
	return value;
}

static void without_fencing_an_old_write_destroys_a_new_one(void)
{
	EXPECT_EQ(1, late_copy_scenario(true));
}

static void with_fencing_the_new_one_stays(void)
{
	EXPECT_EQ(2, late_copy_scenario(false));
}

/* ---- the time rule ----------------------------------------------------------------------------
 */

static void a_write_waits_for_kato_and_cqt(void)
{
	struct mop mop = {0};
	unsigned path;
	uint64_t lost_ns, landed_ns, limit_ms;

	world_open(21, false);
	path = write_slowly(&mop, 3, 5000);
	limit_ms = wait_ms(path);
	EXPECT(limit_ms > world.config.timeouts.keep_alive_ms);
	/* The target notices the loss at once and cancels; the host does not know that. */
	lost_ns = cut_without_reset(path);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(1, probe_landed(probe(), 3, &landed_ns));
	EXPECT(landed_ns >= lost_ns + limit_ms * NS_PER_MS);
	EXPECT(landed_ns <= lost_ns + (limit_ms + 20) * NS_PER_MS);
	EXPECT_EQ(1, mworld_info(&world, path).fences_by_time);
	EXPECT_EQ(0, mworld_info(&world, path).fences_by_reset);
	EXPECT_EQ(1, world.time_waits);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void reads_do_not_wait(void)
{
	struct mop reads[8] = {0};
	struct mop write = {0};
	unsigned path;

	world_open(22, false);
	path = write_slowly(&write, 3, 100000);
	probe()->delay_ns = 2 * NS_PER_MS;
	for (unsigned i = 0; i < 8; i++)
		mop_read(&world, &reads[i], i);
	mworld_run_ms(&world, 1);
	sim_net_cut(world.sim, &world.addrs[path]);
	for (unsigned i = 0; i < 8; i++)
		EXPECT(mworld_until_done(&reads[i], 20));
	EXPECT(!write.is_done);
	/* Nor do writes of the live path wait. */
	probe()->delay_ns = 0;
	mworld_run_ms(&world, 5);
	reset_forbid();
	EXPECT(!write.is_done);
	EXPECT(mworld_until_done(&write, 20000));
	EXPECT_EQ(MPATH_OK, write.io.result);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Commands waiting for a slot were never sent and need no fence. */
static void what_was_not_sent_goes_on_at_once(void)
{
	struct mop mops[64] = {0};
	unsigned done = 0;

	mworld_create(&world, 23, 2, &orderly);
	world.config.io_queue_size = 4;
	world.config.io_queues = 1;
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	reset_forbid();
	probe()->delay_ns = 3 * NS_PER_MS;
	for (unsigned i = 0; i < 64; i++)
		mop_write(&world, &mops[i], i, 700 + i);
	mworld_run_ms(&world, 1);
	sim_net_cut(world.sim, &world.addrs[1]);
	mworld_run_ms(&world, 200);
	reset_forbid();
	for (unsigned i = 0; i < 64; i++)
		done += mops[i].is_done;
	/* Only commands in slots of the lost path wait. */
	EXPECT(done >= 64 - 3);
	EXPECT(done < 64);
	for (unsigned i = 0; i < 64; i++) {
		EXPECT(mworld_until_done(&mops[i], 20000));
		EXPECT_EQ(MPATH_OK, mops[i].io.result);
		EXPECT_EQ(700 + i, probe_value(probe(), i));
	}
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void each_lost_controller_has_its_own_fence(void)
{
	struct mop first = {0};
	struct mop second = {0};
	unsigned path;
	uint64_t first_lost_ns, second_lost_ns;

	world_open(24, false);
	path = write_slowly(&first, 1, 60000);
	sim_net_partition(world.sim, &world.addrs[path], true);
	sim_net_cut(world.sim, &world.addrs[path]);
	first_lost_ns = sim_now(world.sim);
	mworld_run_ms(&world, 300);
	EXPECT_EQ(!path, write_slowly(&second, 2, 60000));
	sim_net_partition(world.sim, &world.addrs[!path], true);
	sim_net_cut(world.sim, &world.addrs[!path]);
	second_lost_ns = sim_now(world.sim);
	/* Both fences end while no path is live: no command fails. */
	mworld_run_ms(&world, 10000);
	EXPECT(!first.is_done && !second.is_done);
	EXPECT_EQ(1, mworld_info(&world, 0).fences_by_time);
	EXPECT_EQ(1, mworld_info(&world, 1).fences_by_time);
	EXPECT(second_lost_ns > first_lost_ns);
	sim_net_partition(world.sim, NULL, false);
	EXPECT(mworld_until_done(&first, 10000));
	EXPECT(mworld_until_done(&second, 10000));
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* A write must not fail while it may still run, even when fast_io_fail is shorter. */
static void nothing_fails_before_its_fence_is_clear(void)
{
	struct mop mop = {0};
	unsigned path;
	uint64_t lost_ns;

	mworld_create(&world, 25, 1, &orderly);
	world.config.timeouts.fast_io_fail_ms = 100;
	mworld_connect(&world);
	reset_forbid();
	path = write_slowly(&mop, 9, 60000);
	sim_net_partition(world.sim, NULL, true);
	sim_net_cut(world.sim, NULL);
	lost_ns = sim_now(world.sim);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_UNKNOWN, mop.io.result);
	EXPECT(mop.done_ns >= lost_ns + wait_ms(path) * NS_PER_MS);
	sim_net_partition(world.sim, NULL, false);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void without_keep_alive_the_outcome_is_unknown(void)
{
	struct mop mop = {0};
	unsigned path;
	uint64_t lost_ns;

	mworld_create(&world, 26, 2, &orderly);
	world.config.timeouts.keep_alive_ms = 0;
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	reset_forbid();
	path = write_slowly(&mop, 9, 60000);
	lost_ns = cut_without_reset(path);
	EXPECT(mworld_until_done(&mop, 200000));
	EXPECT_EQ(MPATH_UNKNOWN, mop.io.result);
	EXPECT(mop.done_ns >= lost_ns + 100 * NS_PER_S);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_fused_pair_is_never_sent_twice(void)
{
	struct mop mop = {0};
	unsigned begun = 1;
	unsigned path;
	uint64_t lost_ns;

	world_open(27, false);
	/* Without a loss the pair works. */
	mop_fused(&world, &mop, BLOCK, 0, 11);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(MPATH_OK, mop.second.result);
	EXPECT_EQ(11, read_value());
	mop_fused(&world, &mop, BLOCK, 0, 12);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_STATUS, mop.io.result);
	EXPECT(nvme_status_same(mop.io.status, NVME_SC_COMPARE_FAILED));
	EXPECT_EQ(MPATH_STATUS, mop.second.result);
	begun = probe()->writes_begun + 1;
	probe()->next_delay_ns = 60 * NS_PER_S;
	mop_fused(&world, &mop, BLOCK, 11, 13);
	EXPECT(mworld_until(&world, has_begun, &begun, 1000));
	path = mop.io.path == world.mpath->paths[0] ? 0 : 1;
	lost_ns = cut_without_reset(path);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_UNKNOWN, mop.io.result);
	EXPECT_EQ(MPATH_UNKNOWN, mop.second.result);
	EXPECT_EQ(1, mop.io.attempts);
	EXPECT(mop.done_ns >= lost_ns + wait_ms(path) * NS_PER_MS);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* ---- Cross-Controller Reset -------------------------------------------------------------------
 */

static void a_reset_is_much_faster(void)
{
	struct mop mop = {0};
	unsigned path;
	uint64_t lost_ns, landed_ns;

	world_open(28, true);
	path = write_slowly(&mop, 3, 60000);
	sim_net_cut(world.sim, &world.addrs[path]);
	lost_ns = sim_now(world.sim);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(1, probe_landed(probe(), 3, &landed_ns));
	EXPECT(landed_ns - lost_ns < 500 * NS_PER_MS);
	EXPECT_EQ(1, mworld_info(&world, path).fences_by_reset);
	EXPECT_EQ(0, mworld_info(&world, path).fences_by_time);
	EXPECT_EQ(0, world.time_waits);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* The medium ignores cancellations: the reset succeeds only when the write has landed. */
static void a_reset_waits_for_the_medium(void)
{
	struct mop mop = {0};
	unsigned path;
	uint64_t first_ns, landed_ns;

	world_open(29, true);
	probe()->is_deaf = true;
	path = write_slowly(&mop, 4, 600);
	sim_net_partition(world.sim, &world.addrs[path], true);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(2, probe_landed(probe(), 4, &landed_ns));
	EXPECT_EQ(2, mop.io.attempts);
	/* The first copy landed before the second. */
	first_ns = probe()->landings[probe()->landing_count - 2].at_ns;
	EXPECT(first_ns < landed_ns);
	/* The host learned of the reset's end by the notice, not by its next poll. */
	EXPECT(landed_ns - first_ns < 5 * NS_PER_MS);
	EXPECT_EQ(1, mworld_info(&world, path).fences_by_reset);
	sim_net_partition(world.sim, &world.addrs[path], false);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* As with a peer that must be fenced before its controllers are reset. No other path to ask. */
static void a_reset_that_takes_long_is_waited_for(void)
{
	struct mop mop = {0};
	unsigned path;
	uint64_t landed_ns;

	mworld_create(&world, 32, 2, &orderly);
	world.config.timeouts.reset_ms = 50;
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	probe()->is_deaf = true;
	path = write_slowly(&mop, 4, 600);
	sim_net_partition(world.sim, &world.addrs[path], true);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(2, probe_landed(probe(), 4, &landed_ns));
	EXPECT_EQ(1, mworld_info(&world, path).fences_by_reset);
	EXPECT_EQ(0, mworld_info(&world, path).fences_by_time);
	sim_net_partition(world.sim, &world.addrs[path], false);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_path_that_comes_back_resets_its_own_past(void)
{
	struct mop mop = {0};
	uint64_t lost_ns;

	mworld_create(&world, 30, 1, &orderly);
	mworld_connect(&world);
	(void)write_slowly(&mop, 5, 60000);
	sim_net_cut(world.sim, NULL);
	lost_ns = sim_now(world.sim);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT(mop.done_ns - lost_ns < 900 * NS_PER_MS);
	EXPECT_EQ(1, mworld_info(&world, 0).fences_by_reset);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* A different subsystem with the same NQN would confirm that it has no such controller. */
static void a_stranger_is_not_asked(void)
{
	struct mop mop = {0};
	uint64_t lost_ns, limit_ms;

	mworld_create_two(&world, 31, 2, true, &orderly);
	sim_net_partition(world.sim, &world.addrs[1], true);
	mworld_connect(&world);
	sim_net_partition(world.sim, &world.addrs[1], false);
	EXPECT(mworld_until_live(&world, 2, 5000));
	EXPECT_EQ(0, write_slowly(&mop, 3, 60000));
	limit_ms = wait_ms(0);
	sim_net_partition(world.sim, &world.addrs[0], true);
	sim_net_cut(world.sim, &world.addrs[0]);
	lost_ns = sim_now(world.sim);
	mworld_run_ms(&world, limit_ms - 10);
	EXPECT_EQ(0, mworld_info(&world, 0).fences_by_reset);
	EXPECT_EQ(0, mworld_info(&world, 0).fences_by_time);
	mworld_run_ms(&world, 20);
	EXPECT_EQ(1, mworld_info(&world, 0).fences_by_time);
	EXPECT(sim_now(world.sim) > lost_ns);
	sim_net_partition(world.sim, &world.addrs[0], false);
	EXPECT(mworld_until_done(&mop, 5000));
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Loses the first path for good with a write in the medium. Returns whether the other path was
 * asked for a reset. Before that, the other controller's identity is overwritten: host/join.c would
 * not allow such a path, and the fence must not rely on host/join.c. */
static bool is_other_asked(uint64_t seed, const char *nqn, const char *serial, const char *model)
{
	struct mop mop = {0};
	struct ctrl_identity *identity;
	unsigned lost, by_reset;

	world_open(seed, true);
	lost = write_slowly(&mop, 1, 100);
	identity = &world.mpath->paths[1 - lost]->identity;
	if (nqn)
		text_copy(identity->subsystem_nqn, sizeof(identity->subsystem_nqn), nqn);
	if (serial)
		text_copy(identity->serial, sizeof(identity->serial), serial);
	if (model)
		text_copy(identity->model, sizeof(identity->model), model);
	sim_net_partition(world.sim, &world.addrs[lost], true);
	sim_net_cut(world.sim, &world.addrs[lost]);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	by_reset = mworld_info(&world, lost).fences_by_reset;
	EXPECT_EQ(1, by_reset + mworld_info(&world, lost).fences_by_time);
	sim_net_partition(world.sim, &world.addrs[lost], false);
	EXPECT_EQ(0, mworld_destroy(&world));
	return by_reset == 1;
}

/* A controller's answer about another controller counts only within the same subsystem. */
static void only_the_same_subsystem_is_asked(void)
{
	EXPECT(is_other_asked(32, NULL, NULL, NULL));
	EXPECT(is_other_asked(33, NULL, NULL, "another model"));
	EXPECT(!is_other_asked(34, NULL, "OTHER", NULL));
	EXPECT(!is_other_asked(35, "nqn.2014-08.org.example:other", NULL, NULL));
}

static bool has_reset(void)
{
	bool is_there;

	mworld_create(&world, 1, 1, &orderly);
	mworld_connect(&world);
	is_there = world.mpath->paths[0]->identity.reset_limit > 0;
	EXPECT_EQ(0, mworld_destroy(&world));
	return is_there;
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(without_fencing_an_old_write_destroys_a_new_one);
	TAP_RUN(with_fencing_the_new_one_stays);
	TAP_RUN(a_write_waits_for_kato_and_cqt);
	TAP_RUN(reads_do_not_wait);
	TAP_RUN(what_was_not_sent_goes_on_at_once);
	TAP_RUN(each_lost_controller_has_its_own_fence);
	TAP_RUN(nothing_fails_before_its_fence_is_clear);
	TAP_RUN(without_keep_alive_the_outcome_is_unknown);
	TAP_RUN(a_fused_pair_is_never_sent_twice);
	if (has_reset()) {
		TAP_RUN(a_reset_is_much_faster);
		TAP_RUN(a_reset_waits_for_the_medium);
		TAP_RUN(a_reset_that_takes_long_is_waited_for);
		TAP_RUN(a_path_that_comes_back_resets_its_own_past);
		TAP_RUN(a_stranger_is_not_asked);
		TAP_RUN(only_the_same_subsystem_is_asked);
	} else {
		printf("# the target has no Cross-Controller Reset yet\n");
	}
	return tap_end();
}
