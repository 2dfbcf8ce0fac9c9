/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that an end of a copy has not changed since the copy began. If a source changes, the copy
 * mixes old and new data; if it shrinks, reads past its new end return zeroes. If a destination is
 * truncated, copied data are lost, and the next write hides the truncation. None of this may end
 * with status 0.
 *
 * Sizes are checked with every piece, on the workers' threads: after a read and before a write.
 * Everything else is checked once, on the main thread, when all is copied and flushed.
 */
#include "copy/end.h"

#include "base/tool_error.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The present size of the end, or the recorded size when the present one is unknown. */
static uint64_t size_now(const struct copy_end *end)
{
	struct weft_ns_info info = {.size = sizeof(info)};
	off_t bytes;

	if (end->is_ns)
		return weft_ns_info(end->handle.ns, &info) == 0
			       ? info.block_count * info.block_bytes
			       : end->size_bytes;
	bytes = lseek(end->fd, 0, SEEK_END);
	return bytes < 0 ? end->size_bytes : (uint64_t)bytes;
}

/* A destination may be larger than the copy, unless it is a regular file. */
static bool is_size_good(const struct copy_end *end, uint64_t bytes)
{
	if (end->is_source || end->is_regular)
		return bytes == end->size_bytes;
	return bytes >= end->size_bytes;
}

int copy_end_check_size(const struct copy_end *end)
{
	/* For a namespace libweft checks the range of each request; a stream has no size. */
	if (end->is_ns || end->is_stream)
		return 0;
	return is_size_good(end, size_now(end)) ? 0 : -ESTALE;
}

static bool is_written_to(const struct copy_end *end)
{
	struct stat info;

	return end->is_source && end->is_regular && fstat(end->fd, &info) == 0 &&
	       (info.st_mtim.tv_sec != end->mtime.tv_sec ||
		info.st_mtim.tv_nsec != end->mtime.tv_nsec);
}

/* Whether the destination's name now means another file, or none. */
static bool is_replaced(const struct copy_end *end)
{
	struct stat ours, its;

	if (end->is_source || !end->is_regular || fstat(end->fd, &ours) != 0)
		return false;
	return stat(end->name, &its) != 0 || ours.st_dev != its.st_dev || ours.st_ino != its.st_ino;
}

static bool is_gone(const struct copy_end *end)
{
	struct weft_ns_info info = {.size = sizeof(info)};

	return end->is_ns &&
	       (weft_ns_info(end->handle.ns, &info) != 0 || info.is_gone || info.is_stale);
}

int copy_end_check(const struct copy_end *end)
{
	uint64_t now_bytes;

	if (end->is_stream)
		return 0;
	now_bytes = size_now(end);
	if (is_gone(end))
		tool_error(end->command,
			   "%s was removed or formatted during the copy. Copy everything again",
			   end->name);
	else if (!is_size_good(end, now_bytes))
		tool_error(end->command,
			   "%s had %" PRIu64 " bytes when the copy began and has %" PRIu64
			   " now: the copy is invalid. Copy everything again",
			   end->name, end->size_bytes, now_bytes);
	else if (is_written_to(end))
		tool_error(
			end->command,
			"%s was written to during the copy, which may mix old and new data. Copy "
			"everything again when nothing writes to it",
			end->name);
	else if (is_replaced(end))
		tool_error(end->command,
			   "%s was removed or replaced during the copy, which is lost. Copy "
			   "everything again",
			   end->name);
	else
		return 0;
	return -ESTALE;
}
