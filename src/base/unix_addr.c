/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a Unix socket has room for 107 bytes. A longer path is reached through a
 * descriptor of its folder (/proc/self/fd/N/NAME), so that state folders may have long paths.
 *
 * Any thread; the working folder of the process does not change.
 */
#include "base/unix_addr.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool unix_addr_fits(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (strlen(path) < sizeof(((struct sockaddr_un *)0)->sun_path))
		return true;
	return slash && slash - path < PATH_MAX - 1 && strlen(slash + 1) <= UNIX_ADDR_NAME_MAX;
}

int unix_addr_make(const char *path, struct sockaddr_un *ret_addr, int *ret_folder)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	size_t folder_bytes;
	int n;

	*ret_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	*ret_folder = -1;
	if (strlen(path) < sizeof(ret_addr->sun_path)) {
		memcpy(ret_addr->sun_path, path, strlen(path) + 1);
		return 0;
	}
	folder_bytes = slash ? (size_t)(slash - path) + 1 : 0;
	if (!slash || folder_bytes >= sizeof(folder))
		return -ENAMETOOLONG;
	memcpy(folder, path, folder_bytes);
	folder[folder_bytes] = 0;
	*ret_folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_folder < 0)
		return -errno;
	n = snprintf(ret_addr->sun_path, sizeof(ret_addr->sun_path), "/proc/self/fd/%d/%s",
		     *ret_folder, slash + 1);
	if (n < (int)sizeof(ret_addr->sun_path))
		return 0;
	close(*ret_folder);
	*ret_folder = -1;
	return -ENAMETOOLONG;
}
