/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers. See barrier.h. A barrier has one step per reactor. The step marks the commands that it
 * waits for. When a marked command ends, the step checks whether others are left. The step's timer
 * first presses, then gives up. A command that no barrier waits for runs none of this code.
 */
#include "target/barrier.h"

#include "base/clock.h"
#include "target/judge_again.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>

struct barrier_step {
	struct reactor_msg msg;
	struct reactor_timer timer;
	struct list node; /* in local->barriers, while the step waits */
	struct local *local;
	struct barrier *barrier;
	bool is_pressed;
};

struct barrier {
	struct reactor_msg msg;
	struct target *target;
	struct barrier_scope scope;
	void (*done)(void *arg, int res);
	void *arg;
	atomic_uint steps_missing;
	atomic_bool is_late;
	struct barrier_step steps[];
};

static bool slot_is_touched(const struct slot *slot, const struct barrier *barrier)
{
	return slot->state != SLOT_RESPONDING && barrier->scope.touches(slot, barrier->scope.arg);
}

/* Whether the command can still reach its medium. A closing queue begins no command and takes no
 * data. */
static bool slot_is_pending(const struct slot *slot)
{
	if (slot->state == SLOT_EXECUTING)
		return true;
	if (slot->queue->state != QUEUE_LIVE || !slot_is_waiting(slot))
		return false;
	return slot_is_filled_by_host(slot) ||
	       !(slot->is_displaced | slot->is_abort_requested | slot->must_judge_again);
}

/* Admin commands do not reach a medium. A detaching queue has no commands left, and its controller
 * may be freed. */
static bool queue_may_be_touched(const struct queue *queue)
{
	return queue->ctrl && queue->qid != 0 && queue->state != QUEUE_DETACHING;
}

/* The first command of the reactor that the barrier touches and for which `is_wanted` is true.
 * NULL: there is no such command. */
static struct slot *step_find(const struct barrier_step *step,
			      bool (*is_wanted)(const struct slot *slot))
{
	list_for_each(queue_node, &step->local->queues) {
		struct queue *queue = list_entry(queue_node, struct queue, node);

		if (!queue_may_be_touched(queue))
			continue;
		list_for_each(node, &queue->busy) {
			struct slot *slot = list_entry(node, struct slot, node);

			if (is_wanted(slot) && slot_is_touched(slot, step->barrier))
				return slot;
		}
	}
	return NULL;
}

static bool is_awaited(const struct slot *slot)
{
	return slot->is_awaited && slot_is_pending(slot);
}

static bool is_unpreempted(const struct slot *slot)
{
	return !slot->is_preempted;
}

static bool is_unpressed(const struct slot *slot)
{
	return is_awaited(slot) && !slot->is_displaced;
}

/* ---- the end of a step ---------------------------------------------------------------------- */

static void barrier_ended(struct reactor_msg *msg)
{
	struct barrier *barrier = container_of(msg, struct barrier, msg);

	barrier->done(barrier->arg, atomic_load(&barrier->is_late) ? -ETIMEDOUT : 0);
	free(barrier);
}

static void step_end(struct barrier_step *step)
{
	struct barrier *barrier = step->barrier;

	reactor_timer_cancel(&step->timer);
	list_remove(&step->node);
	if (atomic_fetch_sub(&barrier->steps_missing, 1) == 1)
		reactor_post(barrier->target->control, &barrier->msg, barrier_ended);
}

void barrier_on_slot_end(struct local *local)
{
	list_for_each_safe(node, &local->barriers) {
		struct barrier_step *step = list_entry(node, struct barrier_step, node);

		if (!step_find(step, is_awaited))
			step_end(step);
	}
}

/* Keeps waiting while a marked command is pending, else ends the step. */
static void step_wait(struct barrier_step *step, uint64_t seconds)
{
	if (!step_find(step, is_awaited)) {
		step_end(step);
		return;
	}
	list_push_back(&step->local->barriers, &step->node);
	reactor_timer_arm(&step->timer, reactor_now_ns(step->local->reactor) + seconds * NS_PER_S);
}

/* ---- pressing ------------------------------------------------------------------------------- */

/* Searches from the start each time, because the end of a command may change the lists. Queues stay
 * listed: a queue is removed only after a message of its controller. */
static void step_press(struct barrier_step *step)
{
	struct slot *slot;

	step->is_pressed = true;
	while ((slot = step_find(step, is_unpressed))) {
		slot->is_displaced = true;
		if (slot_is_filled_by_host(slot))
			queue_close(slot->queue, "data of a command did not arrive in time for a "
						 "change of its namespace");
		else if (slot->state == SLOT_EXECUTING && !slot->is_abort_requested)
			slot_cancel(slot);
	}
}

static void on_step_timer(struct reactor_timer *timer)
{
	struct barrier_step *step = container_of(timer, struct barrier_step, timer);

	if (step->is_pressed) {
		atomic_store(&step->barrier->is_late, true);
		step_end(step);
		return;
	}
	/* Off the list while pressing: the end of a command would otherwise end and free the
	 * step. */
	list_remove(&step->node);
	step_press(step);
	step_wait(step, BARRIER_END_S - BARRIER_PRESS_S);
}

/* ---- the start ------------------------------------------------------------------------------ */

static void queue_mark(struct queue *queue, const struct barrier *barrier)
{
	list_for_each(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		if (slot_is_pending(slot) && slot_is_touched(slot, barrier))
			slot->is_awaited = true;
	}
}

void barrier_mark(const struct barrier *barrier, struct local *local)
{
	list_for_each(node, &local->queues) {
		struct queue *queue = list_entry(node, struct queue, node);

		if (queue_may_be_touched(queue))
			queue_mark(queue, barrier);
	}
}

static void step_begin(struct reactor_msg *msg)
{
	struct barrier_step *step = container_of(msg, struct barrier_step, msg);
	struct slot *slot;

	reactor_timer_init(step->local->reactor, &step->timer, on_step_timer);
	barrier_mark(step->barrier, step->local);
	if (step->barrier->scope.is_preempting) {
		while ((slot = step_find(step, is_unpreempted))) {
			slot->is_preempted = true;
			slot_cancel(slot);
		}
	}
	step_wait(step, BARRIER_PRESS_S);
}

struct barrier *barrier_create(struct target *target, const struct barrier_scope *scope)
{
	struct barrier *barrier =
		calloc(1, sizeof(*barrier) + target->local_count * sizeof(barrier->steps[0]));

	if (!barrier)
		return NULL;
	barrier->target = target;
	barrier->scope = *scope;
	return barrier;
}

void barrier_free(struct barrier *barrier)
{
	free(barrier);
}

void barrier_start(struct barrier *taken_barrier, void (*done)(void *arg, int res), void *arg)
{
	struct target *target = taken_barrier->target;

	taken_barrier->done = done;
	taken_barrier->arg = arg;
	atomic_init(&taken_barrier->steps_missing, target->local_count);
	for (unsigned i = 0; i < target->local_count; i++) {
		struct barrier_step *step = &taken_barrier->steps[i];

		step->barrier = taken_barrier;
		step->local = &target->locals[i];
		list_init(&step->node);
		reactor_post(step->local->reactor, &step->msg, step_begin);
	}
}
