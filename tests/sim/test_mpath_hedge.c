/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hedged reads against the real target on the simulated reactor: one of two paths stalls 1 % of the
 * time, for 20 ms each. p99.9 falls by 5 times or more, the extra load stays within its bound, and
 * every read returns the right data, also when paths with twins are lost.
 *
 * Reads arrive at a fixed rate and alternate between the paths. Their memory is reused, so that a
 * late write by a forgotten copy is noticed.
 */
#include "../unit/tap.h"
#include "mpath_world.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/log.h"

#define READS_MAX 512

static struct mworld world;
static struct mop reads[READS_MAX];
static bool is_busy[READS_MAX];
static struct histogram latencies;
static unsigned sent, answered, wrong, failed, starved;

static uint64_t block_of(const struct mop *mop)
{
	return le32_get(mop->io.sqe.cdw10);
}

static void on_read(struct mop *mop)
{
	uint64_t want = 1000 + block_of(mop), value;

	answered++;
	is_busy[mop - reads] = false;
	failed += mop->io.result != MPATH_OK;
	for (unsigned i = 0; i < MWORLD_BLOCK_BYTES; i += sizeof(value)) {
		memcpy(&value, mop->data + i, sizeof(value));
		if (value != want) {
			wrong++;
			break;
		}
	}
	histogram_record(&latencies, mop->done_ns - mop->io.submitted_ns);
}

static void on_io_done(struct mpath_io *io)
{
	struct mop *mop = container_of(io, struct mop, io);

	mop->done_ns = sim_now(world.sim);
	on_read(mop);
}

/* Into one buffer, or into three. */
static void read_submit(struct mop *mop, struct iovec pieces[3], uint64_t block)
{
	static const size_t lens[3] = {512, 1536, 2048};
	struct host_cmd cmd = {0};
	uint8_t *at = mop->data;

	memset(mop, 0, sizeof(*mop));
	for (unsigned i = 0; i < 3; at += lens[i++])
		pieces[i] = (struct iovec){at, lens[i]};
	mop->iov = (struct iovec){mop->data, sizeof(mop->data)};
	host_cmd_read(&cmd, 1, block, 1, mop->data, sizeof(mop->data));
	mop->io.sqe = cmd.sqe;
	mop->io.direction = HOST_DATA_FROM_CTRL;
	mop->io.iov = sent % 3 == 0 ? pieces : &mop->iov;
	mop->io.iov_count = sent % 3 == 0 ? 3 : 1;
	mop->io.data_bytes = sizeof(mop->data);
	mop->io.done = on_io_done;
	sim_enter(world.reactor);
	mpath_submit(mworld_handle(&world, 1), &mop->io);
	sim_leave(world.reactor);
}

/* Uses the first free buffer: a late answer would overwrite another read's data. */
static void read_one(void)
{
	static struct iovec pieces[READS_MAX][3];
	unsigned i = 0;

	while (i < READS_MAX && is_busy[i])
		i++;
	if (i == READS_MAX) {
		starved++;
		return;
	}
	is_busy[i] = true;
	sent++;
	read_submit(&reads[i], pieces[i], sent % MWORLD_BLOCKS);
}

static void world_open(uint64_t seed, uint32_t percentile)
{
	static const struct sim_options options;

	mworld_create(&world, seed, 2, &options);
	world.config.policy = PATH_POLICY_ROUND_ROBIN;
	world.config.hedge = (struct mpath_hedge){.percentile = percentile};
	mworld_connect(&world);
	EXPECT_EQ(0, world.ready_res);
	EXPECT(mworld_until_live(&world, 2, 1000));
	histogram_init(&latencies);
	sent = answered = wrong = failed = starved = 0;
	memset(is_busy, 0, sizeof(is_busy));
	for (uint64_t i = 0; i < MWORLD_BLOCKS; i++) {
		struct mop mop = {0};

		mop_write(&world, &mop, i, 1000 + i);
		EXPECT(mworld_until_done(&mop, 5000));
		EXPECT_EQ(MPATH_OK, mop.io.result);
	}
}

static bool is_waiting(struct mworld *unused, void *arg)
{
	return answered == sent;
}

static void world_close(void)
{
	EXPECT(mworld_until(&world, is_waiting, NULL, 60000));
	EXPECT_EQ(sent, answered);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, failed);
	EXPECT_EQ(0, starved);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Two reads per millisecond; the second path stalls for 20 of every 2000 ms. */
static uint64_t tail_of(uint32_t percentile, unsigned ms, struct mpath_hedge_stats *ret_stats)
{
	uint64_t tail_ns;

	world_open(11, percentile);
	for (unsigned i = 0; i < ms; i++) {
		if (i % 2000 == 1000)
			sim_net_partition(world.sim, &world.addrs[1], true);
		if (i % 2000 == 1020)
			sim_net_partition(world.sim, &world.addrs[1], false);
		read_one();
		read_one();
		mworld_run_ms(&world, 1);
	}
	EXPECT(mworld_until(&world, is_waiting, NULL, 60000));
	tail_ns = histogram_percentile(&latencies, 99.9);
	mpath_hedge_stats(world.mpath, ret_stats);
	EXPECT_EQ(0, mworld_info(&world, 0).losses + mworld_info(&world, 1).losses);
	world_close();
	return tail_ns;
}

static void tail_falls_by_five_times(void)
{
	struct mpath_hedge_stats stats;
	uint64_t plain_ns = tail_of(0, 12000, &stats), hedged_ns;

	EXPECT_EQ(0, stats.twins);
	hedged_ns = tail_of(9900, 12000, &stats);
	printf("# p99.9 %llu us alone, %llu us hedged; %llu twins for %llu reads, %llu won\n",
	       (unsigned long long)plain_ns / 1000, (unsigned long long)hedged_ns / 1000,
	       (unsigned long long)stats.twins, (unsigned long long)stats.reads,
	       (unsigned long long)stats.wins);
	EXPECT(plain_ns >= 10 * NS_PER_MS);
	EXPECT(hedged_ns * 5 <= plain_ns);
	EXPECT_EQ(24000, stats.reads);
	EXPECT(stats.wins > 0 && stats.wins <= stats.twins);
	EXPECT(stats.twins <= stats.reads / 20);
}

/* Half of the reads would get a twin; the bound allows 5 of a hundred. */
static void extra_load_is_bounded(void)
{
	struct mpath_hedge_stats stats;

	world_open(12, 5000);
	prng_seed(&world.ns[0].probe->prng, 12);
	world.ns[0].probe->random_delay_us = 2000;
	for (unsigned i = 0; i < 8000; i++) {
		read_one();
		mworld_run_ms(&world, 1);
	}
	EXPECT(mworld_until(&world, is_waiting, NULL, 60000));
	mpath_hedge_stats(world.mpath, &stats);
	printf("# %llu twins for %llu reads\n", (unsigned long long)stats.twins,
	       (unsigned long long)stats.reads);
	EXPECT_EQ(8000, stats.reads);
	EXPECT(stats.twins <= stats.reads / 20 + 1);
	/* The bound was the limit. */
	EXPECT(stats.twins > stats.reads / 40);
	world_close();
}

/* Paths stall and are lost at random while reads have twins. */
static void reads_are_right_while_paths_come_and_go(void)
{
	uint64_t twins = 0, losses = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct mpath_hedge_stats stats;
		struct prng *prng;

		world_open(seed, 9000);
		prng = sim_prng(world.sim);
		for (unsigned i = 0; i < 1500; i++) {
			unsigned path = (unsigned)prng_below(prng, 2);

			if (prng_one_in(prng, 40))
				sim_net_partition(world.sim, &world.addrs[path], true);
			if (prng_one_in(prng, 8))
				sim_net_partition(world.sim, NULL, false);
			if (prng_one_in(prng, 60))
				sim_net_cut(world.sim, &world.addrs[path]);
			read_one();
			mworld_run_ms(&world, 1);
		}
		sim_net_partition(world.sim, NULL, false);
		EXPECT(mworld_until(&world, is_waiting, NULL, 60000));
		mpath_hedge_stats(world.mpath, &stats);
		twins += stats.twins;
		losses += mworld_info(&world, 0).losses + mworld_info(&world, 1).losses;
		world_close();
	}
	printf("# %llu twins, %llu paths lost\n", (unsigned long long)twins,
	       (unsigned long long)losses);
	EXPECT(twins > 100);
	EXPECT(losses > 100);
}

/* One copy's path is lost while both copies are in flight: the other copy answers, and no third one
 * is sent. */
static void the_copy_that_is_left_answers(unsigned lost_path)
{
	struct mpath_hedge_stats before, after;
	struct mop *read = NULL;

	world_open(3, 9900);
	for (unsigned i = 0; i < 1000; i++) {
		read_one();
		mworld_run_ms(&world, 1);
	}
	mpath_hedge_stats(world.mpath, &before);
	EXPECT(before.threshold_ns != UINT64_MAX);
	sim_net_partition(world.sim, NULL, true);
	read_one();
	for (unsigned i = 0; i < READS_MAX; i++)
		if (is_busy[i])
			read = &reads[i];
	CHECK(read != NULL);
	mworld_run_ms(&world, 5);
	mpath_hedge_stats(world.mpath, &after);
	EXPECT_EQ(before.twins + 1, after.twins);
	EXPECT_EQ(sent - 1, answered);
	EXPECT_EQ(1, mworld_info(&world, 0).in_flight);
	EXPECT_EQ(1, mworld_info(&world, 1).in_flight);
	sim_net_cut(world.sim, &world.addrs[lost_path]);
	mworld_run_ms(&world, 1);
	EXPECT_EQ(sent - 1, answered);
	sim_net_partition(world.sim, NULL, false);
	EXPECT(mworld_until(&world, is_waiting, NULL, 5000));
	EXPECT_EQ(1, read->io.attempts);
	world_close();
}

static void the_other_copy_answers_for_path_0(void)
{
	the_copy_that_is_left_answers(0);
}

static void the_other_copy_answers_for_path_1(void)
{
	the_copy_that_is_left_answers(1);
}

/* One path: no twin is possible. */
static void nothing_is_hedged_without_a_second_path(void)
{
	struct mpath_hedge_stats stats;

	world_open(4, 5000);
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_remove_path(world.mpath, &world.path_addrs[1]));
	sim_leave(world.reactor);
	for (unsigned i = 0; i < 500; i++) {
		read_one();
		mworld_run_ms(&world, 1);
	}
	mpath_hedge_stats(world.mpath, &stats);
	EXPECT_EQ(0, stats.twins);
	EXPECT_EQ(500, stats.reads);
	world_close();
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(tail_falls_by_five_times);
	TAP_RUN(extra_load_is_bounded);
	TAP_RUN(reads_are_right_while_paths_come_and_go);
	TAP_RUN(the_other_copy_answers_for_path_0);
	TAP_RUN(the_other_copy_answers_for_path_1);
	TAP_RUN(nothing_is_hedged_without_a_second_path);
	return tap_end();
}
