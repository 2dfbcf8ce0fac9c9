/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One queue of a controller: its slots, the commands that wait for a slot, and the completion of
 * commands when the connection ends. Runs on the controller's reactor. The transport owns the
 * connection and the data of commands (host_transport.h).
 *
 * A slot is free again when the answer is there AND the transport holds nothing of the slot, so the
 * caller's buffer is never in use after done. When the connection ends, every command is completed
 * with Host Pathing Error. A fused pair waits until two slots are free, and later commands wait
 * behind it, so that its two capsules are neighbours on the wire. A forgotten command leaves its
 * slot to queue->forgotten until the controller has answered.
 */
#include "base/log.h"
#include "host/host_internal.h"

#include <errno.h>
#include <stdlib.h>

#define FUSE_FIRST  0x01
#define FUSE_SECOND 0x02

/* ---- slots ---------------------------------------------------------------------------------- */

static void slot_release(struct host_slot *slot)
{
	struct host_queue *queue = slot->queue;

	slot->cmd->slot_index = HOST_NO_SLOT;
	slot->cmd = NULL;
	if (slot->deadline_ns == 0)
		queue->untimed_count--;
	queue->free_slots[queue->free_count++] = slot->index;
}

/* timeout_ms 0: no time-out. Inline because every command runs through this function. */
static inline __attribute__((always_inline)) void queue_take_slot(struct host_queue *queue,
								  struct host_cmd *cmd,
								  uint32_t timeout_ms,
								  uint64_t now_ns)
{
	struct host_slot *slot = host_queue_slot(queue, queue->free_slots[--queue->free_count]);

	cmd->slot_index = slot->index;
	cmd->sqe.cid = le16_of(slot->index);
	slot->cmd = cmd;
	slot->has_answer = false;
	slot->is_forgotten = false;
	slot->sent_ns = now_ns;
	slot->deadline_ns = timeout_ms > 0 ? now_ns + timeout_ms * 1000000ull : 0;
	if (timeout_ms > 0)
		host_watch_command(queue->ctrl);
	else
		queue->untimed_count++;
	queue->ctrl->commands_sent++;
	queue->transport->send(slot);
}

/* Sends the command, and right behind it the command fused to it. */
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

/* Out of line because few commands need it: the common path stays short. */
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

/* The caller has dropped the command and is not informed. */
static void on_forgotten_done(struct host_cmd *cmd)
{
}

void host_queue_forget(struct host_queue *queue, struct host_cmd *cmd)
{
	struct host_slot *slot;

	CHECK(cmd->direction == HOST_DATA_FROM_CTRL && cmd->fused_next == NULL);
	if (cmd->slot_index == HOST_NO_SLOT) {
		/* The command waits for a slot, or is on the list of commands that are about to be
		 * completed after a loss. */
		CHECK(list_linked(&cmd->node));
		list_remove(&cmd->node);
		return;
	}
	CHECK(cmd->slot_index < queue->slot_count);
	slot = host_queue_slot(queue, cmd->slot_index);
	CHECK(slot->cmd == cmd);
	queue->transport->forget(slot);
	cmd->slot_index = HOST_NO_SLOT;
	slot->cmd = &queue->forgotten;
	slot->is_forgotten = true;
}

/* ---- life ----------------------------------------------------------------------------------- */

void host_queue_on_ready(struct host_queue *queue)
{
	queue->was_ready = true;
	host_ctrl_on_queue_ready(queue);
}

/* A command without a slot has not run: may_have_run stays false. */
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

void host_queue_on_closed(struct host_queue *queue, int cause, const char *why)
{
	struct list ended;

	queue->phase = HOST_QUEUE_CLOSED;
	/* Until now the transport may have retransmitted bytes that the controller had not
	 * acknowledged. */
	queue->ctrl->closed_ns = reactor_clock_ns(queue->reactor);
	list_init(&ended);
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		struct host_slot *slot = host_queue_slot(queue, i);
		struct host_cmd *cmd = slot->cmd;

		if (cmd == NULL)
			continue;
		/* An answer that came before the connection ended counts. */
		if (!slot->has_answer) {
			cmd->status = NVME_SC_HOST_PATHING_ERROR;
			cmd->may_have_run = slot->is_begun;
		}
		slot_release(slot);
		if (!slot->is_forgotten)
			list_push_back(&ended, &cmd->node);
	}
	queue_end_waiting(queue, &ended);
	/* Before the done callbacks, so that none of them sends on another queue of a controller
	 * that is ending. */
	host_ctrl_on_queue_closed(queue, cause, why);
	while (!list_empty(&ended)) {
		struct host_cmd *cmd = list_entry(list_pop_front(&ended), struct host_cmd, node);

		cmd->done(cmd);
	}
}

int host_queue_open(struct host_queue *queue)
{
	int res = queue->transport->connect(queue);

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
	queue->transport->close(queue, is_orderly, why);
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

/* Whether a command must wait. When the connection is ending, host_queue_on_closed completes the
 * commands that wait. Only the controller's own commands overtake a pair that waits for its second
 * slot. */
static bool queue_must_wait(const struct host_queue *queue, uint32_t slots, bool is_own)
{
	if (!is_own) {
		slots += queue->reserved_slots;
		if (!list_empty(&queue->waiting))
			return true;
	}
	return queue->free_count < slots || !queue->is_open;
}

/* Out of line because few commands are fused pairs. */
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

/* ---- statistics ----------------------------------------------------------------------------- */

uint32_t host_queue_owed(const struct host_queue *queue)
{
	return queue->slot_count - queue->free_count - queue->untimed_count;
}

uint64_t host_queue_oldest_ns(const struct host_queue *queue)
{
	uint64_t oldest_ns = UINT64_MAX;

	for (uint32_t i = 0; i < queue->slot_count; i++) {
		const struct host_slot *slot = host_queue_slot(queue, i);

		if (slot->cmd != NULL && slot->deadline_ns != 0 && slot->sent_ns < oldest_ns)
			oldest_ns = slot->sent_ns;
	}
	return oldest_ns == UINT64_MAX ? 0 : oldest_ns;
}

void host_queue_stats(struct host_queue *queue, struct host_queue_stats *ret_stats)
{
	*ret_stats = (struct host_queue_stats){
		.in_flight = host_queue_owed(queue),
		.commands = queue->answered,
		.heard_ns = queue->heard_ns,
	};
	queue->transport->get_stats(queue, ret_stats);
	if (ret_stats->in_flight > 0)
		ret_stats->oldest_ns = host_queue_oldest_ns(queue);
	list_for_each(node, &queue->waiting)
		ret_stats->waiting += slots_needed(list_entry(node, struct host_cmd, node));
}

const struct host_slot *host_queue_find_late(const struct host_queue *queue, uint64_t now_ns,
					     bool *is_waiting)
{
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		const struct host_slot *slot = host_queue_slot(queue, i);

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
	const struct host_transport *transport = ctrl->config.addr.transport;
	struct host_queue *queue = calloc(1, transport->queue_bytes);

	CHECK(size >= 2);
	if (queue == NULL)
		return -ENOMEM;
	queue->transport = transport;
	queue->config = &ctrl->config;
	queue->ctrl = ctrl;
	queue->reactor = ctrl->reactor;
	queue->qid = qid;
	queue->slot_count = size - 1;
	queue->forgotten = (struct host_cmd){.direction = HOST_DATA_FROM_CTRL,
					     .done = on_forgotten_done,
					     .sqe = {.opcode = NVME_IO_READ}};
	list_init(&queue->waiting);
	queue->slots = calloc(queue->slot_count, transport->slot_bytes);
	queue->free_slots = calloc(queue->slot_count, sizeof(*queue->free_slots));
	if (queue->slots == NULL || queue->free_slots == NULL) {
		host_queue_destroy(queue);
		return -ENOMEM;
	}
	/* The lowest index is on top of the stack. */
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		struct host_slot *slot = host_queue_slot(queue, i);

		slot->queue = queue;
		slot->index = (uint16_t)i;
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
