/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syncs of one file that overlap: the kernel reports lost writes to one of them, and the others
 * must not succeed (media/file_overlap.c). One thread.
 *
 * This program is linked without a reactor and implements the used part of reactor.h: the case
 * decides when and how an operation ends.
 */
#include "base/prng.h"
#include "media/media.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MEDIUM_BYTES 65536
#define SYNCS_MAX    8

static struct reactor_op *submitted; /* the latest operation */
static unsigned cancels;
static struct reactor_msg *posted[SYNCS_MAX];
static unsigned posted_count;

void reactor_readv(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		   unsigned iov_count, uint64_t offset)
{
	submitted = op;
}

void reactor_writev(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		    unsigned iov_count, uint64_t offset, int rw_flags)
{
	submitted = op;
}

void reactor_fdatasync(struct reactor *reactor, struct reactor_op *op, int fd)
{
	submitted = op;
}

void reactor_fallocate(struct reactor *reactor, struct reactor_op *op, int fd, int mode,
		       uint64_t offset, uint64_t len_bytes)
{
	submitted = op;
}

void reactor_offload(struct reactor *reactor, struct reactor_op *op,
		     int (*work)(struct reactor_op *op))
{
	submitted = op;
}

void reactor_op_cancel(struct reactor_op *op)
{
	cancels++;
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

void reactor_post(struct reactor *dst, struct reactor_msg *msg, void (*fn)(struct reactor_msg *msg))
{
	CHECK(posted_count < SYNCS_MAX);
	msg->fn = fn;
	posted[posted_count++] = msg;
}

struct reactor *reactor_current(void)
{
	CHECK(!"files have no state per reactor");
	return NULL;
}

unsigned reactor_index(const struct reactor *reactor)
{
	CHECK(!"files have no state per reactor");
	return 0;
}

static void deliver_posted(void)
{
	struct reactor_msg *msg;

	CHECK(posted_count > 0);
	msg = posted[0];
	memmove(posted, posted + 1, --posted_count * sizeof(struct reactor_msg *));
	msg->fn(msg);
}

/* ---- the cases --------------------------------------------------------------------------- */

static struct media *media;
static char folder[] = "/tmp/weft-media-overlap-XXXXXX";
static char path[64];
static uint8_t *data;

static void fresh_medium(void)
{
	struct media_error error;
	char spec[128];

	media_close(media);
	unlink(path);
	snprintf(spec, sizeof(spec), "file:%s,size=%u", path, MEDIUM_BYTES);
	CHECK(media_open(spec, &media, &error) == 0);
	cancels = 0;
}

/* One of several overlapping syncs. */
struct overlapping {
	struct media_io io;
	struct reactor_op *op;
	bool is_done;
	int res;
};

static void overlapping_done(struct media_io *io, int res)
{
	struct overlapping *sync = container_of(io, struct overlapping, io);

	CHECK(!sync->is_done);
	sync->is_done = true;
	sync->res = res;
}

static void sync_start(struct overlapping *sync, enum media_kind kind)
{
	static struct iovec iov;

	iov = (struct iovec){data, 4096};
	*sync = (struct overlapping){.io = {.kind = kind, .media = media}};
	sync->io.done = overlapping_done;
	if (kind == MEDIA_WRITE) {
		sync->io.iov = &iov;
		sync->io.iov_count = 1;
		sync->io.len_bytes = 4096;
		sync->io.is_fua = true;
	}
	media_submit(&sync->io);
	CHECK(submitted);
	sync->op = submitted;
	submitted = NULL;
}

static void sync_end(struct overlapping *sync, int res)
{
	sync->op->done(sync->op, res);
}

/* Linux reports to one of two syncs of one description, and the other may end first. */
static void a_success_waits_for_syncs_that_overlap(void)
{
	struct overlapping a, b, c;

	fresh_medium();
	sync_start(&a, MEDIA_FLUSH);
	sync_start(&b, MEDIA_FLUSH);
	sync_end(&b, 0);
	EXPECT(!b.is_done);
	sync_start(&c, MEDIA_FLUSH); /* starts after the end of b: b does not wait for it */
	sync_end(&a, 0);
	EXPECT(!a.is_done);
	deliver_posted();
	EXPECT(b.is_done && b.res == 0);
	sync_end(&c, 0);
	EXPECT(c.is_done && c.res == 0);
	deliver_posted();
	EXPECT(a.is_done && a.res == 0);

	sync_start(&a, MEDIA_FLUSH);
	sync_start(&b, MEDIA_FLUSH);
	sync_end(&b, 0);
	sync_end(&a, -EIO);
	EXPECT(a.is_done && a.res == -EIO && !b.is_done);
	media_forgive(media); /* keeps what b has not reported yet */
	deliver_posted();
	EXPECT(b.is_done && b.res == -EIO);

	/* The failing sync ends first. */
	sync_start(&a, MEDIA_FLUSH);
	sync_start(&b, MEDIA_FLUSH);
	sync_end(&a, -EIO);
	sync_end(&b, 0);
	EXPECT(a.res == -EIO && b.is_done && b.res == -EIO);
	media_forgive(media);

	/* A sync that did not run takes no report. */
	sync_start(&a, MEDIA_FLUSH);
	sync_start(&b, MEDIA_FLUSH);
	sync_end(&b, 0);
	sync_end(&a, -ECANCELED);
	deliver_posted();
	EXPECT(b.is_done && b.res == 0);
}

static void a_held_success_can_be_cancelled(void)
{
	struct overlapping a, b;

	fresh_medium();
	sync_start(&a, MEDIA_FLUSH);
	sync_start(&b, MEDIA_FLUSH);
	sync_end(&b, 0);
	media->ops->cancel(&b.io);
	EXPECT(!b.is_done && cancels == 0);
	deliver_posted();
	EXPECT(b.is_done && b.res == -ECANCELED);
	/* Too late: b has been released already. */
	sync_start(&b, MEDIA_FLUSH);
	sync_end(&b, 0);
	sync_end(&a, 0);
	media->ops->cancel(&b.io);
	deliver_posted();
	EXPECT(a.is_done && b.is_done && b.res == 0);
}

/* Durable writes of a buffered file are syncs like any other. */
static void durable_writes_overlap_with_flushes(void)
{
	struct overlapping a, b;
	bool is_buffered;

	fresh_medium();
	is_buffered = media->buffer_align_bytes == 1;
	sync_start(&a, MEDIA_FLUSH);
	sync_start(&b, MEDIA_WRITE);
	sync_end(&b, 4096);
	EXPECT_EQ(!is_buffered, b.is_done);
	sync_end(&a, -EIO);
	if (is_buffered)
		deliver_posted();
	EXPECT(b.is_done && b.res == (is_buffered ? -EIO : 0));
}

/* Earlier writes of hosts are still in the page cache. */
static void a_medium_made_readonly_flushes(void)
{
	struct overlapping flush;
	struct media_error error;
	struct media *next;
	char spec[128];

	fresh_medium();
	snprintf(spec, sizeof(spec), "file:%s,readonly", path);
	CHECK(media_reopen(media, spec, &next, &error) == 0);
	media_close(media);
	media = next;
	EXPECT(media->has_volatile_cache);
	sync_start(&flush, MEDIA_FLUSH);
	sync_end(&flush, -EIO);
	EXPECT(flush.is_done && flush.res == -EIO && media_has_lost_writes(media));
	media_close(media);
	/* Nothing can have been written through a medium opened readonly. */
	CHECK(media_open(spec, &media, &error) == 0);
	EXPECT(!media->has_volatile_cache);
}

/* A model for any order of starts and ends. */
struct modelled {
	struct overlapping sync;
	bool is_running, is_held;
	unsigned waits_for; /* held: mask of running syncs that started before its end */
	unsigned failures;  /* of all syncs, at its start */
};

static struct modelled models[SYNCS_MAX];
static unsigned failures;

static void model_end(unsigned i, int res)
{
	struct modelled *model = &models[i];
	unsigned running = 0;

	model->is_running = false;
	failures += res < 0;
	for (unsigned k = 0; k < SYNCS_MAX; k++) {
		running |= (unsigned)models[k].is_running << k;
		models[k].waits_for &= ~(1u << i);
	}
	sync_end(&model->sync, res);
	if (media_has_lost_writes(media))
		media_forgive(media);
	model->is_held = res >= 0 && running;
	model->waits_for = running;
	CHECK(model->sync.is_done != model->is_held);
	if (!model->is_held)
		CHECK(model->sync.res == (failures != model->failures ? -EIO : 0));
}

static void model_deliver(void)
{
	int expected[SYNCS_MAX];

	for (unsigned i = 0; i < SYNCS_MAX; i++)
		expected[i] = failures != models[i].failures ? -EIO : 0;
	deliver_posted();
	for (unsigned i = 0; i < SYNCS_MAX; i++)
		if (models[i].is_held && models[i].sync.is_done) {
			models[i].is_held = false;
			CHECK(models[i].waits_for == 0);
			CHECK(models[i].sync.res == expected[i]);
		}
}

static void any_order_of_beginnings_and_ends(void)
{
	struct prng prng;

	fresh_medium();
	prng_seed(&prng, 1);
	for (unsigned step = 0; step < 200000; step++) {
		unsigned i = (unsigned)prng_below(&prng, SYNCS_MAX);
		struct modelled *model = &models[i];
		bool has_running = false;

		if (model->is_running) {
			model_end(i, prng_one_in(&prng, 10) ? -EIO : 0);
		} else if (!model->is_held && !prng_one_in(&prng, 3)) {
			sync_start(&model->sync, MEDIA_FLUSH);
			model->is_running = true;
			model->failures = failures;
		}
		while (posted_count > 0)
			model_deliver();
		for (unsigned k = 0; k < SYNCS_MAX; k++)
			has_running |= models[k].is_running;
		for (unsigned k = 0; k < SYNCS_MAX && !has_running; k++)
			CHECK(!models[k].is_held);
	}
	for (unsigned i = 0; i < SYNCS_MAX; i++)
		if (models[i].is_running)
			model_end(i, 0);
	while (posted_count > 0)
		model_deliver();
	for (unsigned i = 0; i < SYNCS_MAX; i++)
		EXPECT(!models[i].is_held);
}

int main(void)
{
	data = aligned_alloc(4096, 4096);
	CHECK(data && mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/store", folder);
	TAP_RUN(a_success_waits_for_syncs_that_overlap);
	TAP_RUN(a_held_success_can_be_cancelled);
	TAP_RUN(durable_writes_overlap_with_flushes);
	TAP_RUN(a_medium_made_readonly_flushes);
	TAP_RUN(any_order_of_beginnings_and_ends);
	media_close(media);
	unlink(path);
	rmdir(folder);
	free(data);
	return tap_end();
}
