/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another namespace gets the NSID of a handle, and a stranger gets the namespace's address. No
 * write may land in a namespace that it was not meant for, whichever reactor learns of the change
 * first and whatever the write waits for. On the simulated reactor.
 */
#include "../unit/tap.h"
#include "mpath_world.h"

#include "base/clock.h"

#define APART_MS 20 /* between the removal of one namespace and the addition of the next */

static struct mworld world;
static const struct sim_options quiet = {.is_orderly = true, .latency_us = 100};

/* Deletes the namespace and creates another one under its NSID. */
static void replace(void)
{
	world.ns[0].is_absent = true;
	mworld_apply(&world);
	mworld_run_ms(&world, APART_MS);
	world.ns[0].is_absent = false;
	mworld_replace(&world, 0);
	mworld_apply(&world);
}

static void write_first(struct mop *mop, uint64_t block, uint64_t value)
{
	mop_write(&world, mop, block, MWORLD_LIFE(0) | value);
}

/* No write for the first namespace landed in the second. */
static void expect_no_strays(void)
{
	EXPECT_EQ(0, world.ns[0].probe->strays);
}

static bool is_replaced(struct mworld *mworld, void *arg)
{
	struct ns_info info;

	if (mworld_handle(mworld, 1) == mworld->handle)
		return false;
	mpath_ns_info(mworld_handle(mworld, 1), &info);
	return !info.is_gone;
}

static void a_handle_is_stale_for_good(void)
{
	static struct mop mop;

	mworld_create(&world, 1, 2, &quiet);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 2000));
	world.handle = mworld_handle(&world, 1);
	write_first(&mop, 1, 1);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	replace();
	EXPECT(mworld_until(&world, is_replaced, NULL, 2000));
	write_first(&mop, 2, 2);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_STALE, mop.io.result);
	EXPECT_EQ(0, world.ns[0].probe->landing_count);
	/* The new namespace has another handle. */
	world.handle = mworld_handle(&world, 1);
	mop_write(&world, &mop, 3, MWORLD_LIFE(1) | 3);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(1, world.ns[0].probe->landing_count);
	expect_no_strays();
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_write_that_waits_for_a_path_is_not_sent_to_the_next_one(void)
{
	static struct mop mop;

	mworld_create(&world, 2, 2, &quiet);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 2000));
	world.handle = mworld_handle(&world, 1);
	world.ana[0][0] = world.ana[1][0] = ANA_INACCESSIBLE;
	mworld_apply(&world);
	mworld_run_ms(&world, 100);
	write_first(&mop, 1, 1);
	mworld_run_ms(&world, 50);
	EXPECT(!mop.is_done);
	replace();
	world.ana[0][0] = world.ana[1][0] = ANA_OPTIMIZED;
	mworld_apply(&world);
	EXPECT(mworld_until_done(&mop, 5000));
	/* GONE: the command ended after the deletion, before the next namespace was added. */
	EXPECT(mop.io.result == MPATH_STALE || mop.io.result == MPATH_GONE);
	EXPECT_EQ(0, world.ns[0].probe->landing_count);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* The path is lost; when it reconnects, the target has another namespace. */
static void a_write_that_waits_for_its_fence_is_not_sent_to_the_next_one(void)
{
	static struct mop mop;

	mworld_create(&world, 3, 1, &quiet);
	mworld_connect(&world);
	world.handle = mworld_handle(&world, 1);
	world.ns[0].probe->next_delay_ns = 50 * NS_PER_MS;
	write_first(&mop, 1, 1);
	mworld_run_ms(&world, 5);
	sim_net_partition(world.sim, &world.addrs[0], true);
	mworld_run_ms(&world, 3000);
	EXPECT(!mop.is_done);
	replace();
	sim_net_partition(world.sim, &world.addrs[0], false);
	EXPECT(mworld_until_done(&mop, 30000));
	EXPECT_EQ(MPATH_STALE, mop.io.result);
	EXPECT_EQ(0, world.ns[0].probe->landing_count);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* The write is in the network when the target gives its NSID to another namespace in one change.
 * The host cannot know this: the target must refuse the write. */
static void write_while_replacing(void)
{
	static struct mop mop;

	world.handle = mworld_handle(&world, 1);
	write_first(&mop, 1, 1);
	mworld_replace(&world, 0);
	mworld_apply(&world);
	EXPECT(mworld_until_done(&mop, 5000));
	EXPECT_EQ(MPATH_STALE, mop.io.result);
	EXPECT_EQ(0, world.ns[0].probe->landing_count);
	EXPECT(mworld_until(&world, is_replaced, NULL, 2000));
	world.handle = mworld_handle(&world, 1);
	mop_write(&world, &mop, 3, MWORLD_LIFE(1) | 3);
	EXPECT(mworld_until_done(&mop, 1000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(1, world.ns[0].probe->landing_count);
	expect_no_strays();
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_write_on_its_way_is_not_taken_by_the_next_one(void)
{
	static const struct sim_options far = {.is_orderly = true, .latency_us = 20000};

	mworld_create(&world, 6, 2, &far);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 2000));
	write_while_replacing();
}

static void nor_on_another_reactor(void)
{
	static const struct sim_options far = {.is_orderly = true, .latency_us = 20000};

	mworld_create_wide(&world, 7, 2, &far);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 2000));
	write_while_replacing();
}

/* ---- two reactors ---------------------------------------------------------------------------- */

static struct reactor *other_reactor;
static struct mpath *other_mpath;
static bool is_other_ready, is_other_gone;

static void on_other_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	is_other_ready = res == 0;
}

static void on_other_gone(void *arg)
{
	is_other_gone = true;
}

static bool other_is_ready(struct mworld *mworld, void *arg)
{
	return is_other_ready;
}

static bool other_is_gone(struct mworld *mworld, void *arg)
{
	return is_other_gone;
}

static void other_open(void)
{
	static const struct mpath_callbacks callbacks = {.ready = on_other_ready};
	struct reactor_config config = {.index = 7, .cpu = -1};

	is_other_ready = is_other_gone = false;
	CHECK(reactor_create(&config, &other_reactor) == 0);
	sim_enter(other_reactor);
	CHECK(mpath_open(other_reactor, &world.config, world.path_addrs, world.port_count,
			 &callbacks, NULL, &other_mpath) == 0);
	sim_leave(other_reactor);
	EXPECT(mworld_until(&world, other_is_ready, NULL, 2000));
}

static void other_close(void)
{
	sim_enter(other_reactor);
	mpath_close(other_mpath, on_other_gone, NULL);
	sim_leave(other_reactor);
	EXPECT(mworld_until(&world, other_is_gone, NULL, 5000));
	reactor_destroy(other_reactor);
}

/* As soon as the first reactor knows of the replacement, the second reactor's namespace counts as
 * replaced too. */
static void what_one_reactor_knows_all_know(void)
{
	struct join *join = join_create();
	struct ns_info info;

	mworld_create(&world, 4, 1, &quiet);
	world.config.join = join;
	mworld_connect(&world);
	other_open();
	world.handle = mworld_handle(&world, 1);
	mpath_ns_info(mpath_ns_find(other_mpath, 1), &info);
	EXPECT(!info.is_gone);
	replace();
	EXPECT(mworld_until(&world, is_replaced, NULL, 2000));
	EXPECT(join_ns_is_replaced(info.joined));
	mpath_ns_info(world.handle, &info);
	EXPECT(info.is_gone);
	expect_no_strays();
	other_close();
	EXPECT_EQ(0, mworld_destroy(&world));
	join_put(join);
}

/* ---- strangers ------------------------------------------------------------------------------- */

/* Only one of two targets with different data is ever written to. */
static void expect_one_written(void)
{
	static struct mop mop;
	unsigned live;

	mworld_connect(&world);
	for (uint64_t i = 0; i < 64; i++) {
		mop_write(&world, &mop, i % MWORLD_BLOCKS, i + 1);
		EXPECT(mworld_until_done(&mop, 2000));
		EXPECT_EQ(MPATH_OK, mop.io.result);
		mworld_run_ms(&world, 20);
	}
	live = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct path_info info = mworld_info(&world, i);

		live += info.state == PATH_LIVE;
		EXPECT((info.state == PATH_LIVE) == (info.refusal[0] == '\0'));
	}
	EXPECT_EQ(1, live);
	EXPECT(world.ns[0].probe->landing_count == 0 ||
	       world.ns[0].second_probe->landing_count == 0);
	EXPECT_EQ(64, world.ns[0].probe->landing_count + world.ns[0].second_probe->landing_count);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_target_with_equal_cntlids_is_never_written_to(void)
{
	mworld_create_twins(&world, 5, &quiet);
	expect_one_written();
}

static void a_clone_with_other_cntlids_is_never_written_to(void)
{
	mworld_create_clones(&world, 6, &quiet);
	expect_one_written();
}

static bool is_path_live(struct mworld *mworld, void *arg)
{
	return mworld_info(mworld, 0).state == PATH_LIVE;
}

static bool is_silent_path_lost(struct mworld *mworld, void *arg)
{
	return mworld_info(mworld, 1).state != PATH_LIVE;
}

/* The target restarts, and one of its two addresses does not report this. The other address is used
 * as soon as the silent path is lost, whatever its back-off. */
static void a_restart_waits_for_the_loss_of_the_other_path_alone(void)
{
	static struct mop mop;
	uint64_t lost_ms;

	mworld_create(&world, 7, 2, &quiet);
	world.config.timeouts.reconnect_max_ms = 60000;
	world.config.timeouts.keep_alive_ms = 4000;
	world.config.timeouts.silence_ms = 4000;
	world.config.timeouts.unacked_ms = 4000;
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 2, 2000));
	sim_net_partition(world.sim, &world.addrs[1], true);
	sim_enter(world.control);
	mworld_restart(&world, 0, 10);
	sim_leave(world.control);
	EXPECT(mworld_until(&world, is_silent_path_lost, NULL, 20000));
	lost_ms = mworld_now_ms(&world);
	EXPECT(mworld_info(&world, 0).state != PATH_LIVE);
	EXPECT(strstr(mworld_info(&world, 0).refusal, "another target process") != NULL);
	EXPECT(mworld_until(&world, is_path_live, NULL, 20000));
	EXPECT(mworld_now_ms(&world) <= lost_ms + world.config.timeouts.reconnect_min_ms + 20);
	mop_write(&world, &mop, 1, 1);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	sim_net_partition(world.sim, &world.addrs[1], false);
	EXPECT(mworld_until_live(&world, 2, 120000));
	EXPECT_EQ(0, mworld_destroy(&world));
}

int main(void)
{
	TAP_RUN(a_handle_is_stale_for_good);
	TAP_RUN(a_write_that_waits_for_a_path_is_not_sent_to_the_next_one);
	TAP_RUN(a_write_that_waits_for_its_fence_is_not_sent_to_the_next_one);
	TAP_RUN(a_write_on_its_way_is_not_taken_by_the_next_one);
	TAP_RUN(nor_on_another_reactor);
	TAP_RUN(what_one_reactor_knows_all_know);
	TAP_RUN(a_target_with_equal_cntlids_is_never_written_to);
	TAP_RUN(a_clone_with_other_cntlids_is_never_written_to);
	TAP_RUN(a_restart_waits_for_the_loss_of_the_other_path_alone);
	return tap_end();
}
