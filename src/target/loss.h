/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Media that have failed a flush: the kernel has given up writes that hosts were told are done.
 * Every host of the namespace must hear of it, also one that flushes only after a restart of the
 * target, or after the administrator has had the medium rechecked. So the namespace has a mark,
 * which Identify tells (wire/identify.h): another one after each failure, kept before the flush
 * that failed is answered. Hosts that are connected get a notice and read it again.
 *
 * What changes it runs on the control reactor.
 */
#ifndef WEFT_TARGET_LOSS_H
#define WEFT_TARGET_LOSS_H

#include "target/slot.h"

struct ctrl;
struct ns;
struct target;

/* Any reactor, after an operation has failed: its medium has lost writes, and the mark is of before
 * that. */
bool loss_is_news(const struct ns *ns);
/*
 * On the slot's reactor: a Flush has succeeded, and yet its host's writes may be lost. Its medium
 * has failed another one meanwhile, for a kernel tells of a loss only once; or that was before, an
 * administrator has had the namespace rechecked since, and the host does not know the mark.
 */
bool loss_is_missed(const struct slot *slot);
/* On the slot's reactor: the command, of one namespace or of all, is answered with `status` when
 * the marks are kept. */
void loss_answer(struct slot *slot, nvme_status status);
/* The same for what is no command: on the reactor of `ctrl`, which gets `done` when the mark is
 * kept. The namespace's snapshot stays until then. */
struct loss_note {
	struct reactor_msg msg;
	struct ctrl *ctrl;
	const struct ns *ns;
	void (*done)(struct loss_note *note);
};
void loss_note(struct loss_note *note);
/* Control reactor, at the end of the target: this one could not be flushed. 0, or -errno: the mark
 * could not be kept. Of a medium that is lost there may be nothing to flush, and no loss. */
int loss_at_end(struct target *target, const struct ns *ns);

#endif
