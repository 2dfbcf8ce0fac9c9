/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that store/store.c makes on its files, in programs linked with --wrap
 * (sim_store_wraps in meson.build). Paths inside a simulated folder go to that folder, all others
 * to the kernel. Descriptors are real ones of /dev/null, so that they can be closed. One thread.
 */
#include "sim_store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_access(const char *path, int mode);
int __real_open64(const char *path, int flags, ...);
int __real_unlink(const char *path);
int __real_rename(const char *from, const char *to);
int __real_stat64(const char *path, struct stat64 *ret_info);
int __real_fsync(int fd);
int __wrap_access(const char *path, int mode);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_unlink(const char *path);
int __wrap_rename(const char *from, const char *to);
int __wrap_stat64(const char *path, struct stat64 *ret_info);
/* sim_media_open.c, if linked: 0, -errno, or 1 when the path is no simulated disk. */
__attribute__((weak)) int sim_disk_stat(const char *path, struct stat64 *ret_info);
int __wrap_fsync(int fd);

/* The folder or file that was last opened; the fsync that follows applies to it. */
static struct sim_folder *opened_folder;
static struct sim_inode *opened_inode; /* NULL: the folder itself */
static int opened_fd = -1;

static int result_of(int res)
{
	if (res == 0)
		return 0;
	errno = -res;
	return -1;
}

int __wrap_access(const char *path, int mode)
{
	const char *name;
	struct sim_folder *folder = folder_of_path(path, &name);

	if (folder == NULL)
		return __real_access(path, mode);
	return result_of(name[0] == 0 || folder_find(folder, name) ? 0 : -ENOENT);
}

int __wrap_open64(const char *path, int flags, ...)
{
	const char *name;
	struct sim_folder *folder = folder_of_path(path, &name);
	struct sim_inode *inode;
	mode_t mode = 0;
	va_list args;
	int res = 0;

	va_start(args, flags);
	if (flags & (O_CREAT | __O_TMPFILE))
		mode = va_arg(args, mode_t);
	va_end(args);
	if (folder == NULL)
		return __real_open64(path, flags, mode);
	inode = folder_find(folder, name);
	if (name[0] != 0 && inode == NULL)
		res = flags & O_CREAT ? folder_create(folder, name, &inode) : -ENOENT;
	else if (name[0] != 0 && (flags & O_EXCL))
		res = -EEXIST;
	if (res < 0)
		return result_of(res);
	res = __real_open64("/dev/null", O_RDWR | O_CLOEXEC);
	opened_folder = folder;
	opened_inode = inode;
	opened_fd = res;
	return res;
}

int __wrap_fsync(int fd)
{
	if (fd < 0 || fd != opened_fd)
		return __real_fsync(fd);
	opened_fd = -1;
	return result_of(opened_inode ? inode_sync(opened_inode) : sim_folder_sync(opened_folder));
}

int __wrap_unlink(const char *path)
{
	const char *name;
	struct sim_folder *folder = folder_of_path(path, &name);

	return folder ? result_of(folder_unlink(folder, name)) : __real_unlink(path);
}

int __wrap_rename(const char *from, const char *to)
{
	const char *name, *new_name;
	struct sim_folder *folder = folder_of_path(from, &name);

	if (folder == NULL)
		return __real_rename(from, to);
	CHECK(folder_of_path(to, &new_name) == folder);
	return result_of(folder_rename(folder, name, new_name));
}

int __wrap_stat64(const char *path, struct stat64 *ret_info)
{
	const char *name;
	struct sim_folder *folder = folder_of_path(path, &name);
	const struct sim_inode *inode;
	int res = folder == NULL && sim_disk_stat != NULL ? sim_disk_stat(path, ret_info) : 1;

	if (res <= 0)
		return result_of(res);
	if (folder == NULL)
		return __real_stat64(path, ret_info);
	memset(ret_info, 0, sizeof(*ret_info));
	inode = folder_find(folder, name);
	if (name[0] == 0)
		ret_info->st_mode = S_IFDIR | 0700;
	else if (inode == NULL)
		return result_of(-ENOENT);
	else
		ret_info->st_mode = S_IFREG | 0600;
	ret_info->st_size = inode ? (off64_t)inode->size_bytes : 0;
	return 0;
}
