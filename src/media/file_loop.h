/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which loop device of this machine uses a file: see media/file_loop.c. Control thread only; blocks
 * for a few system calls.
 */
#ifndef WEFT_MEDIA_FILE_LOOP_H
#define WEFT_MEDIA_FILE_LOOP_H

#include <stdbool.h>
#include <sys/types.h>

/* The number N of a /dev/loopN that can write to this file. -1: none is visible. */
int file_loop_find(dev_t dev, ino_t inode);
/* The file of this block device. False: not a loop device, or the file cannot be identified. */
bool file_loop_backing(dev_t device, dev_t *ret_dev, ino_t *ret_inode);

#endif
