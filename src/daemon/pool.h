/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a pool, with the files of hosts' namespaces. Control thread only; blocks.
 */
#ifndef WEFT_DAEMON_POOL_H
#define WEFT_DAEMON_POOL_H

#include "config/config.h"

#define POOL_SUFFIX ".img"

/* Creates the folder if missing. 0 or -errno. */
int pool_folder_prepare(const char *folder);
/* Returns "FOLDER/NGUID.img", which the caller frees; NULL: no memory. */
char *pool_file_path(const char *folder, const uint8_t nguid[16]);
/* Whether the path is one that a pool gives: FOLDER/NGUID.img. */
bool pool_file_is_ours(const char *folder, const char *path, const uint8_t nguid[16]);
/*
 * Removes the file of a deleted namespace, if a pool made the file: directly in the folder and
 * named by the namespace's NGUID. 0 or -errno; -EPERM: a pool did not make the file, which stays.
 */
int pool_file_remove(const char *folder, const char *path, const uint8_t nguid[16]);
/*
 * Logs files of pools that no namespace has: a crash came between the end of a namespace and the
 * removal of its file. Removes none. Returns their number.
 */
unsigned pool_report_orphans(const struct config *config);

#endif
