/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three files of the connection engine share: tcp_conn.c (life and end), tcp_rx.c (bytes
 * to PDUs) and tcp_tx.c (PDUs to bytes). Runs on the reactor that owns the connection.
 */
#ifndef WEFT_TCP_TCP_INTERNAL_H
#define WEFT_TCP_TCP_INTERNAL_H

#include "tcp/tcp.h"

/* A partial granule, or a partial header with its digest. */
#define TCP_CARRY_ROOM (TCP_CARRY_BYTES + NVME_TCP_HDR_MAX_BYTES + NVME_TCP_DIGEST_BYTES)

#define TCP_RECV_BUDGET_BYTES (256 * 1024)
#define TCP_DIRECT_MIN_BYTES  (32 * 1024) /* payload still to come that is worth its own recv */
#define TCP_DIRECT_TAIL_BYTES 1024        /* received behind such payload: the next header */
#define TCP_SEND_IOVS         1024
#define TCP_SEND_BYTES        (512 * 1024)
#define TCP_SEND_TURN_BYTES   (1024 * 1024)

/* tcp_conn.c */

/* Closes the socket now, drops what is queued; on_closed follows. Keeps a cause set earlier. */
void tcp_conn_end(struct tcp_conn *conn, int cause, const char *why);
/* Tells the socket what the state of the connection wants to hear. */
void tcp_conn_update_want(struct tcp_conn *conn);
/* True while PDUs of the peer are looked at. */
bool tcp_conn_is_listening(const struct tcp_conn *conn);
/* The peer's ICReq or ICResp. */
void tcp_conn_on_ic(struct tcp_conn *conn, const struct pdu *pdu);
void tcp_conn_on_term(struct tcp_conn *conn, const struct pdu *pdu);

/* tcp_rx.c */

void tcp_rx_init(struct tcp_conn *conn);
void tcp_rx_free(struct tcp_conn *conn);
/* True when the next bytes of the socket can be taken. */
bool tcp_rx_is_willing(const struct tcp_conn *conn);
/* One receive and all that follows from it. */
void tcp_rx_ready(struct tcp_conn *conn);

/* tcp_tx.c */

void tcp_tx_init(struct tcp_conn *conn);
void tcp_tx_free(struct tcp_conn *conn);
/* Queues a PDU whose header is written; iov and data_bytes describe its payload. */
void tcp_tx_queue(struct tcp_conn *conn, struct tcp_tx *tx);
/* Moves what is not begun (or everything) to tx_dropped. */
void tcp_tx_drop(struct tcp_conn *conn, bool keeps_begun);
/* Calls done of what was dropped, until nothing is left. */
void tcp_tx_finish_dropped(struct tcp_conn *conn);
/* Sends at the end of this turn unless the socket is known to be full. */
void tcp_tx_kick(struct tcp_conn *conn);
void tcp_tx_writable(struct tcp_conn *conn);

#endif
