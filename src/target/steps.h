/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that consist of several media operations, one after the other: Copy, Verify, Dataset
 * Management. Private to target/. Runs on the queue's reactor.
 *
 * slot->steps.next does one step at a time. next is called with the result of the previous step (0
 * at first). next either submits an operation with steps_submit and returns true, or ends the
 * command and returns false. Media that complete at once do not hold the reactor: after some steps
 * the rest waits for the next turn. An Abort takes effect before a step: the step is not done, and
 * next is called with -ECANCELED. A command that is no longer allowed ends in the same way, with
 * IO_REFUSED (target/reach.h). A command whose last step is done is complete: neither can end it.
 * slot->has_changed is set from the first step on that has changed blocks.
 */
#ifndef WEFT_TARGET_STEPS_H
#define WEFT_TARGET_STEPS_H

#include "target/io.h"

/* The most that one step moves. Buffers of commands with steps are of this size class. */
#define STEP_BUF_BYTES (128u * 1024)

void steps_begin(struct slot *slot, bool (*next)(struct slot *slot, int res));
/* Does the step that slot->io_cmd and slot->iov describe. */
void steps_submit(struct slot *slot, const struct ns *ns, enum media_kind kind);

#endif
