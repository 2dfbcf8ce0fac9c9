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
#define TCP_DIRECT_MIN_BYTES   (32 * 1024) /* payload from this size on gets its own recv */
#define TCP_DIRECT_TAIL_BYTES  1024        /* received after such payload: the next header */
#define TCP_SCATTER_IOVS       64          /* pieces of a sink filled by one receive */
#define TCP_SEND_IOVS          1024
#define TCP_SEND_HELD          512         /* pieces of shared payload in one send */
#define TCP_SEND_HEADERS_BYTES (32 * 1024) /* of PDUs without payload, in one send */
#define TCP_SEND_BYTES         (1024 * 1024)
#define TCP_SEND_PACE_BYTES    16384u /* per second; a slower peer counts as making no progress */
#define TCP_ZC_MOVED_BYTES     65536u /* progress credited for each report about a zero-copy send */
#define TCP_SEND_TURN_BYTES    (1024 * 1024)
#define TCP_ZC_SENDS           32 /* not yet released; when all are in use, sends copy */
#define TCP_ZC_IOVS            64
#define TCP_ZC_COPIED_MAX      4 /* reports of a copy in a row before zero copy is switched off */

/* tcp_conn.c */

/* Closes the socket now, drops what is queued; on_closed follows. Keeps a cause set earlier. */
void tcp_conn_end(struct tcp_conn *conn, int cause, const char *why);
/* True while the engine parses PDUs of the peer. */
static inline bool tcp_conn_is_listening(const struct tcp_conn *conn)
{
	return conn->phase == TCP_CONN_IC || conn->phase == TCP_CONN_OPEN;
}

/* Handles the peer's ICReq or ICResp. */
void tcp_conn_on_ic(struct tcp_conn *conn, const struct pdu *pdu);
void tcp_conn_on_term(struct tcp_conn *conn, const struct pdu *pdu);

/* tcp_rx.c */

void tcp_rx_init(struct tcp_conn *conn);
void tcp_rx_free(struct tcp_conn *conn);
/* True when the engine can receive the next bytes of the stream. */
static inline bool tcp_rx_is_willing(const struct tcp_conn *conn)
{
	return tcp_conn_is_listening(conn) && !conn->is_paused && !conn->spill &&
	       !conn->is_ignoring;
}

/* The socket is ready: one receive and everything that follows from it, or room to send. */
void tcp_rx_ready(struct reactor_sock *sock, unsigned events);

/* Requests the socket events that the connection's state needs. */
static inline void tcp_conn_update_want(struct tcp_conn *conn)
{
	unsigned wanted = 0;

	if (conn->phase < TCP_CONN_IC || conn->is_sock_closing)
		return;
	/* While the connection ends, bytes from the peer are read and discarded: closing a socket
	 * with unread data would reset the connection and lose our last PDUs. */
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
/* Moves every PDU (or, with keeps_begun, every PDU not yet begun) to tx_dropped. */
void tcp_tx_drop(struct tcp_conn *conn, bool keeps_begun);
/* Calls done of the dropped PDUs until none is left. */
void tcp_tx_finish_dropped(struct tcp_conn *conn);
/* The function of conn->flush: sends what is queued. */
void tcp_tx_flush(struct reactor_defer *flush);
void tcp_tx_writable(struct tcp_conn *conn);
/* A zero-copy send of asked_bytes took sent_bytes (> 0) off the queue. */
void tcp_tx_sent(struct tcp_conn *conn, size_t sent_bytes, size_t asked_bytes);
/* After a zero-copy send took bytes or was released: extends or cancels the send stall timer. */
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

/* Sends now what would be sent at the end of the turn. */
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

/* Completes these PDUs, which the kernel no longer uses. */
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

/* Enables zero copy for this connection. Without memory, or on a kernel without zero copy, the
 * connection sends copies. */
void tcp_zc_init(struct tcp_conn *conn);
void tcp_zc_free(struct tcp_conn *conn);
/* Whether the next bytes of this PDU, of which done_bytes are sent, should be sent without a
 * copy. */
bool tcp_zc_wants(const struct tcp_conn *conn, const struct tcp_tx *tx, size_t done_bytes);
/* Sends what was gathered from the queue; the caller has marked those PDUs is_zc. iov is copied. */
void tcp_zc_send(struct tcp_conn *conn, const struct iovec *iov, unsigned iov_count,
		 size_t len_bytes);
/* len_bytes were sent as copies. */
void tcp_zc_note_copied(struct tcp_conn *conn, size_t len_bytes);
/* Keeps a PDU that is fully sent or dropped with the newest zero-copy send until the kernel
 * releases that send. When no zero-copy send is pending, puts the PDU on `otherwise`. */
void tcp_zc_keep(struct tcp_conn *conn, struct tcp_tx *tx, struct list *otherwise);
/* True while a zero-copy send is pending. Needs conn->zc, as do the four functions above. */
bool tcp_zc_is_holding(const struct tcp_conn *conn);

#endif
