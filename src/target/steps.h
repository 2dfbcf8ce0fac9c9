/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that are many operations on media, one after the other: Copy, Verify, Dataset
 * Management. Private to target/; runs on the queue's reactor.
 *
 * slot->steps.next does one step at a time: it is called with the result of the former one (0 at
 * first), and either submits an operation with steps_io_done as its end and returns true, or ends
 * the command and returns false. Media that complete at once do not hold the reactor: after some
 * steps the rest waits for the next turn. An Abort takes effect between two steps: next is then
 * called with -ECANCELED, unless the step itself has failed.
 */
#ifndef WEFT_TARGET_STEPS_H
#define WEFT_TARGET_STEPS_H

#include "target/io.h"

/* One step moves no more than this: the buffers of commands with steps are of this class. */
#define STEP_BUF_BYTES (128u * 1024)

void steps_begin(struct slot *slot, bool (*next)(struct slot *slot, int res));
void steps_io_done(struct media_io *io, int res);

#endif
