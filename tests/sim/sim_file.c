/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated reactor: files and offloaded work of reactor/reactor.h.
 *
 * File operations are the real system calls, made when they complete. Each counts as an operation
 * of its process when it is submitted. Operations pending when the process dies are not made. One
 * thread.
 */
#include "sim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum sim_file_kind {
	SIM_FILE_READV,
	SIM_FILE_WRITEV,
	SIM_FILE_FDATASYNC,
	SIM_FILE_FALLOCATE,
	SIM_FILE_OFFLOAD,
};

struct sim_file_op {
	enum sim_file_kind kind;
	struct reactor_op *op;
	int fd;
	const struct iovec *iov;
	unsigned iov_count;
	uint64_t offset;
	uint64_t len_bytes;
	int flags;
	bool is_cancelled;
};

/* A short read or write: a part of the first iovec only. */
static ssize_t file_op_short(struct sim *sim, const struct sim_file_op *file)
{
	struct iovec first = file->iov[0];

	first.iov_len = prng_below(&sim->prng, first.iov_len) + 1;
	if (file->kind == SIM_FILE_READV)
		return preadv2(file->fd, &first, 1, (off_t)file->offset, 0);
	return pwritev2(file->fd, &first, 1, (off_t)file->offset, file->flags);
}

static int file_op_perform(struct sim *sim, const struct sim_file_op *file)
{
	ssize_t res = 0;
	bool is_short = sim->options.file_short_one_in > 0 && file->iov_count > 0 &&
			file->iov[0].iov_len > 0 &&
			prng_one_in(&sim->prng, sim->options.file_short_one_in);

	switch (file->kind) {
	case SIM_FILE_READV:
		res = is_short ? file_op_short(sim, file)
			       : preadv2(file->fd, file->iov, (int)file->iov_count,
					 (off_t)file->offset, 0);
		break;
	case SIM_FILE_WRITEV:
		res = is_short ? file_op_short(sim, file)
			       : pwritev2(file->fd, file->iov, (int)file->iov_count,
					  (off_t)file->offset, file->flags);
		break;
	case SIM_FILE_FDATASYNC:
		res = fdatasync(file->fd);
		break;
	case SIM_FILE_FALLOCATE:
		res = fallocate(file->fd, file->flags, (off_t)file->offset, (off_t)file->len_bytes);
		break;
	case SIM_FILE_OFFLOAD:
		return file->op->work(file->op);
	}
	return res < 0 ? -errno : (int)res;
}

static void file_op_run(struct sim_event *event)
{
	struct sim_file_op *file = event->arg;
	struct reactor_op *op = file->op;
	struct sim *sim = event->reactor->sim;
	int res = file->is_cancelled ? -ECANCELED : file_op_perform(sim, file);

	op->private_bits = 0;
	sim->ops_under_way--;
	sim_trace(sim, "reactor %u: file operation %d on %d ends with %d", event->reactor->index,
		  (int)file->kind, file->fd, res);
	free(file);
	op->done(op, res);
}

static void file_op_drop(struct sim_event *event)
{
	event->reactor->sim->ops_under_way--;
	free(event->arg);
}

static void file_op_start(struct reactor *reactor, struct reactor_op *op,
			  const struct sim_file_op *args)
{
	struct sim *sim = reactor->sim;
	struct sim_file_op *file;
	struct sim_event *event;

	CHECK(reactor == reactor_current());
	op->reactor = reactor;
	op->private_bits = 0;
	if (!sim_process_operate(reactor->process))
		return;
	file = sim_alloc(sizeof(*file));
	*file = *args;
	file->op = op;
	file->is_cancelled = file->kind != SIM_FILE_READV && file->kind != SIM_FILE_FDATASYNC &&
			     op->deadline_ns != 0 && op->deadline_ns < reactor_clock_ns(reactor);
	op->private_bits = (uint64_t)(uintptr_t)file;
	sim->ops_under_way++;
	event = sim_event_add(sim, reactor,
			      sim->now_ns + sim_delay_ns(sim, sim->options.file_max_us),
			      file_op_run, file);
	event->drop = file_op_drop;
}

void reactor_readv(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		   unsigned iov_count, uint64_t offset)
{
	file_op_start(reactor, op,
		      &(struct sim_file_op){.kind = SIM_FILE_READV,
					    .fd = fd,
					    .iov = iov,
					    .iov_count = iov_count,
					    .offset = offset});
}

void reactor_writev(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		    unsigned iov_count, uint64_t offset, int rw_flags)
{
	file_op_start(reactor, op,
		      &(struct sim_file_op){.kind = SIM_FILE_WRITEV,
					    .fd = fd,
					    .iov = iov,
					    .iov_count = iov_count,
					    .offset = offset,
					    .flags = rw_flags});
}

void reactor_fdatasync(struct reactor *reactor, struct reactor_op *op, int fd)
{
	file_op_start(reactor, op, &(struct sim_file_op){.kind = SIM_FILE_FDATASYNC, .fd = fd});
}

void reactor_fallocate(struct reactor *reactor, struct reactor_op *op, int fd, int mode,
		       uint64_t offset, uint64_t len_bytes)
{
	file_op_start(reactor, op,
		      &(struct sim_file_op){.kind = SIM_FILE_FALLOCATE,
					    .fd = fd,
					    .flags = mode,
					    .offset = offset,
					    .len_bytes = len_bytes});
}

void reactor_offload(struct reactor *reactor, struct reactor_op *op,
		     int (*work)(struct reactor_op *op))
{
	op->work = work;
	file_op_start(reactor, op, &(struct sim_file_op){.kind = SIM_FILE_OFFLOAD, .fd = -1});
}

void reactor_op_cancel(struct reactor_op *op)
{
	struct sim_file_op *file = (struct sim_file_op *)(uintptr_t)op->private_bits;

	/* Half of the cancellations come too late. */
	if (file && prng_one_in(&op->reactor->sim->prng, 2))
		file->is_cancelled = true;
}
