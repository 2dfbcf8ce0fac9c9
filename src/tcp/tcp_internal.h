/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the connection engine share: tcp_conn.c (life and end), tcp_rx.c (bytes to
 * PDUs), tcp_tx.c (PDUs to bytes) and tcp_tx_zc.c (bytes that are not copied). Runs on the reactor
 * that owns the connection.
 */
#ifndef WEFT_TCP_TCP_INTERNAL_H
#define WEFT_TCP_TCP_INTERNAL_H

#include "tcp/tcp.h"

#include <stdlib.h>

/* A partial granule, or a partial header with its digest. */
#define TCP_CARRY_ROOM (TCP_CARRY_BYTES + NVME_TCP_HDR_MAX_BYTES + NVME_TCP_DIGEST_BYTES)

#define TCP_RECV_BUDGET_BYTES  (256 * 1024)
#define TCP_DIRECT_MIN_BYTES   (32 * 1024) /* payload still to come that is worth its own recv */
#define TCP_DIRECT_TAIL_BYTES  1024        /* received behind such payload: the next header */
#define TCP_SCATTER_IOVS       64          /* pieces that one receive puts into their places */
#define TCP_SEND_IOVS          1024
#define TCP_SEND_HELD          512         /* pieces of shared payload in one send */
#define TCP_SEND_HEADERS_BYTES (32 * 1024) /* of PDUs without payload, in one send */
#define TCP_SEND_BYTES         (1024 * 1024)
#define TCP_SEND_PACE_BYTES    16384u /* a second: slower counts as no progress */
#define TCP_ZC_MOVED_BYTES     65536u /* what the kernel's word about a zero-copy send counts */
#define TCP_SEND_TURN_BYTES    (1024 * 1024)
#define TCP_ZC_SENDS           32 /* that wait to be released; when all do, sends are copies */
#define TCP_ZC_IOVS            64
#define TCP_ZC_COPIED_MAX      4 /* reports in a row that it does not pay here */

/* tcp_conn.c */

/* Closes the socket now, drops what is queued; on_closed follows. Keeps a cause set earlier. */
void tcp_conn_end(struct tcp_conn *conn, int cause, const char *why);
/* True while PDUs of the peer are looked at. */
static inline bool tcp_conn_is_listening(const struct tcp_conn *conn)
{
	return conn->phase == TCP_CONN_IC || conn->phase == TCP_CONN_OPEN;
}

/* The peer's ICReq or ICResp. */
void tcp_conn_on_ic(struct tcp_conn *conn, const struct pdu *pdu);
void tcp_conn_on_term(struct tcp_conn *conn, const struct pdu *pdu);

/* tcp_rx.c */

void tcp_rx_init(struct tcp_conn *conn);
void tcp_rx_free(struct tcp_conn *conn);
/* True when the next bytes of the socket can be taken. */
static inline bool tcp_rx_is_willing(const struct tcp_conn *conn)
{
	return tcp_conn_is_listening(conn) && !conn->is_paused && !conn->spill &&
	       !conn->is_ignoring;
}

/* The socket is ready: one receive and all that follows from it, or room to send. */
void tcp_rx_ready(struct reactor_sock *sock, unsigned events);

/* Tells the socket what the state of the connection wants to hear. */
static inline void tcp_conn_update_want(struct tcp_conn *conn)
{
	unsigned wanted = 0;

	if (conn->phase < TCP_CONN_IC || conn->is_sock_closing)
		return;
	/* While it ends, what the peer still sends is read and thrown away: a close with unread
	 * data would reset the connection and lose our last words. */
	if (!tcp_conn_is_listening(conn) || conn->is_ignoring ||
	    (tcp_rx_is_willing(conn) && !list_linked(&conn->unpause.node)))
		wanted |= REACTOR_SOCK_READ;
	if (conn->is_tx_blocked)
		wanted |= REACTOR_SOCK_WRITE;
	if (wanted == conn->wanted)
		return;
	conn->wanted = wanted;
	tcp_stream_want(&conn->stream, wanted);
}

/* tcp_tx.c */

void tcp_tx_init(struct tcp_conn *conn);
void tcp_tx_free(struct tcp_conn *conn);
/* Moves what is not begun (or everything) to tx_dropped. */
void tcp_tx_drop(struct tcp_conn *conn, bool keeps_begun);
/* Calls done of what was dropped, until nothing is left. */
void tcp_tx_finish_dropped(struct tcp_conn *conn);
/* Sends what is queued; conn->flush. */
void tcp_tx_flush(struct reactor_defer *flush);
void tcp_tx_writable(struct tcp_conn *conn);
/* What a zero-copy send of asked_bytes took of the queue: > 0 bytes. */
void tcp_tx_sent(struct tcp_conn *conn, size_t sent_bytes, size_t asked_bytes);
/* After PDUs were let go: restarts or ends the watch over a peer that does not read. */
void tcp_tx_moved(struct tcp_conn *conn);

/* Sends at the end of this turn unless the socket is known to be full. */
static inline void tcp_tx_kick(struct tcp_conn *conn)
{
	if (!conn->is_tx_blocked && !conn->is_sock_closing)
		reactor_defer(conn->reactor, &conn->flush);
}

/* Queues a PDU whose header is written; iov and data_bytes describe its payload. */
static inline void tcp_tx_queue(struct tcp_conn *conn, struct tcp_tx *tx)
{
	list_push_back(&conn->tx_queue, &tx->node);
	tcp_tx_kick(conn);
}

/* Sends now what waits for the end of the turn. */
static inline void tcp_tx_flush_now(struct tcp_conn *conn)
{
	if (!list_linked(&conn->flush.node))
		return;
	reactor_defer_cancel(&conn->flush);
	tcp_tx_flush(&conn->flush);
}

static inline void tcp_tx_release(struct tcp_tx *tx)
{
	free(tx->private_copy);
	tx->private_copy = NULL;
}

/* Ends these PDUs: the kernel has let go of them. */
static inline void tcp_tx_call_done(struct list *txs, int res)
{
	struct list *node;

	while ((node = list_pop_front(txs)) != NULL) {
		struct tcp_tx *tx = list_entry(node, struct tcp_tx, node);

		tcp_tx_release(tx);
		tx->done(tx, res);
	}
}

/* tcp_tx_zc.c */

/* Zero copy for this connection; without memory, or on a kernel that cannot, it goes without. */
void tcp_zc_init(struct tcp_conn *conn);
void tcp_zc_free(struct tcp_conn *conn);
/* Whether the next bytes of this PDU, of which done_bytes are sent, should go without a copy. */
bool tcp_zc_wants(const struct tcp_conn *conn, const struct tcp_tx *tx, size_t done_bytes);
/* Sends what was gathered of the queue; its PDUs are marked is_zc. iov is copied. */
void tcp_zc_send(struct tcp_conn *conn, const struct iovec *iov, unsigned iov_count,
		 size_t len_bytes);
/* Bytes that left as copies. */
void tcp_zc_note_copied(struct tcp_conn *conn, size_t len_bytes);
/* Where a PDU goes that is sent, or dropped: to those that wait for the kernel to let go of them,
 * or, when it holds nothing, to `otherwise`. */
void tcp_zc_keep(struct tcp_conn *conn, struct tcp_tx *tx, struct list *otherwise);
/* The kernel holds bytes of PDUs. Needs conn->zc, as do the five above it. */
bool tcp_zc_is_holding(const struct tcp_conn *conn);

#endif
