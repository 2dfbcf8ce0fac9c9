/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a socket, or a socket behind records. For a plain stream this file only opens, connects
 * and closes: bytes and readiness go directly between socket and user. With records, this file runs
 * the handshake, requests from the socket the events that the user and the records need, and calls
 * `ready` again for bytes that the records hold and the socket does not report. Runs on the
 * connection's reactor.
 */
#include "tcp/tcp_stream.h"

#include <errno.h>
#include <string.h>

static struct tcp_stream *stream_of(struct reactor_sock *sock)
{
	return container_of(sock, struct tcp_stream, sock);
}

/* ---- events requested from the socket ------------------------------------------------------ */

static void stream_update(struct tcp_stream *stream)
{
	unsigned wanted = stream->wanted;

	if (!stream->is_established)
		wanted = stream->is_waiting ? 0 : REACTOR_SOCK_READ;
	if (stream->sock.closing)
		return;
	if (stream->has_output)
		wanted |= REACTOR_SOCK_WRITE;
	if (wanted == stream->sock_wanted)
		return;
	stream->sock_wanted = wanted;
	reactor_sock_want(&stream->sock, wanted);
}

/* The socket does not report bytes that the records hold. A user that does not receive these bytes
 * is called again when it next requests READ, not in every turn. */
static void stream_call_again(struct tcp_stream *stream)
{
	if (stream->has_input && (stream->wanted & REACTOR_SOCK_READ) && !stream->sock.closing)
		reactor_defer(stream->sock.reactor, &stream->again);
}

void tcp_stream_want_records(struct tcp_stream *stream, unsigned events)
{
	stream->wanted = events;
	stream_call_again(stream);
	stream_update(stream);
}

ssize_t tcp_stream_recv_records(struct tcp_stream *stream, const struct iovec *iov,
				unsigned iov_count)
{
	ssize_t len = stream->records->recv(stream, iov, iov_count);

	stream_call_again(stream);
	/* recv may have queued records for the peer: request WRITE for them. */
	stream_update(stream);
	return len;
}

ssize_t tcp_stream_send_records(struct tcp_stream *stream, const struct iovec *iov,
				unsigned iov_count)
{
	ssize_t len = stream->records->send(stream, iov, iov_count);

	stream_update(stream);
	return len;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Shuts the sending side once the socket has taken all kept bytes. */
static void stream_shut(struct tcp_stream *stream)
{
	if (!stream->is_ending || stream->has_output)
		return;
	stream->is_ending = false;
	reactor_sock_shutdown_send(&stream->sock);
}

void tcp_stream_shutdown_send(struct tcp_stream *stream)
{
	if (!stream->records) {
		reactor_sock_shutdown_send(&stream->sock);
		return;
	}
	stream->is_ending = true;
	/* Do not wait for a closing record that fails: the connection ends either way. */
	if (stream->records->end(stream) < 0)
		stream->has_output = false;
	stream_shut(stream);
	stream_update(stream);
}

static void stream_free(struct tcp_stream *stream)
{
	if (stream->records)
		stream->records->free(stream);
	stream->state = NULL;
}

static void stream_closed(struct reactor_sock *sock)
{
	struct tcp_stream *stream = stream_of(sock);

	stream_free(stream);
	stream->user->closed(stream);
}

void tcp_stream_close(struct tcp_stream *stream)
{
	reactor_defer_cancel(&stream->again);
	reactor_sock_close(&stream->sock, stream_closed);
}

/* ---- readiness with records ---------------------------------------------------------------- */

static void stream_established(struct tcp_stream *stream)
{
	stream->is_established = true;
	stream->user->established(stream);
	stream_call_again(stream);
	stream_update(stream);
}

/* One step of the handshake. */
static void stream_shake_hands(struct tcp_stream *stream)
{
	int res = stream->records->handshake(stream);

	/* While the handshake waits for tcp_stream_advance, no READ is requested: a peer that keeps
	 * sending must not keep the reactor busy. */
	stream->is_waiting = res == -EINPROGRESS;
	if (res == 0)
		stream_established(stream);
	else if (res == -EAGAIN || res == -EINPROGRESS)
		stream_update(stream);
	else
		stream->user->failed(stream, res);
}

void tcp_stream_advance(struct tcp_stream *stream)
{
	CHECK(stream->sock.reactor == reactor_current());
	if (!stream->is_established && !stream->sock.closing)
		stream_shake_hands(stream);
}

/* The socket has room: sends kept bytes. Returns the WRITE event to report to the user, or 0. */
static unsigned stream_writable(struct tcp_stream *stream)
{
	bool had_output = stream->has_output;
	int res = had_output ? stream->records->flush(stream) : 0;

	if (res < 0) {
		stream->user->failed(stream, res);
		return 0;
	}
	stream_shut(stream);
	if (stream->has_output)
		return 0;
	return had_output ? REACTOR_SOCK_WRITE : stream->wanted & REACTOR_SOCK_WRITE;
}

/* The socket is ready during the handshake, whose messages may also wait for room. */
static void handshake_ready(struct tcp_stream *stream)
{
	int res = stream->has_output ? stream->records->flush(stream) : 0;

	if (res < 0)
		stream->user->failed(stream, res);
	else if (stream->is_waiting)
		stream_update(stream);
	else
		stream_shake_hands(stream);
}

static void records_ready(struct reactor_sock *sock, unsigned events)
{
	struct tcp_stream *stream = stream_of(sock);
	unsigned heard = events & stream->wanted & REACTOR_SOCK_READ;

	if (!stream->is_established) {
		handshake_ready(stream);
		return;
	}
	if (events & REACTOR_SOCK_WRITE)
		heard |= stream_writable(stream);
	if (heard && !sock->closing)
		stream->user->ready(sock, heard);
	stream_update(stream);
}

/* Runs at the end of a turn that left bytes in the records, and at the start of an accepted
 * stream. */
static void stream_again(struct reactor_defer *defer)
{
	struct tcp_stream *stream = container_of(defer, struct tcp_stream, again);

	if (!stream->is_established) {
		stream_shake_hands(stream);
		return;
	}
	if (stream->has_input && (stream->wanted & REACTOR_SOCK_READ))
		stream->user->ready(&stream->sock, REACTOR_SOCK_READ);
	stream_update(stream);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static int stream_init(struct tcp_stream *stream, bool is_host,
		       const struct tcp_stream_config *config)
{
	memset(stream, 0, sizeof(*stream));
	stream->user = config->user;
	stream->records = config->records;
	stream->wanted = REACTOR_SOCK_READ;
	stream->sock_wanted = REACTOR_SOCK_READ;
	reactor_defer_init(&stream->again, stream_again);
	if (stream->records)
		return stream->records->open(stream, is_host, config->records_arg);
	stream->can_recv_direct = true;
	stream->can_send_zc = true;
	return 0;
}

int tcp_stream_accept(struct tcp_stream *stream, struct reactor *reactor, int taken_fd,
		      const struct tcp_stream_config *config)
{
	int error = stream_init(stream, false, config);

	if (error)
		return error;
	reactor_sock_open(reactor, &stream->sock, taken_fd,
			  stream->records ? records_ready : stream->user->ready);
	if (stream->records)
		reactor_defer(reactor, &stream->again);
	else
		stream_established(stream);
	return 0;
}

static void stream_connected(struct reactor_sock *sock, int res)
{
	struct tcp_stream *stream = stream_of(sock);

	if (res < 0)
		stream_free(stream);
	stream->user->connected(stream, res);
	if (res < 0)
		return;
	if (stream->records)
		stream_shake_hands(stream);
	else
		stream_established(stream);
}

int tcp_stream_connect(struct tcp_stream *stream, struct reactor *reactor,
		       const struct net_addr *addr, const struct tcp_stream_config *config)
{
	int error = stream_init(stream, true, config);

	if (error)
		return error;
	reactor_sock_connect(reactor, &stream->sock, addr, stream_connected,
			     stream->records ? records_ready : stream->user->ready);
	return 0;
}
