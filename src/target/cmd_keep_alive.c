/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keep alive, with traffic counted (TBKAS). NVMe Base 2.1, section 3.9.
 *
 * Each command, on any queue and reactor, notes its time coarsely. Each controller has one timer,
 * on its reactor, which ends the controller when the last command is KATO ago. The queues drain
 * first, so that nothing of the lost host reaches a medium afterwards.
 *
 * A target that stood still (stopped, or its machine was) must not run what waits in its sockets
 * when it continues: the host may have sent those commands elsewhere. Therefore ctrl_is_in_time is
 * called before data is taken from a socket, a command begins or a medium is used. The first late
 * call ends the controller, before the timer does. A host without keep alive (KATO 0) could keep
 * its controllers for ever: they end after limits.idle_timeout_ms without a command. TCP's
 * keepalive probes find a dead peer sooner.
 */
#include "base/clock.h"
#include "base/log.h"
#include "target/command.h"
#include "target/host_share.h"
#include "target/local.h"

/*
 * The longest silence after the last command of a host. After that, nothing of the host may begin.
 * Always longer than KATO, because the time of a command is noted coarsely. A host waits for CQT
 * after KATO. A quarter of CQT is for a machine that was too busy to check in time. The rest of CQT
 * is for commands to end.
 */
static uint64_t silence_max_ns(const struct ctrl *ctrl)
{
	uint64_t slack_ns = ctrl->local->snapshot->limits.quiesce_ms * NS_PER_MS / 4;

	if (ctrl->kato_ms == 0)
		return 0;
	if (slack_ns < CTRL_TRAFFIC_STEP_NS)
		slack_ns = CTRL_TRAFFIC_STEP_NS;
	return ctrl->kato_ms * NS_PER_MS + slack_ns;
}

static void ctrl_expire(struct ctrl *ctrl)
{
	if (ctrl->state != CTRL_LIVE)
		return;
	log_of_peer(&ctrl->share_of_addr->lines, LOG_LEVEL_WARN, "target",
		    "controller %u: host %s: keep alive expired after %u ms", ctrl->cntlid,
		    ctrl->host_nqn, ctrl->kato_ms);
	atomic_fetch_add(&ctrl->target->keep_alive_expiries, 1);
	ctrl->csts |= CSTS_CFS;
	ctrl_tell_lost(ctrl, LOST_HOST_KEEP_ALIVE);
	ctrl_end(ctrl, "keep alive expired");
	ctrl_cancel_io_queues(ctrl);
}

/* On the controller's reactor, after a queue has found its host silent for too long. */
static void ctrl_expire_here(struct reactor_msg *msg)
{
	ctrl_expire(container_of(msg, struct ctrl, silent_msg));
}

bool ctrl_is_late(struct ctrl *ctrl)
{
	/* The controller outlives this message: the caller's queue is attached to the
	 * controller. */
	if (!atomic_exchange_explicit(&ctrl->is_silent, true, memory_order_relaxed))
		reactor_post(ctrl->reactor, &ctrl->silent_msg, ctrl_expire_here);
	return true;
}

bool ctrl_note_traffic_after(struct ctrl *ctrl, uint64_t now_ns, uint64_t last_ns)
{
	unsigned long expected = last_ns;

	if (!ctrl_is_in_time(ctrl, now_ns) ||
	    atomic_load_explicit(&ctrl->is_silent, memory_order_relaxed))
		return false;
	/* The exchange fails only when another command has just noted its time. */
	if (now_ns > last_ns)
		atomic_compare_exchange_strong_explicit(&ctrl->silence.last_ns, &expected, now_ns,
							memory_order_relaxed, memory_order_relaxed);
	return true;
}

static void keep_alive_arm(struct ctrl *ctrl)
{
	uint64_t last_ns = atomic_load_explicit(&ctrl->silence.last_ns, memory_order_relaxed);
	uint64_t max_ns = atomic_load_explicit(&ctrl->silence.max_ns, memory_order_relaxed);

	reactor_timer_arm(&ctrl->keep_alive, last_ns + max_ns + 1);
}

/* ---- without keep alive ---------------------------------------------------------------------- */

static void idle_arm(struct ctrl *ctrl)
{
	uint64_t last_ns = atomic_load_explicit(&ctrl->silence.last_ns, memory_order_relaxed);
	uint64_t now_ns = reactor_now_ns(ctrl->reactor);
	uint64_t due_ns = last_ns + ctrl->idle_max_ms * NS_PER_MS + CTRL_TRAFFIC_STEP_NS;

	/* A command takes long: check again after the same time. */
	reactor_timer_arm(&ctrl->keep_alive,
			  due_ns > now_ns ? due_ns : now_ns + ctrl->idle_max_ms * NS_PER_MS);
}

/* Held event requests wait for ever and do not count. */
static bool ctrl_is_busy(const struct ctrl *ctrl)
{
	return ctrl->admin && ctrl->admin->busy_count > ctrl->aer_count;
}

static void ctrl_idle_check(struct ctrl *ctrl)
{
	uint64_t last_ns = atomic_load_explicit(&ctrl->silence.last_ns, memory_order_relaxed);
	uint64_t now_ns = reactor_now_ns(ctrl->reactor);

	if (now_ns - last_ns < ctrl->idle_max_ms * NS_PER_MS || ctrl_is_busy(ctrl))
		idle_arm(ctrl);
	else
		ctrl_end(ctrl, "no Keep Alive and no other command for limits.idle_timeout_ms");
}

void ctrl_idle_limit_changed(struct ctrl *ctrl)
{
	if (ctrl->kato_ms == 0 &&
	    ctrl->idle_max_ms != ctrl->local->snapshot->limits.idle_timeout_ms)
		ctrl_keep_alive_start(ctrl);
}

/* ---- the timer ------------------------------------------------------------------------------- */

static void on_keep_alive(struct reactor_timer *timer)
{
	struct ctrl *ctrl = container_of(timer, struct ctrl, keep_alive);

	if (ctrl->kato_ms == 0)
		ctrl_idle_check(ctrl);
	else if (ctrl_is_in_time(ctrl, reactor_now_ns(ctrl->reactor)))
		keep_alive_arm(ctrl);
}

void ctrl_keep_alive_start(struct ctrl *ctrl)
{
	CHECK_OWNER(ctrl);
	if (!ctrl->keep_alive.reactor)
		reactor_timer_init(ctrl->reactor, &ctrl->keep_alive, on_keep_alive);
	reactor_timer_cancel(&ctrl->keep_alive);
	/* A command that ends after its controller must not arm a timer in memory that is about to
	 * be freed. */
	if (ctrl->state != CTRL_LIVE)
		return;
	atomic_store_explicit(&ctrl->silence.max_ns, silence_max_ns(ctrl), memory_order_relaxed);
	ctrl->idle_max_ms = ctrl->local->snapshot->limits.idle_timeout_ms;
	if (ctrl->kato_ms > 0)
		keep_alive_arm(ctrl);
	else if (ctrl->idle_max_ms > 0)
		idle_arm(ctrl);
}

void ctrl_keep_alive_stop(struct ctrl *ctrl)
{
	if (ctrl->keep_alive.reactor)
		reactor_timer_cancel(&ctrl->keep_alive);
}

static void keep_alive_execute(struct slot *slot)
{
	ctrl_keep_alive_start(slot->queue->ctrl);
	slot_complete(slot, NVME_SC_SUCCESS);
}

nvme_status keep_alive_prepare(struct slot *slot)
{
	slot->execute = keep_alive_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
