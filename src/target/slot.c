/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a command: from a free slot to a sent response. See slot.h for the states.
 *
 * Runs on the queue's reactor. For a command that succeeds, nothing here allocates, locks or logs.
 * Buffers come from the reactor's pool, and waiting for a buffer is a state. A failed command
 * visits the controller's reactor for its entry in the error log before it is answered.
 */
#include "ns/health.h"
#include "target/barrier.h"
#include "target/command.h"
#include "target/fused.h"
#include "target/health_note.h"
#include "target/io.h"
#include "target/judge_again.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slot *slot_take(struct queue *queue)
{
	CHECK_OWNER(queue);
	struct list *node = list_pop_front(&queue->free);
	struct slot *slot;

	if (node) {
		slot = list_entry(node, struct slot, node);
	} else if (queue->slots_fresh < queue->slot_count) {
		slot = queue_slot(queue, queue->slots_fresh);
		slot->queue = queue;
		slot->index = (uint16_t)queue->slots_fresh++;
		list_init(&slot->node);
		list_init(&slot->waiter.node);
	} else {
		return NULL;
	}
	CHECK(slot->state == SLOT_FREE);
	slot_set_state(slot, SLOT_RECEIVING);
	slot->direction = DATA_NONE;
	slot->is_abort_requested = false;
	slot->is_awaited = false;
	slot->is_preempted = false;
	slot->is_displaced = false;
	slot->has_changed = false;
	slot->must_judge_again = false;
	slot->is_cut_off = false;
	slot->is_in_submit = false;
	slot->is_fused = false;
	slot->is_fused_ready = false;
	slot->heals_bad = false;
	slot->sgl = (struct sgl){0};
	slot->data_bytes = 0;
	slot->extra_bytes = 0;
	slot->early_status = NVME_SC_SUCCESS;
	slot->execute = NULL;
	slot->buf = (struct buf){0};
	slot->data = (struct buf){0};
	slot->snapshot = NULL;
	slot->ns = NULL;
	slot->status = NVME_SC_SUCCESS;
	slot->result = 0;
	slot->error_byte = 0xffff;
	slot->aborter = NULL;
	list_push_back(&queue->busy, &slot->node);
	queue->busy_count++;
	return slot;
}

static void slot_set_buf(struct slot *slot, struct buf buf)
{
	slot->buf = buf;
	slot->data = buf;
}

/* A buffer for the capsule that waited has become free. */
static void slot_on_capsule_room(struct buf_waiter *waiter, struct buf buf)
{
	struct slot *slot = container_of(waiter, struct slot, waiter);

	CHECK(slot->state == SLOT_WAITING_BUFFER);
	CHECK(slot->queue->starved == slot);
	slot->queue->starved = NULL;
	slot->wait = SLOT_WAIT_NONE;
	slot_set_state(slot, SLOT_RECEIVING);
	slot_set_buf(slot, buf);
	slot->queue->transport->resume(slot->queue);
}

/* The queue's reserve for one capsule. Empty when the reserve is in use or cannot be allocated. */
static struct buf reserve_take(struct queue *queue, size_t len_bytes)
{
	if (queue->is_reserve_used)
		return (struct buf){0};
	if (queue->reserve_bytes < len_bytes) {
		size_t bytes =
			(len_bytes + NVME_PAGE_BYTES - 1) / NVME_PAGE_BYTES * NVME_PAGE_BYTES;

		free(queue->reserve.addr);
		queue->reserve = (struct buf){.addr = aligned_alloc(NVME_PAGE_BYTES, bytes),
					      .kind = BUF_OWN};
		queue->reserve_bytes = queue->reserve.addr ? bytes : 0;
		if (!queue->reserve.addr)
			return (struct buf){0};
	}
	queue->is_reserve_used = true;
	return queue->reserve;
}

static size_t slot_buf_bytes(const struct slot *slot)
{
	size_t bytes = (size_t)slot->data_bytes + slot->extra_bytes;

	return bytes > slot->capsule_bytes ? bytes : slot->capsule_bytes;
}

static void slot_wait_for_buffer(struct slot *slot, enum slot_wait wait,
				 void (*granted)(struct buf_waiter *waiter, struct buf buf))
{
	struct queue *queue = slot->queue;

	slot_set_state(slot, SLOT_WAITING_BUFFER);
	slot->wait = wait;
	slot->waiter.granted = granted;
	buf_pool_wait(queue->local->buffers, queue->buf_share, &slot->waiter, slot_buf_bytes(slot));
}

bool slot_prepare(struct slot *slot)
{
	struct queue *queue = slot->queue;
	struct local *local = queue->local;

	CHECK_OWNER(queue);
	CHECK(slot->state == SLOT_RECEIVING);
	slot->started_ns = reactor_now_ns(queue->reactor);
	slot->snapshot = local->snapshot;
	slot->rules = local->rules;
	local->snapshot->inflight[local->index].count++;
	atomic_store_explicit(&local->commands,
			      atomic_load_explicit(&local->commands, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (queue->size > 0)
		queue->sq_head = queue->sq_head + 1 == queue->size ? 0 : queue->sq_head + 1;
	if (queue->ctrl && !ctrl_note_traffic(queue->ctrl, slot->started_ns))
		slot->early_status = NVME_SC_ABORT_SQ_DELETION;
	else if ((slot->sqe.flags & NVME_SQE_FUSE_MASK) | queue->is_fused_open)
		slot->early_status = fused_prepare(slot);
	else
		slot->early_status = command_prepare_alone(slot);
	if (!nvme_status_is_ok(slot->early_status)) {
		slot->direction = DATA_NONE;
		slot->data = (struct buf){0};
		return true;
	}
	if (slot->capsule_bytes == 0 || slot_is_mapped(slot) || slot->direction != DATA_TO_CTRL)
		return true;
	struct buf buf = buf_pool_get(local->buffers, queue->buf_share, slot_buf_bytes(slot));

	if (!buf.addr)
		buf = reserve_take(queue, slot_buf_bytes(slot));
	if (buf.addr) {
		slot_set_buf(slot, buf);
		return true;
	}
	if (slot->is_fused && slot->fused_with) {
		/* The second command of a fused pair never waits, because its first command keeps a
		 * buffer: see fused.h. Its data is discarded. */
		slot->early_status = NVME_SC_COMMAND_INTERRUPTED;
		slot->direction = DATA_NONE;
		return true;
	}
	queue->starved = slot;
	slot_wait_for_buffer(slot, SLOT_WAIT_CAPSULE_ROOM, slot_on_capsule_room);
	return false;
}

uint8_t *slot_capsule_dest(struct slot *slot, uint32_t *ret_granule_bytes)
{
	*ret_granule_bytes = slot_is_mapped(slot) ? 1u << slot->ns->block_shift : 1;
	return slot->direction == DATA_TO_CTRL ? slot->data.addr : NULL;
}

/* The buffer is allocated: requests the data that the host still has, or executes the command. */
static void slot_go(struct slot *slot)
{
	if (slot->direction == DATA_TO_CTRL && slot->sgl.kind == SGL_TRANSPORT) {
		slot_set_state(slot, SLOT_FETCHING);
		slot->queue->transport->fetch(slot);
		return;
	}
	slot_set_state(slot, SLOT_EXECUTING);
	slot->execute(slot);
}

/* Ends a command that has not begun. */
static void slot_end_early(struct slot *slot, nvme_status status)
{
	slot_set_state(slot, SLOT_EXECUTING);
	slot_complete(slot, status);
}

/* Ends the command when it was cancelled or its queue closes; returns true then. Nothing may begin
 * on a closing queue: an event request would never be answered, and a Connect would bring the queue
 * back to life. */
static bool slot_end_unwanted(struct slot *slot)
{
	bool is_closing = slot->queue->state == QUEUE_CLOSING;

	if (!slot->is_abort_requested && !is_closing)
		return false;
	slot_end_early(slot, slot->is_abort_requested ? NVME_SC_ABORT_REQUESTED
						      : NVME_SC_ABORT_SQ_DELETION);
	return true;
}

/*
 * Ends the command when the configuration, the reservation or the bad-block marks have changed
 * while the command waited for its host or for a buffer, and no longer allow it. Returns true then.
 */
static bool slot_end_outdated(struct slot *slot)
{
	nvme_status status;

	if (slot->rules == slot->queue->local->rules && !slot->must_judge_again &&
	    nvme_status_is_ok(slot->early_status))
		return false;
	status = slot_judge_again(slot);
	if (nvme_status_is_ok(status))
		return false;
	slot_end_early(slot, status);
	return true;
}

static void slot_on_buffer(struct buf_waiter *waiter, struct buf buf)
{
	struct slot *slot = container_of(waiter, struct slot, waiter);

	CHECK(slot->state == SLOT_WAITING_BUFFER);
	slot->wait = SLOT_WAIT_NONE;
	slot_set_buf(slot, buf);
	if (!slot_end_unwanted(slot) && !slot_end_outdated(slot))
		slot_go(slot);
}

void slot_cancel_buffer(struct slot *slot)
{
	buf_pool_wait_cancel(&slot->waiter);
	slot_end_early(slot, NVME_SC_ABORT_REQUESTED);
}

void slot_start(struct slot *slot, bool is_data_ok)
{
	struct local *local = slot->queue->local;

	CHECK_OWNER(slot->queue);
	CHECK(slot->state == SLOT_RECEIVING);
	if (!nvme_status_is_ok(slot->early_status)) {
		slot_end_early(slot, slot->early_status);
		return;
	}
	if (!is_data_ok) {
		slot_end_early(slot, NVME_SC_TRANSIENT_TRANSPORT);
		return;
	}
	if (slot_end_unwanted(slot) || slot_end_outdated(slot))
		return;
	if (slot->buf.addr && slot->sgl.offset_bytes > 0)
		memmove(slot->buf.addr, slot->buf.addr + slot->sgl.offset_bytes, slot->data_bytes);
	/* A buffer is needed for data to move, and for extra_bytes (Verify). */
	if (!slot->data.addr &&
	    ((slot->direction != DATA_NONE && slot->data_bytes > 0) || slot->extra_bytes > 0)) {
		struct buf_share *share = slot->queue->buf_share;
		struct buf buf = buf_pool_get(local->buffers, share, slot_buf_bytes(slot));

		if (!buf.addr && slot->is_fused && slot->fused_with) {
			slot_end_early(slot, NVME_SC_COMMAND_INTERRUPTED);
			return;
		}
		if (!buf.addr) {
			slot_wait_for_buffer(slot, SLOT_WAIT_BUFFER, slot_on_buffer);
			return;
		}
		slot_set_buf(slot, buf);
	}
	slot_go(slot);
}

void slot_data_arrived(struct slot *slot, bool is_data_ok)
{
	CHECK_OWNER(slot->queue);
	CHECK(slot->state == SLOT_FETCHING);
	if (!is_data_ok) {
		slot_end_early(slot, NVME_SC_TRANSIENT_TRANSPORT);
	} else if (!slot_end_unwanted(slot) && !slot_end_outdated(slot)) {
		slot_set_state(slot, SLOT_EXECUTING);
		slot->execute(slot);
	}
}

static void abort_answered(struct reactor_msg *msg)
{
	struct slot *aborter = container_of(msg, struct slot, msg);

	aborter->result = aborter->aborted ? 0 : 1;
	aborter->queue->ctrl->aborts_running--;
	slot_complete(aborter, NVME_SC_SUCCESS);
}

/* Reports the end of this command to the Abort or Cancel that waits for it. */
static void slot_answer_aborter(struct slot *aborter, bool is_aborted)
{
	/* A Cancel is on the queue of the commands that it cancels. */
	if (aborter->queue->qid != 0) {
		cancel_on_victim_end(aborter, is_aborted);
		return;
	}
	aborter->aborted = is_aborted;
	reactor_post(aborter->queue->reactor, &aborter->msg, abort_answered);
}

void slot_let_aborter_go(struct slot *slot)
{
	if (slot->aborter)
		slot_answer_aborter(slot->aborter, false);
	slot->aborter = NULL;
}

static inline void slot_respond(struct slot *slot)
{
	struct queue *queue = slot->queue;
	struct slot *aborter = slot->aborter;
	bool is_aborted = aborter && (nvme_status_same(slot->status, NVME_SC_ABORT_REQUESTED) ||
				      nvme_status_same(slot->status, NVME_SC_ABORT_PREEMPT));
	/* When the connection is closed, the slot, and maybe the queue, are freed inside
	 * respond. */
	bool is_connected = !queue->is_conn_closed;
	bool is_awaited = slot->is_awaited;
	struct local *local = queue->local;

	slot->aborter = NULL;
	slot_set_state(slot, SLOT_RESPONDING);
	queue->transport->respond(slot);
	/* The Abort completes after the command that it aborted. */
	if (aborter)
		slot_answer_aborter(aborter, is_aborted);
	if (is_awaited)
		barrier_on_slot_end(local);
	if (is_connected)
		queue_on_responding(queue);
}

static void slot_log_error(struct slot *slot)
{
	ctrl_error_log_add(slot->queue->ctrl, slot);
}

/* Of a status that is not success. A command that ended because a host asked for its end is not an
 * error. */
static bool status_is_logged(nvme_status status)
{
	return !nvme_status_same(status, NVME_SC_ABORT_REQUESTED) &&
	       !nvme_status_same(status, NVME_SC_ABORT_SQ_DELETION) &&
	       !nvme_status_same(status, NVME_SC_ABORT_PREEMPT);
}

/* The status of a cancelled command, by the reason for which it was cancelled. */
static nvme_status slot_status_cancelled(const struct slot *slot)
{
	if (slot->is_preempted)
		return NVME_SC_ABORT_PREEMPT;
	if (slot->aborter)
		return NVME_SC_ABORT_REQUESTED;
	/* No Abort named the command. Either its queue ends without waiting for the command, or its
	 * host was silent for too long when the command was to begin, and the controller ends. Or
	 * the command waited for longer than its host could be silent, and has not begun. */
	if (slot->queue->state == QUEUE_CLOSING)
		return NVME_SC_ABORT_SQ_DELETION;
	if (!slot->is_abort_requested)
		return ctrl_is_in_time(slot->queue->ctrl, reactor_now_ns(slot->queue->reactor))
			       ? NVME_SC_COMMAND_INTERRUPTED
			       : NVME_SC_ABORT_SQ_DELETION;
	return slot->is_displaced ? slot_displaced_status(slot) : NVME_SC_ABORT_REQUESTED;
}

/* Hosts conclude from these statuses that nothing of the command was done, and may send a Copy
 * again, to another controller too. */
static bool status_promises_no_change(nvme_status status)
{
	return nvme_status_is_path(status) || nvme_status_same(status, NVME_SC_INVALID_NS) ||
	       nvme_status_same(status, NVME_SC_INVALID_FIELD) ||
	       nvme_status_same(status, NVME_SC_NS_NOT_READY) ||
	       nvme_status_same(status, NVME_SC_FORMAT_IN_PROGRESS);
}

/* The status to answer with, of a command that failed with `status`. */
static __attribute__((noinline)) nvme_status slot_status_failed(const struct slot *slot,
								nvme_status status)
{
	if (nvme_status_same(status, NVME_SC_ABORT_REQUESTED))
		status = slot_status_cancelled(slot);
	if (slot->has_changed && status_promises_no_change(status))
		return NVME_SC_COMMAND_INTERRUPTED;
	return status;
}

void slot_complete(struct slot *slot, nvme_status status)
{
	struct ctrl *ctrl = slot->queue->ctrl;

	CHECK_OWNER(slot->queue);
	CHECK(slot->state == SLOT_EXECUTING);
	if (!nvme_status_is_ok(status))
		status = slot_status_failed(slot, status);
	slot->status = status;
	slot->wait = SLOT_WAIT_NONE;
	if (slot->ns)
		health_note_end(slot->queue, slot->started_ns);
	if (slot->is_fused)
		fused_on_end(slot);
	if (ctrl && !nvme_status_is_ok(status) && status_is_logged(status)) {
		if (ctrl->reactor != slot->queue->reactor) {
			slot_visit(slot, ctrl->reactor, slot_log_error, slot_respond);
			return;
		}
		ctrl_error_log_add(ctrl, slot);
	}
	slot_respond(slot);
}

static void buf_give_back(struct queue *queue, struct buf buf)
{
	struct slot *starved = queue->starved;

	if (buf.kind == BUF_POOL) {
		buf_pool_put(queue->local->buffers, queue->buf_share, buf);
		return;
	}
	queue->is_reserve_used = false;
	if (!starved)
		return;
	buf = reserve_take(queue, slot_buf_bytes(starved));
	if (buf.addr) {
		buf_pool_wait_cancel(&starved->waiter);
		slot_on_capsule_room(&starved->waiter, buf);
	}
}

void slot_release(struct slot *slot)
{
	struct queue *queue = slot->queue;
	struct local *local = queue->local;
	struct snapshot *snapshot = slot->snapshot;

	CHECK_OWNER(queue);
	CHECK(slot->state != SLOT_FREE && slot->state != SLOT_EXECUTING);
	if (slot->state == SLOT_WAITING_BUFFER) {
		buf_pool_wait_cancel(&slot->waiter);
		slot->wait = SLOT_WAIT_NONE;
	}
	if (slot->is_fused)
		fused_on_end(slot);
	if (queue->starved == slot)
		queue->starved = NULL;
	/* The connection closed while the host owed data: there is no response. */
	if (slot->aborter)
		slot_let_aborter_go(slot);
	slot_set_state(slot, SLOT_FREE);
	list_remove(&slot->node);
	list_push_front(&queue->free, &slot->node);
	CHECK(queue->busy_count > 0);
	queue->busy_count--;
	if (slot->buf.addr)
		buf_give_back(queue, slot->buf);
	if (snapshot) {
		CHECK(snapshot->inflight[local->index].count > 0);
		if (--snapshot->inflight[local->index].count == 0 && snapshot != local->snapshot)
			local_snapshot_idle(snapshot);
	}
	if (slot->is_awaited)
		barrier_on_slot_end(local);
	queue_on_slot_free(queue);
}

nvme_status status_from_errno(int error, enum media_kind kind)
{
	switch (-error) {
	case 0:
		return NVME_SC_SUCCESS;
	case ECANCELED:
		return NVME_SC_ABORT_REQUESTED;
	case EBADE:
		return nvme_status_dnr(NVME_SC_RESERVATION_CONFLICT);
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return nvme_status_dnr(NVME_SC_CAPACITY_EXCEEDED);
	case EROFS:
	case EPERM:
	case EACCES:
		return nvme_status_dnr(NVME_SC_NS_WRITE_PROTECTED);
	case ENOMEM:
	case EAGAIN:
	case ENOBUFS:
		return NVME_SC_INTERNAL;
	default:
		return kind == MEDIA_READ ? NVME_SC_UNRECOVERED_READ : NVME_SC_WRITE_FAULT;
	}
}
