/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What file_open.c (control thread: finding out what the file can do) and file.c (reactors: doing
 * it) share. Immutable after opening but for the atomics.
 */
#ifndef WEFT_MEDIA_FILE_H
#define WEFT_MEDIA_FILE_H

#include "media/media.h"

#include <stdatomic.h>
#include <sys/types.h>

/* A sync that is under way, or whose success is held: file_overlap.c. */
struct file_overlap {
	struct reactor_msg msg;
	struct file_overlap *next; /* held; likewise the next two */
	struct reactor *reactor;   /* where `done` is called */
	void (*done)(struct reactor_msg *msg);
	uint64_t loss;       /* the latest one when the sync began */
	uint32_t generation; /* in which it began; held: which it waits for */
	int result;
	_Atomic bool is_cancelled;
};

/* The lock, what it was taken with, and what is known of the file: shared by a medium and those
 * that follow it over the same file. Control thread; what is atomic: any reactor. */
struct file_backing {
	unsigned refs;
	int fd; /* holds the lock */
	bool is_writable;
	bool was_buffered; /* by a medium over it: the page cache may have what hosts wrote */
	dev_t dev;         /* which file it is */
	ino_t inode;
	char device_id[MEDIA_DEVICE_ID_BYTES]; /* of a block device; as in its record */
	bool had_name;             /* when it was opened: it is not one that never had any */
	_Atomic bool is_missed;    /* it was seen to be deleted while it was served */
	_Atomic uint64_t loss;     /* see file_lasting.c: the latest one; 0: none */
	_Atomic uint64_t forgiven; /* the latest one that the administrator has seen to */
	bool has_loop;             /* a loop device was seen to have it; control thread */
	/* See file_overlap.c. */
	_Atomic uint64_t syncs; /* that run */
	struct file_overlap *_Atomic syncs_held;
	atomic_uint syncs_cancelled;
	int member; /* of the cluster that shares the file (media/member_lock.h); -1: ours alone */
};

struct file_media {
	struct media media;
	int fd; /* the backing's, unless it must be open in another way */
	bool is_block_device;
	bool may_exceed_size;          /* the file may be larger than size=, which is served */
	bool has_set_aside;            /* PATH.lost is what was there before */
	bool is_another;               /* than the one that was served last */
	bool is_buffered;              /* no direct I/O */
	bool may_have_dirty_pages;     /* it is buffered, or one before it over the file was */
	bool follows_size;             /* no size= was given: the file's own size counts */
	_Atomic bool lacks_zero_range; /* learnt from the first refusal; saves asking again */
	_Atomic bool lacks_nowait;     /* likewise: RWF_NOWAIT */
	/* A regular file that others made shorter while it is served: what is surely still there,
	 * and the smallest size seen; both UINT64_MAX while all is well. */
	_Atomic uint64_t cut_at_bytes;
	_Atomic uint64_t cut_seen_bytes;
	_Atomic uint64_t next_look_ns; /* when its size is looked at again */
	_Atomic bool has_written;      /* since it was last looked at */
	struct file_backing *backing;
	/* What opening it did, for media_undo. */
	bool has_created;
	bool is_stable;            /* media_sync has nothing to do */
	uint64_t grown_from_bytes; /* 0: has not */
};

extern const struct media_ops file_ops;

/* Entries of file_ops: see struct media_ops. */
bool file_get_record(const struct media *media, struct media_record *ret_record); /* file_open.c */
int file_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		struct media_error *ret_error);
bool file_is_current(const struct media *media);
void file_undo(struct media *media);
int file_member(const struct media *media);
int file_lock_fd(const struct media *media);
uint64_t file_used_bytes(struct media *media); /* file_size.c; likewise the next two */
bool file_is_cut(struct media *media);
bool file_problem(struct media *media, struct media_error *ret_problem);
bool file_is_another(const struct media *media); /* file_name.c; likewise the next two */
bool file_is_nameless(const struct media *media);
bool file_is_buffered(const struct media *media);
void file_note_served(struct media *media, const char *path, const struct media_record *known);
bool file_has_lost_writes(const struct media *media); /* file_lasting.c; likewise the next two */
uint64_t file_loss(const struct media *media);
void file_forgive(struct media *media);
int file_sync(struct media *const *media, unsigned count, struct media_error *ret_error);

/* file_open.c: finds out what the file of file->fd can do, and grows it to size=. */
int file_setup(struct file_media *file, const struct media_spec *spec,
	       struct media_error *ret_error);
/* Takes a rename to PATH.lost back. */
void file_put_back(const char *path);
/* file_reopen.c */
void file_backing_put(struct file_backing *backing);
/* file_size.c: looks at the size of the file; -EIO when it was cut short, now or before. */
int file_check_size(struct file_media *file);
/* Before a write: whether the file was cut short. Looks only once in a while, and where the write
 * would hide it. */
int file_check_write(struct file_media *file, const struct media_io *io);
/* file_name.c: which file or device it is, for the record. */
void file_identify(const struct file_media *file, struct media_record *ret_record);
/* True where that cannot be known, and of a block device. */
bool file_has_name(const struct file_media *file);
/* Somebody deleted it, or renamed another over it, since it was opened. */
bool file_is_deleted(const struct file_media *file);
/* What that means, and the remedy. */
const char *file_deleted_text(const struct file_media *file);
/* Compares a file with what was served last; of a block device see file_device_check. */
void file_note_known(struct file_media *file, const char *path, const struct media_record *known);
/* Before its last medium closes: says so when data go with it. */
void file_mourn(const struct file_media *file);
/* file_open.c: a queue attribute in sectors of 512 bytes; 0 where that many bytes are above 32
 * bits.
 */
uint32_t file_sectors_to_bytes(const char *text);
/* file_lasting.c: after a flush, or a write that was to be durable, ended with res. */
void file_note_lasting(struct file_media *file, int res);
/* Before one of these: -EIO when what it would promise is not true. */
int file_check_lasting(const struct file_media *file);
/* Control thread, blocks: fsync of file->fd, which hosts' flushes use too. What it hears of lost
 * writes counts as if a flush had. 0 or -errno. */
int file_fsync(struct file_media *file);
/* Control thread: another description is used from now on, and was opened already. What this one
 * has not told yet is noted; nothing is written back. */
void file_note_untold(struct file_media *file);
/* file_overlap.c, any thread: around each call that may take the kernel's word of lost writes. */
void file_overlap_begin(struct file_backing *backing, struct file_overlap *overlap);
/* overlap->result is what the kernel said, and a failure is noted. True: it is the result of the
 * sync now. False: the success is held; `done` comes on the reactor, with the result. */
bool file_overlap_end(struct file_backing *backing, struct file_overlap *overlap,
		      struct reactor *reactor, void (*done)(struct reactor_msg *msg));
/* The same where nobody waits for the result. */
void file_overlap_drop(struct file_backing *backing, struct file_overlap *overlap);
/* On the reactor of a sync that is held, or on its way to `done`: it waits no longer. */
void file_overlap_cancel(struct file_backing *backing, struct file_overlap *overlap);
/* The same file once more, with or without direct I/O: 0 or -errno. */
int file_set_direct(struct file_media *file, bool is_direct);

#endif
