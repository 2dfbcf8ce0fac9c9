/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of commands with several steps. See steps.h. Runs on the queue's reactor.
 *
 * A medium may call steps_io_done from inside its submit. is_in_submit then shows that steps_run is
 * already on the stack and continues by itself. The stack therefore does not grow with the number
 * of steps.
 */
#include "target/steps.h"

#include "target/reach.h"

#include <errno.h>

/* On memory media, this many steps take about a quarter of a millisecond. */
#define STEPS_PER_TURN 8

static void steps_run(struct slot *slot);

static void steps_resume(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);

	slot->wait = SLOT_WAIT_NONE;
	steps_run(slot);
}

static void steps_run(struct slot *slot)
{
	for (unsigned i = 0; i < STEPS_PER_TURN; i++) {
		slot->is_in_submit = true;
		if (!slot->steps.next(slot, slot->steps.res))
			return;
		if (slot->is_in_submit) {
			slot->is_in_submit = false; /* steps_io_done continues the loop */
			return;
		}
	}
	slot->wait = SLOT_WAIT_TURN;
	reactor_post(slot->queue->reactor, &slot->msg, steps_resume);
}

void steps_begin(struct slot *slot, bool (*next)(struct slot *slot, int res))
{
	slot->steps.next = next;
	slot->steps.res = 0;
	slot->steps.index = 0;
	slot->steps.at_block = 0;
	slot->steps.step_blocks = 0;
	slot->steps.done_blocks = 0;
	steps_run(slot);
}

static void steps_io_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	slot->steps.res = res;
	/* Also a step that failed or was cancelled may have changed some blocks. */
	slot->has_changed |= res != IO_REFUSED && io->kind != MEDIA_READ;
	slot->wait = SLOT_WAIT_NONE; /* until the next step, which checks is_abort_requested */
	if (slot->is_in_submit)
		slot->is_in_submit = false; /* steps_run is on the stack and continues the loop */
	else
		steps_run(slot);
}

/* Changes may have been answered since the previous step. */
static int steps_judge(struct slot *slot)
{
	if (slot->is_abort_requested)
		return -ECANCELED;
	return nvme_status_is_ok(slot_judge_piece(slot)) ? 0 : IO_REFUSED;
}

void steps_submit(struct slot *slot, const struct ns *ns, enum media_kind kind)
{
	int res = steps_judge(slot);

	slot->io.kind = kind;
	if (res == 0)
		io_submit(slot, ns, kind, 0, steps_io_done);
	else
		steps_io_done(&slot->io, res);
}
