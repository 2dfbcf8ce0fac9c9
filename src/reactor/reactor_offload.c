/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking calls off the reactor: one helper thread per reactor, started by the first one, runs
 * them in order and posts the results back.
 *
 * The queue is linked through op->msg.next under a mutex; the reactor holds it only to append or
 * unlink. The helper may run on every CPU that the reactor's creator may, not only on the
 * reactor's own. A call that has begun cannot be cancelled; one that waits can.
 */
#include "base/clock.h"
#include "reactor/reactor_internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct reactor_offload {
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	struct reactor_op *first;
	struct reactor_op *last;
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

		while (!offload->first && !offload->stopping)
			pthread_cond_wait(&offload->changed, &offload->lock);
		if (offload->stopping)
			break;
		op = offload->first;
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
	sigset_t all, before;
	pthread_attr_t attr;

	CHECK(pthread_attr_init(&attr) == 0);
	if (CPU_COUNT(&reactor->creator_cpus) > 0)
		pthread_attr_setaffinity_np(&attr, sizeof(reactor->creator_cpus),
					    &reactor->creator_cpus);
	/* Signals are for the program's first thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	offload->has_thread = pthread_create(&offload->thread, &attr, offload_main, offload) == 0;
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
	offload_start_thread(reactor, offload);
	return offload;
}

void reactor_offload(struct reactor *reactor, struct reactor_op *op,
		     int (*work)(struct reactor_op *op))
{
	struct reactor_offload *offload;

	reactor_check_thread(reactor);
	op->reactor = reactor;
	op->work = work;
	offload_link(op, NULL);
	if (!reactor->offload)
		reactor->offload = offload_open(reactor);
	offload = reactor->offload;
	if (!offload || !offload->has_thread) {
		/* No thread to be had: slow is better than failed. */
		offload_finish(op, offload_run(op));
		return;
	}
	pthread_mutex_lock(&offload->lock);
	if (offload->last)
		offload_link(offload->last, op);
	else
		offload->first = op;
	offload->last = op;
	pthread_cond_signal(&offload->changed);
	pthread_mutex_unlock(&offload->lock);
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
	pthread_cond_signal(&offload->changed);
	pthread_mutex_unlock(&offload->lock);
	if (offload->has_thread)
		pthread_join(offload->thread, NULL);
	pthread_cond_destroy(&offload->changed);
	pthread_mutex_destroy(&offload->lock);
	free(offload);
	reactor->offload = NULL;
}
