/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers: creation by Connect, the table of their identifiers, I/O queues that attach and
 * detach, and the end. ctrl.h describes which reactor owns what.
 *
 * Functions named registry_* run on the first reactor. The others run on the controller's reactor
 * unless their comment names another one. NVMe Base 2.1, section 3.1 (controller architecture),
 * 6.3.
 */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "ns/reservation.h"
#include "target/command.h"
#include "target/host_share.h"
#include "target/local.h"
#include "target/reservation_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REGISTRY_SPARE_MAX 64

/* ---- creation ------------------------------------------------------------------------------- */

static void ctrl_free(struct ctrl *ctrl)
{
	ctrl_error_log_free(ctrl);
	ctrl_known_free(ctrl);
	ctrl_event_page_release(ctrl);
	ctrl_notices_reset(ctrl);
	ctrl_timestamp_note_release(ctrl);
	free(ctrl->connect_args);
	free(ctrl->io_queues);
	free(ctrl);
}

static struct ctrl *ctrl_alloc(struct queue *queue, const struct connect_args *args)
{
	struct local *local = queue->local;
	struct ctrl *ctrl = calloc(1, sizeof(*ctrl));

	if (!ctrl)
		return NULL;
	ctrl->reactor = local->reactor;
	ctrl->local = local;
	ctrl->target = local->target;
	ctrl->type = strcmp(args->subsystem_nqn, NVME_DISCOVERY_NQN) == 0 ? CTRL_TYPE_DISCOVERY
									  : CTRL_TYPE_IO;
	ctrl->port_id = queue->port_id;
	memcpy(ctrl->subsystem_nqn, args->subsystem_nqn, sizeof(ctrl->subsystem_nqn));
	memcpy(ctrl->host_nqn, args->host_nqn, sizeof(ctrl->host_nqn));
	ctrl->host_id = args->host_id;
	ctrl->local_addr = queue->local_addr;
	ctrl->peer_addr = queue->peer;
	ctrl->kato_ms = args->kato_ms;
	ctrl->connected_ns = reactor_now_ns(local->reactor);
	ctrl->io_queues_max =
		ctrl->type == CTRL_TYPE_IO ? local->snapshot->limits.io_queues_max : 0;
	ctrl->io_queues_granted = ctrl->io_queues_max;
	list_init(&ctrl->node);
	list_init(&ctrl->swap_node);
	list_init(&ctrl->flushes);
	list_init(&ctrl->reset_requests);
	list_init(&ctrl->reset_log);
	atomic_init(&ctrl->silence.last_ns, ctrl->connected_ns);
	ctrl->io_queues = calloc(ctrl->io_queues_max + 1, sizeof(*ctrl->io_queues));
	ctrl->connect_args = malloc(sizeof(*args));
	if (!ctrl->io_queues || !ctrl->connect_args || ctrl_error_log_init(ctrl) != 0) {
		ctrl_free(ctrl);
		return NULL;
	}
	*ctrl->connect_args = *args;
	ctrl_events_init(ctrl);
	return ctrl;
}

/* The upper half follows from the lower half and the target's key: a target recognizes its
 * CIRNs. */
static uint64_t cirn_make(const struct target *target, uint32_t low)
{
	const uint64_t parts[2] = {target->cirn_key, low};

	return (uint64_t)crc32c(parts, sizeof(parts)) << 32 | low;
}

bool target_is_own_cirn(const struct target *target, uint64_t random_number)
{
	return cirn_make(target, (uint32_t)random_number) == random_number;
}

/* Gives the instance a name that no other instance with its CNTLID had, here or before a
 * restart. */
static void registry_name(struct target *target, struct ctrl *ctrl, uint16_t cntlid)
{
	uint8_t *uniquifier = &target->uniquifiers[cntlid];

	*uniquifier = *uniquifier == UINT8_MAX ? 1 : *uniquifier + 1;
	ctrl->cntlid = cntlid;
	ctrl->uniquifier = *uniquifier;
	do {
		ctrl->random_number = cirn_make(target, (uint32_t)prng_next(&target->prng));
	} while (ctrl->random_number == 0);
}

/* Identifiers that I/O controllers leave to discovery controllers. Fewer when the range is
 * small. */
static uint32_t registry_spare(uint32_t room)
{
	return room / 16 < REGISTRY_SPARE_MAX ? room / 16 : REGISTRY_SPARE_MAX;
}

/* The limit that keeps a controller out, or NULL. Discovery controllers are counted separately. */
static const char *registry_limit(const struct target *target, const struct ctrl *ctrl)
{
	const struct target_limits *limits =
		&target_registry((struct target *)target)->snapshot->limits;
	uint32_t room = (uint32_t)target->cntlid_last - target->cntlid_first + 1;
	uint32_t io_count = target->ctrl_count - target->discovery_ctrl_count;
	const struct host_share *shares[] = {ctrl->share_of_addr, ctrl->share_of_nqn};
	bool is_discovery = ctrl->type == CTRL_TYPE_DISCOVERY;

	if (is_discovery ? target->discovery_ctrl_count >= target->ctrls_max
			 : io_count >= target->ctrls_max || io_count >= room - registry_spare(room))
		return "limits.controllers";
	for (unsigned i = 0; i < ARRAY_LEN(shares); i++)
		if ((is_discovery ? shares[i]->discovery_ctrls : shares[i]->io_ctrls) >=
		    limits->ctrls_per_host_max)
			return "limits.controllers_per_host";
	return NULL;
}

static void registry_count(struct target *target, struct ctrl *ctrl, int step)
{
	struct host_share *shares[] = {ctrl->share_of_addr, ctrl->share_of_nqn};

	target->ctrl_count += (uint32_t)step;
	if (ctrl->type == CTRL_TYPE_DISCOVERY)
		target->discovery_ctrl_count += (uint32_t)step;
	for (unsigned i = 0; i < ARRAY_LEN(shares); i++) {
		if (ctrl->type == CTRL_TYPE_DISCOVERY)
			shares[i]->discovery_ctrls += (uint32_t)step;
		else
			shares[i]->io_ctrls += (uint32_t)step;
	}
	atomic_store(&target->ctrls_now, target->ctrl_count);
}

static void registry_settle(struct target *target, struct ctrl *ctrl)
{
	if (ctrl->share_of_addr)
		host_share_settle(target, ctrl->share_of_addr);
	if (ctrl->share_of_nqn)
		host_share_settle(target, ctrl->share_of_nqn);
	ctrl->share_of_addr = NULL;
	ctrl->share_of_nqn = NULL;
}

/* Returns NULL, or the reason for the refusal. */
static const char *registry_add(struct target *target, struct ctrl *ctrl)
{
	uint32_t room = (uint32_t)target->cntlid_last - target->cntlid_first + 1;
	const char *limit;

	ctrl->share_of_addr = host_share_of_addr(target, &ctrl->peer_addr);
	ctrl->share_of_nqn = host_share_of_nqn(target, ctrl->host_nqn);
	if (!ctrl->share_of_addr || !ctrl->share_of_nqn)
		return "out of memory";
	limit = registry_limit(target, ctrl);
	if (limit)
		return limit;
	for (uint32_t tries = 0; tries < room; tries++) {
		uint16_t cntlid = target->next_cntlid;

		/* Identifiers are used in turn, so that a late Connect does not meet a new
		 * controller. */
		target->next_cntlid = cntlid == target->cntlid_last ? target->cntlid_first
								    : (uint16_t)(cntlid + 1);
		if (target->ctrls[cntlid])
			continue;
		target->ctrls[cntlid] = ctrl;
		registry_count(target, ctrl, 1);
		registry_name(target, ctrl, cntlid);
		return NULL;
	}
	return "all controller identifiers are in use";
}

static void ctrl_registered(struct reactor_msg *msg)
{
	struct ctrl *ctrl = container_of(msg, struct ctrl, msg);
	struct slot *slot = ctrl->connect_slot;
	struct queue *queue = slot->queue;
	struct connect_reject reject;

	if (ctrl->cntlid == 0) {
		log_limited(LOG_LEVEL_WARN, "target", "host %s gets no controller: %s",
			    ctrl->host_nqn, ctrl->refused_why);
		connect_reject_at(&reject, NVME_SC_CONNECT_BUSY, 0, false);
		connect_finish(slot, NULL, &reject, ctrl->connect_args);
		ctrl_free(ctrl);
		return;
	}
	ctrl->state = CTRL_LIVE;
	ctrl->admin = queue;
	ctrl->running_queue_count++;
	list_push_back(&ctrl->local->ctrls, &ctrl->node);
	ctrl_bind(ctrl, ctrl->local->snapshot);
	bool is_queue_ending = queue->state != QUEUE_CONNECTING;

	log_of_peer(&ctrl->share_of_addr->lines, LOG_LEVEL_INFO, "target",
		    "controller %u: host %s connected to %s", ctrl->cntlid, ctrl->host_nqn,
		    ctrl->subsystem_nqn);
	connect_finish(slot, ctrl, NULL, ctrl->connect_args);
	ctrl->connect_slot = NULL;
	if (is_queue_ending)
		ctrl_end(ctrl, "the connection ended during Connect");
	else if (ctrl->state == CTRL_LIVE)
		ctrl_keep_alive_start(ctrl);
}

static void registry_add_here(struct reactor_msg *msg)
{
	struct ctrl *ctrl = container_of(msg, struct ctrl, msg);

	ctrl->refused_why = registry_add(ctrl->target, ctrl);
	if (ctrl->refused_why) {
		ctrl->cntlid = 0;
		registry_settle(ctrl->target, ctrl);
	}
	reactor_post(ctrl->reactor, &ctrl->msg, ctrl_registered);
}

void ctrl_create(struct slot *slot, const struct connect_args *args)
{
	struct ctrl *ctrl = ctrl_alloc(slot->queue, args);
	struct connect_reject reject;

	if (!ctrl) {
		connect_reject_at(&reject, NVME_SC_CONNECT_BUSY, 0, false);
		connect_finish(slot, NULL, &reject, args);
		return;
	}
	ctrl->connect_slot = slot;
	ctrl->state = CTRL_REGISTERING;
	reactor_post(target_registry(ctrl->target)->reactor, &ctrl->msg, registry_add_here);
}

/* ---- I/O queues attach ---------------------------------------------------------------------- */

/* An I/O Connect under way: queue's reactor, registry, controller's reactor and back. */
struct attach {
	struct reactor_msg msg;
	struct slot *slot;
	struct target *target;
	struct ctrl *ctrl; /* NULL: refused */
	struct connect_args args;
	struct connect_reject reject;
};

/* Back on the queue's reactor. */
static void attach_done(struct reactor_msg *msg)
{
	struct attach *attach = container_of(msg, struct attach, msg);

	connect_finish(attach->slot, attach->ctrl, &attach->reject, &attach->args);
	free(attach);
}

static void attach_answer(struct attach *attach, struct ctrl *ctrl)
{
	attach->ctrl = ctrl;
	reactor_post(attach->slot->queue->reactor, &attach->msg, attach_done);
}

static void attach_refuse(struct attach *attach, uint16_t offset, bool is_in_data)
{
	connect_reject_at(&attach->reject, NVME_SC_CONNECT_INVALID_PARAM, offset, is_in_data);
	attach_answer(attach, NULL);
}

static void attach_at_ctrl(struct reactor_msg *msg)
{
	struct attach *attach = container_of(msg, struct attach, msg);
	const struct connect_args *args = &attach->args;
	struct ctrl *ctrl = attach->ctrl;

	CHECK_OWNER(ctrl);
	if (ctrl->state != CTRL_LIVE)
		attach_refuse(attach, CONNECT_DATA_CNTLID, true);
	else if (strcmp(ctrl->subsystem_nqn, args->subsystem_nqn) != 0)
		attach_refuse(attach, CONNECT_DATA_SUBNQN, true);
	else if (strcmp(ctrl->host_nqn, args->host_nqn) != 0)
		attach_refuse(attach, CONNECT_DATA_HOSTNQN, true);
	else if (!uuid_equal(&ctrl->host_id, &args->host_id))
		attach_refuse(attach, CONNECT_DATA_HOSTID, true);
	else if (args->qid > ctrl->io_queues_granted)
		attach_refuse(attach, CONNECT_SQE_QID, false);
	else if (ctrl->io_queues[args->qid] || !ctrl_is_ready(ctrl) || ctrl->is_disabling ||
		 ctrl->is_shutting_down) {
		/* The queue exists already, or the controller takes no queues now. */
		attach->reject.status = NVME_SC_CMD_SEQUENCE;
		attach_answer(attach, NULL);
	} else {
		ctrl->io_queues[args->qid] = attach->slot->queue;
		ctrl->io_queue_count++;
		ctrl->running_queue_count++;
		attach_answer(attach, ctrl);
	}
}

static void registry_find_here(struct reactor_msg *msg)
{
	struct attach *attach = container_of(msg, struct attach, msg);
	uint16_t cntlid = attach->args.cntlid;

	attach->ctrl = cntlid <= NVME_CNTLID_MAX ? attach->target->ctrls[cntlid] : NULL;
	if (!attach->ctrl)
		attach_refuse(attach, CONNECT_DATA_CNTLID, true);
	else
		reactor_post(attach->ctrl->reactor, &attach->msg, attach_at_ctrl);
}

/* On the queue's reactor. */
void ctrl_attach(struct slot *slot, const struct connect_args *args)
{
	struct target *target = slot->queue->local->target;
	struct attach *attach = calloc(1, sizeof(*attach));
	struct connect_reject reject;

	if (!attach) {
		connect_reject_at(&reject, NVME_SC_CONNECT_BUSY, 0, false);
		connect_finish(slot, NULL, &reject, args);
		return;
	}
	attach->slot = slot;
	attach->target = target;
	attach->args = *args;
	reactor_post(target_registry(target)->reactor, &attach->msg, registry_find_here);
}

/* ---- queues detach, the end ----------------------------------------------------------------- */

static void ctrl_left(struct reactor_msg *msg)
{
	struct ctrl *ctrl = container_of(msg, struct ctrl, msg);
	struct local *local = ctrl->local;

	list_remove(&ctrl->node);
	list_remove(&ctrl->swap_node);
	ctrl_free(ctrl);
	local_on_empty(local);
}

static void registry_remove_here(struct reactor_msg *msg)
{
	struct ctrl *ctrl = container_of(msg, struct ctrl, msg);
	struct target *target = ctrl->target;

	CHECK(target->ctrls[ctrl->cntlid] == ctrl);
	target->ctrls[ctrl->cntlid] = NULL;
	/* Log here, while the controller has its share: registry_settle takes the share away. */
	log_of_peer(&ctrl->share_of_addr->lines, LOG_LEVEL_INFO, "target",
		    "controller %u: host %s gone: %s", ctrl->cntlid, ctrl->host_nqn, ctrl->end_why);
	registry_count(target, ctrl, -1);
	registry_settle(target, ctrl);
	reactor_post(ctrl->reactor, &ctrl->msg, ctrl_left);
}

static void registry_quiesced_here(struct reactor_msg *msg)
{
	registry_on_quiesced(container_of(msg, struct ctrl, quiesce_msg));
}

/* Nothing of the controller reaches a medium from here on. CQT limits how long that may take. */
static void ctrl_quiesce(struct ctrl *ctrl)
{
	uint32_t limit_ms = ctrl->local->snapshot->limits.quiesce_ms;
	uint64_t took_ms = (reactor_now_ns(ctrl->reactor) - ctrl->ended_ns) / NS_PER_MS;

	if (limit_ms > 0 && took_ms > limit_ms)
		log_of_peer(&ctrl->share_of_addr->lines, LOG_LEVEL_ERROR, "target",
			    "controller %u: its last command ended %llu ms after the controller; "
			    "CQT is %u ms",
			    ctrl->cntlid, (unsigned long long)took_ms, limit_ms);
	ctrl->is_quiesced = true;
	reactor_post(target_registry(ctrl->target)->reactor, &ctrl->quiesce_msg,
		     registry_quiesced_here);
}

static void ctrl_leave_when_empty(struct ctrl *ctrl)
{
	if (ctrl->state != CTRL_DYING || ctrl->flushes_left > 0)
		return;
	if (!ctrl->is_quiesced && ctrl->running_queue_count == 0)
		ctrl_quiesce(ctrl);
	if (ctrl->admin || ctrl->io_queue_count > 0)
		return;
	ctrl->state = CTRL_LEAVING;
	reactor_post(target_registry(ctrl->target)->reactor, &ctrl->msg, registry_remove_here);
}

/* On the queue's reactor, at the request of the controller. */
static void queue_close_here(struct reactor_msg *msg)
{
	queue_close(container_of(msg, struct queue, close_msg), "the controller ended");
}

void ctrl_close_io_queues(struct ctrl *ctrl)
{
	for (uint32_t qid = 1; qid <= ctrl->io_queues_max; qid++) {
		struct queue *queue = ctrl->io_queues[qid];

		if (!queue || queue->is_close_posted)
			continue;
		queue->is_close_posted = true;
		reactor_post(queue->reactor, &queue->close_msg, queue_close_here);
	}
}

/* On the queue's reactor, at the request of the controller, which has asked the queue to close. */
static void queue_cancel_here(struct reactor_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, cancel_msg);

	if (queue->state == QUEUE_CLOSING)
		queue_cancel_all(queue);
}

void ctrl_cancel_io_queues(struct ctrl *ctrl)
{
	CHECK_OWNER(ctrl);
	for (uint32_t qid = 1; qid <= ctrl->io_queues_max; qid++) {
		struct queue *queue = ctrl->io_queues[qid];

		if (!queue || queue->is_cancel_posted)
			continue;
		queue->is_cancel_posted = true;
		reactor_post(queue->reactor, &queue->cancel_msg, queue_cancel_here);
	}
}

void ctrl_end(struct ctrl *ctrl, const char *why)
{
	CHECK_OWNER(ctrl);
	if (ctrl->state != CTRL_LIVE)
		return;
	ctrl->state = CTRL_DYING;
	ctrl->end_why = why;
	ctrl->ended_ns = reactor_now_ns(ctrl->reactor);
	ctrl_keep_alive_stop(ctrl);
	ctrl_known_stop(ctrl);
	ctrl_events_flush(ctrl, NVME_SC_ABORT_SQ_DELETION);
	ctrl_resets_release(ctrl);
	ctrl_close_io_queues(ctrl);
	if (ctrl->admin)
		queue_close(ctrl->admin, why);
	ctrl_leave_when_empty(ctrl);
}

void ctrl_on_queue_quiet(struct reactor_msg *quiet_msg)
{
	struct ctrl *ctrl = container_of(quiet_msg, struct queue, quiet_msg)->ctrl;

	CHECK_OWNER(ctrl);
	CHECK(ctrl->running_queue_count > 0);
	ctrl->running_queue_count--;
	ctrl_leave_when_empty(ctrl);
}

void ctrl_detach(struct reactor_msg *detach_msg)
{
	struct queue *queue = container_of(detach_msg, struct queue, detach_msg);
	struct ctrl *ctrl = queue->ctrl;

	CHECK_OWNER(ctrl);
	if (queue->qid == 0) {
		CHECK(ctrl->admin == queue);
		ctrl->admin = NULL;
	} else {
		CHECK(ctrl->io_queues[queue->qid] == queue);
		ctrl->io_queues[queue->qid] = NULL;
		ctrl->io_queue_count--;
	}
	ctrl_property_on_detach(ctrl);
	ctrl_leave_when_empty(ctrl);
}

void ctrl_flushed(struct ctrl *ctrl)
{
	ctrl_leave_when_empty(ctrl);
}
