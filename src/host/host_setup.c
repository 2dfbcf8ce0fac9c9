/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings a controller up and shuts it down: a table of steps on the admin queue, each one command,
 * then all I/O queues at once. Runs on the controller's reactor. NVMe Base 2.1, sections 3.5.2
 * (initialization over fabrics), 3.6.2 (shutdown) and 6.3 (Connect).
 *
 * A step either fills in ctrl->step_cmd or reports that it has nothing to do. Its finish function
 * gets the result of the successful command and decides: next step, repeat the step in a few
 * milliseconds, or fail.
 */
#include "base/clock.h"
#include "base/text.h"
#include "host/host_internal.h"

#include <errno.h>
#include <stdlib.h>

enum step_verdict {
	STEP_NEXT,
	STEP_AGAIN,
	STEP_FAILED, /* host_ctrl_fail was called */
};

struct setup_step {
	const char *name;
	/* False: nothing to do, continue with the next step. */
	bool (*prepare)(struct host_ctrl *ctrl, struct host_cmd *cmd);
	enum step_verdict (*finish)(struct host_ctrl *ctrl, uint64_t result);
};

static void step_run(struct host_ctrl *ctrl);

static enum step_verdict step_fail(struct host_ctrl *ctrl, int res, const char *text)
{
	struct host_error error;
	char addr[HOST_ADDR_TEXT_BYTES];

	host_error_format(&error, NVME_SC_SUCCESS, "%s at %s: %s", ctrl->config.subsystem_nqn,
			  host_addr_format(&ctrl->config.addr, addr), text);
	host_ctrl_fail(ctrl, res, &error);
	return STEP_FAILED;
}

/* ---- Connect -------------------------------------------------------------------------------- */

static void connect_fill(struct host_queue *queue, struct host_cmd *cmd, uint32_t queue_size)
{
	const struct host_config *config = &queue->ctrl->config;
	struct connect_args args = {
		.qid = queue->qid,
		.queue_size = queue_size,
		.kato_ms = queue->qid == 0 ? config->kato_ms : 0,
		.wants_no_sq_flow_control = !config->wants_sq_flow_control,
		.host_id = config->host_id,
		.cntlid = queue->qid == 0 ? NVME_CNTLID_ANY : queue->ctrl->cntlid,
	};

	text_copy(args.subsystem_nqn, sizeof(args.subsystem_nqn), config->subsystem_nqn);
	text_copy(args.host_nqn, sizeof(args.host_nqn), config->host_nqn);
	memset(&cmd->sqe, 0, sizeof(cmd->sqe));
	connect_encode(&cmd->sqe, queue->connect_data, &args);
	cmd->direction = HOST_DATA_TO_CTRL;
	cmd->data = queue->connect_data;
	cmd->data_bytes = NVMF_CONNECT_DATA_BYTES;
}

static bool connect_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	connect_fill(ctrl->admin, cmd, HOST_ADMIN_QUEUE_SIZE);
	return true;
}

static enum step_verdict connect_finish(struct host_ctrl *ctrl, uint64_t result)
{
	ctrl->admin->phase = HOST_QUEUE_LIVE;
	ctrl->cntlid = (uint16_t)(result & 0xffff);
	/* AUTHREQ, ASCR: Base 2.1, figure "Connect Response". */
	if ((result >> 16 & 0x7) != 0)
		return step_fail(ctrl, -EACCES,
				 "the controller requires authentication, which is not supported");
	return STEP_NEXT;
}

/* ---- properties ----------------------------------------------------------------------------- */

static void property_get(struct host_cmd *cmd, uint32_t offset, bool is_8_bytes)
{
	property_get_encode(&cmd->sqe, offset, is_8_bytes);
}

static bool cap_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	property_get(cmd, PROPERTY_CAP, true);
	return true;
}

static enum step_verdict cap_finish(struct host_ctrl *ctrl, uint64_t result)
{
	cap_decode(result, &ctrl->cap);
	if (ctrl->cap.ready_timeout_ms == 0)
		ctrl->cap.ready_timeout_ms = 500;
	if (ctrl->cap.queue_size_max < 2)
		return step_fail(ctrl, -EPROTO, "CAP.MQES allows no queue");
	return STEP_NEXT;
}

static bool version_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	property_get(cmd, PROPERTY_VS, false);
	return true;
}

static enum step_verdict version_finish(struct host_ctrl *ctrl, uint64_t result)
{
	ctrl->version = (uint32_t)result;
	return STEP_NEXT;
}

static bool config_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	property_get(cmd, PROPERTY_CC, false);
	return true;
}

static enum step_verdict config_finish(struct host_ctrl *ctrl, uint64_t result)
{
	ctrl->cc = cc_decode((uint32_t)result);
	return STEP_NEXT;
}

static void ready_start(struct host_ctrl *ctrl)
{
	ctrl->ready_deadline_ns =
		reactor_now_ns(ctrl->reactor) + ctrl->cap.ready_timeout_ms * NS_PER_MS;
}

/* A controller that was left enabled is reset first. */
static bool disable_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	if (!ctrl->cc.is_enabled)
		return false;
	ctrl->cc.is_enabled = false;
	property_set_encode(&cmd->sqe, PROPERTY_CC, cc_encode(&ctrl->cc), false);
	ctrl->cc.is_enabled = true;
	return true;
}

static enum step_verdict ready_wait_start(struct host_ctrl *ctrl, uint64_t result)
{
	ready_start(ctrl);
	return STEP_NEXT;
}

static bool disabled_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	if (!ctrl->cc.is_enabled)
		return false;
	property_get(cmd, PROPERTY_CSTS, false);
	return true;
}

static enum step_verdict ready_judge(struct host_ctrl *ctrl, uint32_t csts, bool wants_ready)
{
	if ((csts & CSTS_CFS) != 0)
		return step_fail(ctrl, -EIO, "the controller reports a fatal status (CSTS.CFS)");
	if (((csts & CSTS_RDY) != 0) == wants_ready)
		return STEP_NEXT;
	if (reactor_now_ns(ctrl->reactor) >= ctrl->ready_deadline_ns)
		return step_fail(ctrl, -ETIMEDOUT,
				 wants_ready ? "the controller did not become ready within CAP.TO"
					     : "the controller did not stop within CAP.TO");
	return STEP_AGAIN;
}

static enum step_verdict disabled_finish(struct host_ctrl *ctrl, uint64_t result)
{
	return ready_judge(ctrl, (uint32_t)result, false);
}

static bool enable_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	ctrl->cc = (struct ctrl_config){
		.is_enabled = true,
		.command_set =
			ctrl->cap.supports_nvm || !ctrl->cap.supports_io_command_sets ? 0 : 6,
		.page_shift = 12,
		.sq_entry_shift = 6,
		.cq_entry_shift = 4,
	};
	property_set_encode(&cmd->sqe, PROPERTY_CC, cc_encode(&ctrl->cc), false);
	return true;
}

static bool ready_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	property_get(cmd, PROPERTY_CSTS, false);
	return true;
}

static enum step_verdict ready_finish(struct host_ctrl *ctrl, uint64_t result)
{
	return ready_judge(ctrl, (uint32_t)result, true);
}

/* ---- Identify and features ------------------------------------------------------------------ */

static bool identify_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	host_cmd_identify(cmd, 0, IDENTIFY_CTRL, ctrl->page);
	return true;
}

static enum step_verdict identify_finish(struct host_ctrl *ctrl, uint64_t result)
{
	uint32_t size = ctrl->config.io_queue_size;

	if (identify_ctrl_decode(ctrl->page, &ctrl->identity) != 0)
		return step_fail(ctrl, -EPROTO, "the Identify Controller data is invalid");
	/* A mismatch would make a Cross-Controller Reset end another controller than the lost
	 * one. */
	if (ctrl->identity.cntlid != ctrl->cntlid)
		return step_fail(ctrl, -EPROTO,
				 "Identify Controller and Connect name different controllers");
	if (size > ctrl->cap.queue_size_max)
		size = ctrl->cap.queue_size_max;
	ctrl->io_queue_size = size;
	return STEP_NEXT;
}

static bool queue_count_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	unsigned count = ctrl->config.io_queues;

	if (count == 0)
		return false;
	feature_set_encode(&cmd->sqe, FEATURE_QUEUE_COUNT,
			   feature_queue_count_encode(count, count));
	return true;
}

static enum step_verdict queue_count_finish(struct host_ctrl *ctrl, uint64_t result)
{
	/* The answer has the layout of the request: zero-based counts, here the granted ones. */
	uint32_t sq_count = 0;
	uint32_t cq_count = 0;
	uint32_t count = ctrl->config.io_queues;

	if (!nvme_status_is_ok(feature_queue_count_decode((uint32_t)result, &sq_count, &cq_count)))
		return step_fail(ctrl, -EPROTO, "the number of queues granted is invalid");
	if (count > sq_count)
		count = sq_count;
	if (count > cq_count)
		count = cq_count;
	ctrl->io_queue_count = count;
	return STEP_NEXT;
}

static bool events_prepare(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	uint32_t mask = 0;

	if (ctrl->callbacks.event == NULL)
		return false;
	if (ctrl->identity.has_event_ns_attribute)
		mask |= ASYNC_MASK_NS_ATTRIBUTE;
	if (ctrl->identity.has_event_ana_change)
		mask |= ASYNC_MASK_ANA_CHANGE;
	if (ctrl->identity.has_event_ctrl_reset)
		mask |= ASYNC_MASK_CTRL_RESET;
	if (ctrl->identity.has_event_lost_host)
		mask |= ASYNC_MASK_LOST_HOST;
	if (ctrl->identity.has_event_discovery_change)
		mask |= ASYNC_MASK_DISCOVERY_CHANGE;
	if (mask == 0)
		return false;
	feature_set_encode(&cmd->sqe, FEATURE_ASYNC_EVENT, mask);
	return true;
}

static enum step_verdict step_accept(struct host_ctrl *ctrl, uint64_t result)
{
	return STEP_NEXT;
}

static const struct setup_step setup_steps[] = {
	{"Connect", connect_prepare, connect_finish},
	{"Property Get of CAP", cap_prepare, cap_finish},
	{"Property Get of VS", version_prepare, version_finish},
	{"Property Get of CC", config_prepare, config_finish},
	{"Property Set of CC (disable)", disable_prepare, ready_wait_start},
	{"waiting for the controller to stop", disabled_prepare, disabled_finish},
	{"Property Set of CC (enable)", enable_prepare, ready_wait_start},
	{"waiting for the controller to become ready", ready_prepare, ready_finish},
	{"Identify Controller", identify_prepare, identify_finish},
	{"Set Features (number of queues)", queue_count_prepare, queue_count_finish},
	{"Set Features (asynchronous events)", events_prepare, step_accept},
};

const char *host_setup_step_name(const struct host_ctrl *ctrl)
{
	if (ctrl->admin == NULL || !ctrl->admin->was_ready)
		return ctrl->config.addr.transport->connect_step;
	if (ctrl->step < ARRAY_LEN(setup_steps))
		return setup_steps[ctrl->step].name;
	return "Connect of the I/O queues";
}

/* ---- I/O queues ----------------------------------------------------------------------------- */

static void setup_complete(struct host_ctrl *ctrl)
{
	reactor_timer_cancel(&ctrl->setup_timer);
	ctrl->phase = HOST_CTRL_LIVE;
	ctrl->was_connected = true;
	host_watch_start_live(ctrl);
	ctrl->callbacks.connected(ctrl, ctrl->arg, 0, NULL);
}

static void on_io_connect_done(struct host_cmd *cmd)
{
	struct host_queue *queue = container_of(cmd, struct host_queue, connect_cmd);
	struct host_ctrl *ctrl = queue->ctrl;
	struct host_error error;

	if (ctrl->phase != HOST_CTRL_CONNECTING || queue->phase == HOST_QUEUE_CLOSED)
		return;
	if (!nvme_status_is_ok(cmd->status)) {
		host_error_from_connect(&error, queue, cmd->status, (uint32_t)cmd->result);
		host_ctrl_fail(ctrl, -ECONNREFUSED, &error);
		return;
	}
	queue->phase = HOST_QUEUE_LIVE;
	ctrl->io_queues_connected++;
	if (ctrl->io_queues_connected == ctrl->io_queue_count)
		setup_complete(ctrl);
}

void host_setup_on_io_ready(struct host_queue *queue)
{
	connect_fill(queue, &queue->connect_cmd, queue->slot_count + 1);
	queue->connect_cmd.done = on_io_connect_done;
	host_queue_submit(queue, &queue->connect_cmd, queue->ctrl->config.connect_timeout_ms, true);
}

static void io_queues_open(struct host_ctrl *ctrl)
{
	int res = 0;

	if (ctrl->io_queue_count == 0) {
		setup_complete(ctrl);
		return;
	}
	ctrl->io = calloc(ctrl->io_queue_count, sizeof(*ctrl->io));
	if (ctrl->io == NULL)
		res = -ENOMEM;
	for (unsigned i = 0; res == 0 && i < ctrl->io_queue_count; i++) {
		res = host_queue_create(ctrl, (uint16_t)(i + 1), ctrl->io_queue_size, &ctrl->io[i]);
		if (res == 0) {
			ctrl->io[i]->in_capsule_max_bytes = ctrl->identity.in_capsule_bytes;
			res = host_queue_open(ctrl->io[i]);
		}
	}
	if (res != 0)
		step_fail(ctrl, res, "out of memory for the I/O queues");
}

/* ---- running the table ---------------------------------------------------------------------- */

static void on_step_done(struct host_cmd *cmd)
{
	struct host_ctrl *ctrl = container_of(cmd, struct host_ctrl, step_cmd);
	const struct setup_step *step = &setup_steps[ctrl->step];
	struct host_error error;

	if (ctrl->phase != HOST_CTRL_CONNECTING || ctrl->admin->phase == HOST_QUEUE_CLOSED)
		return;
	if (!nvme_status_is_ok(cmd->status)) {
		if (ctrl->step == 0)
			host_error_from_connect(&error, ctrl->admin, cmd->status,
						(uint32_t)cmd->result);
		else
			host_error_format(&error, cmd->status,
					  "%s of %s failed: %s (status 0x%03x)", step->name,
					  ctrl->config.subsystem_nqn, nvme_status_name(cmd->status),
					  cmd->status.value & 0x7ff);
		host_ctrl_fail(ctrl, ctrl->step == 0 ? -ECONNREFUSED : -EIO, &error);
		return;
	}
	switch (step->finish(ctrl, cmd->result)) {
	case STEP_NEXT:
		ctrl->step++;
		step_run(ctrl);
		break;
	case STEP_AGAIN:
		reactor_timer_arm(&ctrl->poll_timer,
				  reactor_now_ns(ctrl->reactor) + HOST_READY_POLL_MS * NS_PER_MS);
		break;
	case STEP_FAILED:
		break;
	}
}

static void step_cmd_clear(struct host_ctrl *ctrl, void (*done)(struct host_cmd *cmd))
{
	memset(&ctrl->step_cmd, 0, sizeof(ctrl->step_cmd));
	ctrl->step_cmd.done = done;
}

static void step_run(struct host_ctrl *ctrl)
{
	for (; ctrl->step < ARRAY_LEN(setup_steps); ctrl->step++) {
		step_cmd_clear(ctrl, on_step_done);
		if (setup_steps[ctrl->step].prepare(ctrl, &ctrl->step_cmd)) {
			host_queue_submit(ctrl->admin, &ctrl->step_cmd,
					  ctrl->config.command_timeout_ms, true);
			return;
		}
	}
	io_queues_open(ctrl);
}

void host_setup_start(struct host_ctrl *ctrl)
{
	host_watch_start(ctrl);
	ctrl->step = 0;
	step_run(ctrl);
}

/* ---- shutdown ------------------------------------------------------------------------------- */

static void shutdown_finish(struct host_ctrl *ctrl)
{
	if (ctrl->phase != HOST_CTRL_SHUTDOWN)
		return;
	ctrl->phase = HOST_CTRL_ENDING;
	host_watch_stop(ctrl);
	host_ctrl_close_queues(ctrl, true, "disconnected");
	reactor_defer(ctrl->reactor, &ctrl->settle);
}

static void shutdown_poll(struct host_ctrl *ctrl);

static void on_shutdown_status(struct host_cmd *cmd)
{
	struct host_ctrl *ctrl = container_of(cmd, struct host_ctrl, step_cmd);
	uint32_t shutdown_mask = CSTS_SHST_OCCURRING | CSTS_SHST_COMPLETE;

	if (ctrl->phase != HOST_CTRL_SHUTDOWN)
		return;
	if (!nvme_status_is_ok(cmd->status) ||
	    ((uint32_t)cmd->result & shutdown_mask) == CSTS_SHST_COMPLETE)
		shutdown_finish(ctrl);
	else
		reactor_timer_arm(&ctrl->poll_timer,
				  reactor_now_ns(ctrl->reactor) + HOST_READY_POLL_MS * NS_PER_MS);
}

static void shutdown_poll(struct host_ctrl *ctrl)
{
	step_cmd_clear(ctrl, on_shutdown_status);
	property_get(&ctrl->step_cmd, PROPERTY_CSTS, false);
	host_queue_submit(ctrl->admin, &ctrl->step_cmd, HOST_SHUTDOWN_TIMEOUT_MS, true);
}

static void on_shutdown_asked(struct host_cmd *cmd)
{
	struct host_ctrl *ctrl = container_of(cmd, struct host_ctrl, step_cmd);

	if (ctrl->phase != HOST_CTRL_SHUTDOWN)
		return;
	if (nvme_status_is_ok(cmd->status))
		shutdown_poll(ctrl);
	else
		shutdown_finish(ctrl);
}

void host_shutdown_start(struct host_ctrl *ctrl)
{
	ctrl->phase = HOST_CTRL_SHUTDOWN;
	reactor_timer_arm(&ctrl->setup_timer,
			  reactor_now_ns(ctrl->reactor) + HOST_SHUTDOWN_TIMEOUT_MS * NS_PER_MS);
	ctrl->cc.shutdown = 1;
	step_cmd_clear(ctrl, on_shutdown_asked);
	property_set_encode(&ctrl->step_cmd.sqe, PROPERTY_CC, cc_encode(&ctrl->cc), false);
	host_queue_submit(ctrl->admin, &ctrl->step_cmd, HOST_SHUTDOWN_TIMEOUT_MS, true);
}

/* ---- timers --------------------------------------------------------------------------------- */

static void on_setup_timer(struct reactor_timer *timer)
{
	struct host_ctrl *ctrl = container_of(timer, struct host_ctrl, setup_timer);
	struct host_error error;
	char addr[HOST_ADDR_TEXT_BYTES];

	if (ctrl->phase == HOST_CTRL_SHUTDOWN) {
		shutdown_finish(ctrl);
	} else if (ctrl->phase == HOST_CTRL_CONNECTING) {
		host_error_format(&error, NVME_SC_SUCCESS,
				  "cannot connect to %s: no answer within %u ms during %s",
				  host_addr_format(&ctrl->config.addr, addr),
				  ctrl->config.connect_timeout_ms, host_setup_step_name(ctrl));
		host_ctrl_fail(ctrl, -ETIMEDOUT, &error);
	}
}

static void on_poll_timer(struct reactor_timer *timer)
{
	struct host_ctrl *ctrl = container_of(timer, struct host_ctrl, poll_timer);

	if (ctrl->phase == HOST_CTRL_SHUTDOWN)
		shutdown_poll(ctrl);
	else if (ctrl->phase == HOST_CTRL_CONNECTING)
		step_run(ctrl);
}

void host_setup_init_timers(struct host_ctrl *ctrl)
{
	reactor_timer_init(ctrl->reactor, &ctrl->setup_timer, on_setup_timer);
	reactor_timer_init(ctrl->reactor, &ctrl->poll_timer, on_poll_timer);
}
