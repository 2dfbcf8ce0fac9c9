/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the file_*.c of the file medium: file_open.c finds out on the control thread what a
 * file can do, file.c does I/O on reactors. Immutable after opening, except the atomics.
 */
#ifndef WEFT_MEDIA_FILE_H
#define WEFT_MEDIA_FILE_H

#include "media/media.h"

#include <stdatomic.h>
#include <sys/types.h>

/* A sync that is running, or whose success is held. See file_overlap.c. */
struct file_overlap {
	struct reactor_msg msg;
	struct file_overlap *next; /* used while held; also reactor and done */
	struct reactor *reactor;   /* where `done` is called */
	void (*done)(struct reactor_msg *msg);
	uint64_t loss;       /* the latest loss when the sync began */
	uint32_t generation; /* in which the sync began; while held: the generation to wait for */
	int result;
	_Atomic bool is_cancelled;
};

/* The lock of a file and what is known of the file. Shared by a medium and the media reopened over
 * the same file. Control thread; the atomics: any reactor. */
struct file_backing {
	unsigned refs;
	int fd; /* holds the lock */
	bool is_writable;
	bool was_buffered; /* a medium used buffered I/O: the page cache may have host data */
	dev_t dev;         /* identifies the file */
	ino_t inode;
	char device_id[MEDIA_DEVICE_ID_BYTES]; /* identity of a block device, as in its record */
	bool had_name;                         /* the file had a name at opening */
	_Atomic bool is_missed;                /* the file was found deleted while served */
	_Atomic uint64_t loss;     /* number of the latest loss, see file_lasting.c; 0: none */
	_Atomic uint64_t forgiven; /* number of the latest loss that was forgiven */
	bool has_loop; /* a loop device was found attached to the file; control thread */
	/* See file_overlap.c. */
	_Atomic uint64_t syncs; /* running syncs by generation */
	struct file_overlap *_Atomic syncs_held;
	atomic_uint syncs_cancelled;
	/* Member number in the cluster that shares the file (media/member_lock.h). -1: not
	 * shared. */
	int member;
	bool may_exceed_size; /* the file may be larger than size=; only size= is served */
};

/* What became of a file that opening created or grew. Set once: the first one counts. */
enum file_made {
	FILE_MADE,    /* no host has written to it */
	FILE_WRITTEN, /* a write began that file_undo would destroy */
	FILE_UNDONE,  /* file_undo takes it away: writes fail */
};

struct file_media {
	struct media media;
	int fd; /* backing->fd, or one of its own that differs in O_DIRECT */
	bool is_block_device;
	bool has_set_aside; /* the old file was renamed to PATH.lost */
	bool is_another;    /* the file is not the one that was served last */
	bool is_buffered;   /* no direct I/O */
	/* I/O is buffered, or an earlier medium over the file used buffered I/O. */
	bool may_have_dirty_pages;
	bool follows_size;             /* no size= was given: the size of the file counts */
	_Atomic bool lacks_zero_range; /* set at the first refusal, to skip later attempts */
	_Atomic bool lacks_nowait;     /* set when RWF_NOWAIT was refused */
	/* Of a regular file that was cut short while served: the end of the part that is certainly
	 * intact, and the smallest size seen. Both UINT64_MAX while the file is intact. */
	_Atomic uint64_t cut_at_bytes;
	_Atomic uint64_t cut_seen_bytes;
	_Atomic uint64_t grown_to_bytes; /* a larger size of the store, as told; 0: none */
	_Atomic uint64_t next_look_ns;   /* time of the next check of the size */
	_Atomic bool has_written;        /* since the last check of the size */
	struct file_backing *backing;
	struct file_turns *_Atomic turns; /* owned by file.c */
	/* What opening did to the file, for media_undo; constant while the medium is served. */
	bool has_created;
	bool is_stable;            /* media_sync has nothing to do */
	uint64_t grown_from_bytes; /* 0: not grown */
	_Atomic unsigned made;     /* enum file_made */
};

extern const struct media_ops file_ops;

/* Entries of file_ops: see struct media_ops. */
bool file_get_record(const struct media *media, struct media_record *ret_record); /* file_open.c */
int file_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		struct media_error *ret_error);
bool file_is_current(const struct media *media);
bool file_undo(struct media *media);
int file_member(const struct media *media);
int file_lock_fd(const struct media *media);
uint64_t file_used_bytes(struct media *media); /* file_size.c; also the next two */
bool file_is_cut(struct media *media);
bool file_problem(struct media *media, struct media_error *ret_problem);
bool file_is_another(const struct media *media); /* file_name.c; also the next three */
bool file_is_nameless(const struct media *media);
bool file_is_buffered(const struct media *media);
void file_note_served(struct media *media, const char *path, const struct media_record *known);
bool file_has_lost_writes(const struct media *media); /* file_lasting.c; also the next two */
uint64_t file_loss(const struct media *media);
void file_forgive(struct media *media);
int file_sync(struct media *const *media, unsigned count, struct media_error *ret_error);

/* file_open.c: finds out what the file at file->fd can do, and grows the file to size=. */
int file_setup(struct file_media *file, const struct media_spec *spec,
	       struct media_error *ret_error);
/* Renames PATH.lost back to PATH. */
void file_put_back(const char *path);
/* file_reopen.c: drops a reference. The last one closes the descriptor and releases the lock. */
void file_backing_put(struct file_backing *backing);
/* file_size.c: checks the size of the file now. -EIO when the file was cut short, now or before. */
int file_check_size(struct file_media *file);
/* Before a write: -EIO when the file was cut short. Checks the size once per interval, and before a
 * write that could hide a cut. */
int file_check_write(struct file_media *file, const struct media_io *io);
/* file_name.c: adds the identity of the file or device to the record. */
void file_identify(const struct file_media *file, struct media_record *ret_record);
/* False: the file was deleted. True also when unknown, and for a block device. */
bool file_has_name(const struct file_media *file);
/* Whether the file was deleted, or another renamed over it, since it was opened. Logs the first
 * time. */
bool file_is_deleted(const struct file_media *file);
/* Explains a deleted file and the remedy, for the log and for media_problem. */
const char *file_deleted_text(const struct file_media *file);
/* Compares the file with the one served last and sets is_another. For block devices see
 * file_device_check. */
void file_note_known(struct file_media *file, const char *path, const struct media_record *known);
/* Before the last medium over the file is closed: logs an error when the file was deleted and its
 * data are lost with this close. */
void file_mourn(const struct file_media *file);
/* file_open.c: converts a queue attribute in sectors of 512 bytes to bytes. 0 when the result
 * exceeds 32 bits. */
uint32_t file_sectors_to_bytes(const char *text);
/* file_lasting.c: records the result of a flush or a durable write. */
void file_note_lasting(struct file_media *file, int res);
/* Before a flush or a durable write: -EIO while a loss is not forgiven. */
int file_check_lasting(const struct file_media *file);
/* fsync of file->fd, which hosts' flushes also use. A failure counts as a failed flush. Control
 * thread, blocks. 0 or -errno. */
int file_fsync(struct file_media *file);
/* Control thread: picks up write errors that the kernel has not yet reported to this description,
 * after a replacement description was opened. Writes nothing back. */
void file_note_untold(struct file_media *file);
/* file_overlap.c, any thread: call before each call that may consume the kernel's report of lost
 * writes. */
void file_overlap_begin(struct file_backing *backing, struct file_overlap *overlap);
/* Call after the sync, with its result in overlap->result and a failure already recorded by
 * file_note_lasting. True: overlap->result is final. False: the success is held, and `done` is
 * called later on the reactor with the result in overlap->result. */
bool file_overlap_end(struct file_backing *backing, struct file_overlap *overlap,
		      struct reactor *reactor, void (*done)(struct reactor_msg *msg));
/* As file_overlap_end, for a sync whose result has no receiver. */
void file_overlap_drop(struct file_backing *backing, struct file_overlap *overlap);
/* On the reactor of a sync that is held, or whose `done` is already posted: stops waiting, and the
 * result becomes -ECANCELED. */
void file_overlap_cancel(struct file_backing *backing, struct file_overlap *overlap);
/* file_reopen.c: switches direct I/O of file->fd on or off, by a second description of the file
 * when the first is shared. 0 or -errno. */
int file_set_direct(struct file_media *file, bool is_direct);

#endif
