/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated disk keeps what it promises, and each configured fault is visible and causes
 * nothing else. Disks are opened by name through the real media/media.c. One thread.
 */
#include "sim_disk.h"
#include "tap.h"

#include "base/clock.h"
#include "media/member_lock.h"
#include "reactor/reactor.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_BYTES 512
#define BLOCKS      64
#define SPEC        "file:/disk/a"
#define IO_MAX      64

/* Memory of the test, not of a process. */
struct request {
	struct media_io io;
	struct iovec iov[2];
	uint8_t *bytes;
	bool is_done;
	int res;
	uint64_t done_ns;
};

static struct sim *sim;
static struct sim_disk *disk;
static struct sim_process *process;
static struct reactor *reactor;
static struct media *media;
static struct request *requests[IO_MAX];
static unsigned request_count;

static void process_begin(const char *name)
{
	process = sim_process_create(sim, name);
	sim_process_enter(process);
	reactor_create(&(struct reactor_config){0}, &reactor);
	sim_process_leave(process);
}

static int disk_open_as(const char *spec, int member)
{
	struct media_error error;
	int res;

	sim_process_enter(process);
	res = member < 0 ? media_open(spec, &media, &error)
			 : media_open_shared(spec, (unsigned)member, &media, &error);
	sim_process_leave(process);
	return res;
}

static void world_begin(uint64_t seed, const struct sim_disk_options *options)
{
	struct sim_disk_options own = *options;

	sim = sim_create(seed, NULL);
	own.name = "a";
	own.seed = seed;
	own.block_bytes = BLOCK_BYTES;
	own.block_count = own.block_count ? own.block_count : BLOCKS;
	own.delay_max_us = own.delay_max_us ? own.delay_max_us : 100;
	disk = sim_disk_create(sim, &own);
	process_begin("first");
	EXPECT_EQ(0, disk_open_as(SPEC, -1));
}

static void requests_free(void)
{
	for (unsigned i = 0; i < request_count; i++) {
		free(requests[i]->bytes);
		free(requests[i]);
	}
	request_count = 0;
}

static void media_shut(void)
{
	sim_process_enter(process);
	media_close(media);
	sim_process_leave(process);
}

static void world_end(void)
{
	media_shut();
	requests_free();
	sim_disk_destroy(disk);
	sim_destroy(sim);
}

static void request_done(struct media_io *io, int res)
{
	struct request *request = container_of(io, struct request, io);

	EXPECT(!request->is_done);
	EXPECT(reactor_current() == io->reactor);
	request->is_done = true;
	request->res = res;
	request->done_ns = sim_now(sim);
}

/* Every byte of a block is the stamp. */
static struct request *submit(enum media_kind kind, uint64_t block, uint64_t count, uint8_t stamp)
{
	struct request *request = sim_alloc(sizeof(*request));
	size_t bytes = count * BLOCK_BYTES;

	CHECK(request_count < IO_MAX);
	requests[request_count++] = request;
	request->bytes = sim_alloc(bytes + 1);
	memset(request->bytes, stamp, bytes);
	request->iov[0] = (struct iovec){request->bytes, bytes / 3};
	request->iov[1] = (struct iovec){request->bytes + bytes / 3, bytes - bytes / 3};
	request->io = (struct media_io){
		.reactor = reactor,
		.media = media,
		.kind = kind,
		.offset = block * BLOCK_BYTES,
		.len_bytes = bytes,
		.iov = request->iov,
		.iov_count = 2,
		.done = request_done,
	};
	sim_enter(reactor);
	media_submit(&request->io);
	sim_leave(reactor);
	return request;
}

static int finish(struct request *request)
{
	while (!request->is_done && sim_step(sim))
		;
	EXPECT(request->is_done);
	return request->res;
}

static int perform(enum media_kind kind, uint64_t block, uint64_t count, uint8_t stamp)
{
	return finish(submit(kind, block, count, stamp));
}

/* The stamp of a block, or -1 when it is torn. */
static int stamp_of(const uint8_t *bytes)
{
	for (unsigned i = 1; i < BLOCK_BYTES; i++) {
		if (bytes[i] != bytes[0])
			return -1;
	}
	return bytes[0];
}

static int stamp_at(uint64_t block)
{
	return stamp_of(sim_disk_block(disk, block));
}

/* ---- without faults ------------------------------------------------------------------------- */

static void what_was_written_is_read(void)
{
	struct request *read;

	world_begin(1, &(struct sim_disk_options){.can_discard = true,
						  .reads_zero_after_discard = true});
	EXPECT_EQ(0, perform(MEDIA_WRITE, 3, 4, 7));
	EXPECT_EQ(7, stamp_at(3));
	EXPECT_EQ(7, stamp_at(6));
	EXPECT_EQ(0, stamp_at(7));
	read = submit(MEDIA_READ, 2, 3, 99);
	EXPECT_EQ(0, finish(read));
	EXPECT_EQ(0, stamp_of(read->bytes));
	EXPECT_EQ(7, stamp_of(read->bytes + BLOCK_BYTES));
	EXPECT_EQ(7, stamp_of(read->bytes + 2 * BLOCK_BYTES));
	EXPECT_EQ(0, perform(MEDIA_WRITE_ZEROES, 3, 1, 0));
	EXPECT_EQ(0, stamp_at(3));
	EXPECT_EQ(0, perform(MEDIA_DISCARD, 4, 1, 0));
	EXPECT_EQ(0, stamp_at(4));
	EXPECT_EQ(0, perform(MEDIA_FLUSH, 0, 0, 0));
	EXPECT_EQ(2 * BLOCK_BYTES + BLOCK_BYTES, media_used_bytes(media));
	world_end();
}

/* A second medium over the same disk is larger; the first keeps its size. */
static void it_grows_and_is_opened_by_size(void)
{
	struct media_error error;
	struct media *larger = NULL, *refused = NULL;

	world_begin(2, &(struct sim_disk_options){.block_count = 16, .block_count_max = 32});
	EXPECT_EQ(16 * BLOCK_BYTES, media->size_bytes);
	sim_process_enter(process);
	EXPECT_EQ(-EBUSY, media_open(SPEC, &refused, &error));
	EXPECT_EQ(-ENOSPC, media_reopen(media, SPEC ",size=20K", &refused, &error));
	EXPECT_EQ(-EINVAL, media_reopen(media, SPEC ",size=8K,block=4096", &refused, &error));
	EXPECT_EQ(0, media_reopen(media, SPEC ",size=12K", &larger, &error));
	EXPECT_EQ(24 * BLOCK_BYTES, larger->size_bytes);
	EXPECT_EQ(24, sim_disk_block_count(disk));
	EXPECT(media_is_current(larger, SPEC ",size=12K"));
	EXPECT(!media_is_current(media, SPEC));
	media_undo(larger);
	EXPECT_EQ(16, sim_disk_block_count(disk));
	EXPECT_EQ(0, media_sync(&larger, 1, &error));
	media_close(larger);
	sim_process_leave(process);
	world_end();
}

/* ---- faults of single operations ------------------------------------------------------------ */

static void errors_leave_blocks_whole(void)
{
	unsigned landed = 0, lost = 0;

	world_begin(3, &(struct sim_disk_options){.error_one_in = 1});
	for (unsigned i = 0; i < 8; i++) {
		EXPECT_EQ(-EIO, perform(MEDIA_WRITE, i * 8, 8, (uint8_t)(i + 1)));
		for (unsigned block = i * 8; block < i * 8 + 8; block++) {
			int stamp = stamp_at(block);

			EXPECT(stamp == 0 || stamp == (int)i + 1);
			landed += stamp != 0;
			lost += stamp == 0;
		}
	}
	EXPECT(landed > 10 && lost > 10);
	EXPECT_EQ(-EIO, perform(MEDIA_READ, 0, 8, 0));
	EXPECT_EQ(-EIO, perform(MEDIA_FLUSH, 0, 0, 0));
	sim_disk_heal(disk);
	EXPECT_EQ(0, perform(MEDIA_READ, 0, 8, 0));
	world_end();
}

static void spikes_are_long(void)
{
	uint64_t longest_ns = 0;

	world_begin(4, &(struct sim_disk_options){.spike_one_in = 4, .spike_max_us = 50000});
	for (unsigned i = 0; i < 40; i++) {
		uint64_t began_ns = sim_now(sim);

		EXPECT_EQ(0, perform(MEDIA_READ, i, 1, 0));
		if (sim_now(sim) - began_ns > longest_ns)
			longest_ns = sim_now(sim) - began_ns;
	}
	EXPECT(longest_ns > 1000 * NS_PER_US && longest_ns <= 50100 * NS_PER_US);
	world_end();
}

static void misdirected_reads_are_counted(void)
{
	unsigned wrong = 0;

	world_begin(5, &(struct sim_disk_options){.misdirect_one_in = 3});
	for (unsigned i = 0; i < 30; i++)
		EXPECT_EQ(0, perform(MEDIA_WRITE, i, 1, (uint8_t)(i + 1)));
	for (unsigned i = 0; i < 30; i++) {
		uint64_t before = sim_disk_misdirected(disk);
		struct request *read = submit(MEDIA_READ, i, 1, 0);

		EXPECT_EQ(0, finish(read));
		if (stamp_of(read->bytes) == (int)i + 1)
			continue;
		wrong++;
		EXPECT_EQ(before + 1, sim_disk_misdirected(disk));
	}
	EXPECT(wrong >= 5 && wrong <= 15);
	EXPECT_EQ(wrong, sim_disk_misdirected(disk));
	world_end();
}

static void full_refuses_new_blocks_only(void)
{
	world_begin(6, &(struct sim_disk_options){.can_discard = true,
						  .reads_zero_after_discard = true});
	EXPECT_EQ(0, perform(MEDIA_WRITE, 0, 2, 1));
	sim_disk_set_full(disk, true);
	EXPECT_EQ(-ENOSPC, perform(MEDIA_WRITE, 4, 1, 2));
	EXPECT_EQ(0, stamp_at(4));
	EXPECT_EQ(0, perform(MEDIA_WRITE, 0, 2, 3));
	EXPECT_EQ(3, stamp_at(1));
	EXPECT_EQ(-ENOSPC, perform(MEDIA_WRITE, 1, 2, 4));
	EXPECT_EQ(0, stamp_at(2));
	EXPECT_EQ(0, perform(MEDIA_DISCARD, 0, 1, 0));
	EXPECT_EQ(-ENOSPC, perform(MEDIA_WRITE, 0, 1, 5));
	sim_disk_heal(disk);
	EXPECT_EQ(0, perform(MEDIA_WRITE, 0, 1, 5));
	world_end();
}

static void cut_ends_what_is_behind(void)
{
	struct media_error problem;

	world_begin(7, &(struct sim_disk_options){0});
	EXPECT_EQ(0, perform(MEDIA_WRITE, 0, 20, 1));
	EXPECT(!media_problem(media, &problem));
	sim_disk_cut(disk, 10);
	EXPECT(media_problem(media, &problem));
	EXPECT_EQ(0, perform(MEDIA_READ, 0, 10, 0));
	EXPECT_EQ(-EIO, perform(MEDIA_READ, 9, 2, 0));
	EXPECT_EQ(-EIO, perform(MEDIA_WRITE, 10, 1, 2));
	EXPECT_EQ(-EIO, perform(MEDIA_WRITE_ZEROES, 15, 5, 0));
	sim_disk_cut(disk, BLOCKS);
	EXPECT_EQ(0, perform(MEDIA_READ, 9, 2, 0));
	EXPECT_EQ(1, stamp_at(10));
	EXPECT_EQ(1, stamp_at(17));
	world_end();
}

/* ---- cancelling, deadlines ------------------------------------------------------------------ */

static void cancelled_writes_have_done_nothing(void)
{
	unsigned cancelled = 0, deaf = 0;

	world_begin(8, &(struct sim_disk_options){.cancel_deaf_one_in = 2, .delay_max_us = 1000});
	for (unsigned i = 0; i < 30; i++) {
		struct request *write = submit(MEDIA_WRITE, i, 2, (uint8_t)(i + 100));

		sim_enter(reactor);
		media->ops->cancel(&write->io);
		sim_leave(reactor);
		finish(write);
		cancelled += write->res == -ECANCELED;
		deaf += write->res == 0;
		EXPECT(write->res == 0 || write->res == -ECANCELED);
		EXPECT_EQ(write->res == 0, stamp_at(i + 1) == (int)i + 100);
	}
	EXPECT(cancelled > 5 && deaf > 5);
	world_end();
}

static void nothing_begins_after_its_deadline(void)
{
	struct request *request;

	world_begin(9, &(struct sim_disk_options){.can_discard = true});
	for (unsigned kind = MEDIA_READ; kind <= MEDIA_DISCARD; kind++) {
		bool is_change = kind != MEDIA_READ && kind != MEDIA_FLUSH;

		request = submit(MEDIA_READ, 0, 1, 5);
		finish(request);
		request->is_done = false;
		request->io.kind = (enum media_kind)kind;
		request->io.deadline_ns = reactor_clock_ns(reactor) - 1;
		memset(request->bytes, 5, BLOCK_BYTES);
		sim_enter(reactor);
		media_submit(&request->io);
		sim_leave(reactor);
		EXPECT_EQ(is_change ? -ECANCELED : 0, finish(request));
		EXPECT_EQ(0, stamp_at(0));
	}
	world_end();
}

/* ---- the loss of power ---------------------------------------------------------------------- */

static void power_loss_keeps_what_is_stable(void)
{
	unsigned kept = 0, lost = 0;

	for (uint64_t seed = 10; seed < 20; seed++) {
		struct request *write;

		world_begin(seed, &(struct sim_disk_options){.has_volatile_cache = true});
		EXPECT_EQ(0, perform(MEDIA_WRITE, 0, 16, 1));
		EXPECT_EQ(0, perform(MEDIA_FLUSH, 0, 0, 0));
		EXPECT_EQ(0, perform(MEDIA_WRITE, 0, 8, 2));
		write = submit(MEDIA_WRITE, 20, 1, 3);
		finish(write);
		write->is_done = false;
		write->io.is_fua = true;
		write->io.offset = 21 * BLOCK_BYTES;
		sim_enter(reactor);
		media_submit(&write->io);
		sim_leave(reactor);
		EXPECT_EQ(0, finish(write));
		sim_disk_power_loss(disk);
		for (unsigned i = 0; i < 8; i++) {
			EXPECT(stamp_at(i) == 1 || stamp_at(i) == 2);
			EXPECT_EQ(1, stamp_at(i + 8));
			kept += stamp_at(i) == 2;
			lost += stamp_at(i) == 1;
		}
		EXPECT(stamp_at(20) == 0 || stamp_at(20) == 3);
		EXPECT_EQ(3, stamp_at(21));
		world_end();
	}
	EXPECT(kept > 10 && lost > 10);
}

static void power_loss_ends_what_is_under_way(void)
{
	unsigned landed = 0, lost = 0;

	for (uint64_t seed = 20; seed < 30; seed++) {
		struct request *write;

		world_begin(seed, &(struct sim_disk_options){.delay_max_us = 5000});
		write = submit(MEDIA_WRITE, 0, 16, 1);
		sim_run_until(sim, sim_now(sim) + 20 * NS_PER_US);
		if (!write->is_done) {
			sim_disk_power_loss(disk);
			EXPECT_EQ(-EIO, finish(write));
		}
		for (unsigned i = 0; i < 16; i++) {
			EXPECT(stamp_at(i) == 0 || stamp_at(i) == 1);
			landed += stamp_at(i) == 1;
			lost += stamp_at(i) == 0;
		}
		world_end();
	}
	EXPECT(landed > 20 && lost > 20);
}

/* Without a cache every acknowledged write survives. */
static void power_loss_without_cache_loses_nothing(void)
{
	world_begin(30, &(struct sim_disk_options){0});
	EXPECT_EQ(0, perform(MEDIA_WRITE, 0, 32, 9));
	sim_disk_power_loss(disk);
	for (unsigned i = 0; i < 32; i++)
		EXPECT_EQ(9, stamp_at(i));
	world_end();
}

/* ---- processes ------------------------------------------------------------------------------ */

static unsigned late_count, seen_count;

static void watch(void *arg, struct sim_disk *watched, uint64_t block, const uint8_t *bytes,
		  const struct sim_process *writer, bool is_late)
{
	EXPECT(watched == disk && bytes == sim_disk_block(disk, block));
	EXPECT(strcmp(sim_process_name(writer), "first") == 0);
	EXPECT(stamp_of(bytes) == 1);
	seen_count++;
	late_count += is_late;
}

static void the_dead_write_on(void)
{
	unsigned landed = 0, lost = 0;

	for (uint64_t seed = 40; seed < 60; seed++) {
		world_begin(seed, &(struct sim_disk_options){.delay_max_us = 5000});
		seen_count = late_count = 0;
		sim_disk_watch(disk, watch, NULL);
		for (unsigned i = 0; i < 8; i++)
			submit(MEDIA_WRITE, i * 2, 2, 1);
		sim_process_kill(process, SIM_DEATH_KILLED);
		/* Overwrites the buffers: the dead process' memory is gone. */
		for (unsigned i = 0; i < request_count; i++)
			memset(requests[i]->bytes, 0xee, 2 * BLOCK_BYTES);
		sim_run_until(sim, sim_now(sim) + NS_PER_S);
		for (unsigned i = 0; i < 8; i++)
			EXPECT(!requests[i]->is_done);
		for (unsigned i = 0; i < 16; i++) {
			EXPECT(stamp_at(i) == 0 || stamp_at(i) == 1);
			landed += stamp_at(i) == 1;
			lost += stamp_at(i) == 0;
		}
		EXPECT_EQ(seen_count, late_count);
		requests_free();
		sim_disk_watch(disk, NULL, NULL);
		process_begin("second");
		EXPECT_EQ(0, disk_open_as(SPEC, -1));
		world_end();
	}
	EXPECT(landed > 100 && lost > 50);
}

static void the_frozen_write_on(void)
{
	struct request *write;
	uint64_t until_ns;

	world_begin(60, &(struct sim_disk_options){.delay_max_us = 100});
	seen_count = late_count = 0;
	sim_disk_watch(disk, watch, NULL);
	write = submit(MEDIA_WRITE, 0, 2, 1);
	until_ns = sim_now(sim) + NS_PER_S;
	sim_process_freeze(process, until_ns);
	sim_run_until(sim, sim_now(sim) + 200 * NS_PER_US);
	EXPECT_EQ(1, stamp_at(1));
	EXPECT_EQ(2, late_count);
	EXPECT(!write->is_done);
	EXPECT_EQ(0, finish(write));
	EXPECT(write->done_ns >= until_ns);
	world_end();
}

/* A process that dies at its submit has not submitted. */
static void a_submit_can_be_the_last_thing(void)
{
	struct request *first, *second;

	world_begin(61, &(struct sim_disk_options){0});
	first = submit(MEDIA_WRITE, 0, 1, 1);
	EXPECT_EQ(0, finish(first));
	sim_process_crash_after(process, 1, SIM_DEATH_KILLED);
	second = submit(MEDIA_WRITE, 0, 1, 2);
	EXPECT(!sim_process_is_alive(process));
	sim_run_until(sim, sim_now(sim) + NS_PER_S);
	EXPECT(!second->is_done);
	EXPECT_EQ(1, stamp_at(0));
	process_begin("second");
	EXPECT_EQ(0, disk_open_as(SPEC, -1));
	world_end();
}

/* ---- members -------------------------------------------------------------------------------- */

/* *ret_can: one of these members can still write to the medium's store. */
static int members_can_write(const struct media *of, unsigned first, unsigned count, bool *ret_can)
{
	int fd = media_member_watch(of);
	int res = fd < 0 ? fd : member_lock_is_held(fd, first, count, ret_can);

	if (fd >= 0)
		member_lock_unwatch(fd);
	return res;
}

static void members_share_it_and_are_seen(void)
{
	struct sim_process *first;
	bool can_write = true;
	int watch_fd;

	world_begin(70, &(struct sim_disk_options){.delay_max_us = 10000});
	media_shut();
	EXPECT_EQ(0, disk_open_as(SPEC, 1));
	EXPECT_EQ(1, media_member(media));
	watch_fd = media_member_watch(media);
	first = process;
	for (unsigned i = 0; i < 8; i++)
		submit(MEDIA_WRITE, i, 1, 1);
	sim_process_enter(first);
	EXPECT_EQ(0, member_lock_take_fence(watch_fd));
	sim_process_leave(first);

	process_begin("second");
	EXPECT_EQ(-EBUSY, disk_open_as(SPEC, -1));
	EXPECT_EQ(-EBUSY, disk_open_as(SPEC, 1));
	EXPECT_EQ(0, disk_open_as(SPEC, 2));
	sim_process_enter(process);
	EXPECT_EQ(-EAGAIN, member_lock_take_fence(watch_fd));
	sim_process_leave(process);
	EXPECT_EQ(0, members_can_write(media, 1, 1, &can_write));
	EXPECT(can_write);
	EXPECT_EQ(0, members_can_write(media, 3, 4, &can_write));
	EXPECT(!can_write);

	/* Dead, with writes in flight: the member can still write, but has lost the fence. */
	sim_process_kill(first, SIM_DEATH_POWER);
	EXPECT_EQ(0, members_can_write(media, 1, 1, &can_write));
	EXPECT(can_write);
	sim_process_enter(process);
	EXPECT_EQ(0, member_lock_take_fence(watch_fd));
	member_lock_drop_fence(watch_fd);
	sim_process_leave(process);
	sim_run_until(sim, sim_now(sim) + NS_PER_S);
	EXPECT_EQ(0, members_can_write(media, 1, 1, &can_write));
	EXPECT(!can_write);
	world_end();
}

/* When the same member opens the disk again, all its former operations have ended. */
static void the_next_life_waits_for_the_former(void)
{
	struct request *read;
	int stamp;

	world_begin(71, &(struct sim_disk_options){.delay_max_us = 1000000});
	for (unsigned i = 0; i < 8; i++)
		submit(MEDIA_WRITE, 0, 1, (uint8_t)(i + 1));
	sim_process_kill(process, SIM_DEATH_KILLED);
	process_begin("second");
	EXPECT_EQ(0, disk_open_as(SPEC, -1));
	stamp = stamp_at(0);
	sim_run_until(sim, sim_now(sim) + 2 * NS_PER_S);
	EXPECT_EQ(stamp, stamp_at(0));
	read = submit(MEDIA_READ, 0, 1, 99);
	EXPECT_EQ(0, finish(read));
	EXPECT_EQ(stamp, stamp_of(read->bytes));
	world_end();
}

/* ---- the same seed, the same run ------------------------------------------------------------ */

static uint64_t run_hash(uint64_t seed)
{
	uint64_t hash = 14695981039346656037ull;

	world_begin(seed, &(struct sim_disk_options){.has_volatile_cache = true,
						     .error_one_in = 5,
						     .spike_one_in = 3,
						     .spike_max_us = 1000});
	for (unsigned i = 0; i < 40; i++)
		submit(i % 3 ? MEDIA_WRITE : MEDIA_READ, i, 5, (uint8_t)i);
	sim_run_until(sim, sim_now(sim) + NS_PER_S);
	sim_disk_power_loss(disk);
	for (unsigned i = 0; i < BLOCKS; i++)
		hash = (hash ^ (uint64_t)stamp_at(i)) * 1099511628211ull;
	for (unsigned i = 0; i < request_count; i++)
		hash = (hash ^ requests[i]->done_ns) * 1099511628211ull;
	world_end();
	return hash;
}

static void it_is_decided_by_the_seed(void)
{
	uint64_t hash = run_hash(80);

	EXPECT_EQ(hash, run_hash(80));
	EXPECT(hash != run_hash(81));
}

int main(void)
{
	TAP_RUN(what_was_written_is_read);
	TAP_RUN(it_grows_and_is_opened_by_size);
	TAP_RUN(errors_leave_blocks_whole);
	TAP_RUN(spikes_are_long);
	TAP_RUN(misdirected_reads_are_counted);
	TAP_RUN(full_refuses_new_blocks_only);
	TAP_RUN(cut_ends_what_is_behind);
	TAP_RUN(cancelled_writes_have_done_nothing);
	TAP_RUN(nothing_begins_after_its_deadline);
	TAP_RUN(power_loss_keeps_what_is_stable);
	TAP_RUN(power_loss_ends_what_is_under_way);
	TAP_RUN(power_loss_without_cache_loses_nothing);
	TAP_RUN(the_dead_write_on);
	TAP_RUN(the_frozen_write_on);
	TAP_RUN(a_submit_can_be_the_last_thing);
	TAP_RUN(members_share_it_and_are_seen);
	TAP_RUN(the_next_life_waits_for_the_former);
	TAP_RUN(it_is_decided_by_the_seed);
	return tap_end();
}
