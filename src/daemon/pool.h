/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a pool: the files that hosts' namespaces become. Control thread only; blocks.
 */
#ifndef WEFT_DAEMON_POOL_H
#define WEFT_DAEMON_POOL_H

#include "config/config.h"

#define POOL_SUFFIX ".img"

/* Makes the folder when there is none. 0 or -errno. */
int pool_folder_prepare(const char *folder);
/* "FOLDER/NGUID.img"; the caller frees it. */
char *pool_file_path(const char *folder, const uint8_t nguid[16]);
/* Of a name that a pool gives: FOLDER/NGUID.img. */
bool pool_file_is_ours(const char *folder, const char *path, const uint8_t nguid[16]);
/*
 * Removes the file of a namespace that is gone, if it is one that a pool made: directly in the
 * folder and named by the namespace's NGUID. Others are left alone: -EPERM. 0 or -errno.
 */
int pool_file_remove(const char *folder, const char *path, const uint8_t nguid[16]);
/*
 * Files of pools that no namespace has: a crash came between the end of a namespace and that of its
 * file. Each is told in the log, none is removed. Returns how many.
 */
unsigned pool_report_orphans(const struct config *config);

#endif
