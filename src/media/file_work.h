/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation of the file medium: its context, and its turn. Private to file.c and file_turns.c.
 *
 * An operation that blocks in its store keeps a worker of the ring until the store answers, and all
 * stores of the reactor share REACTOR_WORKERS_MAX workers and a few helper threads. Therefore
 * operations wait for their turn: each medium always has a few, and borrows more while the
 * reactor's sum is small. A store that hangs cannot take the workers from other stores.
 */
#ifndef WEFT_MEDIA_FILE_WORK_H
#define WEFT_MEDIA_FILE_WORK_H

#include "media/file.h"

enum file_stage {
	FILE_TRANSFER,   /* READ, WRITE */
	FILE_SYNC,       /* FLUSH, and the last stage of zeroing with FUA */
	FILE_PUNCH,      /* WRITE_ZEROES: tried first when the space may be released */
	FILE_ZERO_RANGE, /* WRITE_ZEROES: tried otherwise */
	FILE_ZERO_WRITE, /* WRITE_ZEROES: where neither is supported */
	FILE_DISCARD,
	FILE_EXTENTS,
	FILE_HELD,    /* the sync succeeded; overlapping syncs are still running */
	FILE_WAITING, /* for its turn */
};

struct file_lane {
	struct list node;    /* in a list of the reactor while operations wait */
	struct list waiting; /* operations that the kernel has not got yet */
	unsigned busy;       /* operations at the kernel */
};

/* The context of an operation. */
struct file_work {
	union {
		struct reactor_op op;
		struct list node; /* FILE_WAITING, or waits_for_help */
	};
	uint64_t progress_bytes;
	struct iovec rest;      /* the rest of a short transfer in one iov entry */
	uint8_t stage;          /* enum file_stage */
	bool is_nowait;         /* the ring operation in flight uses RWF_NOWAIT */
	bool waits_for_help;    /* in the list of struct file_turns */
	bool is_helped;         /* at a helper of the reactor */
	int result;             /* -ECANCELED once the operation is cancelled */
	struct file_lane *lane; /* NULL: a direct read, or memory ran out: not counted */
	struct file_overlap overlap;
};
MEDIA_IO_FITS(struct file_work);

static inline struct file_work *work_of(const struct media_io *io)
{
	return (struct file_work *)(void *)io->context;
}

static inline struct media_io *io_of(struct reactor_op *op)
{
	return container_of(container_of(op, struct file_work, op), struct media_io, context);
}

static inline struct file_media *file_of(const struct media_io *io)
{
	return container_of(io->media, struct file_media, media);
}

/* Not for direct reads, which need no worker. False: file_begin is called when others have ended.
 */
bool file_take_turn(struct media_io *io);
/* FILE_WAITING: the operation does not begin any more. */
void file_leave_turn(struct media_io *io);
/* Of an operation with a lane: calls io->done, and begins others. The medium may be gone
 * afterwards. */
void file_end_turn(struct media_io *io, int res);
/* Not for READ. Has a helper thread of the reactor do file_call. */
void file_help(struct media_io *io);
/* After a call with is_helped. */
void file_helped(struct media_io *io);
/* No operation is in flight. */
void file_turns_free(struct file_media *file);

/* Ends an operation that has begun. */
static inline void file_end(struct media_io *io, int res)
{
	if (work_of(io)->lane)
		file_end_turn(io, res);
	else
		io->done(io, res);
}

/* file.c */
void file_begin(struct media_io *io);
void file_prepare_op(struct media_io *io);
/* Helper thread: the call of the present stage. */
int file_call(struct reactor_op *op);

#endif
