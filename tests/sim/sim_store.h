/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device under store/store.c: files in memory behind SQLite's VFS, which outlive processes and
 * lose unsynced data when the power goes. One thread.
 *
 * A folder belongs to one node over all its lives. Writes, syncs, truncations and deletions by the
 * current process are operations (sim_process_operate): a process that dies at one of them leaves
 * the files unchanged. sim_store_bury closes a dead process' connection.
 */
#ifndef WEFT_TESTS_SIM_STORE_H
#define WEFT_TESTS_SIM_STORE_H

#include "sim.h"

struct sim_folder;
struct store;

/* Registers the VFS as SQLite's default, once per program. */
void sim_store_init(void);
/* A folder; paths that begin with `path` are its files. */
struct sim_folder *sim_folder_create(struct sim *sim, const char *path, uint64_t seed);
void sim_folder_destroy(struct sim_folder *folder);
/* Each unsynced sector (512 bytes) is kept or lost by itself. */
void sim_folder_power_loss(struct sim_folder *folder);
/* Makes writes fail: with a full file system, or one write or sync in one_in with an I/O error. */
void sim_folder_set_full(struct sim_folder *folder, bool is_full);
void sim_folder_set_errors(struct sim_folder *folder, uint32_t one_in);
/* A copy of all files as they are now, or of one file, which gets the name put_back_as (NULL: the
 * file is missing). Release with free. A restore replaces the folder's content by the copy (NULL:
 * empty) and makes it stable. No process may have the folder's files open then. */
struct sim_backup;
struct sim_backup *sim_folder_backup(const struct sim_folder *folder);
struct sim_backup *sim_folder_backup_file(const struct sim_folder *folder, const char *name,
					  const char *put_back_as);
void sim_folder_restore(struct sim_folder *folder, const struct sim_backup *backup);
/* For a dead process: frees the connection's memory without an effect on the files. */
void sim_store_bury(struct store *store);

#endif
