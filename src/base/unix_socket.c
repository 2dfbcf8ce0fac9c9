/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of Unix sockets: see base/unix_socket.h. Another process can take over a name while its
 * former owner still ends. So both the owner that ends and a process that clears a stale name
 * compare the socket's inode before they remove the name.
 *
 * Any thread; blocks for a few system calls.
 */
#include "base/unix_socket.h"

#include "base/unix_addr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Removes the name. 0, also when the name now belongs to another socket. */
static int name_unlink(const char *path, dev_t dev, ino_t inode)
{
	struct stat info;

	if (lstat(path, &info) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (info.st_dev != dev || info.st_ino != inode)
		return 0;
	return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
}

/* Opens a socket and calls `use` (bind or connect) with the address of the path: 0 or -errno.
 * *ret_fd is -1 when no socket was opened; otherwise the caller owns *ret_fd, even after an
 * error. */
static int socket_use(const char *path, int flags,
		      int (*use)(int fd, const struct sockaddr_un *addr), int *ret_fd)
{
	struct sockaddr_un addr;
	int folder;
	int res = unix_addr_make(path, &addr, &folder);

	*ret_fd = -1;
	if (res < 0)
		return res;
	*ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (*ret_fd < 0 || use(*ret_fd, &addr) != 0)
		res = -errno;
	if (folder >= 0)
		close(folder);
	return res;
}

static int use_connect(int fd, const struct sockaddr_un *addr)
{
	return connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
}

static int use_bind(int fd, const struct sockaddr_un *addr)
{
	/* bind gives the file the mode of the socket, so the file never has another mode. */
	return fchmod(fd, 0600) == 0 ? bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) : -1;
}

int unix_socket_connect(const char *path, int *ret_fd)
{
	int res = socket_use(path, 0, use_connect, ret_fd);

	if (res < 0 && *ret_fd >= 0)
		close(*ret_fd);
	return res;
}

/* 1: a process listens; 0: none does; or -errno. */
static int is_answered(const char *path)
{
	int fd;
	int res = socket_use(path, SOCK_NONBLOCK, use_connect, &fd);

	if (fd < 0)
		return res;
	close(fd);
	return res != -ECONNREFUSED;
}

int unix_socket_clear(const char *path)
{
	struct stat info;
	int res;

	if (lstat(path, &info) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(info.st_mode))
		return -EEXIST;
	res = is_answered(path);
	if (res != 0)
		return res > 0 ? -EADDRINUSE : res;
	return name_unlink(path, info.st_dev, info.st_ino);
}

static int socket_bind(const char *path, int backlog, int *ret_fd)
{
	int res = socket_use(path, SOCK_NONBLOCK, use_bind, ret_fd);

	if (res == 0 && listen(*ret_fd, backlog) != 0)
		res = -errno;
	if (res < 0 && *ret_fd >= 0)
		close(*ret_fd);
	return res;
}

int unix_socket_listen(const char *path, int backlog, int *ret_fd, struct unix_name *ret_name)
{
	int res = unix_socket_clear(path);

	*ret_fd = -1;
	*ret_name = (struct unix_name){0};
	if (res == 0)
		res = socket_bind(path, backlog, ret_fd);
	if (res < 0) {
		*ret_fd = -1;
		return res;
	}
	unix_name_note(path, ret_name);
	return 0;
}

void unix_name_note(const char *path, struct unix_name *ret_name)
{
	struct stat info;

	*ret_name = (struct unix_name){0};
	if (lstat(path, &info) != 0)
		return;
	ret_name->path = strdup(path);
	ret_name->dev = info.st_dev;
	ret_name->inode = info.st_ino;
}

void unix_name_remove(struct unix_name *name)
{
	if (!name->path)
		return;
	(void)name_unlink(name->path, name->dev, name->inode);
	free(name->path);
	name->path = NULL;
}
