/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abort: finds the command on the reactor of its queue, asks the command to end early, and answers
 * after the command has ended. DW0 bit 0 is 0 only if the command really completed as aborted. NVMe
 * Base 2.1, section 5.1.1.
 *
 * The Abort's slot travels as a message to the victim's reactor, where the queue is searched.
 * slot_respond of the victim sends the Abort's slot back, after the victim's own completion.
 */
#include "target/command.h"
#include "target/local.h"

static void abort_found_nothing(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);

	slot->result = 1;
	slot->queue->ctrl->aborts_running--;
	slot_complete(slot, NVME_SC_SUCCESS);
}

/*
 * Finds a command that has no response yet. Any such command can be asked to end. When the command
 * ends depends on its state. Waiting for a buffer or for its turn at blocks: at once. Waiting for
 * data of its host: when the data has arrived. On a medium: if the medium can cancel the
 * operation. Between two steps: before the next step. A change of the configuration that waits for
 * its turn: at once. A Format: at its next piece. Any other change on the control reactor runs to
 * its end, because the change may be kept already. The Abort reports how the command ended, not
 * that it was asked to end.
 */
static struct slot *queue_find_cid(struct queue *queue, uint16_t cid, const struct slot *not_this)
{
	list_for_each(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		/* A command whose capsule is still arriving ends when the capsule is complete. */
		if (slot != not_this && le16_get(slot->sqe.cid) == cid &&
		    slot->state != SLOT_RESPONDING)
			return slot;
	}
	return NULL;
}

/* On the victim's reactor. */
static void abort_on_queue(struct slot *aborter, struct queue *queue, uint16_t cid)
{
	struct slot *victim = queue_find_cid(queue, cid, aborter);

	if (!victim || victim->aborter) {
		reactor_post(aborter->queue->reactor, &aborter->msg, abort_found_nothing);
		return;
	}
	victim->aborter = aborter;
	slot_cancel(victim);
}

static void abort_here(struct reactor_msg *msg)
{
	struct slot *aborter = container_of(msg, struct slot, msg);
	struct abort_cmd cmd;

	abort_cmd_decode(&aborter->sqe, &cmd);
	abort_on_queue(aborter, aborter->other, cmd.cid);
}

static void abort_execute(struct slot *slot)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	struct queue *queue;
	struct abort_cmd cmd;

	if (ctrl->aborts_running >= CTRL_ABORT_MAX) {
		slot_complete(slot, nvme_status_dnr(NVME_SC_ABORT_LIMIT));
		return;
	}
	ctrl->aborts_running++;
	slot->wait = SLOT_WAIT_VICTIMS;
	abort_cmd_decode(&slot->sqe, &cmd);
	if (cmd.sqid == 0) {
		abort_on_queue(slot, ctrl->admin, cmd.cid);
		return;
	}
	queue = cmd.sqid <= ctrl->io_queues_max ? ctrl->io_queues[cmd.sqid] : NULL;
	if (!queue) {
		ctrl->aborts_running--;
		slot_complete(slot, command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10));
		return;
	}
	/* The queue outlives this message: it is freed only after this reactor has answered its
	 * detach. */
	slot->other = queue;
	reactor_post(queue->reactor, &slot->msg, abort_here);
}

nvme_status abort_prepare(struct slot *slot)
{
	slot->execute = abort_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
