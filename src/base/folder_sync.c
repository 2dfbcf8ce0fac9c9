/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syncs a folder through a descriptor opened for reading. A folder that cannot be opened for
 * reading cannot be synced, although files can be created in it. Any thread that may block.
 */
#include "base/folder_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int folder_sync(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int res;

	if (fd < 0)
		return -errno;
	res = fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	return res;
}

int folder_sync_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder;
	int res;

	if (!slash)
		return folder_sync(".");
	folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!folder)
		return -ENOMEM;
	res = folder_sync(folder);
	free(folder);
	return res;
}
