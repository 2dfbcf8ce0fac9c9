/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of ring operations in media/file.c that a real kernel rarely shows: short transfers,
 * interruptions, missing fallocate modes, cancellation. One thread.
 *
 * This program is linked without a reactor and implements the used part of reactor.h: each
 * operation is a plain system call, limited to `max_bytes` or answered from `script`.
 */
#include "media/media.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEDIUM_BYTES (256 * 1024)

static struct {
	size_t max_bytes; /* limit of one transfer */
	int script[8];    /* results returned instead of acting; 0 acts */
	unsigned script_at;
	bool lacks_punch;
	bool lacks_zero_range;
	/* Requests seen. */
	unsigned transfers, syncs, punches, zero_ranges, offloads, cancels;
	int rw_flags;
	unsigned writes, lasting_writes; /* by ring or helper; lasting: with RWF_DSYNC */
	/* The operation in flight. */
	struct reactor_op *op;
	int res;
} kernel;

static bool take_scripted(struct reactor_op *op)
{
	int answer = 0;

	CHECK(!kernel.op);
	if (kernel.script_at < ARRAY_LEN(kernel.script))
		answer = kernel.script[kernel.script_at++];
	kernel.op = op;
	kernel.res = answer;
	return answer != 0;
}

/* Copies as much of iov as max_bytes allows. */
static unsigned cut(const struct iovec *iov, unsigned iov_count, struct iovec *ret_iov)
{
	size_t left = kernel.max_bytes;
	unsigned count = 0;

	while (count < iov_count && left > 0) {
		ret_iov[count] = iov[count];
		if (ret_iov[count].iov_len > left)
			ret_iov[count].iov_len = left;
		left -= ret_iov[count++].iov_len;
	}
	return count;
}

void reactor_readv(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		   unsigned iov_count, uint64_t offset)
{
	struct iovec some[8];
	unsigned count = cut(iov, iov_count, some);

	kernel.transfers++;
	if (!take_scripted(op))
		kernel.res = (int)preadv(fd, some, (int)count, (off_t)offset);
}

void reactor_writev(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		    unsigned iov_count, uint64_t offset, int rw_flags)
{
	struct iovec some[8];
	unsigned count = cut(iov, iov_count, some);

	kernel.transfers++;
	kernel.rw_flags |= rw_flags;
	kernel.writes++;
	kernel.lasting_writes += (rw_flags & RWF_DSYNC) != 0;
	if (!take_scripted(op))
		kernel.res = (int)pwritev(fd, some, (int)count, (off_t)offset);
}

void reactor_fdatasync(struct reactor *reactor, struct reactor_op *op, int fd)
{
	kernel.syncs++;
	take_scripted(op);
}

void reactor_fallocate(struct reactor *reactor, struct reactor_op *op, int fd, int mode,
		       uint64_t offset, uint64_t len_bytes)
{
	bool is_punch = mode & FALLOC_FL_PUNCH_HOLE;

	CHECK(mode & FALLOC_FL_KEEP_SIZE);
	kernel.punches += is_punch;
	kernel.zero_ranges += !is_punch;
	if (take_scripted(op))
		return;
	if (is_punch ? kernel.lacks_punch : kernel.lacks_zero_range)
		kernel.res = -EOPNOTSUPP;
	else
		kernel.res = fallocate(fd, mode, (off_t)offset, (off_t)len_bytes) < 0 ? -errno : 0;
}

void reactor_offload(struct reactor *reactor, struct reactor_op *op,
		     int (*work)(struct reactor_op *op))
{
	kernel.offloads++;
	if (!take_scripted(op))
		kernel.res = work(op);
}

/* Called by the helper thread; limited like the ring's writes. */
ssize_t pwritev2(int fd, const struct iovec *iov, int iov_count, off_t offset, int rw_flags)
{
	struct iovec some[8];
	unsigned count = cut(iov, (unsigned)iov_count, some);

	kernel.writes++;
	kernel.lasting_writes += (rw_flags & RWF_DSYNC) != 0;
	for (int i = 0; i < iov_count; i++)
		EXPECT_THAT(iov[i].iov_base, "piece %d of %d is not data of the write", i,
			    iov_count);
	return pwritev(fd, some, (int)count, offset);
}

void reactor_post(struct reactor *dst, struct reactor_msg *msg, void (*fn)(struct reactor_msg *msg))
{
	CHECK(!"one sync at a time is never held, and nobody listens");
}

void reactor_op_cancel(struct reactor_op *op)
{
	kernel.cancels++;
}

/* Files have no state per reactor. */
unsigned reactor_index(const struct reactor *reactor)
{
	return 0;
}

struct reactor *reactor_current(void)
{
	return NULL;
}

uint64_t reactor_now_ns(const struct reactor *reactor)
{
	return 0;
}

void reactor_timer_init(struct reactor *reactor, struct reactor_timer *timer,
			void (*fn)(struct reactor_timer *timer))
{
	CHECK(!"files use no timers");
}

void reactor_timer_arm(struct reactor_timer *timer, uint64_t deadline_ns)
{
	CHECK(!"files use no timers");
}

/* ---- the cases --------------------------------------------------------------------------- */

static struct media *media;
static char folder[] = "/tmp/weft-media-file-XXXXXX";
static char path[64];
static uint8_t *data;
static uint8_t *back;
static int done_res;
static unsigned done_calls;

static void on_done(struct media_io *io, int res)
{
	done_res = res;
	done_calls++;
}

static void deliver(void)
{
	struct reactor_op *op = kernel.op;

	kernel.op = NULL;
	op->done(op, kernel.res);
}

static void kernel_reset(void)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.max_bytes = SIZE_MAX;
}

static int run_io(struct media_io *io)
{
	io->media = media;
	io->done = on_done;
	done_calls = 0;
	media_submit(io);
	while (kernel.op)
		deliver();
	CHECK(done_calls == 1);
	return done_res;
}

static int run_iov(enum media_kind kind, uint64_t offset, const struct iovec *iov,
		   unsigned iov_count, bool is_fua)
{
	struct media_io io = {.kind = kind,
			      .offset = offset,
			      .iov = iov,
			      .iov_count = iov_count,
			      .is_fua = is_fua};

	for (unsigned i = 0; i < iov_count; i++)
		io.len_bytes += iov[i].iov_len;
	return run_io(&io);
}

static void open_medium(bool is_shared)
{
	char spec[128];
	struct media_error error;

	media_close(media);
	unlink(path);
	snprintf(spec, sizeof(spec), "file:%s,size=%u", path, MEDIUM_BYTES);
	CHECK((is_shared ? media_open_shared(spec, 0, &media, &error)
			 : media_open(spec, &media, &error)) == 0);
	kernel_reset();
	for (int i = 0; i < MEDIUM_BYTES; i++)
		data[i] = (uint8_t)(i * 31 + i / 4096 + 1);
}

static void fresh_medium(void)
{
	open_medium(false);
}

static void fill_medium(void)
{
	struct iovec iov = {data, MEDIUM_BYTES};

	CHECK(run_iov(MEDIA_WRITE, 0, &iov, 1, false) == 0);
	kernel_reset();
}

static void expect_file(uint64_t offset, const void *want, size_t len_bytes)
{
	struct iovec iov = {back, len_bytes};

	kernel_reset();
	EXPECT_EQ(0, run_iov(MEDIA_READ, offset, &iov, 1, false));
	EXPECT(memcmp(back, want, len_bytes) == 0);
}

static void short_single_transfers_go_on(void)
{
	struct iovec iov = {data, 10 * 4096};

	fresh_medium();
	kernel.max_bytes = 3 * 4096;
	EXPECT_EQ(0, run_iov(MEDIA_WRITE, 4096, &iov, 1, true));
	EXPECT_EQ(4, kernel.transfers);
	EXPECT_EQ(RWF_DSYNC, kernel.rw_flags);
	expect_file(4096, data, 10 * 4096);
	kernel.max_bytes = 4096;
	kernel.transfers = 0;
	memset(back, 0, 10 * 4096);
	iov.iov_base = back;
	EXPECT_EQ(0, run_iov(MEDIA_READ, 4096, &iov, 1, false));
	EXPECT_EQ(10, kernel.transfers);
	EXPECT(memcmp(back, data, 10 * 4096) == 0);
}

static void short_gathered_transfers_go_on(void)
{
	for (size_t max_blocks = 1; max_blocks <= 8; max_blocks++) {
		struct iovec iov[4] = {{data + 6 * 4096, 4096},
				       {data, 0},
				       {data + 8 * 4096, 4 * 4096},
				       {data, 2 * 4096}};

		fresh_medium();
		kernel.max_bytes = max_blocks * 4096;
		EXPECT_EQ(0, run_iov(MEDIA_WRITE, 8192, iov, 4, false));
		EXPECT_EQ(0, kernel.rw_flags);
		expect_file(8192, data + 6 * 4096, 4096);
		expect_file(8192 + 4096, data + 8 * 4096, 4 * 4096);
		expect_file(8192 + 5 * 4096, data, 2 * 4096);

		kernel.max_bytes = max_blocks * 4096;
		iov[0] = (struct iovec){back + 16 * 4096, 3 * 4096};
		iov[1] = (struct iovec){back, 4 * 4096};
		memset(back, 0, 20 * 4096);
		EXPECT_EQ(0, run_iov(MEDIA_READ, 8192, iov, 2, false));
		EXPECT(memcmp(back + 16 * 4096, data + 6 * 4096, 4096) == 0);
		EXPECT(memcmp(back + 17 * 4096, data + 8 * 4096, 2 * 4096) == 0);
		EXPECT(memcmp(back, data + 10 * 4096, 2 * 4096) == 0);
		EXPECT(memcmp(back + 2 * 4096, data, 2 * 4096) == 0);
	}
}

static void interruptions_are_tried_again(void)
{
	struct iovec iov = {data, 4 * 4096};
	struct media_io flush = {.kind = MEDIA_FLUSH};
	struct media_io zero = {.kind = MEDIA_WRITE_ZEROES, .len_bytes = 4096};

	fresh_medium();
	kernel.max_bytes = 2 * 4096;
	kernel.script[0] = -EINTR;
	kernel.script[2] = -EAGAIN;
	EXPECT_EQ(0, run_iov(MEDIA_WRITE, 0, &iov, 1, false));
	EXPECT_EQ(4, kernel.transfers);
	expect_file(0, data, 4 * 4096);
	kernel.script[0] = kernel.script[1] = -EINTR;
	kernel.script_at = 0;
	EXPECT_EQ(0, run_io(&flush));
	EXPECT_EQ(3, kernel.syncs);
	kernel.script_at = 0;
	EXPECT_EQ(0, run_io(&zero));
	EXPECT_EQ(3, kernel.zero_ranges);
}

static void errors_end_the_chain(void)
{
	struct iovec iov = {data, 4 * 4096};
	struct media_io flush = {.kind = MEDIA_FLUSH};
	struct media_io zero = {.kind = MEDIA_WRITE_ZEROES, .len_bytes = 4096};

	fresh_medium();
	kernel.max_bytes = 4096;
	kernel.script[1] = -ENOSPC;
	EXPECT_EQ(-ENOSPC, run_iov(MEDIA_WRITE, 0, &iov, 1, false));
	EXPECT_EQ(2, kernel.transfers);
	kernel_reset();
	kernel.script[0] = -EIO;
	EXPECT_EQ(-EIO, run_io(&flush));
	kernel.script_at = 0;
	EXPECT_EQ(-EIO, run_io(&zero));
	EXPECT_EQ(0, kernel.transfers);
}

static void expect_zeroed_between(uint64_t from, uint64_t to)
{
	memset(data + from, 0, to - from);
	expect_file(0, data, MEDIUM_BYTES);
}

/* The kernel reports lost data once. A host that flushes again must get the error again. */
static void a_failed_flush_fails_for_good(void)
{
	struct media_io flush = {.kind = MEDIA_FLUSH};
	struct media_io zero = {.kind = MEDIA_WRITE_ZEROES, .len_bytes = 4096, .is_fua = true};
	struct iovec iov = {data, 4096};
	struct media_error problem;

	fresh_medium();
	EXPECT(!media_has_lost_writes(media));
	kernel.script[0] = -ENOSPC;
	EXPECT_EQ(-ENOSPC, run_io(&flush));
	EXPECT(media_has_lost_writes(media));
	EXPECT(media_problem(media, &problem));
	EXPECT(strstr(problem.text, "recheck") != NULL);
	kernel_reset();
	EXPECT_EQ(-EIO, run_io(&flush));
	EXPECT_EQ(-EIO, run_iov(MEDIA_WRITE, 0, &iov, 1, true));
	EXPECT_EQ(-EIO, run_io(&zero));
	EXPECT_EQ(0, kernel.syncs + kernel.writes + kernel.punches + kernel.zero_ranges);
	/* Without durability, I/O continues. */
	EXPECT_EQ(0, run_iov(MEDIA_WRITE, 0, &iov, 1, false));
	expect_file(0, data, 4096);
	media_forgive(media);
	EXPECT_EQ(0, run_io(&flush));
	EXPECT(!media_problem(media, &problem));
}

static void a_flush_that_did_not_run_loses_nothing(void)
{
	static const int results[] = {-ECANCELED, -ENOMEM};
	struct media_io flush = {.kind = MEDIA_FLUSH};

	fresh_medium();
	for (unsigned i = 0; i < ARRAY_LEN(results); i++) {
		kernel_reset();
		kernel.script[0] = results[i];
		EXPECT_EQ(results[i], run_io(&flush));
		EXPECT(!media_has_lost_writes(media));
		EXPECT_EQ(0, run_io(&flush));
	}
}

/* Durable zeroing ends with a flush; a direct write that fails affects only itself. */
static void durable_writes_count_where_they_flush(void)
{
	struct media_io zero = {.kind = MEDIA_WRITE_ZEROES, .len_bytes = 4096, .is_fua = true};
	struct media_io flush = {.kind = MEDIA_FLUSH};
	struct iovec iov = {data, 4096};
	struct media_error error;
	bool is_buffered;
	char spec[128];

	fresh_medium();
	kernel.script[1] = -EIO;
	EXPECT_EQ(-EIO, run_io(&zero));
	kernel_reset();
	EXPECT_EQ(-EIO, run_io(&flush));
	fresh_medium();
	is_buffered = media->buffer_align_bytes == 1;
	kernel.script[0] = -EIO;
	EXPECT_EQ(-EIO, run_iov(MEDIA_WRITE, 0, &iov, 1, true));
	EXPECT_EQ(is_buffered, media_has_lost_writes(media));
	/* The next medium over the same file still knows the loss. */
	kernel_reset();
	kernel.script[0] = -EIO;
	EXPECT_EQ(-EIO, run_io(&flush));
	struct media *next;

	snprintf(spec, sizeof(spec), "file:%s,size=%u", path, 2 * MEDIUM_BYTES);
	CHECK(media_reopen(media, spec, &next, &error) == 0);
	media_close(media);
	media = next;
	kernel_reset();
	EXPECT_EQ(-EIO, run_io(&flush));
}

/* I/O works without a name, whether the file is shared or not: only the open file has the data,
 * which must be copied before it is closed. */
static void a_deleted_file_serves_on(void)
{
	struct media_io flush = {.kind = MEDIA_FLUSH};
	struct iovec iov = {data, 4096};
	struct media_error problem;

	for (int is_shared = 0; is_shared <= 1; is_shared++) {
		const char *copy, *stop;

		open_medium(is_shared);
		fill_medium();
		EXPECT_EQ(0, run_io(&flush));
		EXPECT(!media_problem(media, &problem));
		unlink(path);
		EXPECT_EQ(0, run_io(&flush));
		EXPECT_EQ(0, run_iov(MEDIA_WRITE, 0, &iov, 1, false));
		EXPECT_EQ(0, run_iov(MEDIA_READ, 4096, &iov, 1, false));
		EXPECT(!media_is_cut(media));
		EXPECT(media_problem(media, &problem));
		copy = strstr(problem.text, "weft copy");
		stop = strstr(problem.text, "stop");
		EXPECT(copy != NULL && (is_shared ? stop > copy : stop == NULL));
		EXPECT_EQ(is_shared, strstr(problem.text, "members of a cluster") != NULL);
		EXPECT(strstr(problem.text, "deleted") != NULL);
	}
}

/* Each way to zeroes, with FUA: the calls made, the sync at the end, and the content around. */
static void zeroes_find_a_way(void)
{
	static const struct {
		bool may_discard, lacks_punch, lacks_zero_range;
		unsigned punches, zero_ranges, transfers;
	} rows[] = {
		{false, false, false, 0, 1, 0}, {true, false, false, 1, 0, 0},
		{true, true, false, 1, 1, 0},   {false, false, true, 0, 1, 3},
		{true, true, true, 1, 1, 3},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct media_io io = {.kind = MEDIA_WRITE_ZEROES,
				      .offset = 3 * 4096,
				      .len_bytes = 40 * 4096,
				      .may_discard = rows[i].may_discard,
				      .is_fua = true};

		fresh_medium();
		fill_medium();
		kernel.lacks_punch = rows[i].lacks_punch;
		kernel.lacks_zero_range = rows[i].lacks_zero_range;
		EXPECT_EQ(0, run_io(&io));
		EXPECT_EQ(rows[i].punches, kernel.punches);
		EXPECT_EQ(rows[i].zero_ranges, kernel.zero_ranges);
		EXPECT_EQ(rows[i].transfers, kernel.transfers);
		EXPECT_EQ(1, kernel.syncs);
		expect_zeroed_between(3 * 4096, 43 * 4096);
		if (!rows[i].lacks_zero_range)
			continue;
		/* The refusal is remembered: the second time zeroes are written at once. */
		kernel_reset();
		kernel.max_bytes = 5 * 4096; /* short writes of zeroes are continued */
		io.may_discard = false;
		io.is_fua = false;
		io.offset = 50 * 4096;
		io.len_bytes = 13 * 4096;
		EXPECT_EQ(0, run_io(&io));
		EXPECT_EQ(0, kernel.zero_ranges);
		EXPECT_EQ(3, kernel.transfers);
		EXPECT_EQ(0, kernel.syncs);
		expect_zeroed_between(50 * 4096, 63 * 4096);
	}
}

static void discards_are_advice(void)
{
	struct media_io io = {.kind = MEDIA_DISCARD, .offset = 4096, .len_bytes = 8192};

	fresh_medium();
	fill_medium();
	kernel.lacks_punch = true;
	EXPECT_EQ(0, run_io(&io));
	expect_file(0, data, MEDIUM_BYTES);
	EXPECT_EQ(0, run_io(&io));
	EXPECT_EQ(1, kernel.punches);
	EXPECT_EQ(0, kernel.offloads);
	expect_zeroed_between(4096, 4096 + 8192);
	kernel.script[0] = -EIO;
	kernel.script_at = 0;
	EXPECT_EQ(-EIO, run_io(&io));
}

static void expect_cancelled(struct media_io *io)
{
	io->media = media;
	io->done = on_done;
	done_calls = 0;
	media_submit(io);
	EXPECT(kernel.op != NULL);
	media->ops->cancel(io);
	EXPECT_EQ(1, kernel.cancels);
	EXPECT_EQ(0, done_calls);
	deliver();
	EXPECT(!kernel.op);
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(-ECANCELED, done_res);
}

static void cancellation_ends_the_chain(void)
{
	struct iovec iov = {data, 4 * 4096};
	struct media_io write = {
		.kind = MEDIA_WRITE, .len_bytes = 4 * 4096, .iov = &iov, .iov_count = 1};
	struct media_io zero = {.kind = MEDIA_WRITE_ZEROES, .len_bytes = 4096, .may_discard = true};

	fresh_medium();
	kernel.script[0] = -EINTR; /* how a cancelled ring worker ends */
	expect_cancelled(&write);
	kernel_reset();
	kernel.script[0] = -ECANCELED;
	expect_cancelled(&write);
	kernel_reset();
	kernel.max_bytes = 4096; /* too late for this piece, in time for the next */
	expect_cancelled(&write);
	kernel_reset();
	kernel.lacks_punch = true;
	expect_cancelled(&zero);
	/* Finished before the cancellation arrived: the real result is reported. */
	kernel_reset();
	media_submit(&write);
	media->ops->cancel(&write);
	deliver();
	EXPECT_EQ(0, done_res);
}

static int write_dated(uint64_t offset, uint32_t len_bytes, bool is_fua)
{
	struct iovec iov = {data + offset, len_bytes};
	struct media_io io = {.kind = MEDIA_WRITE,
			      .offset = offset,
			      .len_bytes = len_bytes,
			      .iov = &iov,
			      .iov_count = 1,
			      .is_fua = is_fua,
			      .deadline_ns = UINT64_MAX};

	return run_io(&io);
}

/*
 * Every piece of a FUA write is durable, the first and the rest of a short one, whether written by
 * the ring or by the helper thread (from the start, after -EAGAIN or for lack of RWF_NOWAIT).
 */
static void every_piece_of_a_fua_write_is_durable(void)
{
	static const struct {
		bool is_dated;
		int script[3]; /* answers of the first operations */
		unsigned writes;
	} rows[] = {
		{false, {0}, 4},          {false, {-EINTR}, 5},        {true, {0}, 4},
		{true, {-EAGAIN}, 5},     {true, {0, -EAGAIN}, 5},     {true, {0, 0, -EAGAIN}, 5},
		{true, {-EOPNOTSUPP}, 5}, {true, {0, -EOPNOTSUPP}, 5},
	};

	for (unsigned i = 0; i < 2 * ARRAY_LEN(rows); i++) {
		const unsigned row = i / 2;
		const bool is_fua = i % 2;
		struct iovec iov[2] = {{data, 4 * 4096}, {data + 4 * 4096, 6 * 4096}};
		struct media_io io = {.kind = MEDIA_WRITE,
				      .offset = 4096,
				      .len_bytes = 10 * 4096,
				      .iov = iov,
				      .iov_count = 2,
				      .is_fua = is_fua,
				      .deadline_ns = rows[row].is_dated ? UINT64_MAX : 0};

		open_medium(rows[row].is_dated);
		kernel.max_bytes = 3 * 4096;
		memcpy(kernel.script, rows[row].script, sizeof(rows[row].script));
		EXPECT_EQ(0, run_io(&io));
		EXPECT_THAT(kernel.writes >= rows[row].writes, "row %u: %u pieces, not %u", row,
			    rows[row].writes, kernel.writes);
		EXPECT_THAT(kernel.lasting_writes == (is_fua ? kernel.writes : 0),
			    "row %u: of %u pieces %s durable, not %u", row, kernel.writes,
			    is_fua ? "all" : "none", kernel.lasting_writes);
		expect_file(4096, data, 10 * 4096);
	}
}

/* The ring's workers stop with the process and would write when it continues. */
static void writes_of_shared_files_are_not_left_to_workers(void)
{
	open_medium(true);
	EXPECT_EQ(0, write_dated(0, 8192, true));
	EXPECT_EQ(RWF_NOWAIT | RWF_DSYNC, kernel.rw_flags);
	EXPECT_EQ(0, kernel.offloads);
	/* A write that would wait goes to the helper, also in the middle. */
	kernel_reset();
	kernel.script[0] = -EAGAIN;
	EXPECT_EQ(0, write_dated(8192, 8192, false));
	EXPECT_EQ(1, kernel.offloads);
	expect_file(0, data, 16384);
	kernel_reset();
	kernel.max_bytes = 4096;
	kernel.script[1] = -EAGAIN;
	EXPECT_EQ(0, write_dated(16384, 8192, false));
	EXPECT_EQ(2, kernel.transfers);
	EXPECT_EQ(1, kernel.offloads);
	expect_file(0, data, 24576);
	/* After -EOPNOTSUPP RWF_NOWAIT is not tried again. */
	kernel_reset();
	kernel.script[0] = -EOPNOTSUPP;
	EXPECT_EQ(0, write_dated(24576, 8192, false));
	EXPECT_EQ(0, write_dated(32768, 8192, false));
	EXPECT_EQ(1, kernel.transfers);
	EXPECT_EQ(2, kernel.offloads);
	expect_file(0, data, 40960);
	/* Nor is the helper tried for ever. */
	kernel_reset();
	kernel.script[0] = -EOPNOTSUPP;
	EXPECT_EQ(-EOPNOTSUPP, write_dated(0, 4096, false));
}

/* Submits the operation and takes it out of the kernel; the test completes it later. */
static struct reactor_op *submit_and_hold(struct media_io *io)
{
	struct reactor_op *op;

	io->media = media;
	io->done = on_done;
	media_submit(io);
	op = kernel.op;
	kernel.op = NULL;
	return op;
}

/* Operations in flight when the first one was refused are repeated, not failed. */
static void a_refusal_to_not_wait_fails_no_write(void)
{
	static const int refusals[] = {-EOPNOTSUPP, -EINVAL};

	for (unsigned i = 0; i < ARRAY_LEN(refusals); i++) {
		struct iovec iov[8];
		struct media_io ios[8];
		struct reactor_op *ops[8];

		open_medium(true);
		kernel_reset();
		done_calls = 0;
		for (unsigned n = 0; n < 8; n++) {
			bool is_read = n == 7;

			iov[n] = (struct iovec){is_read ? back : data + (size_t)n * 8192, 8192};
			ios[n] = (struct media_io){.kind = is_read  ? MEDIA_READ
							   : n == 6 ? MEDIA_WRITE_ZEROES
								    : MEDIA_WRITE,
						   .offset = n * 8192,
						   .len_bytes = 8192,
						   .iov = &iov[n],
						   .iov_count = 1,
						   .is_fua = n % 2,
						   .deadline_ns = UINT64_MAX};
			ops[n] = submit_and_hold(&ios[n]);
		}
		for (unsigned n = 0; n < 8; n++) {
			ops[n]->done(ops[n], n < 6 ? refusals[i] : n == 7 ? 8192 : 0);
			while (kernel.op)
				deliver();
			EXPECT_EQ(0, done_res);
			EXPECT_EQ(n + 1, done_calls);
		}
		expect_file(0, data, 6 * 8192);
	}
	/* EINVAL of a write that may wait is a real error. */
	kernel_reset();
	kernel.script[0] = -EINVAL;
	EXPECT_EQ(-EINVAL, write_dated(0, 4096, false));
}

/* Where holes are unsupported, the helper writes zeroes: piece by piece, none beyond the range. */
static void zeroes_of_shared_files_are_not_left_to_workers(void)
{
	struct media_io io = {.kind = MEDIA_WRITE_ZEROES,
			      .offset = 3 * 4096,
			      .len_bytes = 40 * 4096,
			      .deadline_ns = UINT64_MAX};

	open_medium(true);
	fill_medium();
	/* Holes are refused, then the first and the last write would have to wait. */
	kernel.script[0] = -EOPNOTSUPP;
	kernel.script[1] = -EAGAIN;
	kernel.script[4] = -EAGAIN;
	EXPECT_EQ(0, run_io(&io));
	EXPECT_EQ(3, kernel.offloads);
	EXPECT_EQ(RWF_NOWAIT, kernel.rw_flags);
	expect_zeroed_between(3 * 4096, 43 * 4096);
}

static void holes_of_shared_files_are_not_left_to_workers(void)
{
	struct media_io io = {.kind = MEDIA_WRITE_ZEROES,
			      .offset = 3 * 4096,
			      .len_bytes = 40 * 4096,
			      .deadline_ns = UINT64_MAX};

	open_medium(true);
	fill_medium();
	EXPECT_EQ(0, run_io(&io));
	EXPECT_EQ(1, kernel.offloads);
	expect_zeroed_between(3 * 4096, 43 * 4096);
	kernel_reset();
	io.may_discard = true;
	EXPECT_EQ(0, run_io(&io));
	io.kind = MEDIA_DISCARD;
	EXPECT_EQ(0, run_io(&io));
	EXPECT_EQ(0, kernel.punches + kernel.zero_ranges);
	EXPECT_EQ(2, kernel.offloads);
	/* Without a deadline no other member can have taken over. */
	io.deadline_ns = 0;
	EXPECT_EQ(0, run_io(&io));
	EXPECT_EQ(1, kernel.punches);
}

int main(void)
{
	data = aligned_alloc(4096, MEDIUM_BYTES);
	back = aligned_alloc(4096, MEDIUM_BYTES);
	CHECK(data && back && mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/store", folder);
	TAP_RUN(short_single_transfers_go_on);
	TAP_RUN(short_gathered_transfers_go_on);
	TAP_RUN(interruptions_are_tried_again);
	TAP_RUN(errors_end_the_chain);
	TAP_RUN(a_failed_flush_fails_for_good);
	TAP_RUN(a_flush_that_did_not_run_loses_nothing);
	TAP_RUN(durable_writes_count_where_they_flush);
	TAP_RUN(a_deleted_file_serves_on);
	TAP_RUN(zeroes_find_a_way);
	TAP_RUN(discards_are_advice);
	TAP_RUN(cancellation_ends_the_chain);
	TAP_RUN(every_piece_of_a_fua_write_is_durable);
	TAP_RUN(writes_of_shared_files_are_not_left_to_workers);
	TAP_RUN(a_refusal_to_not_wait_fails_no_write);
	TAP_RUN(holes_of_shared_files_are_not_left_to_workers);
	TAP_RUN(zeroes_of_shared_files_are_not_left_to_workers);
	media_close(media);
	unlink(path);
	rmdir(folder);
	free(data);
	free(back);
	return tap_end();
}
