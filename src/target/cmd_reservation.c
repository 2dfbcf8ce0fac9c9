/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservation Register, Acquire and Release, and Set Features 83h (Reservation Persistence). NVMe
 * Base 2.1, sections 7.6 to 7.8 and 5.1.25.1.29.
 *
 * The slot travels to the control reactor, where hosts take turns (target/control_work.h). Commands
 * for one namespace that wait there form a batch. Each command of the batch makes a new reservation
 * from the one before (ns/reservation.c). The last reservation, if it persists, is kept with one
 * commit. If the commit fails, all commands of the batch fail and nothing has changed. The new
 * reservation is published to every reactor. Other hosts are notified. Preempt and Abort ends the
 * commands of the preempted hosts. Then each slot returns to its reactor and is answered. When a
 * host has its answer, every queue on every reactor judges by the new reservation.
 *
 * Set Features 83h for all namespaces takes a turn for each namespace that changes.
 */
#include "base/log.h"
#include "ns/reservation.h"
#include "target/barrier.h"
#include "target/command.h"
#include "target/local.h"
#include "target/ns_publish.h"
#include "target/reservation_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Commands per commit. Bounds the time for which a batch holds the control reactor. */
#define BATCH_MAX 64

/* One command and its outcome. Owned by the control reactor. */
struct reservation_change {
	struct list node; /* in batch->changes */
	struct target *target;
	struct slot *slot;    /* NULL: an administrator's change */
	struct ns_live *live; /* counted reference */
	nvme_status status;   /* result of rule_apply */
	struct reservation_outcome outcome;
	struct abort_all *abort; /* Preempt and Abort: created early, so that it cannot fail */
	void (*done)(void *arg, int res);
	void *arg;
};

/* Commands for one namespace that take effect together, each after the one before. */
struct reservation_batch {
	struct list changes;
};

/* ---- keep and publish ----------------------------------------------------------------------- */

/* Called before the change has any effect. A reservation that does not persist is not kept, and a
 * kept one is then deleted. */
static int reservation_keep(struct target *target, const struct ns_live *live,
			    const struct reservation *was, const struct reservation *is)
{
	size_t bytes;
	void *value;
	int res;

	if (!is->persists)
		return was && was->persists ? ns_live_keep(&target->keeper, live,
							   NS_LIVE_KEPT_RESERVATION, NULL, 0)
					    : 0;
	res = reservation_encode(is, &value, &bytes);
	if (res != 0)
		return res;
	res = ns_live_keep(&target->keeper, live, NS_LIVE_KEPT_RESERVATION, value, bytes);
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

/* ---- a change -------------------------------------------------------------------------------- */

static struct reservation_change *change_create(struct target *target, struct ns_live *live)
{
	struct reservation_change *change = calloc(1, sizeof(*change));

	if (!change)
		return NULL;
	change->target = target;
	change->live = ns_live_get(live);
	return change;
}

static void change_free(struct reservation_change *change)
{
	reservation_outcome_free(&change->outcome);
	ns_live_put(change->live);
	free(change);
}

static bool slot_sets_persistence(const struct slot *slot)
{
	return slot->queue->qid == 0;
}

static bool slot_is_for_all(const struct slot *slot)
{
	return slot_sets_persistence(slot) && !slot->ns;
}

static void slot_finish(struct slot *slot, nvme_status status, int res)
{
	/* A removed namespace has no persistence to set. */
	if (slot_is_for_all(slot) && (res == -ESTALE || (res == 0 && nvme_status_is_ok(status)))) {
		slot->steps.index++;
		control_work_again(slot);
		return;
	}
	if (slot_sets_persistence(slot) && res == 0 && nvme_status_is_ok(status))
		persistence_note(slot);
	if (res == -ESTALE)
		status = nvme_status_dnr(NVME_SC_INVALID_NS);
	else if (res != 0)
		status = NVME_SC_INTERNAL;
	control_work_answer(slot, status);
}

/* res: 0. -ETIMEDOUT: the reservation has changed, but commands of a preempted host hang in their
 * medium, and their end was part of the request. -ESTALE: the namespace was removed. Other -errno:
 * nothing has changed, and a retry may find memory, or the disk of the state store, available
 * again. */
static void change_finish(struct reservation_change *change, int res)
{
	if (change->slot)
		slot_finish(change->slot, change->status, res);
	else
		change->done(change->arg, res);
	change_free(change);
}

static void change_on_aborted(void *arg, int res)
{
	if (res < 0)
		log_limited(LOG_LEVEL_ERROR, "target",
			    "Preempt and Abort: commands of the preempted host still run after %u "
			    "s, because their medium hangs",
			    BARRIER_END_S);
	change_finish(arg, res);
}

static void change_on_published(struct reservation_change *change)
{
	if (change->outcome.next)
		reservation_notify(change->target, change->live, &change->outcome);
	if (change->abort)
		reservation_abort_start(change->abort, change->live, &change->outcome,
					change_on_aborted, change);
	else
		change_finish(change, 0);
}

/* ---- a batch --------------------------------------------------------------------------------- */

static struct reservation_change *batch_take(struct reservation_batch *batch)
{
	struct list *node = list_pop_front(&batch->changes);

	return node ? list_entry(node, struct reservation_change, node) : NULL;
}

static void batch_on_published(void *arg)
{
	struct reservation_batch *batch = arg;
	struct reservation_change *change;

	while ((change = batch_take(batch)))
		change_on_published(change);
	free(batch);
}

/* Refused commands of the batch fail, too: an earlier command of the batch may be the reason for
 * the refusal. */
static void batch_fail(struct reservation_batch *taken_batch, int res)
{
	struct reservation_change *change;

	while ((change = batch_take(taken_batch))) {
		reservation_abort_free(change->abort);
		change_finish(change, res);
	}
	free(taken_batch);
}

/* `last`: the reservation after the whole batch. */
static void batch_commit(struct reservation_batch *taken_batch, struct target *target,
			 struct ns_live *live, struct reservation *last)
{
	int res;

	if (last == ns_live_reservation(live)) {
		batch_on_published(taken_batch);
		return;
	}
	res = reservation_replace(target, live, last, batch_on_published, taken_batch);
	if (res != 0)
		batch_fail(taken_batch, res);
}

/* On the control reactor. */
static nvme_status rule_apply(const struct slot *slot, const struct reservation *now,
			      struct reservation_outcome *ret_outcome)
{
	const struct uuid *host_id = &slot->queue->ctrl->host_id;
	struct register_cmd reg;
	struct acquire_cmd acquire;
	struct release_cmd release;

	if (slot_sets_persistence(slot))
		return reservation_set_persist(now, persistence_wanted(slot), ret_outcome);
	switch (slot->sqe.opcode) {
	case NVME_IO_RESERVATION_REGISTER:
		register_cmd_decode(&slot->sqe, slot->data.addr, &reg);
		return reservation_register(now, host_id, &reg, ret_outcome);
	case NVME_IO_RESERVATION_ACQUIRE:
		acquire_cmd_decode(&slot->sqe, slot->data.addr, &acquire);
		return reservation_acquire(now, host_id, &acquire, ret_outcome);
	default:
		release_cmd_decode(&slot->sqe, slot->data.addr, &release);
		return reservation_release(now, host_id, &release, ret_outcome);
	}
}

/* Adds the slot to the batch. Returns the reservation after the command: `now` when nothing has
 * changed. */
static struct reservation *batch_add(struct reservation_batch *batch, struct slot *slot,
				     struct ns_live *live, struct reservation *now)
{
	struct reservation_change *change = change_create(slot->queue->local->target, live);

	if (slot_is_for_all(slot))
		persistence_next(slot, &slot->steps.index);
	/* Leave before the end, because a Preempt and Abort may take seconds. Other commands of the
	 * host do not wait for it. */
	control_work_leave(slot);
	if (!change) {
		control_work_answer(slot, NVME_SC_INTERNAL);
		return now;
	}
	change->slot = slot;
	change->status = rule_apply(slot, now, &change->outcome);
	if (nvme_status_same(change->status, NVME_SC_INVALID_FIELD))
		slot->error_byte = SQE_BYTE_CDW10;
	if (change->outcome.next && change->outcome.aborts) {
		change->abort = reservation_abort_create(change->target);
		if (!change->abort) {
			change_finish(change, -ENOMEM);
			return now;
		}
	}
	list_push_back(&batch->changes, &change->node);
	return change->outcome.next ? change->outcome.next : now;
}

/* The namespace that this turn of the command is about. NULL: a command for all namespaces has
 * changed all of them. */
static struct ns_live *slot_live(const struct slot *slot)
{
	uint32_t index;

	return slot_is_for_all(slot) ? persistence_next(slot, &index)
				     : ns_backing_live(slot->ns->backing);
}

static bool slot_is_for(const struct slot *slot, const void *live)
{
	return slot_live(slot) == live;
}

static void slot_serve(struct slot *slot)
{
	struct target *target = slot->queue->local->target;
	struct ns_live *live = slot_live(slot);
	struct reservation *last;
	struct reservation_batch *batch;

	if (!live) {
		persistence_note(slot);
		control_work_answer(slot, NVME_SC_SUCCESS);
		return;
	}
	batch = malloc(sizeof(*batch));
	if (!batch) {
		control_work_answer(slot, NVME_SC_INTERNAL);
		return;
	}
	list_init(&batch->changes);
	last = ns_live_reservation(live);
	for (unsigned i = 1; slot; i++) {
		last = batch_add(batch, slot, live, last);
		slot = i < BATCH_MAX ? control_work_take_also(&target->reservation_work,
							      slot_is_for, live)
				     : NULL;
	}
	batch_commit(batch, target, live, last);
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
	struct reservation_batch *batch = malloc(sizeof(*batch));
	struct reservation_change *change = batch ? change_create(target, live) : NULL;
	struct reservation *last = ns_live_reservation(live);

	if (!change) {
		free(batch);
		done(arg, -ENOMEM);
		return;
	}
	list_init(&batch->changes);
	list_push_back(&batch->changes, &change->node);
	change->done = done;
	change->arg = arg;
	if (!nvme_status_is_ok(reservation_clear_all(last, &change->outcome)))
		batch_fail(batch, -ENOMEM);
	else
		batch_commit(batch, target, live,
			     change->outcome.next ? change->outcome.next : last);
}

/* ---- the commands --------------------------------------------------------------------------- */

/* Base 2.1, 8.1.22: a registrant is a host, so a host without an identifier cannot be one. */
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

/* The Linux host sends room for two keys with every command. Release uses only the first key. */
nvme_status reservation_release_prepare(struct slot *slot)
{
	bool is_padded = slot->sgl.len_bytes == RELEASE_DATA_BYTES + sizeof(uint64_t);

	return reservation_prepare(slot, is_padded ? slot->sgl.len_bytes : RELEASE_DATA_BYTES);
}
