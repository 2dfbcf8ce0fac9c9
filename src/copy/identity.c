/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of an end of a copy, as a line for the journal: two ends with equal lines are the
 * same thing, and a source that is a file was not changed either. Main thread; blocks.
 *
 * Names and numbers are used again: the inode number of a removed file, the device number of a
 * disk that was taken out, the NSID of a removed namespace. So a file is known by its time of birth
 * too, a disk by its identifier or, where it has none, by its sequence number within this start of
 * the machine, and a namespace by its UUID and NGUID. All but destination files have their size.
 */
#include "copy/end.h"

#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#define ATTRIBUTE_BYTES 160

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

/* When the inode was made. 0 where the file system does not know. */
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

/* The first line of a file that the kernel provides, in one word; false: there is none. */
static bool line_read(const char *path, char text[ATTRIBUTE_BYTES])
{
	FILE *file = fopen(path, "re");
	char line[ATTRIBUTE_BYTES] = "";

	if (file == NULL)
		return false;
	if (fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	text_escape(line, text, ATTRIBUTE_BYTES);
	return text[0] != '\0';
}

/* The first of these attributes that the disk has; a partition's disk is its parent. */
static bool attribute_read(dev_t dev, const char *const *names, char text[ATTRIBUTE_BYTES])
{
	char path[128];

	for (; *names != NULL; names++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(dev), minor(dev),
			 *names);
		if (line_read(path, text))
			return true;
	}
	return false;
}

void copy_identify_device(struct copy_end *end, const struct stat *info)
{
	static const char *const for_good[] = {
		"wwid", "device/wwid", "../wwid", "../device/wwid", "dm/uuid", "md/uuid", NULL};
	static const char *const for_now[] = {"diskseq", "../diskseq", NULL};
	static const char *const beginning[] = {"start", NULL};
	char id[ATTRIBUTE_BYTES] = "", boot[ATTRIBUTE_BYTES] = "", start[ATTRIBUTE_BYTES] = "";

	if (!attribute_read(info->st_rdev, for_good, id)) {
		(void)attribute_read(info->st_rdev, for_now, id);
		(void)line_read("/proc/sys/kernel/random/boot_id", boot);
	}
	(void)attribute_read(info->st_rdev, beginning, start);
	snprintf(end->identity, sizeof(end->identity),
		 "device %s boot %.40s number %ju start %.24s, %" PRIu64 " bytes", id, boot,
		 boot[0] != '\0' ? (uintmax_t)info->st_rdev : 0, start, end->size_bytes);
}
