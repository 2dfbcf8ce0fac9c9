/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipath against the real target on the simulated reactor: paths, losses, ANA, namespaces. What
 * happens to writes after a loss is in test_mpath_fence.c.
 */
#include "../unit/tap.h"
#include "mpath_world.h"

#include "base/clock.h"
#include "base/log.h"
#include "host/mpath_internal.h"

#include <errno.h>
#include <stdlib.h>

static struct mworld world;
static const struct sim_options orderly = {.is_orderly = true};

static struct path_info info_of(unsigned path)
{
	return mworld_info(&world, path);
}

static uint64_t read_value(uint64_t block)
{
	struct mop mop = {0};

	mop_read(&world, &mop, block);
	EXPECT(mworld_until_done(&mop, 5000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	return mop_value(&mop);
}

static void write_value(uint64_t block, uint64_t value)
{
	struct mop mop = {0};

	mop_write(&world, &mop, block, value);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
}

/* ---- paths ------------------------------------------------------------------------------------
 */

static void two_paths_carry_commands_in_turn(void)
{
	struct ns_info ns;

	mworld_create(&world, 1, 2, &orderly);
	mworld_connect(&world);
	EXPECT_EQ(0, world.ready_res);
	EXPECT_EQ(1, world.ready_count);
	EXPECT(mworld_until_live(&world, 2, 1000));
	EXPECT_EQ(2, mpath_path_count(world.mpath));
	mpath_ns_info(mworld_handle(&world, 1), &ns);
	EXPECT_EQ(MWORLD_BLOCKS, ns.identity.block_count);
	EXPECT(mpath_ns_next(world.mpath, 0) == mworld_handle(&world, 1));
	EXPECT(mpath_ns_next(world.mpath, 1) == mworld_handle(&world, 2));
	EXPECT(mpath_ns_next(world.mpath, 2) == NULL);
	EXPECT(mpath_identity(world.mpath) != NULL);
	for (uint64_t i = 0; i < 10; i++)
		write_value(i, 100 + i);
	for (uint64_t i = 0; i < 10; i++)
		EXPECT_EQ(100 + i, read_value(i));
	EXPECT_EQ(10, info_of(0).commands);
	EXPECT_EQ(10, info_of(1).commands);
	EXPECT(info_of(0).cntlid != info_of(1).cntlid);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void nobody_there_is_told_within_the_connect_time(void)
{
	uint64_t begin_ms;

	mworld_create(&world, 2, 2, &orderly);
	begin_ms = mworld_now_ms(&world);
	sim_net_partition(world.sim, NULL, true);
	mworld_connect(&world);
	EXPECT(world.ready_res < 0);
	EXPECT(world.ready_error.text[0] != '\0');
	EXPECT(mworld_now_ms(&world) - begin_ms <= world.config.timeouts.connect_ms + 100);
	/* Attempts continue. */
	sim_net_partition(world.sim, NULL, false);
	EXPECT(mworld_until_live(&world, 2, 5000));
	EXPECT_EQ(1, world.ready_count);
	EXPECT(world.ns_changed_count >= 2);
	write_value(1, 7);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_cut_path_costs_no_read(void)
{
	struct mop mops[8] = {0};

	mworld_create(&world, 3, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	world.ns[0].probe->delay_ns = 5 * NS_PER_MS;
	for (unsigned i = 0; i < 8; i++)
		mop_read(&world, &mops[i], i);
	mworld_run_ms(&world, 2);
	EXPECT(sim_net_cut(world.sim, &world.addrs[0]) > 0);
	for (unsigned i = 0; i < 8; i++) {
		EXPECT(mworld_until_done(&mops[i], 100));
		EXPECT_EQ(MPATH_OK, mops[i].io.result);
	}
	EXPECT_EQ(1, info_of(0).losses);
	EXPECT(mworld_until_live(&world, 2, 1000));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_controller_that_grants_less_queues_than_the_last_is_used(void)
{
	mworld_create(&world, 31, 1, &orderly);
	world.config.io_queues = 4;
	mworld_connect(&world);
	EXPECT_EQ(4, info_of(0).queue_count);
	for (uint64_t i = 0; i < 3; i++)
		write_value(i, i + 1);
	world.io_queues_max = 2;
	mworld_apply(&world);
	EXPECT(sim_net_cut(world.sim, &world.addrs[0]) > 0);
	mworld_run_ms(&world, 1);
	EXPECT(mworld_until_live(&world, 1, 2000));
	EXPECT_EQ(2, info_of(0).queue_count);
	for (uint64_t i = 0; i < 3; i++)
		EXPECT_EQ(i + 1, read_value(i));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_silent_path_is_left_after_the_silence(void)
{
	struct mop mops[8] = {0};
	uint64_t begin_ms;

	mworld_create(&world, 4, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	mworld_run_ms(&world, 50);
	sim_net_partition(world.sim, &world.addrs[1], true);
	begin_ms = mworld_now_ms(&world);
	for (unsigned i = 0; i < 8; i++)
		mop_read(&world, &mops[i], i);
	for (unsigned i = 0; i < 8; i++) {
		EXPECT(mworld_until_done(&mops[i], 10000));
		EXPECT_EQ(MPATH_OK, mops[i].io.result);
	}
	EXPECT(mworld_now_ms(&world) - begin_ms <= 2 * world.config.timeouts.silence_ms);
	sim_net_partition(world.sim, &world.addrs[1], false);
	EXPECT(mworld_until_live(&world, 2, 5000));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_path_that_flaps_is_damped(void)
{
	struct path_info before;

	mworld_create(&world, 5, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	EXPECT(info_of(1).is_stable);
	sim_net_cut(world.sim, &world.addrs[1]);
	mworld_run_ms(&world, 1);
	EXPECT(mworld_until_live(&world, 2, 2000));
	EXPECT(!info_of(1).is_stable);
	before = info_of(1);
	for (uint64_t i = 0; i < 10; i++)
		write_value(i, i);
	EXPECT_EQ(before.commands, info_of(1).commands);
	/* The path is damped until it has been live for stable_ms. */
	mworld_run_ms(&world, world.config.timeouts.stable_ms + 10);
	EXPECT(info_of(1).is_stable);
	for (uint64_t i = 0; i < 10; i++)
		write_value(i, i);
	EXPECT(info_of(1).commands > before.commands);
	/* A damped path is used when no other is live. */
	sim_net_cut(world.sim, &world.addrs[1]);
	mworld_run_ms(&world, 1);
	EXPECT(mworld_until_live(&world, 2, 2000));
	sim_net_cut(world.sim, &world.addrs[1]);
	mworld_run_ms(&world, 1);
	EXPECT(mworld_until_live(&world, 2, 2000));
	sim_net_partition(world.sim, &world.addrs[0], true);
	sim_net_cut(world.sim, &world.addrs[0]);
	EXPECT_EQ(0, read_value(60));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_path_that_stays_away_is_given_up_and_comes_back(void)
{
	mworld_create(&world, 6, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	sim_net_partition(world.sim, &world.addrs[1], true);
	mworld_run_ms(&world, 1000);
	EXPECT(!info_of(1).is_given_up);
	mworld_run_ms(&world, 10000);
	EXPECT(info_of(1).is_given_up);
	EXPECT(info_of(1).last_error[0] != '\0');
	sim_net_partition(world.sim, &world.addrs[1], false);
	EXPECT(mworld_until_live(&world, 2, 3000));
	EXPECT(!info_of(1).is_given_up);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Delays between attempts of one refused path, in ms. Returns their number. */
static unsigned waits_of(uint64_t seed, uint64_t *waits, unsigned max)
{
	unsigned count = 0;
	uint64_t seen_ns = 0;

	mworld_create(&world, seed, 1, &orderly);
	world.config.timeouts.reconnect_min_ms = 100;
	world.config.timeouts.reconnect_max_ms = 1600;
	world.config.timeouts.jitter_percent = 25;
	mworld_connect(&world);
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_add_path(world.mpath, &world.path_addrs[1])); /* no listener */
	sim_leave(world.reactor);
	for (unsigned i = 0; i < 12000 && count < max; i++) {
		const struct path *path = world.mpath->paths[1];

		mworld_run_ms(&world, 1);
		if (path->state != PATH_WAITING || path->retry_timer.deadline_ns == seen_ns)
			continue;
		seen_ns = path->retry_timer.deadline_ns;
		if (seen_ns > sim_now(world.sim))
			waits[count++] = (seen_ns - sim_now(world.sim)) / NS_PER_MS + 1;
	}
	EXPECT_EQ(0, mworld_destroy(&world));
	return count;
}

static void attempts_are_spaced_more_and_more_and_by_chance(void)
{
	uint64_t waits[2][8];
	bool differ = false;

	for (unsigned i = 0; i < 2; i++) {
		EXPECT_EQ(8, waits_of(40 + i, waits[i], 8));
		for (unsigned k = 0; k < 8; k++) {
			uint64_t most = k < 4 ? 100ull << k : 1600;

			EXPECT(waits[i][k] <= most + 2 && waits[i][k] + 2 >= most * 3 / 4);
			differ |= waits[0][k] != waits[i][k];
		}
	}
	EXPECT(differ);
}

/* Cuts in any state of a path: connecting, reading namespaces, live. */
static void a_thousand_cuts_lose_no_path(void)
{
	struct prng prng;
	struct mop mop = {0};

	mworld_create(&world, 7, 2, &(struct sim_options){.latency_max_us = 100});
	world.config.timeouts.reconnect_max_ms = 20;
	mworld_connect(&world);
	prng_seed(&prng, 7);
	for (unsigned i = 0; i < 2000; i++) {
		sim_run_until(world.sim,
			      sim_now(world.sim) +
				      prng_below(&prng, prng_one_in(&prng, 4) ? 30000 : 1500) *
					      NS_PER_US);
		sim_net_cut(world.sim, &world.addrs[i % 2]);
		if (i % 50 != 0)
			continue;
		mop_read(&world, &mop, 1);
		EXPECT(mworld_until_done(&mop, 1000));
	}
	EXPECT(mworld_until_live(&world, 2, 2000));
	EXPECT(info_of(0).losses > 20);
	EXPECT(info_of(1).losses > 20);
	write_value(5, 55);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void paths_come_and_go_while_open(void)
{
	mworld_create(&world, 8, 3, &orderly);
	world.port_count = 1;
	mworld_connect(&world);
	world.port_count = 3;
	sim_enter(world.reactor);
	EXPECT_EQ(-EEXIST, mpath_add_path(world.mpath, &world.path_addrs[0]));
	EXPECT_EQ(0, mpath_add_path(world.mpath, &world.path_addrs[1]));
	EXPECT_EQ(-ENOENT, mpath_remove_path(world.mpath, &world.path_addrs[2]));
	sim_leave(world.reactor);
	EXPECT(mworld_until_live(&world, 2, 1000));
	write_value(1, 1);
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_remove_path(world.mpath, &world.path_addrs[0]));
	EXPECT_EQ(-ENOENT, mpath_remove_path(world.mpath, &world.path_addrs[0]));
	sim_leave(world.reactor);
	mworld_run_ms(&world, 100);
	EXPECT_EQ(1, mpath_path_count(world.mpath));
	EXPECT_EQ(1, read_value(1));
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Commands on a removed path end there; the fence of a lost path continues without the path. */
static void a_path_that_is_taken_away_takes_nothing_along(void)
{
	struct mop mop = {0};

	mworld_create(&world, 18, 2, &orderly);
	world.ana[1][0] = ANA_NON_OPTIMIZED;
	mworld_apply(&world);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	world.ns[0].probe->next_delay_ns = 50 * NS_PER_MS;
	mop_write(&world, &mop, 1, 5);
	mworld_run_ms(&world, 1);
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_remove_path(world.mpath, &world.path_addrs[0]));
	sim_leave(world.reactor);
	EXPECT_EQ(2, mpath_path_count(world.mpath));
	EXPECT(mworld_until_done(&mop, 100));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(1, mop.io.attempts);
	mworld_run_ms(&world, 50);
	EXPECT_EQ(1, mpath_path_count(world.mpath));
	/* Again, with a path that is lost before its removal. */
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_add_path(world.mpath, &world.path_addrs[0]));
	sim_leave(world.reactor);
	EXPECT(mworld_until_live(&world, 2, 1000));
	world.ns[0].probe->next_delay_ns = 500 * NS_PER_MS;
	world.ns[0].probe->is_deaf = true;
	mop_write(&world, &mop, 1, 6);
	mworld_run_ms(&world, 1);
	sim_net_cut(world.sim, &world.addrs[0]);
	mworld_run_ms(&world, 5);
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_remove_path(world.mpath, &world.path_addrs[0]));
	sim_leave(world.reactor);
	mworld_run_ms(&world, 50);
	EXPECT_EQ(1, mpath_path_count(world.mpath));
	EXPECT(!mop.is_done);
	EXPECT(mworld_until_done(&mop, 10000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(2, mop.io.attempts);
	EXPECT_EQ(6, read_value(1));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void closing_at_any_moment_leaves_nothing(void)
{
	struct prng prng;

	prng_seed(&prng, 19);
	for (unsigned i = 0; i < 100; i++) {
		mworld_create(&world, i, 2, &(struct sim_options){.latency_max_us = 100});
		mworld_open(&world);
		for (unsigned k = 0; k < i % 4; k++) {
			sim_run_until(world.sim,
				      sim_now(world.sim) + prng_below(&prng, 3000) * NS_PER_US);
			sim_net_cut(world.sim, &world.addrs[k % 2]);
		}
		sim_run_until(world.sim, sim_now(world.sim) + prng_below(&prng, 4000) * NS_PER_US);
		EXPECT_EQ(0, mworld_destroy(&world));
	}
}

static void no_path_for_too_long_fails_commands(void)
{
	struct mop mop = {0};
	uint64_t begin_ms;

	mworld_create(&world, 9, 2, &orderly);
	world.config.timeouts.fast_io_fail_ms = 700;
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	sim_net_partition(world.sim, NULL, true);
	sim_net_cut(world.sim, NULL);
	mworld_run_ms(&world, 10);
	begin_ms = mworld_now_ms(&world);
	mop_write(&world, &mop, 1, 1);
	EXPECT(mworld_until_done(&mop, 2000));
	EXPECT_EQ(MPATH_NO_PATH, mop.io.result);
	EXPECT(mworld_now_ms(&world) - begin_ms >= 680);
	EXPECT(mworld_now_ms(&world) - begin_ms <= 710);
	sim_net_partition(world.sim, NULL, false);
	EXPECT(mworld_until_live(&world, 2, 3000));
	write_value(1, 2);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* ---- ANA --------------------------------------------------------------------------------------
 */

static void a_group_that_moves_takes_its_commands_along(void)
{
	static const enum ana_state states[] = {ANA_NON_OPTIMIZED, ANA_INACCESSIBLE,
						ANA_PERSISTENT_LOSS, ANA_CHANGE};

	mworld_create(&world, 10, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	for (unsigned i = 0; i < ARRAY_LEN(states); i++) {
		unsigned away = i % 2;
		uint64_t before;

		world.ana[away][0] = states[i];
		world.ana[!away][0] = ANA_OPTIMIZED;
		mworld_apply(&world);
		mworld_run_ms(&world, 20);
		EXPECT_EQ(states[i], mpath_path_ana(world.mpath, away, 1));
		EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, !away, 1));
		EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, away, 2));
		before = info_of(away).commands;
		for (uint64_t k = 0; k < 6; k++)
			write_value(k, i * 100 + k);
		EXPECT_EQ(before, info_of(away).commands);
	}
	EXPECT_EQ(0, info_of(0).losses);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* The status arrives before the notice: the command is still sent elsewhere. */
static void a_command_under_way_when_its_group_moves_goes_elsewhere(void)
{
	struct mop mops[32] = {0};

	mworld_create(&world, 11, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	world.ana[0][0] = ANA_INACCESSIBLE;
	mworld_apply(&world);
	for (unsigned i = 0; i < 32; i++)
		mop_write(&world, &mops[i], i, 1000 + i);
	for (unsigned i = 0; i < 32; i++) {
		EXPECT(mworld_until_done(&mops[i], 100));
		EXPECT_EQ(MPATH_OK, mops[i].io.result);
	}
	for (uint64_t i = 0; i < 32; i++)
		EXPECT_EQ(1000 + i, read_value(i));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_group_in_change_everywhere_holds_its_commands(void)
{
	struct mop mop = {0};

	mworld_create(&world, 12, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	world.ana[0][0] = world.ana[1][0] = ANA_CHANGE;
	mworld_apply(&world);
	mop_write(&world, &mop, 3, 33);
	mworld_run_ms(&world, 3000);
	EXPECT(!mop.is_done);
	EXPECT_EQ(ANA_CHANGE, mpath_path_ana(world.mpath, 0, 1));
	EXPECT_EQ(ANA_CHANGE, mpath_path_ana(world.mpath, 1, 1));
	/* Longer than ANATT: the state counts as inaccessible, and the log is read again. */
	mworld_run_ms(&world, (TARGET_ANA_TRANSITION_S + 1) * 1000);
	EXPECT(!mop.is_done);
	EXPECT_EQ(ANA_INACCESSIBLE, mpath_path_ana(world.mpath, 0, 1));
	EXPECT_EQ(ANA_INACCESSIBLE, mpath_path_ana(world.mpath, 1, 1));
	/* The other group is not affected. */
	EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 0, 2));
	world.ana[1][0] = ANA_NON_OPTIMIZED;
	mworld_apply(&world);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(33, probe_value(world.ns[0].probe, 3));
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Notices of the target suffice: no command is sent by the former group's states. */
static void a_namespace_that_moves_to_another_group_is_followed(void)
{
	mworld_create(&world, 16, 2, &orderly);
	world.ana[1][0] = ANA_INACCESSIBLE;
	world.ana[0][1] = ANA_INACCESSIBLE;
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	write_value(1, 1);
	EXPECT_EQ(0, info_of(1).commands);
	world.ns[0].ana_group = 2;
	mworld_apply(&world);
	mworld_run_ms(&world, 20);
	EXPECT_EQ(ANA_INACCESSIBLE, mpath_path_ana(world.mpath, 0, 1));
	EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 1, 1));
	write_value(2, 2);
	EXPECT(info_of(1).commands > 0);
	/* The former group no longer affects the namespace. */
	world.ana[0][1] = ANA_OPTIMIZED;
	world.ana[0][0] = ANA_INACCESSIBLE;
	mworld_apply(&world);
	mworld_run_ms(&world, 20);
	EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 0, 1));
	write_value(3, 3);
	world.ns[0].ana_group = 1;
	world.ana[0][0] = ANA_OPTIMIZED;
	mworld_apply(&world);
	mworld_run_ms(&world, 20);
	EXPECT_EQ(ANA_INACCESSIBLE, mpath_path_ana(world.mpath, 1, 1));
	write_value(4, 4);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_loss_for_good_on_every_path_fails_at_once(void)
{
	struct mop mop = {0};

	mworld_create(&world, 13, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	world.ana[0][0] = world.ana[1][0] = ANA_PERSISTENT_LOSS;
	mworld_apply(&world);
	mworld_run_ms(&world, 20);
	mop_read(&world, &mop, 3);
	EXPECT(mworld_until_done(&mop, 10));
	EXPECT_EQ(MPATH_NO_PATH, mop.io.result);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* ---- namespaces -------------------------------------------------------------------------------
 */

static void a_removed_namespace_ends_its_commands(void)
{
	struct mop mop = {0};
	struct mpath_ns *handle;
	struct ns_info info;

	mworld_create(&world, 14, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	handle = mworld_handle(&world, 1);
	world.ns[0].is_absent = true;
	mworld_apply(&world);
	mop_write(&world, &mop, 3, 1);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_GONE, mop.io.result);
	mworld_run_ms(&world, 300);
	mpath_ns_info(handle, &info);
	EXPECT(info.is_gone);
	EXPECT(world.ns_changed_count > 0);
	/* The same namespace comes back. */
	world.ns[0].is_absent = false;
	mworld_apply(&world);
	mworld_run_ms(&world, 300);
	EXPECT(mworld_handle(&world, 1) == handle);
	mpath_ns_info(handle, &info);
	EXPECT(!info.is_gone);
	write_value(3, 4);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_namespace_that_grows_is_larger_at_once(void)
{
	struct ns_info info;

	mworld_create(&world, 16, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	write_value(3, 77);
	world.ns_changed_count = 0;
	sim_enter(world.control);
	mworld_grow(&world, 0);
	sim_leave(world.control);
	mworld_apply(&world);
	mworld_run_ms(&world, 50);
	EXPECT(world.ns_changed_count > 0);
	mpath_ns_info(mworld_handle(&world, 1), &info);
	EXPECT_EQ(2 * MWORLD_BLOCKS, info.identity.block_count);
	write_value(2 * MWORLD_BLOCKS - 1, 78);
	EXPECT_EQ(78, read_value(2 * MWORLD_BLOCKS - 1));
	EXPECT_EQ(77, read_value(3));
	EXPECT_EQ(0, info_of(0).losses + info_of(1).losses);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Any live path may answer; a command without side effects is resent when its path is cut. */
static void admin_commands_find_a_path(void)
{
	struct mop mop = {0};

	mworld_create(&world, 17, 2, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 1000));
	mop_identify(&world, &mop);
	sim_net_cut(world.sim, &world.addrs[0]);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(2, mop.io.attempts);
	EXPECT(memcmp(mop.data + 4, "MPATH1", 6) == 0);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void another_namespace_under_the_same_number_is_not_used(void)
{
	struct mop mop = {0};

	mworld_create_two(&world, 15, 2, true, &orderly);
	sim_net_partition(world.sim, &world.addrs[1], true);
	mworld_connect(&world);
	sim_net_partition(world.sim, &world.addrs[1], false);
	EXPECT(mworld_until_live(&world, 2, 5000));
	EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 0, 1));
	EXPECT_EQ(ANA_INACCESSIBLE, mpath_path_ana(world.mpath, 1, 1));
	EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 1, 2));
	for (uint64_t i = 0; i < 8; i++)
		write_value(i, 500 + i);
	EXPECT_EQ(0, info_of(1).commands);
	/* Not even as the only path left. */
	sim_net_partition(world.sim, &world.addrs[0], true);
	sim_net_cut(world.sim, &world.addrs[0]);
	mop_read(&world, &mop, 1);
	mworld_run_ms(&world, 3000);
	EXPECT(!mop.is_done);
	sim_net_partition(world.sim, &world.addrs[0], false);
	EXPECT(mworld_until_done(&mop, 5000));
	EXPECT_EQ(501, mop_value(&mop));
	EXPECT_EQ(0, mworld_destroy(&world));
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(two_paths_carry_commands_in_turn);
	TAP_RUN(nobody_there_is_told_within_the_connect_time);
	TAP_RUN(a_cut_path_costs_no_read);
	TAP_RUN(a_controller_that_grants_less_queues_than_the_last_is_used);
	TAP_RUN(a_silent_path_is_left_after_the_silence);
	TAP_RUN(a_path_that_flaps_is_damped);
	TAP_RUN(a_path_that_stays_away_is_given_up_and_comes_back);
	TAP_RUN(attempts_are_spaced_more_and_more_and_by_chance);
	TAP_RUN(a_thousand_cuts_lose_no_path);
	TAP_RUN(paths_come_and_go_while_open);
	TAP_RUN(a_path_that_is_taken_away_takes_nothing_along);
	TAP_RUN(closing_at_any_moment_leaves_nothing);
	TAP_RUN(no_path_for_too_long_fails_commands);
	TAP_RUN(a_group_that_moves_takes_its_commands_along);
	TAP_RUN(a_command_under_way_when_its_group_moves_goes_elsewhere);
	TAP_RUN(a_group_in_change_everywhere_holds_its_commands);
	TAP_RUN(a_namespace_that_moves_to_another_group_is_followed);
	TAP_RUN(a_loss_for_good_on_every_path_fails_at_once);
	TAP_RUN(a_removed_namespace_ends_its_commands);
	TAP_RUN(a_namespace_that_grows_is_larger_at_once);
	TAP_RUN(admin_commands_find_a_path);
	TAP_RUN(another_namespace_under_the_same_number_is_not_used);
	return tap_end();
}
