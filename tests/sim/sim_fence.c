/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that lose the right to write while one of their commands waits at the target for data
 * (which comes late or in parts), for a buffer, or for blocks that another command holds. Such a
 * command has not begun. After the reservation command that excluded its host is answered (Preempt
 * or Preempt and Abort), the command must not begin and no byte of it may land until the host has
 * the right again. Also hosts that lose the right to read while an answer to them is in flight and
 * received late: the data must have been read before. One thread; examines the target between two
 * events.
 */
#include "sim_op.h"

#include "target/judge_again.h"
#include "target/local.h"

#include <string.h>

#define LATE_DATA_STALL_PPM 60000
#define LATE_DATA_WINDOW    8192
#define LATE_DATA_STALL_US  3000

/* Another kind of duel, chosen by the seed itself. Data must be able to stall half way, and nothing
 * else may end a connection. */
void late_data_choose(struct world *world, struct sim_options *options)
{
	struct world_plan *plan = &world->plan;

	if (world->scenario->seed % 16 != 12)
		return;
	plan->has_late_data = plan->is_duel = plan->has_reservations = true;
	plan->hosts = plan->hosts < 2 ? 2 : plan->hosts;
	plan->has_large = true;
	plan->commands_max *= 2;
	plan->crash_one_in = plan->cut_one_in = plan->partition_one_in = 0;
	options->faults = (struct sim_faults){.stall_ppm = LATE_DATA_STALL_PPM,
					      .stall_max_us = LATE_DATA_STALL_US};
	if (world->scenario->seed / 16 % 2 == 0)
		options->window_max_bytes = LATE_DATA_WINDOW;
}

/* ---- the commands that wait -------------------------------------------------------------------
 */

struct search {
	const struct slot *slot;
	struct sim_op *found;
};

/* Only one command of the host has the command identifier. Of a fused pair the Write counts. */
static void op_match(struct sim_op *op, void *arg)
{
	const struct host_cmd *cmd = op->kind == OP_FUSED ? &op->second : &op->cmd;
	struct search *search = arg;
	const struct slot *slot = search->slot;

	if (op->is_busy && !op_is_admin(op) &&
	    (op->change.extent_count > 0 || op->kind == OP_READ) &&
	    cmd->slot_index != HOST_NO_SLOT && op->queue + 1u == slot->queue->qid &&
	    le16_get(cmd->sqe.cid) == le16_get(slot->sqe.cid))
		search->found = op;
}

static struct sim_op *op_of(struct world *world, const struct slot *slot)
{
	struct search search = {.slot = slot};

	for (unsigned i = 0; i < world->plan.hosts; i++) {
		if (sim_host_has_ctrl(world->hosts[i], slot->queue->ctrl->cntlid))
			sim_host_for_each_op(world->hosts[i], op_match, &search);
	}
	return search.found;
}

/* A command of several medium operations may have done some of them while it waits for others. */
static bool slot_has_not_begun(const struct slot *slot, const struct sim_op *op)
{
	bool is_one = op->kind == OP_WRITE || op->kind == OP_WRITE_ZEROES;

	return slot_is_waiting(slot) ||
	       (is_one && slot->state == SLOT_EXECUTING && slot->hold.state == RANGE_HOLD_WAITING);
}

/* Bit set of blocks in memory that hold the command's value, which no other command writes. */
static uint64_t blocks_held(const struct sim_op *op)
{
	const struct op_extent *extent = &op->change.extents[0];
	struct media *media = op->ns->media;
	uint64_t held = 0;

	if (op->ns->kind != WORLD_MEDIUM_MEM || op->change.value == 0 || op->change.has_values)
		return 0;
	for (uint32_t i = 0; i < extent->block_count; i++) {
		uint64_t bytes = 1ull << op->ns->block_shift;
		const uint8_t *at =
			media->ops->map(media, (extent->first_block + i) * bytes, bytes);
		uint64_t value;

		memcpy(&value, at, sizeof(value));
		held |= (uint64_t)(value == op->change.value + i) << i;
	}
	return held;
}

static void change_fence(const struct sim_op *by, struct sim_op *op)
{
	op->is_fenced = by->ns->has_fenced = true;
	op->over_at = by->world->step;
	op->held_before = blocks_held(op);
	by->world->stats->fenced++;
}

/* Reads whose response exists already, wherever its bytes are. */
static void read_fence(const struct sim_op *by, const struct slot *slot, struct sim_op *op)
{
	if (slot->state != SLOT_RESPONDING || op->over_at != MODEL_NEVER ||
	    reserve_has_right(by->ns, &slot->queue->ctrl->host_id, false))
		return;
	op->over_at = by->world->step;
	by->world->stats->reads_fenced++;
}

static void slot_fence(const struct sim_op *by, const struct slot *slot)
{
	struct sim_op *op = op_of(by->world, slot);

	if (!op)
		return;
	if (op->kind == OP_READ)
		read_fence(by, slot, op);
	else if (slot->queue->state == QUEUE_LIVE && !op->is_fenced && slot_has_not_begun(slot, op))
		change_fence(by, op);
}

static void queue_fence(const struct sim_op *by, const struct queue *queue)
{
	const struct ns_local *locals = ns_live_locals(ns_backing_live(by->ns->backing));

	if (!queue->ctrl || queue->qid == 0 || queue->state == QUEUE_DETACHING ||
	    reserve_has_right(by->ns, &queue->ctrl->host_id, true))
		return;
	list_for_each(node, &queue->busy) {
		const struct slot *slot = list_entry(node, struct slot, node);

		if (slot->ns && slot->ns->locals == locals)
			slot_fence(by, slot);
	}
}

void fence_begin(const struct sim_op *by)
{
	const struct target *target = by->world->target;

	(void)world_step(by->world);
	for (unsigned i = 0; i < target->local_count; i++) {
		list_for_each(node, &target->locals[i].queues)
			queue_fence(by, list_entry(node, struct queue, node));
	}
}

/* ---- until they end ---------------------------------------------------------------------------
 */

static void op_let_go(struct sim_op *op, void *arg)
{
	struct world_ns *ns = arg;

	if (!op->is_busy || !op->is_fenced || op->ns != ns)
		return;
	if (reserve_has_right(ns, &op->host_id, true)) {
		op->is_fenced = false;
		op->over_at = MODEL_NEVER;
	} else {
		ns->has_fenced = true;
	}
}

void fence_watch(struct world *world)
{
	for (unsigned i = 0; i < world->ns_count; i++) {
		struct world_ns *ns = &world->ns[i];

		if (!ns->has_fenced)
			continue;
		ns->has_fenced = false;
		for (unsigned k = 0; k < world->plan.hosts; k++)
			sim_host_for_each_op(world->hosts[k], op_let_go, ns);
	}
}

void fence_check(struct sim_op *op, bool is_done)
{
	if (!op->is_fenced)
		return;
	if (is_done)
		world_fail(op->world,
			   "namespace %u: kind %d of host %u was executed, although the host had "
			   "lost the right to write before the command began",
			   op->ns->nsid, op->kind, op->host_index);
	else if ((blocks_held(op) & ~op->held_before) != 0)
		world_fail(op->world,
			   "namespace %u: data of host %u landed after the host had lost the right "
			   "to write",
			   op->ns->nsid, op->host_index);
}
