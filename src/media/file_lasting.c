/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that the kernel has taken and then lost. When it cannot write a page back it marks the
 * page clean and tells so once, to the next flush of each descriptor; the flush after that
 * succeeds, though the data are gone. Here the first such failure counts for good: every later
 * flush and every write that must be durable fails, whichever host or queue asks, until an
 * administrator has seen to it (media_forgive). Each failure has a number of its own, by which the
 * target knows which ones it has told its hosts of (target/loss.h).
 *
 * The kernel keeps what it has told per open file description. Whatever syncs a description that
 * hosts' flushes use (a growth, or one that is taken back) takes the kernel's word from them, so
 * its failure counts in the same way. syncfs(2), and the sync of a folder, take nothing: Linux
 * keeps their errors apart.
 *
 * Any reactor, but for what is said to be the control thread's.
 */
#include "media/event.h"
#include "media/file.h"
#include "media/spec.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Failures in this process, of all files: a number never means another one. */
static _Atomic uint64_t losses;

/* It ended before the kernel had looked at the data. */
static bool has_not_run(int res)
{
	return res == -ECANCELED || res == -EINTR || res == -EAGAIN || res == -ENOMEM;
}

void file_note_lasting(struct file_media *file, int res)
{
	bool is_first;

	if (res >= 0 || has_not_run(res) || !file->backing->is_writable)
		return;
	is_first = file_check_lasting(file) == 0;
	atomic_store(&file->backing->loss, atomic_fetch_add(&losses, 1) + 1);
	media_tell(&file->media, MEDIA_EVENT_HEALTH);
	if (is_first)
		log_error("media",
			  "%s: a flush failed (%s): the kernel has given up data that hosts wrote; "
			  "flushes fail from now on. See to the disk, have the data written again, "
			  "then use `weft ctl namespace recheck`",
			  file->media.spec ? file->media.spec : "file", strerror(-res));
}

int file_fsync(struct file_media *file)
{
	struct file_overlap overlap;
	int res;

	file_overlap_begin(file->backing, &overlap);
	res = fsync(file->fd) < 0 ? -errno : 0;
	if (!file->has_created) /* otherwise no host has written to it */
		file_note_lasting(file, res);
	file_overlap_drop(file->backing, &overlap);
	return res;
}

/* Linux reports what it has not told yet for any range. */
void file_note_untold(struct file_media *file)
{
	struct file_overlap overlap;

	file_overlap_begin(file->backing, &overlap);
	if (sync_file_range(file->fd, 0, 1, SYNC_FILE_RANGE_WAIT_BEFORE) < 0 && errno != EINVAL &&
	    errno != ENOSYS && errno != ESPIPE)
		file_note_lasting(file, -errno);
	file_overlap_drop(file->backing, &overlap);
}

int file_check_lasting(const struct file_media *file)
{
	const struct file_backing *backing = file->backing;

	return atomic_load_explicit(&backing->loss, memory_order_relaxed) !=
			       atomic_load_explicit(&backing->forgiven, memory_order_relaxed)
		       ? -EIO
		       : 0;
}

bool file_has_lost_writes(const struct media *media)
{
	return file_check_lasting(container_of(media, const struct file_media, media)) < 0;
}

uint64_t file_loss(const struct media *media)
{
	return atomic_load(&container_of(media, const struct file_media, media)->backing->loss);
}

void file_forgive(struct media *media)
{
	struct file_backing *backing = container_of(media, struct file_media, media)->backing;

	atomic_store(&backing->forgiven, atomic_load(&backing->loss));
}
