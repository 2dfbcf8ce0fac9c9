/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device under store/store.c: files in memory behind SQLite's VFS, which outlive processes
 * and lose what was not synced when the power goes. One thread.
 *
 * A folder belongs to one node over all its lives. Writes, syncs, truncations and deletions of the
 * current process are operations (sim_process_operate): a process that dies at one of them leaves
 * the files as they were. A dead process' connection is closed by sim_store_bury.
 */
#ifndef WEFT_TESTS_SIM_STORE_H
#define WEFT_TESTS_SIM_STORE_H

#include "sim.h"

struct sim_folder;
struct store;

/* Registers the VFS as SQLite's default, once per program. */
void sim_store_init(void);
/* Paths that begin with this one are files of it. */
struct sim_folder *sim_folder_create(struct sim *sim, const char *path, uint64_t seed);
void sim_folder_destroy(struct sim_folder *folder);
/* Unsynced writes are kept, lost or kept in part (sectors of 512 bytes), each by itself. */
void sim_folder_power_loss(struct sim_folder *folder);
/* Writes fail: the file system is full, or one write or sync in so many fails with an I/O error. */
void sim_folder_set_full(struct sim_folder *folder, bool is_full);
void sim_folder_set_errors(struct sim_folder *folder, uint32_t one_in);
/*
 * A copy of files, all as they are at this moment, or of one file alone under the name that it has
 * when it is put back (NULL: there is no such file). For free(). The folder is what the copy says
 * afterwards (NULL: empty), and that is stable. No process has the folder's files open then.
 */
struct sim_backup;
struct sim_backup *sim_folder_backup(const struct sim_folder *folder);
struct sim_backup *sim_folder_backup_file(const struct sim_folder *folder, const char *name,
					  const char *put_back_as);
void sim_folder_restore(struct sim_folder *folder, const struct sim_backup *backup);
/* Of a process that died: frees the connection's memory, with no effect on the files. */
void sim_store_bury(struct store *store);

#endif
