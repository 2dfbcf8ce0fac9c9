/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of commands: what a queue sends for a slot and what it receives for it. Runs on the
 * controller's reactor. NVMe/TCP 1.1, sections 3.3 to 3.5, host side.
 *
 * The controller is not trusted: an answer to a command that is not outstanding, data outside the
 * command's buffer or an R2T outside the write is a violation that ends the connection, and a
 * success is believed only when all data of the command has moved. Data moves in order, so that the
 * place in a command's pieces is a cursor. The data of a forgotten read is judged and thrown away.
 */
#include "base/log.h"
#include "host/host_internal.h"
#include "wire/sgl.h"

#define RESP_CID_OFFSET 20 /* CQE.CID in a CapsuleResp PDU */

static struct host_queue *queue_of(struct tcp_conn *conn)
{
	return container_of(conn, struct host_queue, conn);
}

static struct host_slot *slot_find(struct host_queue *queue, uint16_t cid)
{
	if (cid >= queue->slot_count || queue->slots[cid].cmd == NULL)
		return NULL;
	return &queue->slots[cid];
}

/* Moves the slot's place in the command's pieces on. Empty pieces are passed over. */
static void slot_pass_pieces(struct host_slot *slot, uint32_t len_bytes)
{
	const struct host_cmd *cmd = slot->cmd;
	size_t done_bytes = slot->piece_done_bytes + len_bytes;

	while (slot->piece < cmd->iov_count && done_bytes >= cmd->iov[slot->piece].iov_len) {
		done_bytes -= cmd->iov[slot->piece].iov_len;
		slot->piece++;
	}
	slot->piece_done_bytes = (uint32_t)done_bytes;
}

/* The controller said how it went; judge whether that can be true. */
static void slot_respond(struct host_slot *slot, nvme_status status, uint64_t result)
{
	struct host_cmd *cmd = slot->cmd;
	uint32_t moved_bytes =
		slot->has_open_r2t ? slot->data_next_offset : slot->transfer.next_offset;

	if (slot->has_digest_error) {
		status = NVME_SC_TRANSIENT_TRANSPORT;
	} else if (nvme_status_is_ok(status) && moved_bytes != slot->transfer.end_offset) {
		log_limited(LOG_LEVEL_WARN, "host",
			    "queue %u: success for opcode 0x%02x after %u of %u bytes of data",
			    slot->queue->qid, cmd->sqe.opcode, moved_bytes,
			    slot->transfer.end_offset);
		status = NVME_SC_DATA_TRANSFER_ERROR;
	}
	cmd->status = status;
	cmd->result = result;
	/* Whatever the status says, and be it one that only hosts may use. */
	cmd->may_have_run = true;
	slot->has_open_r2t = false;
	slot->queue->answered++;
	if (slot->tx_busy > 0)
		slot->has_response = true;
	else
		host_slot_finish(slot);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void slot_tx_ended(struct host_slot *slot)
{
	slot->tx_busy--;
	if (slot->tx_busy == 0 && slot->has_response)
		host_slot_finish(slot);
}

static void on_cmd_sent(struct tcp_tx *tx, int res)
{
	slot_tx_ended(container_of(tx, struct host_slot, cmd_tx));
}

/* Points a PDU at the next bytes of the command's data. */
static void slot_aim(struct host_slot *slot, struct tcp_tx *tx, struct iovec *iov, uint32_t offset,
		     uint32_t len_bytes)
{
	const struct host_cmd *cmd = slot->cmd;

	tx->iov_skip_bytes = 0;
	if (len_bytes == 0) {
		tx->iov_count = 0;
	} else if (cmd->iov_count == 0) {
		*iov = (struct iovec){.iov_base = (uint8_t *)cmd->data + offset,
				      .iov_len = len_bytes};
		tx->iov = iov;
		tx->iov_count = 1;
	} else {
		tx->iov = cmd->iov + slot->piece;
		tx->iov_count = cmd->iov_count - slot->piece;
		tx->iov_skip_bytes = slot->piece_done_bytes;
		slot_pass_pieces(slot, len_bytes);
	}
}

void host_slot_send_cmd(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;
	struct host_cmd *cmd = slot->cmd;
	uint32_t in_capsule_bytes = 0;

	cmd->slot_index = slot->index;
	cmd->sqe.cid = le16_of(slot->index);
	slot->has_response = false;
	slot->has_digest_error = false;
	slot->has_open_r2t = false;
	slot->is_forgotten = false;
	slot->piece = 0;
	slot->piece_done_bytes = 0;
	slot->transfer = (struct pdu_transfer){.is_open = cmd->data_bytes > 0,
					       .cccid = slot->index,
					       .end_offset = cmd->data_bytes};
	if (cmd->data_bytes == 0) {
		sgl_encode_none(&cmd->sqe);
	} else if (cmd->direction == HOST_DATA_TO_CTRL &&
		   cmd->data_bytes <= queue->in_capsule_max_bytes) {
		sgl_encode_in_capsule(&cmd->sqe, cmd->data_bytes);
		in_capsule_bytes = cmd->data_bytes;
		slot->transfer.next_offset = cmd->data_bytes;
		slot->transfer.is_open = false;
	} else {
		sgl_encode_transport(&cmd->sqe, cmd->data_bytes);
	}
	slot_aim(slot, &slot->cmd_tx, &slot->cmd_iov, 0, in_capsule_bytes);
	slot->cmd_tx.done = on_cmd_sent;
	slot->tx_busy = 1;
	queue->ctrl->commands_sent++;
	tcp_send_cmd(&queue->conn, &slot->cmd_tx, &cmd->sqe, in_capsule_bytes);
}

static void slot_send_data(struct host_slot *slot);

static void on_data_sent(struct tcp_tx *tx, int res)
{
	struct host_slot *slot = container_of(tx, struct host_slot, data_tx);

	if (res == 0 && slot->has_open_r2t) {
		if (slot->data_next_offset < slot->data_end_offset)
			slot_send_data(slot);
		else
			slot->has_open_r2t = false;
	}
	slot_tx_ended(slot);
}

/* One H2CData of the open R2T, as large as the controller takes them. */
static void slot_send_data(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;
	uint32_t left_bytes = slot->data_end_offset - slot->data_next_offset;
	uint32_t max_bytes = queue->conn.peer_data_max_bytes;
	uint32_t bytes = left_bytes < max_bytes ? left_bytes : max_bytes;
	struct pdu_data_args args = {
		.cccid = slot->transfer.cccid,
		.ttag = slot->ttag,
		.offset = slot->data_next_offset,
		.data_bytes = bytes,
		.is_last = bytes == left_bytes,
	};

	slot_aim(slot, &slot->data_tx, &slot->data_iov, slot->data_next_offset, bytes);
	slot->data_next_offset += bytes;
	slot->data_tx.done = on_data_sent;
	slot->tx_busy++;
	tcp_send_h2c_data(&queue->conn, &slot->data_tx, &args);
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Where the next data of a read goes: one place, or pieces when it crosses their ends. */
static void slot_fill_sink(const struct host_slot *slot, const struct pdu *pdu,
			   struct tcp_sink *sink)
{
	const struct host_cmd *cmd = slot->cmd;
	const struct iovec *piece;

	sink->granule_bytes = 1;
	if (slot->is_forgotten)
		return;
	/* Never outside the caller's buffer, whatever was judged before. */
	CHECK(pdu->u.data.offset <= cmd->data_bytes &&
	      pdu->data_bytes <= cmd->data_bytes - pdu->u.data.offset);
	if (cmd->iov_count == 0) {
		sink->dest = (uint8_t *)cmd->data + pdu->u.data.offset;
		return;
	}
	CHECK(pdu->data_bytes == 0 || slot->piece < cmd->iov_count);
	piece = cmd->iov + slot->piece;
	if (pdu->data_bytes > 0 && pdu->data_bytes <= piece->iov_len - slot->piece_done_bytes) {
		sink->dest = (uint8_t *)piece->iov_base + slot->piece_done_bytes;
		return;
	}
	sink->iov = piece;
	sink->iov_count = cmd->iov_count - slot->piece;
	sink->iov_skip_bytes = slot->piece_done_bytes;
}

static struct pdu_error on_c2h_header(struct host_queue *queue, const struct pdu *pdu,
				      struct tcp_sink *sink)
{
	struct host_slot *slot = slot_find(queue, pdu->u.data.cccid);
	bool is_read =
		slot != NULL && slot->cmd->direction == HOST_DATA_FROM_CTRL && !slot->has_response;
	struct pdu_error error = pdu_check_c2h_data(pdu, is_read ? &slot->transfer : NULL);

	if (!pdu_is_error(error))
		slot_fill_sink(slot, pdu, sink);
	return error;
}

struct pdu_error host_data_on_header(struct tcp_conn *conn, const struct pdu *pdu,
				     struct tcp_sink *sink, bool *ret_pause)
{
	if (pdu->type == NVME_TCP_PDU_C2H_DATA)
		return on_c2h_header(queue_of(conn), pdu, sink);
	if (pdu->data_bytes > 0) {
		sink->dest = NULL;
		sink->granule_bytes = 1;
	}
	return PDU_OK;
}

static struct pdu_error on_c2h_data(struct host_queue *queue, const struct pdu *pdu,
				    bool is_digest_ok)
{
	struct host_slot *slot = slot_find(queue, pdu->u.data.cccid);

	CHECK(slot != NULL);
	slot->transfer.next_offset += pdu->data_bytes;
	if (slot->cmd->iov_count > 0)
		slot_pass_pieces(slot, pdu->data_bytes);
	if (!is_digest_ok) {
		slot->has_digest_error = true;
		log_limited(LOG_LEVEL_WARN, "host", "queue %u: data digest error in a read",
			    queue->qid);
	}
	if (pdu->is_success)
		slot_respond(slot, NVME_SC_SUCCESS, 0);
	return PDU_OK;
}

static struct pdu_error on_r2t(struct host_queue *queue, const struct pdu *pdu)
{
	struct host_slot *slot = slot_find(queue, pdu->u.data.cccid);
	bool is_write =
		slot != NULL && slot->cmd->direction == HOST_DATA_TO_CTRL && !slot->has_response;
	struct pdu_error error = pdu_check_r2t(pdu, is_write ? &slot->transfer : NULL,
					       is_write && slot->has_open_r2t ? 1 : 0, 1);

	if (pdu_is_error(error))
		return error;
	CHECK(is_write && pdu->u.data.offset <= slot->cmd->data_bytes &&
	      pdu->u.data.length <= slot->cmd->data_bytes - pdu->u.data.offset);
	slot->has_open_r2t = true;
	slot->ttag = pdu->u.data.ttag;
	slot->data_next_offset = pdu->u.data.offset;
	slot->data_end_offset = pdu->u.data.offset + pdu->u.data.length;
	slot->transfer.next_offset = slot->data_end_offset;
	slot_send_data(slot);
	return PDU_OK;
}

static struct pdu_error on_response(struct host_queue *queue, const struct pdu *pdu)
{
	struct host_slot *slot = slot_find(queue, le16_get(pdu->u.cqe.cid));

	if (slot == NULL || slot->has_response)
		return (struct pdu_error){NVME_TCP_FES_INVALID_HEADER_FIELD, RESP_CID_OFFSET,
					  "completion of a command that is not outstanding"};
	slot_respond(slot, nvme_status_decode(pdu->u.cqe.status), nvme_cqe_result(&pdu->u.cqe));
	return PDU_OK;
}

struct pdu_error host_data_on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct host_queue *queue = queue_of(conn);

	switch (pdu->type) {
	case NVME_TCP_PDU_CAPSULE_RESP:
		return on_response(queue, pdu);
	case NVME_TCP_PDU_C2H_DATA:
		return on_c2h_data(queue, pdu, is_digest_ok);
	case NVME_TCP_PDU_R2T:
		return on_r2t(queue, pdu);
	default:
		return PDU_OK; /* a TermReq: the engine closes */
	}
}
