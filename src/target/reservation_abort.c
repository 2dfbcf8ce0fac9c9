/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preempt and Abort: ends the commands of preempted hosts on one namespace, on every reactor, and
 * reports when they have ended. NVMe Base 2.1, section 8.1.22.7.
 *
 * Uses a barrier (target/barrier.h) that cancels at once. A Copy from the namespace is such a
 * command, too. A command whose data goes into a buffer first, and has not arrived yet, will not
 * touch the medium any more: the barrier does not wait for it. A command whose data goes directly
 * into memory media is waited for, until the barrier closes its queue. Reservation commands and
 * Cancel are left alone: they do not touch the medium, and may themselves wait for other commands
 * to end.
 *
 * Management commands of the preempted hosts (Format NVM, deletion, ...) are on the control
 * reactor, where this file runs too. Those that have not begun end at once; those that have begun
 * are waited for (target/manage.h).
 */
#include "ns/reservation.h"
#include "target/barrier.h"
#include "target/local.h"
#include "target/manage.h"
#include "target/reach.h"
#include "target/reservation_command.h"

#include <stdlib.h>

struct abort_all {
	struct barrier *barrier;
	struct manage_stop stop;
	unsigned missing; /* of barrier and stop: those still under way */
	int res;
	struct ns_live *live; /* the caller's reference */
	const struct reservation_notice *notices;
	unsigned notice_count;
	void (*done)(void *arg, int res);
	void *arg;
};

/* reservation_notify has sorted the notices. */
static bool is_preempted_host(const struct abort_all *all, const struct uuid *host_id)
{
	const struct reservation_notice *notice =
		reservation_notice_find(all->notices, all->notice_count, host_id);

	return notice && notice->type == NOTICE_REGISTRATION_PREEMPTED;
}

static bool is_the_ns(const struct ns *ns, const void *live)
{
	return ns_backing_live(ns->backing) == live;
}

/* A Copy that has not begun is judged when it begins: its ranges may name other namespaces. */
static bool slot_is_victim(const struct slot *slot, const void *arg)
{
	const struct abort_all *all = arg;
	bool is_reached =
		slot->ns &&
		(is_the_ns(slot->ns, all->live) ||
		 (slot->state == SLOT_EXECUTING && slot_reaches(slot, is_the_ns, all->live)));

	return is_reached && reservation_group_io(slot->sqe.opcode) != RESERVATION_GROUP_NONE &&
	       is_preempted_host(all, &slot->queue->ctrl->host_id);
}

static bool request_is_victim(const struct manage_request *request, const void *arg)
{
	const struct abort_all *all = arg;

	return manage_is_reserved_against(request, ns_live_uuid(all->live)) &&
	       is_preempted_host(all, &request->host_id);
}

static void victims_ended(void *arg, int res)
{
	struct abort_all *all = arg;

	if (res < 0)
		all->res = res;
	if (--all->missing > 0)
		return;
	all->done(all->arg, all->res);
	free(all);
}

struct abort_all *reservation_abort_create(struct target *target)
{
	struct abort_all *all = calloc(1, sizeof(*all));
	const struct barrier_scope scope = {
		.touches = slot_is_victim,
		.arg = all,
		.is_preempting = true,
	};

	if (!all)
		return NULL;
	all->stop = (struct manage_stop){
		.target = target,
		.touches = request_is_victim,
		.touches_arg = all,
		.status = NVME_SC_ABORT_PREEMPT,
		.done = victims_ended,
		.arg = all,
	};
	all->barrier = barrier_create(target, &scope);
	if (all->barrier)
		return all;
	free(all);
	return NULL;
}

void reservation_abort_free(struct abort_all *all)
{
	if (all)
		barrier_free(all->barrier);
	free(all);
}

void reservation_abort_start(struct abort_all *taken_all, struct ns_live *live,
			     const struct reservation_outcome *outcome,
			     void (*done)(void *arg, int res), void *arg)
{
	taken_all->live = live;
	taken_all->notices = outcome->notices;
	taken_all->notice_count = outcome->notice_count;
	taken_all->done = done;
	taken_all->arg = arg;
	taken_all->missing = 2;
	barrier_start(taken_all->barrier, victims_ended, taken_all);
	manage_stop_start(&taken_all->stop);
}
