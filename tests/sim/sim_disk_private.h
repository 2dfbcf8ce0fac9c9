/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the simulated disk and its opening by name: the disk, its handles, its operations in
 * flight. Private to sim_disk*.c and sim_media_open.c. One thread.
 */
#ifndef WEFT_TESTS_SIM_DISK_PRIVATE_H
#define WEFT_TESTS_SIM_DISK_PRIVATE_H

#include "sim_disk.h"
#include "sim_internal.h"

#define DISK_NAME_BYTES 64

struct sim_disk {
	struct sim *sim;
	struct list node;
	unsigned number; /* unique over all disks so far */
	struct sim_disk_options options;
	char name[DISK_NAME_BYTES];
	struct prng prng;
	uint8_t *blocks;
	uint8_t *stable;
	uint8_t *flags; /* one byte per block */
	uint64_t block_count;
	uint64_t cut_at;   /* UINT64_MAX: not cut */
	uint64_t left_for; /* blocks that the next open finds; UINT64_MAX: all, 0: no disk */
	uint8_t *aside;    /* blocks, stable and flags before it was recreated; NULL: it was not */
	struct sim_disk *twin;             /* what twin_for finds under this name; NULL: this */
	char twin_for[DISK_NAME_BYTES];    /* name of a process */
	char hidden_from[DISK_NAME_BYTES]; /* process that does not find the disk; empty: none */
	bool is_full;
	bool has_fence;
	bool asks_for_recreate;          /* the last open found an unfinished recreate */
	struct sim_process *fence_owner; /* NULL: no process */
	uint64_t misdirected;
	struct list ops;     /* in order of submission */
	struct list handles; /* in order of opening */
	sim_disk_watch_fn watch;
	void *watch_arg;
};

/* One struct media over a disk. */
struct disk_handle {
	struct media media;
	struct list node;
	struct sim_disk *disk;
	struct sim_process *process; /* NULL: none */
	struct sim_mourner mourner;
	int member;
	unsigned under_way;
	bool is_dead;        /* its process is dead; freed with its last operation in flight */
	uint64_t grown_from; /* blocks; 0: opening did not grow the disk */
	bool has_recreated;  /* opening recreated the disk */
	bool has_new_data;   /* a write began that disk_undo would destroy */
	bool is_undone;
	bool is_another; /* another disk than the one in the record of its path */
};

struct disk_op {
	struct list node;
	struct disk_handle *handle;
	struct media_io *io; /* NULL: its process is dead */
	enum media_kind kind;
	bool is_fua;
	bool may_discard;
	bool is_early_flush;
	bool has_performed; /* landed; the submitter has not got the result yet */
	uint64_t first;
	uint64_t count;
	uint64_t due_ns;
	int result;
	uint8_t *data; /* read data, or a copy of the bytes of a dead process */
	struct sim_event *event;
	uint8_t has_landed[]; /* per block */
};

struct disk_wish {
	uint64_t block_count; /* 0: the whole disk */
	uint32_t block_bytes; /* 0: the disk's */
	int member;
	bool is_read_only;
	bool is_reopen; /* the process has the disk open already */
};

extern const struct media_ops sim_disk_ops;
/* Entries of sim_disk_ops in sim_media_open.c. */
bool disk_undo(struct media *media);
bool disk_is_current(const struct media *media);
bool disk_get_record(const struct media *media, struct media_record *ret_record);
bool disk_is_another(const struct media *media);
void disk_note_known(struct media *media, const char *path, const struct media_record *known);
int disk_member(const struct media *media);
int disk_lock_fd(const struct media *media);
uint64_t disk_media_used_bytes(struct media *media);
bool disk_problem(struct media *media, struct media_error *ret_problem);

/* sim_disk.c */
/* Zeroes all blocks from `block` on; a lost disk is there again. */
void disk_erase_from(struct sim_disk *disk, uint64_t block);
/* Replaces the disk by an empty one and keeps the data aside; disk_put_back undoes this. */
void disk_recreate(struct sim_disk *disk);
void disk_put_back(struct sim_disk *disk);
int disk_open_parsed(struct sim_disk *disk, const struct media_spec *spec, int member,
		     bool is_reopen, struct media **ret_media);
/* Frees handles of dead processes without operations in flight. */
void disk_handles_reap(struct sim_disk *disk);
struct sim_disk *sim_disk_find_number(unsigned number);

/* sim_disk_op.c */
void disk_submit(struct media_io *io);
void disk_cancel(struct media_io *io);
/* The handle's process is dead: each operation ends now or lands without it. */
void disk_ops_orphan(struct disk_handle *handle);
/* Ends a dead handle's operations now, for a member that opens the disk again. */
void disk_ops_settle(struct disk_handle *handle);
/* Ends the operations that dead processes of this member left. -EWOULDBLOCK: one of its processes
 * is alive. */
int disk_settle_member(struct sim_disk *disk, int member);
/* Drops the operations; they never land. */
void disk_ops_drop(struct disk_handle *handle);
uint64_t disk_used_bytes(const struct sim_disk *disk);

#endif
