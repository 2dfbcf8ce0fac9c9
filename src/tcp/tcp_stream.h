/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream: the bytes of a connection in both directions, as the connection engine sends and
 * receives them.
 *
 * A plain stream is its socket. Otherwise records sit between stream and socket (struct
 * tcp_records; TLS is such a kind). Records have a handshake before the first byte of NVMe/TCP, put
 * the engine's bytes into records and take them out again. What a kind of records cannot do is a
 * property of the stream, which the engine reads. In tcp/, only tcp_stream.c and kinds of records
 * use the socket. docs/adr/0038 walks through TLS. Runs on the connection's reactor.
 */
#ifndef WEFT_TCP_TCP_STREAM_H
#define WEFT_TCP_TCP_STREAM_H

#include "reactor/reactor.h"

#include <stdbool.h>
#include <stddef.h>

struct tcp_stream;

/*
 * The layer between the engine and the socket. A kind of records keeps its state behind
 * stream->state, uses stream->sock (recv and send only), and keeps has_input, has_output and why of
 * the stream true.
 */
struct tcp_records {
	const char *name; /* "TLS", for error texts */
	/* Makes stream->state from config.records_arg, before the socket exists. 0 or -errno. */
	int (*open)(struct tcp_stream *stream, bool is_host, void *arg);
	/* Frees stream->state; the last call. Also called when connecting failed. */
	void (*free)(struct tcp_stream *stream);
	/*
	 * Continues the handshake: at the start, whenever the socket is ready, and after
	 * tcp_stream_advance. 0: bytes can flow from now on. -EAGAIN: the handshake waits for the
	 * socket. -EINPROGRESS: the handshake waits for tcp_stream_advance, and nothing is received
	 * meanwhile. Any other -errno ends the connection.
	 */
	int (*handshake)(struct tcp_stream *stream);
	/*
	 * Like reactor_sock_recv and reactor_sock_send, for bytes of the engine; an empty piece may
	 * have no address. Bytes that `send` took and the socket did not are kept, at most 64 KiB,
	 * with has_output set. While has_output is set, `send` takes nothing (-EAGAIN).
	 */
	ssize_t (*recv)(struct tcp_stream *stream, const struct iovec *iov, unsigned iov_count);
	ssize_t (*send)(struct tcp_stream *stream, const struct iovec *iov, unsigned iov_count);
	/* Bytes that `recv` would certainly return now; 0: unknown. */
	size_t (*available)(const struct tcp_stream *stream);
	/* The socket has room: sends what was kept. 0 or -errno. has_output stays set while bytes
	 * remain. */
	int (*flush)(struct tcp_stream *stream);
	/* The engine sends nothing more: adds the closing record. Returns as flush. */
	int (*end)(struct tcp_stream *stream);
};

/* Callbacks to the connection that uses a stream. Only `ready` and `failed` may close the
 * stream. */
struct tcp_stream_user {
	/* Like the callback of a socket. For a plain stream, the socket calls `ready` directly,
	 * without a call in between. */
	void (*ready)(struct reactor_sock *sock, unsigned events);
	/* After tcp_stream_connect: 0, or -errno and this is the last callback. */
	void (*connected)(struct tcp_stream *stream, int res);
	/* The handshake, if any, is complete: bytes can flow. For an accepted plain stream, called
	 * from inside tcp_stream_accept. */
	void (*established)(struct tcp_stream *stream);
	/* The handshake failed, or kept bytes could not be sent; stream->why may give the
	 * reason. */
	void (*failed)(struct tcp_stream *stream, int error);
	/* Last callback after tcp_stream_close. */
	void (*closed)(struct tcp_stream *stream);
};

struct tcp_stream {
	struct reactor_sock sock;
	const struct tcp_records *records; /* NULL: a plain stream */
	/* Properties, valid from `established` on. */
	bool can_recv_direct; /* long payload is received directly into its sink */
	bool can_send_zc;     /* payload may be sent without a copy */
	/* Written by the records. */
	bool has_input;  /* recv has bytes, or the end, without the socket */
	bool has_output; /* kept bytes wait for room in the socket */
	const char *why; /* why the last call failed; NULL: only -errno is known */
	void *state;
	/* Written by tcp_stream.c; used only with records. */
	const struct tcp_stream_user *user;
	bool is_established;
	bool is_waiting;      /* the handshake waits for tcp_stream_advance */
	bool is_ending;       /* shut the sending side once the kernel has all records */
	unsigned wanted;      /* events requested by the user */
	unsigned sock_wanted; /* events last requested from the socket */
	struct reactor_defer again;
};

struct tcp_stream_config {
	const struct tcp_stream_user *user;
	const struct tcp_records *records; /* NULL: a plain stream */
	void *records_arg;
};

/* Takes over an accepted socket. 0 or -errno, in which case the caller still owns fd. */
int tcp_stream_accept(struct tcp_stream *stream, struct reactor *reactor, int taken_fd,
		      const struct tcp_stream_config *config);
/* Connects; `connected` follows, never from inside this call. 0 or -errno. */
int tcp_stream_connect(struct tcp_stream *stream, struct reactor *reactor,
		       const struct net_addr *addr, const struct tcp_stream_config *config);
/* For records: the event other than the socket that the handshake waited for has happened. */
void tcp_stream_advance(struct tcp_stream *stream);
/* Shuts the sending side after everything that was sent. */
void tcp_stream_shutdown_send(struct tcp_stream *stream);
/* Closes the stream, like reactor_sock_close; `closed` follows. */
void tcp_stream_close(struct tcp_stream *stream);

/* The functions below call these for a stream with records. */
void tcp_stream_want_records(struct tcp_stream *stream, unsigned events);
ssize_t tcp_stream_recv_records(struct tcp_stream *stream, const struct iovec *iov,
				unsigned iov_count);
ssize_t tcp_stream_send_records(struct tcp_stream *stream, const struct iovec *iov,
				unsigned iov_count);

/* Sets the events for which `ready` is called, like reactor_sock_want; initially READ. */
static inline void tcp_stream_want(struct tcp_stream *stream, unsigned events)
{
	if (!stream->records)
		reactor_sock_want(&stream->sock, events);
	else
		tcp_stream_want_records(stream, events);
}

/* Like reactor_sock_recv. */
static inline ssize_t tcp_stream_recv(struct tcp_stream *stream, const struct iovec *iov,
				      unsigned iov_count)
{
	if (!stream->records)
		return reactor_sock_recv(&stream->sock, iov, iov_count);
	return tcp_stream_recv_records(stream, iov, iov_count);
}

/* Like reactor_sock_send: the number of bytes that the user need not keep any more, or -errno. */
static inline ssize_t tcp_stream_send(struct tcp_stream *stream, const struct iovec *iov,
				      unsigned iov_count)
{
	if (!stream->records)
		return reactor_sock_send(&stream->sock, iov, iov_count);
	return tcp_stream_send_records(stream, iov, iov_count);
}

/* Like reactor_sock_available. */
static inline size_t tcp_stream_available(const struct tcp_stream *stream)
{
	return stream->records ? stream->records->available(stream)
			       : reactor_sock_available(&stream->sock);
}

/* Like reactor_sock_send_zc; only where can_send_zc is set. */
static inline void tcp_stream_send_zc(struct tcp_stream *stream, struct reactor_send *send,
				      const struct iovec *iov, unsigned iov_count)
{
	CHECK(stream->can_send_zc);
	reactor_sock_send_zc(&stream->sock, send, iov, iov_count);
}

/* ---- properties of the socket, with or without records ------------------------------------- */

static inline void tcp_stream_set_abort(struct tcp_stream *stream)
{
	reactor_sock_set_abort(&stream->sock);
}

static inline void tcp_stream_set_timeout(struct tcp_stream *stream, uint32_t unacked_ms)
{
	reactor_sock_set_timeout(&stream->sock, unacked_ms);
}

static inline uint64_t tcp_stream_rtt_ns(const struct tcp_stream *stream)
{
	return reactor_sock_rtt_ns(&stream->sock);
}

static inline int tcp_stream_peer(const struct tcp_stream *stream, struct net_addr *ret_addr)
{
	return reactor_sock_peer(&stream->sock, ret_addr);
}

static inline int tcp_stream_local(const struct tcp_stream *stream, struct net_addr *ret_addr)
{
	return reactor_sock_local(&stream->sock, ret_addr);
}

#endif
