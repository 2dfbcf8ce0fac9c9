/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of which the control reactor does a part: reservations and their persistence, marks of
 * bad blocks, and reads of state that the control reactor owns. The slot travels to the control
 * reactor, waits there in a rota (target/rota.h), is served, and returns to be answered.
 *
 * Control work and requests (target/manage.h) are the only ways of a host's command to the control
 * reactor. tools/layers refuses a reactor_post to the control reactor in any other file of target/.
 *
 * A waiting command that is no longer wanted returns at once: its queue closes, its host was silent
 * for longer than KATO, or the command was cancelled by Abort, by Preempt and Abort, or by a
 * barrier. A command that finds the rota full is answered with Command Interrupted, which hosts
 * retry.
 */
#ifndef WEFT_TARGET_CONTROL_WORK_H
#define WEFT_TARGET_CONTROL_WORK_H

#include "reactor/reactor.h"
#include "target/rota.h"
#include "wire/status.h"

#include <stdatomic.h>

struct slot;
struct target;

struct control_work {
	struct target *target;
	/* Called on the control reactor. control_work_answer must follow. */
	void (*serve)(struct slot *slot);
	/* Owned by the control reactor. */
	struct rota rota;
	struct reactor_msg msg; /* serves the next command */
	bool is_posted;
	/* Used by any reactor that makes a command unwanted. */
	struct reactor_msg sweep_msg;
	atomic_bool is_sweep_posted;
};

/* A command that reads state of the control reactor: one per kind of command. */
struct control_read {
	/* Called on the control reactor. control_work_answer must follow. */
	void (*serve)(struct slot *slot);
	/* Called on the slot's reactor, when the slot is back. Completes the command. An error in
	 * slot->status: `serve` was not called. */
	void (*home)(struct slot *slot);
};

void control_work_init(struct control_work *work, struct target *target,
		       const struct rota_limits *limits, void (*serve)(struct slot *slot));
/* On the slot's reactor, while the command executes. slot->status is the status for
 * control_work_answer if the command succeeds. */
void control_work_submit(struct control_work *work, struct slot *slot);
/* As control_work_submit, for a command that only reads. */
void control_work_read(struct slot *slot, const struct control_read *read);
/* Call before the first control_work_read. */
void control_reads_init(struct target *target);
/* For slot_wait.c. */
void control_work_cancel(struct slot *slot);
/* On the control reactor, from `serve` on: ends the turn of the command, so that another command of
 * the host may be served before this command is answered. */
void control_work_leave(struct slot *slot);
/* On the control reactor: takes the command whose turn is next, to be served together with the
 * command that is being served, if `matches` agrees. Else NULL. */
struct slot *control_work_take_also(struct control_work *work,
				    bool (*matches)(const struct slot *slot, const void *arg),
				    const void *arg);
/* On the control reactor, from `serve` on: ends the turn of the command, which waits for another
 * turn behind the other commands of its host. */
void control_work_again(struct slot *slot);
/* On the control reactor, once per command. Gives the slot back to its reactor. */
void control_work_answer(struct slot *slot, nvme_status status);

#endif
