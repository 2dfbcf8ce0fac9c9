/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancel: asks one command, or all commands, of its own queue to end early. NVMe Base 2.1, section
 * 7.1 (TP4097). Runs on the queue's reactor, like its victims.
 *
 * The Cancel waits for victims that run. Those that end as aborted are counted as aborted, and
 * their completions come before the completion of the Cancel. A victim that waits for data of its
 * host ends when the data has arrived, which may take as long as the host likes. Such victims are
 * counted as deferred.
 */
#include "target/io.h"

#include "wire/copy.h"

/* A Cancel uses two fields of slot->steps. index: number of victims that the Cancel waits for.
 * step_blocks: number of deferred victims, which end later. */

static void cancel_finish(struct slot *slot)
{
	slot->result = cancel_result_encode(slot->aborted, slot->steps.step_blocks);
	slot_complete(slot, NVME_SC_SUCCESS);
}

void cancel_on_victim_end(struct slot *canceller, bool is_aborted)
{
	CHECK(canceller->steps.index > 0);
	canceller->aborted += is_aborted;
	if (--canceller->steps.index == 0)
		cancel_finish(canceller);
}

static bool cancel_names(const struct slot *slot, const struct cancel_cmd *cmd,
			 const struct slot *victim)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);

	if (victim == slot || victim->sqe.opcode == NVME_IO_CANCEL ||
	    victim->sqe.opcode == NVME_OPCODE_FABRICS || victim->is_abort_requested ||
	    victim->state == SLOT_RESPONDING)
		return false;
	if (nsid != NVME_NSID_ALL && nsid != le32_get(victim->sqe.nsid))
		return false;
	return cmd->action == CANCEL_MANY || cmd->cid == le16_get(victim->sqe.cid);
}

static void cancel_victim(struct slot *slot, struct slot *victim)
{
	if (victim->state == SLOT_RECEIVING || victim->state == SLOT_FETCHING || victim->aborter) {
		slot->steps.step_blocks++;
	} else {
		victim->aborter = slot;
		slot->steps.index++;
	}
	slot_cancel(victim);
}

static struct slot *cancel_find(const struct slot *slot, const struct cancel_cmd *cmd)
{
	list_for_each(node, &slot->queue->busy) {
		struct slot *victim = list_entry(node, struct slot, node);

		if (cancel_names(slot, cmd, victim))
			return victim;
	}
	return NULL;
}

static void cancel_execute(struct slot *slot)
{
	struct slot *victim;
	struct cancel_cmd cmd;

	cancel_cmd_decode(&slot->sqe, &cmd);
	slot->wait = SLOT_WAIT_VICTIMS;
	slot->aborted = 0;
	slot->steps.step_blocks = 0;
	slot->steps.index = 1; /* this function's own reference */
	/* Search from the start each time: a victim that ends leaves the list and may take others
	 * with it. */
	while ((victim = cancel_find(slot, &cmd)))
		cancel_victim(slot, victim);
	if (--slot->steps.index == 0)
		cancel_finish(slot);
}

nvme_status cancel_prepare(struct slot *slot)
{
	struct cancel_cmd cmd;

	cancel_cmd_decode(&slot->sqe, &cmd);
	if (cmd.sqid != slot->queue->qid)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	if (cmd.action > CANCEL_MANY)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
	/* CANCEL_MANY must not name a command. CANCEL_ONE must not name the Cancel itself. */
	if (cmd.action == CANCEL_MANY && cmd.cid != CANCEL_CID_ALL)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10 + 2);
	if (cmd.action == CANCEL_ONE && cmd.cid == le16_get(slot->sqe.cid))
		return command_refuse(slot, NVME_SC_INVALID_CID, SQE_BYTE_CDW10 + 2);
	slot->execute = cancel_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
