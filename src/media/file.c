/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O of the file medium: regular files and block devices, through the submitter's ring.
 *
 * Any reactor. READ and WRITE are transfers: one ring operation, or more after a short one. All
 * other kinds are a chain of stages. The progress is kept in struct file_work; file_turns.c decides
 * when an operation begins. FLUSH is fdatasync. FUA is RWF_DSYNC, or a following fdatasync for
 * zeroes; also with direct I/O, because the drive may cache.
 *
 * The ring's own workers never write to a file that other processes serve too: a stopped process
 * stops its workers, which would write late when it continues. Calls that would block (RWF_NOWAIT)
 * go to the reactor's helper, which checks the deadline right before the call.
 *
 * A block written while it is read: direct I/O gives the drive one request per block. Buffered I/O
 * locks the inode for writes, but on most file systems not for reads, so two reactors may see a
 * torn block.
 */
#include "media/file_work.h"

#include "media/extents.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ZERO_REGION_BYTES (64 * 1024)

/* Never written; shared by all reactors. */
static uint8_t zero_region[ZERO_REGION_BYTES] __attribute__((aligned(4096)));

/* The rest of the entry of io->iov that progress_bytes points into. */
static struct iovec file_rest(const struct media_io *io)
{
	uint64_t skip = work_of(io)->progress_bytes;
	unsigned i = 0;

	while (i < io->iov_count && skip >= io->iov[i].iov_len)
		skip -= io->iov[i++].iov_len;
	CHECK(i < io->iov_count);
	return (struct iovec){
		.iov_base = (uint8_t *)io->iov[i].iov_base + skip,
		.iov_len = io->iov[i].iov_len - skip,
	};
}

/* Whether the operation has a deadline: another process may have taken over after the deadline. */
static bool file_is_dated(const struct media_io *io)
{
	return io->deadline_ns != 0 && file_of(io)->backing->member >= 0;
}

static int file_write_flags(const struct media_io *io)
{
	return work_of(io)->stage == FILE_TRANSFER && io->is_fua ? RWF_DSYNC : 0;
}

/* Whether the operation of the present stage may consume the kernel's report of lost writes. A
 * durable write consumes the report like a flush. With direct I/O alone, only the write itself can
 * be lost, so the report does not matter. Not for READ. */
static bool file_is_sync(const struct media_io *io)
{
	return work_of(io)->stage == FILE_SYNC ||
	       (io->is_fua && work_of(io)->stage == FILE_TRANSFER &&
		file_of(io)->may_have_dirty_pages);
}

/* Helper thread. */
static int file_write_blocking(struct reactor_op *op)
{
	const struct media_io *io = io_of(op);
	bool is_first = work_of(io)->stage == FILE_TRANSFER && work_of(io)->progress_bytes == 0;
	ssize_t res =
		pwritev2(file_of(io)->fd, is_first ? io->iov : &work_of(io)->rest,
			 is_first ? (int)io->iov_count : 1,
			 (off_t)(io->offset + work_of(io)->progress_bytes), file_write_flags(io));

	return res < 0 ? -errno : (int)res;
}

static void file_write(struct media_io *io, const struct iovec *iov, unsigned count)
{
	struct file_media *file = file_of(io);
	int flags = file_write_flags(io);

	if (file_is_sync(io))
		file_overlap_begin(file->backing, &work_of(io)->overlap);
	work_of(io)->is_nowait = file_is_dated(io) && !file->lacks_nowait;
	if (!file_is_dated(io))
		reactor_writev(io->reactor, &work_of(io)->op, file->fd, iov, count,
			       io->offset + work_of(io)->progress_bytes, flags);
	else if (!work_of(io)->is_nowait)
		file_help(io);
	else
		reactor_writev(io->reactor, &work_of(io)->op, file->fd, iov, count,
			       io->offset + work_of(io)->progress_bytes, flags | RWF_NOWAIT);
}

/*
 * Not for READ. After a write with a deadline was refused: hands the write to the helper and
 * returns true. Decides by the flags of this write, not by lacks_nowait, because many writes are in
 * flight when the first is refused. A file system without RWF_NOWAIT refuses with EOPNOTSUPP,
 * generic_write_checks of the kernel with EINVAL (buffered writes). Where EINVAL has another cause,
 * the helper gets EINVAL again.
 */
static bool file_write_again(struct media_io *io, int res)
{
	bool is_write =
		work_of(io)->stage == FILE_TRANSFER || work_of(io)->stage == FILE_ZERO_WRITE;
	bool is_refused = work_of(io)->is_nowait && (res == -EOPNOTSUPP || res == -EINVAL);

	if (!is_write || !file_is_dated(io) || work_of(io)->result < 0)
		return false;
	if (is_refused)
		file_of(io)->lacks_nowait = true;
	else if (res != -EAGAIN)
		return false;
	work_of(io)->is_nowait = false;
	file_help(io);
	return true;
}

/* The first attempt takes all of iov. After a short transfer, each attempt takes one entry. */
static void file_transfer(struct media_io *io)
{
	const struct iovec *iov = io->iov;
	unsigned count = io->iov_count;

	if (work_of(io)->progress_bytes > 0) {
		work_of(io)->rest = file_rest(io);
		iov = &work_of(io)->rest;
		count = 1;
	}
	if (io->kind == MEDIA_READ)
		reactor_readv(io->reactor, &work_of(io)->op, file_of(io)->fd, iov, count,
			      io->offset + work_of(io)->progress_bytes);
	else
		file_write(io, iov, count);
}

static void file_zero_write(struct media_io *io)
{
	uint64_t left = io->len_bytes - work_of(io)->progress_bytes;

	work_of(io)->rest.iov_base = zero_region;
	work_of(io)->rest.iov_len = left < ZERO_REGION_BYTES ? left : ZERO_REGION_BYTES;
	file_write(io, &work_of(io)->rest, 1);
}

/* Helper thread: the supported kernels have no ring operation for BLKDISCARD. */
static int file_block_discard(struct reactor_op *op)
{
	const struct media_io *io = io_of(op);
	uint64_t range[2] = {io->offset, io->len_bytes};

	return ioctl(file_of(io)->fd, BLKDISCARD, range) < 0 ? -errno : 0;
}

static int file_fallocate_mode(const struct media_io *io)
{
	return FALLOC_FL_KEEP_SIZE | (work_of(io)->stage == FILE_ZERO_RANGE ? FALLOC_FL_ZERO_RANGE
									    : FALLOC_FL_PUNCH_HOLE);
}

/* Helper thread. */
static int file_fallocate_blocking(struct reactor_op *op)
{
	const struct media_io *io = io_of(op);
	int res = fallocate(file_of(io)->fd, file_fallocate_mode(io), (off_t)io->offset,
			    (off_t)io->len_bytes);

	return res < 0 ? -errno : 0;
}

/* The ring always runs fallocate on its workers. */
static void file_fallocate(struct media_io *io)
{
	if (file_is_dated(io))
		file_help(io);
	else
		reactor_fallocate(io->reactor, &work_of(io)->op, file_of(io)->fd,
				  file_fallocate_mode(io), io->offset, io->len_bytes);
}

/* Helper thread. */
static int file_extents_blocking(struct reactor_op *op)
{
	struct media_io *io = io_of(op);

	return extents_of_file(io, file_of(io)->fd);
}

static void file_transfer_done(struct reactor_op *op, int res);
static void file_op_done(struct reactor_op *op, int res);

void file_prepare_op(struct media_io *io)
{
	bool is_transfer = io->kind == MEDIA_READ || io->kind == MEDIA_WRITE;

	work_of(io)->op.done = is_transfer ? file_transfer_done : file_op_done;
	work_of(io)->op.deadline_ns = io->deadline_ns;
}

int file_call(struct reactor_op *op)
{
	switch (work_of(io_of(op))->stage) {
	case FILE_EXTENTS:
		return file_extents_blocking(op);
	case FILE_DISCARD:
		if (file_of(io_of(op))->is_block_device)
			return file_block_discard(op);
		return file_fallocate_blocking(op);
	case FILE_PUNCH:
	case FILE_ZERO_RANGE:
		return file_fallocate_blocking(op);
	default:
		return file_write_blocking(op);
	}
}

/* ---- the end of a ring operation ------------------------------------------------------------ */

static bool is_interrupted(int res)
{
	return res == -EINTR || res == -EAGAIN;
}

static void file_let_go(struct reactor_msg *msg);

/* After an operation that may have consumed the kernel's report of lost writes. False: the result
 * is held until overlapping syncs have ended; file_let_go is called then. */
static bool file_sync_end(struct media_io *io, int *res)
{
	struct file_work *work = work_of(io);

	file_note_lasting(file_of(io), *res);
	work->overlap.result = *res;
	if (!file_overlap_end(file_of(io)->backing, &work->overlap, io->reactor, file_let_go)) {
		work->stage = FILE_HELD;
		return false;
	}
	*res = work->overlap.result;
	return true;
}

/* Accounts for res bytes of a transfer or of a write of zeroes. True: everything is done. False:
 * the rest was started, or io has ended. */
static bool file_progress(struct media_io *io, int res)
{
	struct file_work *work = work_of(io);

	if (is_interrupted(res)) {
		/* Repeated, unless it is a cancelled operation that a signal has ended. */
		res = work->result;
	} else if (res == 0 ||
		   (res == -EINVAL && work->progress_bytes % io->media->block_bytes != 0)) {
		/* No bytes moved: the file shrank under us, or the device is gone. Likewise when
		 * direct I/O gives EINVAL because the transfer stopped inside a block. */
		file_check_size(file_of(io));
		res = -EIO;
	}
	/* A device that was removed refuses with any error; ENOSPC means its end, not a full
	 * disk. */
	if (res < 0 && file_of(io)->is_block_device && file_check_size(file_of(io)) < 0)
		res = -EIO;
	if (res >= 0) {
		work->progress_bytes += (uint64_t)res;
		if (work->progress_bytes >= io->len_bytes)
			return true;
		/* A cancel between two ring operations finds nothing in flight. */
		res = work->result;
	}
	if (res < 0)
		file_end(io, res);
	else if (work->stage == FILE_TRANSFER)
		file_transfer(io);
	else
		file_zero_write(io);
	return false;
}

static void file_transfer_done(struct reactor_op *op, int res)
{
	struct media_io *io = io_of(op);

	if (work_of(io)->is_helped)
		file_helped(io);
	if (io->kind == MEDIA_WRITE &&
	    (file_write_again(io, res) || (file_is_sync(io) && !file_sync_end(io, &res))))
		return;
	if (file_progress(io, res))
		file_end(io, 0);
}

/* ---- chains of stages ----------------------------------------------------------------------- */

/* Starts or restarts the operation of a stage; ends io when it was cancelled. */
static void file_go(struct media_io *io, enum file_stage stage)
{
	struct file_work *work = work_of(io);
	struct file_media *file = file_of(io);

	/* A cancel between two stages finds nothing in flight. */
	if (work->result < 0) {
		file_end(io, work->result);
		return;
	}
	work->stage = stage;
	switch (stage) {
	case FILE_SYNC:
		file_overlap_begin(file->backing, &work->overlap);
		reactor_fdatasync(io->reactor, &work->op, file->fd);
		return;
	case FILE_ZERO_WRITE:
		file_zero_write(io);
		return;
	case FILE_EXTENTS:
		file_help(io);
		return;
	case FILE_DISCARD:
		if (file->is_block_device) {
			file_help(io);
			return;
		}
		__attribute__((fallthrough));
	case FILE_PUNCH:
	case FILE_ZERO_RANGE:
		file_fallocate(io);
		return;
	case FILE_TRANSFER:
	case FILE_HELD:
	case FILE_WAITING:
		CHECK(!"not a stage of a chain");
	}
}

static bool is_unsupported(int res)
{
	return res == -EOPNOTSUPP || res == -ENOSYS;
}

static void file_zeroed(struct media_io *io)
{
	if (io->is_fua)
		file_go(io, FILE_SYNC);
	else
		file_end(io, 0);
}

static void file_zero_range_done(struct media_io *io, int res)
{
	struct file_media *file = file_of(io);

	if (res == 0) {
		file_zeroed(io);
	} else if (!is_unsupported(res)) {
		file_end(io, res);
	} else if (work_of(io)->stage == FILE_PUNCH && !file->lacks_zero_range) {
		file_go(io, FILE_ZERO_RANGE);
	} else {
		if (work_of(io)->stage == FILE_ZERO_RANGE)
			file->lacks_zero_range = true;
		file_go(io, FILE_ZERO_WRITE);
	}
}

static void file_stage_done(struct media_io *io, int res)
{
	if (is_interrupted(res)) {
		/* A cancelled operation may end by a signal; do not restart the operation. */
		if (work_of(io)->result == 0) {
			file_go(io, work_of(io)->stage);
			return;
		}
		res = work_of(io)->result;
	}
	switch (work_of(io)->stage) {
	case FILE_ZERO_WRITE:
		if (file_progress(io, res))
			file_zeroed(io);
		return;
	case FILE_PUNCH:
	case FILE_ZERO_RANGE:
		file_zero_range_done(io, res);
		return;
	case FILE_DISCARD:
		file_end(io, is_unsupported(res) ? 0 : res);
		return;
	case FILE_SYNC:
	case FILE_EXTENTS:
		file_end(io, res);
		return;
	case FILE_TRANSFER:
	case FILE_HELD:
	case FILE_WAITING:
		CHECK(!"not a stage of a chain");
	}
}

static void file_op_done(struct reactor_op *op, int res)
{
	struct media_io *io = io_of(op);

	if (work_of(io)->is_helped)
		file_helped(io);
	if (file_write_again(io, res) || (file_is_sync(io) && !file_sync_end(io, &res)))
		return;
	file_stage_done(io, res);
}

static void file_let_go(struct reactor_msg *msg)
{
	struct file_work *work = container_of(msg, struct file_work, overlap.msg);
	struct media_io *io = io_of(&work->op);

	work->stage = io->kind == MEDIA_WRITE ? FILE_TRANSFER : FILE_SYNC;
	if (work->stage == FILE_SYNC)
		file_stage_done(io, work->overlap.result);
	else if (file_progress(io, work->overlap.result))
		file_end(io, 0);
}

/* Not for READ and WRITE. */
static void file_go_first(struct media_io *io)
{
	switch (io->kind) {
	case MEDIA_FLUSH:
		file_go(io, FILE_SYNC);
		return;
	case MEDIA_DISCARD:
		file_go(io, FILE_DISCARD);
		return;
	case MEDIA_EXTENTS:
		file_go(io, FILE_EXTENTS);
		return;
	case MEDIA_WRITE_ZEROES:
		if (io->may_discard)
			file_go(io, FILE_PUNCH);
		else if (file_of(io)->lacks_zero_range)
			file_go(io, FILE_ZERO_WRITE);
		else
			file_go(io, FILE_ZERO_RANGE);
		return;
	case MEDIA_READ:
	case MEDIA_WRITE:
		CHECK(!"a transfer is not a chain of stages");
	}
}

/* ---- submit, cancel, close ------------------------------------------------------------------ */

void file_begin(struct media_io *io)
{
	struct file_work *work = work_of(io);
	bool is_transfer = io->kind == MEDIA_READ || io->kind == MEDIA_WRITE;

	work->progress_bytes = 0;
	work->waits_for_help = false;
	work->is_helped = false;
	file_prepare_op(io);
	if (is_transfer) {
		work->stage = FILE_TRANSFER;
		file_transfer(io);
	} else {
		file_go_first(io);
	}
}

static void file_submit(struct media_io *io)
{
	struct file_media *file = file_of(io);
	struct file_work *work = work_of(io);
	int res = io->kind == MEDIA_FLUSH || io->is_fua ? file_check_lasting(file) : 0;

	if (io->kind == MEDIA_READ) {
		/* Reads of the intact part of a cut file succeed. */
		if (io->offset + io->len_bytes >
		    atomic_load_explicit(&file->cut_at_bytes, memory_order_relaxed))
			res = -EIO;
	} else if (res == 0 && io->kind == MEDIA_FLUSH) {
		/* A flush promises that data is durable, so a flush always checks the size. */
		res = io->media->is_read_only ? 0 : file_check_size(file);
	} else if (res == 0 && io->kind != MEDIA_EXTENTS) {
		/* A write behind the new end of a cut file would extend the file, with a hole where
		 * data was, and hide the loss. */
		res = file_check_write(file, io);
	}
	if (res < 0) {
		io->done(io, res);
		return;
	}
	work->result = 0;
	work->lane = NULL;
	if ((io->kind == MEDIA_READ && !file->is_buffered) || file_take_turn(io))
		file_begin(io);
}

static void file_cancel(struct media_io *io)
{
	struct file_work *work = work_of(io);

	if (work->stage == FILE_WAITING) {
		file_leave_turn(io);
		io->done(io, -ECANCELED);
		return;
	}
	work->result = -ECANCELED;
	if (work->waits_for_help) {
		list_remove(&work->node);
		work->waits_for_help = false;
		file_prepare_op(io);
		work->op.done(&work->op, -ECANCELED);
		return;
	}
	if (work->stage == FILE_HELD)
		file_overlap_cancel(file_of(io)->backing, &work->overlap);
	else
		reactor_op_cancel(&work->op);
}

static void file_close(struct media *media)
{
	struct file_media *file = container_of(media, struct file_media, media);

	file_turns_free(file);
	if (file->backing->refs == 1)
		file_mourn(file);
	if (file->fd != file->backing->fd)
		close(file->fd);
	file_backing_put(file->backing);
	free(file);
}

const struct media_ops file_ops = {
	.name = "file",
	.submit = file_submit,
	.cancel = file_cancel,
	.close = file_close,
	.reopen = file_reopen,
	.sync = file_sync,
	.undo = file_undo,
	.is_current = file_is_current,
	.get_record = file_get_record,
	.is_another = file_is_another,
	.is_nameless = file_is_nameless,
	.is_buffered = file_is_buffered,
	.note_known = file_note_served,
	.member = file_member,
	.lock_fd = file_lock_fd,
	.used_bytes = file_used_bytes,
	.problem = file_problem,
	.is_cut = file_is_cut,
	.has_lost_writes = file_has_lost_writes,
	.loss = file_loss,
	.forgive = file_forgive,
};
