/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe/TCP connection engine, for both sides: bytes to PDUs and back, digests, termination.
 *
 * A connection belongs to one reactor. Its user (transport_tcp.c of target/ and of host/) embeds
 * struct tcp_conn and gives it callbacks (struct tcp_conn_handler). The engine does the
 * ICReq/ICResp exchange, checks every header with wire/pdu.h, moves payload to where the user wants
 * it, and gathers all PDUs of one turn into one send. Every violation ends in tcp_conn_fail.
 */
#ifndef WEFT_TCP_TCP_H
#define WEFT_TCP_TCP_H

#include "base/block_guard.h"
#include "base/list.h"
#include "base/silence.h"
#include "reactor/reactor.h"
#include "tcp/tcp_stream.h"
#include "wire/pdu.h"

#include <stdbool.h>
#include <stdint.h>

#define TCP_CARRY_BYTES 4096 /* unparsed tail kept between receives; also the largest granule */

struct tcp_conn;

/* Where the payload of the current PDU goes. Filled by on_header. */
struct tcp_sink {
	uint8_t *dest; /* data_bytes of room; NULL: read and discard */
	/* dest is written only in whole multiples of granule_bytes, except at the end of the
	 * payload, so that a reader of shared memory never sees half a block. 1 for private
	 * buffers; at most TCP_CARRY_BYTES. */
	uint32_t granule_bytes;
	/* Held while granules are written. NULL: no other thread reads or writes them. */
	struct block_guard *guard;
	/* Used instead of dest when iov_count is not 0: private pieces. The first iov_skip_bytes of
	 * iov[0] are left out. The array stays valid until the payload is complete. */
	const struct iovec *iov;
	unsigned iov_count;
	size_t iov_skip_bytes; /* of iov[0] */
};

struct tcp_conn_handler {
	/* The IC exchange is done; params are final. */
	void (*on_ready)(struct tcp_conn *conn);
	/*
	 * The header of a PDU with payload arrived and is valid; pdu is valid until on_pdu. Fills
	 * *sink. A returned violation ends the connection. To wait for a buffer, the user returns
	 * PDU_OK with *ret_pause set. The engine then receives nothing until tcp_conn_resume, after
	 * which it calls on_header again with the same pdu.
	 */
	struct pdu_error (*on_header)(struct tcp_conn *conn, const struct pdu *pdu,
				      struct tcp_sink *sink, bool *ret_pause);
	/* The payload is complete. is_digest_ok is false when its data digest did not match. */
	struct pdu_error (*on_pdu)(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok);
	/*
	 * A PDU without payload arrived: a capsule or R2T. One call instead of on_header and
	 * on_pdu. Pauses like on_header: when *ret_pause is set, the engine calls on_whole again
	 * for the same PDU.
	 */
	struct pdu_error (*on_whole)(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause);
	/* Last callback: the socket is closed and the engine holds no tx of the user. `why` is for
	 * the log. cause is 0 for an orderly end by the peer, -ESHUTDOWN for tcp_conn_close,
	 * -EPROTO for a violation by the peer, -ECONNRESET for a TermReq of the peer, else -errno.
	 * Never called from inside a call of the user. The user may free conn in this callback. */
	void (*on_closed)(struct tcp_conn *conn, int cause, const char *why);
	/* Called only while conn->wants_arrival is set, before on_header for the first PDU of a
	 * receive. `bytes` begins with a header that is not checked yet. Lets the user prefetch the
	 * memory that all these PDUs will need. */
	void (*on_arrival)(struct tcp_conn *conn, const uint8_t *bytes, size_t len_bytes);
	/* The peer was silent for longer than conn->silence allows. The engine neither receives nor
	 * parses what has arrived; the user ends the connection. */
	void (*on_too_late)(struct tcp_conn *conn);
	/* May be NULL. An open connection begins to end: whatever is sent from now on is not
	 * transmitted, and on_closed follows. May run inside a call of the user. Must not call a
	 * tcp_* function. */
	void (*on_ending)(struct tcp_conn *conn);
};

struct tcp_conn_config {
	enum pdu_role role;
	/* The records between the connection and its socket, and their argument; NULL: none. */
	const struct tcp_records *records;
	void *records_arg;
	bool allows_header_digest; /* target: agree when asked; host: ask */
	bool allows_data_digest;
	uint32_t data_align_bytes;     /* alignment we require of the peer's data: 4 */
	uint32_t max_r2t;              /* host: R2Ts we accept at a time, 1-based */
	uint32_t data_max_bytes;       /* target: MAXH2CDATA */
	uint32_t in_capsule_max_bytes; /* target: most data a command capsule may carry */
	uint32_t ic_timeout_ms;        /* time for connect, handshake and IC exchange */
	uint32_t term_timeout_ms;      /* how long to wait for the peer's close after a TermReq */
	uint32_t send_timeout_ms;      /* longest wait for a peer that does not read; 0: for ever */
	/* Host: the connection ends when the peer's machine does not acknowledge sent data within
	 * this time. 0: the kernel's own time. */
	uint32_t unacked_timeout_ms;
	/* Host: where the engine stores, in reactor_now_ns time, when the connection was made or
	 * the last byte arrived, and when the last byte was passed to the kernel. NULL: not
	 * stored. */
	uint64_t *heard_ns;
	uint64_t *sent_ns;
	uint32_t recv_budget_bytes; /* per turn; 0: 256 KiB */
	/* Private payload of at least this many bytes is sent without a copy; 0: never. Without
	 * is_zero_copy_forced, zero copy is switched off once the kernel has reported several times
	 * in a row that it copied anyway. */
	uint32_t zero_copy_min_bytes;
	bool is_zero_copy_forced;
};

/* One PDU to send; embedded in the user's object, in use from tcp_send_* until done. */
struct tcp_tx {
	struct list node;
	/* res 0: the kernel has all bytes and no longer needs the payload. -errno: the connection
	 * ended first. */
	void (*done)(struct tcp_tx *tx, int res);
	const struct iovec *iov; /* payload; stays valid until done */
	unsigned iov_count;
	uint32_t iov_skip_bytes; /* bytes of iov[0] before the payload */
	uint32_t data_bytes;
	/* Not 0: payload may change while queued (mapped memory), in whole multiples of this. The
	 * rest of a block that a partial send has cut is copied at once, so that the peer never
	 * gets half of an old block and half of a new one. Digests force a copy of the whole
	 * payload. */
	uint32_t shared_block_bytes;
	/* Held while shared payload is sent or copied; a block does not cross a granule. NULL: no
	 * other thread changes the payload. */
	struct block_guard *guard;
	/* Engine only: a copy of the payload from private_from_bytes to private_end_bytes. */
	uint8_t *private_copy;
	uint32_t private_from_bytes;
	uint32_t private_end_bytes;
	uint16_t hdr_bytes;
	bool has_trailer;
	bool is_zc; /* a zero-copy send has, or may have, bytes of this PDU */
	/* Valid in done: the kernel got, or may have got, bytes of this PDU. */
	bool is_begun;
	uint8_t trailer[NVME_TCP_DIGEST_BYTES];
	/* A peer may require data alignment to 68 or 72 bytes, which puts the data at offset 136 or
	 * 144. Aligned to 8 because the header digest takes half as long again otherwise. */
	_Alignas(8) uint8_t hdr[NVME_TCP_HDR_MAX_BYTES + 16];
};

enum tcp_conn_phase {
	TCP_CONN_CONNECTING, /* host: TCP connect under way */
	TCP_CONN_HANDSHAKE,  /* handshake of the stream's records, before the first PDU */
	TCP_CONN_IC,         /* waiting for the peer's ICReq or ICResp */
	TCP_CONN_OPEN,
	TCP_CONN_TERMINATING, /* our TermReq is queued or sent; waiting for the peer's close */
	TCP_CONN_CLOSING,     /* the socket is being closed */
	TCP_CONN_CLOSED,
};

enum tcp_rx_phase {
	TCP_RX_HEADER,
	TCP_RX_SINK, /* the header is valid; on_header or on_whole is to be called (again) */
	TCP_RX_DATA,
	TCP_RX_DIGEST,
};

struct tcp_conn_stats {
	uint64_t bytes_received;
	uint64_t bytes_sent;
	uint64_t pdus_received;
	uint64_t sends;
	uint64_t data_digest_errors;
	uint64_t zc_sends;     /* sent without a copy; included in `sends` */
	uint64_t zc_copied;    /* of zc_sends: the kernel reported that it copied anyway */
	uint64_t zc_fallbacks; /* refused by the kernel, then sent with a copy */
};

struct tcp_zc;

struct tcp_conn {
	struct reactor *reactor;
	struct tcp_stream stream;
	struct tcp_conn_config config;
	const struct tcp_conn_handler *handler;
	enum tcp_conn_phase phase;
	struct pdu_state rx_state;       /* state for checking received PDUs */
	struct pdu_encoding tx_encoding; /* format of the PDUs we send */
	uint32_t peer_max_r2t;           /* target: MAXR2T of the host, 1-based */
	uint32_t peer_data_max_bytes;    /* host: MAXH2CDATA of the controller */
	struct net_addr peer;
	struct tcp_conn_stats stats;
	/* The user sets silence and wants_arrival. Each receive checks silence against the current
	 * clock, because the process may have been stopped since the turn began. silence NULL: the
	 * peer may be silent for any time. */
	const struct silence *silence;
	bool wants_arrival;
	uint64_t unread_ns; /* target of config.heard_ns and sent_ns when the user passed NULL */

	/* receive */
	enum tcp_rx_phase rx_phase;
	bool is_paused;            /* by on_header or on_whole */
	bool is_ignoring;          /* tcp_conn_ignore */
	bool is_long_expected;     /* the last payload was long: the next may be long too */
	uint32_t direct_min_bytes; /* payload of this size is received directly */
	struct pdu pdu;            /* the current PDU */
	struct tcp_sink sink;
	uint32_t data_done_bytes;
	uint32_t data_crc;
	uint32_t skip_bytes; /* padding before the data */
	uint32_t carry_bytes;
	uint8_t *carry; /* TCP_CARRY_BYTES + headers, allocated at open */
	/* Bytes received after a pause that do not fit into carry; NULL on the usual path. */
	uint8_t *spill;
	size_t spill_bytes;
	size_t spill_done_bytes;
	struct reactor_defer unpause;
	uint32_t raw_bytes; /* of the current header, for a TermReq */
	uint8_t raw[NVME_TCP_HDR_MAX_BYTES];

	/* send */
	struct list tx_queue;
	size_t tx_head_done_bytes; /* of the first PDU in tx_queue */
	struct reactor_defer flush;
	struct reactor_timer send_stall;
	uint64_t send_stall_ns; /* when send_stall fires */
	struct tcp_zc *zc;      /* NULL: every send is a copy */
	bool is_tx_sending;     /* a zero-copy send is in flight: no other send may overtake it */
	bool is_tx_blocked;     /* the socket is full: wait for REACTOR_SOCK_WRITE */
	unsigned wanted;        /* REACTOR_SOCK_* events last requested from the stream */
	struct tcp_tx ic_tx;

	/* end */
	/* done of these PDUs is called with -ECONNRESET at the end of the turn. */
	struct list tx_dropped;
	struct reactor_defer dropper; /* empties tx_dropped */
	bool is_shut; /* tcp_conn_close: everything is sent, waiting for the peer's close */
	bool is_sock_closing;
	struct reactor_timer deadline; /* IC, then termination */
	uint8_t *term_buf;
	size_t term_bytes;
	size_t term_sent_bytes;
	int close_cause;
	const char *close_why;
	char why_text[96]; /* backs close_why when the engine formats the reason */
};

/* Takes over an accepted socket (target). 0 or -ENOMEM, in which case the caller still owns fd. */
int tcp_conn_accept(struct tcp_conn *conn, struct reactor *reactor, int taken_fd,
		    const struct tcp_conn_config *config, const struct tcp_conn_handler *handler);
/* Connects (host); on_ready or on_closed follows. 0 or -ENOMEM. */
int tcp_conn_connect(struct tcp_conn *conn, struct reactor *reactor, const struct net_addr *addr,
		     const struct tcp_conn_config *config, const struct tcp_conn_handler *handler);
/*
 * Resumes receiving after on_header or on_whole paused. The engine repeats that call for the same
 * PDU at the end of the turn, never from inside tcp_conn_resume. Harmless when the connection has
 * ended.
 */
void tcp_conn_resume(struct tcp_conn *conn);
/* From now on, whatever the peer sends is discarded unparsed, including the rest of a PDU that has
 * begun to arrive; only the peer's close is noticed. Sending continues. */
void tcp_conn_ignore(struct tcp_conn *conn);
/* When the current PDU carries data for command `cccid`, discards the rest of its payload: its sink
 * may be freed. No effect when another PDU is current. */
void tcp_conn_discard(struct tcp_conn *conn, uint16_t cccid);
/* Discards the rest of the current PDU's payload, whatever its command. No effect between two
 * PDUs. */
void tcp_conn_discard_rest(struct tcp_conn *conn);
/* Reports a violation by the peer: TermReq with the offending header, drain, close. Harmless when
 * the connection is already ending. */
void tcp_conn_fail(struct tcp_conn *conn, struct pdu_error error);
/*
 * Orderly end: sends what is queued, then closes the socket. Receives nothing from now on. A peer
 * that does not close its side within term_timeout_ms is cut off.
 */
void tcp_conn_close(struct tcp_conn *conn, const char *why);
/* Immediate end: drops what is queued, in the engine and in the kernel, and the peer sees a reset.
 * A host's connection always ends this way unless the host itself has closed it. */
void tcp_conn_abort(struct tcp_conn *conn, int cause, const char *why);
bool tcp_conn_is_open(const struct tcp_conn *conn);
/* Our own address. 0 or -errno. */
int tcp_conn_local(const struct tcp_conn *conn, struct net_addr *ret_addr);
/* The smoothed round-trip time; 0: unknown. Makes a system call. */
uint64_t tcp_conn_rtt_ns(const struct tcp_conn *conn);

/*
 * Sending. The caller sets tx->done; for the data forms also iov, iov_count and shared_block_bytes.
 * All are legal from on_ready on. When the connection is no longer open, done is called with
 * -ECONNRESET at the end of the turn. done is never called from inside tcp_send_*.
 */
void tcp_send_cmd(struct tcp_conn *conn, struct tcp_tx *tx, const struct nvme_sqe *sqe,
		  uint32_t in_capsule_bytes);
void tcp_send_resp(struct tcp_conn *conn, struct tcp_tx *tx, const struct nvme_cqe *cqe);
void tcp_send_r2t(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args);
void tcp_send_h2c_data(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args);
void tcp_send_c2h_data(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args);
/* Removes a queued PDU: done is not called, and tx may be used for another send. False: some bytes
 * of the PDU were sent, or may have been. Not for private payload in a zero-copy send. */
bool tcp_tx_take_back(struct tcp_tx *tx);
/* Replaces the payload's memory by a private copy of the payload, for the bytes not sent yet. iov
 * stays valid until done. */
void tcp_tx_move_payload(struct tcp_tx *tx, const struct iovec *iov, unsigned iov_count);

#endif
