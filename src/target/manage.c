/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries a host's management command to the control reactor and back, cancels it, and judges it
 * before it begins. See manage.h.
 *
 * manage_submit runs on the requester's reactor. manage_done runs on the control reactor, possibly
 * from inside target->manage. The answer travels as a message, so `done` is never called from
 * inside manage_submit. A cancellation is a second message to the control reactor and back. The
 * request is freed only when both messages are back. Only a few requests of one host are with
 * target->manage at a time. The rest wait in a rota.
 */
#include "target/manage.h"

#include "base/clock.h"
#include "ns/event_log.h"
#include "ns/reservation.h"
#include "target/barrier.h"
#include "target/event_note.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the requester's side ------------------------------------------------------------------ */

static void request_end(struct manage_request *request)
{
	struct ctrl *ctrl = request->slot->queue->ctrl;

	request->done(request);
	/* A reset of the controller may have waited for this request. */
	ctrl_property_on_detach(ctrl);
}

static void manage_answered(struct reactor_msg *msg)
{
	struct manage_request *request = container_of(msg, struct manage_request, msg);

	request->is_answered = true;
	if (!request->is_cancel_out)
		request_end(request);
}

static void cancel_came_back(struct reactor_msg *msg)
{
	struct manage_request *request = container_of(msg, struct manage_request, cancel_msg);

	request->is_cancel_out = false;
	if (request->is_answered)
		request_end(request);
}

/* ---- the control reactor's side ------------------------------------------------------------ */

static void request_start(struct manage_request *request)
{
	struct target *target = request->target;

	if (target->manage) {
		event_log_note_begin(target, request);
		target->manage(target->manage_arg, request);
		return;
	}
	request->status = nvme_status_dnr(NVME_SC_INVALID_OPCODE);
	manage_done(request);
}

static void requests_start(struct target *target)
{
	struct rota_entry *entry;

	/* A request that ends inside request_start re-enters this function. */
	if (target->is_manage_starting)
		return;
	target->is_manage_starting = true;
	while ((entry = rota_take(&target->manage_rota)))
		request_start(list_entry(entry, struct manage_request, turn));
	target->is_manage_starting = false;
}

static void manage_here(struct reactor_msg *msg)
{
	struct manage_request *request = container_of(msg, struct manage_request, msg);
	struct target *target = request->target;
	int res;

	request->serial = target->manage_serial++;
	list_push_back(&target->manage_requests, &request->node);
	res = rota_add(&target->manage_rota, request->host_nqn, &request->turn);
	if (res != 0) {
		request->status = res == -EBUSY ? NVME_SC_COMMAND_INTERRUPTED : NVME_SC_INTERNAL;
		manage_done(request);
		return;
	}
	requests_start(target);
}

/* Does nothing when the request was answered or cancelled before. */
static void request_cancel(struct manage_request *request, nvme_status status)
{
	if (!list_linked(&request->node) || !nvme_status_is_ok(request->cancel_status))
		return;
	request->cancel_status = status;
	if (rota_is_waiting(&request->turn)) {
		request->status = status;
		manage_done(request);
	} else if (request->cancel) {
		request->cancel(request);
	}
}

/* The same reactor posts cancel_here after manage_here, so the request has arrived. */
static void cancel_here(struct reactor_msg *msg)
{
	struct manage_request *request = container_of(msg, struct manage_request, cancel_msg);

	request_cancel(request, NVME_SC_ABORT_REQUESTED);
	reactor_post(request->reactor, &request->cancel_msg, cancel_came_back);
}

static bool stop_touches(const struct manage_stop *stop, const struct manage_request *request)
{
	return request->serial < stop->before && stop->touches(request, stop->touches_arg);
}

static bool stop_is_over(const struct manage_stop *stop)
{
	list_for_each(node, &stop->target->manage_requests) {
		if (stop_touches(stop, list_entry(node, struct manage_request, node)))
			return false;
	}
	return true;
}

static void stop_end(struct manage_stop *stop, int res)
{
	reactor_timer_cancel(&stop->timer);
	list_remove(&stop->node);
	stop->done(stop->arg, res);
}

static void stop_on_timer(struct reactor_timer *timer)
{
	stop_end(container_of(timer, struct manage_stop, timer), -ETIMEDOUT);
}

static struct manage_stop *stop_over_find(const struct target *target)
{
	list_for_each(node, &target->manage_stops) {
		struct manage_stop *stop = list_entry(node, struct manage_stop, node);

		if (stop_is_over(stop))
			return stop;
	}
	return NULL;
}

static void stops_look(struct target *target)
{
	struct manage_stop *stop;

	/* Search from the start each time: `done` may answer other requests, and that ends other
	 * stops. */
	while ((stop = stop_over_find(target)))
		stop_end(stop, 0);
}

void manage_done(struct manage_request *request)
{
	struct target *target = request->target;

	CHECK(reactor_current() == target->control);
	event_log_note_end(target, request);
	list_remove(&request->node);
	rota_leave(&target->manage_rota, &request->turn);
	reactor_post(request->reactor, &request->msg, manage_answered);
	stops_look(target);
	requests_start(target);
}

void manage_init(struct target *target)
{
	static const struct rota_limits limits = {
		.running_per_host = MANAGE_RUNNING_PER_HOST,
		.waiting_per_host = MANAGE_WAITING_PER_HOST,
		.waiting_min = MANAGE_WAITING_MIN,
		.waiting_total = MANAGE_WAITING_TOTAL,
	};

	list_init(&target->manage_requests);
	list_init(&target->manage_stops);
	rota_init(&target->manage_rota, &limits);
}

void manage_each(struct target *target, void (*look)(struct manage_request *request, void *arg),
		 void *arg)
{
	list_for_each(node, &target->manage_requests)
		look(list_entry(node, struct manage_request, node), arg);
}

static struct manage_request *stop_find(const struct manage_stop *stop)
{
	list_for_each(node, &stop->target->manage_requests) {
		struct manage_request *request = list_entry(node, struct manage_request, node);

		if (nvme_status_is_ok(request->cancel_status) && stop_touches(stop, request))
			return request;
	}
	return NULL;
}

void manage_stop_start(struct manage_stop *stop)
{
	struct target *target = stop->target;
	struct manage_request *request;

	stop->before = target->manage_serial;
	list_init(&stop->node);
	reactor_timer_init(target->control, &stop->timer, stop_on_timer);
	/* Search from the start each time: a request that ends leaves the list. */
	while ((request = stop_find(stop)))
		request_cancel(request, stop->status);
	if (stop_is_over(stop)) {
		stop_end(stop, 0);
		return;
	}
	list_push_back(&target->manage_stops, &stop->node);
	reactor_timer_arm(&stop->timer, reactor_now_ns(target->control) + BARRIER_END_S * NS_PER_S);
}

/* ---- the judgement before it begins -------------------------------------------------------- */

static const struct {
	bool is_reserved; /* subject to reservations */
	bool is_of_seen; /* the host must see the namespace; else the edit of the document checks */
	bool needs_path; /* the controller's port must reach the namespace */
} kinds[] = {
	[MANAGE_NS_CREATE] = {false, false, false}, [MANAGE_NS_DELETE] = {true, false, true},
	[MANAGE_NS_ATTACH] = {true, false, false},  [MANAGE_NS_DETACH] = {true, false, false},
	[MANAGE_FORMAT] = {true, true, true},       [MANAGE_WRITE_PROTECT] = {true, true, false},
	[MANAGE_NS_LABEL] = {false, true, false},
};

bool manage_is_judged(const struct manage_request *request, const struct uuid *uuid)
{
	if (request->nsid != NVME_NSID_ALL)
		return uuid_equal(&request->uuid, uuid);
	for (unsigned i = 0; i < request->uuid_count; i++) {
		if (uuid_equal(&request->uuids[i], uuid))
			return true;
	}
	return false;
}

bool manage_is_reserved_against(const struct manage_request *request, const struct uuid *uuid)
{
	return kinds[request->kind].is_reserved && manage_is_judged(request, uuid);
}

static nvme_status judge_ns(const struct manage_request *request, const struct port *port,
			    const struct ns *ns)
{
	const struct ns_live *live = ns_backing_live(ns->backing);

	if (kinds[request->kind].needs_path) {
		nvme_status status = port_ana_status(port, ns->ana_group);

		if (!nvme_status_is_ok(status))
			return status;
	}
	if (!kinds[request->kind].is_reserved)
		return NVME_SC_SUCCESS;
	return reservation_judge(ns_live_reservation(live), &request->host_id,
				 RESERVATION_GROUP_WRITE);
}

/* Leaves out namespaces that were added since the command was judged, and namespaces that the host
 * no longer sees. The edit of the document uses the same rule. */
static nvme_status judge_all(const struct manage_request *request,
			     const struct subsystem *subsystem, const struct port *port,
			     uint32_t host_index)
{
	nvme_status status = NVME_SC_SUCCESS;

	for (unsigned i = 0; i < subsystem->ns_count && nvme_status_is_ok(status); i++) {
		const struct ns *ns = &subsystem->namespaces[i];

		if (manage_is_judged(request, &ns->uuid) &&
		    (!kinds[request->kind].is_of_seen || ns_mask_has(ns->mask, host_index)))
			status = judge_ns(request, port, ns);
	}
	return status;
}

static nvme_status judge_one(const struct manage_request *request,
			     const struct subsystem *subsystem, const struct port *port,
			     uint32_t host_index)
{
	const struct ns *ns = subsystem_find_ns(subsystem, request->nsid);

	if (!ns || !uuid_equal(&ns->uuid, &request->uuid) ||
	    (kinds[request->kind].is_of_seen && !ns_mask_has(ns->mask, host_index)))
		return nvme_status_dnr(NVME_SC_INVALID_NS);
	return judge_ns(request, port, ns);
}

nvme_status manage_judge_config(const struct manage_request *request)
{
	const struct snapshot *snapshot = target_snapshot(request->target);
	const struct subsystem *subsystem =
		snapshot_find_subsystem(snapshot, request->subsystem_nqn);
	const struct port *port = snapshot_find_port(snapshot, request->port_id);
	uint32_t host_index = snapshot_host_index(snapshot, request->host_nqn);

	CHECK(reactor_current() == request->target->control);
	/* The controller is about to end, and the cancellation is on its way. */
	if (!subsystem || !port || !port_offers(port, subsystem) ||
	    !subsystem_allows_host(subsystem, request->host_nqn))
		return NVME_SC_ABORT_SQ_DELETION;
	if (request->kind == MANAGE_NS_CREATE)
		return NVME_SC_SUCCESS;
	if (request->nsid == NVME_NSID_ALL)
		return judge_all(request, subsystem, port, host_index);
	return judge_one(request, subsystem, port, host_index);
}

nvme_status manage_judge(const struct manage_request *request)
{
	if (!nvme_status_is_ok(request->cancel_status))
		return request->cancel_status;
	/* The controller stays until this request has been answered. */
	if (!ctrl_is_in_time(request->slot->queue->ctrl,
			     reactor_clock_ns(request->target->control)))
		return NVME_SC_ABORT_SQ_DELETION;
	return manage_judge_config(request);
}

/* ---- the slot ------------------------------------------------------------------------------ */

/* slot_cancel has set is_abort_requested. Therefore a request that was not submitted yet will be
 * refused by manage_submit. */
void manage_cancel(struct slot *slot)
{
	struct manage_request *request = slot->other;

	if (!request->is_submitted || request->is_answered || request->is_cancel_out)
		return;
	request->is_cancel_out = true;
	reactor_post(request->target->control, &request->cancel_msg, cancel_here);
}

void manage_request_init(struct manage_request *request, struct slot *slot, enum manage_kind kind)
{
	const struct ctrl *ctrl = slot->queue->ctrl;

	request->kind = kind;
	memcpy(request->subsystem_nqn, ctrl->subsystem_nqn, NVME_NQN_BYTES);
	memcpy(request->host_nqn, ctrl->host_nqn, NVME_NQN_BYTES);
	request->host_id = ctrl->host_id;
	request->port_id = ctrl->port_id;
	request->nsid = le32_get(slot->sqe.nsid);
	request->target = ctrl->target;
	request->reactor = reactor_current();
	request->slot = slot;
	list_init(&request->node);
	request->turn.host = NULL;
	CHECK(request->reactor == ctrl->reactor);
	slot->other = request;
	slot->wait = SLOT_WAIT_MANAGE;
}

void manage_submit(struct manage_request *request)
{
	if (request->slot->is_abort_requested) {
		manage_refuse_here(request, NVME_SC_ABORT_REQUESTED);
		return;
	}
	request->is_submitted = true;
	request->status = NVME_SC_SUCCESS;
	request->result_nsid = 0;
	reactor_post(request->target->control, &request->msg, manage_here);
}

void manage_refuse_here(struct manage_request *request, nvme_status status)
{
	request->status = status;
	reactor_post(request->reactor, &request->msg, manage_answered);
}

void manage_cancel_queue(struct queue *queue)
{
	list_for_each(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		if (slot->wait == SLOT_WAIT_MANAGE && !slot->is_abort_requested)
			slot_cancel(slot);
	}
}

bool manage_is_busy(const struct queue *queue)
{
	list_for_each(node, &queue->busy) {
		if (list_entry(node, struct slot, node)->wait == SLOT_WAIT_MANAGE)
			return true;
	}
	return false;
}
