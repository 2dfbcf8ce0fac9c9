/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks on a file that several processes serve at once. Each member of a cluster holds a lock of
 * its own until none of its I/O can write any more. Claiming and settling block: control thread.
 * The rest: any thread.
 */
#ifndef WEFT_MEDIA_MEMBER_LOCK_H
#define WEFT_MEDIA_MEMBER_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define MEMBER_LOCK_MAX (1u << 30) /* member numbers are below this */

/* The lock number of a member. Depends on its name alone, because processes may disagree on who the
 * other members are. */
unsigned member_lock_number(const char *name);

/*
 * Takes the member's lock for the first description that this process has of the file. may_wait:
 * blocks for up to 10 s until no I/O of a former process of the same member holds the lock. Returns
 * 0, -EWOULDBLOCK when the lock is held, or another -errno.
 */
int member_lock_claim(int fd, unsigned member, bool may_wait);
/* Takes the lock for a further description that this process writes through. 0 or -errno. */
int member_lock_share(int fd, unsigned member);
/* Whether any other description holds the lock of one of `count` members from first_member on. 0 or
 * -errno. */
int member_lock_is_held(int fd, unsigned first_member, unsigned count, bool *ret_is_held);

/* Identifies the file or block device of a descriptor. Comparable only within one kernel. */
struct member_file {
	uint64_t device; /* of a block device its own number, otherwise the file system's */
	uint64_t inode;  /* 0 for a block device: several device nodes may lead to it */
	bool is_block_device;
};
/* Fills ret_file for fd. 0 or -errno. */
int member_lock_file(int fd, struct member_file *ret_file);

/* Opens another description of the same file without a member lock: for queries on any thread, also
 * after all others are closed, and for the fence lock. Never write through it. A descriptor or
 * -errno. */
int member_lock_watch(int fd);
/* As member_lock_watch, for a path that this process has not opened. Opens read-only if the file is
 * not writable. */
int member_lock_watch_path(const char *path);
/*
 * Checks that no I/O of a former process of the member holds its lock. may_wait: blocks for up to
 * 10 s until that is so. This process must have no medium on the file. 0, -EWOULDBLOCK when the
 * lock is held, or another -errno.
 */
int member_lock_settle(int watch_fd, unsigned member, bool may_wait);
/* Whether both descriptors are of one file, and so see the same locks. */
bool member_lock_is_same(int fd, int other_fd);
void member_lock_unwatch(int fd);

/* The fence lock, the right to fence: one process at a time. 0, -EAGAIN while another process has
 * it, or -errno. */
int member_lock_take_fence(int fd);
void member_lock_drop_fence(int fd);

#endif
