/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP transport of the host side: makes PDUs of slots and slots of PDUs. Runs on the
 * controller's reactor. NVMe/TCP 1.1, sections 3.3 to 3.5, host side.
 *
 * A queue is one tcp_conn. The controller is not trusted. An answer to a command that is not in
 * flight, data outside the command's buffer or an R2T outside the write is a violation that ends
 * the connection. A success is believed only when all data of the command has moved. Data moves in
 * order, so the position in a command's pieces is a cursor. The data of a forgotten read is checked
 * and discarded. A slot is finished when the answer is there AND the engine holds none of its PDUs,
 * so the caller's buffer is never in use after done.
 */
#include "base/log.h"
#include "host/host_transport.h"
#include "tcp/tcp.h"
#include "wire/sgl.h"

#include <errno.h>

#define HOST_IC_TIMEOUT_MS 5000
/* After a TermReq: longest wait for the controller's close. The queue's commands are held up
 * meanwhile. */
#define HOST_TERM_TIMEOUT_MS 250
#define HOST_RECV_BUDGET     (1024 * 1024)
#define HOST_RTT_NS          (100 * 1000000ull) /* the kernel is asked at most once in this time */
#define RESP_CID_OFFSET      20                 /* CQE.CID in a CapsuleResp PDU */

struct host_tcp_slot {
	struct host_slot slot; /* first: the host side's half */
	/* Read: position of the data received. Write: position of the data that R2Ts asked for. */
	struct pdu_transfer transfer;
	bool has_digest_error;
	bool has_open_r2t;
	uint8_t tx_busy; /* PDUs of this slot that the engine holds */
	uint16_t ttag;
	uint32_t data_next_offset; /* of the open R2T: next byte to send, and one past the last */
	uint32_t data_end_offset;
	/* Position of the next data byte, for a command with pieces. */
	unsigned piece;
	uint32_t piece_done_bytes;
	struct tcp_tx cmd_tx;
	struct tcp_tx data_tx;
	struct iovec cmd_iov;
	struct iovec data_iov;
};

struct host_tcp_queue {
	struct host_queue queue; /* first: the host side's half */
	struct tcp_conn conn;
	uint64_t rtt_ns; /* as of rtt_at_ns; 0: never asked */
	uint64_t rtt_at_ns;
};

static struct host_tcp_queue *tcp_queue_of(struct host_queue *queue)
{
	return container_of(queue, struct host_tcp_queue, queue);
}

static struct host_tcp_slot *tcp_slot_of(struct host_slot *slot)
{
	return container_of(slot, struct host_tcp_slot, slot);
}

static struct host_tcp_slot *slot_find(struct host_tcp_queue *tq, uint16_t cid)
{
	struct host_tcp_slot *slots = tq->queue.slots;

	if (cid >= tq->queue.slot_count || slots[cid].slot.cmd == NULL)
		return NULL;
	return &slots[cid];
}

/* Advances the position in the command's pieces. Skips pieces that are exhausted or empty. */
static void slot_pass_pieces(struct host_tcp_slot *ts, uint32_t len_bytes)
{
	const struct host_cmd *cmd = ts->slot.cmd;
	size_t done_bytes = ts->piece_done_bytes + len_bytes;

	while (ts->piece < cmd->iov_count && done_bytes >= cmd->iov[ts->piece].iov_len) {
		done_bytes -= cmd->iov[ts->piece].iov_len;
		ts->piece++;
	}
	ts->piece_done_bytes = (uint32_t)done_bytes;
}

/* The controller reports an outcome: check that the outcome is possible. */
static void slot_respond(struct host_tcp_slot *ts, nvme_status status, uint64_t result)
{
	struct host_cmd *cmd = ts->slot.cmd;
	uint32_t moved_bytes = ts->has_open_r2t ? ts->data_next_offset : ts->transfer.next_offset;

	if (ts->has_digest_error) {
		status = NVME_SC_TRANSIENT_TRANSPORT;
	} else if (nvme_status_is_ok(status) && moved_bytes != ts->transfer.end_offset) {
		log_limited(LOG_LEVEL_WARN, "host",
			    "queue %u: success for opcode 0x%02x after %u of %u bytes of data",
			    ts->slot.queue->qid, cmd->sqe.opcode, moved_bytes,
			    ts->transfer.end_offset);
		status = NVME_SC_DATA_TRANSFER_ERROR;
	}
	ts->has_open_r2t = false;
	host_slot_answer(&ts->slot, status, result);
	if (ts->tx_busy == 0)
		host_slot_finish(&ts->slot);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void slot_tx_ended(struct host_tcp_slot *ts)
{
	ts->tx_busy--;
	if (ts->tx_busy == 0 && ts->slot.has_answer)
		host_slot_finish(&ts->slot);
}

static void on_cmd_sent(struct tcp_tx *tx, int res)
{
	slot_tx_ended(container_of(tx, struct host_tcp_slot, cmd_tx));
}

/* Points a PDU at the next bytes of the command's data. */
static void slot_aim(struct host_tcp_slot *ts, struct tcp_tx *tx, struct iovec *iov,
		     uint32_t offset, uint32_t len_bytes)
{
	const struct host_cmd *cmd = ts->slot.cmd;

	tx->iov_skip_bytes = 0;
	if (len_bytes == 0) {
		tx->iov_count = 0;
	} else if (cmd->iov_count == 0) {
		*iov = (struct iovec){.iov_base = (uint8_t *)cmd->data + offset,
				      .iov_len = len_bytes};
		tx->iov = iov;
		tx->iov_count = 1;
	} else {
		tx->iov = cmd->iov + ts->piece;
		tx->iov_count = cmd->iov_count - ts->piece;
		tx->iov_skip_bytes = ts->piece_done_bytes;
		slot_pass_pieces(ts, len_bytes);
	}
}

static void tcp_send(struct host_slot *slot)
{
	struct host_tcp_slot *ts = tcp_slot_of(slot);
	struct host_cmd *cmd = slot->cmd;
	uint32_t in_capsule_bytes = 0;

	ts->has_digest_error = false;
	ts->has_open_r2t = false;
	ts->piece = 0;
	ts->piece_done_bytes = 0;
	ts->transfer = (struct pdu_transfer){.is_open = cmd->data_bytes > 0,
					     .cccid = slot->index,
					     .end_offset = cmd->data_bytes};
	if (cmd->data_bytes == 0) {
		sgl_encode_none(&cmd->sqe);
	} else if (cmd->direction == HOST_DATA_TO_CTRL &&
		   cmd->data_bytes <= slot->queue->in_capsule_max_bytes) {
		sgl_encode_in_capsule(&cmd->sqe, cmd->data_bytes);
		in_capsule_bytes = cmd->data_bytes;
		ts->transfer.next_offset = cmd->data_bytes;
		ts->transfer.is_open = false;
	} else {
		sgl_encode_transport(&cmd->sqe, cmd->data_bytes);
	}
	slot_aim(ts, &ts->cmd_tx, &ts->cmd_iov, 0, in_capsule_bytes);
	ts->cmd_tx.done = on_cmd_sent;
	ts->tx_busy = 1;
	tcp_send_cmd(&tcp_queue_of(slot->queue)->conn, &ts->cmd_tx, &cmd->sqe, in_capsule_bytes);
}

static void slot_send_data(struct host_tcp_slot *ts);

static void on_data_sent(struct tcp_tx *tx, int res)
{
	struct host_tcp_slot *ts = container_of(tx, struct host_tcp_slot, data_tx);

	if (res == 0 && ts->has_open_r2t) {
		if (ts->data_next_offset < ts->data_end_offset)
			slot_send_data(ts);
		else
			ts->has_open_r2t = false;
	}
	slot_tx_ended(ts);
}

/* Sends one H2CData of the open R2T, as large as the controller accepts. */
static void slot_send_data(struct host_tcp_slot *ts)
{
	struct tcp_conn *conn = &tcp_queue_of(ts->slot.queue)->conn;
	uint32_t left_bytes = ts->data_end_offset - ts->data_next_offset;
	uint32_t max_bytes = conn->peer_data_max_bytes;
	uint32_t bytes = left_bytes < max_bytes ? left_bytes : max_bytes;
	struct pdu_data_args args = {
		.cccid = ts->transfer.cccid,
		.ttag = ts->ttag,
		.offset = ts->data_next_offset,
		.data_bytes = bytes,
		.is_last = bytes == left_bytes,
	};

	slot_aim(ts, &ts->data_tx, &ts->data_iov, ts->data_next_offset, bytes);
	ts->data_next_offset += bytes;
	ts->data_tx.done = on_data_sent;
	ts->tx_busy++;
	tcp_send_h2c_data(conn, &ts->data_tx, &args);
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Sets the destination of a read's next data: one address, or pieces when the data crosses their
 * ends. */
static void slot_fill_sink(const struct host_tcp_slot *ts, const struct pdu *pdu,
			   struct tcp_sink *sink)
{
	const struct host_cmd *cmd = ts->slot.cmd;
	const struct iovec *piece;

	sink->granule_bytes = 1;
	if (ts->slot.is_forgotten)
		return;
	/* Never write outside the caller's buffer, even if the checks before were wrong. */
	CHECK(pdu->u.data.offset <= cmd->data_bytes &&
	      pdu->data_bytes <= cmd->data_bytes - pdu->u.data.offset);
	if (cmd->iov_count == 0) {
		sink->dest = (uint8_t *)cmd->data + pdu->u.data.offset;
		return;
	}
	CHECK(pdu->data_bytes == 0 || ts->piece < cmd->iov_count);
	piece = cmd->iov + ts->piece;
	if (pdu->data_bytes > 0 && pdu->data_bytes <= piece->iov_len - ts->piece_done_bytes) {
		sink->dest = (uint8_t *)piece->iov_base + ts->piece_done_bytes;
		return;
	}
	sink->iov = piece;
	sink->iov_count = cmd->iov_count - ts->piece;
	sink->iov_skip_bytes = ts->piece_done_bytes;
}

static struct pdu_error on_c2h_header(struct host_tcp_queue *tq, const struct pdu *pdu,
				      struct tcp_sink *sink)
{
	struct host_tcp_slot *ts = slot_find(tq, pdu->u.data.cccid);
	bool is_read = ts != NULL && ts->slot.cmd->direction == HOST_DATA_FROM_CTRL &&
		       !ts->slot.has_answer;
	struct pdu_error error = pdu_check_c2h_data(pdu, is_read ? &ts->transfer : NULL);

	if (!pdu_is_error(error))
		slot_fill_sink(ts, pdu, sink);
	return error;
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
				  struct tcp_sink *sink, bool *ret_pause)
{
	/* Only C2HData has a payload; other PDUs come to on_whole. */
	CHECK(pdu->type == NVME_TCP_PDU_C2H_DATA);
	return on_c2h_header(container_of(conn, struct host_tcp_queue, conn), pdu, sink);
}

static struct pdu_error on_c2h_data(struct host_tcp_queue *tq, const struct pdu *pdu,
				    bool is_digest_ok)
{
	struct host_tcp_slot *ts = slot_find(tq, pdu->u.data.cccid);

	CHECK(ts != NULL);
	ts->transfer.next_offset += pdu->data_bytes;
	if (ts->slot.cmd->iov_count > 0)
		slot_pass_pieces(ts, pdu->data_bytes);
	if (!is_digest_ok) {
		ts->has_digest_error = true;
		log_limited(LOG_LEVEL_WARN, "host", "queue %u: data digest error in a read",
			    tq->queue.qid);
	}
	if (pdu->is_success)
		slot_respond(ts, NVME_SC_SUCCESS, 0);
	return PDU_OK;
}

static struct pdu_error on_r2t(struct host_tcp_queue *tq, const struct pdu *pdu)
{
	struct host_tcp_slot *ts = slot_find(tq, pdu->u.data.cccid);
	bool is_write =
		ts != NULL && ts->slot.cmd->direction == HOST_DATA_TO_CTRL && !ts->slot.has_answer;
	struct pdu_error error = pdu_check_r2t(pdu, is_write ? &ts->transfer : NULL,
					       is_write && ts->has_open_r2t ? 1 : 0, 1);

	if (pdu_is_error(error))
		return error;
	CHECK(is_write && pdu->u.data.offset <= ts->slot.cmd->data_bytes &&
	      pdu->u.data.length <= ts->slot.cmd->data_bytes - pdu->u.data.offset);
	ts->has_open_r2t = true;
	ts->ttag = pdu->u.data.ttag;
	ts->data_next_offset = pdu->u.data.offset;
	ts->data_end_offset = pdu->u.data.offset + pdu->u.data.length;
	ts->transfer.next_offset = ts->data_end_offset;
	slot_send_data(ts);
	return PDU_OK;
}

static struct pdu_error on_response(struct host_tcp_queue *tq, const struct pdu *pdu)
{
	struct host_tcp_slot *ts = slot_find(tq, le16_get(pdu->u.cqe.cid));

	if (ts == NULL || ts->slot.has_answer)
		return (struct pdu_error){NVME_TCP_FES_INVALID_HEADER_FIELD, RESP_CID_OFFSET,
					  "completion of a command that is not outstanding"};
	slot_respond(ts, nvme_status_decode(pdu->u.cqe.status), nvme_cqe_result(&pdu->u.cqe));
	return PDU_OK;
}

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct host_tcp_queue *tq = container_of(conn, struct host_tcp_queue, conn);

	CHECK(pdu->type == NVME_TCP_PDU_C2H_DATA);
	return on_c2h_data(tq, pdu, is_digest_ok);
}

static struct pdu_error on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	struct host_tcp_queue *tq = container_of(conn, struct host_tcp_queue, conn);

	return pdu->type == NVME_TCP_PDU_R2T ? on_r2t(tq, pdu) : on_response(tq, pdu);
}

static void tcp_forget(struct host_slot *slot)
{
	/* The payload being received may still be directed into the caller's buffer. */
	tcp_conn_discard(&tcp_queue_of(slot->queue)->conn, slot->index);
}

/* ---- the connection ------------------------------------------------------------------------- */

static void on_ready(struct tcp_conn *conn)
{
	struct host_tcp_queue *tq = container_of(conn, struct host_tcp_queue, conn);

	tq->queue.is_open = true;
	host_queue_on_ready(&tq->queue);
}

static void on_ending(struct tcp_conn *conn)
{
	container_of(conn, struct host_tcp_queue, conn)->queue.is_open = false;
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct host_tcp_queue *tq = container_of(conn, struct host_tcp_queue, conn);
	struct host_tcp_slot *slots = tq->queue.slots;

	for (uint32_t i = 0; i < tq->queue.slot_count; i++)
		slots[i].slot.is_begun = slots[i].cmd_tx.is_begun;
	host_queue_on_closed(&tq->queue, cause, why);
}

static const struct tcp_conn_handler conn_handler = {
	.on_ready = on_ready,
	.on_header = on_header,
	.on_pdu = on_pdu,
	.on_whole = on_whole,
	.on_closed = on_closed,
	.on_ending = on_ending,
};

static int tcp_connect(struct host_queue *queue)
{
	const struct host_config *config = queue->config;
	struct tcp_conn_config conn_config = {
		.role = PDU_ROLE_HOST,
		.allows_header_digest = config->wants_header_digest,
		.allows_data_digest = config->wants_data_digest,
		.data_align_bytes = 4,
		.max_r2t = 1,
		.ic_timeout_ms = HOST_IC_TIMEOUT_MS,
		.term_timeout_ms = HOST_TERM_TIMEOUT_MS,
		.recv_budget_bytes = HOST_RECV_BUDGET,
		.heard_ns = &queue->heard_ns,
		.sent_ns = &queue->sent_ns,
		.unacked_timeout_ms = config->unacked_timeout_ms,
		.zero_copy_min_bytes = config->zero_copy_min_bytes,
	};

	return tcp_conn_connect(&tcp_queue_of(queue)->conn, queue->reactor, &config->addr.net,
				&conn_config, &conn_handler);
}

static void tcp_close(struct host_queue *queue, bool is_orderly, const char *why)
{
	struct tcp_conn *conn = &tcp_queue_of(queue)->conn;

	if (is_orderly)
		tcp_conn_close(conn, why);
	else
		tcp_conn_abort(conn, -ECONNABORTED, why);
}

static void tcp_get_stats(struct host_queue *queue, struct host_queue_stats *stats)
{
	struct host_tcp_queue *tq = tcp_queue_of(queue);
	uint64_t now_ns = reactor_now_ns(queue->reactor);

	if (queue->is_open && (tq->rtt_at_ns == 0 || now_ns - tq->rtt_at_ns >= HOST_RTT_NS)) {
		tq->rtt_ns = tcp_conn_rtt_ns(&tq->conn);
		tq->rtt_at_ns = now_ns;
	}
	stats->rtt_ns = tq->rtt_ns;
}

const struct host_transport host_transport_tcp = {
	.name = "tcp",
	.trtype = DISCOVERY_TCP,
	.connect_step = "TCP connect and ICReq",
	.queue_bytes = sizeof(struct host_tcp_queue),
	.slot_bytes = sizeof(struct host_tcp_slot),
	.connect = tcp_connect,
	.send = tcp_send,
	.forget = tcp_forget,
	.close = tcp_close,
	.get_stats = tcp_get_stats,
};
