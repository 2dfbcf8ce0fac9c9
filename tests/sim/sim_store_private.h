/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files under the simulated store: what SQLite's VFS (sim_store.c) and the system calls of
 * store/store.c (sim_store_files.c) do to a folder (sim_folder.c). One thread.
 *
 * An inode has its visible content and, by sectors, its stable content. A folder has its names, and
 * each state of the names since its last sync: after a power loss one of these states remains.
 */
#ifndef WEFT_TESTS_SIM_STORE_PRIVATE_H
#define WEFT_TESTS_SIM_STORE_PRIVATE_H

#include "sim_store.h"

#define SECTOR_BYTES      512
#define FOLDER_PATH_BYTES 128
#define FOLDER_NAME_BYTES 48
#define FOLDER_NAMES_MAX  16
#define SHM_LOCKS         8

struct sim_inode {
	struct list node;
	struct sim_folder *folder; /* NULL: a temporary file, freed with its last connection */
	uint8_t *bytes;
	uint8_t *stable;
	uint8_t *dirty; /* one per sector: written since the last sync */
	size_t room_bytes;
	size_t size_bytes;
	size_t stable_bytes;
	size_t least_bytes; /* the smallest size since the last sync */
	struct list files;  /* connections */
	/* Shared by connections of one process: the index of the write-ahead log. */
	void **regions;
	unsigned region_count;
	unsigned shm_users;
	unsigned shm_shared[SHM_LOCKS];
	const void *shm_exclusive[SHM_LOCKS];
};

struct sim_names {
	unsigned count;
	struct {
		char name[FOLDER_NAME_BYTES];
		struct sim_inode *inode;
	} names[FOLDER_NAMES_MAX];
};

struct sim_folder {
	struct list node;
	struct sim *sim;
	char path[FOLDER_PATH_BYTES];
	struct prng prng;
	struct list inodes;
	struct sim_names names;
	struct sim_names *before; /* the stable names, then the names after each change since */
	unsigned before_count;
	bool is_full;
	uint32_t error_one_in;
};

/* The folder that contains path, or NULL. *ret_name: the rest of path, "" for the folder itself. */
struct sim_folder *folder_of_path(const char *path, const char **ret_name);
struct sim_inode *folder_find(const struct sim_folder *folder, const char *name);

/* Each of these is an operation of the current process. 0 or -errno; -EIO: the process is dying. */
int folder_create(struct sim_folder *folder, const char *name, struct sim_inode **ret_inode);
int folder_unlink(struct sim_folder *folder, const char *name);
int folder_rename(struct sim_folder *folder, const char *from, const char *to);
int sim_folder_sync(struct sim_folder *folder);

struct sim_inode *inode_create(struct sim_folder *folder);
void inode_free(struct sim_inode *inode);
int inode_write(struct sim_inode *inode, size_t offset, const void *bytes, size_t len_bytes);
int inode_truncate(struct sim_inode *inode, size_t size_bytes);
int inode_sync(struct sim_inode *inode);

/* Random bytes for SQLite, for all folders, seeded by the first folder. */
void store_random_fill(void *bytes, size_t len_bytes);

#endif
