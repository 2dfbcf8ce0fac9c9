/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of I/O queues of which the control reactor does a part: reservations, and marks of bad
 * blocks. The slot travels to the control reactor, waits there in a rota (target/rota.h), is
 * served, and returns to be answered.
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

struct queue;
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

void control_work_init(struct control_work *work, struct target *target,
		       const struct rota_limits *limits, void (*serve)(struct slot *slot));
/* On the slot's reactor, while the command executes. slot->status is the status for
 * control_work_answer if the command succeeds. */
void control_work_submit(struct control_work *work, struct slot *slot);
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
/* On the control reactor, once per command. Gives the slot back to its reactor. */
void control_work_answer(struct slot *slot, nvme_status status);

#endif
