/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservation commands of the simulated hosts, and their effect on all hosts' commands. One thread;
 * runs on the host's simulated reactor and reads the target's state directly.
 *
 * While no reservation command of a namespace is in flight, its reservation is known: a command
 * that begins and ends in that time must be executed or refused accordingly, on every reactor. When
 * Preempt and Abort is answered, commands in flight of preempted hosts have taken effect or never
 * will. (Unregistered hosts are not preempted: their commands in flight continue.)
 */
#include "sim_op.h"
#include "slot_inspect.h"

#include "ns/reservation.h"
#include "target/io.h"
#include "target/local.h"

#include <stdlib.h>
#include <string.h>

#define KEY_OF_HOST(index) (0x100ull + (index))

static const struct reservation *truth_of(const struct world_ns *ns)
{
	return ns->backing ? ns_live_reservation(ns_backing_live(ns->backing)) : NULL;
}

/* Base 2.1, 8.1.22.1: the table of rights, implemented a second time. */
static bool has_right(const struct reservation *reservation, const struct uuid *host_id,
		      bool is_write)
{
	bool lets_read;

	if (!reservation || reservation->type == RESERVATION_NONE)
		return true;
	lets_read = reservation->type % 2 == 1; /* odd types restrict only writers */
	if (!is_write && lets_read)
		return true;
	if (reservation->type <= RESERVATION_EXCLUSIVE_ACCESS)
		return uuid_equal(&reservation->holder, host_id);
	for (uint32_t i = 0; i < reservation->count; i++) {
		if (uuid_equal(&reservation->registrants[i].host_id, host_id))
			return true;
	}
	return false;
}

bool reserve_has_right(const struct world_ns *ns, const struct uuid *host_id, bool is_write)
{
	return has_right(truth_of(ns), host_id, is_write);
}

/* Bit per host that is registered now. */
static unsigned registered_hosts(const struct sim_op *op)
{
	const struct reservation *truth = truth_of(op->ns);
	unsigned hosts = 0;

	for (unsigned i = 0; i < op->world->plan.hosts; i++) {
		struct uuid host_id;
		char name[64];

		uuid_from_name(sim_host_name(i, name), &host_id);
		if (reservation_find(truth, &host_id))
			hosts |= 1u << i;
	}
	return hosts;
}

/* True: registered when the command began and not now, so its registration was preempted. */
static bool was_preempted(const struct sim_op *op, const struct uuid *host_id)
{
	if (reservation_find(truth_of(op->ns), host_id))
		return false;
	for (unsigned i = 0; i < op->world->plan.hosts; i++) {
		struct uuid other;
		char name[64];

		uuid_from_name(sim_host_name(i, name), &other);
		if (uuid_equal(&other, host_id))
			return (op->registered_before >> i & 1) != 0;
	}
	return false;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static void begin_register(struct sim_op *op, struct prng *prng)
{
	struct register_cmd reg = {
		.action = prng_one_in(prng, 4) ? UNREGISTER_KEY : REGISTER_KEY,
		.ignores_key = prng_one_in(prng, 4),
		.persist = (uint8_t[]){PERSIST_KEEP, PERSIST_OFF, PERSIST_ON,
				       PERSIST_ON}[prng_below(prng, 4)],
		.current_key = KEY_OF_HOST(op->host_index),
		.new_key = KEY_OF_HOST(op->host_index),
	};

	register_cmd_encode(&op->cmd.sqe, op->ns->nsid, &reg, op->data);
	op->cmd.data_bytes = REGISTER_DATA_BYTES;
}

static void begin_acquire(struct sim_op *op, struct prng *prng)
{
	const struct reservation *truth = truth_of(op->ns);
	struct acquire_cmd acquire = {
		.action = (uint8_t)prng_below(prng, 3),
		.type = (uint8_t)(1 + prng_below(prng, RESERVATION_TYPE_MAX)),
		.current_key = KEY_OF_HOST(op->host_index),
		.preempt_key = KEY_OF_HOST(prng_below(prng, op->world->plan.hosts)),
	};

	/* Registrants have the right to work until they are preempted. */
	if (op->world->plan.is_duel && prng_one_in(prng, 2))
		acquire.type = RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS;
	if (op->world->plan.is_duel)
		acquire.action = truth && reservation_is_held(truth) ? ACQUIRE_PREEMPT_AND_ABORT
								     : ACQUIRE_RESERVATION;
	if (op->world->plan.has_late_data && acquire.action == ACQUIRE_PREEMPT_AND_ABORT &&
	    prng_one_in(prng, 2))
		acquire.action = ACQUIRE_PREEMPT;
	op->is_preempt_and_abort = acquire.action == ACQUIRE_PREEMPT_AND_ABORT;
	acquire_cmd_encode(&op->cmd.sqe, op->ns->nsid, &acquire, op->data);
	op->cmd.data_bytes = ACQUIRE_DATA_BYTES;
}

static void begin_release(struct sim_op *op, struct prng *prng)
{
	const struct reservation *truth = truth_of(op->ns);
	struct release_cmd release = {
		.action = prng_one_in(prng, 4) ? RELEASE_CLEAR : RELEASE_RESERVATION,
		.type = (uint8_t)(truth && reservation_is_held(truth)
					  ? truth->type
					  : RESERVATION_WRITE_EXCLUSIVE),
		.current_key = KEY_OF_HOST(op->host_index),
	};

	release_cmd_encode(&op->cmd.sqe, op->ns->nsid, &release, op->data);
	op->cmd.data_bytes = RELEASE_DATA_BYTES;
}

void reserve_begin(struct sim_op *op, struct prng *prng)
{
	struct world_ns *ns = op->ns;

	op->cmd.direction = HOST_DATA_TO_CTRL;
	op->cmd.data = op->data;
	op->is_preempt_and_abort = false;
	op->change.is_reserve = true;
	op->is_reserve_alone = ns->reserve_busy == 0;
	op->target_epoch = op->world->target_epoch;
	op->registered_before = registered_hosts(op);
	ns->reserve_busy++;
	op->reserve_number = ++ns->reserve_begun;
	if (op->world->plan.is_duel && prng_one_in(prng, 2)) {
		if (reservation_find(truth_of(ns), &op->host_id))
			begin_acquire(op, prng);
		else
			begin_register(op, prng);
		return;
	}
	switch (prng_below(prng, 8)) {
	case 0:
	case 1:
	case 2:
		begin_register(op, prng);
		break;
	case 3:
	case 4:
		begin_release(op, prng);
		break;
	default:
		begin_acquire(op, prng);
	}
}

/* ---- end ------------------------------------------------------------------------------------- */

void reserve_over(struct world *world, struct world_ns *ns)
{
	ns->reserve_busy--;
	ns->reserve_quiet_at = world_step(world);
}

/* A persistent reservation was kept before the answer, and no other one is kept. */
static void check_kept(struct sim_op *op)
{
	struct keeper keeper = world_keeper(op->world);
	const struct reservation *truth = truth_of(op->ns);
	struct reservation *kept = NULL;
	char key[UUID_TEXT_BYTES];
	void *value;
	size_t bytes;
	bool is_right;

	if (keeper.recall(keeper.arg, NS_LIVE_KEPT_RESERVATION, uuid_format(&op->ns->uuid, key),
			  &value, &bytes) == 0) {
		if (reservation_decode(value, bytes, &kept) != 0)
			world_fail(op->world, "namespace %u: the kept reservation is invalid",
				   op->ns->nsid);
		free(value);
	}
	if (!truth || !truth->persists)
		is_right = kept == NULL;
	else
		is_right = kept && kept->generation == truth->generation &&
			   kept->type == truth->type && kept->count == truth->count &&
			   uuid_equal(&kept->holder, &truth->holder);
	if (!is_right)
		world_fail(op->world, "namespace %u: the kept reservation is not the one in force",
			   op->ns->nsid);
	reservation_put(kept);
}

/* A preempted host's change has taken effect by now or never will, whatever its answer is. */
static void shut_out(struct sim_op *op, void *arg)
{
	const struct sim_op *by = arg;

	/* A host that preempts itself does not wait for its own commands. */
	if (op->host_index == by->host_index || !op->is_busy || op->ns != by->ns ||
	    op->change.extent_count == 0 || op->over_at != MODEL_NEVER ||
	    !was_preempted(by, &op->host_id) || has_right(truth_of(op->ns), &op->host_id, true))
		return;
	op->over_at = op->world->step;
	op->over_number = op->ns->reserve_begun;
	op->world->stats->preempted++;
}

/* True: a medium works on the command, or its data is received directly into memory of a medium. */
static bool slot_is_at_medium(const struct slot *slot)
{
	return slot_is_under_way(slot) || (slot_is_mapped(slot) && (slot->state == SLOT_RECEIVING ||
								    slot->state == SLOT_FETCHING));
}

/* No medium may still work on a command of this queue after its host lost the right. */
static void check_queue(const struct sim_op *op, const struct queue *queue)
{
	struct ns_live *live = ns_backing_live(op->ns->backing);
	const struct uuid *host_id = queue->ctrl ? &queue->ctrl->host_id : NULL;

	if (!host_id || queue->qid == 0 || uuid_equal(host_id, &op->host_id) ||
	    !was_preempted(op, host_id) || has_right(truth_of(op->ns), host_id, false))
		return;
	list_for_each(node, &queue->busy) {
		const struct slot *slot = list_entry(node, struct slot, node);

		if (slot->ns && slot->ns->locals == ns_live_locals(live) && slot_is_at_medium(slot))
			world_fail(op->world,
				   "namespace %u: Preempt and Abort was answered while command "
				   "%02x of a preempted host still ran",
				   op->ns->nsid, slot->sqe.opcode);
	}
}

/* After the reservation command was answered, no data of a host without the right to write goes
 * into a memory medium, and none goes out to a host without the right to read. */
static void check_mapped(const struct sim_op *op, const struct slot *slot)
{
	const struct uuid *host_id = &slot->queue->ctrl->host_id;

	if (slot->direction == DATA_TO_CTRL && !has_right(truth_of(op->ns), host_id, true) &&
	    (slot->state == SLOT_RECEIVING || slot->state == SLOT_FETCHING))
		world_fail(op->world,
			   "namespace %u: a reservation command was answered while data of a host "
			   "without the right to write still went into memory",
			   op->ns->nsid);
	if (slot->direction == DATA_TO_HOST && !has_right(truth_of(op->ns), host_id, false) &&
	    slot->state == SLOT_RESPONDING && nvme_status_is_ok(slot->status))
		world_fail(op->world,
			   "namespace %u: a reservation command was answered while memory was "
			   "still sent to a host without the right to read",
			   op->ns->nsid);
}

static void check_all_mapped_of(const struct sim_op *op, const struct queue *queue)
{
	struct ns_live *live = ns_backing_live(op->ns->backing);

	if (!queue->ctrl || queue->qid == 0 || queue->state != QUEUE_LIVE)
		return;
	list_for_each(node, &queue->busy) {
		const struct slot *slot = list_entry(node, struct slot, node);

		if (slot_is_mapped(slot) && slot->ns && slot->ns->locals == ns_live_locals(live))
			check_mapped(op, slot);
	}
}

static void check_all_mapped(const struct sim_op *op)
{
	const struct target *target = op->world->target;

	for (unsigned i = 0; i < target->local_count; i++) {
		list_for_each(node, &target->locals[i].queues)
			check_all_mapped_of(op, list_entry(node, struct queue, node));
	}
}

static void check_queues(const struct sim_op *op)
{
	const struct target *target = op->world->target;

	for (unsigned i = 0; i < target->local_count; i++) {
		list_for_each(node, &target->locals[i].queues)
			check_queue(op, list_entry(node, struct queue, node));
	}
}

void reserve_end(struct sim_op *op)
{
	struct world *world = op->world;
	struct world_ns *ns = op->ns;
	bool is_alone = op->is_reserve_alone && ns->reserve_begun == op->reserve_number;

	reserve_over(world, ns);
	/* After another reservation command or a restart the target's state may be newer. */
	if (!nvme_status_is_ok(op->cmd.status) || op->target_epoch != world->target_epoch)
		return;
	world->stats->reservations++;
	if (ns->reserve_busy > 0)
		return;
	check_kept(op);
	if (is_alone) {
		check_all_mapped(op);
		fence_begin(op);
	}
	if (op->is_preempt_and_abort && is_alone) {
		(void)world_step(world);
		check_queues(op);
		for (unsigned i = 0; i < world->host_count; i++)
			sim_host_for_each_op(world->hosts[i], shut_out, op);
	}
}

bool reserve_explains(const struct sim_op *op, nvme_status status)
{
	if (!op->world->plan.has_reservations || !op->ns)
		return false;
	/* The target excluded the host; sim_fence.c and check_queue judge whether a write lands. */
	if (nvme_status_same(status, NVME_SC_ABORT_PREEMPT))
		return true;
	/* reserve_check judges whether the refusal was right. */
	return nvme_status_same(status, NVME_SC_RESERVATION_CONFLICT);
}

void reserve_check(const struct sim_op *op, nvme_status status)
{
	const struct world_ns *ns = op->ns;
	bool is_write = op->kind != OP_READ && op->kind != OP_COMPARE && op->kind != OP_FUSED;
	bool is_right;

	if (!op->world->plan.has_reservations || !ns || op_is_admin(op) || op->kind == OP_RESERVE ||
	    ns->reserve_busy > 0 || ns->reserve_quiet_at >= op->start)
		return;
	/* A fused pair's status is the Compare's, which may be allowed where the Write is not. */
	if (op->kind == OP_FUSED)
		return;
	is_right = has_right(truth_of(ns), &op->host_id, is_write);
	if (nvme_status_is_ok(status) && !is_right)
		world_fail(op->world, "host %u has no right to namespace %u, and kind %d succeeded",
			   op->host_index, ns->nsid, op->kind);
	if (nvme_status_same(status, NVME_SC_RESERVATION_CONFLICT) && is_right)
		world_fail(op->world,
			   "host %u has a right to namespace %u, and kind %d was refused",
			   op->host_index, ns->nsid, op->kind);
}
