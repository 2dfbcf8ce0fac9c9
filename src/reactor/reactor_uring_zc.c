/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-copy sends of the io_uring reactor: one SENDMSG_ZC each.
 *
 * Runs on the owning reactor's thread. The kernel posts two completions for a request: the result,
 * flagged that more follows, and a notification when the kernel has released the bytes.
 * MSG_DONTWAIT ends the request within the submission, so there is nothing to cancel. A closing
 * socket waits one turn for the result, closes its file, and calls `closed` after the
 * notifications.
 */
#include "reactor/reactor_internal.h"
#include "reactor/uring_caps.h"

bool reactor_can_send_zc(const struct reactor *reactor)
{
	return uring_caps_has_send_zc();
}

static void zc_on_release(struct reactor_send *send, bool was_copied)
{
	struct reactor_sock *sock = send->sock;

	CHECK(sock->zc_held > 0);
	sock->zc_held--;
	send->released(send, was_copied);
	if (sock->zc_held == 0)
		reactor_sock_released(sock);
}

static void zc_on_done(struct reactor_op *op, int res)
{
	struct reactor_send *send = container_of(op, struct reactor_send, op);
	struct reactor_sock *sock = send->sock;
	uint32_t flags = op->reactor->cqe_flags;
	bool was_closing = sock->closing;

	if (flags & IORING_CQE_F_NOTIF) {
		/* A send that took no bytes used no zero copy, but the kernel reports it as
		 * copied. */
		zc_on_release(send,
			      send->has_bytes && ((uint32_t)res & URING_NOTIF_USAGE_ZC_COPIED));
		return;
	}
	sock->armed &= ~SOCK_SENDING;
	send->has_bytes = res > 0;
	send->sent(send, res);
	/* Continue a close that waited for this result. A close that `sent` began continues on its
	 * own. */
	if (was_closing)
		reactor_sock_disarm(sock, SOCK_SENDING);
	if (!(flags & IORING_CQE_F_MORE))
		zc_on_release(send, false);
}

void reactor_sock_send_zc(struct reactor_sock *sock, struct reactor_send *send,
			  const struct iovec *iov, unsigned iov_count)
{
	struct io_uring_sqe *sqe;

	CHECK(!sock->closing && !(sock->armed & SOCK_SENDING));
	sqe = reactor_sqe(sock->reactor);
	sock->armed |= SOCK_SENDING;
	sock->zc_held++;
	send->sock = sock;
	send->op = (struct reactor_op){.reactor = sock->reactor, .done = zc_on_done};
	send->msg =
		(struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = iov_count};
	send->has_bytes = false;
	io_uring_prep_sendmsg_zc(sqe, sock->fd, &send->msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	sqe->ioprio |= URING_SEND_ZC_REPORT_USAGE;
	io_uring_sqe_set_data(sqe, &send->op);
}
