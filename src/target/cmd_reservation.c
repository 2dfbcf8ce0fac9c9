/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservation Register, Acquire and Release: to the control reactor and back. NVMe Base 2.1,
 * sections 7.6 to 7.8.
 *
 * The slot travels to the control reactor, where hosts take turns (target/control_work.h). The
 * control reactor does one command after the other: the rule makes a new reservation
 * (reservation.c); one that persists is kept, or the command fails and nothing has changed; it is
 * published to every reactor; other hosts are told; Preempt and Abort ends the commands of those it
 * has preempted; then the slot goes home and is answered. Whoever has its answer finds every queue
 * on every reactor judging by the new reservation.
 */
#include "base/log.h"
#include "target/barrier.h"
#include "target/command.h"
#include "target/local.h"
#include "target/reservation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One change under way, beyond the rule: the control reactor's. */
struct reservation_change {
	struct target *target;
	struct slot *slot;    /* NULL: an administrator's */
	struct ns_live *live; /* counted */
	struct reservation_outcome outcome;
	struct abort_all *abort; /* Preempt and Abort: made in advance, so that it cannot fail */
	void (*done)(void *arg, int res);
	void *arg;
};

/* ---- the truth ------------------------------------------------------------------------------- */

/* Before anybody acts on it. Without persistence nothing is kept, nor what was kept before. */
static int reservation_keep(struct target *target, const struct ns_live *live,
			    const struct reservation *was, const struct reservation *is)
{
	size_t bytes;
	void *value;
	int res;

	if (!is->persists)
		return was && was->persists
			       ? ns_live_keep(target, live, NS_LIVE_KEPT_RESERVATION, NULL, 0)
			       : 0;
	res = reservation_encode(is, &value, &bytes);
	if (res != 0)
		return res;
	res = ns_live_keep(target, live, NS_LIVE_KEPT_RESERVATION, value, bytes);
	free(value);
	return res;
}

int reservation_replace(struct target *target, struct ns_live *live, struct reservation *next,
			void (*done)(void *arg), void *arg)
{
	struct reservation *was = reservation_get(ns_live_reservation(live));
	struct publication *publication;
	int res;

	ns_live_set_reservation(live, reservation_get(next));
	res = ns_live_publish_prepare(target, live, &publication);
	if (res == 0) {
		res = reservation_keep(target, live, was, next);
		if (res != 0)
			ns_live_publish_drop(publication);
	}
	if (res != 0) {
		ns_live_set_reservation(live, was);
		return res;
	}
	reservation_put(was);
	ns_live_publish_start(publication, done, arg);
	return 0;
}

int reservation_change_persist(struct target *target, struct ns_live *live, bool persists)
{
	struct reservation *was = ns_live_reservation(live);
	struct reservation_outcome outcome;
	int res;

	if (!nvme_status_is_ok(reservation_set_persist(was, persists, &outcome)))
		return -ENOMEM;
	if (!outcome.next)
		return 0;
	res = reservation_keep(target, live, was, outcome.next);
	if (res == 0)
		ns_live_set_reservation(live, reservation_get(outcome.next));
	reservation_outcome_free(&outcome);
	return res;
}

/* ---- a change -------------------------------------------------------------------------------- */

/* res: 0, or -ETIMEDOUT when commands of a preempted host hang in their medium. The reservation has
 * changed, but their end was part of what was asked for. */
static void change_finish(struct reservation_change *change, int res)
{
	if (change->slot)
		control_work_answer(change->slot, res == 0 ? NVME_SC_SUCCESS : NVME_SC_INTERNAL);
	else
		change->done(change->arg, res);
	reservation_outcome_free(&change->outcome);
	ns_live_put(change->live);
	free(change);
}

static void change_on_aborted(void *arg, int res)
{
	if (res < 0)
		log_limited(LOG_LEVEL_ERROR, "target",
			    "Preempt and Abort: commands of the preempted host still run after "
			    "%u s: their medium hangs",
			    BARRIER_END_S);
	change_finish(arg, res);
}

static void change_on_published(void *arg)
{
	struct reservation_change *change = arg;

	reservation_notify(change->target, change->live, &change->outcome);
	if (change->abort)
		reservation_abort_start(change->abort, change->live, &change->outcome,
					change_on_aborted, change);
	else
		change_finish(change, 0);
}

static int change_try(struct reservation_change *change)
{
	if (change->outcome.aborts) {
		change->abort = reservation_abort_create(change->target);
		if (!change->abort)
			return -ENOMEM;
	}
	return reservation_replace(change->target, change->live, change->outcome.next,
				   change_on_published, change);
}

/* Takes the outcome over, whatever happens. 0 or -errno: nothing has changed. */
static int change_start(struct reservation_change *model)
{
	struct reservation_change *change = malloc(sizeof(*change));
	int res;

	if (!change) {
		reservation_outcome_free(&model->outcome);
		return -ENOMEM;
	}
	*change = *model;
	ns_live_get(change->live);
	res = change_try(change);
	if (res != 0) {
		reservation_abort_free(change->abort);
		reservation_outcome_free(&change->outcome);
		ns_live_put(change->live);
		free(change);
	}
	return res;
}

/* On the control reactor. */
static nvme_status rule_apply(const struct slot *slot, const struct reservation *now,
			      struct reservation_outcome *ret_outcome)
{
	const struct uuid *host_id = &slot->queue->ctrl->host_id;
	struct register_cmd reg;
	struct acquire_cmd acquire;
	struct release_cmd release;

	switch (slot->sqe.opcode) {
	case NVME_IO_RESERVATION_REGISTER:
		register_cmd_decode(&slot->sqe, slot->data, &reg);
		return reservation_register(now, host_id, &reg, ret_outcome);
	case NVME_IO_RESERVATION_ACQUIRE:
		acquire_cmd_decode(&slot->sqe, slot->data, &acquire);
		return reservation_acquire(now, host_id, &acquire, ret_outcome);
	default:
		release_cmd_decode(&slot->sqe, slot->data, &release);
		return reservation_release(now, host_id, &release, ret_outcome);
	}
}

static void slot_serve(struct slot *slot)
{
	struct reservation_change change = {
		.target = slot->queue->local->target,
		.slot = slot,
		.live = ns_store_live(slot->ns->store),
	};
	nvme_status status;

	/* The end of a Preempt and Abort may take seconds: other commands do not wait for it. */
	control_work_leave(slot);
	status = rule_apply(slot, ns_live_reservation(change.live), &change.outcome);
	if (nvme_status_same(status, NVME_SC_INVALID_FIELD))
		slot->error_byte = SQE_BYTE_CDW10;
	if (!nvme_status_is_ok(status) || !change.outcome.next) {
		control_work_answer(slot, status);
		return;
	}
	/* A retry may find memory, or the disk that it is kept on, again. */
	if (change_start(&change) != 0)
		control_work_answer(slot, NVME_SC_INTERNAL);
}

static void reservation_execute(struct slot *slot)
{
	control_work_submit(&slot->queue->local->target->reservation_work, slot);
}

void reservation_init(struct target *target)
{
	static const struct rota_limits limits = {
		.running_per_host = 1,
		.waiting_per_host = 1024,
		.waiting_min = 16,
		.waiting_total = 8192,
	};

	control_work_init(&target->reservation_work, target, &limits, slot_serve);
}

void reservation_clear_by_admin(struct target *target, struct ns_live *live,
				void (*done)(void *arg, int res), void *arg)
{
	struct reservation_change change = {
		.target = target, .live = live, .done = done, .arg = arg};
	nvme_status status = reservation_clear_all(ns_live_reservation(live), &change.outcome);
	int res = nvme_status_is_ok(status) ? 0 : -ENOMEM;

	if (res == 0 && change.outcome.next) {
		res = change_start(&change);
		if (res == 0)
			return;
	}
	done(arg, res);
}

/* ---- the commands ---------------------------------------------------------------------------- */

/* Base 2.1, 8.1.22: a registrant is a host, and a host without an identifier is none. */
static nvme_status reservation_prepare(struct slot *slot, uint32_t data_bytes)
{
	slot->execute = reservation_execute;
	if (uuid_is_nil(&slot->queue->ctrl->host_id))
		return command_refuse(slot, NVME_SC_HOST_ID_MISSING, SQE_BYTE_CDW10);
	return command_expect_data(slot, DATA_TO_CTRL, data_bytes);
}

nvme_status reservation_register_prepare(struct slot *slot)
{
	return reservation_prepare(slot, REGISTER_DATA_BYTES);
}

nvme_status reservation_acquire_prepare(struct slot *slot)
{
	return reservation_prepare(slot, ACQUIRE_DATA_BYTES);
}

/* The Linux host sends room for two keys with every command; of Release the first one counts. */
nvme_status reservation_release_prepare(struct slot *slot)
{
	bool is_padded = slot->sgl.len_bytes == RELEASE_DATA_BYTES + sizeof(uint64_t);

	return reservation_prepare(slot, is_padded ? slot->sgl.len_bytes : RELEASE_DATA_BYTES);
}
