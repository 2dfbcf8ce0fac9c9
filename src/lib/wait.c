/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that wait for a request: the caller's thread sleeps until the reactor has ended the
 * request, with either kind of callbacks. Refused on a reactor's thread, because the reactor would
 * wait for itself.
 */
#include "lib/lib.h"

#include <errno.h>

int weft_run(struct weft_ns *ns, struct weft_request *request)
{
	struct sleeper sleeper = {.has_ended = false};
	int res;

	if (reactor_current() != NULL)
		return -EDEADLK;
	pthread_mutex_init(&sleeper.lock, NULL);
	pthread_cond_init(&sleeper.ended, NULL);
	res = request_submit(ns, request, &sleeper);
	if (res == 0) {
		pthread_mutex_lock(&sleeper.lock);
		while (!sleeper.has_ended)
			pthread_cond_wait(&sleeper.ended, &sleeper.lock);
		pthread_mutex_unlock(&sleeper.lock);
		res = request->result;
	}
	pthread_cond_destroy(&sleeper.ended);
	pthread_mutex_destroy(&sleeper.lock);
	return res;
}

static int blocks_run(struct weft_ns *ns, struct weft_request *request, void *buf)
{
	struct iovec iov = {
		.iov_base = buf,
		.iov_len = (size_t)request->block_count * ns->block_bytes,
	};

	request->iov = &iov;
	request->iov_count = 1;
	return weft_run(ns, request);
}

int weft_read(struct weft_ns *ns, void *buf, uint64_t block, uint32_t block_count)
{
	struct weft_request request = {.op = WEFT_READ, .block = block, .block_count = block_count};

	return blocks_run(ns, &request, buf);
}

int weft_write(struct weft_ns *ns, const void *buf, uint64_t block, uint32_t block_count,
	       uint32_t flags)
{
	struct weft_request request = {
		.op = WEFT_WRITE, .flags = flags, .block = block, .block_count = block_count};

	/* The cast is safe: a write only reads from its buffer. */
	return blocks_run(ns, &request, (void *)(uintptr_t)buf);
}

int weft_flush(struct weft_ns *ns)
{
	struct weft_request request = {.op = WEFT_FLUSH};

	return weft_run(ns, &request);
}
