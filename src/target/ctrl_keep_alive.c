/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keep alive, with traffic counted (TBKAS). NVMe Base 2.1, section 3.9.
 *
 * One timer per controller, on its reactor. Any command on any queue marks the interval as alive;
 * at its end the mark is taken off and the timer starts again, or, without a mark, the controller
 * ends: its queues drain first, so nothing of the lost host reaches the medium afterwards.
 */
#include "base/clock.h"
#include "base/log.h"
#include "target/command.h"
#include "target/local.h"

static void keep_alive_expired(struct reactor_timer *timer)
{
	struct ctrl *ctrl = container_of(timer, struct ctrl, keep_alive);

	if (atomic_exchange_explicit(&ctrl->has_traffic, false, memory_order_relaxed)) {
		ctrl_keep_alive_start(ctrl);
		return;
	}
	log_warn("target", "controller %u: host %s: keep alive expired after %u ms", ctrl->cntlid,
		 ctrl->host_nqn, ctrl->kato_ms);
	atomic_fetch_add(&ctrl->target->keep_alive_expiries, 1);
	ctrl->csts |= CSTS_CFS;
	ctrl_end(ctrl, "keep alive expired");
	ctrl_cancel_io_queues(ctrl);
}

void ctrl_keep_alive_start(struct ctrl *ctrl)
{
	CHECK_OWNER(ctrl);
	if (!ctrl->keep_alive.reactor)
		reactor_timer_init(ctrl->reactor, &ctrl->keep_alive, keep_alive_expired);
	/* A command that ends after its controller must not arm a timer in memory that goes. */
	if (ctrl->kato_ms == 0 || ctrl->state != CTRL_LIVE) {
		reactor_timer_cancel(&ctrl->keep_alive);
		return;
	}
	reactor_timer_arm(&ctrl->keep_alive,
			  reactor_now_ns(ctrl->reactor) + ctrl->kato_ms * NS_PER_MS);
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
