/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send side of both echo programs: everything that waits on a connection is sent in one
 * gathered send, as in weft's connections (the limits are those of src/tcp). A partial send leaves
 * its rest at the head of the ring. One thread.
 */
#include "echo.h"

#include "base/check.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SEND_IOVS       1024
#define SEND_BYTES      (1024 * 1024)
#define SEND_TURN_BYTES (1024 * 1024)

bool echo_gather_push(struct echo_gather *gather, const void *header, uint32_t header_bytes,
		      const uint8_t *data, uint32_t data_bytes)
{
	struct echo_piece *piece;

	if (gather->count == ECHO_DEPTH_MAX)
		return false;
	/* An empty ring restarts at index 0, so that shallow queues stay in the cache. */
	if (gather->count == 0)
		gather->head = 0;
	piece = &gather->pieces[(gather->head + gather->count++) % ECHO_DEPTH_MAX];
	memcpy(piece->header, header, header_bytes);
	piece->header_bytes = header_bytes;
	piece->data = data;
	piece->data_bytes = data_bytes;
	return true;
}

static void iov_add(struct iovec *iov, unsigned *count, const uint8_t *base, size_t len_bytes)
{
	if (len_bytes > 0)
		iov[(*count)++] =
			(struct iovec){.iov_base = (void *)(uintptr_t)base, .iov_len = len_bytes};
}

static unsigned gather_collect(const struct echo_gather *gather, struct iovec *iov,
			       size_t *ret_bytes)
{
	size_t skip = gather->head_done_bytes;
	size_t bytes = 0;
	unsigned count = 0;

	for (unsigned i = 0; i < gather->count && count + 2 <= SEND_IOVS && bytes < SEND_BYTES;
	     i++) {
		const struct echo_piece *piece =
			&gather->pieces[(gather->head + i) % ECHO_DEPTH_MAX];
		size_t header_skip = skip < piece->header_bytes ? skip : piece->header_bytes;
		size_t data_skip = skip - header_skip;

		iov_add(iov, &count, piece->header + header_skip,
			piece->header_bytes - header_skip);
		if (piece->data_bytes > 0)
			iov_add(iov, &count, piece->data + data_skip,
				piece->data_bytes - data_skip);
		bytes += piece->header_bytes + piece->data_bytes - skip;
		skip = 0;
	}
	*ret_bytes = bytes;
	return count;
}

static void gather_drop(struct echo_gather *gather, size_t sent_bytes)
{
	while (sent_bytes > 0) {
		const struct echo_piece *piece = &gather->pieces[gather->head];
		size_t left = piece->header_bytes + piece->data_bytes - gather->head_done_bytes;

		CHECK(gather->count > 0);
		if (sent_bytes < left) {
			gather->head_done_bytes += sent_bytes;
			return;
		}
		sent_bytes -= left;
		gather->head_done_bytes = 0;
		gather->head = (gather->head + 1) % ECHO_DEPTH_MAX;
		gather->count--;
	}
}

int echo_gather_flush(struct echo_gather *gather, int fd)
{
	static struct iovec iov[SEND_IOVS];
	size_t total = 0;

	while (gather->count > 0 && total < SEND_TURN_BYTES) {
		size_t bytes;
		struct msghdr msg = {.msg_iov = iov,
				     .msg_iovlen = gather_collect(gather, iov, &bytes)};
		ssize_t sent = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		gather_drop(gather, (size_t)sent);
		total += (size_t)sent;
		if ((size_t)sent < bytes)
			return 0;
	}
	return 0;
}
