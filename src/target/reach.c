/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces that a command reaches. See reach.h. Runs on the queue's reactor.
 *
 * The ranges of a Copy stay at the start of its buffer until the command ends, so they are read
 * where they are.
 */
#include "target/reach.h"

#include "target/io.h"
#include "target/reservation_command.h"
#include "wire/copy.h"

/* ---- the set -------------------------------------------------------------------------------- */

/* What a command does with a namespace is named by an opcode: its own, or Read for a source.
 * Returns false to end the walk. */
typedef bool (*reach_fn)(const struct slot *slot, const struct ns *ns, uint8_t opcode, void *arg);

static bool reach_sources(const struct slot *slot, const struct copy_cmd *cmd, reach_fn visit,
			  void *arg)
{
	uint32_t before = slot->ns->nsid;

	for (uint32_t i = 0; i < cmd->range_count; i++) {
		struct copy_range range = copy_range_decode(slot->data.addr, i, cmd->format);
		const struct ns *ns;

		if (range.nsid == before)
			continue;
		before = range.nsid;
		ns = subsystem_find_ns(slot->steps.subsystem, range.nsid);
		if (ns && ns != slot->ns && !visit(slot, ns, NVME_IO_READ, arg))
			return false;
	}
	return true;
}

static bool reach_all(const struct slot *slot, uint8_t opcode, reach_fn visit, void *arg)
{
	const struct subsystem *subsystem = slot->steps.subsystem;

	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];

		if (ns != slot->ns && !visit(slot, ns, opcode, arg))
			return false;
	}
	return true;
}

static bool reach_copy(const struct slot *slot, reach_fn visit, void *arg)
{
	struct copy_cmd cmd;

	copy_cmd_decode(&slot->sqe, &cmd);
	if (cmd.format == COPY_FORMAT_ONE_NS)
		return true;
	if (slot->state != SLOT_EXECUTING)
		return reach_all(slot, NVME_IO_READ, visit, arg);
	/* Without its ranges, the command was refused. */
	if (!slot->data.addr || slot->data_bytes < cmd.range_count * NVME_COPY_RANGE_BYTES)
		return true;
	return reach_sources(slot, &cmd, visit, arg);
}

/* Calls `visit` for each namespace, until `visit` returns false: then returns false. A refused
 * command reaches only the namespace that the command names. */
static bool reach_each(const struct slot *slot, reach_fn visit, void *arg)
{
	if (slot->ns && !visit(slot, slot->ns, slot->sqe.opcode, arg))
		return false;
	if (!nvme_status_is_ok(slot->early_status) || slot->queue->qid == 0)
		return true;
	if (slot->ns && slot->sqe.opcode == NVME_IO_COPY)
		return reach_copy(slot, visit, arg);
	if (!slot->ns && slot->sqe.opcode == NVME_IO_FLUSH)
		return reach_all(slot, NVME_IO_FLUSH, visit, arg);
	return true;
}

struct reach_match {
	bool (*matches)(const struct ns *ns, const void *arg);
	const void *arg;
};

static bool reach_no_match(const struct slot *slot, const struct ns *ns, uint8_t opcode, void *arg)
{
	const struct reach_match *match = arg;

	return !match->matches(ns, match->arg);
}

bool slot_reaches(const struct slot *slot, bool (*matches)(const struct ns *ns, const void *arg),
		  const void *arg)
{
	struct reach_match match = {.matches = matches, .arg = arg};

	return !reach_each(slot, reach_no_match, &match);
}

/* ---- judging -------------------------------------------------------------------------------- */

struct reach_judge {
	bool has_reservations; /* judge them, too */
	nvme_status status;
};

/* Another block size takes no right away: Format has a barrier, and its status promises that
 * nothing of the command was done. */
static bool judge_ns(const struct slot *slot, const struct ns *was, uint8_t opcode, void *arg)
{
	struct reach_judge *judge = arg;
	const struct ns *ns = queue_find_ns(slot->queue, was->nsid);

	if (!ns)
		judge->status = nvme_status_dnr(NVME_SC_INVALID_FIELD);
	else if (!uuid_equal(&was->uuid, &ns->uuid))
		judge->status = nvme_status_dnr(NVME_SC_INVALID_NS);
	else if (ns->is_read_only && io_opcode_changes_data(opcode))
		judge->status = nvme_status_dnr(NVME_SC_NS_WRITE_PROTECTED);
	else if (judge->has_reservations)
		judge->status = reservation_check(slot, ns, opcode,
						  ns->locals[slot->queue->local->index].view);
	return nvme_status_is_ok(judge->status);
}

/* The index of the host for masks is kept up to date only while the queue is live. */
static nvme_status slot_judge(const struct slot *slot, bool has_reservations)
{
	struct reach_judge judge = {.has_reservations = has_reservations,
				    .status = NVME_SC_SUCCESS};

	if (slot->queue->state != QUEUE_LIVE)
		return NVME_SC_ABORT_SQ_DELETION;
	/* A Flush of all namespaces means those that its host sees. */
	if (!slot->ns)
		return NVME_SC_SUCCESS;
	reach_each(slot, judge_ns, &judge);
	return judge.status;
}

nvme_status slot_check_rights(const struct slot *slot)
{
	return slot_judge(slot, false);
}

nvme_status slot_judge_piece(struct slot *slot)
{
	uint64_t rules = slot->queue->local->rules;
	nvme_status status;

	CHECK_OWNER(slot->queue);
	if (slot->rules == rules || !nvme_status_is_ok(slot->early_status))
		return slot->early_status;
	status = slot_judge(slot, true);
	if (nvme_status_is_ok(status))
		slot->rules = rules;
	else
		slot->early_status = status;
	return status;
}
