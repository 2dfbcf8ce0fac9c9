/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The advisory lock on a regular file that backs a namespace. Control thread.
 */
#ifndef WEFT_MEDIA_FILE_LOCK_H
#define WEFT_MEDIA_FILE_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * 0, or -EWOULDBLOCK when another process has it: *ret_holder is then its pid, or 0 when it is not
 * known (another container). may_wait: blocks for up to 30 s while the holder is dying or not
 * known.
 */
int file_lock(int fd, bool is_shared, bool may_wait, const char *path, int *ret_holder);
/* The live process that holds a lock on this file; 0: none that can be seen. Takes no lock. */
int file_lock_holder(dev_t dev, ino_t file_inode);

#endif
