/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers of a copy: threads that take pieces in order and copy or compare them, one at a time
 * each. They wait in the file system, in libweft, or for the rate; nothing else runs on them.
 *
 * A piece that is all hole in the source is not read. What is read is looked through for zeroes,
 * and runs of them are erased in the destination in place of written.
 */
#include "cli/copy.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static bool is_zero(const uint8_t *bytes, size_t len_bytes)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, len_bytes - 1) == 0;
}

/* Bytes from `at` on that are alike: zero, or not, by whole grains. */
static size_t run_bytes(const uint8_t *buf, size_t at, size_t end, bool *ret_is_zero)
{
	size_t begin = at;

	*ret_is_zero = false;
	while (at < end) {
		size_t grain = end - at < COPY_GRAIN_BYTES ? end - at : COPY_GRAIN_BYTES;
		bool zero = is_zero(buf + at, grain);

		if (at == begin)
			*ret_is_zero = zero;
		else if (zero != *ret_is_zero)
			break;
		at += grain;
	}
	return at - begin;
}

static void zeroes_count(struct copy *copy, size_t bytes)
{
	pthread_mutex_lock(&copy->lock);
	copy->zero_bytes += bytes;
	pthread_mutex_unlock(&copy->lock);
}

/* buf holds zeroes, for an end that can be given them in no other way. */
static int zeroes_put(struct copy *copy, const uint8_t *buf, uint64_t offset, size_t bytes)
{
	int res = copy_end_zero(&copy->to, offset, bytes);

	if (res == -EOPNOTSUPP)
		res = copy_end_write(&copy->to, buf, offset, bytes);
	if (res == 0)
		zeroes_count(copy, bytes);
	return res;
}

static int piece_copy(struct copy_worker *worker, uint64_t offset, size_t bytes,
		      const char **ret_doing)
{
	struct copy *copy = worker->copy;
	bool is_sparse = copy->options->is_sparse;
	int res = 0;

	if (is_sparse && copy_end_is_hole(&copy->from, offset, bytes)) {
		*ret_doing = "erasing";
		memset(worker->buf, 0, bytes);
		return zeroes_put(copy, worker->buf, offset, bytes);
	}
	*ret_doing = "reading";
	res = copy_end_read(&copy->from, worker->buf, offset, bytes);
	if (res != 0)
		return res;
	*ret_doing = "writing";
	for (size_t at = 0; at < bytes && res == 0;) {
		bool zero = false;
		size_t part = is_sparse ? run_bytes(worker->buf, at, bytes, &zero) : bytes;

		res = zero ? zeroes_put(copy, worker->buf + at, offset + at, part)
			   : copy_end_write(&copy->to, worker->buf + at, offset + at, part);
		at += part;
	}
	return res;
}

static int piece_verify(struct copy_worker *worker, uint64_t offset, size_t bytes,
			const char **ret_doing)
{
	struct copy *copy = worker->copy;
	int res;

	*ret_doing = "reading";
	res = copy_end_read(&copy->from, worker->buf, offset, bytes);
	if (res != 0)
		return res;
	*ret_doing = "reading back";
	res = copy_end_read(&copy->to, worker->other, offset, bytes);
	if (res != 0)
		return res;
	*ret_doing = "comparing";
	return memcmp(worker->buf, worker->other, bytes) == 0 ? 0 : -EILSEQ;
}

/* ---- who does what, when -------------------------------------------------------------------- */

/* Waits for the piece's turn by the rate. Under the lock. */
static void rate_wait(struct copy *copy, size_t bytes)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t at_ns = copy->rate_ns > now_ns ? copy->rate_ns : now_ns;
	struct timespec until = {.tv_sec = (time_t)(at_ns / NS_PER_S),
				 .tv_nsec = (long)(at_ns % NS_PER_S)};

	copy->rate_ns = at_ns + (uint64_t)((double)bytes * NS_PER_S / (double)copy->options->rate);
	while (!copy->is_stopped && clock_monotonic_ns() < at_ns)
		pthread_cond_timedwait(&copy->stopped, &copy->lock, &until);
}

/* Whether there is another piece. What the worker had before is done. */
static bool piece_next(struct copy_worker *worker, uint64_t *ret_offset, size_t *ret_bytes)
{
	struct copy *copy = worker->copy;
	uint64_t left;
	bool goes_on;

	pthread_mutex_lock(&copy->lock);
	worker->at = UINT64_MAX;
	left = copy->total_bytes - copy->next_bytes;
	goes_on = !copy->is_stopped && left > 0;
	if (goes_on) {
		uint32_t most = copy->options->piece_bytes;

		*ret_offset = copy->next_bytes;
		*ret_bytes = left < most ? (size_t)left : most;
		copy->next_bytes += *ret_bytes;
		worker->at = *ret_offset;
		if (copy->options->rate > 0)
			rate_wait(copy, *ret_bytes);
		/* What was taken and not begun is not done: the worker ends with it in hand. */
		goes_on = !copy->is_stopped;
	}
	pthread_mutex_unlock(&copy->lock);
	return goes_on;
}

static void piece_fail(struct copy_worker *worker, int res, const char *doing)
{
	struct copy *copy = worker->copy;

	pthread_mutex_lock(&copy->lock);
	if (copy->result == 0) {
		copy->result = res;
		copy->failed_at = worker->at;
		copy->failed_doing = doing;
	}
	copy->is_stopped = true;
	pthread_cond_broadcast(&copy->stopped);
	pthread_mutex_unlock(&copy->lock);
}

static void *worker_main(void *arg)
{
	struct copy_worker *worker = arg;
	struct copy *copy = worker->copy;
	uint64_t offset, one = 1;
	const char *doing = "";
	size_t bytes;
	bool is_last;
	int res = 0;

	while (res == 0 && piece_next(worker, &offset, &bytes)) {
		res = copy->phase == COPY_COPYING ? piece_copy(worker, offset, bytes, &doing)
						  : piece_verify(worker, offset, bytes, &doing);
		if (res != 0) {
			piece_fail(worker, res, doing);
		} else {
			pthread_mutex_lock(&copy->lock);
			copy->done_bytes += bytes;
			pthread_mutex_unlock(&copy->lock);
		}
	}
	pthread_mutex_lock(&copy->lock);
	is_last = --copy->running == 0;
	pthread_mutex_unlock(&copy->lock);
	/* Cannot fail: the counter is at 0. */
	if (is_last && write(copy->done_fd, &one, sizeof(one)) < 0)
		abort();
	return NULL;
}

uint64_t copy_workers_watermark(struct copy *copy)
{
	uint64_t mark;

	pthread_mutex_lock(&copy->lock);
	mark = copy->next_bytes;
	for (unsigned i = 0; i < copy->worker_count; i++)
		if (copy->workers[i].at < mark)
			mark = copy->workers[i].at;
	pthread_mutex_unlock(&copy->lock);
	return mark;
}

void copy_workers_stop(struct copy *copy)
{
	pthread_mutex_lock(&copy->lock);
	copy->is_stopped = true;
	pthread_cond_broadcast(&copy->stopped);
	pthread_mutex_unlock(&copy->lock);
}

/* 0 or -errno. */
static int worker_start(struct copy *copy, struct copy_worker *worker)
{
	size_t bytes = copy->options->piece_bytes;
	int res = -ENOMEM;

	worker->copy = copy;
	worker->at = UINT64_MAX;
	worker->buf = aligned_alloc(PAGE_BYTES, bytes);
	if (copy->phase == COPY_VERIFYING)
		worker->other = aligned_alloc(PAGE_BYTES, bytes);
	if (worker->buf != NULL && (worker->other != NULL || copy->phase == COPY_COPYING))
		res = -pthread_create(&worker->thread, NULL, worker_main, worker);
	if (res == 0)
		return 0;
	free(worker->buf);
	free(worker->other);
	return res;
}

int copy_workers_start(struct copy *copy, enum copy_phase phase, uint64_t first_bytes)
{
	int res = 0;

	copy->phase = phase;
	copy->next_bytes = first_bytes;
	copy->done_bytes = 0;
	copy->rate_ns = 0;
	copy->worker_count = 0;
	copy->workers = calloc(copy->options->depth, sizeof(*copy->workers));
	copy->done_fd = eventfd(0, EFD_CLOEXEC);
	if (copy->workers == NULL || copy->done_fd < 0)
		return copy->workers == NULL ? -ENOMEM : -errno;
	/* They begin when all are there. Fewer than asked for are enough. */
	pthread_mutex_lock(&copy->lock);
	while (copy->worker_count < copy->options->depth && res == 0) {
		res = worker_start(copy, &copy->workers[copy->worker_count]);
		copy->worker_count += res == 0;
	}
	copy->running = copy->worker_count;
	pthread_mutex_unlock(&copy->lock);
	return copy->worker_count > 0 ? 0 : res;
}

void copy_workers_join(struct copy *copy)
{
	for (unsigned i = 0; i < copy->worker_count; i++) {
		pthread_join(copy->workers[i].thread, NULL);
		free(copy->workers[i].buf);
		free(copy->workers[i].other);
	}
	free(copy->workers);
	copy->workers = NULL;
	close(copy->done_fd);
}
