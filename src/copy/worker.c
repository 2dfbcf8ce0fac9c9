/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers of a copy: threads that take pieces in order and copy or compare one at a time. They
 * block in the file system, in libweft, or for the rate limit; nothing else runs on these threads.
 *
 * A piece that is a hole in the source is not read. Data read is searched for zeroes, and runs of
 * zeroes are erased in the destination instead of written. Standard input is read when a piece is
 * taken, because its length is unknown. Standard output is written in order.
 */
#include "copy/worker.h"

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

/* Length of the run from `at` that is all zero, or all not zero, in whole grains. */
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

/* `buf` holds zeroes, and is written if the end cannot erase. */
static int zeroes_put(struct copy *copy, const uint8_t *buf, uint64_t offset, size_t bytes)
{
	int res = copy_end_zero(&copy->to, offset, bytes);

	if (res == -EOPNOTSUPP)
		res = copy_end_write(&copy->to, buf, offset, bytes);
	if (res == 0)
		zeroes_count(copy, bytes);
	return res;
}

/* Writes to standard output in order: waits until everything before the piece is written. 0,
 * -ECANCELED when the copy was stopped, or another -errno. */
static int piece_send(struct copy *copy, const uint8_t *buf, uint64_t offset, size_t bytes)
{
	bool is_stopped;
	int res = -ECANCELED;

	pthread_mutex_lock(&copy->lock);
	while (!copy->is_stopped && copy->stream_bytes != offset)
		pthread_cond_wait(&copy->written, &copy->lock);
	is_stopped = copy->is_stopped;
	pthread_mutex_unlock(&copy->lock);
	if (!is_stopped)
		res = copy_stream_write(&copy->to, copy->stop_fd, buf, bytes);
	if (res != 0)
		return res;
	pthread_mutex_lock(&copy->lock);
	copy->stream_bytes += bytes;
	pthread_cond_broadcast(&copy->written);
	pthread_mutex_unlock(&copy->lock);
	return 0;
}

/* Writes the worker's buffer to the destination. */
static int piece_write(struct copy_worker *worker, uint64_t offset, size_t bytes)
{
	struct copy *copy = worker->copy;
	bool is_sparse = copy->options->is_sparse;
	int res = copy_end_check_size(&copy->to);

	if (copy->to.is_stream)
		return piece_send(copy, worker->buf, offset, bytes);
	for (size_t at = 0; at < bytes && res == 0;) {
		bool zero = false;
		size_t part = is_sparse ? run_bytes(worker->buf, at, bytes, &zero) : bytes;

		res = zero ? zeroes_put(copy, worker->buf + at, offset + at, part)
			   : copy_end_write(&copy->to, worker->buf + at, offset + at, part);
		at += part;
	}
	return res;
}

static int piece_copy(struct copy_worker *worker, uint64_t offset, size_t bytes,
		      const char **ret_doing)
{
	struct copy *copy = worker->copy;
	bool is_hole = copy->options->is_sparse && !copy->to.is_stream &&
		       copy_end_is_hole(&copy->from, offset, bytes);
	int res = 0;

	*ret_doing = "reading";
	if (is_hole)
		memset(worker->buf, 0, bytes);
	else if (!copy->from.is_stream)
		res = copy_end_read(&copy->from, worker->buf, offset, bytes);
	if (res == 0)
		res = copy_end_check_size(&copy->from);
	if (res != 0)
		return res;
	*ret_doing = "writing";
	return piece_write(worker, offset, bytes);
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

/* ---- taking pieces -------------------------------------------------------------------------- */

/* Waits until the rate limit allows the piece. Under `lock`. */
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

/* Takes the next piece; the worker's former piece is done. False: no piece is left, or the copy was
 * stopped. */
static bool piece_next(struct copy_worker *worker, uint64_t *ret_offset, size_t *ret_bytes)
{
	struct copy *copy = worker->copy;
	uint64_t left;
	bool goes_on;

	pthread_mutex_lock(&copy->lock);
	worker->at = UINT64_MAX;
	left = copy->end_bytes - copy->next_bytes;
	goes_on = !copy->is_stopped && left > 0;
	if (goes_on) {
		uint32_t most = copy->options->piece_bytes;

		*ret_offset = copy->next_bytes;
		*ret_bytes = left < most ? (size_t)left : most;
		copy->next_bytes += *ret_bytes;
		worker->at = *ret_offset;
		if (copy->options->rate > 0)
			rate_wait(copy, *ret_bytes);
		/* If the copy was stopped while waiting, worker->at stays set, so that this piece
		 * counts as not done. */
		goes_on = !copy->is_stopped;
	}
	pthread_mutex_unlock(&copy->lock);
	return goes_on;
}

/* Under `lock`. */
static void copy_stop(struct copy *copy)
{
	uint64_t one = 1;

	copy->is_stopped = true;
	pthread_cond_broadcast(&copy->stopped);
	pthread_cond_broadcast(&copy->written);
	/* Write fails only when the counter is full; stop_fd is readable then. */
	if (write(copy->stop_fd, &one, sizeof(one)) < 0)
		return;
}

static void piece_fail(struct copy_worker *worker, int res, const char *doing)
{
	struct copy *copy = worker->copy;

	pthread_mutex_lock(&copy->lock);
	/* -ECANCELED is the result of a stop, not its cause. */
	if (copy->result == 0 && res != -ECANCELED) {
		copy->result = res;
		copy->failed_at = worker->at;
		copy->failed_doing = doing;
	}
	copy_stop(copy);
	pthread_mutex_unlock(&copy->lock);
}

/* ---- standard input ------------------------------------------------------------------------- */

/* Reads the worker's next piece into its buffer. *ret_bytes is 0 at the end of the stream. Under
 * stream_lock. */
static int stream_take(struct copy_worker *worker, size_t *ret_bytes)
{
	struct copy *copy = worker->copy;
	uint64_t room = copy->to.size_bytes - copy->next_bytes;
	uint32_t block_bytes = copy->to.block_bytes;
	size_t got = 0, rest;
	int res = copy_stream_read(&copy->from, copy->stop_fd, worker->buf,
				   copy->options->piece_bytes, &got);

	*ret_bytes = 0;
	if (res != 0)
		return res;
	copy->has_stream_ended = got < copy->options->piece_bytes;
	if (got > room)
		return -EFBIG;
	/* Fills the last block with zeroes, as at the end of a file. */
	rest = got % block_bytes != 0 ? block_bytes - got % block_bytes : 0;
	memset(worker->buf + got, 0, rest);
	*ret_bytes = got + rest;
	return 0;
}

/* Like piece_next, for standard input. */
static bool stream_next(struct copy_worker *worker, uint64_t *ret_offset, size_t *ret_bytes)
{
	struct copy *copy = worker->copy;
	bool goes_on;
	int res = 0;

	*ret_bytes = 0;
	pthread_mutex_lock(&copy->stream_lock);
	pthread_mutex_lock(&copy->lock);
	worker->at = copy->next_bytes;
	if (copy->options->rate > 0 && !copy->has_stream_ended)
		rate_wait(copy, copy->options->piece_bytes);
	goes_on = !copy->is_stopped && !copy->has_stream_ended;
	pthread_mutex_unlock(&copy->lock);
	if (goes_on)
		res = stream_take(worker, ret_bytes);
	pthread_mutex_lock(&copy->lock);
	*ret_offset = copy->next_bytes;
	copy->next_bytes += *ret_bytes;
	pthread_mutex_unlock(&copy->lock);
	pthread_mutex_unlock(&copy->stream_lock);
	if (res != 0)
		piece_fail(worker, res, "reading");
	return *ret_bytes > 0;
}

/* ---- a worker ------------------------------------------------------------------------------- */

static void *worker_main(void *arg)
{
	struct copy_worker *worker = arg;
	struct copy *copy = worker->copy;
	uint64_t offset, one = 1;
	const char *doing = "";
	size_t bytes;
	bool is_last;
	int res = 0;

	while (res == 0 && (copy->from.is_stream ? stream_next(worker, &offset, &bytes)
						 : piece_next(worker, &offset, &bytes))) {
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
	/* Cannot fail: the counter is 0. */
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
	copy_stop(copy);
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
	if (copy->phase != COPY_COPYING)
		worker->other = aligned_alloc(PAGE_BYTES, bytes);
	if (worker->buf != NULL && (worker->other != NULL || copy->phase == COPY_COPYING))
		res = -pthread_create(&worker->thread, NULL, worker_main, worker);
	if (res == 0)
		return 0;
	free(worker->buf);
	free(worker->other);
	return res;
}

int copy_workers_start(struct copy *copy, enum copy_phase phase, uint64_t first_bytes,
		       uint64_t end_bytes)
{
	int res = 0;

	copy->phase = phase;
	copy->next_bytes = first_bytes;
	copy->end_bytes = end_bytes;
	copy->done_bytes = 0;
	copy->rate_ns = 0;
	copy->worker_count = 0;
	copy->workers = calloc(copy->options->depth, sizeof(*copy->workers));
	copy->done_fd = eventfd(0, EFD_CLOEXEC);
	if (copy->workers == NULL || copy->done_fd < 0)
		return copy->workers == NULL ? -ENOMEM : -errno;
	/* All workers wait for the lock until every one is started. Fewer than asked for are
	 * enough. */
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
