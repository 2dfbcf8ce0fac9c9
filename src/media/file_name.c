/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a medium's file: whether it was deleted while it is served, and whether it is the
 * one that was served last. A deleted file, also one that another was renamed over, keeps working
 * and is lost when the process ends; only its link count shows the deletion. A file that members of
 * a cluster share is lost when the last member closes the file.
 *
 * Any thread. Nothing here blocks: no remote file system is asked and no path is looked up, except
 * in media_path_record, which runs on the control thread.
 */
#include "media/file.h"
#include "media/spec.h"

#include "media/file_device.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Fields that cannot be determined are 0. */
static void file_ask(int fd, struct statx *ret_stx)
{
	memset(ret_stx, 0, sizeof(*ret_stx));
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_NLINK | STATX_INO | STATX_BTIME, ret_stx) != 0)
		memset(ret_stx, 0, sizeof(*ret_stx));
}

static void record_fill(const struct statx *stx, struct media_record *record)
{
	if (stx->stx_mask & STATX_INO)
		record->inode = stx->stx_ino;
	if (stx->stx_mask & STATX_BTIME)
		record->born_ns =
			(uint64_t)stx->stx_btime.tv_sec * NS_PER_S + stx->stx_btime.tv_nsec;
}

int media_path_record(const char *path, struct media_record *ret_record)
{
	struct statx stx = {0};

	*ret_record = (struct media_record){0};
	if (statx(AT_FDCWD, path, 0, STATX_TYPE | STATX_INO | STATX_BTIME, &stx) != 0)
		return -errno;
	ret_record->has_type = true;
	ret_record->is_block_device = S_ISBLK(stx.stx_mode);
	if (ret_record->is_block_device)
		(void)file_device_identify(makedev(stx.stx_rdev_major, stx.stx_rdev_minor),
					   ret_record->device_id);
	else
		record_fill(&stx, ret_record);
	return 0;
}

enum media_sameness media_record_compare(const struct media_record *a, const struct media_record *b)
{
	if (a->has_type && b->has_type && a->is_block_device != b->is_block_device)
		return MEDIA_ANOTHER;
	if (a->device_id[0] != '\0' && b->device_id[0] != '\0')
		return strcmp(a->device_id, b->device_id) == 0 ? MEDIA_SAME : MEDIA_ANOTHER;
	if (!a->inode || !b->inode)
		return MEDIA_SAME_UNKNOWN;
	return a->inode != b->inode || (a->born_ns && b->born_ns && a->born_ns != b->born_ns)
		       ? MEDIA_ANOTHER
		       : MEDIA_SAME;
}

void file_identify(const struct file_media *file, struct media_record *ret_record)
{
	struct statx stx;

	if (file->is_block_device) {
		memcpy(ret_record->device_id, file->backing->device_id,
		       sizeof(ret_record->device_id));
		return;
	}
	file_ask(file->fd, &stx);
	record_fill(&stx, ret_record);
}

bool file_has_name(const struct file_media *file)
{
	struct statx stx;

	file_ask(file->fd, &stx);
	return !S_ISREG(stx.stx_mode) || !(stx.stx_mask & STATX_NLINK) || stx.stx_nlink > 0;
}

/* The advice for a cluster is to stop all members: a member that restarts would find another file,
 * or none, and cluster/peer_compare.c would refuse it. */
const char *file_deleted_text(const struct file_media *file)
{
	return file->backing->member < 0
		       ? "the file was deleted, or replaced by another, while it is served: its "
			 "data are lost when the target ends; copy them first (weft copy)"
		       : "the file was deleted, or replaced by another, while members of a cluster "
			 "serve it: its data are only in the open file; copy them (weft copy), "
			 "then stop all members, put the copy in place and start the members";
}

bool file_is_deleted(const struct file_media *file)
{
	if (!file->backing->had_name || file_has_name(file))
		return false;
	if (!atomic_exchange(&file->backing->is_missed, true))
		log_error("media", "%s: %s", file->media.spec ? file->media.spec : "file",
			  file_deleted_text(file));
	return true;
}

static void another_log(const char *path)
{
	log_warn("media",
		 "%s: the file is not the one that was served last under this name, but a copy or "
		 "another file",
		 path);
}

void file_note_known(struct file_media *file, const char *path, const struct media_record *known)
{
	struct media_record now = {0};

	file_identify(file, &now);
	file->is_another = (known->inode && now.inode && known->inode != now.inode) ||
			   (known->born_ns && now.born_ns && known->born_ns != now.born_ns);
	if (file->is_another)
		another_log(path);
}

void file_note_served(struct media *media, const char *path, const struct media_record *known)
{
	struct file_media *file = container_of(media, struct file_media, media);
	struct media_record now;
	bool was_another = file->is_another;

	if (!file_get_record(media, &now))
		return;
	file->is_another = media_record_compare(known, &now) == MEDIA_ANOTHER;
	if (file->is_another && !was_another)
		another_log(path);
}

bool file_is_nameless(const struct media *media)
{
	return file_is_deleted(container_of(media, const struct file_media, media));
}

bool file_is_buffered(const struct media *media)
{
	return container_of(media, const struct file_media, media)->may_have_dirty_pages;
}

bool file_is_another(const struct media *media)
{
	return container_of(media, const struct file_media, media)->is_another;
}

void file_mourn(const struct file_media *file)
{
	if (file->backing->is_missed)
		log_error("media",
			  "%s: the file was deleted while it was served, and is closed now: %s",
			  file->media.spec ? file->media.spec : "file",
			  file->backing->member < 0
				  ? "its data are lost"
				  : "its data are lost unless another member has the file open");
}
