/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that the kernel has taken and then lost. When it cannot write a page back it marks the
 * page clean and tells so once, to the next flush of each descriptor; the flush after that
 * succeeds, though the data are gone. Here the first such failure counts for good: every later
 * flush and every write that must be durable fails, whichever host or queue asks, until an
 * administrator has seen to it (media_forgive).
 *
 * Any reactor.
 */
#include "media/file.h"
#include "media/spec.h"

#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* It ended before the kernel had looked at the data. */
static bool has_not_run(int res)
{
	return res == -ECANCELED || res == -EINTR || res == -EAGAIN || res == -ENOMEM;
}

void file_note_lasting(struct file_media *file, int res)
{
	if (res >= 0 || has_not_run(res) || file->media.is_read_only)
		return;
	if (!atomic_exchange(&file->backing->has_lost_writes, true))
		log_error("media",
			  "%s: a flush failed (%s): the kernel has given up data that hosts wrote; "
			  "flushes fail from now on. See to the disk, have the data written again, "
			  "then use `weft ctl namespace recheck`",
			  file->media.spec ? file->media.spec : "file", strerror(-res));
}

int file_check_lasting(const struct file_media *file)
{
	return atomic_load_explicit(&file->backing->has_lost_writes, memory_order_relaxed) ? -EIO
											   : 0;
}

bool media_file_has_lost_writes(const struct media *media)
{
	return media->ops == &file_ops &&
	       file_check_lasting(container_of(media, const struct file_media, media)) < 0;
}

void media_file_forgive(struct media *media)
{
	if (media->ops == &file_ops)
		atomic_store(
			&container_of(media, struct file_media, media)->backing->has_lost_writes,
			false);
}
