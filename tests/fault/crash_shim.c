/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded into `weft serve` by LD_PRELOAD: kills the process at the Nth change to the store's files,
 * for test_store_crash.py and test_grow_crash.py. Changes are writes, syncs, truncations, renames
 * and deletions of files named weft.db* or image* in $WEFT_CRASH_DIR. Writes by io_uring are not
 * seen. N is $WEFT_CRASH_AT, 0 for never. A killed write is torn: its first half is done.
 *
 * While the file $WEFT_CRASH_FULL exists, the disk is full: every write fails, except the first
 * ones, whose number is in the file (empty: 0).
 *
 * With $WEFT_CRASH_POWER=1 the machine loses power at the kill: what was written since the file's
 * last sync is undone first. At an orderly end the number of changes is written to
 * $WEFT_CRASH_COUNT.
 *
 * Only the control thread changes the store's files; calls of other threads are passed through.
 */
/* Without this, pwrite would be another name of pwrite64. */
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHIM_UNDO_MAX 65536

/* Part of a file before a write or a truncation that is not synced yet. */
struct undo {
	char path[PATH_MAX];
	off_t size_bytes;
	off_t at;
	size_t len_bytes;
	unsigned char *data;
};

static struct {
	bool is_ready;
	bool loses_power;
	const char *dir;
	unsigned long kill_at;
	unsigned long count;
	struct undo *undos[SHIM_UNDO_MAX];
	size_t undo_count;
	struct stat full; /* of $WEFT_CRASH_FULL when it was last read */
	unsigned long full_after;
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*write)(int, const void *, size_t);
	int (*fsync)(int);
	int (*fdatasync)(int);
	int (*ftruncate)(int, off_t);
	int (*rename)(const char *, const char *);
	int (*unlink)(const char *);
} shim;

static void *next_of(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	return found;
}

__attribute__((constructor)) static void shim_begin(void)
{
	const char *at = getenv("WEFT_CRASH_AT");
	const char *power = getenv("WEFT_CRASH_POWER");

	shim.pwrite = next_of("pwrite64");
	shim.write = next_of("write");
	shim.fsync = next_of("fsync");
	shim.fdatasync = next_of("fdatasync");
	shim.ftruncate = next_of("ftruncate64");
	shim.rename = next_of("rename");
	shim.unlink = next_of("unlink");
	shim.dir = getenv("WEFT_CRASH_DIR");
	shim.kill_at = at ? strtoul(at, NULL, 10) : 0;
	shim.loses_power = power && power[0] == '1';
	shim.is_ready = shim.dir != NULL;
}

__attribute__((destructor)) static void shim_end(void)
{
	const char *path = getenv("WEFT_CRASH_COUNT");
	FILE *file = path && shim.is_ready ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "%lu\n", shim.count);
	fclose(file);
}

static bool path_counts(const char *path)
{
	size_t len = shim.is_ready ? strlen(shim.dir) : 0;

	return shim.is_ready && strncmp(path, shim.dir, len) == 0 &&
	       (strncmp(path + len, "/weft.db", 8) == 0 || strncmp(path + len, "/image", 6) == 0);
}

static bool fd_counts(int fd, char path[PATH_MAX])
{
	char link[64];
	ssize_t len;

	if (!shim.is_ready)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, PATH_MAX - 1);
	if (len <= 0)
		return false;
	path[len] = 0;
	return path_counts(path);
}

static void power_lose(void)
{
	while (shim.loses_power && shim.undo_count > 0) {
		const struct undo *undo = shim.undos[--shim.undo_count];
		int fd = open(undo->path, O_WRONLY);

		if (fd < 0)
			continue;
		if (undo->len_bytes > 0 &&
		    shim.pwrite(fd, undo->data, undo->len_bytes, undo->at) < 0)
			abort();
		if (shim.ftruncate(fd, undo->size_bytes))
			abort();
		close(fd);
	}
}

static void die(void)
{
	power_lose();
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* True for the change at which the process is killed. */
static bool count_one(void)
{
	return ++shim.count == shim.kill_at;
}

static void undo_note(int fd, const char *path, off_t at, size_t len_bytes)
{
	struct undo *undo;
	struct stat info;
	ssize_t got = 0;

	if (!shim.loses_power || fstat(fd, &info))
		return;
	undo = calloc(1, sizeof(*undo));
	if (!undo || shim.undo_count == SHIM_UNDO_MAX)
		abort();
	snprintf(undo->path, sizeof(undo->path), "%s", path);
	undo->size_bytes = info.st_size;
	undo->at = at;
	undo->data = malloc(len_bytes + 1);
	if (len_bytes > 0)
		got = pread(fd, undo->data, len_bytes, at);
	undo->len_bytes = got > 0 ? (size_t)got : 0;
	shim.undos[shim.undo_count++] = undo;
}

static void undo_drop(const char *path)
{
	size_t kept = 0;

	for (size_t i = 0; i < shim.undo_count; i++) {
		struct undo *undo = shim.undos[i];

		if (strcmp(undo->path, path) == 0) {
			free(undo->data);
			free(undo);
		} else {
			shim.undos[kept++] = undo;
		}
	}
	shim.undo_count = kept;
}

/* Number of writes that succeed before the disk is full. */
static unsigned long full_read(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		abort();
	if (fd >= 0)
		close(fd);
	return strtoul(text, NULL, 10);
}

static bool disk_is_full(void)
{
	const char *path = getenv("WEFT_CRASH_FULL");
	struct stat now;

	if (!path || stat(path, &now) != 0) {
		memset(&shim.full, 0, sizeof(shim.full));
		return false;
	}
	if (now.st_ino != shim.full.st_ino || now.st_mtim.tv_nsec != shim.full.st_mtim.tv_nsec ||
	    now.st_mtim.tv_sec != shim.full.st_mtim.tv_sec) {
		shim.full = now;
		shim.full_after = full_read(path);
	}
	if (shim.full_after > 0) {
		shim.full_after--;
		return false;
	}
	errno = ENOSPC;
	return true;
}

static ssize_t pwrite_here(int fd, const void *data, size_t len_bytes, off_t at)
{
	char path[PATH_MAX];

	if (!fd_counts(fd, path))
		return shim.pwrite(fd, data, len_bytes, at);
	if (disk_is_full())
		return -1;
	undo_note(fd, path, at, len_bytes);
	if (count_one()) {
		if (shim.pwrite(fd, data, len_bytes / 2, at) < 0)
			abort();
		die();
	}
	return shim.pwrite(fd, data, len_bytes, at);
}

ssize_t pwrite(int fd, const void *data, size_t len_bytes, off_t at)
{
	return pwrite_here(fd, data, len_bytes, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len_bytes, off_t at)
{
	return pwrite_here(fd, data, len_bytes, at);
}

ssize_t write(int fd, const void *data, size_t len_bytes)
{
	char path[PATH_MAX];

	if (!shim.write)
		shim.write = next_of("write");
	if (!fd_counts(fd, path))
		return shim.write(fd, data, len_bytes);
	if (disk_is_full())
		return -1;
	undo_note(fd, path, lseek(fd, 0, SEEK_CUR), len_bytes);
	if (count_one()) {
		if (shim.write(fd, data, len_bytes / 2) < 0)
			abort();
		die();
	}
	return shim.write(fd, data, len_bytes);
}

static void sync_here(int fd)
{
	char path[PATH_MAX];

	if (!fd_counts(fd, path))
		return;
	if (count_one())
		die();
	undo_drop(path);
}

int fsync(int fd)
{
	sync_here(fd);
	return shim.fsync(fd);
}

int fdatasync(int fd)
{
	sync_here(fd);
	return shim.fdatasync(fd);
}

static int ftruncate_here(int fd, off_t size_bytes)
{
	char path[PATH_MAX];
	struct stat info;

	if (fd_counts(fd, path)) {
		if (fstat(fd, &info) == 0 && info.st_size > size_bytes)
			undo_note(fd, path, size_bytes, (size_t)(info.st_size - size_bytes));
		else
			undo_note(fd, path, 0, 0);
		if (count_one())
			die();
	}
	return shim.ftruncate(fd, size_bytes);
}

int ftruncate(int fd, off_t size_bytes)
{
	return ftruncate_here(fd, size_bytes);
}

int ftruncate64(int fd, off_t size_bytes)
{
	return ftruncate_here(fd, size_bytes);
}

int rename(const char *from, const char *to)
{
	if (path_counts(from) && count_one())
		die();
	return shim.rename(from, to);
}

int unlink(const char *path)
{
	if (path_counts(path)) {
		if (count_one())
			die();
		undo_drop(path);
	}
	return shim.unlink(path);
}
