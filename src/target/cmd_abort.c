/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abort: finds the command on whatever reactor its queue lives, asks it to end early, and answers
 * when it has ended: DW0 bit 0 is 0 only if the command really completed as aborted. NVMe Base 2.1,
 * section 5.1.1.
 *
 * The search runs on the victim's reactor (the Abort's slot travels there as a message); the answer
 * comes back through slot_respond of the victim, after its own completion.
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
 * Every command that is not answered yet can be asked to end. What it does about that depends on
 * where it is: waiting for room or for its turn at blocks, it ends at once; waiting for data of the
 * host, when that has come; on a medium, if the medium can let go of it; between two steps, before
 * the next. A change of the configuration ends at once while it waits for its turn, a Format at
 * its next piece; any other that is with the control reactor goes on to its end: the change may be
 * kept already. How it ended is what the Abort tells, never how it was asked.
 */
static struct slot *queue_find_cid(struct queue *queue, uint16_t cid, const struct slot *not_this)
{
	list_for_each(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		/* One whose capsule is still arriving ends when it has. */
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
	abort_cmd_decode(&slot->sqe, &cmd);
	if (cmd.sqid == 0) {
		abort_on_queue(slot, ctrl->admin, cmd.cid);
		return;
	}
	queue = cmd.sqid <= ctrl->io_queues_max ? ctrl->io_queues[cmd.sqid] : NULL;
	if (!queue) {
		ctrl->aborts_running--;
		slot_complete_at(slot, nvme_status_dnr(NVME_SC_INVALID_FIELD),
				 offsetof(struct nvme_sqe, cdw10));
		return;
	}
	/* The queue cannot go before this: it leaves only with an answer of this reactor. */
	slot->other = queue;
	reactor_post(queue->reactor, &slot->msg, abort_here);
}

nvme_status abort_prepare(struct slot *slot)
{
	slot->execute = abort_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
