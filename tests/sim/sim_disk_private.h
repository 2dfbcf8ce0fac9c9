/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated disk and its opening by name share: the disk, who has it open, what is under
 * way on it. Private to sim_disk*.c and sim_media_open.c. One thread.
 */
#ifndef WEFT_TESTS_SIM_DISK_PRIVATE_H
#define WEFT_TESTS_SIM_DISK_PRIVATE_H

#include "sim_disk.h"
#include "sim_internal.h"

#define DISK_NAME_BYTES 64

struct sim_disk {
	struct sim *sim;
	struct list node;
	unsigned number; /* of all that there were */
	struct sim_disk_options options;
	char name[DISK_NAME_BYTES];
	struct prng prng;
	uint8_t *blocks;
	uint8_t *stable;
	uint8_t *flags; /* one byte a block */
	uint64_t block_count;
	uint64_t cut_at;   /* UINT64_MAX: it is whole */
	uint64_t left_for; /* blocks that the next open finds; UINT64_MAX: all, 0: no disk */
	uint8_t *aside; /* blocks, stable and flags of before it was made anew; NULL: it was not */
	struct sim_disk *twin;             /* what one process finds under this name; NULL: this */
	char twin_for[DISK_NAME_BYTES];    /* that process */
	char hidden_from[DISK_NAME_BYTES]; /* the process that does not find it; empty: none */
	bool is_full;
	bool has_fence;
	bool asks_for_recreate; /* the last look at it found a recreate that was not ended */
	struct sim_process *fence_owner; /* NULL: of no process */
	uint64_t misdirected;
	struct list ops;     /* in the order of submission */
	struct list handles; /* in the order of opening */
	sim_disk_watch_fn watch;
	void *watch_arg;
};

/* One struct media over a disk. */
struct disk_handle {
	struct media media;
	struct list node;
	struct sim_disk *disk;
	struct sim_process *process; /* NULL: of none */
	struct sim_mourner mourner;
	int member;
	unsigned under_way;
	bool is_dead;        /* its process is gone; freed when nothing of it is under way */
	uint64_t grown_from; /* blocks; 0: opening it changed nothing */
	bool has_recreated;  /* opening it made the disk anew */
	bool is_another;     /* than the disk that the record of its path has */
};

struct disk_op {
	struct list node;
	struct disk_handle *handle;
	struct media_io *io; /* NULL: its process is gone */
	enum media_kind kind;
	bool is_fua;
	bool may_discard;
	bool is_early_flush;
	bool has_performed; /* only its submitter has to hear of it */
	uint64_t first;
	uint64_t count;
	uint64_t due_ns;
	int result;
	uint8_t *data; /* that was read, or that a process left behind */
	struct sim_event *event;
	uint8_t has_landed[]; /* per block */
};

struct disk_wish {
	uint64_t block_count; /* 0: all there is */
	uint32_t block_bytes; /* 0: the disk's */
	int member;
	bool is_read_only;
	bool is_reopen; /* the process has it already */
};

extern const struct media_ops sim_disk_ops;
/* Its entries in sim_media_open.c. */
void disk_undo(struct media *media);
bool disk_is_current(const struct media *media);
bool disk_get_record(const struct media *media, struct media_record *ret_record);
bool disk_is_another(const struct media *media);
void disk_note_known(struct media *media, const char *path, const struct media_record *known);
int disk_member(const struct media *media);
int disk_lock_fd(const struct media *media);
uint64_t disk_media_used_bytes(struct media *media);
bool disk_problem(struct media *media, struct media_error *ret_problem);

/* sim_disk.c */
/* Zeroes from there on, and all of it is there. */
void disk_erase_from(struct sim_disk *disk, uint64_t block);
/* An empty file takes its place, and what was there is kept aside; and back again. */
void disk_recreate(struct sim_disk *disk);
void disk_put_back(struct sim_disk *disk);
int disk_open_parsed(struct sim_disk *disk, const struct media_spec *spec, int member,
		     bool is_reopen, struct media **ret_media);
/* Those of dead processes that have nothing under way any more. */
void disk_handles_reap(struct sim_disk *disk);
struct sim_disk *sim_disk_find_number(unsigned number);

/* sim_disk_op.c */
void disk_submit(struct media_io *io);
void disk_cancel(struct media_io *io);
/* The process of this handle is gone: each has ended, or will land without it. */
void disk_ops_orphan(struct disk_handle *handle);
/* Who opens it next as the same member waits for these: they end now. */
void disk_ops_settle(struct disk_handle *handle);
/* What dead processes of this member left has landed. 0; -EWOULDBLOCK: one of it lives. */
int disk_settle_member(struct sim_disk *disk, int member);
/* They never land. */
void disk_ops_drop(struct disk_handle *handle);
uint64_t disk_used_bytes(const struct sim_disk *disk);

#endif
