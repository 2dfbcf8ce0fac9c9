/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where a medium has data: in a regular file by SEEK_DATA and SEEK_HOLE, in memory by the
 * kernel's map of pages. Runs on helper threads of reactors, because both calls may take long.
 *
 * A reported hole reads as zeroes at that moment. Writes that ended before the query are seen;
 * writes that end during the query may be missed. A range of unknown state is reported as data: a
 * swapped-out page, or the whole range when the file was cut short.
 */
#include "media/extents.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGEMAP_ENTRIES  512
#define PAGEMAP_PRESENT  (1ull << 63)
#define PAGEMAP_SWAPPED  (1ull << 62)
#define PAGEMAP_FILENAME "/proc/self/pagemap"

/* Joins the range to the last extent when they touch. False: the list is full. */
static bool extents_add(struct media_io *io, uint64_t offset, uint64_t len_bytes)
{
	struct media_extent *extents = io->iov[0].iov_base;
	uint64_t room = io->iov[0].iov_len / sizeof(*extents);
	struct media_extent *last = io->result > 0 ? &extents[io->result - 1] : NULL;

	if (last && last->offset + last->len_bytes == offset) {
		last->len_bytes += len_bytes;
		return true;
	}
	if (io->result == room)
		return false;
	extents[io->result++] = (struct media_extent){offset, len_bytes};
	return true;
}

static void extents_all(struct media_io *io)
{
	io->result = 0;
	extents_add(io, io->offset, io->len_bytes);
}

int extents_of_file(struct media_io *io, int fd)
{
	uint64_t at = io->offset, end = io->offset + io->len_bytes;
	struct stat info;

	io->result = 0;
	while (at < end) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA);
		off_t hole;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole <= data)
			return -EOPNOTSUPP;
		if ((uint64_t)data >= end)
			break;
		if ((uint64_t)hole > end)
			hole = (off_t)end;
		if (!extents_add(io, (uint64_t)data, (uint64_t)(hole - data)))
			break;
		at = (uint64_t)hole;
	}
	/* Reads behind the new end of a file that was cut fail, so such a file has no holes to
	 * report. */
	if (fstat(fd, &info) != 0 || (uint64_t)info.st_size < io->media->size_bytes)
		extents_all(io);
	return 0;
}

/* The page map has one entry per base page, also for huge pages. */
int extents_of_memory(struct media_io *io, const uint8_t *base)
{
	uint64_t map[PAGEMAP_ENTRIES], page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)(base + io->offset) / page_bytes * page_bytes;
	uintptr_t end = (uintptr_t)(base + io->offset + io->len_bytes);
	int fd = open(PAGEMAP_FILENAME, O_RDONLY | O_CLOEXEC);
	int res = 0;

	if (fd < 0)
		return -EOPNOTSUPP;
	io->result = 0;
	for (uintptr_t at = first; at < end && res == 0;) {
		size_t want = (end - at + page_bytes - 1) / page_bytes;
		size_t bytes = (want < PAGEMAP_ENTRIES ? want : PAGEMAP_ENTRIES) * sizeof(map[0]);
		ssize_t got = pread(fd, map, bytes, (off_t)(at / page_bytes * sizeof(map[0])));

		if (got < (ssize_t)sizeof(map[0]))
			res = -EOPNOTSUPP;
		for (size_t i = 0; res == 0 && i < (size_t)got / sizeof(map[0]); i++) {
			uint64_t begin = at > (uintptr_t)(base + io->offset) ? at - (uintptr_t)base
									     : io->offset;

			at += page_bytes;
			if ((map[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)) != 0 &&
			    !extents_add(io, begin,
					 (at < end ? at : end) - (uintptr_t)base - begin))
				res = 1;
		}
	}
	close(fd);
	return res > 0 ? 0 : res;
}
