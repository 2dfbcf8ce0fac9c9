/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches and pollers of the io_uring reactor. A watch is a one-shot poll in the ring for a
 * descriptor of other code. A poller is asked in every turn and armed before sleep. Runs on the
 * owning reactor's thread.
 */
#include "reactor/reactor_internal.h"

/* ---- watches -------------------------------------------------------------------------------- */

static void watch_done(struct reactor_op *op, int res)
{
	struct reactor_watch *watch = container_of(op, struct reactor_watch, op);

	watch->armed = false;
	if (watch->closing)
		watch->closed(watch);
	else
		watch->ready(watch, res);
}

void reactor_watch_open(struct reactor *reactor, struct reactor_watch *watch, int fd,
			void (*ready)(struct reactor_watch *watch, int events))
{
	reactor_check_thread(reactor);
	*watch = (struct reactor_watch){
		.reactor = reactor,
		.fd = fd,
		.ready = ready,
		.op = {.reactor = reactor, .done = watch_done},
	};
}

void reactor_watch_arm(struct reactor_watch *watch, unsigned events)
{
	struct io_uring_sqe *sqe;

	reactor_check_thread(watch->reactor);
	CHECK(!watch->closing);
	if (watch->armed)
		return;
	watch->armed = true;
	sqe = reactor_sqe(watch->reactor);
	io_uring_prep_poll_add(sqe, watch->fd, events);
	io_uring_sqe_set_data(sqe, &watch->op);
}

static void watch_on_finish(struct reactor_msg *msg)
{
	struct reactor_watch *watch = container_of(msg, struct reactor_watch, op.msg);

	watch->closed(watch);
}

void reactor_watch_close(struct reactor_watch *watch, void (*closed)(struct reactor_watch *watch))
{
	reactor_check_thread(watch->reactor);
	CHECK(!watch->closing);
	watch->closing = true;
	watch->closed = closed;
	if (watch->armed)
		reactor_sqe_cancel(watch->reactor, &watch->op);
	else
		reactor_post(watch->reactor, &watch->op.msg, watch_on_finish);
}

/* ---- pollers -------------------------------------------------------------------------------- */

void reactor_poller_add(struct reactor *reactor, struct reactor_poller *poller)
{
	reactor_check_thread(reactor);
	CHECK(poller->poll && poller->arm);
	list_push_back(&reactor->pollers, &poller->node);
}

void reactor_poller_remove(struct reactor_poller *poller)
{
	list_remove(&poller->node);
}

/* Asks each poller once and returns how many answered true, of *ret_count in all. A poller is put
 * back before its callback, which may remove any poller. A poller added by a callback is asked the
 * next time. */
static unsigned pollers_ask(struct reactor *reactor, bool is_poll, unsigned *ret_count)
{
	struct list batch, *node;
	unsigned yes = 0;

	*ret_count = 0;
	list_init(&batch);
	list_splice_back(&batch, &reactor->pollers);
	while ((node = list_pop_front(&batch))) {
		struct reactor_poller *poller = list_entry(node, struct reactor_poller, node);

		list_push_back(&reactor->pollers, node);
		yes += is_poll ? poller->poll(poller) : poller->arm(poller);
		++*ret_count;
		reactor_callback_done(reactor);
	}
	return yes;
}

void reactor_pollers_run(struct reactor *reactor)
{
	unsigned count;

	if (!list_empty(&reactor->pollers))
		reactor->work += pollers_ask(reactor, true, &count);
}

bool reactor_pollers_arm(struct reactor *reactor)
{
	unsigned count;

	return list_empty(&reactor->pollers) || pollers_ask(reactor, false, &count) == count;
}
