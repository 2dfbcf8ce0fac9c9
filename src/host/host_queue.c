/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One queue of a controller: its connection, its slots and the data that moves. Runs on the
 * controller's reactor. NVMe/TCP 1.1, sections 3.3 to 3.5, host side.
 *
 * The controller is not trusted: an answer to a command that is not outstanding, data outside the
 * command's buffer or an R2T outside the write is a violation that ends the connection, and a
 * success is believed only when all data of the command has moved. A slot is free again when the
 * answer is there AND the engine holds none of its PDUs, so the caller's buffer is never in use
 * after done. When the connection ends, every command is completed with Host Pathing Error.
 */
#include "base/log.h"
#include "host/host_internal.h"
#include "wire/sgl.h"

#include <errno.h>
#include <stdlib.h>

#define RESP_CID_OFFSET      20 /* CQE.CID in a CapsuleResp PDU */
#define HOST_IC_TIMEOUT_MS   5000
#define HOST_TERM_TIMEOUT_MS 1000
#define HOST_RECV_BUDGET     (1024 * 1024)

static struct host_queue *queue_of(struct tcp_conn *conn)
{
	return container_of(conn, struct host_queue, conn);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static struct host_slot *slot_find(struct host_queue *queue, uint16_t cid)
{
	if (cid >= queue->slot_count || queue->slots[cid].cmd == NULL)
		return NULL;
	return &queue->slots[cid];
}

static void slot_release(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;

	slot->cmd->slot_index = HOST_NO_SLOT;
	slot->cmd = NULL;
	slot->transfer.is_open = false;
	queue->free_slots[queue->free_count++] = (uint32_t)(slot - queue->slots);
}

static void slot_send_cmd(struct host_slot *slot);

static void queue_pump(struct host_queue *queue)
{
	while (queue->free_count > queue->reserved_slots && !list_empty(&queue->waiting) &&
	       tcp_conn_is_open(&queue->conn)) {
		struct host_cmd *cmd =
			list_entry(list_pop_front(&queue->waiting), struct host_cmd, node);
		struct host_slot *slot = &queue->slots[queue->free_slots[--queue->free_count]];

		slot->cmd = cmd;
		slot->deadline_ns = reactor_now_ns(queue->reactor) +
				    queue->ctrl->config.command_timeout_ms * 1000000ull;
		host_watch_command(queue->ctrl);
		slot_send_cmd(slot);
	}
}

static void slot_finish(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;
	struct host_cmd *cmd = slot->cmd;

	slot_release(slot);
	if (!list_empty(&queue->waiting))
		queue_pump(queue);
	cmd->done(cmd);
}

/* The controller said how it went; judge whether that can be true. */
static void slot_respond(struct host_slot *slot, nvme_status status, uint64_t result)
{
	struct host_cmd *cmd = slot->cmd;
	uint32_t moved_bytes =
		slot->has_open_r2t ? slot->data_next_offset : slot->transfer.next_offset;

	if (slot->has_digest_error) {
		status = NVME_SC_TRANSIENT_TRANSPORT;
	} else if (nvme_status_is_ok(status) && moved_bytes != cmd->data_bytes) {
		log_limited(LOG_LEVEL_WARN, "host",
			    "queue %u: success for opcode 0x%02x after %u of %u bytes of data",
			    slot->queue->qid, cmd->sqe.opcode, moved_bytes, cmd->data_bytes);
		status = NVME_SC_DATA_TRANSFER_ERROR;
	}
	cmd->status = status;
	cmd->result = result;
	slot->has_open_r2t = false;
	if (slot->tx_busy > 0)
		slot->has_response = true;
	else
		slot_finish(slot);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void slot_tx_ended(struct host_slot *slot)
{
	slot->tx_busy--;
	if (slot->tx_busy == 0 && slot->has_response)
		slot_finish(slot);
}

static void on_cmd_sent(struct tcp_tx *tx, int res)
{
	slot_tx_ended(container_of(tx, struct host_slot, cmd_tx));
}

static void slot_send_cmd(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;
	struct host_cmd *cmd = slot->cmd;
	uint32_t in_capsule_bytes = 0;
	uint32_t index = (uint32_t)(slot - queue->slots);

	cmd->slot_index = index;
	cmd->sqe.cid = le16_of((uint16_t)index);
	slot->has_response = false;
	slot->has_digest_error = false;
	slot->has_open_r2t = false;
	slot->transfer = (struct pdu_transfer){.is_open = cmd->data_bytes > 0,
					       .cccid = (uint16_t)index,
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
	slot->cmd_iov = (struct iovec){.iov_base = cmd->data, .iov_len = in_capsule_bytes};
	slot->cmd_tx.iov = &slot->cmd_iov;
	slot->cmd_tx.iov_count = in_capsule_bytes > 0 ? 1 : 0;
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

	slot->data_iov = (struct iovec){
		.iov_base = (uint8_t *)slot->cmd->data + slot->data_next_offset, .iov_len = bytes};
	slot->data_next_offset += bytes;
	slot->data_tx.iov = &slot->data_iov;
	slot->data_tx.iov_count = 1;
	slot->data_tx.done = on_data_sent;
	slot->tx_busy++;
	tcp_send_h2c_data(&queue->conn, &slot->data_tx, &args);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static struct pdu_error on_c2h_header(struct host_queue *queue, const struct pdu *pdu,
				      struct tcp_sink *sink)
{
	struct host_slot *slot = slot_find(queue, pdu->u.data.cccid);
	bool is_read =
		slot != NULL && slot->cmd->direction == HOST_DATA_FROM_CTRL && !slot->has_response;
	struct pdu_error error = pdu_check_c2h_data(pdu, is_read ? &slot->transfer : NULL);

	if (pdu_is_error(error))
		return error;
	/* Never outside the caller's buffer, whatever was judged before. */
	CHECK(is_read && pdu->u.data.offset <= slot->cmd->data_bytes &&
	      pdu->data_bytes <= slot->cmd->data_bytes - pdu->u.data.offset);
	sink->dest = (uint8_t *)slot->cmd->data + pdu->u.data.offset;
	sink->granule_bytes = 1;
	return PDU_OK;
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
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

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
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

/* ---- life ----------------------------------------------------------------------------------- */

static void on_ready(struct tcp_conn *conn)
{
	struct host_queue *queue = queue_of(conn);

	queue->was_ready = true;
	host_ctrl_on_queue_ready(queue);
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct host_queue *queue = queue_of(conn);
	struct list ended;

	queue->phase = HOST_QUEUE_CLOSED;
	list_init(&ended);
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		struct host_slot *slot = &queue->slots[i];
		struct host_cmd *cmd = slot->cmd;

		if (cmd == NULL)
			continue;
		/* An answer that came in time counts even though the connection then ended. */
		if (!slot->has_response)
			cmd->status = NVME_SC_HOST_PATHING_ERROR;
		slot->tx_busy = 0;
		slot_release(slot);
		list_push_back(&ended, &cmd->node);
	}
	list_for_each(node, &queue->waiting)
		list_entry(node, struct host_cmd, node)->status = NVME_SC_HOST_PATHING_ERROR;
	list_splice_back(&ended, &queue->waiting);
	/* First, so that nobody's done sends on the other queues of a controller that is ending. */
	host_ctrl_on_queue_closed(queue, cause, why);
	while (!list_empty(&ended)) {
		struct host_cmd *cmd = list_entry(list_pop_front(&ended), struct host_cmd, node);

		cmd->done(cmd);
	}
}

static const struct tcp_conn_handler queue_handler = {
	.on_ready = on_ready,
	.on_header = on_header,
	.on_pdu = on_pdu,
	.on_closed = on_closed,
};

int host_queue_open(struct host_queue *queue)
{
	const struct host_config *config = &queue->ctrl->config;
	struct tcp_conn_config conn_config = {
		.role = PDU_ROLE_HOST,
		.allows_header_digest = config->wants_header_digest,
		.allows_data_digest = config->wants_data_digest,
		.data_align_bytes = 4,
		.max_r2t = 1,
		.ic_timeout_ms = HOST_IC_TIMEOUT_MS,
		.term_timeout_ms = HOST_TERM_TIMEOUT_MS,
		.recv_budget_bytes = HOST_RECV_BUDGET,
	};
	int res = tcp_conn_connect(&queue->conn, queue->reactor, &config->addr, &conn_config,
				   &queue_handler);

	if (res == 0) {
		queue->phase = HOST_QUEUE_OPENING;
		queue->ctrl->open_queues++;
	}
	return res;
}

void host_queue_close(struct host_queue *queue, bool is_orderly, const char *why)
{
	if (queue == NULL ||
	    (queue->phase != HOST_QUEUE_OPENING && queue->phase != HOST_QUEUE_LIVE))
		return;
	if (is_orderly)
		tcp_conn_close(&queue->conn, why);
	else
		tcp_conn_abort(&queue->conn, -ECONNABORTED, why);
}

void host_queue_submit(struct host_queue *queue, struct host_cmd *cmd, uint32_t timeout_ms,
		       bool is_own)
{
	struct host_slot *slot;

	CHECK(cmd->done != NULL);
	CHECK((cmd->direction == HOST_DATA_NONE) == (cmd->data_bytes == 0));
	cmd->started_ns = reactor_now_ns(queue->reactor);
	cmd->slot_index = HOST_NO_SLOT;
	cmd->result = 0;
	list_init(&cmd->node);
	if (queue->phase == HOST_QUEUE_CLOSED) {
		host_ctrl_orphan(queue->ctrl, cmd);
		return;
	}
	/* A connection that is ending completes what waits from on_closed. */
	if (!tcp_conn_is_open(&queue->conn) ||
	    queue->free_count <= (is_own ? 0 : queue->reserved_slots)) {
		list_push_back(&queue->waiting, &cmd->node);
		return;
	}
	slot = &queue->slots[queue->free_slots[--queue->free_count]];
	slot->cmd = cmd;
	slot->deadline_ns =
		timeout_ms > 0 ? reactor_now_ns(queue->reactor) + timeout_ms * 1000000ull : 0;
	if (timeout_ms > 0)
		host_watch_command(queue->ctrl);
	slot_send_cmd(slot);
}

const struct host_slot *host_queue_find_late(const struct host_queue *queue, uint64_t now_ns,
					     bool *is_waiting)
{
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		const struct host_slot *slot = &queue->slots[i];

		if (slot->cmd == NULL || slot->deadline_ns == 0)
			continue;
		if (slot->deadline_ns <= now_ns)
			return slot;
		*is_waiting = true;
	}
	return NULL;
}

int host_queue_create(struct host_ctrl *ctrl, uint16_t qid, uint32_t size,
		      struct host_queue **ret_queue)
{
	struct host_queue *queue = calloc(1, sizeof(*queue));

	CHECK(size >= 2);
	if (queue == NULL)
		return -ENOMEM;
	queue->ctrl = ctrl;
	queue->reactor = ctrl->reactor;
	queue->qid = qid;
	queue->slot_count = size - 1;
	list_init(&queue->waiting);
	queue->slots = calloc(queue->slot_count, sizeof(*queue->slots));
	queue->free_slots = calloc(queue->slot_count, sizeof(*queue->free_slots));
	if (queue->slots == NULL || queue->free_slots == NULL) {
		host_queue_destroy(queue);
		return -ENOMEM;
	}
	/* Lowest index on top. */
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		queue->slots[i].queue = queue;
		queue->free_slots[i] = queue->slot_count - 1 - i;
	}
	queue->free_count = queue->slot_count;
	*ret_queue = queue;
	return 0;
}

void host_queue_destroy(struct host_queue *queue)
{
	if (queue == NULL)
		return;
	free(queue->slots);
	free(queue->free_slots);
	free(queue);
}
