/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a file is served with direct I/O and when through the kernel's cache. The answers of the
 * kernel and the file system are faked by this program (--wrap). One thread.
 */
#include "media/media.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Missing in older headers; as in linux/stat.h. */
#define MASK_DIOALIGN 0x2000u

int __real_statx(int folder_fd, const char *name, int flags, unsigned mask, struct statx *ret_stx);
int __wrap_statx(int folder_fd, const char *name, int flags, unsigned mask, struct statx *ret_stx);
int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

static struct {
	bool knows_align; /* supports STATX_DIOALIGN */
	uint32_t memory_bytes;
	uint32_t offset_bytes;
	bool lacks_direct; /* refuses O_DIRECT */
	bool is_stuck;     /* the file is direct and cannot be reset */
	bool is_direct;    /* last value set */
} kernel;

int __wrap_statx(int folder_fd, const char *name, int flags, unsigned mask, struct statx *ret_stx)
{
	int res = __real_statx(folder_fd, name, flags, mask, ret_stx);

	ret_stx->stx_mask &= ~MASK_DIOALIGN;
#ifdef STATX_DIOALIGN
	if (kernel.knows_align) {
		ret_stx->stx_mask |= MASK_DIOALIGN;
		ret_stx->stx_dio_mem_align = kernel.memory_bytes;
		ret_stx->stx_dio_offset_align = kernel.offset_bytes;
	}
#endif
	return res;
}

static int untold; /* errno not reported yet; 0: none */

int sync_file_range(int fd, off64_t offset, off64_t len_bytes, unsigned flags)
{
	if (untold == 0)
		return 0;
	errno = untold;
	untold = 0;
	return -1;
}

int __wrap_fcntl64(int fd, int command, ...)
{
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	if (command == F_GETFL)
		return __real_fcntl64(fd, command, arg) | (kernel.is_stuck ? O_DIRECT : 0);
	if (command != F_SETFL)
		return __real_fcntl64(fd, command, arg);
	if (kernel.is_stuck || (kernel.lacks_direct && ((uintptr_t)arg & O_DIRECT))) {
		errno = EINVAL;
		return -1;
	}
	/* Not passed on: the real file system may differ. */
	kernel.is_direct = ((uintptr_t)arg & O_DIRECT) != 0;
	return 0;
}

static void direct_io_is_used_where_it_serves_every_block(void)
{
	static const struct {
		const char *name;
		bool knows_align;
		uint32_t memory_bytes, offset_bytes;
		bool lacks_direct;
		uint32_t buffer_align_bytes;
		bool is_direct;
	} rows[] = {
		{"a kernel that does not tell", false, 0, 0, false, 4096, true},
		{"the usual alignment", true, 512, 512, false, 512, true},
		{"as large as a block", true, 4, 4096, false, 4, true},
		{"buffers of any alignment", true, 1, 4096, false, 1, true},
		{"larger than a block", true, 4096, 8192, false, 1, false},
		{"no direct I/O", true, 0, 0, false, 1, false},
		{"refused by the file system", true, 512, 512, true, 1, false},
		{"neither told nor possible", false, 0, 0, true, 1, false},
	};
	char path[] = "/tmp/weft-media-direct-XXXXXX", spec[128];
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0 && unlink(path) == 0);
	snprintf(spec, sizeof(spec), "file:%s,size=1M", path);
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct media_error error = {.text = ""};
		struct media *media = NULL;

#ifndef STATX_DIOALIGN
		if (rows[i].knows_align)
			continue;
#endif
		memset(&kernel, 0, sizeof(kernel));
		kernel.knows_align = rows[i].knows_align;
		kernel.memory_bytes = rows[i].memory_bytes;
		kernel.offset_bytes = rows[i].offset_bytes;
		kernel.lacks_direct = rows[i].lacks_direct;
		EXPECT_THAT(media_open(spec, &media, &error) == 0, "%s: it opens: %s", rows[i].name,
			    error.text);
		if (!media)
			continue;
		EXPECT_THAT(kernel.is_direct == rows[i].is_direct, "%s: direct is %d", rows[i].name,
			    rows[i].is_direct);
		EXPECT_THAT(media->buffer_align_bytes == rows[i].buffer_align_bytes,
			    "%s: buffers aligned to %u, not %u", rows[i].name,
			    rows[i].buffer_align_bytes, media->buffer_align_bytes);
		/* The kernel's cache is volatile, and this disk's cache is unknown. */
		EXPECT_THAT(media->has_volatile_cache, "%s: a volatile cache", rows[i].name);
		media_close(media);
	}
	unlink(path);
}

/* A descriptor that stays direct would fail unaligned I/O. */
static void direct_io_that_cannot_be_left_is_refused(void)
{
#ifdef STATX_DIOALIGN
	struct media_error error = {.text = ""};
	struct media *media = NULL;
	char path[] = "/tmp/weft-media-direct-XXXXXX", spec[128];
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0 && unlink(path) == 0);
	snprintf(spec, sizeof(spec), "file:%s,size=1M", path);
	memset(&kernel, 0, sizeof(kernel));
	kernel.knows_align = true;
	kernel.is_stuck = true;
	EXPECT_EQ(-EINVAL, media_open(spec, &media, &error));
	EXPECT(strstr(error.text, "cannot leave direct I/O") != NULL);
	unlink(path);
#endif
}

/* A description opened after other descriptions got the report of lost writes gets no report. The
 * former one does, and is not flushed any more. */
static void what_the_former_description_has_not_told_is_not_lost(void)
{
#ifdef STATX_DIOALIGN
	static const int errors[] = {0, EINVAL, EIO};
	char path[] = "/tmp/weft-media-direct-XXXXXX", spec[128];
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0 && unlink(path) == 0);
	snprintf(spec, sizeof(spec), "file:%s,size=1M", path);
	for (unsigned i = 0; i < ARRAY_LEN(errors); i++) {
		struct media *first = NULL, *second = NULL;
		struct media_error error;

		memset(&kernel, 0, sizeof(kernel));
		kernel.knows_align = true;
		kernel.memory_bytes = kernel.offset_bytes = 512;
		CHECK(media_open(spec, &first, &error) == 0);
		kernel.is_stuck = true;
		kernel.offset_bytes = 8192;
		untold = errors[i];
		CHECK(media_reopen(first, spec, &second, &error) == 0);
		EXPECT_EQ(0, untold);
		EXPECT_EQ(errors[i] == EIO, media_has_lost_writes(first));
		EXPECT_EQ(errors[i] == EIO, media_has_lost_writes(second));
		media_close(first);
		media_close(second);
	}
	unlink(path);
#endif
}

int main(void)
{
	TAP_RUN(direct_io_is_used_where_it_serves_every_block);
	TAP_RUN(direct_io_that_cannot_be_left_is_refused);
	TAP_RUN(what_the_former_description_has_not_told_is_not_lost);
	return tap_end();
}
