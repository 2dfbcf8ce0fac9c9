/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The advisory lock on a regular file that backs a namespace. Control thread.
 */
#ifndef WEFT_MEDIA_FILE_LOCK_H
#define WEFT_MEDIA_FILE_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Takes the lock. Returns 0, or -EWOULDBLOCK when another process holds it: *ret_holder is its pid,
 * or 0 when unknown (another container). may_wait: blocks for up to 30 s while the holder is
 * exiting or unknown. path is for the log.
 */
int file_lock(int fd, bool is_shared, bool may_wait, const char *path, int *ret_holder);
/* The live process that holds a lock on this file. 0: none is visible. Takes no lock. */
int file_lock_holder(dev_t dev, ino_t file_inode);

#endif
