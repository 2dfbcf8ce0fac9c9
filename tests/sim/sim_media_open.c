/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the opening of files in programs linked with --wrap (sim_media_wraps in meson.build):
 * "file:/disk/NAME" opens the simulated disk of that name, every other spec the real file. The real
 * code parses specs, so that fault media can be stacked on a disk. Member locks use the disk's
 * number in place of a descriptor. One thread.
 */
#include "sim_disk_private.h"

#include "base/crc32c.h"
#include "media/member_lock.h"
#include "media/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DISK_PATH     "/disk/"
#define DISK_FD_FIRST 2000000 /* in place of descriptors: above every real one */

int __real_media_file_open(const struct media_spec *spec, struct media **ret_media,
			   struct media_error *ret_error);
int __real_media_path_record(const char *path, struct media_record *ret_record);
int __real_member_lock_is_held(int fd, unsigned first_member, unsigned count, bool *ret_is_held);
int __real_member_lock_watch(int fd);
int __real_member_lock_watch_path(const char *path);
int __real_member_lock_settle(int watch_fd, unsigned member, bool may_wait);
bool __real_member_lock_is_same(int fd, int other_fd);
int __real_member_lock_file(int fd, struct member_file *ret_file);
void __real_member_lock_unwatch(int fd);
int __real_member_lock_take_fence(int fd);
void __real_member_lock_drop_fence(int fd);

int __wrap_media_file_open(const struct media_spec *spec, struct media **ret_media,
			   struct media_error *ret_error);
int __wrap_media_path_record(const char *path, struct media_record *ret_record);
int __wrap_member_lock_is_held(int fd, unsigned first_member, unsigned count, bool *ret_is_held);
int __wrap_member_lock_watch(int fd);
int __wrap_member_lock_watch_path(const char *path);
int __wrap_member_lock_settle(int watch_fd, unsigned member, bool may_wait);
bool __wrap_member_lock_is_same(int fd, int other_fd);
int __wrap_member_lock_file(int fd, struct member_file *ret_file);
void __wrap_member_lock_unwatch(int fd);
int __wrap_member_lock_take_fence(int fd);
void __wrap_member_lock_drop_fence(int fd);

int sim_disk_stat(const char *path, struct stat64 *ret_info); /* called by sim_store_files.c */

static struct disk_handle *handle_of(const struct media *media)
{
	return container_of((struct media *)media, struct disk_handle, media);
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool disk_is_hidden(const struct sim_disk *disk)
{
	const struct sim_process *process = sim_process_current();

	return process != NULL && strcmp(disk->hidden_from, sim_process_name(process)) == 0;
}

/* From the name: disk numbers continue in the next world of a process. */
static uint64_t disk_inode(const struct sim_disk *disk)
{
	return crc32c(disk->name, strlen(disk->name));
}

/* The disk that the current process finds under a name. */
static struct sim_disk *disk_named(const char *name)
{
	const struct sim_process *process = sim_process_current();
	struct sim_disk *disk = sim_disk_find(name);

	return disk != NULL && disk->twin != NULL && process != NULL &&
			       strcmp(disk->twin_for, sim_process_name(process)) == 0
		       ? disk->twin
		       : disk;
}

/* As media/file_open.c: a known disk is neither created nor grown; an unknown one may be. */
static int disk_check(struct sim_disk *disk, const struct media_spec *spec)
{
	const uint64_t block_bytes = disk->options.block_bytes;

	disk->asks_for_recreate = false;
	if (spec->known != NULL && !spec->is_recreated) {
		if (disk->left_for == 0 || disk_is_hidden(disk))
			return -ENOENT;
		disk->asks_for_recreate = spec->known->is_given_up;
		if (spec->known->is_given_up)
			return -EUCLEAN;
		if (disk->left_for < disk->block_count &&
		    disk->left_for * block_bytes < spec->known->size_bytes)
			return -EUCLEAN;
		return 0;
	}
	if (spec->is_recreated)
		return 0;
	if (disk_is_hidden(disk))
		disk_erase_from(disk, 0);
	if (disk->left_for != UINT64_MAX)
		disk_erase_from(disk, disk->left_for);
	/* size= would truncate the disk. */
	if (!spec->is_shared && spec->size_bytes != 0 &&
	    spec->size_bytes < disk->block_count * block_bytes)
		return -EINVAL;
	return 0;
}

int __wrap_media_file_open(const struct media_spec *spec, struct media **ret_media,
			   struct media_error *ret_error)
{
	struct sim_disk *disk;
	int res = -ENOENT;

	if (strncmp(spec->path, DISK_PATH, strlen(DISK_PATH)) != 0)
		return __real_media_file_open(spec, ret_media, ret_error);
	disk = disk_named(spec->path + strlen(DISK_PATH));
	if (disk != NULL)
		res = disk_check(disk, spec);
	if (disk != NULL && res == 0)
		res = disk_open_parsed(disk, spec, spec->is_shared ? (int)spec->member : -1, false,
				       ret_media);
	/* By now the operations of dead processes have landed on the former disk. */
	if (disk != NULL && res == 0 && spec->is_recreated &&
	    sim_process_operate(sim_process_current())) {
		disk_recreate(disk);
		handle_of(*ret_media)->has_recreated = true;
	}
	if (res < 0)
		return media_fail(ret_error, res, "%.160s: %s", spec->path, strerror(-res));
	if (spec->known != NULL && !spec->is_recreated)
		handle_of(*ret_media)->is_another =
			spec->known->inode != 0 && spec->known->inode != disk_inode(disk);
	return 0;
}

/* As file_undo. */
bool disk_undo(struct media *media)
{
	struct disk_handle *handle = handle_of(media);

	if (handle->is_undone)
		return true;
	if (handle->has_new_data)
		return false;
	handle->is_undone = true;
	/* A dying process undoes nothing. */
	if (handle->has_recreated && sim_process_operate(handle->process))
		disk_put_back(handle->disk);
	/* Other members may use the new blocks, so a shared disk stays grown. */
	if (handle->grown_from > 0 && handle->member < 0)
		handle->disk->block_count = handle->grown_from;
	return true;
}

/* stat for daemon/rollback.c: 0, -errno, or 1 when the path is no simulated disk. */
int sim_disk_stat(const char *path, struct stat64 *ret_info)
{
	const struct sim_disk *disk;
	uint64_t blocks;

	if (strncmp(path, DISK_PATH, strlen(DISK_PATH)) != 0)
		return 1;
	disk = sim_disk_find(path + strlen(DISK_PATH));
	if (disk == NULL || disk->left_for == 0 || disk_is_hidden(disk))
		return -ENOENT;
	blocks = disk->left_for < disk->block_count ? disk->left_for : disk->block_count;
	memset(ret_info, 0, sizeof(*ret_info));
	ret_info->st_mode = S_IFREG | 0600;
	ret_info->st_size = (off64_t)(blocks * disk->options.block_bytes);
	return 0;
}

/* ---- questions ------------------------------------------------------------------------------ */

bool disk_is_current(const struct media *media)
{
	const struct disk_handle *handle = handle_of(media);

	/* Without size= the medium follows the disk's size. */
	return strstr(media->spec, ",size=") != NULL ||
	       handle->disk->block_count * media->block_bytes <= media->size_bytes;
}

bool disk_get_record(const struct media *media, struct media_record *ret_record)
{
	const struct disk_handle *handle = handle_of(media);

	if (!handle->disk->options.is_recorded)
		return false;
	*ret_record = (struct media_record){.size_bytes = media->size_bytes,
					    .block_bytes = media->block_bytes,
					    .has_type = true,
					    .inode = disk_inode(handle->disk)};
	return true;
}

bool disk_is_another(const struct media *media)
{
	return handle_of(media)->is_another;
}

void disk_note_known(struct media *media, const char *path, const struct media_record *known)
{
	struct media_record now;

	if (disk_get_record(media, &now))
		handle_of(media)->is_another = media_record_compare(known, &now) == MEDIA_ANOTHER;
}

int __wrap_media_path_record(const char *path, struct media_record *ret_record)
{
	const struct sim_disk *disk;
	struct stat64 info;
	int res = sim_disk_stat(path, &info);

	if (res > 0)
		return __real_media_path_record(path, ret_record);
	*ret_record = (struct media_record){.has_type = true};
	if (res < 0)
		return res;
	disk = disk_named(path + strlen(DISK_PATH));
	if (disk == NULL)
		return -ENOENT;
	if (disk->options.is_recorded)
		ret_record->inode = disk_inode(disk);
	return 0;
}

uint64_t disk_media_used_bytes(struct media *media)
{
	const struct disk_handle *handle = handle_of(media);
	uint64_t used;

	used = disk_used_bytes(handle->disk);
	return used < media->size_bytes ? used : media->size_bytes;
}

bool disk_problem(struct media *media, struct media_error *ret_problem)
{
	const struct disk_handle *handle = handle_of(media);

	if (handle->disk->cut_at >= handle->disk->block_count)
		return false;
	media_fail(ret_problem, -EIO, "the disk was cut to %llu blocks while it is served",
		   (unsigned long long)handle->disk->cut_at);
	return true;
}

/* ---- members -------------------------------------------------------------------------------- */

/* A descriptor number that stands for the disk. */
static int disk_fd(const struct sim_disk *disk)
{
	return DISK_FD_FIRST + (int)disk->number;
}

static struct sim_disk *disk_of_fd(int fd)
{
	return fd < DISK_FD_FIRST ? NULL : sim_disk_find_number((unsigned)(fd - DISK_FD_FIRST));
}

int disk_lock_fd(const struct media *media)
{
	const struct disk_handle *handle = handle_of(media);

	return handle->member >= 0 ? disk_fd(handle->disk) : -1;
}

int disk_member(const struct media *media)
{
	return handle_of(media)->member;
}

int __wrap_member_lock_is_held(int fd, unsigned first_member, unsigned count, bool *ret_is_held)
{
	const struct sim_disk *disk = disk_of_fd(fd);

	if (disk == NULL)
		return __real_member_lock_is_held(fd, first_member, count, ret_is_held);
	*ret_is_held = sim_disk_members_can_write(disk, first_member, count);
	return 0;
}

int __wrap_member_lock_watch(int fd)
{
	return disk_of_fd(fd) ? fd : __real_member_lock_watch(fd);
}

int __wrap_member_lock_watch_path(const char *path)
{
	const struct sim_disk *disk;

	if (strncmp(path, DISK_PATH, strlen(DISK_PATH)) != 0)
		return __real_member_lock_watch_path(path);
	disk = disk_named(path + strlen(DISK_PATH));
	return disk == NULL || disk_is_hidden(disk) ? -ENOENT : disk_fd(disk);
}

/* Ends the operations that dead processes left. */
int __wrap_member_lock_settle(int watch_fd, unsigned member, bool may_wait)
{
	struct sim_disk *disk = disk_of_fd(watch_fd);

	return disk ? disk_settle_member(disk, (int)member)
		    : __real_member_lock_settle(watch_fd, member, may_wait);
}

bool __wrap_member_lock_is_same(int fd, int other_fd)
{
	return disk_of_fd(fd) ? fd == other_fd : __real_member_lock_is_same(fd, other_fd);
}

int __wrap_member_lock_file(int fd, struct member_file *ret_file)
{
	const struct sim_disk *disk = disk_of_fd(fd);

	if (disk == NULL)
		return __real_member_lock_file(fd, ret_file);
	*ret_file = (struct member_file){.device = 1, .inode = disk_inode(disk)};
	return 0;
}

void __wrap_member_lock_unwatch(int fd)
{
	if (disk_of_fd(fd) == NULL)
		__real_member_lock_unwatch(fd);
}

int __wrap_member_lock_take_fence(int fd)
{
	struct sim_disk *disk = disk_of_fd(fd);

	return disk ? sim_disk_fence_take(disk) : __real_member_lock_take_fence(fd);
}

void __wrap_member_lock_drop_fence(int fd)
{
	struct sim_disk *disk = disk_of_fd(fd);

	if (disk)
		sim_disk_fence_drop(disk);
	else
		__real_member_lock_drop_fence(fd);
}
