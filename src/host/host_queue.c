/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One queue of a controller: its connection, its slots and the commands that wait for one. Runs on
 * the controller's reactor. NVMe/TCP 1.1, section 3; the data of commands is in transport_tcp.c.
 *
 * A slot is free again when the answer is there AND the engine holds none of its PDUs, so the
 * caller's buffer is never in use after done. When the connection ends, every command is completed
 * with Host Pathing Error. A fused pair waits until there are two slots, and whoever comes behind
 * it waits too, so that its two capsules are neighbours on the wire. A command that is forgotten
 * leaves its slot to queue->forgotten until the controller has answered.
 */
#include "base/log.h"
#include "host/host_internal.h"

#include <errno.h>
#include <stdlib.h>

#define HOST_IC_TIMEOUT_MS   5000
#define HOST_TERM_TIMEOUT_MS 250 /* a liar may hold the commands of others up for so long */
#define HOST_RECV_BUDGET     (1024 * 1024)
#define HOST_RTT_NS          (100 * 1000000ull) /* the kernel is asked at most so often */
#define FUSE_FIRST           0x01
#define FUSE_SECOND          0x02

static struct host_queue *queue_of(struct tcp_conn *conn)
{
	return container_of(conn, struct host_queue, conn);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void slot_release(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;

	slot->cmd->slot_index = HOST_NO_SLOT;
	slot->cmd = NULL;
	slot->transfer.is_open = false;
	if (slot->deadline_ns == 0)
		queue->untimed_count--;
	queue->free_slots[queue->free_count++] = slot->index;
}

/* timeout_ms 0: none. */
static void queue_take_slot(struct host_queue *queue, struct host_cmd *cmd, uint32_t timeout_ms,
			    uint64_t now_ns)
{
	struct host_slot *slot = &queue->slots[queue->free_slots[--queue->free_count]];

	slot->cmd = cmd;
	slot->sent_ns = now_ns;
	slot->deadline_ns = timeout_ms > 0 ? now_ns + timeout_ms * 1000000ull : 0;
	if (timeout_ms > 0)
		host_watch_command(queue->ctrl);
	else
		queue->untimed_count++;
	host_slot_send_cmd(slot);
}

/* The command and what is fused to it, one right behind the other. */
static void queue_send(struct host_queue *queue, struct host_cmd *cmd, uint32_t timeout_ms,
		       uint64_t now_ns)
{
	struct host_cmd *second = cmd->fused_next;

	queue_take_slot(queue, cmd, timeout_ms, now_ns);
	if (second != NULL)
		queue_take_slot(queue, second, timeout_ms, now_ns);
}

static uint32_t slots_needed(const struct host_cmd *cmd)
{
	return cmd->fused_next != NULL ? 2 : 1;
}

/* Out of line, as what few commands need: the way of the others stays short. */
static __attribute__((noinline)) void queue_pump(struct host_queue *queue)
{
	while (!list_empty(&queue->waiting) && queue->is_open) {
		struct host_cmd *cmd = list_entry(queue->waiting.next, struct host_cmd, node);

		if (queue->free_count < queue->reserved_slots + slots_needed(cmd))
			return;
		list_remove(&cmd->node);
		queue_send(queue, cmd, queue->ctrl->config.command_timeout_ms,
			   reactor_now_ns(queue->reactor));
	}
}

void host_slot_finish(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;
	struct host_cmd *cmd = slot->cmd;

	slot_release(slot);
	if (!list_empty(&queue->waiting))
		queue_pump(queue);
	cmd->done(cmd);
}

/* Nobody waits for it. */
static void on_forgotten_done(struct host_cmd *cmd)
{
}

void host_queue_forget(struct host_queue *queue, struct host_cmd *cmd)
{
	struct host_slot *slot;

	CHECK(cmd->direction == HOST_DATA_FROM_CTRL && cmd->fused_next == NULL);
	if (cmd->slot_index == HOST_NO_SLOT) {
		/* It waits, or is on a list of those that are about to be told of the loss. */
		CHECK(list_linked(&cmd->node));
		list_remove(&cmd->node);
		return;
	}
	CHECK(cmd->slot_index < queue->slot_count);
	slot = &queue->slots[cmd->slot_index];
	CHECK(slot->cmd == cmd);
	/* A payload that is half here has its place in the caller's buffer. */
	tcp_conn_discard(&queue->conn, (uint16_t)cmd->slot_index);
	cmd->slot_index = HOST_NO_SLOT;
	slot->cmd = &queue->forgotten;
	slot->is_forgotten = true;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void on_ready(struct tcp_conn *conn)
{
	struct host_queue *queue = queue_of(conn);

	queue->was_ready = true;
	queue->is_open = true;
	host_ctrl_on_queue_ready(queue);
}

static void on_ending(struct tcp_conn *conn)
{
	queue_of(conn)->is_open = false;
}

/* What has no slot yet has not run. */
static void queue_end_waiting(struct host_queue *queue, struct list *ended)
{
	struct list *node;

	while ((node = list_pop_front(&queue->waiting)) != NULL) {
		struct host_cmd *cmd = list_entry(node, struct host_cmd, node);

		for (; cmd != NULL; cmd = cmd->fused_next) {
			cmd->status = NVME_SC_HOST_PATHING_ERROR;
			list_push_back(ended, &cmd->node);
		}
	}
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct host_queue *queue = queue_of(conn);
	struct list ended;

	queue->phase = HOST_QUEUE_CLOSED;
	/* Until here the kernel may have repeated what it had not got through. */
	queue->ctrl->closed_ns = reactor_clock_ns(queue->reactor);
	list_init(&ended);
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		struct host_slot *slot = &queue->slots[i];
		struct host_cmd *cmd = slot->cmd;

		if (cmd == NULL)
			continue;
		/* An answer that came in time counts even though the connection then ended. */
		if (!slot->has_response) {
			cmd->status = NVME_SC_HOST_PATHING_ERROR;
			cmd->may_have_run = slot->cmd_tx.is_begun;
		}
		slot->tx_busy = 0;
		slot_release(slot);
		if (!slot->is_forgotten)
			list_push_back(&ended, &cmd->node);
	}
	queue_end_waiting(queue, &ended);
	/* First, so that nobody's done sends on the other queues of a controller that is ending. */
	host_ctrl_on_queue_closed(queue, cause, why);
	while (!list_empty(&ended)) {
		struct host_cmd *cmd = list_entry(list_pop_front(&ended), struct host_cmd, node);

		cmd->done(cmd);
	}
}

static const struct tcp_conn_handler queue_handler = {
	.on_ready = on_ready,
	.on_header = host_data_on_header,
	.on_pdu = host_data_on_pdu,
	.on_closed = on_closed,
	.on_ending = on_ending,
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
		.heard_ns = &queue->heard_ns,
		.sent_ns = &queue->sent_ns,
		.unacked_timeout_ms = config->unacked_timeout_ms,
		.zero_copy_min_bytes = config->zero_copy_min_bytes,
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

static size_t cmd_pieces_bytes(const struct host_cmd *cmd)
{
	size_t pieces_bytes = 0;

	for (unsigned i = 0; i < cmd->iov_count; i++)
		pieces_bytes += cmd->iov[i].iov_len;
	return pieces_bytes;
}

static void cmd_begin(struct host_cmd *cmd, uint64_t now_ns)
{
	CHECK(cmd->done != NULL);
	CHECK((cmd->direction == HOST_DATA_NONE) == (cmd->data_bytes == 0));
	CHECK(cmd->iov_count == 0 || cmd_pieces_bytes(cmd) == cmd->data_bytes);
	cmd->started_ns = now_ns;
	cmd->slot_index = HOST_NO_SLOT;
	cmd->result = 0;
	cmd->may_have_run = false;
	list_init(&cmd->node);
}

/* A connection that is ending completes what waits from on_closed. Nobody overtakes a pair that
 * waits for its second slot, but for the commands that keep the controller. */
static bool queue_must_wait(const struct host_queue *queue, uint32_t slots, bool is_own)
{
	if (!is_own) {
		slots += queue->reserved_slots;
		if (!list_empty(&queue->waiting))
			return true;
	}
	return queue->free_count < slots || !queue->is_open;
}

/* Out of line likewise. */
static __attribute__((noinline)) void queue_submit_pair(struct host_queue *queue,
							struct host_cmd *first, uint32_t timeout_ms,
							bool is_own)
{
	struct host_cmd *second = first->fused_next;
	nvme_status refusal = NVME_SC_HOST_PATHING_ERROR;

	CHECK(second != first && second->fused_next == NULL);
	cmd_begin(second, first->started_ns);
	first->sqe.flags = (uint8_t)((first->sqe.flags & ~NVME_SQE_FUSE_MASK) | FUSE_FIRST);
	second->sqe.flags = (uint8_t)((second->sqe.flags & ~NVME_SQE_FUSE_MASK) | FUSE_SECOND);
	if (queue->slot_count < queue->reserved_slots + 2)
		refusal = nvme_status_dnr(NVME_SC_FUSED_MISSING);
	if (queue->phase == HOST_QUEUE_CLOSED ||
	    !nvme_status_same(refusal, NVME_SC_HOST_PATHING_ERROR)) {
		host_ctrl_orphan(queue->ctrl, first, refusal);
		host_ctrl_orphan(queue->ctrl, second, refusal);
	} else if (queue_must_wait(queue, 2, is_own)) {
		list_push_back(&queue->waiting, &first->node);
	} else {
		queue_send(queue, first, timeout_ms, first->started_ns);
	}
}

void host_queue_submit(struct host_queue *queue, struct host_cmd *cmd, uint32_t timeout_ms,
		       bool is_own)
{
	uint64_t now_ns = reactor_now_ns(queue->reactor);

	cmd_begin(cmd, now_ns);
	if (cmd->fused_next != NULL)
		queue_submit_pair(queue, cmd, timeout_ms, is_own);
	else if (queue->phase == HOST_QUEUE_CLOSED)
		host_ctrl_orphan(queue->ctrl, cmd, NVME_SC_HOST_PATHING_ERROR);
	else if (queue_must_wait(queue, 1, is_own))
		list_push_back(&queue->waiting, &cmd->node);
	else
		queue_take_slot(queue, cmd, timeout_ms, now_ns);
}

/* ---- what it does now ----------------------------------------------------------------------- */

uint32_t host_queue_owed(const struct host_queue *queue)
{
	return queue->slot_count - queue->free_count - queue->untimed_count;
}

uint64_t host_queue_oldest_ns(const struct host_queue *queue)
{
	uint64_t oldest_ns = UINT64_MAX;

	for (uint32_t i = 0; i < queue->slot_count; i++) {
		const struct host_slot *slot = &queue->slots[i];

		if (slot->cmd != NULL && slot->deadline_ns != 0 && slot->sent_ns < oldest_ns)
			oldest_ns = slot->sent_ns;
	}
	return oldest_ns == UINT64_MAX ? 0 : oldest_ns;
}

void host_queue_stats(struct host_queue *queue, struct host_queue_stats *ret_stats)
{
	uint64_t now_ns = reactor_now_ns(queue->reactor);

	if (queue->phase == HOST_QUEUE_LIVE && !queue->conn.is_sock_closing &&
	    (queue->rtt_at_ns == 0 || now_ns - queue->rtt_at_ns >= HOST_RTT_NS)) {
		queue->rtt_ns = reactor_sock_rtt_ns(&queue->conn.sock);
		queue->rtt_at_ns = now_ns;
	}
	*ret_stats = (struct host_queue_stats){
		.in_flight = host_queue_owed(queue),
		.commands = queue->answered,
		.heard_ns = queue->heard_ns,
		.rtt_ns = queue->rtt_ns,
	};
	if (ret_stats->in_flight > 0)
		ret_stats->oldest_ns = host_queue_oldest_ns(queue);
	list_for_each(node, &queue->waiting)
		ret_stats->waiting += slots_needed(list_entry(node, struct host_cmd, node));
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
	queue->forgotten = (struct host_cmd){.direction = HOST_DATA_FROM_CTRL,
					     .done = on_forgotten_done,
					     .sqe = {.opcode = NVME_IO_READ}};
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
		queue->slots[i].index = (uint16_t)i;
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
