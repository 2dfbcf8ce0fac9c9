/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preempt and Abort: ends the commands of preempted hosts on one namespace, on every reactor, and
 * tells when they have ended. NVMe Base 2.1, section 8.1.22.7.
 *
 * Every reactor marks the commands that it finds and asks them to end; each looks at the end of a
 * marked one whether others are left. A command that waits for the host's data, and would first put
 * it into a buffer, will do nothing any more and is not waited for; one whose data goes straight
 * into memory media is, at most as long as a host may owe data. Reservation commands and Cancel are
 * left alone: they do not touch the medium, and may themselves wait for others to end.
 */
#include "target/local.h"
#include "target/reservation.h"

#include <stdlib.h>

struct abort_step {
	struct reactor_msg msg;
	struct list node; /* in local->preempts, while it waits */
	struct local *local;
	struct abort_all *all;
};

struct abort_all {
	struct reactor_msg msg;
	struct target *target;
	struct ns_live *live; /* the caller's reference */
	const struct reservation_notice *notices;
	unsigned notice_count;
	void (*done)(void *arg);
	void *arg;
	atomic_uint steps_missing;
	struct abort_step steps[];
};

/* Sorted by reservation_notify. */
static bool is_preempted_host(const struct abort_all *all, const struct uuid *host_id)
{
	const struct reservation_notice *notice =
		reservation_notice_find(all->notices, all->notice_count, host_id);

	return notice && notice->type == NOTICE_REGISTRATION_PREEMPTED;
}

static bool slot_is_victim(const struct slot *slot, const struct abort_all *all)
{
	return slot->ns && slot->ns->locals == ns_live_locals(all->live) &&
	       slot->state != SLOT_RESPONDING &&
	       reservation_group_io(slot->sqe.opcode) != RESERVATION_GROUP_NONE;
}

/* Whether it may still change or read the medium. */
static bool slot_is_awaited(const struct slot *slot)
{
	if (slot->state == SLOT_EXECUTING)
		return true;
	return slot->is_data_mapped &&
	       (slot->state == SLOT_FETCHING || slot->state == SLOT_RECEIVING);
}

static bool queue_has_victims(const struct queue *queue, const struct abort_all *all)
{
	list_for_each(node, &queue->busy) {
		const struct slot *slot = list_entry(node, struct slot, node);

		if (slot->is_preempted && slot_is_victim(slot, all) && slot_is_awaited(slot))
			return true;
	}
	return false;
}

/* One that is detaching has no commands any more, and its controller may be gone. */
static bool queue_is_concerned(const struct queue *queue, const struct abort_all *all)
{
	return queue->ctrl && queue->state != QUEUE_DETACHING && queue->qid != 0 &&
	       is_preempted_host(all, &queue->ctrl->host_id);
}

static bool local_has_victims(const struct local *local, const struct abort_all *all)
{
	list_for_each(node, &local->queues) {
		const struct queue *queue = list_entry(node, struct queue, node);

		if (queue_is_concerned(queue, all) && queue_has_victims(queue, all))
			return true;
	}
	return false;
}

static void abort_all_done(struct reactor_msg *msg)
{
	struct abort_all *all = container_of(msg, struct abort_all, msg);

	all->done(all->arg);
	free(all);
}

static void abort_step_done(struct abort_step *step)
{
	struct abort_all *all = step->all;

	list_remove(&step->node);
	if (atomic_fetch_sub(&all->steps_missing, 1) == 1)
		reactor_post(all->target->control, &all->msg, abort_all_done);
}

/* The first one that has not been asked to end. */
static struct slot *queue_next_victim(struct queue *queue, const struct abort_all *all)
{
	list_for_each(node, &queue->busy) {
		struct slot *slot = list_entry(node, struct slot, node);

		if (slot_is_victim(slot, all) && !slot->is_preempted)
			return slot;
	}
	return NULL;
}

/* Looked for anew each time: the end of one may change the list. The queue itself stays: it leaves
 * only with a message of its controller. */
static void queue_end_victims(struct queue *queue, const struct abort_all *all)
{
	struct slot *slot;

	while ((slot = queue_next_victim(queue, all)) != NULL) {
		slot->is_preempted = true;
		slot_cancel(slot);
	}
}

static void abort_step_here(struct reactor_msg *msg)
{
	struct abort_step *step = container_of(msg, struct abort_step, msg);
	struct local *local = step->local;

	list_for_each(node, &local->queues) {
		struct queue *queue = list_entry(node, struct queue, node);

		if (queue_is_concerned(queue, step->all))
			queue_end_victims(queue, step->all);
	}
	if (!local_has_victims(local, step->all))
		abort_step_done(step);
	else
		list_push_back(&local->preempts, &step->node);
}

void reservation_on_victim_end(struct local *local)
{
	list_for_each_safe(node, &local->preempts) {
		struct abort_step *step = list_entry(node, struct abort_step, node);

		if (!local_has_victims(local, step->all))
			abort_step_done(step);
	}
}

struct abort_all *reservation_abort_create(struct target *target)
{
	struct abort_all *all =
		calloc(1, sizeof(*all) + target->local_count * sizeof(all->steps[0]));

	if (all)
		all->target = target;
	return all;
}

void reservation_abort_free(struct abort_all *all)
{
	free(all);
}

void reservation_abort_start(struct abort_all *taken_all, struct ns_live *live,
			     const struct reservation_outcome *outcome, void (*done)(void *arg),
			     void *arg)
{
	struct abort_all *all = taken_all;
	struct target *target = all->target;

	all->live = live;
	all->notices = outcome->notices;
	all->notice_count = outcome->notice_count;
	all->done = done;
	all->arg = arg;
	atomic_init(&all->steps_missing, target->local_count);
	for (unsigned i = 0; i < target->local_count; i++) {
		struct abort_step *step = &all->steps[i];

		step->all = all;
		step->local = &target->locals[i];
		list_init(&step->node);
		reactor_post(step->local->reactor, &step->msg, abort_step_here);
	}
}
