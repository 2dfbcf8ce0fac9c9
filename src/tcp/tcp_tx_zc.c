/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends without a copy: which payload is eligible, what waits until the kernel releases it, and
 * when zero copy is switched off.
 *
 * A PDU with any byte in a zero-copy send is done only when it is sent in full and every zero-copy
 * send so far is released. Such a PDU waits with the newest of these sends, and sends are released
 * in order. Only payload that does not change until done is sent without a copy. Mapped memory is
 * copied: a packet that TCP retransmits would carry bytes that the digest does not cover, or half
 * of a block. Runs on the connection's reactor.
 */
#include "tcp/tcp_internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct zc_send {
	struct reactor_send send;
	struct tcp_conn *conn;
	struct list held; /* PDUs that wait for the release of this send */
	bool has_bytes;
	bool is_released;
};

struct tcp_zc {
	struct zc_send sends[TCP_ZC_SENDS]; /* a ring, the oldest at `first` */
	unsigned first;
	unsigned count;           /* sends in flight, not released, or after an unreleased one */
	size_t asked_bytes;       /* of the send in flight */
	size_t copy_next_bytes;   /* refused by the kernel: these are sent as copies */
	unsigned copied_in_a_row; /* reports of a copy */
	bool is_off;
	struct iovec iov[TCP_ZC_IOVS]; /* of the send in flight */
};

static void zc_on_sent(struct reactor_send *send, int res);
static void zc_on_released(struct reactor_send *send, bool was_copied);

void tcp_zc_init(struct tcp_conn *conn)
{
	/* Asks the kernel at the first call, so only where zero copy is configured. */
	if (reactor_can_send_zc(conn->reactor))
		conn->zc = calloc(1, sizeof(*conn->zc));
}

void tcp_zc_free(struct tcp_conn *conn)
{
	const struct tcp_conn_stats *stats = &conn->stats;
	char peer[NET_ADDR_TEXT_BYTES];

	if (!conn->zc)
		return;
	CHECK(conn->zc->count == 0);
	log_debug("tcp", "%s: zero copy: %llu sends, %llu copied by the kernel, %llu refused",
		  net_addr_format(&conn->peer, peer), (unsigned long long)stats->zc_sends,
		  (unsigned long long)stats->zc_copied, (unsigned long long)stats->zc_fallbacks);
	free(conn->zc);
	conn->zc = NULL;
}

bool tcp_zc_is_holding(const struct tcp_conn *conn)
{
	return conn->zc->count > 0;
}

bool tcp_zc_wants(const struct tcp_conn *conn, const struct tcp_tx *tx, size_t done_bytes)
{
	const struct tcp_zc *zc = conn->zc;
	uint32_t min_bytes = conn->config.zero_copy_min_bytes;

	/* The rest of a PDU that is begun must reach min_bytes too. */
	return tx->data_bytes >= min_bytes && tx->shared_block_bytes == 0 && !tx->private_copy &&
	       (done_bytes == 0 ||
		tx->hdr_bytes + (size_t)tx->data_bytes >= done_bytes + min_bytes) &&
	       !zc->is_off && zc->copy_next_bytes == 0 && zc->count < TCP_ZC_SENDS;
}

void tcp_zc_send(struct tcp_conn *conn, const struct iovec *iov, unsigned iov_count,
		 size_t len_bytes)
{
	struct tcp_zc *zc = conn->zc;
	struct zc_send *send = &zc->sends[(zc->first + zc->count) % TCP_ZC_SENDS];

	CHECK(iov_count <= TCP_ZC_IOVS && zc->count < TCP_ZC_SENDS && !conn->is_tx_sending);
	memcpy(zc->iov, iov, iov_count * sizeof(*iov));
	zc->asked_bytes = len_bytes;
	zc->count++;
	*send = (struct zc_send){
		.send = {.sent = zc_on_sent, .released = zc_on_released},
		.conn = conn,
	};
	list_init(&send->held);
	conn->is_tx_sending = true;
	tcp_stream_send_zc(&conn->stream, &send->send, zc->iov, iov_count);
}

void tcp_zc_note_copied(struct tcp_conn *conn, size_t len_bytes)
{
	struct tcp_zc *zc = conn->zc;

	zc->copy_next_bytes -= len_bytes < zc->copy_next_bytes ? len_bytes : zc->copy_next_bytes;
}

void tcp_zc_keep(struct tcp_conn *conn, struct tcp_tx *tx, struct list *otherwise)
{
	struct tcp_zc *zc = conn->zc;

	if (zc->count > 0)
		otherwise = &zc->sends[(zc->first + zc->count - 1) % TCP_ZC_SENDS].held;
	list_push_back(otherwise, &tx->node);
}

/* ---- the result ---------------------------------------------------------------------------- */

/* Clears is_zc of PDUs that were offered and of which the kernel took nothing. */
static void zc_unmark(struct tcp_conn *conn)
{
	bool is_begun = conn->tx_head_done_bytes > 0;

	list_for_each(node, &conn->tx_queue) {
		struct tcp_tx *tx = list_entry(node, struct tcp_tx, node);

		if (!tx->is_zc)
			return;
		tx->is_zc = is_begun;
		is_begun = false;
	}
}

static void zc_switch_off(struct tcp_conn *conn, const char *why)
{
	char peer[NET_ADDR_TEXT_BYTES];

	if (conn->zc->is_off)
		return;
	conn->zc->is_off = true;
	log_debug("tcp", "%s: zero copy is off for this connection: %s",
		  net_addr_format(&conn->peer, peer), why);
}

static void zc_on_refused(struct tcp_conn *conn, int error)
{
	conn->stats.zc_fallbacks++;
	conn->zc->copy_next_bytes = conn->zc->asked_bytes;
	/* A lack of memory, or of lockable memory, is temporary. These two errors are permanent. */
	if (error == -EOPNOTSUPP || error == -EINVAL)
		zc_switch_off(conn, strerror(-error));
}

static void zc_on_sent(struct reactor_send *send, int res)
{
	struct zc_send *zs = container_of(send, struct zc_send, send);
	struct tcp_conn *conn = zs->conn;

	conn->is_tx_sending = false;
	/* The PDUs of this send were dropped and wait for the release. */
	if (conn->is_sock_closing)
		return;
	if (res > 0) {
		zs->has_bytes = true;
		conn->stats.zc_sends++;
		tcp_tx_sent(conn, (size_t)res, conn->zc->asked_bytes);
	} else if (res == -EAGAIN || res == -EINTR) {
		conn->is_tx_blocked = true;
	} else if (res == -ENOMEM || res == -ENOBUFS || res == -EOPNOTSUPP || res == -EINVAL) {
		zc_on_refused(conn, res);
	} else {
		tcp_conn_end(conn, res, "send failed");
	}
	if (conn->is_sock_closing)
		return;
	zc_unmark(conn);
	tcp_tx_kick(conn);
	tcp_conn_update_want(conn);
}

/* ---- the release --------------------------------------------------------------------------- */

/* Where the kernel copies anyway (loopback, no scatter-gather, a tunnel), it copies page by page,
 * which costs several times as much as a plain send. */
static void zc_judge(struct tcp_conn *conn, bool was_copied)
{
	struct tcp_zc *zc = conn->zc;

	conn->stats.zc_copied += was_copied;
	zc->copied_in_a_row = was_copied ? zc->copied_in_a_row + 1 : 0;
	if (!conn->config.is_zero_copy_forced && zc->copied_in_a_row >= TCP_ZC_COPIED_MAX)
		zc_switch_off(conn, "the kernel copies the data anyway");
}

static void zc_on_released(struct reactor_send *send, bool was_copied)
{
	struct zc_send *zs = container_of(send, struct zc_send, send);
	struct tcp_conn *conn = zs->conn;
	struct tcp_zc *zc = conn->zc;
	struct list done;

	zs->is_released = true;
	if (zs->has_bytes)
		zc_judge(conn, was_copied);
	list_init(&done);
	while (zc->count > 0 && zc->sends[zc->first].is_released) {
		list_splice_back(&done, &zc->sends[zc->first].held);
		zc->first = (zc->first + 1) % TCP_ZC_SENDS;
		zc->count--;
	}
	tcp_tx_moved(conn);
	tcp_tx_call_done(&done, conn->is_sock_closing ? -ECONNRESET : 0);
}
