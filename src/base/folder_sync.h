/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes file names durable: the creation, renaming or removal of a file is on stable media once its
 * folder is synced. Any thread that may block.
 */
#ifndef WEFT_BASE_FOLDER_SYNC_H
#define WEFT_BASE_FOLDER_SYNC_H

/* 0 or -errno. */
int folder_sync(const char *folder);
/* Syncs the folder that contains this path. 0 or -errno. */
int folder_sync_of(const char *path);

#endif
