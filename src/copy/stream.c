/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard input and output as an end of a copy. A stream has one order and is read or written
 * once. The worker that reads standard input takes the next bytes under a lock, while other workers
 * still write. A worker with a piece for standard output waits until all pieces before it are
 * written. Workers' threads.
 *
 * A stream may stall forever, and waiting must end when the copy is stopped. So read and write
 * never block: poll(2) is called first, and a pipe that is writable takes PIPE_BUF bytes.
 */
#include "copy/end.h"

#include "base/tool_error.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool copy_stream_is_named(const char *name)
{
	return strcmp(name, "-") == 0;
}

int copy_stream_open(struct copy_end *end, bool is_source)
{
	struct stat info;

	end->name = is_source ? "standard input" : "standard output";
	end->is_stream = true;
	end->block_bytes = 1;
	end->size_bytes = UINT64_MAX;
	if (!is_source && isatty(STDOUT_FILENO)) {
		tool_error(end->command,
			   "standard output is a terminal; redirect it, or name a file");
		return -ENOTTY;
	}
	end->fd = is_source ? STDIN_FILENO : STDOUT_FILENO;
	if (fstat(end->fd, &info) != 0) {
		tool_error(end->command, "%s: %s", end->name, strerror(errno));
		return -errno;
	}
	end->does_wait = S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || isatty(end->fd);
	/* When the reader closes the pipe, fail with a message instead of dying by SIGPIPE. */
	if (!is_source)
		signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* 0, -ECANCELED: the copy was stopped first, or another -errno. */
static int stream_wait(const struct copy_end *end, short events, int stop_fd)
{
	struct pollfd polls[] = {
		{.fd = end->fd, .events = events},
		{.fd = stop_fd, .events = POLLIN},
	};

	while (poll(polls, 2, -1) < 0)
		if (errno != EINTR)
			return -errno;
	return polls[1].revents != 0 ? -ECANCELED : 0;
}

int copy_stream_read(const struct copy_end *end, int stop_fd, uint8_t *buf, size_t bytes,
		     size_t *ret_bytes)
{
	size_t used = 0;

	while (used < bytes) {
		int res = end->does_wait ? stream_wait(end, POLLIN, stop_fd) : 0;
		ssize_t got;

		if (res != 0)
			return res;
		got = read(end->fd, buf + used, bytes - used);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	*ret_bytes = used;
	return 0;
}

int copy_stream_write(const struct copy_end *end, int stop_fd, const uint8_t *buf, size_t bytes)
{
	while (bytes > 0) {
		size_t most = end->does_wait && bytes > PIPE_BUF ? PIPE_BUF : bytes;
		int res = end->does_wait ? stream_wait(end, POLLOUT, stop_fd) : 0;
		ssize_t put;

		if (res != 0)
			return res;
		put = write(end->fd, buf, most);
		if (put < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (put < 0)
			return -errno;
		buf += put;
		bytes -= (size_t)put;
	}
	return 0;
}

int copy_stream_flush(const struct copy_end *end)
{
	/* These errors mean that the stream cannot be synced; a pipe has nothing to flush. */
	if (fsync(end->fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
		return -errno;
	return 0;
}
