/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving: bytes of the stream to PDUs. Bytes are received into the reactor's scratch memory,
 * after the bytes that the last receive left unparsed, so that the parser sees one contiguous run.
 * Long payload is received directly into its sink. Bytes that cannot be parsed yet (part of a
 * header, a granule or a digest) are kept in the connection's carry buffer; after a pause, bytes
 * that do not fit there are kept in a spill buffer. Memory that other threads may read or write is
 * held for one copy or one receive (base/block_guard.h). NVMe/TCP Transport 1.1, section 3.3. Runs
 * on the connection's reactor.
 */
#include "tcp/tcp_internal.h"

#include "base/crc32c.h"
#include "base/le.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- one PDU ------------------------------------------------------------------------------- */

/* Keeps a copy of a checked header, which has at least the length of the common header. */
static void rx_keep_raw(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	size_t want = buf[2];

	if (want < NVME_TCP_COMMON_HDR_BYTES)
		want = NVME_TCP_COMMON_HDR_BYTES;
	if (want > NVME_TCP_HDR_MAX_BYTES)
		want = NVME_TCP_HDR_MAX_BYTES;
	if (want > len_bytes)
		want = len_bytes;
	/* A copy of constant length is a few instructions; a copy of variable length is a call. */
	if (len_bytes >= sizeof(conn->raw))
		memcpy(conn->raw, buf, sizeof(conn->raw));
	else
		memcpy(conn->raw, buf, want);
	conn->raw_bytes = (uint32_t)want;
}

static void rx_complete(struct tcp_conn *conn, bool is_digest_ok)
{
	struct pdu_error error;

	conn->rx_phase = TCP_RX_HEADER;
	conn->stats.pdus_received++;
	conn->stats.data_digest_errors += !is_digest_ok;
	error = conn->handler->on_pdu(conn, &conn->pdu, is_digest_ok);
	if (pdu_is_error(error))
		tcp_conn_fail(conn, error);
}

/* Checks the header at buf. Returns the bytes used; 0 when more bytes are needed or the connection
 * ended. */
static size_t rx_header(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	struct pdu_error error = PDU_OK;
	size_t used;

	switch (pdu_decode(buf, len_bytes, &conn->rx_state, &conn->pdu, &error)) {
	case PDU_NEED_MORE:
		return 0;
	case PDU_VIOLATION:
		rx_keep_raw(conn, buf, len_bytes);
		tcp_conn_fail(conn, error);
		return 0;
	case PDU_DECODED:
		break;
	}
	rx_keep_raw(conn, buf, len_bytes);
	switch (conn->pdu.type) {
	case NVME_TCP_PDU_IC_REQ:
	case NVME_TCP_PDU_IC_RESP:
		conn->stats.pdus_received++;
		tcp_conn_on_ic(conn, &conn->pdu);
		return conn->pdu.header_bytes;
	case NVME_TCP_PDU_H2C_TERM_REQ:
	case NVME_TCP_PDU_C2H_TERM_REQ:
		conn->stats.pdus_received++;
		tcp_conn_on_term(conn, &conn->pdu);
		return conn->pdu.header_bytes;
	default:
		break;
	}
	used = conn->pdu.header_bytes;
	if (conn->rx_state.has_header_digest)
		used += NVME_TCP_DIGEST_BYTES;
	CHECK(used <= len_bytes && used <= conn->pdu.data_offset);
	conn->skip_bytes = conn->pdu.data_offset - (uint32_t)used;
	conn->rx_phase = TCP_RX_SINK;
	return used;
}

static void rx_whole(struct tcp_conn *conn)
{
	bool is_paused = false;
	struct pdu_error error;

	conn->rx_phase = TCP_RX_HEADER;
	error = conn->handler->on_whole(conn, &conn->pdu, &is_paused);
	if (is_paused) {
		conn->rx_phase = TCP_RX_SINK;
		conn->is_paused = true;
		return;
	}
	conn->stats.pdus_received++;
	if (pdu_is_error(error))
		tcp_conn_fail(conn, error);
}

static void rx_ask_sink(struct tcp_conn *conn)
{
	struct pdu_error error;
	bool is_paused = false;

	conn->sink = (struct tcp_sink){.granule_bytes = 1};
	error = conn->handler->on_header(conn, &conn->pdu, &conn->sink, &is_paused);
	if (!tcp_conn_is_listening(conn))
		return;
	if (pdu_is_error(error)) {
		tcp_conn_fail(conn, error);
		return;
	}
	if (is_paused) {
		conn->is_paused = true;
		return;
	}
	if (!conn->sink.dest || conn->sink.granule_bytes == 0)
		conn->sink.granule_bytes = 1;
	CHECK(conn->sink.granule_bytes <= TCP_CARRY_BYTES);
	CHECK(conn->sink.iov_count == 0 || (!conn->sink.dest && conn->sink.granule_bytes == 1));
	conn->is_long_expected = conn->pdu.data_bytes >= conn->direct_min_bytes;
	conn->data_done_bytes = 0;
	conn->data_crc = CRC32C_START;
	conn->rx_phase = TCP_RX_DATA;
}

/* `len_bytes` more of the payload are stored, and included in the digest. */
static void rx_landed(struct tcp_conn *conn, size_t len_bytes)
{
	conn->data_done_bytes += (uint32_t)len_bytes;
	if (conn->data_done_bytes < conn->pdu.data_bytes)
		return;
	if (conn->pdu.has_data_digest)
		conn->rx_phase = TCP_RX_DIGEST;
	else
		rx_complete(conn, true);
}

/* `len_bytes` more of the payload are stored at `bytes`; adds them to the digest. */
static void rx_data_landed(struct tcp_conn *conn, const uint8_t *bytes, size_t len_bytes)
{
	if (conn->pdu.has_data_digest)
		conn->data_crc = crc32c_update(conn->data_crc, bytes, len_bytes);
	rx_landed(conn, len_bytes);
}

/* Advances the sink by at most *len_bytes, and at most to the end of the current piece. Returns the
 * address that was passed; *len_bytes becomes its length. */
static uint8_t *sink_advance(struct tcp_sink *sink, size_t *len_bytes)
{
	size_t skip_bytes = sink->iov_skip_bytes, room_bytes;
	uint8_t *place;

	/* The user guarantees that the pieces have room for the whole payload. */
	CHECK(sink->iov_count > 0);
	/* An empty piece may have a NULL address: add nothing to it. */
	place = sink->iov->iov_base;
	if (skip_bytes > 0)
		place += skip_bytes;
	room_bytes = sink->iov->iov_len - skip_bytes;
	if (*len_bytes < room_bytes) {
		sink->iov_skip_bytes += *len_bytes;
		return place;
	}
	*len_bytes = room_bytes;
	sink->iov++;
	sink->iov_count--;
	sink->iov_skip_bytes = 0;
	return place;
}

static void rx_scatter(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	while (len_bytes > 0) {
		size_t part = len_bytes;
		uint8_t *place = sink_advance(&conn->sink, &part);

		if (part > 0)
			memcpy(place, buf, part);
		buf += part;
		len_bytes -= part;
	}
}

/* The part of len_bytes that may be written now: whole granules, or the rest of the payload. */
static size_t rx_whole_granules(const struct tcp_conn *conn, size_t len_bytes)
{
	size_t left = conn->pdu.data_bytes - conn->data_done_bytes;
	size_t over;

	if (len_bytes >= left)
		return left;
	/* Inside a granule (a receive was shorter than announced), even all len_bytes may not
	 * complete the granule. */
	over = (conn->data_done_bytes + len_bytes) % conn->sink.granule_bytes;
	return over < len_bytes ? len_bytes - over : 0;
}

static size_t rx_data(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	size_t chunk;

	if (conn->skip_bytes > 0) {
		chunk = len_bytes < conn->skip_bytes ? len_bytes : conn->skip_bytes;
		conn->skip_bytes -= (uint32_t)chunk;
		return chunk;
	}
	if (len_bytes < conn->sink.granule_bytes &&
	    len_bytes < conn->pdu.data_bytes - conn->data_done_bytes)
		return 0;
	chunk = rx_whole_granules(conn, len_bytes);
	if (chunk == 0)
		return 0;
	if (conn->sink.dest)
		block_guard_copy_in(conn->sink.guard, conn->sink.dest + conn->data_done_bytes, buf,
				    chunk);
	else if (conn->sink.iov_count > 0)
		rx_scatter(conn, buf, chunk);
	rx_data_landed(conn, buf, chunk);
	return chunk;
}

static size_t rx_digest(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	le32 digest;

	if (len_bytes < sizeof(digest))
		return 0;
	memcpy(&digest, buf, sizeof(digest));
	rx_complete(conn, le32_get(digest) == crc32c_finish(conn->data_crc));
	return sizeof(digest);
}

/* Parses as far as possible and returns the bytes used. */
static size_t rx_parse(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	size_t done = 0;

	while (tcp_conn_is_listening(conn) && !conn->is_paused && !conn->is_ignoring) {
		size_t used = 0;

		if (conn->rx_phase == TCP_RX_SINK) {
			if (conn->pdu.data_bytes == 0)
				rx_whole(conn);
			else
				rx_ask_sink(conn);
			continue;
		}
		if (done == len_bytes)
			break;
		switch (conn->rx_phase) {
		case TCP_RX_HEADER:
			used = rx_header(conn, buf + done, len_bytes - done);
			break;
		case TCP_RX_DATA:
			used = rx_data(conn, buf + done, len_bytes - done);
			break;
		case TCP_RX_DIGEST:
			used = rx_digest(conn, buf + done, len_bytes - done);
			break;
		case TCP_RX_SINK:
			break;
		}
		if (used == 0)
			break;
		done += used;
	}
	return done;
}

/* ---- keeping unparsed bytes ---------------------------------------------------------------- */

/* Stores the unparsed tail in carry, or in spill when a pause left more than fits into carry. */
static void rx_keep_tail(struct tcp_conn *conn, const uint8_t *tail, size_t len_bytes)
{
	if (!tcp_conn_is_listening(conn))
		return;
	if (len_bytes <= TCP_CARRY_ROOM) {
		memmove(conn->carry, tail, len_bytes);
		conn->carry_bytes = (uint32_t)len_bytes;
		return;
	}
	conn->carry_bytes = 0;
	conn->spill = malloc(len_bytes);
	if (!conn->spill) {
		tcp_conn_abort(conn, -ENOMEM, "out of memory for data received during a pause");
		return;
	}
	memcpy(conn->spill, tail, len_bytes);
	conn->spill_bytes = len_bytes;
	conn->spill_done_bytes = 0;
}

static void rx_parse_spill(struct tcp_conn *conn)
{
	size_t left;

	conn->spill_done_bytes += rx_parse(conn, conn->spill + conn->spill_done_bytes,
					   conn->spill_bytes - conn->spill_done_bytes);
	left = conn->spill_bytes - conn->spill_done_bytes;
	if (!tcp_conn_is_listening(conn) || left > TCP_CARRY_ROOM)
		return;
	memcpy(conn->carry, conn->spill + conn->spill_done_bytes, left);
	conn->carry_bytes = (uint32_t)left;
	free(conn->spill);
	conn->spill = NULL;
}

static bool rx_is_allowed(struct tcp_conn *conn)
{
	if (!conn->silence || !silence_is_too_long(conn->silence, reactor_clock_ns(conn->reactor)))
		return true;
	conn->handler->on_too_late(conn);
	return false;
}

/* Runs at the end of the turn in which a pause ended. */
static void rx_unpause(struct reactor_defer *defer)
{
	struct tcp_conn *conn = container_of(defer, struct tcp_conn, unpause);

	if (!tcp_conn_is_listening(conn) || conn->is_ignoring || !rx_is_allowed(conn))
		return;
	if (conn->spill) {
		rx_parse_spill(conn);
	} else {
		size_t len_bytes = conn->carry_bytes;
		size_t used = rx_parse(conn, conn->carry, len_bytes);

		rx_keep_tail(conn, conn->carry + used, len_bytes - used);
	}
	if (!conn->is_sock_closing)
		tcp_conn_update_want(conn);
}

void tcp_conn_resume(struct tcp_conn *conn)
{
	CHECK_OWNER(conn);
	if (!conn->is_paused)
		return;
	conn->is_paused = false;
	if (tcp_conn_is_listening(conn))
		reactor_defer(conn->reactor, &conn->unpause);
}

void tcp_conn_discard(struct tcp_conn *conn, uint16_t cccid)
{
	CHECK_OWNER(conn);
	if (conn->rx_phase == TCP_RX_DATA && conn->pdu.type == NVME_TCP_PDU_C2H_DATA &&
	    conn->pdu.u.data.cccid == cccid)
		conn->sink = (struct tcp_sink){.granule_bytes = 1};
}

void tcp_conn_discard_rest(struct tcp_conn *conn)
{
	CHECK_OWNER(conn);
	if (conn->rx_phase == TCP_RX_DATA)
		conn->sink = (struct tcp_sink){.granule_bytes = 1};
}

void tcp_conn_ignore(struct tcp_conn *conn)
{
	CHECK_OWNER(conn);
	conn->is_ignoring = true;
	tcp_conn_update_want(conn);
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* Discards received bytes. Returns as tcp_stream_recv: 0 or a final error when no more bytes will
 * come. */
static ssize_t rx_drain(struct tcp_conn *conn)
{
	struct iovec iov = {.iov_base = reactor_scratch(conn->reactor),
			    .iov_len = REACTOR_SCRATCH_BYTES};

	return tcp_stream_recv(&conn->stream, &iov, 1);
}

static bool rx_is_over(ssize_t len)
{
	return len <= 0 && len != -EAGAIN && len != -EINTR;
}

static void rx_ended(struct tcp_conn *conn, ssize_t len)
{
	bool is_between = conn->rx_phase == TCP_RX_HEADER && conn->carry_bytes == 0;

	if (len < 0)
		tcp_conn_end(conn, (int)len,
			     conn->stream.why ? conn->stream.why : "receive failed");
	else if (conn->config.role == PDU_ROLE_HOST && conn->phase == TCP_CONN_IC)
		tcp_conn_end(conn, -ECONNRESET, "closed by the controller before ICResp");
	else if (!is_between)
		tcp_conn_end(conn, -ECONNRESET, "closed by the peer inside a PDU");
	else
		tcp_conn_end(conn, 0, "closed by the peer");
}

static bool sink_is_place(const struct tcp_sink *sink)
{
	return sink->dest || sink->iov_count > 0;
}

/*
 * How many bytes of the payload can be received directly into the sink, in whole granules; 0 when a
 * receive into scratch is better. The digest of shared memory must be computed from bytes that no
 * other thread can change, so such payload goes through scratch.
 */
static size_t rx_direct_bytes(const struct tcp_conn *conn, size_t budget_bytes)
{
	size_t direct_bytes;

	if (conn->rx_phase != TCP_RX_DATA || conn->skip_bytes > 0 || !sink_is_place(&conn->sink) ||
	    conn->pdu.data_bytes < conn->direct_min_bytes)
		return 0;
	if (conn->sink.granule_bytes > 1) {
		size_t available;

		if (conn->pdu.has_data_digest)
			return 0;
		available = tcp_stream_available(&conn->stream) + conn->carry_bytes;
		if (budget_bytes > available)
			budget_bytes = available;
	}
	direct_bytes = rx_whole_granules(conn, budget_bytes);
	return direct_bytes > conn->carry_bytes ? direct_bytes : 0;
}

/* The bytes of the current PDU that are still missing before the next header. */
static size_t rx_rest_bytes(const struct tcp_conn *conn)
{
	size_t digest_bytes = conn->pdu.has_data_digest ? NVME_TCP_DIGEST_BYTES : 0;

	switch (conn->rx_phase) {
	case TCP_RX_HEADER:
		return 0;
	case TCP_RX_DIGEST:
		return digest_bytes;
	default:
		return conn->skip_bytes + conn->pdu.data_bytes - conn->data_done_bytes +
		       digest_bytes;
	}
}

static void rx_tell_arrival(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	size_t rest_bytes = rx_rest_bytes(conn);

	if (rest_bytes < len_bytes)
		conn->handler->on_arrival(conn, buf + rest_bytes, len_bytes - rest_bytes);
}

static void rx_run(struct tcp_conn *conn, const uint8_t *buf, size_t len_bytes)
{
	size_t used;

	if (conn->wants_arrival)
		rx_tell_arrival(conn, buf, len_bytes);
	used = rx_parse(conn, buf, len_bytes);

	rx_keep_tail(conn, buf + used, len_bytes - used);
}

/* Receives payload directly into the sink and the bytes after it into scratch, in one receive. */
static ssize_t rx_receive_direct(struct tcp_conn *conn, size_t direct_bytes)
{
	uint8_t *scratch = reactor_scratch(conn->reactor);
	uint8_t *place = conn->sink.dest + conn->data_done_bytes;
	size_t carried = conn->carry_bytes;
	struct block_guard *guard = conn->sink.guard;
	struct iovec iov[2];
	bool is_to_the_end;
	size_t got, landed;
	ssize_t len;

	/* Wait for another thread only for the first granule. That granule has room for the carried
	 * bytes, which are part of a block. */
	if (guard)
		direct_bytes = block_guard_take_exclusive(guard, place, direct_bytes);
	CHECK(direct_bytes > carried);
	is_to_the_end = direct_bytes == conn->pdu.data_bytes - conn->data_done_bytes;
	/* Receive only the next header into scratch: more payload of this length should be received
	 * directly as well. */
	iov[0] = (struct iovec){.iov_base = place + carried, .iov_len = direct_bytes - carried};
	iov[1] = (struct iovec){.iov_base = scratch, .iov_len = TCP_DIRECT_TAIL_BYTES};
	len = tcp_stream_recv(&conn->stream, iov, is_to_the_end ? 2 : 1);
	if (len > 0)
		memcpy(place, conn->carry, carried);
	if (guard)
		block_guard_drop_exclusive(guard, place, direct_bytes);
	if (len <= 0)
		return len;
	conn->carry_bytes = 0;
	got = carried + (size_t)len;
	landed = got < direct_bytes ? got : direct_bytes;
	rx_data_landed(conn, place, landed);
	if (got > landed)
		rx_run(conn, scratch, got - landed);
	return len;
}

/* Like rx_receive_direct, into pieces. Nothing is carried here because granules are one byte. */
static ssize_t rx_receive_pieces(struct tcp_conn *conn, size_t direct_bytes)
{
	uint8_t *scratch = reactor_scratch(conn->reactor);
	struct tcp_sink ahead = conn->sink;
	struct iovec iov[TCP_SCATTER_IOVS + 1];
	unsigned count = 0;
	size_t room_bytes = 0, landed, left;
	ssize_t len;

	CHECK(conn->carry_bytes == 0);
	while (room_bytes < direct_bytes && count < TCP_SCATTER_IOVS) {
		size_t part = direct_bytes - room_bytes;
		uint8_t *place = sink_advance(&ahead, &part);

		iov[count++] = (struct iovec){.iov_base = place, .iov_len = part};
		room_bytes += part;
	}
	if (room_bytes == conn->pdu.data_bytes - conn->data_done_bytes)
		iov[count++] =
			(struct iovec){.iov_base = scratch, .iov_len = TCP_DIRECT_TAIL_BYTES};
	len = tcp_stream_recv(&conn->stream, iov, count);
	if (len <= 0)
		return len;
	landed = (size_t)len < room_bytes ? (size_t)len : room_bytes;
	for (left = landed; left > 0;) {
		size_t part = left;
		uint8_t *place = sink_advance(&conn->sink, &part);

		if (part > 0 && conn->pdu.has_data_digest)
			conn->data_crc = crc32c_update(conn->data_crc, place, part);
		left -= part;
	}
	rx_landed(conn, landed);
	if ((size_t)len > landed)
		rx_run(conn, scratch, (size_t)len - landed);
	return len;
}

/*
 * How many bytes to receive into scratch. When long payload is current or expected, only as many as
 * reach the next header, so that the payload after it can be received directly.
 */
static size_t rx_scratch_bytes(const struct tcp_conn *conn, size_t budget_bytes)
{
	size_t left;

	if (conn->rx_phase == TCP_RX_HEADER && conn->is_long_expected)
		return TCP_DIRECT_TAIL_BYTES;
	if (conn->rx_phase != TCP_RX_DATA || conn->pdu.data_bytes < conn->direct_min_bytes ||
	    !sink_is_place(&conn->sink) ||
	    (conn->pdu.has_data_digest && conn->sink.granule_bytes > 1))
		return budget_bytes;
	left = conn->skip_bytes + conn->pdu.data_bytes - conn->data_done_bytes;
	if (left <= conn->carry_bytes)
		return budget_bytes;
	left += TCP_DIRECT_TAIL_BYTES - conn->carry_bytes;
	return left < budget_bytes ? left : budget_bytes;
}

static ssize_t rx_receive_scratch(struct tcp_conn *conn, size_t budget_bytes)
{
	uint8_t *scratch = reactor_scratch(conn->reactor);
	size_t carried = conn->carry_bytes;
	struct iovec iov = {.iov_base = scratch + carried,
			    .iov_len = rx_scratch_bytes(conn, budget_bytes)};
	ssize_t len;

	CHECK(carried + iov.iov_len <= REACTOR_SCRATCH_BYTES);
	len = tcp_stream_recv(&conn->stream, &iov, 1);
	if (len <= 0)
		return len;
	if (carried > 0)
		memcpy(scratch, conn->carry, carried);
	rx_run(conn, scratch, carried + (size_t)len);
	/* Enough bytes for a header, and none announced long payload: small PDUs need a large
	 * receive. */
	if ((size_t)len >= TCP_DIRECT_TAIL_BYTES && conn->rx_phase == TCP_RX_HEADER)
		conn->is_long_expected = false;
	return len;
}

/* > 0, or the result of tcp_stream_recv. */
static ssize_t rx_receive(struct tcp_conn *conn)
{
	size_t budget_bytes = conn->config.recv_budget_bytes;
	size_t direct_bytes = rx_direct_bytes(conn, budget_bytes);
	ssize_t len;

	if (direct_bytes == 0)
		len = rx_receive_scratch(conn, budget_bytes);
	else if (conn->sink.dest)
		len = rx_receive_direct(conn, direct_bytes);
	else
		len = rx_receive_pieces(conn, direct_bytes);
	if (len > 0) {
		conn->stats.bytes_received += (uint64_t)len;
		if (conn->config.role == PDU_ROLE_HOST)
			*conn->config.heard_ns = reactor_now_ns(conn->reactor);
	}
	return len;
}

void tcp_rx_ready(struct reactor_sock *sock, unsigned events)
{
	struct tcp_conn *conn = container_of(sock, struct tcp_conn, stream.sock);
	bool was_looking;
	ssize_t len;

	if (conn->is_sock_closing)
		return;
	if (events & REACTOR_SOCK_WRITE)
		tcp_tx_writable(conn);
	if (!(events & REACTOR_SOCK_READ))
		return;
	if (conn->phase == TCP_CONN_TERMINATING || conn->phase == TCP_CONN_CLOSING) {
		if (rx_is_over(rx_drain(conn)))
			tcp_conn_end(conn, conn->close_cause, conn->close_why);
		return;
	}
	if (conn->is_ignoring) {
		len = rx_drain(conn);
		if (rx_is_over(len))
			rx_ended(conn, len);
		return;
	}
	if (!tcp_rx_is_willing(conn) || list_linked(&conn->unpause.node) || !rx_is_allowed(conn))
		return;
	was_looking = conn->rx_phase == TCP_RX_HEADER && conn->is_long_expected;
	len = rx_receive(conn);
	/* The header has arrived, followed by the expected payload. */
	if (len > 0 && was_looking && conn->rx_phase == TCP_RX_DATA && tcp_rx_is_willing(conn))
		len = rx_receive(conn);
	if (rx_is_over(len))
		rx_ended(conn, len);
	/* Send the answers to this receive now, while they are in the cache: the next connections
	 * of this turn would evict them, and with them the payload that was prefetched. */
	tcp_tx_flush_now(conn);
	if (!conn->is_sock_closing)
		tcp_conn_update_want(conn);
}

void tcp_rx_init(struct tcp_conn *conn)
{
	conn->rx_phase = TCP_RX_HEADER;
	reactor_defer_init(&conn->unpause, rx_unpause);
}

void tcp_rx_free(struct tcp_conn *conn)
{
	reactor_defer_cancel(&conn->unpause);
	free(conn->spill);
	conn->spill = NULL;
	free(conn->carry);
	conn->carry = NULL;
}
