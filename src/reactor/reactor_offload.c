/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs blocking calls on helper threads. A thread is started when a call is queued and no thread is
 * idle. The threads take calls in order and post the results back. There are up to OFFLOAD_THREADS,
 * so that a long call (BLKDISCARD of a large range) does not delay the calls behind it.
 *
 * The queue is linked through op->msg.next under a mutex, which the reactor holds only to append or
 * unlink. Helper threads may run on every CPU that the reactor's creator may use, not only on the
 * reactor's own. A running call cannot be cancelled; a queued call can.
 */
#include "base/clock.h"
#include "reactor/reactor_internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define OFFLOAD_THREADS 8

struct reactor_offload {
	pthread_t threads[OFFLOAD_THREADS]; /* only for the reactor */
	unsigned thread_count;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	struct reactor_op *first;
	struct reactor_op *last;
	unsigned waiting; /* calls in the queue */
	unsigned idle;    /* threads that wait for a call */
	bool stopping;
};

static struct reactor_op *offload_next(const struct reactor_op *op)
{
	struct reactor_msg *next = atomic_load_explicit(&op->msg.next, memory_order_relaxed);

	return next ? container_of(next, struct reactor_op, msg) : NULL;
}

static void offload_link(struct reactor_op *op, struct reactor_op *next)
{
	atomic_store_explicit(&op->msg.next, next ? &next->msg : NULL, memory_order_relaxed);
}

static void offload_deliver(struct reactor_msg *msg)
{
	struct reactor_op *op = container_of(msg, struct reactor_op, msg);

	op->work = NULL;
	op->done(op, (int)(int64_t)op->private_bits);
}

static void offload_finish(struct reactor_op *op, int res)
{
	op->private_bits = (uint64_t)(int64_t)res;
	reactor_post(op->reactor, &op->msg, offload_deliver);
}

static int offload_run(struct reactor_op *op)
{
	if (op->deadline_ns != 0 && op->deadline_ns < clock_monotonic_ns())
		return -ECANCELED;
	return op->work(op);
}

static void *offload_main(void *arg)
{
	struct reactor_offload *offload = arg;

	pthread_setname_np(pthread_self(), "weft-offload");
	pthread_mutex_lock(&offload->lock);
	for (;;) {
		struct reactor_op *op;

		while (!offload->first && !offload->stopping) {
			offload->idle++;
			pthread_cond_wait(&offload->changed, &offload->lock);
			offload->idle--;
		}
		if (offload->stopping)
			break;
		op = offload->first;
		offload->waiting--;
		offload->first = offload_next(op);
		if (!offload->first)
			offload->last = NULL;
		pthread_mutex_unlock(&offload->lock);
		offload_finish(op, offload_run(op));
		pthread_mutex_lock(&offload->lock);
	}
	pthread_mutex_unlock(&offload->lock);
	return NULL;
}

static void offload_start_thread(struct reactor *reactor, struct reactor_offload *offload)
{
	pthread_t *thread = &offload->threads[offload->thread_count];
	sigset_t all, before;
	pthread_attr_t attr;

	CHECK(pthread_attr_init(&attr) == 0);
	if (CPU_COUNT(&reactor->creator_cpus) > 0)
		pthread_attr_setaffinity_np(&attr, sizeof(reactor->creator_cpus),
					    &reactor->creator_cpus);
	/* Signals are handled by the program's first thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (pthread_create(thread, &attr, offload_main, offload) == 0)
		offload->thread_count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

static struct reactor_offload *offload_open(struct reactor *reactor)
{
	struct reactor_offload *offload = calloc(1, sizeof(*offload));

	if (!offload)
		return NULL;
	pthread_mutex_init(&offload->lock, NULL);
	pthread_cond_init(&offload->changed, NULL);
	return offload;
}

void reactor_offload(struct reactor *reactor, struct reactor_op *op,
		     int (*work)(struct reactor_op *op))
{
	struct reactor_offload *offload;
	bool is_short;

	reactor_check_thread(reactor);
	op->reactor = reactor;
	op->work = work;
	offload_link(op, NULL);
	if (!reactor->offload)
		reactor->offload = offload_open(reactor);
	offload = reactor->offload;
	if (offload && offload->thread_count == 0)
		offload_start_thread(reactor, offload);
	if (!offload || offload->thread_count == 0) {
		/* Without a thread, run the call here: slow is better than failed. */
		offload_finish(op, offload_run(op));
		return;
	}
	pthread_mutex_lock(&offload->lock);
	if (offload->last)
		offload_link(offload->last, op);
	else
		offload->first = op;
	offload->last = op;
	is_short = ++offload->waiting > offload->idle;
	pthread_cond_signal(&offload->changed);
	pthread_mutex_unlock(&offload->lock);
	if (is_short && offload->thread_count < OFFLOAD_THREADS)
		offload_start_thread(reactor, offload);
}

void reactor_offload_cancel(struct reactor_op *op)
{
	struct reactor_offload *offload = op->reactor->offload;
	struct reactor_op *before = NULL, *at;

	if (!offload)
		return;
	pthread_mutex_lock(&offload->lock);
	for (at = offload->first; at && at != op; at = offload_next(at))
		before = at;
	if (at) {
		if (before)
			offload_link(before, offload_next(op));
		else
			offload->first = offload_next(op);
		if (offload->last == op)
			offload->last = before;
		offload->waiting--;
	}
	pthread_mutex_unlock(&offload->lock);
	if (at)
		offload_finish(op, -ECANCELED);
}

void reactor_offload_destroy(struct reactor *reactor)
{
	struct reactor_offload *offload = reactor->offload;

	if (!offload)
		return;
	pthread_mutex_lock(&offload->lock);
	offload->stopping = true;
	pthread_cond_broadcast(&offload->changed);
	pthread_mutex_unlock(&offload->lock);
	for (unsigned i = 0; i < offload->thread_count; i++)
		pthread_join(offload->threads[i], NULL);
	pthread_cond_destroy(&offload->changed);
	pthread_mutex_destroy(&offload->lock);
	free(offload);
	reactor->offload = NULL;
}
