/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the size of a file or block device while it is served: the space it takes, whether it has
 * grown, and whether it was cut short. A removed block device has 0 bytes. Bytes that were cut off
 * are lost. A write behind the new end would extend the file again, with a hole in between, and
 * hide the loss. Once a cut is seen, all writes fail, and reads outside the part that is certainly
 * intact, until the file is restored and reopened.
 *
 * Any reactor, except queries of the control thread. The size is checked before the first write in
 * LOOK_EVERY_NS, at flushes, after short reads, and before any write of the last block, the only
 * one that could restore the old size. A check is one system call that does not block: no remote
 * file system is asked.
 */
#include "media/event.h"
#include "media/file.h"
#include "media/file_loop.h"
#include "media/spec.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define LOOK_EVERY_NS (10 * NS_PER_MS)
#define STAT_BLOCK    512

/* False: unknown. */
static bool file_stat(const struct file_media *file, struct statx *ret_stx)
{
	memset(ret_stx, 0, sizeof(*ret_stx));
	return statx(file->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE | STATX_BLOCKS,
		     ret_stx) == 0 &&
	       (ret_stx->stx_mask & STATX_SIZE) != 0;
}

/* False: unknown. */
static bool size_look(const struct file_media *file, uint64_t *ret_bytes)
{
	struct statx stx;

	if (file->is_block_device)
		return ioctl(file->fd, BLKGETSIZE64, ret_bytes) == 0;
	if (!file_stat(file, &stx))
		return false;
	*ret_bytes = stx.stx_size;
	return true;
}

static void lower(_Atomic uint64_t *value, uint64_t to)
{
	uint64_t now = atomic_load(value);

	while (to < now && !atomic_compare_exchange_weak(value, &now, to))
		;
}

/* Records that the file is shorter than it must be. Unless is_exact, writes since the last check
 * may have extended the file again: the position of the cut is unknown, and no part of the file
 * counts as intact. */
static void cut_note(struct file_media *file, uint64_t size_bytes, bool is_exact)
{
	bool is_first = atomic_load(&file->cut_seen_bytes) == UINT64_MAX;

	if (is_first)
		log_limited(LOG_LEVEL_ERROR, "media",
			    "%s: %s from %llu to %llu bytes: the data beyond are lost, and nothing "
			    "more is written; restore the size, then `weft ctl namespace recheck`",
			    file->media.spec ? file->media.spec : "file",
			    file->is_block_device ? "the device was removed, or shrank"
						  : "the file was truncated",
			    (unsigned long long)file->media.size_bytes,
			    (unsigned long long)size_bytes);
	lower(&file->cut_at_bytes, is_exact ? size_bytes : 0);
	lower(&file->cut_seen_bytes, size_bytes);
	if (is_first)
		media_tell(&file->media, MEDIA_EVENT_HEALTH);
}

/* The store has room for more blocks than are served. */
static void grown_note(struct file_media *file, uint64_t size_bytes)
{
	if (atomic_exchange(&file->grown_to_bytes, size_bytes) != size_bytes)
		media_tell(&file->media, MEDIA_EVENT_SIZE);
}

int file_check_size(struct file_media *file)
{
	bool has_written = atomic_exchange(&file->has_written, false);
	uint64_t size_bytes;

	if (!size_look(file, &size_bytes))
		size_bytes = file->media.size_bytes;
	/* No write extends a block device. */
	if (size_bytes < file->media.size_bytes)
		cut_note(file, size_bytes, !has_written || file->is_block_device);
	else if (file->follows_size &&
		 size_bytes - file->media.size_bytes >= file->media.block_bytes)
		grown_note(file, size_bytes);
	return atomic_load(&file->cut_seen_bytes) == UINT64_MAX ? 0 : -EIO;
}

/* Checks the size when a check is due or needed. */
static int file_look(struct file_media *file, const struct media_io *io, bool is_needed)
{
	uint64_t now_ns = reactor_now_ns(io->reactor);

	if (!is_needed && now_ns < atomic_load_explicit(&file->next_look_ns, memory_order_relaxed))
		return 0;
	atomic_store_explicit(&file->next_look_ns, now_ns + LOOK_EVERY_NS, memory_order_relaxed);
	return file_check_size(file);
}

/* Notes a write to what opening made. False: opening was undone (file_undo), and the written data
 * would be lost. */
static bool write_note(struct file_media *file, const struct media_io *io)
{
	bool is_new = file->has_created || (file->grown_from_bytes > 0 &&
					    io->offset + io->len_bytes > file->grown_from_bytes);
	unsigned made = FILE_MADE;

	return !is_new || atomic_load_explicit(&file->made, memory_order_relaxed) == FILE_WRITTEN ||
	       atomic_compare_exchange_strong(&file->made, &made, FILE_WRITTEN) ||
	       made == FILE_WRITTEN;
}

int file_check_write(struct file_media *file, const struct media_io *io)
{
	bool is_last = io->offset + io->len_bytes >= io->media->size_bytes;

	if (!write_note(file, io))
		return -EIO;
	if (atomic_load_explicit(&file->cut_seen_bytes, memory_order_relaxed) != UINT64_MAX)
		return -EIO;
	if (file_look(file, io, is_last) < 0)
		return -EIO;
	if (!atomic_load_explicit(&file->has_written, memory_order_relaxed))
		atomic_store_explicit(&file->has_written, true, memory_order_relaxed);
	return 0;
}

uint64_t file_used_bytes(struct media *media)
{
	const struct file_media *file = container_of(media, const struct file_media, media);
	uint64_t used;
	struct statx stx;

	if (file->is_block_device || !file_stat(file, &stx))
		return media->size_bytes;
	used = stx.stx_blocks * STAT_BLOCK;
	return used < media->size_bytes ? used : media->size_bytes;
}

bool file_is_cut(struct media *media)
{
	return file_check_size(container_of(media, struct file_media, media)) < 0;
}

/* Checks for a loop device attached while the file is served, and logs the first time. -1: none. */
static int loop_look(struct file_media *file)
{
	int number = file->is_block_device || file->media.is_read_only
			     ? -1
			     : file_loop_find(file->backing->dev, file->backing->inode);

	if (number >= 0 && !file->backing->has_loop)
		log_error("media",
			  "%s: /dev/loop%d was attached to the file while it is served: writes of "
			  "both destroy each other's data; detach it (losetup -d)",
			  file->media.spec ? file->media.spec : "file", number);
	file->backing->has_loop = number >= 0;
	return number;
}

bool file_problem(struct media *media, struct media_error *ret_problem)
{
	struct file_media *file = container_of(media, struct file_media, media);
	int number;

	if (file_is_deleted(file)) {
		media_fail(ret_problem, -ESTALE, "%s", file_deleted_text(file));
		return true;
	}
	if (file_check_size(file) < 0) {
		media_fail(ret_problem, -EIO,
			   "the %s from %llu to %llu bytes while it is served: restore the size, "
			   "then `weft ctl namespace recheck`",
			   file->is_block_device ? "device was removed, or shrank"
						 : "file was truncated",
			   (unsigned long long)media->size_bytes,
			   (unsigned long long)atomic_load(&file->cut_seen_bytes));
		return true;
	}
	if (file_check_lasting(file) < 0) {
		media_fail(ret_problem, -EIO,
			   "a flush failed and the kernel has discarded data that hosts wrote: "
			   "flushes fail. Repair the disk, write the data again, then run `weft "
			   "ctl namespace recheck`");
		return true;
	}
	number = loop_look(file);
	if (number >= 0) {
		media_fail(
			ret_problem, -EBUSY,
			"/dev/loop%d was attached to the file while it is served: writes of both "
			"destroy each other's data; detach it (losetup -d)",
			number);
		return true;
	}
	return false;
}
