/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches a controller: command time-outs, silence, keep alive, asynchronous events. Runs on the
 * controller's reactor. NVMe Base 2.1, sections 3.9 (keep alive) and 5.1.2 (events).
 *
 * A command that times out ends the controller: over TCP nothing else can make sure that its buffer
 * is not written later. Keep Alive is sent every half of KATO. A controller that counts traffic
 * (TBKAS) gets a Keep Alive only when a quarter of KATO passed without a command.
 *
 * Silence (silence_timeout_ms): a controller that owes an answer and has been silent for a third of
 * the limit is sent a Keep Alive. When no byte comes for the whole limit, or for four round trips
 * of the transport if that is longer, the controller is lost. A slow medium does not count as
 * silence, because the admin queue answers. No timer runs while no answer is owed.
 */
#include "base/clock.h"
#include "base/log.h"
#include "host/host_internal.h"
#include "host/timeouts.h"

#include <errno.h>

#define SILENCE_ROUND_TRIPS 4 /* the limit is at least this many round trips of the transport */

static void watch_arm(struct host_ctrl *ctrl)
{
	uint64_t look_ms = host_timeouts_look_ms(ctrl->config.command_timeout_ms);

	reactor_timer_arm(&ctrl->watch_timer, reactor_now_ns(ctrl->reactor) + look_ms * NS_PER_MS);
}

static void late_fail(struct host_ctrl *ctrl, const struct host_slot *slot)
{
	uint8_t opcode = slot->cmd->sqe.opcode;
	bool is_admin = slot->queue->qid == 0;
	uint64_t waited_ms = (reactor_now_ns(ctrl->reactor) - slot->sent_ns) / NS_PER_MS;
	struct host_error error;

	host_error_format(&error, NVME_SC_HOST_PATHING_ERROR,
			  "%s (opcode 0x%02x, CID %u, queue %u) was not answered for %lu ms",
			  is_admin ? nvme_admin_opcode_name(opcode) : nvme_io_opcode_name(opcode),
			  opcode, slot->index, slot->queue->qid, (unsigned long)waited_ms);
	host_ctrl_fail(ctrl, -ETIMEDOUT, &error);
}

static void on_watch_timer(struct reactor_timer *timer)
{
	struct host_ctrl *ctrl = container_of(timer, struct host_ctrl, watch_timer);
	uint64_t now_ns = reactor_now_ns(ctrl->reactor);
	bool is_waiting = false;
	const struct host_slot *slot = host_queue_find_late(ctrl->admin, now_ns, &is_waiting);

	for (unsigned i = 0; slot == NULL && ctrl->io != NULL && i < ctrl->io_queue_count; i++)
		if (ctrl->io[i] != NULL)
			slot = host_queue_find_late(ctrl->io[i], now_ns, &is_waiting);
	if (slot != NULL)
		late_fail(ctrl, slot);
	else if (is_waiting)
		watch_arm(ctrl);
}

static uint64_t silence_third_ns(const struct host_ctrl *ctrl)
{
	return ctrl->config.silence_timeout_ms * NS_PER_MS / 3;
}

void host_watch_arm(struct host_ctrl *ctrl)
{
	if (ctrl->is_watched && !ctrl->watch_timer.armed)
		watch_arm(ctrl);
	if (ctrl->config.silence_timeout_ms > 0 && !ctrl->silence_timer.armed &&
	    ctrl->phase == HOST_CTRL_LIVE)
		reactor_timer_arm(&ctrl->silence_timer,
				  reactor_now_ns(ctrl->reactor) + silence_third_ns(ctrl));
}

/* ---- keep alive ----------------------------------------------------------------------------- */

static void keep_alive_arm(struct host_ctrl *ctrl)
{
	uint64_t divisor = ctrl->identity.has_traffic_keep_alive ? 4 : 2;

	reactor_timer_arm(&ctrl->keep_alive_timer,
			  reactor_now_ns(ctrl->reactor) +
				  ctrl->config.kato_ms * NS_PER_MS / divisor);
}

static void on_keep_alive_done(struct host_cmd *cmd)
{
	struct host_ctrl *ctrl = container_of(cmd, struct host_ctrl, keep_alive_cmd);
	struct host_error error;

	ctrl->is_keep_alive_busy = false;
	/* Without KATO the Keep Alive only probes for life: any completion counts as an answer. */
	if (nvme_status_is_ok(cmd->status) || ctrl->phase != HOST_CTRL_LIVE ||
	    ctrl->config.kato_ms == 0)
		return;
	host_error_format(&error, cmd->status, "Keep Alive failed: %s (status 0x%03x)",
			  nvme_status_name(cmd->status), cmd->status.value & 0x7ff);
	host_ctrl_fail(ctrl, -EIO, &error);
}

static void keep_alive_send(struct host_ctrl *ctrl)
{
	uint32_t timeout_ms = ctrl->config.kato_ms;

	if (timeout_ms == 0)
		timeout_ms = ctrl->config.command_timeout_ms;
	memset(&ctrl->keep_alive_cmd, 0, sizeof(ctrl->keep_alive_cmd));
	ctrl->keep_alive_cmd.sqe.opcode = NVME_ADMIN_KEEP_ALIVE;
	ctrl->keep_alive_cmd.done = on_keep_alive_done;
	ctrl->is_keep_alive_busy = true;
	host_queue_submit(ctrl->admin, &ctrl->keep_alive_cmd, timeout_ms, true);
}

static void on_keep_alive_timer(struct reactor_timer *timer)
{
	struct host_ctrl *ctrl = container_of(timer, struct host_ctrl, keep_alive_timer);
	bool has_traffic = ctrl->commands_sent != ctrl->commands_at_last_tick;

	keep_alive_arm(ctrl);
	ctrl->commands_at_last_tick = ctrl->commands_sent;
	if (ctrl->is_keep_alive_busy || (has_traffic && ctrl->identity.has_traffic_keep_alive))
		return;
	keep_alive_send(ctrl);
	/* A Keep Alive does not count as traffic. */
	ctrl->commands_at_last_tick = ctrl->commands_sent;
}

/* ---- silence -------------------------------------------------------------------------------- */

/* Since when a queue that owes an answer is silent. False: the queue owes no answer. */
static bool queue_silent_since(const struct host_queue *queue, uint64_t now_ns, uint64_t *ret_ns)
{
	uint64_t since_ns, oldest_ns;

	if (queue == NULL || queue->phase != HOST_QUEUE_LIVE || host_queue_owed(queue) == 0)
		return false;
	since_ns = queue->heard_ns;
	/* The search may visit many slots, so make it only when the result can matter. */
	if (now_ns - since_ns >= silence_third_ns(queue->ctrl)) {
		oldest_ns = host_queue_oldest_ns(queue);
		if (oldest_ns > since_ns)
			since_ns = oldest_ns;
	}
	*ret_ns = since_ns;
	return true;
}

/* Finds the queue that has been silent longest. */
static const struct host_queue *silent_find(const struct host_ctrl *ctrl, uint64_t now_ns,
					    uint64_t *ret_since_ns)
{
	const struct host_queue *found = NULL;
	uint64_t since_ns;

	*ret_since_ns = UINT64_MAX;
	if (queue_silent_since(ctrl->admin, now_ns, ret_since_ns))
		found = ctrl->admin;
	for (unsigned i = 0; ctrl->io != NULL && i < ctrl->io_queue_count; i++) {
		if (!queue_silent_since(ctrl->io[i], now_ns, &since_ns) ||
		    since_ns >= *ret_since_ns)
			continue;
		found = ctrl->io[i];
		*ret_since_ns = since_ns;
	}
	return found;
}

static void silence_fail(struct host_ctrl *ctrl, const struct host_queue *queue, uint64_t silent_ns)
{
	struct host_error error;
	char addr[HOST_ADDR_TEXT_BYTES];

	host_error_format(&error, NVME_SC_HOST_PATHING_ERROR,
			  "nothing received from %s for %lu ms, not even an answer to Keep Alive, "
			  "while queue %u waits for %u answers",
			  host_addr_format(&ctrl->config.addr, addr),
			  (unsigned long)(silent_ns / NS_PER_MS), queue->qid,
			  host_queue_owed(queue));
	host_ctrl_fail(ctrl, -ETIMEDOUT, &error);
}

/* The limit for silence. On a link with long round trips a healthy answer may take longer than
 * silence_timeout_ms. */
static uint64_t silence_limit_ns(struct host_ctrl *ctrl)
{
	uint64_t limit_ns = ctrl->config.silence_timeout_ms * NS_PER_MS;
	struct host_queue_stats stats;

	host_queue_stats(ctrl->admin, &stats);
	return stats.rtt_ns > limit_ns / SILENCE_ROUND_TRIPS ? stats.rtt_ns * SILENCE_ROUND_TRIPS
							     : limit_ns;
}

static void on_silence_timer(struct reactor_timer *timer)
{
	struct host_ctrl *ctrl = container_of(timer, struct host_ctrl, silence_timer);
	uint64_t now_ns = reactor_now_ns(ctrl->reactor);
	uint64_t silence_ns = silence_limit_ns(ctrl), third_ns = silence_ns / 3;
	uint64_t since_ns, next_ns;
	const struct host_queue *queue;

	/* This thread ran late: bytes that came meanwhile have not been read yet. Count silence
	 * from now. */
	if (now_ns - timer->deadline_ns > silence_third_ns(ctrl) / 2)
		ctrl->silence_floor_ns = now_ns;
	queue = silent_find(ctrl, now_ns, &since_ns);
	if (queue == NULL)
		return;
	if (ctrl->admin->heard_ns > since_ns)
		since_ns = ctrl->admin->heard_ns;
	if (ctrl->silence_floor_ns > since_ns)
		since_ns = ctrl->silence_floor_ns;
	next_ns = since_ns + third_ns;
	if (now_ns >= next_ns) {
		if (!ctrl->is_keep_alive_busy)
			keep_alive_send(ctrl);
		/* A Keep Alive that was sent late still gets a third of the limit for its
		 * answer. */
		next_ns = since_ns + silence_ns;
		if (next_ns < ctrl->keep_alive_cmd.started_ns + third_ns)
			next_ns = ctrl->keep_alive_cmd.started_ns + third_ns;
	}
	if (now_ns >= next_ns)
		silence_fail(ctrl, queue, now_ns - since_ns);
	else
		reactor_timer_arm(&ctrl->silence_timer, next_ns);
}

/* ---- asynchronous events -------------------------------------------------------------------- */

static void event_ask(struct host_ctrl *ctrl);

static void on_event(struct host_cmd *cmd)
{
	struct host_ctrl *ctrl = container_of(cmd, struct host_ctrl, event_cmd);
	struct async_event event;

	if (ctrl->phase != HOST_CTRL_LIVE)
		return;
	if (!nvme_status_is_ok(cmd->status)) {
		log_limited(LOG_LEVEL_WARN, "host", "asynchronous events ended: %s",
			    nvme_status_name(cmd->status));
		return;
	}
	event = async_event_decode((uint32_t)cmd->result);
	event_ask(ctrl);
	ctrl->callbacks.event(ctrl, ctrl->arg, &event);
}

static void event_ask(struct host_ctrl *ctrl)
{
	memset(&ctrl->event_cmd, 0, sizeof(ctrl->event_cmd));
	ctrl->event_cmd.sqe.opcode = NVME_ADMIN_ASYNC_EVENT;
	ctrl->event_cmd.done = on_event;
	host_queue_submit(ctrl->admin, &ctrl->event_cmd, 0, true);
}

/* ---- life ----------------------------------------------------------------------------------- */

void host_watch_init(struct host_ctrl *ctrl)
{
	reactor_timer_init(ctrl->reactor, &ctrl->watch_timer, on_watch_timer);
	reactor_timer_init(ctrl->reactor, &ctrl->keep_alive_timer, on_keep_alive_timer);
	reactor_timer_init(ctrl->reactor, &ctrl->silence_timer, on_silence_timer);
}

void host_watch_start(struct host_ctrl *ctrl)
{
	ctrl->is_watched = true;
	watch_arm(ctrl);
}

void host_watch_start_live(struct host_ctrl *ctrl)
{
	if (ctrl->config.kato_ms > 0)
		keep_alive_arm(ctrl);
	if (ctrl->callbacks.event != NULL)
		event_ask(ctrl);
}

void host_watch_stop(struct host_ctrl *ctrl)
{
	ctrl->is_watched = false;
	reactor_timer_cancel(&ctrl->setup_timer);
	reactor_timer_cancel(&ctrl->poll_timer);
	reactor_timer_cancel(&ctrl->watch_timer);
	reactor_timer_cancel(&ctrl->keep_alive_timer);
	reactor_timer_cancel(&ctrl->silence_timer);
}
