/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: their slots, their deadlines, and their end. See queue.h for the states.
 *
 * Runs on the queue's reactor. The end has three steps. First, running commands finish and their
 * responses are sent. Then the transport closes. Last, the controller is notified and answers, and
 * the memory is freed. Every end takes these steps, whether the peer, the controller or a time-out
 * started it.
 */
#include "base/clock.h"
#include "base/lazy_mem.h"
#include "base/log.h"
#include "target/delta.h"
#include "target/fused.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>

static void queue_on_deadline(struct reactor_timer *timer)
{
	struct queue *queue = container_of(timer, struct queue, deadline);
	char peer[NET_ADDR_TEXT_BYTES];

	log_limited(LOG_LEVEL_WARN, "target", "%s: no Connect command in time, closing",
		    net_addr_format(&queue->peer, peer));
	queue_close(queue, "no Connect command in time");
}

int queue_init(struct queue *queue, struct local *local, const struct transport_ops *transport,
	       uint16_t port_id)
{
	queue->slots = lazy_mem_get(transport->slot_bytes);
	if (!queue->slots)
		return -ENOMEM;
	queue->reactor = local->reactor;
	queue->local = local;
	queue->transport = transport;
	queue->state = QUEUE_NEW;
	queue->port_id = port_id;
	queue->slot_count = 1;
	queue->buf_share = &local->strangers;
	queue->turn_host = &local->turn_strangers;
	turn_queue_init(&queue->turn_queue);
	list_init(&queue->free);
	list_init(&queue->busy);
	list_init(&queue->node);
	list_init(&queue->swap_node);
	reactor_timer_init(local->reactor, &queue->deadline, queue_on_deadline);
	reactor_timer_arm(&queue->deadline,
			  reactor_now_ns(local->reactor) +
				  local->snapshot->limits.connect_timeout_ms * NS_PER_MS);
	list_push_back(&local->queues, &queue->node);
	atomic_fetch_add_explicit(&local->queue_count, 1, memory_order_relaxed);
	queue_rebind(queue, local->snapshot);
	return 0;
}

void queue_on_ready(struct queue *queue, bool moves_in_place)
{
	const struct transport_ops *transport = queue->transport;

	CHECK(!moves_in_place ||
	      (transport->cut_off && transport->take_back && transport->send_copy));
	queue->moves_in_place = moves_in_place;
	queue->in_place_guard = moves_in_place ? queue->local->target->guard : NULL;
}

struct slot *queue_slot(struct queue *queue, uint32_t index)
{
	CHECK(index < queue->slot_count);
	return (struct slot *)(void *)(queue->slots + index * queue->transport->slot_bytes);
}

static size_t slots_bytes(const struct queue *queue, uint32_t count)
{
	return (size_t)count * queue->transport->slot_bytes;
}

int queue_alloc_slots(struct queue *queue, uint32_t size)
{
	CHECK(!queue->connected_slots);
	queue->connected_slots = lazy_mem_get(slots_bytes(queue, size));
	if (!queue->connected_slots)
		return -ENOMEM;
	queue->size = size;
	queue->sq_head = 1 % size; /* the Connect itself was the first entry */
	return 0;
}

void queue_discard_slots(struct queue *queue)
{
	lazy_mem_put(queue->connected_slots, slots_bytes(queue, queue->size));
	queue->connected_slots = NULL;
	queue->size = 0;
	queue->qid = 0;
}

/* The Connect response was sent: the queue gets its full set of slots. No buffer is in use at this
 * moment, so the buffer share can change too. */
static void queue_go_live(struct queue *queue)
{
	CHECK_OWNER(queue);
	CHECK(queue->busy_count == 0);
	if (queue->share)
		queue->buf_share = &queue->share->buffers;
	lazy_mem_put(queue->slots, slots_bytes(queue, queue->slot_count));
	queue->slots = queue->connected_slots;
	queue->connected_slots = NULL;
	queue->slot_count = queue->size;
	queue->slots_fresh = 0;
	list_init(&queue->free);
}

void queue_rebind(struct queue *queue, const struct snapshot *snapshot)
{
	queue->port = snapshot_find_port(snapshot, queue->port_id);
	queue->subsystem = NULL;
	queue->host_index = NS_MASK_HOST_OTHER;
	if (queue->state == QUEUE_LIVE && queue->ctrl) {
		queue->subsystem = snapshot_find_subsystem(snapshot, queue->ctrl->subsystem_nqn);
		queue->host_index = snapshot_host_index(snapshot, queue->ctrl->host_nqn);
	}
	if (queue->transport->rebound)
		queue->transport->rebound(queue);
}

static bool queue_is_placed(const struct queue *queue)
{
	return queue->port && queue->subsystem && port_offers(queue->port, queue->subsystem);
}

bool queue_has_place(const struct queue *queue)
{
	if (queue->state != QUEUE_LIVE || queue->qid == 0)
		return true;
	return queue_is_placed(queue) &&
	       subsystem_allows_host(queue->subsystem, queue->ctrl->host_nqn);
}

bool queue_swap(struct queue *queue, const struct delta *delta)
{
	bool have_hosts_changed;

	/* Connect has not come yet, or an earlier change removed the port or subsystem. A removed
	 * one may be back, but the queue is about to end anyway. */
	if (!queue->port || !queue->subsystem) {
		queue_rebind(queue, delta->now);
		return queue_has_place(queue);
	}
	have_hosts_changed = delta->subsystems[queue->subsystem->index].has_hosts;
	queue->port = delta->ports[queue->port - delta->old->ports].is;
	queue->subsystem = delta->subsystems[queue->subsystem->index].is;
	if (queue->transport->rebound)
		queue->transport->rebound(queue);
	fused_on_swap(queue);
	/* The controller of a queue that is ending may have been freed. */
	if (queue->state != QUEUE_LIVE)
		return true;
	queue->host_index = delta_host_index(delta, queue->host_index, queue->ctrl->host_nqn);
	if (have_hosts_changed)
		return queue_has_place(queue);
	return queue->qid == 0 || queue_is_placed(queue);
}

/* True while a command executes. Commands that wait for the host do not count, because they can no
 * longer reach the medium. Responses being sent do not count either: the transport sends them
 * before it closes, and a host that does not read them must not delay the end. */
static bool queue_is_running(const struct queue *queue)
{
	list_for_each(node, &queue->busy) {
		if (list_entry(node, struct slot, node)->state == SLOT_EXECUTING)
			return true;
	}
	return false;
}

static void queue_free(struct queue *queue)
{
	struct local *local = queue->local;

	list_remove(&queue->node);
	list_remove(&queue->swap_node);
	atomic_fetch_sub_explicit(&local->queue_count, 1, memory_order_relaxed);
	if (queue->is_admin)
		atomic_fetch_sub_explicit(&local->admin_count, 1, memory_order_relaxed);
	lazy_mem_put(queue->slots, slots_bytes(queue, queue->slot_count));
	lazy_mem_put(queue->connected_slots, slots_bytes(queue, queue->size));
	free(queue->reserve.addr);
	local_share_put(local, queue->share);
	queue->share = NULL;
	queue->slots = NULL;
	queue->connected_slots = NULL;
	/* The registry counts connections, and frees the queue. */
	reactor_post(target_registry(local->target)->reactor, &queue->port_msg, port_on_queue_end);
	local_on_empty(local);
}

static void queue_on_detached(struct reactor_msg *msg)
{
	queue_free(container_of(msg, struct queue, detach_msg));
}

static void queue_detach_at_ctrl(struct reactor_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, detach_msg);

	ctrl_detach(msg);
	reactor_post(queue->reactor, &queue->detach_msg, queue_on_detached);
}

static void queue_drop_unanswerable(struct queue *queue)
{
	list_for_each_safe(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		if (slot->state != SLOT_EXECUTING && slot->state != SLOT_RESPONDING) {
			slot_release(slot);
			/* slot_release may have changed the list. */
			node_next = queue->busy.next;
		}
	}
}

void queue_cancel_all(struct queue *queue)
{
	list_for_each_safe(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);
		uint32_t busy_count = queue->busy_count;

		if (!slot->is_abort_requested)
			slot_cancel(slot);
		/* The slot may have been released, and its fused partner too. */
		if (queue->busy_count != busy_count)
			node_next = queue->busy.next;
	}
}

static void queue_go_on_closing(struct queue *queue)
{
	if (queue->state != QUEUE_CLOSING || queue->holds_end)
		return;
	/* A command that has not begun never begins now: see slot_end_unwanted and
	 * transport->stop. */
	if (!queue->is_quiet && !queue_is_running(queue)) {
		queue->is_quiet = true;
		if (queue->ctrl)
			reactor_post(queue->ctrl->reactor, &queue->quiet_msg, ctrl_on_queue_quiet);
	}
	if (!queue->is_conn_closed) {
		if (!queue->is_close_asked && queue->is_quiet) {
			queue->is_close_asked = true;
			queue->transport->close(queue, queue->close_why);
		}
		return;
	}
	if (queue->busy_count > 0)
		return;
	queue->state = QUEUE_DETACHING;
	if (queue->ctrl)
		reactor_post(queue->ctrl->reactor, &queue->detach_msg, queue_detach_at_ctrl);
	else
		queue_free(queue);
}

/* Ends the waits that must not delay the end of the queue. A management command, for example, must
 * not be carried out for a host that is gone. */
static void queue_end_waits(struct queue *queue)
{
	list_for_each_safe(node, &queue->busy) {
		uint32_t busy_count = queue->busy_count;

		slot_on_closing(list_entry(node, struct slot, node));
		/* Commands may have ended, and changed the list. */
		if (queue->busy_count != busy_count)
			node_next = queue->busy.next;
	}
}

static void queue_begin_closing(struct queue *queue, const char *why)
{
	if (queue->state == QUEUE_CLOSING || queue->state == QUEUE_DETACHING)
		return;
	queue->state = QUEUE_CLOSING;
	atomic_store_explicit(&queue->is_ending, true, memory_order_relaxed);
	queue->close_why = why;
	reactor_timer_cancel(&queue->deadline);
	if (!queue->is_conn_closed)
		queue->transport->stop(queue);
	queue->is_fused_open = false;
	queue_end_waits(queue);
	/* The end of the admin queue ends the controller, which completes held event requests. */
	if (queue->ctrl && queue->qid == 0)
		ctrl_end(queue->ctrl, why);
}

void queue_close(struct queue *queue, const char *why)
{
	/* queue_begin_closing ends the controller, which closes the admin queue again. */
	bool is_held = queue->holds_end;

	CHECK_OWNER(queue);
	queue->holds_end = true;
	queue_begin_closing(queue, why);
	queue->holds_end = is_held;
	queue_go_on_closing(queue);
}

/* True when the admin queue's connection ended while the host still used the controller. */
static bool queue_loses_host(const struct queue *queue)
{
	const struct ctrl *ctrl = queue->ctrl;

	return ctrl && queue->qid == 0 && ctrl->state == CTRL_LIVE && ctrl_is_ready(ctrl) &&
	       (ctrl->csts & (CSTS_SHST_OCCURRING | CSTS_SHST_COMPLETE)) == 0;
}

void queue_on_closed(struct queue *queue)
{
	CHECK_OWNER(queue);
	CHECK(!queue->is_conn_closed);
	queue->is_conn_closed = true;
	queue->holds_end = true;
	if (queue_loses_host(queue))
		ctrl_tell_lost(queue->ctrl, LOST_HOST_CONNECTION);
	queue_begin_closing(queue, "the host closed the connection");
	queue_drop_unanswerable(queue);
	/* No response can be sent any more, so cancel commands instead of letting them run to their
	 * end. */
	queue_cancel_all(queue);
	if (queue->ctrl && queue->qid == 0 && !queue->is_close_asked)
		ctrl_cancel_io_queues(queue->ctrl);
	queue->holds_end = false;
	queue_go_on_closing(queue);
}

void queue_go_on(struct queue *queue)
{
	if (queue->state == QUEUE_CLOSING) {
		queue_go_on_closing(queue);
		return;
	}
	if (queue->state == QUEUE_LIVE && queue->connected_slots)
		queue_go_live(queue);
	/* Also before Connect: a PDU behind a refused command waits for its slot. */
	queue->transport->resume(queue);
}
