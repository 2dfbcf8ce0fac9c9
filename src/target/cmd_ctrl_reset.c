/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-Controller Reset (admin 38h) on the controller that receives the command, and the log of
 * the resets that were requested there (1Eh). Base 2.3 (TP8028). Runs on that controller's reactor.
 *
 * The command is held while the reset runs, for RESET_HOLD_MS at most. Nearly all resets are
 * finished by then, and the command is answered as done (IRS). Otherwise the command is answered,
 * the log gets an entry, and an event reports the end of the reset. Neither an abort of the command
 * nor the end of its controller stops the reset. A request without a controller is freed when its
 * reset is done.
 */
#include "target/ctrl_reset.h"

#include "base/clock.h"
#include "target/command.h"
#include "target/local.h"
#include "target/log.h"

#include <stdlib.h>
#include <string.h>

#define RESET_HOLD_MS 100 /* ms; afterwards the host waits for the event */

struct reset_entry {
	struct list node; /* in ctrl->reset_log, once answered before the reset ended */
	struct log_ctrl_reset_entry entry;
};

struct reset_request {
	struct ctrl_reset reset;
	struct local *local;
	struct ctrl *ctrl; /* received the command; NULL: no longer waits for the result */
	struct slot *slot; /* held command; NULL: answered */
	struct reset_entry *entry;
	struct reactor_timer hold;
	struct list node; /* in ctrl->reset_requests */
};

/* ---- answers -------------------------------------------------------------------------------- */

static void request_complete(struct reset_request *request, nvme_status status, bool is_immediate)
{
	struct slot *slot = request->slot;

	reactor_timer_cancel(&request->hold);
	request->slot = NULL;
	slot->result = ctrl_reset_result_encode(is_immediate);
	if (nvme_status_same(status, NVME_SC_INVALID_FIELD))
		slot->error_byte = SQE_BYTE_CDW10;
	slot_complete(slot, status);
}

/* Answers before the reset has ended. The log reports the end. */
static void request_answer_early(struct reset_request *request, nvme_status status)
{
	struct ctrl *ctrl = request->ctrl;

	list_push_back(&ctrl->reset_log, &request->entry->node);
	ctrl->reset_log_count++;
	request_complete(request, status, false);
}

static void request_on_hold_over(struct reactor_timer *timer)
{
	request_answer_early(container_of(timer, struct reset_request, hold), NVME_SC_SUCCESS);
}

void ctrl_reset_cancel(struct slot *slot)
{
	request_answer_early(slot->other, NVME_SC_ABORT_REQUESTED);
}

static nvme_status status_of_result(enum ctrl_reset_result result)
{
	switch (result) {
	case CTRL_RESET_FORBIDDEN:
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	case CTRL_RESET_BUSY:
		return NVME_SC_CTRL_RESET_IN_PROGRESS;
	default:
		return NVME_SC_SUCCESS;
	}
}

static void request_free(struct reset_request *request)
{
	struct local *local = request->local;

	CHECK(local->reset_count > 0);
	local->reset_count--;
	free(request);
	local_on_empty(local);
}

static void request_done(struct ctrl_reset *reset, enum ctrl_reset_result result)
{
	struct reset_request *request = container_of(reset, struct reset_request, reset);
	struct ctrl *ctrl = request->ctrl;
	struct reset_entry *entry = request->entry;
	/* A failure is logged, so that the host knows that the reset was tried. */
	bool is_logged = !request->slot || result == CTRL_RESET_FAILED;

	if (!ctrl) {
		request_free(request);
		return;
	}
	CHECK_OWNER(ctrl);
	list_remove(&request->node);
	ctrl->reset_request_count--;
	entry->entry.state =
		result == CTRL_RESET_DONE ? LOG_CTRL_RESET_SUCCESS : LOG_CTRL_RESET_FAILED;
	entry->entry.is_validated = result != CTRL_RESET_FORBIDDEN;
	if (request->slot && is_logged)
		request_answer_early(request, NVME_SC_SUCCESS);
	else if (request->slot)
		request_complete(request, status_of_result(result), result == CTRL_RESET_DONE);
	if (is_logged)
		ctrl_event_raise(ctrl, CTRL_EVENT_CTRL_RESET);
	else
		free(entry);
	request_free(request);
}

static void entry_forget(struct ctrl *ctrl, struct reset_entry *entry)
{
	list_remove(&entry->node);
	ctrl->reset_log_count--;
	free(entry);
}

/* Nothing waits for the result of the reset any more. The log entry stays in ctrl->reset_log, and
 * the caller now owns it. */
static void request_detach(struct reset_request *request, nvme_status status)
{
	list_remove(&request->node);
	request->ctrl->reset_request_count--;
	if (request->slot)
		request_answer_early(request, status);
	request->ctrl = NULL;
	request->entry = NULL;
}

void ctrl_resets_release(struct ctrl *ctrl)
{
	CHECK_OWNER(ctrl);
	list_for_each_safe(node, &ctrl->reset_requests)
		request_detach(list_entry(node, struct reset_request, node),
			       NVME_SC_ABORT_SQ_DELETION);
	list_for_each_safe(node, &ctrl->reset_log)
		entry_forget(ctrl, list_entry(node, struct reset_entry, node));
}

/* A log entry names a controller by CNTLID and CIU. A controller of a restarted process may have
 * the same CNTLID and CIU as a controller of the process before. The host must not take an entry of
 * the older controller for the end of the newer one. */
static void log_forget_older(struct ctrl *ctrl, const struct ctrl_reset_cmd *cmd)
{
	list_for_each_safe(node, &ctrl->reset_requests) {
		struct reset_request *request = list_entry(node, struct reset_request, node);

		if (request->reset.cntlid == cmd->cntlid &&
		    request->reset.uniquifier == cmd->uniquifier)
			request_detach(request, NVME_SC_COMMAND_INTERRUPTED);
	}
	list_for_each_safe(node, &ctrl->reset_log) {
		struct reset_entry *entry = list_entry(node, struct reset_entry, node);

		if (entry->entry.cntlid == cmd->cntlid &&
		    entry->entry.uniquifier == cmd->uniquifier)
			entry_forget(ctrl, entry);
	}
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool is_ours(const struct target *target, uint16_t cntlid)
{
	return cntlid >= target->cntlid_first && cntlid <= target->cntlid_last;
}

static bool is_of_peer(const struct target *target, uint16_t cntlid)
{
	return target->cluster.has_cntlid &&
	       target->cluster.has_cntlid(target->cluster.arg, cntlid);
}

static bool is_asked_for(const struct ctrl *ctrl, const struct ctrl_reset_cmd *cmd)
{
	list_for_each(node, &ctrl->reset_requests) {
		const struct ctrl_reset *reset =
			&list_entry(node, struct reset_request, node)->reset;

		if (reset->cntlid == cmd->cntlid && reset->uniquifier == cmd->uniquifier &&
		    reset->random_number == cmd->random_number)
			return true;
	}
	return false;
}

/* Compares CNTLID, CIU and CIRN: after a restart of the target, the new controller may have the
 * CNTLID of the lost controller that the host asks it to reset. */
static bool is_instance(const struct ctrl *ctrl, const struct ctrl_reset_cmd *cmd)
{
	return cmd->cntlid == ctrl->cntlid && cmd->uniquifier == ctrl->uniquifier &&
	       cmd->random_number == ctrl->random_number;
}

static nvme_status reset_check(struct ctrl *ctrl, const struct ctrl_reset_cmd *cmd)
{
	if (is_instance(ctrl, cmd) ||
	    (!is_ours(ctrl->target, cmd->cntlid) && !is_of_peer(ctrl->target, cmd->cntlid)))
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	if (is_asked_for(ctrl, cmd))
		return NVME_SC_CTRL_RESET_IN_PROGRESS;
	if (ctrl->reset_request_count >= CTRL_RESET_MAX)
		return NVME_SC_CTRL_RESET_LIMIT;
	/* Each request under way may need a log entry, too. */
	if (ctrl->reset_log_count + ctrl->reset_request_count >= CTRL_RESET_LOG_MAX)
		return NVME_SC_CTRL_RESET_LOG_FULL;
	return NVME_SC_SUCCESS;
}

static struct reset_request *request_create(struct slot *slot, const struct ctrl_reset_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	struct reset_request *request = calloc(1, sizeof(*request));
	struct reset_entry *entry = calloc(1, sizeof(*entry));

	if (!request || !entry) {
		free(request);
		free(entry);
		return NULL;
	}
	list_init(&entry->node);
	entry->entry = (struct log_ctrl_reset_entry){
		.cntlid = cmd->cntlid,
		.uniquifier = cmd->uniquifier,
		.asked_cntlid = ctrl->cntlid,
		.state = LOG_CTRL_RESET_IN_PROGRESS,
		.is_validated = true,
		.is_initiated = true,
	};
	request->local = ctrl->local;
	request->ctrl = ctrl;
	request->slot = slot;
	request->entry = entry;
	request->reset = (struct ctrl_reset){
		.host_id = ctrl->host_id,
		.cntlid = cmd->cntlid,
		.uniquifier = cmd->uniquifier,
		.random_number = cmd->random_number,
		.is_exclusive = true,
		.reactor = ctrl->reactor,
		.done = request_done,
		.target = ctrl->target,
	};
	memcpy(request->reset.subsystem_nqn, ctrl->subsystem_nqn, NVME_NQN_BYTES);
	memcpy(request->reset.host_nqn, ctrl->host_nqn, NVME_NQN_BYTES);
	reactor_timer_init(ctrl->reactor, &request->hold, request_on_hold_over);
	return request;
}

/* On the reactor of the peers, because the control reactor may be busy for seconds. */
static void reset_at_peers(struct reactor_msg *msg)
{
	struct ctrl_reset *reset = container_of(msg, struct ctrl_reset, msg);
	const struct target_peers *peers = &reset->target->cluster;

	peers->reset(peers->arg, reset);
}

static void ctrl_reset_execute(struct slot *slot)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	struct reset_request *request;
	struct ctrl_reset_cmd cmd;
	nvme_status status;

	ctrl_reset_cmd_decode(&slot->sqe, &cmd);
	status = reset_check(ctrl, &cmd);
	if (!nvme_status_is_ok(status)) {
		slot->error_byte = SQE_BYTE_CDW10;
		slot_complete(slot, status);
		return;
	}
	request = request_create(slot, &cmd);
	if (!request) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	log_forget_older(ctrl, &cmd);
	slot_leave_snapshot(slot);
	slot->other = request;
	slot->wait = SLOT_WAIT_RESET;
	list_push_back(&ctrl->reset_requests, &request->node);
	ctrl->reset_request_count++;
	ctrl->local->reset_count++;
	reactor_timer_arm(&request->hold,
			  reactor_now_ns(ctrl->reactor) + RESET_HOLD_MS * NS_PER_MS);
	if (is_ours(ctrl->target, cmd.cntlid))
		target_ctrl_reset(ctrl->target, &request->reset);
	else
		reactor_post(ctrl->target->cluster.reactor, &request->reset.msg, reset_at_peers);
}

nvme_status ctrl_reset_prepare(struct slot *slot)
{
	slot->execute = ctrl_reset_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}

/* ---- the log -------------------------------------------------------------------------------- */

/* True when the window contains the whole piece [at, at + piece_bytes) of the page. */
static bool window_has(const struct log_window *window, uint64_t at, uint32_t piece_bytes)
{
	return at >= window->offset && at + piece_bytes <= window->offset + window->len_bytes;
}

void log_ctrl_reset_execute(struct slot *slot, const struct log_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	struct log_window window = {slot->data.addr, cmd->offset, slot->data_bytes};
	uint64_t at = LOG_CTRL_RESET_HEADER_BYTES;
	uint8_t piece[LOG_CTRL_RESET_ENTRY_BYTES];

	log_ctrl_reset_header_encode((uint16_t)ctrl->reset_log_count, piece);
	log_window_put(&window, 0, piece, sizeof(piece));
	list_for_each_safe(node, &ctrl->reset_log) {
		struct reset_entry *entry = list_entry(node, struct reset_entry, node);

		log_ctrl_reset_entry_encode(&entry->entry, piece);
		log_window_put(&window, at, piece, sizeof(piece));
		/* Remove an entry only when the host has received all of it. */
		if ((cmd->specific & LOG_CTRL_RESET_REMOVE) &&
		    entry->entry.state != LOG_CTRL_RESET_IN_PROGRESS &&
		    window_has(&window, at, sizeof(piece)))
			entry_forget(ctrl, entry);
		at += sizeof(piece);
	}
	log_finish(slot, cmd, at);
}
