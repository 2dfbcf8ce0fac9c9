/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host is excluded while it writes: when the change is reported as applied, no command of the
 * host may begin any more, although its queues are on other reactors than its controller and
 * messages between reactors take time. The real target, on simulated reactors. One thread.
 */
#include "../unit/tap.h"
#include "mpath_world.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

#define WRITES 8
#define ROUNDS 40

static struct mworld world;
static struct mop mops[WRITES];

static bool all_are_done(struct mworld *unused, void *arg)
{
	for (unsigned i = 0; i < WRITES; i++) {
		if (!mops[i].is_done)
			return false;
	}
	return true;
}

/* Slow messages: the controller's request to close its queues may arrive last. A partition holds
 * what the target sends, so that the host continues to write. */
static void round_run(uint64_t seed)
{
	const struct sim_options options = {.post_max_us = 1000, .latency_max_us = 2};
	const struct probe *probe;

	mworld_create_wide(&world, seed, 1, &options);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, 1, 1000));
	probe = world.ns[0].probe;
	sim_net_partition_one_way(world.sim, &world.addrs[0], false, true);
	world.is_shut = true;
	mworld_apply(&world);
	for (unsigned i = 0; i < WRITES; i++)
		mop_write(&world, &mops[i], i, i + 1);
	mworld_run_ms(&world, 200);
	EXPECT_EQ(0, probe->writes_begun);
	sim_net_partition_one_way(world.sim, &world.addrs[0], false, false);
	world.is_shut = false;
	mworld_apply(&world);
	EXPECT(mworld_until(&world, all_are_done, NULL, 20000));
	EXPECT_EQ(WRITES, probe_value(probe, WRITES - 1));
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void nothing_begins_after_the_host_was_shut_out(void)
{
	for (uint64_t seed = 1; seed <= ROUNDS; seed++)
		round_run(seed);
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(nothing_begins_after_the_host_was_shut_out);
	return tap_end();
}
