/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring: getting an SQE, submitting, waiting, reaping.
 *
 * Runs on the reactor's thread. No request is lost: a full submission queue is submitted at once.
 * When the kernel takes nothing (or before reactor_run, when the ring is disabled), requests queue
 * in a backlog that keeps their order, on which cancels rely. An overflowed CQ is flushed by
 * entering the kernel, which every flush and wait below does when flagged.
 *
 * A process may be stopped in the middle of a turn and continue much later. Requests with a
 * deadline that have not reached the kernel by then must not be executed, so the clock is read once
 * before every submit of such requests.
 */
#include "base/clock.h"
#include "reactor/reactor_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct io_uring_sqe *reactor_backlog_sqe(struct reactor *reactor)
{
	struct reactor_backlog *last = reactor->backlog_last;

	if (!last || last->count == REACTOR_BACKLOG_ENTRIES) {
		struct reactor_backlog *more = calloc(1, sizeof(*more));

		/* The backlog grows only before reactor_run and when the kernel is out of
		 * memory. */
		CHECK(more);
		if (last)
			last->next = more;
		else
			reactor->backlog_first = more;
		reactor->backlog_last = more;
		last = more;
	}
	return &last->sqes[last->count++];
}

/* After a submit: checks the result, and notes whether requests were left behind. Their deadlines
 * may pass before the next submit. */
static void reactor_ring_submitted(struct reactor *reactor, int res)
{
	reactor->has_left = io_uring_sq_ready(&reactor->ring) > 0;
	/* Temporary shortages are retried in the next turn. Any other error is a bug in weft. */
	CHECK(res >= 0 || res == -ETIME || res == -EINTR || res == -EAGAIN || res == -EBUSY ||
	      res == -ENOMEM);
}

/* ---- requests that are too late ------------------------------------------------------------- */

void reactor_sqe_drop(struct io_uring_sqe *sqe)
{
	struct reactor_op *op = (struct reactor_op *)(uintptr_t)sqe->user_data;

	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, op);
	op->is_late = true;
}

static bool is_late(const struct io_uring_sqe *sqe, uint64_t now_ns)
{
	const struct reactor_op *op;

	if (sqe->opcode != IORING_OP_WRITE && sqe->opcode != IORING_OP_WRITEV &&
	    sqe->opcode != IORING_OP_FALLOCATE)
		return false;
	op = (const struct reactor_op *)(uintptr_t)sqe->user_data;
	return op->deadline_ns != 0 && op->deadline_ns < now_ns;
}

/* Called right before a submit. Requests that the kernel has not taken are between its head and our
 * tail. */
static void reactor_ring_drop_late(struct reactor *reactor)
{
	const struct io_uring_sq *sq = &reactor->ring.sq;
	uint64_t now_ns;

	if (reactor->dated_ops == 0 && !reactor->has_left)
		return;
	reactor->dated_ops = 0;
	now_ns = clock_monotonic_ns();
	/* Requests of this turn were checked when they were made. */
	if (!reactor->has_left && now_ns - reactor->now_ns < REACTOR_LATE_NS)
		return;
	for (unsigned at = *sq->khead; at != sq->sqe_tail; at++) {
		struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];

		if (is_late(sqe, now_ns))
			reactor_sqe_drop(sqe);
	}
}

static struct io_uring_sqe *reactor_ring_sqe(struct reactor *reactor)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&reactor->ring);

	if (sqe)
		return sqe;
	reactor_ring_drop_late(reactor);
	reactor_ring_submitted(reactor, io_uring_submit(&reactor->ring));
	return io_uring_get_sqe(&reactor->ring);
}

struct io_uring_sqe *reactor_sqe(struct reactor *reactor)
{
	struct io_uring_sqe *sqe = NULL;

	reactor_check_thread(reactor);
	if (!reactor->backlog_first &&
	    atomic_load_explicit(&reactor->running, memory_order_relaxed))
		sqe = reactor_ring_sqe(reactor);
	return sqe ? sqe : reactor_backlog_sqe(reactor);
}

void reactor_sqe_cancel(struct reactor *reactor, struct reactor_op *op)
{
	struct io_uring_sqe *sqe = reactor_sqe(reactor);

	io_uring_prep_cancel(sqe, op, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

void reactor_backlog_drain(struct reactor *reactor)
{
	while (reactor->backlog_first) {
		struct reactor_backlog *first = reactor->backlog_first;

		while (first->head < first->count) {
			struct io_uring_sqe *sqe = reactor_ring_sqe(reactor);

			if (!sqe)
				return;
			memcpy(sqe, &first->sqes[first->head++], sizeof(*sqe));
			if (is_late(sqe, reactor->now_ns))
				reactor_sqe_drop(sqe);
		}
		reactor->backlog_first = first->next;
		if (!first->next)
			reactor->backlog_last = NULL;
		free(first);
	}
}

void reactor_backlog_free(struct reactor *reactor)
{
	while (reactor->backlog_first) {
		struct reactor_backlog *first = reactor->backlog_first;

		reactor->backlog_first = first->next;
		free(first);
	}
	reactor->backlog_last = NULL;
}

static bool reactor_ring_is_flagged(const struct reactor *reactor)
{
	return IO_URING_READ_ONCE(*reactor->ring.sq.kflags) &
	       (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

void reactor_ring_flush(struct reactor *reactor)
{
	reactor_ring_drop_late(reactor);
	if (reactor_ring_is_flagged(reactor))
		reactor_ring_submitted(reactor, io_uring_submit_and_get_events(&reactor->ring));
	else if (io_uring_sq_ready(&reactor->ring) > 0)
		reactor_ring_submitted(reactor, io_uring_submit(&reactor->ring));
}

void reactor_ring_wait(struct reactor *reactor, uint64_t timeout_ns)
{
	struct __kernel_timespec limit = {
		.tv_sec = (long long)(timeout_ns / NS_PER_S),
		.tv_nsec = (long long)(timeout_ns % NS_PER_S),
	};
	struct io_uring_cqe *cqe;

	reactor_ring_drop_late(reactor);
	reactor_ring_submitted(reactor, io_uring_submit_and_wait_timeout(
						&reactor->ring, &cqe, 1,
						timeout_ns == UINT64_MAX ? NULL : &limit, NULL));
}

void reactor_ring_reap(struct reactor *reactor)
{
	struct io_uring *ring = &reactor->ring;

	/* Take completions one by one: a callback may submit, which can add more. */
	for (unsigned i = 0; i < REACTOR_CQE_BUDGET && io_uring_cq_ready(ring) > 0; i++) {
		const struct io_uring_cqe *cqe =
			&ring->cq.cqes[*ring->cq.khead & ring->cq.ring_mask];
		/* liburing's own time-out, on a kernel whose wait call has none (5.10). */
		bool is_library = cqe->user_data == LIBURING_UDATA_TIMEOUT;
		struct reactor_op *op = is_library ? NULL : io_uring_cqe_get_data(cqe);
		int res = cqe->res;

		reactor->cqe_flags = cqe->flags;
		io_uring_cq_advance(ring, 1);
		reactor->work++;
		if (!op)
			continue;
		if (op->is_file) {
			op->is_file = false;
			reactor->file_ops--;
			if (op->is_late)
				res = -ECANCELED;
		}
		op->done(op, res);
		reactor_callback_done(reactor);
	}
}
