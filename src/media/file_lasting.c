/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that the kernel accepted and then lost. When the kernel cannot write a page back, it marks
 * the page clean and reports the error once, to the next flush of each open file description. The
 * flush after that succeeds although the data are gone. Here the first failure counts for good:
 * every later flush and durable write of any host fails until an administrator has dealt with the
 * loss (media_forgive). Each failure has a number, by which the target knows which ones it has
 * reported to hosts (target/loss.h).
 *
 * A sync on a description that hosts' flushes use (a growth, or its undoing) consumes the report,
 * so its failure counts as well. syncfs(2) and the sync of a folder consume nothing: Linux keeps
 * their errors apart.
 *
 * Any reactor, except functions marked control thread.
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

/* Counts the failures of all files in this process, so that no number is used twice. */
static _Atomic uint64_t losses;

/* The sync ended before the kernel looked at the data. */
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
			  "%s: a flush failed (%s): the kernel has discarded data that hosts "
			  "wrote; flushes fail from now on. Repair the disk, write the data again, "
			  "then run `weft ctl namespace recheck`",
			  file->media.spec ? file->media.spec : "file", strerror(-res));
}

int file_fsync(struct file_media *file)
{
	struct file_overlap overlap;
	int res;

	file_overlap_begin(file->backing, &overlap);
	res = fsync(file->fd) < 0 ? -errno : 0;
	if (!file->has_created) /* otherwise no host has written to the file */
		file_note_lasting(file, res);
	file_overlap_drop(file->backing, &overlap);
	return res;
}

/* Linux reports pending errors for a range of any size, so one byte is enough. */
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
