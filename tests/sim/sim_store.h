/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device under control/store.c: files in memory behind SQLite's VFS, which outlive processes
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
/* Of a process that died: frees the connection's memory, with no effect on the files. */
void sim_store_bury(struct store *store);

#endif
