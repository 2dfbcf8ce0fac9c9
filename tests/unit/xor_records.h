/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records for streams in tests: a toy of what TLS does, without its security.
 *
 * The handshake has one message each way. The target's message may be delayed, as arithmetic on
 * another thread would do. Then records: type, length, a check byte and the bytes, exclusive-or'ed
 * with a key stream that never repeats. Lengths are drawn for each record, so that a record holds
 * several PDUs or a PDU needs many records. Records without payload are answered by one of the same
 * kind, like a KeyUpdate. The end is a record too: a stream that ends without it was cut off.
 */
#ifndef WEFT_TESTS_XOR_RECORDS_H
#define WEFT_TESTS_XOR_RECORDS_H

#include "base/clock.h"
#include "base/prng.h"
#include "tcp/tcp_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XOR_HELLO_BYTES  9
#define XOR_HDR_BYTES    4
#define XOR_RECORD_BYTES 16384
#define XOR_OUT_BYTES    (64 * 1024)

enum xor_type {
	XOR_DATA = 1,
	XOR_NOISE = 2, /* no payload; the peer must answer */
	XOR_ANSWER = 3,
	XOR_END = 4,
};

struct xor_config {
	uint64_t seed;             /* of the lengths */
	uint32_t record_max_bytes; /* at most XOR_RECORD_BYTES; 0: that */
	uint32_t noise_one_in;     /* one noise record per this number of sends; 0: none */
	uint32_t key;              /* equal on both sides */
	uint64_t think_ns;         /* delay of the target's handshake */
	bool is_direct;
	bool is_silent;  /* never sends its hello */
	bool is_endless; /* ends without an end record */
	int open_error;  /* result of open */
	/* Counted for the test. */
	unsigned handshakes; /* calls */
	unsigned data_records;
	unsigned noise_records;
	unsigned answers;
	unsigned short_flushes;
	unsigned opened;
	unsigned freed;
};

struct xor_state {
	struct tcp_stream *stream;
	struct xor_config *config;
	struct prng prng;
	bool is_host;
	bool has_sent_hello;
	bool has_heard_hello;
	bool is_thinking;
	bool has_thought;
	struct reactor_timer think;
	/* in */
	uint64_t in_at; /* position in the key stream */
	size_t in_bytes;
	size_t in_done;
	size_t plain_bytes; /* decoded bytes of the current record */
	size_t plain_done;
	bool is_over; /* the stream has ended, by a record or by the socket */
	int in_error;
	/* out */
	uint64_t out_at;
	size_t out_bytes;
	size_t out_done;
	uint8_t plain[XOR_RECORD_BYTES];
	uint8_t in[2 * (XOR_RECORD_BYTES + XOR_HDR_BYTES)];
	uint8_t out[XOR_OUT_BYTES + XOR_RECORD_BYTES + 16 * XOR_HDR_BYTES];
};

static inline uint8_t xor_key(const struct xor_state *state, uint64_t at)
{
	uint64_t word = (at / 8 + 1 + state->config->key) * 0x9e3779b97f4a7c15ull;

	return (uint8_t)((word ^ word >> 29) >> at % 8 * 8);
}

/* ---- out ----------------------------------------------------------------------------------- */

static inline int xor_flush(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;

	while (state->out_done < state->out_bytes) {
		struct iovec iov = {.iov_base = state->out + state->out_done,
				    .iov_len = state->out_bytes - state->out_done};
		ssize_t sent = reactor_sock_send(&stream->sock, &iov, 1);

		if (sent == -EAGAIN || sent == -EINTR) {
			state->config->short_flushes++;
			stream->has_output = true;
			return 0;
		}
		if (sent < 0)
			return (int)sent;
		state->out_done += (size_t)sent;
	}
	state->out_done = 0;
	state->out_bytes = 0;
	stream->has_output = false;
	return 0;
}

static inline uint8_t *xor_put(struct xor_state *state, enum xor_type type, size_t len_bytes)
{
	uint8_t *at = state->out + state->out_bytes;

	CHECK(state->out_bytes + XOR_HDR_BYTES + len_bytes <= sizeof(state->out));
	at[0] = (uint8_t)type;
	at[1] = (uint8_t)len_bytes;
	at[2] = (uint8_t)(len_bytes >> 8);
	at[3] = 0;
	state->out_bytes += XOR_HDR_BYTES + len_bytes;
	return at;
}

/* Exclusive-ors, and sets the check byte, computed from the plain bytes. */
static inline void xor_seal(struct xor_state *state, uint8_t *record, size_t len_bytes)
{
	uint8_t sum = record[0];

	for (size_t i = 0; i < len_bytes; i++) {
		uint8_t *byte = record + XOR_HDR_BYTES + i;

		sum = (uint8_t)(sum * 31 + *byte);
		*byte ^= xor_key(state, state->out_at++);
	}
	record[3] = (uint8_t)(sum ^ xor_key(state, state->out_at++));
}

static inline void xor_put_empty(struct xor_state *state, enum xor_type type)
{
	xor_seal(state, xor_put(state, type, 0), 0);
}

/* Copies from the pieces, starting at byte `from`. Returns the number of bytes. */
static inline size_t xor_gather(uint8_t *to, size_t room, const struct iovec *iov,
				unsigned iov_count, size_t from)
{
	size_t done = 0;

	for (unsigned i = 0; i < iov_count && done < room; i++) {
		size_t part = iov[i].iov_len;

		if (from >= part) {
			from -= part;
			continue;
		}
		part -= from;
		part = part < room - done ? part : room - done;
		memcpy(to + done, (const uint8_t *)iov[i].iov_base + from, part);
		done += part;
		from = 0;
	}
	return done;
}

static inline ssize_t xor_send(struct tcp_stream *stream, const struct iovec *iov,
			       unsigned iov_count)
{
	struct xor_state *state = stream->state;
	struct xor_config *config = state->config;
	size_t most = config->record_max_bytes ? config->record_max_bytes : XOR_RECORD_BYTES;
	size_t taken = 0;
	int error = xor_flush(stream);

	if (error)
		return error;
	if (stream->has_output)
		return -EAGAIN;
	if (config->noise_one_in > 0 && prng_one_in(&state->prng, config->noise_one_in)) {
		xor_put_empty(state, XOR_NOISE);
		config->noise_records++;
	}
	while (state->out_bytes + most + XOR_HDR_BYTES <= XOR_OUT_BYTES) {
		size_t room = (size_t)prng_below(&state->prng, most) + 1, len;
		uint8_t *record = state->out + state->out_bytes;

		len = xor_gather(record + XOR_HDR_BYTES, room, iov, iov_count, taken);
		if (len == 0)
			break;
		xor_seal(state, xor_put(state, XOR_DATA, len), len);
		config->data_records++;
		taken += len;
	}
	error = xor_flush(stream);
	return error ? error : (ssize_t)taken;
}

static inline int xor_end(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;

	if (!state->config->is_endless)
		xor_put_empty(state, XOR_END);
	return xor_flush(stream);
}

/* ---- in ------------------------------------------------------------------------------------ */

/* Receives more bytes of the socket. False: none now, or none ever again. */
static inline bool xor_fill(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;
	struct iovec iov;
	ssize_t got;

	if (state->is_over || state->in_error)
		return false;
	memmove(state->in, state->in + state->in_done, state->in_bytes - state->in_done);
	state->in_bytes -= state->in_done;
	state->in_done = 0;
	iov = (struct iovec){.iov_base = state->in + state->in_bytes,
			     .iov_len = sizeof(state->in) - state->in_bytes};
	got = reactor_sock_recv(&stream->sock, &iov, 1);
	if (got == -EAGAIN || got == -EINTR)
		return false;
	if (got > 0) {
		state->in_bytes += (size_t)got;
		return true;
	}
	state->in_error = got < 0 ? (int)got : -ECONNABORTED;
	stream->why = got < 0 ? NULL : "the stream was cut off between its records";
	return false;
}

static inline size_t xor_in_len(const struct xor_state *state)
{
	const uint8_t *at = state->in + state->in_done;

	return (size_t)at[1] | (size_t)at[2] << 8;
}

static inline bool xor_has_whole(const struct xor_state *state)
{
	size_t left = state->in_bytes - state->in_done;

	return left >= XOR_HDR_BYTES && left >= XOR_HDR_BYTES + xor_in_len(state);
}

/* Decodes the next complete record. */
static inline void xor_open_record(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;
	const uint8_t *at = state->in + state->in_done;
	size_t len = xor_in_len(state);
	uint8_t sum = at[0];

	if (len > XOR_RECORD_BYTES) {
		state->in_error = -EBADMSG;
		stream->why = "a record is too long";
		return;
	}
	for (size_t i = 0; i < len; i++) {
		state->plain[i] = at[XOR_HDR_BYTES + i] ^ xor_key(state, state->in_at++);
		sum = (uint8_t)(sum * 31 + state->plain[i]);
	}
	state->in_done += XOR_HDR_BYTES + len;
	if ((at[3] ^ xor_key(state, state->in_at++)) != sum) {
		state->in_error = -EBADMSG;
		stream->why = "a record is not what was sent";
		return;
	}
	state->plain_done = 0;
	state->plain_bytes = at[0] == XOR_DATA ? len : 0;
	state->is_over = at[0] == XOR_END;
	state->config->answers += at[0] == XOR_ANSWER;
	/* Queue behind waiting records; they are sent when the socket has room. */
	if (at[0] == XOR_NOISE && state->out_bytes + 2 * XOR_HDR_BYTES <= sizeof(state->out)) {
		xor_put_empty(state, XOR_ANSWER);
		state->in_error = xor_flush(stream);
	}
}

static inline ssize_t xor_recv(struct tcp_stream *stream, const struct iovec *iov,
			       unsigned iov_count)
{
	struct xor_state *state = stream->state;
	size_t total = 0, at = 0;
	unsigned i = 0;

	while (i < iov_count) {
		size_t part = state->plain_bytes - state->plain_done;

		/* An empty piece may have no address. */
		if (iov[i].iov_len == 0) {
			i++;
			continue;
		}
		if (part == 0) {
			if (xor_has_whole(state) && !state->is_over && !state->in_error)
				xor_open_record(stream);
			else if (!xor_fill(stream))
				break;
			continue;
		}
		part = part < iov[i].iov_len - at ? part : iov[i].iov_len - at;
		memcpy((uint8_t *)iov[i].iov_base + at, state->plain + state->plain_done, part);
		state->plain_done += part;
		total += part;
		at += part;
		if (at == iov[i].iov_len) {
			i++;
			at = 0;
		}
	}
	stream->has_input = state->plain_done < state->plain_bytes || xor_has_whole(state) ||
			    (total > 0 && (state->is_over || state->in_error));
	if (total > 0)
		return (ssize_t)total;
	if (state->in_error)
		return state->in_error;
	return state->is_over ? 0 : -EAGAIN;
}

static inline size_t xor_available(const struct tcp_stream *stream)
{
	const struct xor_state *state = stream->state;

	return state->plain_bytes - state->plain_done;
}

/* ---- the handshake ------------------------------------------------------------------------- */

static inline void xor_thought(struct reactor_timer *timer)
{
	struct xor_state *state = container_of(timer, struct xor_state, think);

	state->has_thought = true;
	tcp_stream_advance(state->stream);
}

static inline void xor_say_hello(struct xor_state *state)
{
	uint8_t *at = state->out + state->out_bytes;

	memcpy(at, state->is_host ? "HELLO" : "WELCO", 5);
	memcpy(at + 5, &state->config->key, 4);
	state->out_bytes += XOR_HELLO_BYTES;
	state->has_sent_hello = true;
}

/* 1: the hello has arrived; 0: not yet. */
static inline int xor_hear_hello(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;

	while (state->in_bytes - state->in_done < XOR_HELLO_BYTES) {
		if (!xor_fill(stream))
			return state->in_error;
	}
	if (memcmp(state->in + state->in_done, state->is_host ? "WELCO" : "HELLO", 5) != 0) {
		stream->why = "not a hello";
		return -EPROTO;
	}
	if (memcmp(state->in + state->in_done + 5, &state->config->key, 4) != 0) {
		stream->why = "another key";
		return -EACCES;
	}
	state->in_done += XOR_HELLO_BYTES;
	state->has_heard_hello = true;
	return 1;
}

/* The target's delay. True when it is over. */
static inline bool xor_think(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;

	if (state->is_host || state->config->think_ns == 0 || state->has_thought)
		return true;
	if (!state->is_thinking) {
		state->is_thinking = true;
		reactor_timer_init(stream->sock.reactor, &state->think, xor_thought);
		reactor_timer_arm(&state->think,
				  reactor_now_ns(stream->sock.reactor) + state->config->think_ns);
	}
	return false;
}

static inline int xor_handshake(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;
	int res;

	state->config->handshakes++;
	if (state->config->is_silent)
		return -EAGAIN;
	if (state->is_host && !state->has_sent_hello)
		xor_say_hello(state);
	if (!state->has_heard_hello) {
		res = xor_flush(stream);
		if (res == 0)
			res = xor_hear_hello(stream);
		if (res <= 0)
			return res == 0 ? -EAGAIN : res;
	}
	if (!xor_think(stream))
		return -EINPROGRESS;
	if (!state->has_sent_hello)
		xor_say_hello(state);
	res = xor_flush(stream);
	if (res < 0)
		return res;
	stream->can_recv_direct = state->config->is_direct;
	/* The first records may have arrived with the hello. */
	stream->has_input = xor_has_whole(state);
	return 0;
}

static inline int xor_open(struct tcp_stream *stream, bool is_host, void *arg)
{
	struct xor_config *config = arg;
	struct xor_state *state;

	if (config->open_error)
		return config->open_error;
	state = calloc(1, sizeof(*state));
	if (!state)
		return -ENOMEM;
	state->stream = stream;
	state->config = config;
	state->is_host = is_host;
	prng_seed(&state->prng, config->seed + is_host);
	stream->state = state;
	config->opened++;
	return 0;
}

static inline void xor_free(struct tcp_stream *stream)
{
	struct xor_state *state = stream->state;

	if (state->is_thinking)
		reactor_timer_cancel(&state->think);
	state->config->freed++;
	free(state);
}

/* Few large records, many small ones, and both. */
static inline struct xor_config xor_config_of(uint64_t seed)
{
	static const uint32_t most[] = {0, 7, 700, 5000, 64};

	return (struct xor_config){
		.seed = seed,
		.record_max_bytes = most[seed % ARRAY_LEN(most)],
		.noise_one_in = seed % 3 ? 4 : 0,
		.think_ns = seed % 2 ? 20 * NS_PER_US : 0,
		.is_direct = seed / 2 % 2,
	};
}

static const struct tcp_records xor_records = {
	.name = "XOR",
	.open = xor_open,
	.free = xor_free,
	.handshake = xor_handshake,
	.recv = xor_recv,
	.send = xor_send,
	.available = xor_available,
	.flush = xor_flush,
	.end = xor_end,
};

#endif
