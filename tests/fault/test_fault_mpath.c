/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Nth allocation fails in the life of a multipath host: open, connect, hedged reads, loss of a
 * path with a write in the medium, its fence, paths removed and added, close. For N = 1, 2, … until
 * none fails. Every command ends, every block holds what was written last, and nothing leaks. One
 * thread, on the simulated reactor; the target is the real one, and its allocations fail too.
 */
#include "alloc_wrap.h"
#include "mpath_world.h"
#include "tap.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

#define ALLOCS_MAX 4000
#define READS      64

static struct mworld world;

static void value_expect(uint64_t block, uint64_t value)
{
	struct mop mop = {0};

	mop_read(&world, &mop, block);
	EXPECT(mworld_until_done(&mop, 60000));
	if (mop.is_done && mop.io.result == MPATH_OK)
		EXPECT_EQ(value, mop_value(&mop));
}

/* Repeats the write until it succeeds: a target without memory may refuse it. */
static void write_expect(uint64_t block, uint64_t value)
{
	for (unsigned i = 0; i < 3; i++) {
		struct mop mop = {0};

		mop_write(&world, &mop, block, value);
		EXPECT(mworld_until_done(&mop, 60000));
		if (!mop.is_done || mop.io.result == MPATH_OK)
			return;
	}
	EXPECT(!"a write ends well in the end");
}

/* Cuts a path while the medium works on a write. */
static void lose_with_a_write(uint64_t block, uint64_t value)
{
	struct mop mop = {0};
	struct path_info info;

	world.ns[0].probe->next_delay_ns = 60 * NS_PER_S;
	mop_write(&world, &mop, block, value);
	mworld_run_ms(&world, 5);
	for (unsigned i = 0; i < mpath_path_count(world.mpath) && !mop.is_done; i++) {
		info = mworld_info(&world, i);
		if (info.in_flight > 0) {
			sim_net_cut(world.sim, &info.addr.net);
			break;
		}
	}
	world.ns[0].probe->next_delay_ns = 0;
	EXPECT(mworld_until_done(&mop, 60000));
	if (mop.is_done && mop.io.result == MPATH_OK)
		value_expect(block, value);
}

static void paths_change(void)
{
	int res;

	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_remove_path(world.mpath, &world.path_addrs[0]));
	sim_leave(world.reactor);
	write_expect(2, 20);
	mworld_run_ms(&world, 100);
	sim_enter(world.reactor);
	res = mpath_add_path(world.mpath, &world.path_addrs[0]);
	if (res == -ENOMEM)
		res = mpath_add_path(world.mpath, &world.path_addrs[0]);
	EXPECT_EQ(0, res);
	sim_leave(world.reactor);
	EXPECT(mworld_until_live(&world, 2, 60000));
}

static void play(unsigned n, bool has_zero_copy)
{
	static const struct sim_options orderly = {.is_orderly = true};
	static struct mop reads[READS];
	char label[64];

	snprintf(label, sizeof(label), "allocation %u fails", n);
	alloc_wrap_begin(0);
	mworld_create(&world, 50, 2, &orderly);
	world.config.hedge = (struct mpath_hedge){.percentile = 9000, .extra_percent = 100};
	world.config.zero_copy_min_bytes = has_zero_copy ? 512 : 0;
	alloc_wrap_fail(n);
	mworld_open(&world);
	EXPECT(mworld_until_live(&world, 2, 60000));
	write_expect(1, 10);
	for (unsigned i = 0; i < READS; i++) {
		reads[i] = (struct mop){0};
		mop_read(&world, &reads[i], i % MWORLD_BLOCKS);
	}
	for (unsigned i = 0; i < READS; i++)
		EXPECT(mworld_until_done(&reads[i], 60000));
	lose_with_a_write(1, 11);
	EXPECT(mworld_until_live(&world, 2, 60000));
	lose_with_a_write(3, 12);
	EXPECT(mworld_until_live(&world, 2, 60000));
	paths_change();
	value_expect(2, 20);
	EXPECT_EQ(0, mworld_close(&world));
	alloc_wrap_fail(0);
	EXPECT_EQ(0, mworld_destroy(&world));
	EXPECT_EQ(0, alloc_wrap_end(label));
}

static void loop(bool has_zero_copy)
{
	unsigned n = 0;

	do {
		play(++n, has_zero_copy);
	} while (alloc_wrap_has_failed() && n < ALLOCS_MAX);
	printf("# %u allocations\n", n - 1);
	EXPECT(!alloc_wrap_has_failed());
	EXPECT(n > 20);
}

static void any_allocation_fails(void)
{
	loop(false);
}

static void any_allocation_fails_with_zero_copy(void)
{
	loop(true);
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(any_allocation_fails);
	TAP_RUN(any_allocation_fails_with_zero_copy);
	return tap_end();
}
