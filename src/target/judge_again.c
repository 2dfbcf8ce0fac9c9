/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that outlast the configuration under which they were judged. See judge_again.h. Runs on
 * the queue's reactor. A command whose configuration did not change never runs this code.
 */
#include "target/judge_again.h"

#include "ns/reservation.h"
#include "target/fused.h"
#include "target/io.h"
#include "target/reach.h"
#include "target/reservation_command.h"

/* What a second judgement must not change: the transport already moves this data, into memory of
 * this size. */
struct slot_promise {
	enum data_direction direction;
	uint32_t data_bytes;
	uint32_t extra_bytes;
};

/* Another namespace may have the NSID now, or the block size may have changed. The host meant the
 * former namespace with its former blocks. */
static bool ns_is_same(const struct ns *was, const struct ns *is)
{
	return was && uuid_equal(&was->uuid, &is->uuid) && was->block_shift == is->block_shift;
}

static bool promise_is_kept(const struct slot *slot, const struct slot_promise *promise)
{
	return slot->direction == promise->direction && slot->data_bytes == promise->data_bytes &&
	       slot->extra_bytes == promise->extra_bytes;
}

bool slot_is_waiting(const struct slot *slot)
{
	return slot->state == SLOT_RECEIVING || slot->state == SLOT_FETCHING ||
	       slot->state == SLOT_WAITING_BUFFER;
}

bool slot_is_filled_by_host(const struct slot *slot)
{
	return slot_is_mapped(slot) && slot_is_waiting(slot);
}

/* True while data of a read is sent directly from memory media, at the pace of its host. */
static bool slot_is_read_by_host(const struct slot *slot)
{
	return slot_is_mapped(slot) && slot->state == SLOT_RESPONDING &&
	       slot->direction == DATA_TO_HOST && nvme_status_is_ok(slot->status);
}

static nvme_status judge_in_force(struct slot *slot, const struct ns *was)
{
	const struct slot_promise promise = {
		.direction = slot->direction,
		.data_bytes = slot->data_bytes,
		.extra_bytes = slot->extra_bytes,
	};
	nvme_status status;

	slot->ns = NULL;
	slot->error_byte = 0xffff;
	status = command_prepare_alone(slot);
	if ((slot->ns && !ns_is_same(was, slot->ns)) ||
	    (nvme_status_is_ok(status) && !promise_is_kept(slot, &promise)))
		status = command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
	slot->data = slot->buf;
	slot->direction = promise.direction;
	slot->data_bytes = promise.data_bytes;
	slot->extra_bytes = promise.extra_bytes;
	return status;
}

/* Fabrics commands (Connect among them) and most admin commands do not touch media. They move to
 * the new snapshot without a second judgement. An admin command that was judged with a namespace,
 * such as a feature of that namespace, holds a pointer into the former snapshot, and is judged
 * again. */
static bool slot_is_judged(const struct slot *slot)
{
	return slot->ns || (slot->queue->qid != 0 && slot->sqe.opcode != NVME_OPCODE_FABRICS);
}

/* True when the command keeps its snapshot. A barrier lets earlier commands finish, until
 * BARRIER_PRESS_S has passed. */
static bool slot_stays(const struct slot *slot)
{
	return slot_is_mapped(slot) || slot->is_fused ||
	       (slot->is_awaited && !slot->is_displaced && !slot->must_judge_again);
}

/* Moves a command that does not stay to the snapshot in force and judges the command there. The
 * command keeps nothing of its former snapshot. *ret_is_same: the namespace still exists, with the
 * same block size. */
static nvme_status slot_move(struct slot *slot, bool *ret_is_same)
{
	struct local *local = slot->queue->local;
	struct snapshot *former = slot->snapshot;
	const struct ns *was = slot->ns;
	nvme_status status = NVME_SC_SUCCESS;

	slot->snapshot = local->snapshot;
	slot->rules = local->rules;
	local->snapshot->inflight[local->index].count++;
	if (slot_is_judged(slot))
		status = judge_in_force(slot, was);
	*ret_is_same = slot->ns && ns_is_same(was, slot->ns);
	slot->must_judge_again = slot->is_cut_off;
	local_leave_snapshot(local, former);
	return status;
}

static void slot_refuse(struct slot *slot, nvme_status status)
{
	slot->early_status = status;
	slot->ns = NULL;
}

/* ---- views --------------------------------------------------------------------------------- */

/* NULL without a namespace, and for admin commands: these check reservations when they execute. */
static const struct ns_view *slot_view(const struct slot *slot)
{
	return slot->ns && slot->queue->qid != 0 ? io_counters(slot)->view : NULL;
}

nvme_status slot_check_view(struct slot *slot)
{
	const struct ns_view *view = slot_view(slot);
	nvme_status status;

	/* All data of a mapped command has landed already. Data that had to be stopped was cut off
	 * when the view changed (local_cut_off_fenced). */
	if (!view || slot_is_mapped(slot) || slot->rules == slot->queue->local->rules)
		return NVME_SC_SUCCESS;
	status = io_check_view(slot, view);
	slot->data = slot->buf;
	return status;
}

/* True when the reservation has changed since the command was judged, and now excludes its host. */
static bool slot_is_fenced(const struct slot *slot)
{
	return slot->rules != slot->queue->local->rules &&
	       !nvme_status_is_ok(
		       reservation_check(slot, slot->ns, slot->sqe.opcode, slot_view(slot)));
}

nvme_status slot_judge_again(struct slot *slot)
{
	nvme_status status;
	bool is_same;

	CHECK_OWNER(slot->queue);
	/* An earlier change has already refused the command. */
	if (!nvme_status_is_ok(slot->early_status))
		return slot->early_status;
	if (slot->rules == slot->queue->local->rules && !slot->must_judge_again)
		return NVME_SC_SUCCESS;
	if (slot_stays(slot))
		return slot_check_view(slot);
	status = slot_move(slot, &is_same);
	/* The command is allowed again, but a part of its data was discarded. */
	if (nvme_status_is_ok(status) && slot->is_cut_off)
		status = NVME_SC_COMMAND_INTERRUPTED;
	if (!nvme_status_is_ok(status))
		slot_refuse(slot, status);
	return status;
}

bool slot_is_up_to_date(const struct slot *slot)
{
	const struct queue *queue = slot->queue;
	const struct ns *ns = queue_find_ns(queue, le32_get(slot->sqe.nsid));

	return ns && ns->backing == slot->ns->backing && ns->block_shift == slot->ns->block_shift &&
	       ns->is_read_only == slot->ns->is_read_only &&
	       nvme_status_is_ok(io_check_path(queue, ns));
}

nvme_status slot_displaced_status(const struct slot *slot)
{
	const struct ns *ns = queue_find_ns(slot->queue, le32_get(slot->sqe.nsid));
	nvme_status status = slot_check_rights(slot);

	if (nvme_status_is_ok(status) && ns)
		status = io_check_path(slot->queue, ns);
	return nvme_status_is_ok(status) ? NVME_SC_COMMAND_INTERRUPTED : status;
}

/* ---- data on its way into memory media ----------------------------------------------------- */

/* A namespace may get the memory of the former one, also under the same NSID. The host meant the
 * former one. */
static bool memory_is_same(const struct ns *was, const struct ns *is)
{
	return ns_is_same(was, is) && was->mapped == is->mapped;
}

/* The NSID must still name the same namespace with the same memory, and the host must still have
 * the right to write there. A command that a barrier lets finish may continue on a path that is
 * closed to new commands. */
static bool slot_may_be_filled(const struct slot *slot)
{
	const struct queue *queue = slot->queue;
	const struct ns *ns = queue_find_ns(queue, le32_get(slot->sqe.nsid));
	bool is_let = slot->is_awaited && !slot->is_displaced;

	return ns && memory_is_same(slot->ns, ns) && !ns->is_read_only &&
	       (is_let || nvme_status_is_ok(io_check_path(queue, ns)));
}

/* Discards the data still to come. Like a command with a buffer, the command ends when the rest of
 * its data has arrived. */
static void slot_cut_off(struct slot *slot)
{
	slot->queue->transport->cut_off(slot);
	slot->is_cut_off = true;
	slot->must_judge_again = true;
	slot->data = (struct buf){0};
}

/* ---- data on its way out of memory media --------------------------------------------------- */

/* The NSID must still name the same namespace with the same blocks, and the host must still see the
 * namespace. A Format, or a path that is closed to new commands, does not revoke the right to read:
 * an earlier read gets the blocks as they are when they are sent. */
static bool slot_may_be_read(const struct slot *slot)
{
	const struct ns *ns = queue_find_ns(slot->queue, le32_get(slot->sqe.nsid));

	return ns && memory_is_same(slot->ns, ns);
}

/* The host has received the beginning, and maybe a success flag. The host gets the data as of the
 * change, as from any other medium. */
static void slot_end_from_copy(struct slot *slot)
{
	struct queue *queue = slot->queue;
	struct buf buf = buf_pool_get(queue->local->buffers, queue->buf_share, slot->data_bytes);

	if (buf.addr) {
		block_guard_copy_out(queue->in_place_guard, buf.addr, slot->data.addr,
				     slot->data_bytes);
		slot->buf = buf;
		slot->data = buf;
	}
	queue->transport->send_copy(slot, buf);
}

/* Ends the command with the status that a new command would get. */
static void slot_end_refused(struct slot *slot)
{
	nvme_status status = NVME_SC_ABORT_SQ_DELETION;
	bool is_same;

	slot_set_state(slot, SLOT_EXECUTING);
	slot->data = (struct buf){0};
	if (slot->queue->state == QUEUE_LIVE)
		status = slot_move(slot, &is_same);
	slot_complete(slot, nvme_status_is_ok(status) ? NVME_SC_COMMAND_INTERRUPTED : status);
}

static void slot_stop_reading(struct slot *slot)
{
	switch (slot->queue->transport->take_back(slot)) {
	case DATA_SENT_NOTHING:
		slot_end_refused(slot);
		break;
	case DATA_SENT_PART:
		slot_end_from_copy(slot);
		break;
	case DATA_SENT_ALL:
		slot->data = (struct buf){0};
		break;
	}
}

/* ---- both ---------------------------------------------------------------------------------- */

/* A closing queue still sends responses, but receives no more data. */
static bool queue_may_touch_media(const struct queue *queue)
{
	return queue->ctrl && queue->qid != 0 && queue->moves_in_place &&
	       (queue->state == QUEUE_LIVE || queue->state == QUEUE_CLOSING);
}

void queue_cut_off_outdated(struct queue *queue, bool has_place)
{
	bool is_live = queue->state == QUEUE_LIVE;

	if (!queue_may_touch_media(queue))
		return;
	list_for_each_safe(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		if (is_live && slot_is_filled_by_host(slot) && !slot_may_be_filled(slot))
			slot_cut_off(slot);
		else if (slot_is_read_by_host(slot) &&
			 !(is_live && has_place && slot_may_be_read(slot)))
			slot_stop_reading(slot);
	}
}

static void queue_cut_off_fenced(struct queue *queue, const struct ns_local *locals)
{
	list_for_each_safe(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);
		bool is_filled = queue->state == QUEUE_LIVE && slot_is_filled_by_host(slot);

		if (!(is_filled || slot_is_read_by_host(slot)) || slot->ns->locals != locals ||
		    !slot_is_fenced(slot))
			continue;
		if (is_filled)
			slot_cut_off(slot);
		else
			slot_stop_reading(slot);
	}
}

void local_cut_off_fenced(struct local *local, const struct ns_local *locals)
{
	list_for_each(node, &local->queues) {
		struct queue *queue = list_entry(node, struct queue, node);

		if (queue_may_touch_media(queue))
			queue_cut_off_fenced(queue, locals);
	}
}

/* ---- snapshots that are not in force ------------------------------------------------------- */

/* Moves a command whose data is in memory media to the snapshot in force. Returns false when the
 * snapshot in force no longer has that memory, or no longer allows the host to write there. */
static bool slot_leave_mapped(struct slot *slot)
{
	struct local *local = slot->queue->local;
	struct snapshot *former = slot->snapshot;
	const struct subsystem *subsystem = slot->queue->subsystem;
	const struct ns *ns = subsystem ? subsystem_find_ns(subsystem, slot->ns->nsid) : NULL;

	/* A response only needs the memory: a read that had to be stopped was cut off. Data still
	 * to be received needs the right to write as well. */
	if (!ns || ns->backing != slot->ns->backing ||
	    (slot->state != SLOT_RESPONDING && !slot_is_up_to_date(slot)))
		return false;
	slot->snapshot = local->snapshot;
	slot->ns = ns;
	local->snapshot->inflight[local->index].count++;
	local_leave_snapshot(local, former);
	return true;
}

/*
 * The command does not begin now. A refusal that a later change can lift (Format in Progress, an
 * ANA state, write protection) is therefore not final: the command is judged again before it
 * begins. A refusal because the namespace is gone, hidden or has another block size is final.
 */
static void slot_leave_waiting(struct slot *slot)
{
	nvme_status status;
	bool is_same;

	if (!nvme_status_is_ok(slot->early_status) || slot_stays(slot))
		return;
	status = slot_move(slot, &is_same);
	if (nvme_status_is_ok(status))
		return;
	if (is_same)
		slot->must_judge_again = true;
	else
		slot_refuse(slot, status);
}

/* Returns false when only the end of the connection can release the command. */
static bool slot_leave_retired(struct slot *slot)
{
	if (slot->state == SLOT_EXECUTING || slot->is_fused)
		return true; /* ends with its medium, or with its host's data */
	if (slot_is_mapped(slot))
		return slot_leave_mapped(slot);
	if (slot->state == SLOT_RESPONDING)
		slot_leave_snapshot(slot);
	else if (slot->queue->state == QUEUE_LIVE)
		slot_leave_waiting(slot);
	return true;
}

static bool queue_leave_retired(struct queue *queue)
{
	bool is_free = true;

	list_for_each(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		if (slot->snapshot && slot->snapshot != queue->local->snapshot)
			is_free &= slot_leave_retired(slot);
	}
	return is_free;
}

void local_leave_retired(struct local *local)
{
	list_for_each_safe(node, &local->queues) {
		struct queue *queue = list_entry(node, struct queue, node);

		if (!queue_leave_retired(queue) && queue->ctrl && queue->qid != 0)
			queue_close(queue, "the connection still uses memory of a namespace that "
					   "its host no longer sees");
	}
}
