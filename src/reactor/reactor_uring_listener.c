/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets of the io_uring reactor: one multishot accept each, or single accepts in
 * sequence on a kernel without multishot accept.
 *
 * Runs on the owning reactor's thread. When file descriptors or memory run out, accepting stops for
 * 100 ms, which costs a log line instead of a CPU. private_bits of accept_op is 1 while an accept
 * is in the kernel.
 */
#include "base/clock.h"
#include "base/log.h"
#include "reactor/reactor_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#define LISTENER_BACKLOG  1024
#define LISTENER_RETRY_NS (100 * NS_PER_MS)

static void listener_arm(struct reactor_listener *listener)
{
	struct reactor *reactor = listener->reactor;
	struct io_uring_sqe *sqe = reactor_sqe(reactor);
	int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;

	if (reactor->has_multishot_accept)
		io_uring_prep_multishot_accept(sqe, listener->fd, NULL, NULL, flags);
	else
		io_uring_prep_accept(sqe, listener->fd, NULL, NULL, flags);
	io_uring_sqe_set_data(sqe, &listener->accept_op);
	listener->accept_op.private_bits = 1;
}

static void listener_on_retry(struct reactor_timer *timer)
{
	listener_arm(container_of(timer, struct reactor_listener, retry_timer));
}

static void listener_finish(struct reactor_listener *listener)
{
	close(listener->fd);
	listener->fd = -1;
	listener->closed(listener);
}

static void listener_on_finish(struct reactor_msg *msg)
{
	listener_finish(container_of(msg, struct reactor_listener, accept_op.msg));
}

static void listener_deliver(struct reactor_listener *listener, int fd)
{
	struct net_addr peer = {.len_bytes = sizeof(peer.storage)};

	reactor_fd_set_options(fd);
	if (getpeername(fd, (struct sockaddr *)&peer.storage, &peer.len_bytes)) {
		/* The peer disconnected before the accept. */
		reactor_refuse_fd(fd);
		return;
	}
	listener->accepted(listener, fd, &peer);
}

/* Whether a new accept is useful at once. Logs other errors. */
static bool listener_error_passes(struct reactor_listener *listener, int res)
{
	char text[NET_ADDR_TEXT_BYTES];

	if (res >= 0 || res == -ECONNABORTED || res == -EINTR || res == -EAGAIN || res == -EPROTO)
		return true;
	log_limited(LOG_LEVEL_WARN, "reactor", "accept on %s failed, next try in 100 ms: %s",
		    net_addr_format(&listener->addr, text), strerror(-res));
	return false;
}

static void listener_on_accept(struct reactor_op *op, int res)
{
	struct reactor_listener *listener = container_of(op, struct reactor_listener, accept_op);
	struct reactor *reactor = listener->reactor;
	bool is_over = !(reactor->cqe_flags & IORING_CQE_F_MORE);

	if (is_over)
		op->private_bits = 0;
	if (listener->closing) {
		if (res >= 0)
			reactor_refuse_fd(res);
		if (is_over)
			listener_finish(listener);
		return;
	}
	if (res >= 0)
		listener_deliver(listener, res);
	/* If the callback closed the listener, no accept was armed, and the close posts the
	 * rest. */
	if (listener->closing || !is_over)
		return;
	if (listener_error_passes(listener, res))
		listener_arm(listener);
	else
		reactor_timer_arm(&listener->retry_timer, reactor->now_ns + LISTENER_RETRY_NS);
}

static int listener_bind(const struct net_addr *addr, int *ret_fd)
{
	/* The socket must block: io_uring fails with -EAGAIN on a non-blocking file instead of
	 * waiting. */
	int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;
	int res;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    (net_addr_is_ipv6(addr) &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on))) ||
	    bind(fd, (const struct sockaddr *)&addr->storage, addr->len_bytes) ||
	    listen(fd, LISTENER_BACKLOG)) {
		res = -errno;
		close(fd);
		return res;
	}
	*ret_fd = fd;
	return 0;
}

int reactor_listener_open(struct reactor *reactor, struct reactor_listener *listener,
			  const struct net_addr *addr,
			  void (*accepted)(struct reactor_listener *listener, int taken_fd,
					   const struct net_addr *peer))
{
	struct net_addr bound = {.len_bytes = sizeof(bound.storage)};
	int fd = -1, res;

	reactor_check_thread(reactor);
	res = listener_bind(addr, &fd);
	if (res)
		return res;
	if (getsockname(fd, (struct sockaddr *)&bound.storage, &bound.len_bytes)) {
		res = -errno;
		close(fd);
		return res;
	}
	*listener = (struct reactor_listener){
		.reactor = reactor,
		.fd = fd,
		.addr = bound,
		.accepted = accepted,
		.accept_op = {.reactor = reactor, .done = listener_on_accept},
	};
	reactor_timer_init(reactor, &listener->retry_timer, listener_on_retry);
	listener_arm(listener);
	return 0;
}

void reactor_listener_close(struct reactor_listener *listener,
			    void (*closed)(struct reactor_listener *listener))
{
	reactor_check_thread(listener->reactor);
	CHECK(!listener->closing);
	listener->closing = true;
	listener->closed = closed;
	reactor_timer_cancel(&listener->retry_timer);
	if (listener->accept_op.private_bits)
		reactor_sqe_cancel(listener->reactor, &listener->accept_op);
	else
		reactor_post(listener->reactor, &listener->accept_op.msg, listener_on_finish);
}

void reactor_refuse_fd(int taken_fd)
{
	struct linger abort_on_close = {.l_onoff = 1, .l_linger = 0};

	(void)setsockopt(taken_fd, SOL_SOCKET, SO_LINGER, &abort_on_close, sizeof(abort_on_close));
	close(taken_fd);
}
