/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes created or grown files durable: a few files one by one, each with its folder, many files by
 * one sync of their file system.
 *
 * Control thread; blocks. Syncing one file and its folder costs two journal writes, and each waits
 * for the drive: some milliseconds for every file. syncfs(2) waits once for all files, but also for
 * everything that others have written to the file system. In both cases the file is durable before
 * its name, or together with it.
 */
#include "base/folder_sync.h"
#include "media/file.h"
#include "media/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Up to this number of files on a file system are synced one by one. */
#define SYNC_EACH_MAX 16

static struct file_media *unstable_file(struct media *media)
{
	struct file_media *file = container_of(media, struct file_media, media);

	return file->is_stable ? NULL : file;
}

static int file_sync_one(struct file_media *file, struct media_error *ret_error)
{
	const char *text = file->media.spec;
	struct media_spec spec;
	int res;

	res = file_fsync(file);
	if (res < 0)
		return media_fail(ret_error, res, "cannot sync %.160s: %s", text, strerror(-res));
	if (file->has_created) {
		res = media_spec_parse(text, &spec, ret_error);
		if (res < 0)
			return res;
		res = folder_sync_of(spec.path);
		media_spec_free(&spec);
		if (res < 0)
			return media_fail(ret_error, res, "cannot sync the folder of %.160s: %s",
					  text, strerror(-res));
	}
	file->is_stable = true;
	return 0;
}

/* Syncs the file system of media[0]; marks all files of media that are on it as stable. */
static int file_system_sync(struct media *const *media, unsigned count,
			    struct media_error *ret_error)
{
	const struct file_media *first = unstable_file(media[0]);

	if (syncfs(first->fd) < 0)
		return media_fail(ret_error, -errno, "cannot sync the file system of %.160s: %s",
				  first->media.spec, strerror(errno));
	for (unsigned i = 0; i < count; i++) {
		struct file_media *file = unstable_file(media[i]);

		if (file && file->backing->dev == first->backing->dev)
			file->is_stable = true;
	}
	return 0;
}

int file_sync(struct media *const *media, unsigned count, struct media_error *ret_error)
{
	int res = 0;

	for (unsigned i = 0; i < count && res == 0; i++) {
		struct file_media *file = unstable_file(media[i]);
		unsigned alike = 0;

		if (!file)
			continue;
		for (unsigned k = i; k < count && alike <= SYNC_EACH_MAX; k++) {
			const struct file_media *other = unstable_file(media[k]);

			alike += other && other->backing->dev == file->backing->dev;
		}
		if (alike > SYNC_EACH_MAX)
			res = file_system_sync(media + i, count - i, ret_error);
		else
			res = file_sync_one(file, ret_error);
	}
	return res;
}
