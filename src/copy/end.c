/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of a copy: files and block devices use pread(2), pwrite(2) and fallocate(2) (file.c
 * opens them), namespaces use libweft's blocking calls. All workers use an end at once; the main
 * thread opens and closes it.
 */
#include "copy/end.h"

#include "base/tool_error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- opening -------------------------------------------------------------------------------- */

static int ns_end_open(struct copy_end *end, struct weft *weft, const struct copy_options *options,
		       bool is_source)
{
	struct ns_where_error error;
	struct ns_where where;
	int res = ns_where_from_url(&where, end->name, &error);

	if (res != 0) {
		tool_error(end->command, "%s", error.text);
		return res;
	}
	res = ns_handle_open(weft, &options->ns, &where, &end->handle);
	if (res != 0)
		return res;
	if (!is_source && end->handle.info.is_read_only) {
		tool_error(end->command, "%s is read-only", end->name);
		return -EROFS;
	}
	end->block_bytes = end->handle.info.block_bytes;
	end->size_bytes = end->handle.info.block_count * end->block_bytes;
	if (options->piece_bytes % end->block_bytes != 0) {
		tool_error(end->command,
			   "%s has blocks of %" PRIu32 " bytes; choose a multiple for "
			   "--size",
			   end->name, end->block_bytes);
		return -EINVAL;
	}
	copy_identify_ns(end, where.nqn);
	return 0;
}

int copy_end_open(struct copy_end *end, struct weft *weft, const struct copy_options *options,
		  enum copy_role role)
{
	bool is_source = role == COPY_FROM;

	memset(end, 0, sizeof(*end));
	end->command = options->ns.command;
	end->name = is_source ? options->from : options->to;
	end->is_source = is_source;
	end->is_ns = ns_where_is_url(end->name);
	end->fd = -1;
	if (end->is_ns)
		return ns_end_open(end, weft, options, is_source);
	return copy_stream_is_named(end->name) ? copy_stream_open(end, is_source)
					       : copy_file_open(end, options, role);
}

/* Compares permanent identifiers, whatever the subsystem and the path. */
bool copy_end_is_same(const struct copy_end *a, const struct copy_end *b)
{
	static const uint8_t none[16];
	const struct weft_ns_info *one = &a->handle.info, *two = &b->handle.info;

	if (!a->is_ns || !b->is_ns)
		return false;
	if (memcmp(one->uuid, none, sizeof(none)) != 0)
		return memcmp(one->uuid, two->uuid, sizeof(none)) == 0;
	if (memcmp(one->nguid, none, sizeof(none)) != 0)
		return memcmp(one->nguid, two->nguid, sizeof(none)) == 0;
	return strcmp(a->identity, b->identity) == 0;
}

void copy_end_close(struct copy_end *end)
{
	if (end->is_ns)
		ns_handle_close(&end->handle);
	else if (end->fd >= 0 && !end->is_stream)
		close(end->fd);
	end->fd = -1;
}

int copy_end_size(struct copy_end *end, uint64_t bytes, bool is_resumed)
{
	if (!end->is_regular)
		return 0;
	if (!is_resumed && ftruncate(end->fd, 0) != 0)
		return -errno;
	if (ftruncate(end->fd, (off_t)bytes) != 0)
		return -errno;
	end->size_bytes = bytes;
	return 0;
}

/* ---- reading and writing -------------------------------------------------------------------- */

static int ns_end_run(const struct copy_end *end, enum weft_op op, uint32_t flags, void *buf,
		      uint64_t offset, size_t bytes)
{
	struct iovec iov = {.iov_base = buf, .iov_len = bytes};
	struct weft_request request = {
		.op = op,
		.flags = flags,
		.block = offset / end->block_bytes,
		.block_count = (uint32_t)(bytes / end->block_bytes),
		.iov = &iov,
		.iov_count = buf != NULL,
	};

	return weft_run(end->handle.ns, &request);
}

int copy_end_read(const struct copy_end *end, void *buf, uint64_t offset, size_t bytes)
{
	uint8_t *to = buf;

	if (end->is_ns)
		return ns_end_run(end, WEFT_READ, 0, buf, offset, bytes);
	while (bytes > 0) {
		ssize_t got = pread(end->fd, to, bytes, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0) {
			memset(to, 0, bytes);
			/* A read may pass the end of the file only within the last block. */
			return offset >= end->size_bytes ? 0 : -ESTALE;
		}
		to += got;
		offset += (uint64_t)got;
		bytes -= (size_t)got;
	}
	return 0;
}

int copy_end_write(const struct copy_end *end, const void *buf, uint64_t offset, size_t bytes)
{
	const uint8_t *from = buf;

	/* The cast is safe: a write does not change its buffer. */
	if (end->is_ns)
		return ns_end_run(end, WEFT_WRITE, 0, (void *)(uintptr_t)buf, offset, bytes);
	while (bytes > 0) {
		ssize_t put = pwrite(end->fd, from, bytes, (off_t)offset);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		from += put;
		offset += (uint64_t)put;
		bytes -= (size_t)put;
	}
	return 0;
}

int copy_end_zero(struct copy_end *end, uint64_t offset, size_t bytes)
{
	int res;

	if (end->is_stream || atomic_load(&end->cannot_zero))
		return -EOPNOTSUPP;
	if (end->is_ns)
		res = ns_end_run(end, WEFT_WRITE_ZEROES, WEFT_DEALLOCATE_OK, NULL, offset, bytes);
	else
		res = fallocate(end->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
				(off_t)bytes) == 0
			      ? 0
			      : -errno;
	if (res == -EOPNOTSUPP)
		atomic_store(&end->cannot_zero, true);
	return res;
}

int copy_end_flush(const struct copy_end *end)
{
	if (end->is_ns)
		return weft_flush(end->handle.ns);
	if (end->is_stream)
		return copy_stream_flush(end);
	return fsync(end->fd) == 0 ? 0 : -errno;
}

bool copy_end_is_hole(const struct copy_end *end, uint64_t offset, size_t bytes)
{
	off_t data;

	if (!end->is_regular)
		return false;
	data = lseek(end->fd, (off_t)offset, SEEK_DATA);
	/* ENXIO: no data from `offset` to the end. */
	if (data < 0)
		return errno == ENXIO;
	return (uint64_t)data >= offset + bytes;
}

void copy_end_forget(const struct copy_end *end)
{
	if (!end->is_ns)
		posix_fadvise(end->fd, 0, 0, POSIX_FADV_DONTNEED);
}
