/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream sockets of the io_uring reactor.
 *
 * Runs on the owning reactor's thread. Data moves by direct system calls that never block. A cold
 * socket waits on a one-shot poll in the ring, which makes the socket hot. `ready` of a hot socket
 * is called every turn until the socket has been empty for the hot window (the reactor's longest
 * spin). With more than four hot sockets an empty one goes cold at once, so that no turn scans
 * many. Before the reactor sleeps, all sockets go cold. poll_op is the poll for reading and the
 * message that finishes the close. aux_op is the poll for writing and the connect.
 */
#include "reactor/reactor_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SOCK_HOLDS_FILE    (REACTOR_SOCK_READ | REACTOR_SOCK_WRITE | SOCK_SENDING)
#define SOCK_ZC_GIVE_UP_MS 10000

/* ---- hot and cold --------------------------------------------------------------------------- */

static void sock_heat(struct reactor_sock *sock)
{
	struct reactor *reactor = sock->reactor;

	if (list_linked(&sock->hot_node))
		return;
	sock->drained = false;
	sock->hot_until_ns = reactor_now_ns(reactor) + reactor->spin_max_ns;
	list_push_back(&reactor->hot, &sock->hot_node);
	reactor->hot_count++;
}

static void sock_unheat(struct reactor_sock *sock)
{
	if (!list_linked(&sock->hot_node))
		return;
	list_remove(&sock->hot_node);
	sock->reactor->hot_count--;
}

static void sock_poll(struct reactor_sock *sock, struct reactor_op *op, unsigned event)
{
	struct io_uring_sqe *sqe = reactor_sqe(sock->reactor);

	io_uring_prep_poll_add(sqe, sock->fd,
			       event == REACTOR_SOCK_READ ? POLLIN | POLLRDHUP : POLLOUT);
	io_uring_sqe_set_data(sqe, op);
	sock->armed |= event;
}

static void sock_cool(struct reactor_sock *sock)
{
	sock_unheat(sock);
	if (!(sock->armed & REACTOR_SOCK_READ))
		sock_poll(sock, &sock->poll_op, REACTOR_SOCK_READ);
}

void reactor_hot_run(struct reactor *reactor)
{
	struct list batch, *node;

	if (reactor->hot_count == 0)
		return;
	/* Each socket is put back before its callback, which may close any socket. */
	list_init(&batch);
	list_splice_back(&batch, &reactor->hot);
	while ((node = list_pop_front(&batch))) {
		struct reactor_sock *sock = list_entry(node, struct reactor_sock, hot_node);

		list_push_back(&reactor->hot, node);
		sock->ready(sock, REACTOR_SOCK_READ);
		reactor_callback_done(reactor);
		/* A closed socket stays valid until `closed`, which is never called from inside
		 * this loop. */
		if (!list_linked(&sock->hot_node))
			continue;
		if (!sock->drained)
			reactor->work++;
		else if (reactor->hot_count > REACTOR_HOT_SCAN_MAX ||
			 reactor->now_ns >= sock->hot_until_ns)
			sock_cool(sock);
	}
}

void reactor_hot_cool_all(struct reactor *reactor)
{
	while (!list_empty(&reactor->hot))
		sock_cool(list_entry(reactor->hot.next, struct reactor_sock, hot_node));
}

/* ---- closing -------------------------------------------------------------------------------- */

/*
 * Zero-copy sends leave unacknowledged bytes in their owner's buffers until the kernel releases
 * them. A dead peer must not delay `closed` until TCP gives up retransmitting.
 */
static void sock_limit_linger(const struct reactor_sock *sock)
{
	unsigned limit_ms = SOCK_ZC_GIVE_UP_MS;

	(void)setsockopt(sock->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
}

static void sock_finish(struct reactor_sock *sock)
{
	if (sock->zc_held > 0)
		sock_limit_linger(sock);
	if (sock->fd >= 0)
		close(sock->fd);
	sock->fd = -1;
	if (sock->zc_held == 0)
		sock->closed(sock);
}

void reactor_sock_released(struct reactor_sock *sock)
{
	if (sock->closing && sock->fd < 0)
		sock->closed(sock);
}

static void sock_on_finish(struct reactor_msg *msg)
{
	sock_finish(container_of(msg, struct reactor_sock, poll_op.msg));
}

void reactor_sock_close(struct reactor_sock *sock, void (*closed)(struct reactor_sock *sock))
{
	reactor_check_thread(sock->reactor);
	CHECK(!sock->closing);
	sock->closing = true;
	sock->closed = closed;
	sock->wanted = 0;
	sock_unheat(sock);
	/* A poll holds the file, and the peer sees the close only when the last holder releases the
	 * file. */
	if (sock->armed & REACTOR_SOCK_READ)
		reactor_sqe_cancel(sock->reactor, &sock->poll_op);
	if (sock->armed & REACTOR_SOCK_WRITE)
		reactor_sqe_cancel(sock->reactor, &sock->aux_op);
	if (!(sock->armed & SOCK_HOLDS_FILE))
		reactor_post(sock->reactor, &sock->poll_op.msg, sock_on_finish);
}

bool reactor_sock_disarm(struct reactor_sock *sock, unsigned event)
{
	sock->armed &= ~event;
	if (!sock->closing)
		return false;
	if (!(sock->armed & SOCK_HOLDS_FILE))
		sock_finish(sock);
	return true;
}

static void sock_on_readable(struct reactor_op *op, int res)
{
	struct reactor_sock *sock = container_of(op, struct reactor_sock, poll_op);

	if (reactor_sock_disarm(sock, REACTOR_SOCK_READ))
		return;
	/* A failed poll counts as readable: the next recv reports the error. */
	if (sock->wanted & REACTOR_SOCK_READ)
		sock_heat(sock);
}

static void sock_want_write(struct reactor_sock *sock)
{
	if ((sock->wanted & REACTOR_SOCK_WRITE) && !(sock->armed & REACTOR_SOCK_WRITE))
		sock_poll(sock, &sock->aux_op, REACTOR_SOCK_WRITE);
}

static void sock_on_writable(struct reactor_op *op, int res)
{
	struct reactor_sock *sock = container_of(op, struct reactor_sock, aux_op);

	if (reactor_sock_disarm(sock, REACTOR_SOCK_WRITE))
		return;
	if (!(sock->wanted & REACTOR_SOCK_WRITE))
		return;
	sock->ready(sock, REACTOR_SOCK_WRITE);
	if (!sock->closing)
		sock_want_write(sock);
}

/* ---- opening and connecting ----------------------------------------------------------------- */

static void sock_init(struct reactor *reactor, struct reactor_sock *sock, int fd,
		      void (*ready)(struct reactor_sock *sock, unsigned events))
{
	reactor_check_thread(reactor);
	*sock = (struct reactor_sock){
		.reactor = reactor,
		.fd = fd,
		.ready = ready,
		.wanted = REACTOR_SOCK_READ,
		.poll_op = {.reactor = reactor, .done = sock_on_readable},
		.aux_op = {.reactor = reactor, .done = sock_on_writable},
	};
	list_init(&sock->hot_node);
}

void reactor_sock_open(struct reactor *reactor, struct reactor_sock *sock, int taken_fd,
		       void (*ready)(struct reactor_sock *sock, unsigned events))
{
	sock_init(reactor, sock, taken_fd, ready);
	/* The first bytes have often arrived already, so try to receive before waiting. */
	sock_heat(sock);
}

/* Ends the connect and calls `connected`. */
static void sock_connect_end(struct reactor_sock *sock, int res)
{
	void (*connected)(struct reactor_sock * sock, int res) = sock->connected;

	sock->armed &= ~SOCK_CONNECTING;
	sock->aux_op.done = sock_on_writable;
	if (res) {
		if (sock->fd >= 0)
			close(sock->fd);
		sock->fd = -1;
		connected(sock, res);
		return;
	}
	if (sock->wanted & REACTOR_SOCK_READ)
		sock_heat(sock);
	sock_want_write(sock);
	connected(sock, 0);
}

static void sock_on_connected(struct reactor_op *op, int res)
{
	struct reactor_sock *sock = container_of(op, struct reactor_sock, aux_op);
	socklen_t len = sizeof(int);
	int error = 0;

	if (reactor_sock_disarm(sock, REACTOR_SOCK_WRITE))
		return;
	if (res < 0)
		error = -res;
	else if (getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &len))
		error = errno;
	sock_connect_end(sock, -error);
}

static void sock_on_connect_failed(struct reactor_msg *msg)
{
	struct reactor_sock *sock = container_of(msg, struct reactor_sock, aux_op.msg);

	/* A close in between has posted its own message behind this one. */
	if (!sock->closing)
		sock_connect_end(sock, (int)(int64_t)sock->aux_op.private_bits);
}

/*
 * A peer that vanishes sends nothing. Without NVMe keep alive (KATO 0) only keep alive of TCP
 * detects the loss, after two minutes, and without waking a thread. TCP_USER_TIMEOUT is not set: it
 * would also cut off a live peer that keeps its window closed, which the sender's own time-out
 * handles.
 */
void reactor_fd_set_options(int fd)
{
	static const struct {
		int level;
		int name;
		int value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},    {SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 60},  /* seconds */
		{IPPROTO_TCP, TCP_KEEPINTVL, 10}, /* seconds */
		{IPPROTO_TCP, TCP_KEEPCNT, 6},
	};

	/* Errors are ignored: the options do not apply to other sockets, such as a socket pair of a
	 * test. */
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
				 sizeof(options[i].value));
}

void reactor_sock_connect(struct reactor *reactor, struct reactor_sock *sock,
			  const struct net_addr *addr,
			  void (*connected)(struct reactor_sock *sock, int res),
			  void (*ready)(struct reactor_sock *sock, unsigned events))
{
	int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error = fd < 0 ? errno : 0;

	sock_init(reactor, sock, fd, ready);
	sock->connected = connected;
	sock->armed = SOCK_CONNECTING;
	if (fd >= 0) {
		reactor_fd_set_options(fd);
		if (connect(fd, (const struct sockaddr *)&addr->storage, addr->len_bytes))
			error = errno;
	}
	if (error == 0 || error == EINPROGRESS || error == EINTR) {
		sock->aux_op.done = sock_on_connected;
		sock_poll(sock, &sock->aux_op, REACTOR_SOCK_WRITE);
		return;
	}
	sock->aux_op.private_bits = (uint64_t)(int64_t)-error;
	reactor_post(reactor, &sock->aux_op.msg, sock_on_connect_failed);
}

/* ---- use ------------------------------------------------------------------------------------ */

void reactor_sock_want(struct reactor_sock *sock, unsigned events)
{
	reactor_check_thread(sock->reactor);
	if (sock->closing)
		return;
	sock->wanted = events;
	if (sock->armed & SOCK_CONNECTING)
		return;
	if (!(events & REACTOR_SOCK_READ))
		sock_unheat(sock);
	else if (!(sock->armed & REACTOR_SOCK_READ))
		sock_heat(sock);
	/* An armed poll that is no longer wanted stays armed; its completion is ignored. */
	sock_want_write(sock);
}

static size_t sock_iov_bytes(const struct iovec *iov, unsigned iov_count)
{
	size_t total = 0;

	for (unsigned i = 0; i < iov_count; i++)
		total += iov[i].iov_len;
	return total;
}

ssize_t reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = iov_count};
	struct reactor *reactor = sock->reactor;
	ssize_t got;

	do {
		got = iov_count == 1 ? recv(sock->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
				     : recvmsg(sock->fd, &msg, MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		sock->drained = true;
		return -EAGAIN;
	}
	reactor->work++;
	if (got > 0) {
		/* Less than requested: the receive queue is empty, and the poll reports new
		 * data. */
		sock->drained = (size_t)got < sock_iov_bytes(iov, iov_count);
		sock->hot_until_ns = reactor->now_ns + reactor->spin_max_ns;
		return got;
	}
	/* End of stream or error: nothing follows, and `ready` must not be called in a loop. */
	got = got < 0 ? -errno : 0;
	if (sock_iov_bytes(iov, iov_count) > 0) {
		sock->wanted &= ~(unsigned)REACTOR_SOCK_READ;
		sock_unheat(sock);
	}
	return got;
}

ssize_t reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = iov_count};
	ssize_t sent;

	CHECK(!(sock->armed & SOCK_SENDING));
	do {
		sent = sendmsg(sock->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return sent;
	return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

size_t reactor_sock_available(const struct reactor_sock *sock)
{
	int bytes = 0;

	if (ioctl(sock->fd, FIONREAD, &bytes) || bytes < 0)
		return 0;
	return (size_t)bytes;
}

void reactor_sock_shutdown_send(struct reactor_sock *sock)
{
	CHECK(!(sock->armed & SOCK_SENDING));
	/* Fails only when the connection is gone, which the receiving side reports. */
	(void)shutdown(sock->fd, SHUT_WR);
}

void reactor_sock_set_abort(struct reactor_sock *sock)
{
	struct linger abort_on_close = {.l_onoff = 1, .l_linger = 0};

	(void)setsockopt(sock->fd, SOL_SOCKET, SO_LINGER, &abort_on_close, sizeof(abort_on_close));
}

void reactor_sock_set_timeout(struct reactor_sock *sock, uint32_t unacked_ms)
{
	static const int second = 1;
	unsigned timeout_ms = unacked_ms;

	/* Errors are ignored: only TCP has these options. */
	(void)setsockopt(sock->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	(void)setsockopt(sock->fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
	(void)setsockopt(sock->fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
}

uint64_t reactor_sock_rtt_ns(const struct reactor_sock *sock)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	if (sock->fd < 0 || getsockopt(sock->fd, IPPROTO_TCP, TCP_INFO, &info, &len) ||
	    len < offsetof(struct tcp_info, tcpi_rtt) + sizeof(info.tcpi_rtt))
		return 0;
	return info.tcpi_rtt * 1000ull;
}

int reactor_sock_peer(const struct reactor_sock *sock, struct net_addr *ret_addr)
{
	ret_addr->len_bytes = sizeof(ret_addr->storage);
	if (getpeername(sock->fd, (struct sockaddr *)&ret_addr->storage, &ret_addr->len_bytes))
		return -errno;
	return 0;
}

int reactor_sock_local(const struct reactor_sock *sock, struct net_addr *ret_addr)
{
	ret_addr->len_bytes = sizeof(ret_addr->storage);
	if (getsockname(sock->fd, (struct sockaddr *)&ret_addr->storage, &ret_addr->len_bytes))
		return -errno;
	return 0;
}
