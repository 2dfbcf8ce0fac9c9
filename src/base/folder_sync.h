/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names on stable media: a file that was made, renamed or removed is so for good when its folder is
 * synced. Any thread that may block.
 */
#ifndef WEFT_BASE_FOLDER_SYNC_H
#define WEFT_BASE_FOLDER_SYNC_H

/* 0 or -errno. */
int folder_sync(const char *folder);
/* The folder that this path is in. */
int folder_sync_of(const char *path);

#endif
