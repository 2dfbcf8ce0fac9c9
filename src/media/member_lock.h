/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks on a file that several processes serve at once: each member of a cluster holds one of its
 * own for as long as anything of it can still write. Claiming blocks: control thread. The rest: any
 * thread.
 */
#ifndef WEFT_MEDIA_MEMBER_LOCK_H
#define WEFT_MEDIA_MEMBER_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define MEMBER_LOCK_MAX (1u << 30) /* numbers of members are less */

/* Which lock is a member's. By its name alone: processes may disagree on who the others are. */
unsigned member_lock_number(const char *name);

/*
 * The first description that this process has of the file. may_wait: blocks for up to 10 s until
 * nothing of a former process of the same member holds the lock. 0, -EWOULDBLOCK when it is held,
 * or another -errno.
 */
int member_lock_claim(int fd, unsigned member, bool may_wait);
/* Every further description that this process writes through. 0 or -errno. */
int member_lock_share(int fd, unsigned member);
/* Whether any other description holds the lock of one of these members. 0 or -errno. */
int member_lock_is_held(int fd, unsigned first_member, unsigned count, bool *ret_is_held);

/* Which file or block device a descriptor is of. Comparable on one kernel only. */
struct member_file {
	uint64_t device; /* of a block device the device itself, else the file system */
	uint64_t inode;  /* 0 of a block device: several nodes may lead to it */
	bool is_block_device;
};
/* 0 or -errno. */
int member_lock_file(int fd, struct member_file *ret_file);

/* Another description of the same file, without the lock of a member: for asking, from any thread,
 * also when all others are closed, and for the right to fence. Never write through it. -errno on
 * failure. */
int member_lock_watch(int fd);
/* The same of the file that has this name, which this process has not opened; read-only where it
 * may not be written. */
int member_lock_watch_path(const char *path);
/*
 * Blocks until nothing of a former process of the member holds its lock, for up to 10 s when it may
 * wait; this process has no medium on the file. 0, -EWOULDBLOCK when it is held, or another -errno.
 */
int member_lock_settle(int watch_fd, unsigned member, bool may_wait);
/* Whether both descriptors are of one file, so that both see the same locks. */
bool member_lock_is_same(int fd, int other_fd);
void member_lock_unwatch(int fd);

/* The right to fence: one process at a time. 0, -EAGAIN while another has it, or -errno. */
int member_lock_take_fence(int fd);
void member_lock_drop_fence(int fd);

#endif
