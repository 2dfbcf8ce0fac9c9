/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite's file system in memory: a VFS over sim_folder.c, with the shared memory that the
 * write-ahead log needs. One thread.
 *
 * Locks exclude only connections of one process, as one process at a time has a folder open. The
 * device characteristics are those that SQLite assumes for a Unix file system, so that SQLite
 * behaves as there; real sectors are smaller than SQLite thinks. A connection of a dead process can
 * read until it is buried, and writes nothing.
 */
#include "sim_internal.h"
#include "sim_store_private.h"

#include "store/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASSUMED_SECTOR_BYTES 4096
#define EPOCH_JULIAN_MS      210866760000000ll /* 1970 */
#define FIRST_UNIX_MS        1790000000000ll   /* start of every simulation */
#define PATH_BYTES_MAX       (FOLDER_PATH_BYTES + FOLDER_NAME_BYTES)

/* Allocated by SQLite; `base` must come first. */
struct vfs_file {
	sqlite3_file base;
	struct list node;
	struct sim_inode *inode;
	int level;         /* SQLITE_LOCK_ */
	bool syncs_folder; /* the first sync of the file also makes its name stable */
	bool is_temporary; /* without a name; freed with the connection */
	bool has_shm;
	unsigned shm_shared; /* bit per lock */
	unsigned shm_exclusive;
};

static bool is_burying;
static int last_errno;

static struct vfs_file *file_of(sqlite3_file *file)
{
	return (struct vfs_file *)file;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void shm_leave(struct vfs_file *file)
{
	struct sim_inode *inode = file->inode;

	for (unsigned i = 0; i < SHM_LOCKS; i++) {
		inode->shm_shared[i] -= file->shm_shared >> i & 1;
		if (file->shm_exclusive >> i & 1)
			inode->shm_exclusive[i] = NULL;
	}
	file->shm_shared = file->shm_exclusive = 0;
	if (!file->has_shm)
		return;
	file->has_shm = false;
	if (--inode->shm_users > 0)
		return;
	for (unsigned i = 0; i < inode->region_count; i++)
		free(inode->regions[i]);
	free(inode->regions);
	inode->regions = NULL;
	inode->region_count = 0;
}

static int file_close(sqlite3_file *base)
{
	struct vfs_file *file = file_of(base);

	shm_leave(file);
	list_remove(&file->node);
	if (file->is_temporary)
		inode_free(file->inode);
	return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *bytes, int len, sqlite3_int64 offset)
{
	const struct sim_inode *inode = file_of(base)->inode;
	size_t have = 0, want = (size_t)len;

	if ((size_t)offset < inode->size_bytes)
		have = inode->size_bytes - (size_t)offset;
	if (have > want)
		have = want;
	if (have > 0)
		memcpy(bytes, inode->bytes + offset, have);
	memset((uint8_t *)bytes + have, 0, want - have);
	return have == want ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int code_of(int res, int error_code)
{
	if (res == 0)
		return SQLITE_OK;
	last_errno = -res;
	return res == -ENOSPC ? SQLITE_FULL : error_code;
}

static int file_write(sqlite3_file *base, const void *bytes, int len, sqlite3_int64 offset)
{
	if (is_burying)
		return SQLITE_OK;
	return code_of(inode_write(file_of(base)->inode, (size_t)offset, bytes, (size_t)len),
		       SQLITE_IOERR_WRITE);
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
	if (is_burying)
		return SQLITE_OK;
	return code_of(inode_truncate(file_of(base)->inode, (size_t)size), SQLITE_IOERR_TRUNCATE);
}

static int file_sync(sqlite3_file *base, int flags)
{
	struct vfs_file *file = file_of(base);
	int res;

	if (is_burying)
		return SQLITE_OK;
	res = inode_sync(file->inode);
	if (res == 0 && file->syncs_folder) {
		res = sim_folder_sync(file->inode->folder);
		file->syncs_folder = res != 0;
	}
	return code_of(res, SQLITE_IOERR_FSYNC);
}

static int file_size(sqlite3_file *base, sqlite3_int64 *ret_size)
{
	*ret_size = (sqlite3_int64)file_of(base)->inode->size_bytes;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *base, int op, void *arg)
{
	return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *base)
{
	return ASSUMED_SECTOR_BYTES;
}

static int file_characteristics(sqlite3_file *base)
{
	return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

/* ---- locks ---------------------------------------------------------------------------------- */

/* The highest lock level of all other connections. */
static int level_of_others(const struct vfs_file *file)
{
	int level = SQLITE_LOCK_NONE;

	list_for_each(node, &file->inode->files) {
		const struct vfs_file *other = list_entry(node, struct vfs_file, node);

		if (other != file && other->level > level)
			level = other->level;
	}
	return level;
}

static int file_lock(sqlite3_file *base, int level)
{
	struct vfs_file *file = file_of(base);
	int others = level_of_others(file);

	if (level <= file->level)
		return SQLITE_OK;
	if (is_burying || (level == SQLITE_LOCK_SHARED && others >= SQLITE_LOCK_PENDING) ||
	    (level >= SQLITE_LOCK_RESERVED && others >= SQLITE_LOCK_RESERVED) ||
	    (level == SQLITE_LOCK_EXCLUSIVE && others >= SQLITE_LOCK_SHARED))
		return SQLITE_BUSY;
	file->level = level;
	return SQLITE_OK;
}

static int file_unlock(sqlite3_file *base, int level)
{
	if (file_of(base)->level > level)
		file_of(base)->level = level;
	return SQLITE_OK;
}

static int file_check_reserved(sqlite3_file *base, int *ret_is_held)
{
	*ret_is_held = level_of_others(file_of(base)) >= SQLITE_LOCK_RESERVED;
	return SQLITE_OK;
}

/* ---- the index of the log ------------------------------------------------------------------- */

static int file_shm_map(sqlite3_file *base, int region, int region_bytes, int extends,
			void volatile **ret_memory)
{
	struct vfs_file *file = file_of(base);
	struct sim_inode *inode = file->inode;
	unsigned want = (unsigned)region + 1;

	*ret_memory = NULL;
	if (!file->has_shm) {
		file->has_shm = true;
		inode->shm_users++;
	}
	if (want > inode->region_count && !extends)
		return SQLITE_OK;
	if (want > inode->region_count)
		inode->regions = sim_realloc(inode->regions, want * sizeof(void *));
	while (inode->region_count < want)
		inode->regions[inode->region_count++] = sim_alloc((size_t)region_bytes);
	*ret_memory = inode->regions[region];
	return SQLITE_OK;
}

static bool shm_can_lock(const struct vfs_file *file, unsigned at, bool is_exclusive)
{
	const struct sim_inode *inode = file->inode;
	unsigned own = file->shm_shared >> at & 1;

	if (inode->shm_exclusive[at] != NULL && inode->shm_exclusive[at] != file)
		return false;
	return !is_exclusive || inode->shm_shared[at] == own;
}

static void shm_lock_set(struct vfs_file *file, unsigned at, int flags)
{
	struct sim_inode *inode = file->inode;
	unsigned bit = 1u << at;

	if (flags & SQLITE_SHM_UNLOCK) {
		inode->shm_shared[at] -= (file->shm_shared & bit) != 0;
		if (file->shm_exclusive & bit)
			inode->shm_exclusive[at] = NULL;
		file->shm_shared &= ~bit;
		file->shm_exclusive &= ~bit;
	} else if (flags & SQLITE_SHM_EXCLUSIVE) {
		inode->shm_exclusive[at] = file;
		file->shm_exclusive |= bit;
	} else if (!(file->shm_shared & bit)) {
		inode->shm_shared[at]++;
		file->shm_shared |= bit;
	}
}

static int file_shm_lock(sqlite3_file *base, int offset, int count, int flags)
{
	struct vfs_file *file = file_of(base);

	for (int i = offset; (flags & SQLITE_SHM_LOCK) && i < offset + count; i++) {
		if (!shm_can_lock(file, (unsigned)i, flags & SQLITE_SHM_EXCLUSIVE))
			return SQLITE_BUSY;
	}
	for (int i = offset; i < offset + count; i++)
		shm_lock_set(file, (unsigned)i, flags);
	return SQLITE_OK;
}

static void file_shm_barrier(sqlite3_file *base)
{
}

static int file_shm_unmap(sqlite3_file *base, int deletes)
{
	shm_leave(file_of(base));
	return SQLITE_OK;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 2,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_check_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector_size,
	.xDeviceCharacteristics = file_characteristics,
	.xShmMap = file_shm_map,
	.xShmLock = file_shm_lock,
	.xShmBarrier = file_shm_barrier,
	.xShmUnmap = file_shm_unmap,
};

/* ---- the file system ------------------------------------------------------------------------ */

/* Finds the inode of a name, or creates it if the flags allow. 0 or -errno. */
static int inode_get(const char *path, int flags, struct vfs_file *file)
{
	const char *name;
	struct sim_folder *folder = folder_of_path(path, &name);
	int res = 0;

	if (folder == NULL)
		return -ENOENT;
	file->inode = folder_find(folder, name);
	if (file->inode == NULL && !(flags & SQLITE_OPEN_CREATE))
		return -ENOENT;
	if (file->inode == NULL) {
		res = folder_create(folder, name, &file->inode);
		file->syncs_folder = (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL |
					       SQLITE_OPEN_SUPER_JOURNAL)) != 0;
	}
	return res;
}

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *base, int flags,
		    int *ret_flags)
{
	struct vfs_file *file = file_of(base);
	int res = 0;

	memset(file, 0, sizeof(*file));
	if (path == NULL) {
		file->inode = inode_create(NULL);
		file->is_temporary = true;
	} else {
		res = inode_get(path, flags, file);
	}
	if (res < 0)
		return code_of(res, SQLITE_CANTOPEN);
	list_push_back(&file->inode->files, &file->node);
	file->base.pMethods = &file_methods;
	if (ret_flags)
		*ret_flags = flags;
	return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int syncs_folder)
{
	const char *name;
	struct sim_folder *folder = folder_of_path(path, &name);
	int res;

	if (is_burying)
		return SQLITE_OK;
	res = folder ? folder_unlink(folder, name) : -ENOENT;
	if (res == -ENOENT) {
		last_errno = ENOENT;
		return SQLITE_IOERR_DELETE_NOENT;
	}
	if (res == 0 && syncs_folder)
		res = sim_folder_sync(folder);
	return code_of(res, SQLITE_IOERR_DELETE);
}

/* As on Unix, an empty file does not exist for SQLITE_ACCESS_EXISTS. */
static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret_can)
{
	const char *name;
	const struct sim_folder *folder = folder_of_path(path, &name);
	const struct sim_inode *inode = folder ? folder_find(folder, name) : NULL;

	*ret_can = inode && (flags != SQLITE_ACCESS_EXISTS || inode->size_bytes > 0);
	return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int bytes, char *ret_path)
{
	return snprintf(ret_path, (size_t)bytes, "%s", path) < bytes ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int vfs_randomness(sqlite3_vfs *vfs, int bytes, char *ret_bytes)
{
	store_random_fill(ret_bytes, (size_t)bytes);
	return bytes;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
	return us;
}

static int vfs_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret_ms)
{
	const struct sim_process *process = sim_process_current();
	uint64_t now_ns = process           ? sim_process_clock_ns(process)
			  : sim_now_running ? sim_now(sim_now_running)
					    : 0;

	*ret_ms = EPOCH_JULIAN_MS + FIRST_UNIX_MS + (sqlite3_int64)(now_ns / NS_PER_MS);
	return SQLITE_OK;
}

static int vfs_time(sqlite3_vfs *vfs, double *ret_days)
{
	sqlite3_int64 ms;

	vfs_time_ms(vfs, &ms);
	*ret_days = (double)ms / 86400000.0;
	return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int bytes, char *ret_text)
{
	return last_errno;
}

void sim_store_init(void)
{
	static sqlite3_vfs vfs = {
		.iVersion = 2,
		.szOsFile = sizeof(struct vfs_file),
		.mxPathname = PATH_BYTES_MAX,
		.zName = "weft_sim",
		.xOpen = vfs_open,
		.xDelete = vfs_delete,
		.xAccess = vfs_access,
		.xFullPathname = vfs_full_path,
		.xRandomness = vfs_randomness,
		.xSleep = vfs_sleep,
		.xCurrentTime = vfs_time,
		.xGetLastError = vfs_last_error,
		.xCurrentTimeInt64 = vfs_time_ms,
	};
	static bool has_begun;

	if (has_begun)
		return;
	has_begun = true;
	/* Single-threaded, so no locks; statistics would cost time. */
	CHECK(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) == SQLITE_OK);
	CHECK(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK);
	CHECK(sqlite3_initialize() == SQLITE_OK);
	CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}

void sim_store_bury(struct store *store)
{
	is_burying = true;
	store_close(store);
	is_burying = false;
}
