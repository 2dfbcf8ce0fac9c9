/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending: a queue of PDUs per connection, gathered into one send at the end of each receive (its
 * immediate answers) and of each turn (the rest).
 *
 * A PDU is a header (with digest and padding), a payload in the user's memory, and a data digest.
 * Shared payload may change while it waits. The rest of a block that a partial send has cut is
 * copied at once, so that the peer never gets half of an old block and half of a new one. With data
 * digests, the whole payload is copied before the digest is computed. Payload shared between
 * threads is held (base/block_guard.h) from before the send until after that copy; payload that
 * cannot be held waits for the next send. Large private payload is sent without a copy where the
 * port allows it (tcp_tx_zc.c). NVMe/TCP Transport 1.1, section 3.3. Runs on the connection's
 * reactor.
 */
#include "tcp/tcp_internal.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/le.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t tx_total_bytes(const struct tcp_tx *tx)
{
	return (size_t)tx->hdr_bytes + tx->data_bytes +
	       (tx->has_trailer ? NVME_TCP_DIGEST_BYTES : 0);
}

/* ---- gathering ----------------------------------------------------------------------------- */

/* Shared payload of a send, held until the send ends. */
struct held {
	struct block_guard *guard;
	const void *addr;
	size_t len_bytes;
};

struct gather {
	struct iovec iov[TCP_SEND_IOVS];
	struct held held[TCP_SEND_HELD];
	unsigned held_count;
	unsigned count;
	unsigned count_max;
	size_t bytes;
	/* Header-only PDUs, one after another. For the kernel, one iovec for many of them is
	 * cheaper than one iovec each. */
	size_t headers_bytes;
	uint8_t headers[TCP_SEND_HEADERS_BYTES];
};

static bool gather_add(struct gather *gather, const void *base, size_t len_bytes)
{
	if (gather->count == gather->count_max)
		return false;
	gather->iov[gather->count++] =
		(struct iovec){.iov_base = (void *)(uintptr_t)base, .iov_len = len_bytes};
	gather->bytes += len_bytes;
	return true;
}

/* Adds a PDU without payload. False: no room. */
static bool gather_header(struct gather *gather, const struct tcp_tx *tx)
{
	uint8_t *at = gather->headers + gather->headers_bytes;
	struct iovec *last = gather->count > 0 ? &gather->iov[gather->count - 1] : NULL;

	if (gather->headers_bytes + tx->hdr_bytes > sizeof(gather->headers))
		return false;
	memcpy(at, tx->hdr, tx->hdr_bytes);
	gather->headers_bytes += tx->hdr_bytes;
	if (last && (uint8_t *)last->iov_base + last->iov_len == at) {
		last->iov_len += tx->hdr_bytes;
		gather->bytes += tx->hdr_bytes;
		return true;
	}
	return gather_add(gather, at, tx->hdr_bytes);
}

/*
 * Adds and holds payload that other threads may change. False when there is no room for all of it,
 * or when another thread holds part of it: never spin on a granule while holding another one. Not
 * inlined, so that the path for one thread stays short.
 */
static __attribute__((noinline)) bool gather_held(struct gather *gather, const struct tcp_tx *tx,
						  const uint8_t *base, size_t len_bytes)
{
	size_t got;

	if (gather->count == gather->count_max || gather->held_count == TCP_SEND_HELD)
		return false;
	got = block_guard_take_shared(tx->guard, base, len_bytes, gather->held_count == 0);
	if (got == 0)
		return false;
	gather->held[gather->held_count++] = (struct held){tx->guard, base, got};
	(void)gather_add(gather, base, got);
	return got == len_bytes;
}

static void gather_drop_held(struct gather *gather)
{
	for (unsigned i = 0; i < gather->held_count; i++)
		block_guard_drop_shared(gather->held[i].guard, gather->held[i].addr,
					gather->held[i].len_bytes);
	gather->held_count = 0;
}

/* Adds the payload from `from_bytes` on. False when not all of it could be added. */
static bool gather_payload(struct gather *gather, const struct tcp_tx *tx, size_t from_bytes)
{
	size_t left;

	if (from_bytes < tx->private_end_bytes) {
		if (!gather_add(gather, tx->private_copy + (from_bytes - tx->private_from_bytes),
				tx->private_end_bytes - from_bytes))
			return false;
		from_bytes = tx->private_end_bytes;
	}
	left = tx->data_bytes - from_bytes;
	from_bytes += tx->iov_skip_bytes;
	for (unsigned i = 0; i < tx->iov_count && left > 0; i++) {
		const struct iovec *iov = &tx->iov[i];
		size_t part;

		if (from_bytes >= iov->iov_len) {
			from_bytes -= iov->iov_len;
			continue;
		}
		part = iov->iov_len - from_bytes < left ? iov->iov_len - from_bytes : left;
		if (tx->guard && tx->shared_block_bytes > 0
			    ? !gather_held(gather, tx, (const uint8_t *)iov->iov_base + from_bytes,
					   part)
			    : !gather_add(gather, (const uint8_t *)iov->iov_base + from_bytes,
					  part))
			return false;
		from_bytes = 0;
		left -= part;
	}
	CHECK(left == 0);
	return true;
}

static bool gather_tx(struct gather *gather, const struct tcp_tx *tx, size_t done_bytes)
{
	size_t data_end = (size_t)tx->hdr_bytes + tx->data_bytes;
	size_t trailer_done = done_bytes > data_end ? done_bytes - data_end : 0;

	if (done_bytes < tx->hdr_bytes) {
		if (!gather_add(gather, tx->hdr + done_bytes, tx->hdr_bytes - done_bytes))
			return false;
		done_bytes = tx->hdr_bytes;
	}
	if (done_bytes < data_end && !gather_payload(gather, tx, done_bytes - tx->hdr_bytes))
		return false;
	return !tx->has_trailer ||
	       gather_add(gather, tx->trailer + trailer_done, NVME_TCP_DIGEST_BYTES - trailer_done);
}

static void gather_queue(struct gather *gather, const struct tcp_conn *conn)
{
	size_t done_bytes = conn->tx_head_done_bytes;

	gather->count = 0;
	gather->count_max = TCP_SEND_IOVS;
	gather->held_count = 0;
	gather->bytes = 0;
	gather->headers_bytes = 0;
	list_for_each(node, &conn->tx_queue) {
		const struct tcp_tx *tx = list_entry(node, struct tcp_tx, node);

		if (gather->bytes >= TCP_SEND_BYTES)
			return;
		/* For the first PDU, the caller has checked that no zero-copy send is due. */
		if (conn->zc && gather->count > 0 && tcp_zc_wants(conn, tx, 0))
			return;
		if (tx->data_bytes == 0 && done_bytes == 0 ? !gather_header(gather, tx)
							   : !gather_tx(gather, tx, done_bytes))
			return;
		done_bytes = 0;
	}
	if (conn->term_buf)
		gather_add(gather, conn->term_buf + conn->term_sent_bytes,
			   conn->term_bytes - conn->term_sent_bytes);
}

/* False for an R2T: it must count as sent before its answer comes, which is long before the kernel
 * releases a zero-copy send. */
static bool tx_may_ride_along(const struct tcp_tx *tx)
{
	return tx->data_bytes == 0 && tx->hdr[0] == NVME_TCP_PDU_CAPSULE_RESP;
}

/* Gathers what may be sent without a copy: eligible payload, and responses between it. */
static void gather_queue_zc(struct gather *gather, struct tcp_conn *conn)
{
	size_t done_bytes = conn->tx_head_done_bytes;

	gather->count = 0;
	gather->count_max = TCP_ZC_IOVS;
	gather->held_count = 0;
	gather->bytes = 0;
	list_for_each(node, &conn->tx_queue) {
		struct tcp_tx *tx = list_entry(node, struct tcp_tx, node);

		if (gather->bytes >= TCP_SEND_BYTES)
			return;
		if (!tx_may_ride_along(tx) && !tcp_zc_wants(conn, tx, done_bytes))
			return;
		tx->is_zc = true;
		if (!gather_tx(gather, tx, done_bytes))
			return;
		done_bytes = 0;
	}
}

/* ---- private copies ------------------------------------------------------------------------ */

/* Copies the payload from `from_bytes` to `end_bytes` to private memory, under `guard` unless the
 * caller already holds the payload (NULL). 0 or -ENOMEM. */
static int tx_copy_payload(struct tcp_tx *tx, size_t from_bytes, size_t end_bytes,
			   struct block_guard *guard)
{
	size_t len_bytes = end_bytes - from_bytes;
	size_t done = 0;
	uint8_t *copy = malloc(len_bytes);

	if (!copy)
		return -ENOMEM;
	tx->private_from_bytes = (uint32_t)from_bytes;
	tx->private_end_bytes = (uint32_t)end_bytes;
	from_bytes += tx->iov_skip_bytes;
	for (unsigned i = 0; i < tx->iov_count && done < len_bytes; i++) {
		const struct iovec *iov = &tx->iov[i];
		size_t part;

		if (from_bytes >= iov->iov_len) {
			from_bytes -= iov->iov_len;
			continue;
		}
		part = iov->iov_len - from_bytes;
		if (part > len_bytes - done)
			part = len_bytes - done;
		block_guard_copy_out(guard, copy + done,
				     (const uint8_t *)iov->iov_base + from_bytes, part);
		from_bytes = 0;
		done += part;
	}
	free(tx->private_copy);
	tx->private_copy = copy;
	return 0;
}

/* After a partial send, copies the rest of a cut block. What was gathered is still held, and the
 * rest of a block is in the same granule as its beginning, so no thread can have changed it. */
static int tx_keep_head(struct tcp_conn *conn)
{
	struct tcp_tx *tx;
	size_t done_bytes, over_bytes, end_bytes;

	if (list_empty(&conn->tx_queue))
		return 0;
	tx = list_entry(conn->tx_queue.next, struct tcp_tx, node);
	if (tx->shared_block_bytes == 0 || conn->tx_head_done_bytes <= tx->hdr_bytes)
		return 0;
	done_bytes = conn->tx_head_done_bytes - tx->hdr_bytes;
	over_bytes = done_bytes % tx->shared_block_bytes;
	if (over_bytes == 0 || done_bytes >= tx->data_bytes || done_bytes < tx->private_end_bytes)
		return 0;
	end_bytes = done_bytes - over_bytes + tx->shared_block_bytes;
	return tx_copy_payload(tx, done_bytes,
			       end_bytes < tx->data_bytes ? end_bytes : tx->data_bytes, NULL);
}

/* ---- sending ------------------------------------------------------------------------------- */

/* Takes `sent` bytes off the queue and moves finished PDUs to `finished`. */
static inline void tx_account(struct tcp_conn *conn, size_t sent, struct list *finished)
{
	conn->stats.bytes_sent += sent;
	conn->stats.sends++;
	if (conn->config.role == PDU_ROLE_HOST)
		*conn->config.sent_ns = reactor_now_ns(conn->reactor);
	while (sent > 0 && !list_empty(&conn->tx_queue)) {
		struct tcp_tx *tx = list_entry(conn->tx_queue.next, struct tcp_tx, node);
		size_t left = tx_total_bytes(tx) - conn->tx_head_done_bytes;

		tx->is_begun = true;
		if (sent < left) {
			conn->tx_head_done_bytes += sent;
			return;
		}
		sent -= left;
		conn->tx_head_done_bytes = 0;
		list_remove(&tx->node);
		if (tx->is_zc)
			tcp_zc_keep(conn, tx, finished);
		else
			list_push_back(finished, &tx->node);
	}
	conn->term_sent_bytes += sent;
}

static bool tx_is_idle(const struct tcp_conn *conn)
{
	return list_empty(&conn->tx_queue) && conn->term_sent_bytes == conn->term_bytes;
}

static bool tx_is_zc_due(const struct tcp_conn *conn)
{
	return !list_empty(&conn->tx_queue) &&
	       tcp_zc_wants(conn, list_entry(conn->tx_queue.next, struct tcp_tx, node),
			    conn->tx_head_done_bytes);
}

/* Does one send. True when another send may follow. */
static bool tx_send_once(struct tcp_conn *conn, struct gather *gather, size_t *turn_bytes)
{
	struct list finished;
	ssize_t sent;
	int error;

	if (conn->zc && tx_is_zc_due(conn)) {
		gather_queue_zc(gather, conn);
		tcp_zc_send(conn, gather->iov, gather->count, gather->bytes);
		return false;
	}
	gather_queue(gather, conn);
	sent = tcp_stream_send(&conn->stream, gather->iov, gather->count);
	if (sent < 0)
		gather_drop_held(gather);
	if (sent == -EAGAIN || sent == -EINTR) {
		conn->is_tx_blocked = true;
		return false;
	}
	if (sent < 0) {
		tcp_conn_end(conn, (int)sent, conn->stream.why ? conn->stream.why : "send failed");
		return false;
	}
	list_init(&finished);
	tx_account(conn, (size_t)sent, &finished);
	if (conn->zc)
		tcp_zc_note_copied(conn, (size_t)sent);
	error = tx_keep_head(conn);
	gather_drop_held(gather);
	*turn_bytes += (size_t)sent;
	/* A short send means a full socket. A spent budget gives the other connections their
	 * turn. */
	if ((size_t)sent < gather->bytes || *turn_bytes >= TCP_SEND_TURN_BYTES)
		conn->is_tx_blocked = !tx_is_idle(conn);
	tcp_tx_call_done(&finished, 0);
	if (error)
		tcp_conn_abort(conn, error, "out of memory for a copy of shared payload");
	return !conn->is_tx_blocked && !conn->is_sock_closing;
}

static void tx_stalled(struct reactor_timer *timer)
{
	struct tcp_conn *conn = container_of(timer, struct tcp_conn, send_stall);
	const char *why = "the peer does not read sent data";
	char peer[NET_ADDR_TEXT_BYTES];

	log_limited(LOG_LEVEL_WARN, "tcp", "%s: %s, closing", net_addr_format(&conn->peer, peer),
		    why);
	tcp_conn_abort(conn, -ETIMEDOUT, why);
}

/*
 * A peer that does not read holds buffers that others need. Progress is a rate: moved bytes extend
 * the deadline by the time they would take at TCP_SEND_PACE_BYTES per second, and never beyond the
 * time-out from now.
 */
static void tx_watch_stall(struct tcp_conn *conn, size_t moved_bytes)
{
	uint64_t latest_ns, end_ns;

	if (tx_is_idle(conn) && !conn->stream.has_output &&
	    !(conn->zc && tcp_zc_is_holding(conn))) {
		reactor_timer_cancel(&conn->send_stall);
		return;
	}
	if (conn->config.send_timeout_ms == 0 || (moved_bytes == 0 && conn->send_stall.armed))
		return;
	latest_ns = reactor_now_ns(conn->reactor) + conn->config.send_timeout_ms * NS_PER_MS;
	end_ns = conn->send_stall_ns + moved_bytes * NS_PER_S / TCP_SEND_PACE_BYTES;
	if (!conn->send_stall.armed || end_ns > latest_ns)
		end_ns = latest_ns;
	conn->send_stall_ns = end_ns;
	reactor_timer_arm(&conn->send_stall, end_ns);
}

void tcp_tx_flush(struct reactor_defer *flush)
{
	struct tcp_conn *conn = container_of(flush, struct tcp_conn, flush);
	/* Static because it is too large to clear for each call. A thread runs one flush at a
	 * time. */
	static _Thread_local struct gather gather;
	size_t turn_bytes = 0;

	if (conn->is_sock_closing || conn->is_tx_blocked || conn->is_tx_sending)
		return;
	while (!tx_is_idle(conn)) {
		if (!tx_send_once(conn, &gather, &turn_bytes))
			break;
	}
	if (conn->is_sock_closing)
		return;
	if (conn->phase == TCP_CONN_CLOSING && tx_is_idle(conn) && !conn->is_shut) {
		conn->is_shut = true;
		tcp_stream_shutdown_send(&conn->stream);
	}
	tx_watch_stall(conn, turn_bytes);
	tcp_conn_update_want(conn);
}

void tcp_tx_moved(struct tcp_conn *conn)
{
	if (!conn->is_sock_closing)
		tx_watch_stall(conn, TCP_ZC_MOVED_BYTES);
}

void tcp_tx_sent(struct tcp_conn *conn, size_t sent_bytes, size_t asked_bytes)
{
	struct list finished;

	list_init(&finished);
	tx_account(conn, sent_bytes, &finished);
	if (sent_bytes < asked_bytes)
		conn->is_tx_blocked = !tx_is_idle(conn);
	tcp_tx_moved(conn);
	/* All finished PDUs wait for the release. */
	CHECK(list_empty(&finished));
}

static void tx_dropper(struct reactor_defer *defer)
{
	tcp_tx_finish_dropped(container_of(defer, struct tcp_conn, dropper));
}

void tcp_tx_init(struct tcp_conn *conn)
{
	list_init(&conn->tx_queue);
	list_init(&conn->tx_dropped);
	reactor_timer_init(conn->reactor, &conn->send_stall, tx_stalled);
	reactor_defer_init(&conn->flush, tcp_tx_flush);
	reactor_defer_init(&conn->dropper, tx_dropper);
}

void tcp_tx_free(struct tcp_conn *conn)
{
	reactor_timer_cancel(&conn->send_stall);
	reactor_defer_cancel(&conn->flush);
	reactor_defer_cancel(&conn->dropper);
	free(conn->term_buf);
	conn->term_buf = NULL;
	tcp_zc_free(conn);
}

void tcp_tx_writable(struct tcp_conn *conn)
{
	conn->is_tx_blocked = false;
	tcp_conn_update_want(conn);
	reactor_defer(conn->reactor, &conn->flush);
}

void tcp_tx_drop(struct tcp_conn *conn, bool keeps_begun)
{
	bool is_head_begun = conn->tx_head_done_bytes > 0;
	struct list kept, *node;

	list_init(&kept);
	while (keeps_begun && (node = conn->tx_queue.next) != &conn->tx_queue &&
	       (is_head_begun || list_entry(node, struct tcp_tx, node)->is_zc)) {
		is_head_begun = false;
		list_remove(node);
		list_push_back(&kept, node);
	}
	if (!keeps_begun)
		conn->tx_head_done_bytes = 0;
	while ((node = list_pop_front(&conn->tx_queue)) != NULL) {
		struct tcp_tx *tx = list_entry(node, struct tcp_tx, node);

		/* A zero-copy send in flight may still take bytes of this PDU. */
		if (tx->is_zc) {
			tx->is_begun = true;
			tcp_zc_keep(conn, tx, &conn->tx_dropped);
		} else {
			list_push_back(&conn->tx_dropped, node);
		}
	}
	list_splice_back(&conn->tx_queue, &kept);
	if (!list_empty(&conn->tx_dropped))
		reactor_defer(conn->reactor, &conn->dropper);
}

void tcp_tx_finish_dropped(struct tcp_conn *conn)
{
	tcp_tx_call_done(&conn->tx_dropped, -ECONNRESET);
}

/* ---- send functions for users -------------------------------------------------------------- */

/* Called before the header is written. False when the connection has ended; done of tx is then
 * called at the end of the turn. */
static bool tx_begin(struct tcp_conn *conn, struct tcp_tx *tx, uint32_t data_bytes)
{
	CHECK_OWNER(conn);
	CHECK(conn->phase >= TCP_CONN_OPEN && conn->phase < TCP_CONN_CLOSED);
	tx->private_copy = NULL;
	tx->private_from_bytes = 0;
	tx->private_end_bytes = 0;
	tx->data_bytes = data_bytes;
	tx->has_trailer = false;
	tx->is_zc = false;
	tx->is_begun = false;
	if (conn->phase == TCP_CONN_OPEN)
		return true;
	list_push_back(&conn->tx_dropped, &tx->node);
	reactor_defer(conn->reactor, &conn->dropper);
	return false;
}

/* Computes the data digest. Shared payload is copied first, so that it cannot change. 0 or
 * -ENOMEM. */
static int tx_add_digest(struct tcp_tx *tx)
{
	uint32_t crc = CRC32C_START;
	size_t left = tx->data_bytes;
	le32 digest;

	if (tx->shared_block_bytes > 0) {
		if (tx_copy_payload(tx, 0, tx->data_bytes, tx->guard) < 0)
			return -ENOMEM;
		crc = crc32c_update(crc, tx->private_copy, left);
		left = 0;
	}
	for (unsigned i = 0; i < tx->iov_count && left > 0; i++) {
		size_t skip = i == 0 ? tx->iov_skip_bytes : 0;
		size_t part = tx->iov[i].iov_len - skip;

		part = part < left ? part : left;
		/* An empty piece may have a NULL address. */
		if (part == 0)
			continue;
		crc = crc32c_update(crc, (const uint8_t *)tx->iov[i].iov_base + skip, part);
		left -= part;
	}
	digest = le32_of(crc32c_finish(crc));
	memcpy(tx->trailer, digest.bytes, sizeof(tx->trailer));
	return 0;
}

/* Not inlined, so that the path without digests stays short. */
static __attribute__((noinline)) void tx_queue_with_digest(struct tcp_conn *conn, struct tcp_tx *tx)
{
	tx->has_trailer = true;
	if (tx_add_digest(tx) < 0) {
		list_push_back(&conn->tx_dropped, &tx->node);
		reactor_defer(conn->reactor, &conn->dropper);
		tcp_conn_abort(conn, -ENOMEM, "out of memory for a copy of shared payload");
		return;
	}
	tcp_tx_queue(conn, tx);
}

static inline void tx_finish(struct tcp_conn *conn, struct tcp_tx *tx, size_t hdr_bytes)
{
	tx->hdr_bytes = (uint16_t)hdr_bytes;
	if (tx->data_bytes > 0 && conn->tx_encoding.has_data_digest)
		tx_queue_with_digest(conn, tx);
	else
		tcp_tx_queue(conn, tx);
}

bool tcp_tx_take_back(struct tcp_tx *tx)
{
	if (tx->is_begun || tx->is_zc)
		return false;
	list_remove(&tx->node);
	tcp_tx_release(tx);
	return true;
}

void tcp_tx_move_payload(struct tcp_tx *tx, const struct iovec *iov, unsigned iov_count)
{
	tx->iov = iov;
	tx->iov_count = iov_count;
	tx->shared_block_bytes = 0;
	tx->guard = NULL;
}

void tcp_send_cmd(struct tcp_conn *conn, struct tcp_tx *tx, const struct nvme_sqe *sqe,
		  uint32_t in_capsule_bytes)
{
	if (tx_begin(conn, tx, in_capsule_bytes))
		tx_finish(conn, tx,
			  pdu_encode_cmd(tx->hdr, &conn->tx_encoding, sqe, in_capsule_bytes));
}

void tcp_send_resp(struct tcp_conn *conn, struct tcp_tx *tx, const struct nvme_cqe *cqe)
{
	if (tx_begin(conn, tx, 0))
		tx_finish(conn, tx, pdu_encode_resp(tx->hdr, &conn->tx_encoding, cqe));
}

void tcp_send_r2t(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args)
{
	if (tx_begin(conn, tx, 0))
		tx_finish(conn, tx, pdu_encode_r2t(tx->hdr, &conn->tx_encoding, args));
}

void tcp_send_h2c_data(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args)
{
	if (tx_begin(conn, tx, args->data_bytes))
		tx_finish(conn, tx, pdu_encode_h2c_data(tx->hdr, &conn->tx_encoding, args));
}

void tcp_send_c2h_data(struct tcp_conn *conn, struct tcp_tx *tx, const struct pdu_data_args *args)
{
	if (tx_begin(conn, tx, args->data_bytes))
		tx_finish(conn, tx, pdu_encode_c2h_data(tx->hdr, &conn->tx_encoding, args));
}
