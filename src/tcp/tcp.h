/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe/TCP connection engine, for both sides: bytes to PDUs and back, digests, termination.
 *
 * A connection belongs to one reactor. Its user (transport_tcp.c of target/ and of host/) embeds
 * struct tcp_conn and gives it callbacks (struct tcp_conn_handler). The engine does the
 * ICReq/ICResp exchange, judges every header with wire/pdu.h, moves payload to where the user wants
 * it, and gathers all that is sent in one turn into one send. Every violation ends in
 * tcp_conn_fail.
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

/* Where the payload of the PDU at hand goes. Filled by on_header. */
struct tcp_sink {
	uint8_t *dest;          /* data_bytes of room; NULL: read and throw away */
	uint32_t granule_bytes; /* dest is written only in whole multiples of this (or the end), so
				   that a reader of shared memory never sees half a block; 1 for
				   private buffers; at most TCP_CARRY_BYTES */
	struct block_guard *guard; /* held while such granules are written; NULL: nobody else
				      writes or reads them on another thread */
	/* Instead of dest, when iov_count is not 0: private pieces, of which the first
	 * iov_skip_bytes are left out. The array stays valid until the payload is complete. */
	const struct iovec *iov;
	unsigned iov_count;
	size_t iov_skip_bytes; /* of iov[0] */
};

struct tcp_conn_handler {
	/* The IC exchange is done; params are final. */
	void (*on_ready)(struct tcp_conn *conn);
	/*
	 * A header arrived and is valid; pdu is valid until on_pdu. Fills *sink when
	 * pdu->data_bytes > 0. Returns a violation, which ends the connection. To wait for a
	 * buffer, returns PDU_OK with *ret_pause set: nothing is received until tcp_conn_resume,
	 * after which on_header is called again with the same pdu.
	 */
	struct pdu_error (*on_header)(struct tcp_conn *conn, const struct pdu *pdu,
				      struct tcp_sink *sink, bool *ret_pause);
	/* The payload is complete. is_digest_ok is false when its data digest did not match. */
	struct pdu_error (*on_pdu)(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok);
	/* Last callback: the socket is closed and no tx of the user is held any more. `why` is for
	 * the log; cause is 0 for an orderly end by the peer, -ESHUTDOWN for tcp_conn_close,
	 * -EPROTO for a violation by the peer, -ECONNRESET for a TermReq of the peer, else -errno.
	 * Never called from inside a call of the user; conn may be freed in it. */
	void (*on_closed)(struct tcp_conn *conn, int cause, const char *why);
	/* Called while conn->wants_arrival is set. What has arrived, from a header on and not
	 * judged yet, before on_header hears of its first PDU: a chance to fetch from memory what
	 * all of them will need. */
	void (*on_arrival)(struct tcp_conn *conn, const uint8_t *bytes, size_t len_bytes);
	/* The peer was silent for longer than conn->silence allows. What has arrived is neither
	 * received nor parsed; the user ends the connection. */
	void (*on_too_late)(struct tcp_conn *conn);
	/* May be NULL. An open connection begins to end: what is sent from now on does not leave,
	 * and on_closed follows. May run inside a call of the user, and calls no tcp_* function. */
	void (*on_ending)(struct tcp_conn *conn);
	/*
	 * May be NULL. A capsule or R2T without payload: one call instead of on_header and on_pdu.
	 * Pauses like on_header: when *ret_pause is set, it is called again for the same PDU.
	 */
	struct pdu_error (*on_whole)(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause);
};

struct tcp_conn_config {
	enum pdu_role role;
	/* What sits between the connection and its socket, and its argument; NULL: nothing. */
	const struct tcp_records *records;
	void *records_arg;
	bool allows_header_digest; /* target: agree when asked; host: ask */
	bool allows_data_digest;
	uint32_t data_align_bytes;     /* what we ask of the peer's data: 4 */
	uint32_t max_r2t;              /* host: how many we accept, 1-based */
	uint32_t data_max_bytes;       /* target: MAXH2CDATA */
	uint32_t in_capsule_max_bytes; /* target: most data a command capsule may carry */
	uint32_t ic_timeout_ms;   /* for all before on_ready: connect, handshake, IC exchange */
	uint32_t term_timeout_ms; /* how long to wait for the peer's close after a TermReq */
	uint32_t send_timeout_ms; /* longest wait for a peer that does not read; 0: for ever */
	/* Host: sent data that the peer's machine does not acknowledge for so long ends the
	 * connection; 0: the kernel's own time. */
	uint32_t unacked_timeout_ms;
	/* Host: where the engine notes, as times of the turn, when the connection was made or the
	 * last byte came, and when the last byte went to the kernel. NULL: not noted. */
	uint64_t *heard_ns;
	uint64_t *sent_ns;
	uint32_t recv_budget_bytes; /* per turn; 0: 256 KiB */
	/* Private payload of so many bytes is sent without a copy; 0: never. Without is_forced only
	 * until the kernel has reported a few times in a row that it copied all the same. */
	uint32_t zero_copy_min_bytes;
	bool is_zero_copy_forced;
};

/* One PDU on its way out; embedded in the user's object, busy from tcp_send_* until done. */
struct tcp_tx {
	struct list node;
	/* res 0: all bytes are with the kernel, and it needs the payload no more; -errno: the
	 * connection ended first. */
	void (*done)(struct tcp_tx *tx, int res);
	const struct iovec *iov; /* payload; stays valid until done */
	unsigned iov_count;
	uint32_t iov_skip_bytes; /* of iov[0]: the payload begins behind them */
	uint32_t data_bytes;
	/* Not 0: payload may change while queued (mapped memory), in whole multiples of this. What
	 * a partial send leaves over of one such block is copied at once, so that the peer never
	 * gets half of an old and half of a new one; digests force a copy of everything. */
	uint32_t shared_block_bytes;
	/* Shared payload is held while it is sent or copied; blocks do not cross its granules.
	 * NULL: no other thread changes it. */
	struct block_guard *guard;
	/* The engine's: a copy of this part of the payload. */
	uint8_t *private_copy;
	uint32_t private_from_bytes;
	uint32_t private_end_bytes;
	uint16_t hdr_bytes;
	bool has_trailer;
	bool is_zc; /* a zero-copy send has, or may have, bytes of it */
	/* Valid in done: some of its bytes went to the kernel, or may have. */
	bool is_begun;
	uint8_t trailer[NVME_TCP_DIGEST_BYTES];
	/* A peer may ask for data at multiples of 68 or 72 bytes, which puts it at 136 or 144.
	 * Aligned: its digest costs half as much again otherwise. */
	_Alignas(8) uint8_t hdr[NVME_TCP_HDR_MAX_BYTES + 16];
};

enum tcp_conn_phase {
	TCP_CONN_CONNECTING, /* host: TCP connect under way */
	TCP_CONN_HANDSHAKE,  /* of the stream's records, before the first PDU */
	TCP_CONN_IC,         /* waiting for the peer's ICReq or ICResp */
	TCP_CONN_OPEN,
	TCP_CONN_TERMINATING, /* our TermReq is sent, the peer's close is awaited */
	TCP_CONN_CLOSING,     /* the socket is being closed */
	TCP_CONN_CLOSED,
};

enum tcp_rx_phase {
	TCP_RX_HEADER,
	TCP_RX_SINK, /* the header is judged; on_header or on_whole is to be called (again) */
	TCP_RX_DATA,
	TCP_RX_DIGEST,
};

struct tcp_conn_stats {
	uint64_t bytes_received;
	uint64_t bytes_sent;
	uint64_t pdus_received;
	uint64_t sends;
	uint64_t data_digest_errors;
	uint64_t zc_sends;     /* without a copy, part of `sends` */
	uint64_t zc_copied;    /* of these, reported as copied all the same */
	uint64_t zc_fallbacks; /* refused by the kernel, then sent with a copy */
};

struct tcp_zc;

struct tcp_conn {
	struct reactor *reactor;
	struct tcp_stream stream;
	struct tcp_conn_config config;
	const struct tcp_conn_handler *handler;
	enum tcp_conn_phase phase;
	struct pdu_state rx_state;       /* how we judge what comes */
	struct pdu_encoding tx_encoding; /* how we write what goes */
	uint32_t peer_max_r2t;           /* target: MAXR2T of the host, 1-based */
	uint32_t peer_data_max_bytes;    /* host: MAXH2CDATA of the controller */
	struct net_addr peer;
	struct tcp_conn_stats stats;
	/* The user sets both. Each receive is judged by a clock of now, because a turn may have
	 * begun before the process stood still. NULL: the peer may be silent for any time. */
	const struct silence *silence;
	bool wants_arrival;
	uint64_t unread_ns; /* of a host: the clocks that its user does not want */

	/* receive */
	enum tcp_rx_phase rx_phase;
	bool is_paused;            /* by on_header */
	bool is_ignoring;          /* tcp_conn_ignore */
	bool is_long_expected;     /* the last payload was long: the next one may be */
	uint32_t direct_min_bytes; /* of a payload that is received straight into its place */
	struct pdu pdu;            /* the one at hand */
	struct tcp_sink sink;
	uint32_t data_done_bytes;
	uint32_t data_crc;
	uint32_t skip_bytes; /* padding before the data */
	uint32_t carry_bytes;
	uint8_t *carry; /* TCP_CARRY_BYTES + headers, allocated at open */
	/* What was received behind a pause and is too long for carry; NULL on the usual path. */
	uint8_t *spill;
	size_t spill_bytes;
	size_t spill_done_bytes;
	struct reactor_defer unpause;
	uint32_t raw_bytes; /* of the header at hand, for a TermReq */
	uint8_t raw[NVME_TCP_HDR_MAX_BYTES];

	/* send */
	struct list tx_queue;
	size_t tx_head_done_bytes; /* of the first PDU in tx_queue */
	struct reactor_defer flush;
	struct reactor_timer send_stall;
	uint64_t send_stall_ns; /* when it fires */
	struct tcp_zc *zc;      /* NULL: every send is a copy */
	bool is_tx_sending;     /* a zero-copy send is under way: nothing may overtake it */
	bool is_tx_blocked;     /* the socket is full: wait for REACTOR_SOCK_WRITE */
	unsigned wanted;        /* what the socket was last told */
	struct tcp_tx ic_tx;

	/* end */
	struct list tx_dropped; /* their done is called with -ECONNRESET at the end of the turn */
	struct reactor_defer dropper; /* does that */
	bool is_shut;                 /* tcp_conn_close: all is sent, the peer's end is awaited */
	bool is_sock_closing;
	struct reactor_timer deadline; /* IC, then termination */
	uint8_t *term_buf;
	size_t term_bytes;
	size_t term_sent_bytes;
	int close_cause;
	const char *close_why;
	char why_text[96]; /* what close_why points at when it is made up here */
};

/* Takes an accepted socket over (target). 0 or -ENOMEM, in which case fd is still the caller's. */
int tcp_conn_accept(struct tcp_conn *conn, struct reactor *reactor, int taken_fd,
		    const struct tcp_conn_config *config, const struct tcp_conn_handler *handler);
/* Connects (host); on_ready or on_closed follows. 0 or -ENOMEM. */
int tcp_conn_connect(struct tcp_conn *conn, struct reactor *reactor, const struct net_addr *addr,
		     const struct tcp_conn_config *config, const struct tcp_conn_handler *handler);
/*
 * Goes on receiving after on_header paused; on_header is called again for the same PDU, at the end
 * of the turn, never from inside this call. Harmless when the connection ended meanwhile.
 */
void tcp_conn_resume(struct tcp_conn *conn);
/* From now on what the peer sends is thrown away, unread, also the rest of a PDU that has begun to
 * arrive; only its end is noticed. Sending goes on. */
void tcp_conn_ignore(struct tcp_conn *conn);
/* What comes of this command's data in the PDU at hand goes nowhere from now on: its sink may be
 * freed. Harmless when the PDU at hand is another one. */
void tcp_conn_discard(struct tcp_conn *conn, uint16_t cccid);
/* The same for the PDU at hand, whatever it is; nothing is at hand between two. */
void tcp_conn_discard_rest(struct tcp_conn *conn);
/* A violation: TermReq with the offending header, drain, close. Harmless when already ending. */
void tcp_conn_fail(struct tcp_conn *conn, struct pdu_error error);
/*
 * Orderly: what is queued is sent, then the socket is closed. Nothing is received from now on. A
 * peer that does not end its side within term_timeout_ms is cut off.
 */
void tcp_conn_close(struct tcp_conn *conn, const char *why);
/* At once: what is queued is dropped, also by the kernel, and the peer sees a reset. A host's
 * connection ends this way whatever the cause, unless the host itself has closed it. */
void tcp_conn_abort(struct tcp_conn *conn, int cause, const char *why);
bool tcp_conn_is_open(const struct tcp_conn *conn);
/* Our own address. 0 or -errno. */
int tcp_conn_local(const struct tcp_conn *conn, struct net_addr *ret_addr);
/* The smoothed round-trip time; 0: unknown. A system call. */
uint64_t tcp_conn_rtt_ns(const struct tcp_conn *conn);
/* "header digest error"; never NULL. */
const char *tcp_fes_name(uint16_t fes);

/*
 * Sending. tx->done must be set; for the data forms iov, iov_count and shared_block_bytes too. All
 * are legal from on_ready on; when the connection is not open any more done is called with
 * -ECONNRESET at the end of the turn. done is never called from inside tcp_send_*.
 */
void tcp_send_cmd(struct tcp_conn *conn, struct tcp_tx *tx, const struct nvme_sqe *sqe,
		  uint32_t in_capsule_bytes);
void tcp_send_resp(struct tcp_conn *conn, struct tcp_tx *tx, const struct nvme_cqe *cqe);
void tcp_send_r2t(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args);
void tcp_send_h2c_data(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args);
void tcp_send_c2h_data(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args);
/* Takes back a PDU that is queued: done is not called, the next one of tx may be sent. False: some
 * of its bytes have left, or may have. Not for private payload in a zero-copy send. */
bool tcp_tx_take_back(struct tcp_tx *tx);
/* The same payload at another place, where nobody changes it, for what has not left. */
void tcp_tx_move_payload(struct tcp_tx *tx, const struct iovec *iov, unsigned iov_count);

#endif
