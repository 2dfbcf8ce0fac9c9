/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locks that show whether a member of a cluster can still write to a shared file: a read lock
 * of the open file description (fcntl, F_OFD_SETLK) on byte 2^62 + 2^32 + number, far behind any
 * data. Claiming blocks: control thread. The rest: any thread.
 *
 * Why a free lock means that no write of the member can follow: such a lock belongs to the
 * description and is released with its last reference. Every request that io_uring has accepted,
 * and every ioctl in a helper thread, holds a reference until it is complete, whatever became of
 * the process. So the kernel releases the lock of a killed process after its last I/O. Therefore
 * every description that writes must carry the lock: file_open.c takes it for the first,
 * file_reopen.c for further ones. Nothing writes through a watch.
 */
#include "media/member_lock.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_BASE        ((off_t)1 << 62)
#define FENCE_LOCK_BYTE  (LOCK_BASE + 64)
#define MEMBER_LOCK_BASE (LOCK_BASE + ((off_t)1 << 32))
#define CLAIM_WAIT_NS    (10 * NS_PER_S)
#define CLAIM_RETRY_NS   (10 * NS_PER_MS)

unsigned member_lock_number(const char *name)
{
	return crc32c(name, strlen(name)) % MEMBER_LOCK_MAX;
}

static struct flock lock_of(short type, off_t start, off_t len)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

static int lock_set(int fd, short type, off_t start)
{
	struct flock lock = lock_of(type, start, 1);

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static bool is_writable(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

int member_lock_share(int fd, unsigned member)
{
	CHECK(member < MEMBER_LOCK_MAX);
	return lock_set(fd, F_RDLCK, MEMBER_LOCK_BASE + (off_t)member);
}

static void waiting_tell(bool *has_told)
{
	if (!*has_told)
		log_info("media",
			 "waiting for the last operations of this member's former process");
	*has_told = true;
}

/* Holding the write lock for a moment proves that no other process, and no I/O of a dead one, holds
 * this member's byte. */
int member_lock_claim(int fd, unsigned member, bool may_wait)
{
	uint64_t deadline_ns = clock_monotonic_ns() + CLAIM_WAIT_NS;
	bool has_told = false;
	int res;

	CHECK(member < MEMBER_LOCK_MAX);
	/* A read-only description cannot write late, and may not take a write lock. */
	if (!is_writable(fd))
		return member_lock_share(fd, member);
	while ((res = lock_set(fd, F_WRLCK, MEMBER_LOCK_BASE + (off_t)member)) < 0) {
		if (res != -EAGAIN && res != -EACCES)
			return res;
		if (!may_wait || clock_monotonic_ns() > deadline_ns)
			return -EWOULDBLOCK;
		waiting_tell(&has_told);
		nanosleep(&(struct timespec){.tv_nsec = CLAIM_RETRY_NS}, NULL);
	}
	return member_lock_share(fd, member);
}

int member_lock_is_held(int fd, unsigned first_member, unsigned count, bool *ret_is_held)
{
	struct flock lock = lock_of(F_WRLCK, MEMBER_LOCK_BASE + (off_t)first_member, (off_t)count);

	*ret_is_held = false;
	/* fcntl would take a length of 0 as "to the end of the file". */
	if (count == 0)
		return 0;
	if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return -errno;
	*ret_is_held = lock.l_type != F_UNLCK;
	return 0;
}

int member_lock_watch(int fd)
{
	char path[32];
	int watch_fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* The fence lock is a write lock, which needs a writable description. */
	watch_fd = open(path, (is_writable(fd) ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	return watch_fd < 0 ? -errno : watch_fd;
}

int member_lock_watch_path(const char *path)
{
	int watch_fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (watch_fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM))
		watch_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return watch_fd < 0 ? -errno : watch_fd;
}

int member_lock_settle(int watch_fd, unsigned member, bool may_wait)
{
	uint64_t deadline_ns = clock_monotonic_ns() + CLAIM_WAIT_NS;
	bool is_held, has_told = false;
	int res;

	while ((res = member_lock_is_held(watch_fd, member, 1, &is_held)) == 0 && is_held) {
		if (!may_wait || clock_monotonic_ns() > deadline_ns)
			return -EWOULDBLOCK;
		waiting_tell(&has_told);
		nanosleep(&(struct timespec){.tv_nsec = CLAIM_RETRY_NS}, NULL);
	}
	return res;
}

bool member_lock_is_same(int fd, int other_fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstat(other_fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

int member_lock_file(int fd, struct member_file *ret_file)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_file = (struct member_file){.is_block_device = S_ISBLK(st.st_mode)};
	ret_file->device = ret_file->is_block_device ? st.st_rdev : st.st_dev;
	ret_file->inode = ret_file->is_block_device ? 0 : st.st_ino;
	return 0;
}

void member_lock_unwatch(int fd)
{
	close(fd);
}

int member_lock_take_fence(int fd)
{
	int res = lock_set(fd, F_WRLCK, FENCE_LOCK_BYTE);

	return res == -EACCES ? -EAGAIN : res;
}

void member_lock_drop_fence(int fd)
{
	(void)lock_set(fd, F_UNLCK, FENCE_LOCK_BYTE);
}
