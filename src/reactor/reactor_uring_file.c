/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File operations of the io_uring reactor: one SQE each, with the op's address as user_data.
 *
 * Runs on the owning reactor's thread. A cancel is a separate request whose completion is ignored.
 * Requests keep their order, so a cancel can only reach the intended operation, even if the caller
 * starts a new operation in the same memory right after `done`.
 */
#include "reactor/reactor_internal.h"

static struct io_uring_sqe *reactor_op_sqe(struct reactor *reactor, struct reactor_op *op)
{
	op->reactor = reactor;
	op->work = NULL;
	op->is_file = true;
	op->is_late = false;
	reactor->file_ops++;
	return reactor_sqe(reactor);
}

/* For operations that change the file. */
static void reactor_op_prepared(struct reactor_op *op, struct io_uring_sqe *sqe)
{
	io_uring_sqe_set_data(sqe, op);
	if (op->deadline_ns == 0)
		return;
	op->reactor->dated_ops++;
	/* This check catches retried operations. A request that waits for its first submit is
	 * checked at the submit (reactor_uring_ring.c). */
	if (op->reactor->now_ns > op->deadline_ns)
		reactor_sqe_drop(sqe);
}

void reactor_readv(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		   unsigned iov_count, uint64_t offset)
{
	struct io_uring_sqe *sqe = reactor_op_sqe(reactor, op);

	/* A single buffer saves the kernel the import of a vector. */
	if (iov_count == 1 && iov[0].iov_len <= INT32_MAX)
		io_uring_prep_read(sqe, fd, iov[0].iov_base, (unsigned)iov[0].iov_len, offset);
	else
		io_uring_prep_readv(sqe, fd, iov, iov_count, offset);
	io_uring_sqe_set_data(sqe, op);
}

void reactor_writev(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		    unsigned iov_count, uint64_t offset, int rw_flags)
{
	struct io_uring_sqe *sqe = reactor_op_sqe(reactor, op);

	if (iov_count == 1 && iov[0].iov_len <= INT32_MAX)
		io_uring_prep_write(sqe, fd, iov[0].iov_base, (unsigned)iov[0].iov_len, offset);
	else
		io_uring_prep_writev(sqe, fd, iov, iov_count, offset);
	sqe->rw_flags = rw_flags;
	reactor_op_prepared(op, sqe);
}

void reactor_fdatasync(struct reactor *reactor, struct reactor_op *op, int fd)
{
	struct io_uring_sqe *sqe = reactor_op_sqe(reactor, op);

	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	io_uring_sqe_set_data(sqe, op);
}

void reactor_fallocate(struct reactor *reactor, struct reactor_op *op, int fd, int mode,
		       uint64_t offset, uint64_t len_bytes)
{
	struct io_uring_sqe *sqe = reactor_op_sqe(reactor, op);

	io_uring_prep_fallocate(sqe, fd, mode, (off_t)offset, (off_t)len_bytes);
	reactor_op_prepared(op, sqe);
}

void reactor_op_cancel(struct reactor_op *op)
{
	reactor_check_thread(op->reactor);
	if (op->work)
		reactor_offload_cancel(op);
	else
		reactor_sqe_cancel(op->reactor, op);
}
