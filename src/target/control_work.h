/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of I/O queues of which the control reactor does a part: reservations, and marks of bad
 * blocks. The slot travels to the control reactor, waits there in a rota (target/rota.h), is served
 * and goes home to be answered.
 *
 * A command that waits and is not wanted any more goes home at once: its queue closes, its host was
 * silent for longer than KATO, or it was cancelled by Abort, Preempt and Abort or a barrier. One
 * that finds the rota full is answered with Command Interrupted, which hosts retry.
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
	/* On the control reactor; control_work_answer follows. */
	void (*serve)(struct slot *slot);
	/* The control reactor's. */
	struct rota rota;
	struct reactor_msg msg; /* serves the next one */
	bool is_posted;
	/* Of any reactor that makes a command unwanted. */
	struct reactor_msg sweep_msg;
	atomic_bool is_sweep_posted;
};

void control_work_init(struct control_work *work, struct target *target,
		       const struct rota_limits *limits, void (*serve)(struct slot *slot));
/* On the slot's reactor, where it executes. slot->status is what control_work_answer is given
 * unless the command fails. */
void control_work_submit(struct control_work *work, struct slot *slot);
/* On the slot's reactor: the queue begins to close, and wants none of its commands. */
void control_work_on_closing(struct queue *queue);
/* On the control reactor, from `serve` on: another command of the host may be served, although this
 * one was not answered yet. */
void control_work_leave(struct slot *slot);
/* On the control reactor: the command whose turn is next, to be served together with the one that
 * is being served, if `matches` agrees; else NULL. */
struct slot *control_work_take_also(struct control_work *work,
				    bool (*matches)(const struct slot *slot, const void *arg),
				    const void *arg);
/* On the control reactor, once. The slot is its reactor's again. */
void control_work_answer(struct slot *slot, nvme_status status);

#endif
