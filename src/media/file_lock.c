/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock that keeps two targets off one file, and the wait for a target that died.
 *
 * A killed target keeps its lock until the kernel has ended its last operation. The new target must
 * wait for the lock: a late write of the dead one must not land after its own writes. A live holder
 * (found in /proc/locks) is reported at once.
 *
 * Control thread. Only a process that is starting may wait. The control thread of a serving process
 * also handles reservations, health and shutdown, and any process that can read the file can hold
 * its lock unseen, through a child that inherited the descriptor.
 */
#include "media/file_lock.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define WAIT_FOR_DEAD_NS (30 * NS_PER_S)
#define RETRY_NS         (20 * NS_PER_MS)
#define EXITING_FLAG     0x4 /* PF_EXITING in the flags of /proc/PID/stat */

/* The process is gone, or exiting and past every new operation. */
static bool process_is_dead(int pid)
{
	char path[64], text[512], state = 'X';
	unsigned flags = 0;
	char *after_name;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return true;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	after_name = strrchr(text, ')');
	if (after_name)
		(void)sscanf(after_name, ") %c %*d %*d %*d %*d %*d %u", &state, &flags);
	return state == 'Z' || state == 'X' || (flags & EXITING_FLAG) != 0;
}

int file_lock_holder(dev_t dev, ino_t file_inode)
{
	char line[256];
	int holder = 0;
	FILE *file = fopen("/proc/locks", "re");

	if (!file)
		return 0;
	while (holder == 0 && fgets(line, sizeof(line), file)) {
		unsigned major_number, minor_number;
		unsigned long long inode;
		int pid;

		if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major_number,
			   &minor_number, &inode) != 4)
			continue;
		if (inode == file_inode && makedev(major_number, minor_number) == dev && pid > 0 &&
		    !process_is_dead(pid))
			holder = pid;
	}
	fclose(file);
	return holder;
}

int file_lock(int fd, bool is_shared, bool may_wait, const char *path, int *ret_holder)
{
	uint64_t began_ns = clock_monotonic_ns();
	bool has_told = false;
	struct stat st;

	*ret_holder = 0;
	if (fstat(fd, &st) != 0)
		return -errno;
	while (flock(fd, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		*ret_holder = file_lock_holder(st.st_dev, st.st_ino);
		if (*ret_holder != 0 || !may_wait ||
		    clock_monotonic_ns() - began_ns > WAIT_FOR_DEAD_NS)
			return -EWOULDBLOCK;
		if (!has_told)
			log_info("media",
				 "%s: waiting for the last operations of a target that ended",
				 path);
		has_told = true;
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
	}
	return 0;
}
