/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a further medium over the same file: grown, with another block size, or read-only.
 *
 * Control thread; blocks. The media share the descriptor that holds the lock (flock, or the
 * exclusive open of a block device) and count its users, because the lock belongs to the
 * description: a second open would find the file locked by this process. The file is opened once
 * more only where direct I/O must change, because the former medium still uses that flag of the
 * description.
 */
#include "media/file.h"
#include "media/member_lock.h"
#include "media/spec.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

void file_backing_put(struct file_backing *backing)
{
	if (--backing->refs > 0)
		return;
	close(backing->fd);
	free(backing);
}

int file_set_direct(struct file_media *file, bool is_direct)
{
	int flags = fcntl(file->fd, F_GETFL);
	char path[64];
	int fd, res;

	if (flags < 0)
		return -errno;
	if (((flags & O_DIRECT) != 0) == is_direct)
		return 0;
	if (file->backing->refs == 1)
		return fcntl(file->fd, F_SETFL, flags ^ O_DIRECT) < 0 ? -errno : 0;
	/* /proc leads to the same file, whatever file the path names by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	fd = open(path, (flags & O_ACCMODE) | O_CLOEXEC | (is_direct ? O_DIRECT : 0));
	if (fd < 0)
		return -errno;
	/* Writes go through this description, so the description needs the member lock. */
	res = file->backing->member < 0 ? 0
					: member_lock_share(fd, (unsigned)file->backing->member);
	if (res < 0) {
		close(fd);
		return res;
	}
	file->fd = fd;
	return 0;
}

int file_lock_fd(const struct media *media)
{
	const struct file_media *file = container_of(media, const struct file_media, media);

	return file->backing->member >= 0 ? file->backing->fd : -1;
}

int file_member(const struct media *media)
{
	return container_of(media, const struct file_media, media)->backing->member;
}

/* The size now; the medium's size when unknown. */
static uint64_t size_now(const struct file_media *file)
{
	uint64_t size_bytes;
	struct stat st;

	if (file->is_block_device)
		return ioctl(file->fd, BLKGETSIZE64, &size_bytes) == 0 ? size_bytes
								       : file->media.size_bytes;
	return fstat(file->fd, &st) == 0 ? (uint64_t)st.st_size : file->media.size_bytes;
}

int file_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		struct media_error *ret_error)
{
	struct file_media *before = container_of(media, struct file_media, media);
	struct file_media *file;
	uint64_t now_bytes;
	int res;

	if (!spec->is_read_only && !before->backing->is_writable)
		return media_fail(ret_error, -EBUSY,
				  "%.140s was opened readonly; to write to it, restart the target",
				  spec->path);
	/* Growing to size= must not replace cut-off data by zeroes. */
	now_bytes = size_now(before);
	if (now_bytes < media->size_bytes)
		return media_fail(ret_error, -EINVAL,
				  "%.120s shrank from %llu to %llu bytes while it is served; "
				  "restore its size",
				  spec->path, (unsigned long long)media->size_bytes,
				  (unsigned long long)(now_bytes - now_bytes % media->block_bytes));
	file = calloc(1, sizeof(*file));
	if (!file)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	file->is_another = before->is_another;
	file->backing = before->backing;
	file->backing->refs++;
	file->fd = file->backing->fd;
	res = file_setup(file, spec, ret_error);
	/* A write error reported before the new description was opened shows up on the old
	 * description alone, so collect the error here. */
	if (file->fd != before->fd)
		file_note_untold(before);
	/* The result of an unfinished growth may not be durable yet. */
	if (file->backing->may_exceed_size)
		file->is_stable = false;
	if (res == 0 && file->media.size_bytes < media->size_bytes / file->media.block_bytes *
							 file->media.block_bytes)
		res = media_fail(ret_error, -EINVAL,
				 "%.120s shrank from %llu to %llu bytes while it is served; "
				 "restore its size",
				 spec->path, (unsigned long long)media->size_bytes,
				 (unsigned long long)file->media.size_bytes);
	if (res < 0) {
		(void)file_undo(&file->media);
		if (file->fd != file->backing->fd)
			close(file->fd);
		file_backing_put(file->backing);
		free(file);
		return res;
	}
	*ret_media = &file->media;
	return 0;
}

bool file_is_current(const struct media *media)
{
	const struct file_media *file = container_of(media, const struct file_media, media);
	uint64_t size_bytes = 0;
	struct stat st;

	/* Cut short and restored since: the new medium starts without the cut. */
	if (atomic_load(&file->cut_seen_bytes) != UINT64_MAX && size_now(file) >= media->size_bytes)
		return false;
	if (!file->follows_size)
		return true;
	if (file->is_block_device) {
		if (ioctl(file->fd, BLKGETSIZE64, &size_bytes) < 0)
			return true;
	} else {
		if (fstat(file->fd, &st) < 0)
			return true;
		size_bytes = (uint64_t)st.st_size;
	}
	/* A file that shrank is no reason to stop serving the rest: see file_size.c. */
	return size_bytes - size_bytes % media->block_bytes <= media->size_bytes;
}

/* Removes the created file if the path still names that file, and puts PATH.lost back. */
static void created_remove(const struct file_media *file)
{
	struct media_spec parsed;
	struct stat st;

	if (!file->media.spec || media_spec_parse(file->media.spec, &parsed, NULL) < 0)
		return;
	if (parsed.path && lstat(parsed.path, &st) == 0 && st.st_dev == file->backing->dev &&
	    st.st_ino == file->backing->inode && unlink(parsed.path) < 0)
		log_warn("media", "%s: cannot be removed again: %s", parsed.path, strerror(errno));
	else if (parsed.path && file->has_set_aside)
		file_put_back(parsed.path);
	media_spec_free(&parsed);
}

static void grown_cut(const struct file_media *file)
{
	int res = ftruncate(file->fd, (off_t)file->grown_from_bytes) < 0
			  ? -errno
			  : file_fsync((struct file_media *)file);

	if (res == 0)
		return;
	file->backing->may_exceed_size = true;
	log_warn("media", "%s: cannot be cut back to %llu bytes: %s",
		 file->media.spec ? file->media.spec : "file",
		 (unsigned long long)file->grown_from_bytes, strerror(-res));
}

/* Either a write fails, or the file stays: the first one to set file->made decides. */
bool file_undo(struct media *media)
{
	struct file_media *file = container_of(media, struct file_media, media);
	unsigned made = FILE_MADE;

	if (!atomic_compare_exchange_strong(&file->made, &made, FILE_UNDONE) && made == FILE_UNDONE)
		return true;
	if (made == FILE_WRITTEN) {
		/* The next change of the former medium finds a file that is larger than size=. */
		file->backing->may_exceed_size = true;
		return false;
	}
	/* Another member may use the file or its new size by now. */
	if (file->backing->member >= 0)
		return true;
	if (file->has_created)
		created_remove(file);
	else if (file->grown_from_bytes > 0)
		grown_cut(file);
	return true;
}
