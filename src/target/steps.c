/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of commands with several steps. See steps.h. Runs on the queue's reactor.
 *
 * A medium may call back from inside its submit: is_in_submit tells steps_io_done that the loop is
 * below it on the stack and goes on by itself, so that steps do not pile up there.
 */
#include "target/steps.h"

#include <errno.h>

/* As many steps of memory as take about a quarter of a millisecond. */
#define STEPS_PER_TURN 8

static void steps_run(struct slot *slot);

static void steps_resume(struct reactor_msg *msg)
{
	steps_run(container_of(msg, struct slot, msg));
}

static void steps_run(struct slot *slot)
{
	for (unsigned i = 0; i < STEPS_PER_TURN; i++) {
		if (slot->steps.res == 0 && slot->is_abort_requested)
			slot->steps.res = -ECANCELED;
		slot->is_in_submit = true;
		if (!slot->steps.next(slot, slot->steps.res))
			return;
		if (slot->is_in_submit) {
			slot->is_in_submit = false; /* steps_io_done goes on */
			return;
		}
	}
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

void steps_io_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	slot->steps.res = res;
	slot->cancel = NULL; /* between two steps steps_run looks whether it is to end */
	if (slot->is_in_submit)
		slot->is_in_submit = false; /* steps_run is below us and goes on */
	else
		steps_run(slot);
}
