/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading many namespaces over a slow link, on the simulated reactor: a path must be live within
 * its connect time-out, know all namespaces, follow changes, and survive a loss in the middle.
 */
#include "../unit/tap.h"
#include "mpath_world.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

#define CROWD      10000
#define LATENCY_US 1000 /* one way */

static struct mworld world;
static const struct sim_options slow = {.is_orderly = true, .latency_us = LATENCY_US};

static void slow_world_create(uint64_t seed, unsigned ports)
{
	mworld_create(&world, seed, ports, &slow);
	world.config.timeouts.connect_ms = 5000;
	world.crowd_count = CROWD;
	mworld_apply(&world);
}

/* Number of namespaces. *ret_wrong: those with a wrong identity. */
static unsigned namespaces_check(unsigned *ret_wrong)
{
	struct mpath_ns *ns = mpath_ns_next(world.mpath, 0);
	struct ns_info info;
	struct uuid uuid;
	unsigned count = 0;
	char name[64];

	*ret_wrong = 0;
	while (ns != NULL) {
		mpath_ns_info(ns, &info);
		if (!info.is_gone)
			count++;
		snprintf(name, sizeof(name), "crowd %u", info.nsid - MWORLD_NS - 1);
		uuid_from_name(name, &uuid);
		if (info.identity.block_count != MWORLD_BLOCKS ||
		    (info.nsid > MWORLD_NS && !uuid_equal(&uuid, &info.identity.uuid)))
			(*ret_wrong)++;
		ns = mpath_ns_next(world.mpath, info.nsid);
	}
	return count;
}

static bool has_count(struct mworld *mworld, void *arg)
{
	unsigned wrong;

	return namespaces_check(&wrong) == *(unsigned *)arg && wrong == 0;
}

static void ten_thousand_are_read_before_the_connect_time_is_over(void)
{
	uint64_t begin_ms;
	unsigned wrong;

	slow_world_create(1, 2);
	begin_ms = mworld_now_ms(&world);
	mworld_connect(&world);
	EXPECT_EQ(0, world.ready_res);
	EXPECT(mworld_now_ms(&world) - begin_ms < 3000);
	EXPECT_EQ(CROWD + MWORLD_NS, namespaces_check(&wrong));
	EXPECT_EQ(0, wrong);
	EXPECT(mworld_until_live(&world, 2, 3000));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void many_that_go_are_gone_and_many_that_come_are_there(void)
{
	unsigned want = 9000 + MWORLD_NS;

	slow_world_create(2, 1);
	mworld_connect(&world);
	EXPECT_EQ(0, world.ready_res);
	world.crowd_count = 9000;
	mworld_apply(&world);
	EXPECT(mworld_until(&world, has_count, &want, 6000));
	world.crowd_count = 9500;
	want = 9500 + MWORLD_NS;
	mworld_apply(&world);
	EXPECT(mworld_until(&world, has_count, &want, 6000));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_path_lost_in_the_middle_of_a_scan_starts_over(void)
{
	unsigned wrong;

	slow_world_create(3, 1);
	mworld_open(&world);
	mworld_run_ms(&world, 500);
	EXPECT_EQ(0, world.ready_count);
	EXPECT(sim_net_cut(world.sim, &world.addrs[0]) > 0);
	EXPECT(mworld_until_live(&world, 1, 5000));
	EXPECT_EQ(CROWD + MWORLD_NS, namespaces_check(&wrong));
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_close_in_the_middle_of_a_scan_leaves_nothing(void)
{
	slow_world_create(4, 2);
	mworld_open(&world);
	mworld_run_ms(&world, 500);
	EXPECT_EQ(0, world.ready_count);
	EXPECT_EQ(0, mworld_destroy(&world));
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(ten_thousand_are_read_before_the_connect_time_is_over);
	TAP_RUN(many_that_go_are_gone_and_many_that_come_are_there);
	TAP_RUN(a_path_lost_in_the_middle_of_a_scan_starts_over);
	TAP_RUN(a_close_in_the_middle_of_a_scan_leaves_nothing);
	return tap_end();
}
