/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Media that have failed a flush: the kernel has discarded writes that were acknowledged to hosts.
 * Changes of marks run on the control reactor.
 *
 * Every host of the namespace must hear of the loss, including a host that flushes only after a
 * restart of the target or after the administrator has rechecked the medium. So the namespace has a
 * mark, which Identify reports (wire/identify.h). Each failure draws another mark, which is kept
 * before the failed flush is answered. Connected hosts get a notice and read the mark again.
 */
#ifndef WEFT_TARGET_LOSS_H
#define WEFT_TARGET_LOSS_H

#include "target/slot.h"

struct ctrl;
struct ns;
struct target;

/* True when the medium has lost writes and the mark was drawn before that loss. Any reactor, after
 * an operation has failed. */
bool loss_is_news(const struct ns *ns);
/*
 * True when a Flush succeeded and yet writes of its host may be lost. On the slot's reactor.
 *
 * There are two cases. The medium failed another flush meanwhile: the kernel reports a loss only
 * once. Or the medium failed before, an administrator has rechecked the namespace since, and the
 * host does not know the new mark.
 */
bool loss_is_missed(const struct slot *slot);
/* Draws the marks needed for the slot's namespace, or for all namespaces, and completes the command
 * with `status` when the marks are kept. On the slot's reactor. */
void loss_answer(struct slot *slot, nvme_status status);
/* As loss_answer, for a flush that is no command. Called on the reactor of `ctrl`, where `done` is
 * called when the mark is kept. The caller keeps the snapshot of `ns` in use until then. */
struct loss_note {
	struct reactor_msg msg;
	struct ctrl *ctrl;
	const struct ns *ns;
	void (*done)(struct loss_note *note);
};
void loss_note(struct loss_note *note);
/* At the end of the target, on the control reactor: this namespace could not be flushed. Draws a
 * mark. Returns 0, or -errno when the mark could not be kept. A lost medium without writes since a
 * clean end has lost nothing: then no mark is drawn. */
int loss_at_end(struct target *target, const struct ns *ns);

#endif
