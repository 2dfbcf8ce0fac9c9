/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of an end of a copy, as a line for the journal. Two ends with equal lines are the
 * same end, and a source file is also unchanged. Main thread; blocks.
 *
 * Names and numbers are reused: the inode number of a removed file, the device number of a removed
 * disk, the NSID of a removed namespace. So a file is identified by its time of birth too, a disk
 * by its identifier or else by its sequence number since the machine was booted, and a namespace by
 * its UUID and NGUID. The size is part of every identity except a destination file's.
 */
#include "copy/end.h"

#include "base/device_id.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void copy_identify_ns(struct copy_end *end, const char *nqn)
{
	const struct weft_ns_info *info = &end->handle.info;
	char ids[2 * (sizeof(info->uuid) + sizeof(info->nguid)) + 1] = "";

	for (size_t i = 0; i < sizeof(info->uuid); i++)
		snprintf(ids + 2 * i, 3, "%02x", info->uuid[i]);
	for (size_t i = 0; i < sizeof(info->nguid); i++)
		snprintf(ids + 2 * (sizeof(info->uuid) + i), 3, "%02x", info->nguid[i]);
	snprintf(end->identity, sizeof(end->identity),
		 "namespace %.230s %" PRIu32 " %s %" PRIu64 " blocks of %" PRIu32, nqn, info->nsid,
		 ids, info->block_count, info->block_bytes);
}

/* When the inode was created; 0 if the file system does not record it. */
static struct statx_timestamp birth_of(int fd)
{
	struct statx stx = {0};

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) != 0 ||
	    (stx.stx_mask & STATX_BTIME) == 0)
		return (struct statx_timestamp){0};
	return stx.stx_btime;
}

void copy_identify_file(struct copy_end *end, const struct stat *info, bool is_source)
{
	struct statx_timestamp birth = birth_of(end->fd);
	char change[96] = "";

	if (is_source)
		snprintf(change, sizeof(change), " %" PRIu64 " bytes of %jd.%09ld", end->size_bytes,
			 (intmax_t)info->st_mtim.tv_sec, info->st_mtim.tv_nsec);
	snprintf(end->identity, sizeof(end->identity), "file %ju:%ju born %lld.%09u%s",
		 (uintmax_t)info->st_dev, (uintmax_t)info->st_ino, (long long)birth.tv_sec,
		 birth.tv_nsec, change);
}

void copy_identify_device(struct copy_end *end, const struct stat *info)
{
	static const char *const for_now[] = {"diskseq", "../diskseq", NULL};
	static const char *const beginning[] = {"start", NULL};
	char id[DEVICE_ID_BYTES] = "", boot[DEVICE_ID_BYTES] = "", start[DEVICE_ID_BYTES] = "";

	if (!device_id_read(info->st_rdev, id)) {
		(void)device_attribute_read(info->st_rdev, for_now, id);
		(void)device_line_read("/proc/sys/kernel/random/boot_id", boot);
	}
	(void)device_attribute_read(info->st_rdev, beginning, start);
	snprintf(end->identity, sizeof(end->identity),
		 "device %s boot %.40s number %ju start %.24s, %" PRIu64 " bytes", id, boot,
		 boot[0] != '\0' ? (uintmax_t)info->st_rdev : 0, start, end->size_bytes);
}
