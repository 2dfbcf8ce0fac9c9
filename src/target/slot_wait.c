/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the waits of commands end early (enum slot_wait in slot.h), and visits of a slot to another
 * reactor. Runs on the queue's reactor, but for the middle of a visit.
 *
 * The code that makes a command wait sets slot->wait. The code that ends the wait sets another wait
 * or SLOT_WAIT_NONE. slot_complete ends every wait.
 */
#include "target/command.h"
#include "target/control_work.h"
#include "target/fused.h"
#include "target/io.h"
#include "target/manage.h"

static const struct {
	/* Ends the wait at once or soon. NULL: enum slot_wait has the reason and the bound. */
	void (*cancel)(struct slot *slot);
	/* Cancelled as soon as the queue begins to close. All other waits end by themselves, unless
	 * the queue closes in a hurry (queue_cancel_all). */
	bool ends_on_closing;
} waits[SLOT_WAITS] = {
	[SLOT_WAIT_BUFFER] = {.cancel = slot_cancel_buffer},
	[SLOT_WAIT_HOLD] = {.cancel = io_cancel_hold},
	[SLOT_WAIT_BUDGET] = {.cancel = io_cancel_turn},
	[SLOT_WAIT_MEDIUM] = {.cancel = io_cancel_medium},
	[SLOT_WAIT_MEDIA] = {.cancel = flush_all_cancel},
	[SLOT_WAIT_PARTNER] = {.cancel = fused_cancel_ready, .ends_on_closing = true},
	[SLOT_WAIT_GATE_OF_PARTNER] = {.cancel = fused_cancel_gate},
	[SLOT_WAIT_CONTROL] = {.cancel = control_work_cancel, .ends_on_closing = true},
	[SLOT_WAIT_MANAGE] = {.cancel = manage_cancel, .ends_on_closing = true},
	[SLOT_WAIT_EVENT] = {.cancel = async_event_cancel},
	[SLOT_WAIT_RESET] = {.cancel = ctrl_reset_cancel},
};

void slot_cancel(struct slot *slot)
{
	CHECK_OWNER(slot->queue);
	slot->is_abort_requested = true;
	if (waits[slot->wait].cancel)
		waits[slot->wait].cancel(slot);
}

/* A command that waits for its host gets no answer any more. An Abort that waits for such a command
 * must not wait on: the Abort may be on this queue, which closes only when nothing runs on it. */
void slot_on_closing(struct slot *slot)
{
	bool has_begun = slot->state == SLOT_EXECUTING || slot->state == SLOT_RESPONDING;

	if (slot->aborter && !has_begun)
		slot_let_aborter_go(slot);
	if (waits[slot->wait].ends_on_closing && !slot->is_abort_requested)
		slot_cancel(slot);
}

/* ---- visits --------------------------------------------------------------------------------- */

static void visit_home(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);

	slot->wait = SLOT_WAIT_NONE;
	if (slot->visit.home)
		slot->visit.home(slot);
	else
		slot_complete(slot, slot->status);
}

static void visit_there(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);

	slot->visit.there(slot);
	reactor_post(slot->queue->reactor, &slot->msg, visit_home);
}

void slot_visit(struct slot *slot, struct reactor *reactor, void (*there)(struct slot *slot),
		void (*home)(struct slot *slot))
{
	slot->wait = SLOT_WAIT_VISIT;
	slot->visit.there = there;
	slot->visit.home = home;
	reactor_post(reactor, &slot->msg, visit_there);
}
