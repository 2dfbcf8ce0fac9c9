/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which answers the simulated hosts may get. One thread; runs on the host's simulated reactor.
 *
 * A status is right only if something explains it: a media error needs a failing medium, Invalid
 * Namespace a namespace that is missing (or not for sure present), Command Aborted an Abort or a
 * restart. A command of unknown outcome is a ghost: it may land until its controller has ended at
 * the target.
 */
#include "sim_op.h"

#include "base/clock.h"
#include "target/fused.h"

#include <stdlib.h>
#include <string.h>

static void change_end(const struct sim_op *op, const struct op_change *change, bool is_done,
		       uint64_t now)
{
	const struct media *media = change->ns->media;
	bool is_stable =
		op && (op->is_fua || op->kind == OP_UNCORRECTABLE || !media->has_volatile_cache);

	if (op && op->over_at != MODEL_NEVER &&
	    (op->is_fenced || op->over_number == op->ns->reserve_begun))
		now = op->over_at;

	for (unsigned e = 0; e < change->extent_count && change->ns->model; e++) {
		for (uint32_t i = 0; i < change->extents[e].block_count; i++) {
			uint64_t block = change->extents[e].first_block + i;
			uint64_t value = op_change_value(change, block);

			if (is_done)
				model_write_done(change->ns->model, block, value, change->start,
						 now, is_stable);
			else
				model_write_maybe(change->ns->model, block, value, change->start,
						  now);
		}
	}
}

/* The command has ended at the target. */
static void change_over(struct world *world, const struct op_change *change)
{
	if (change->writes_quarry)
		change->ns->is_quarry_written = false;
	if (change->reads_quarry)
		change->ns->quarry_readers--;
}

void op_ghosts_settle(struct world *world, struct list *ghosts)
{
	list_for_each_safe(node, ghosts) {
		struct op_change *change = list_entry(node, struct op_change, node);

		if (!world_ghost_is_gone(world, &change->ghost))
			continue;
		change_end(NULL, change, false, world_step(world));
		change_over(world, change);
		if (change->is_reserve)
			reserve_over(world, change->ns);
		list_remove(node);
		free(change);
	}
}

unsigned op_ghosts_reset(struct world *world, struct list *ghosts,
			 const struct world_ghost *session)
{
	unsigned count = 0;

	list_for_each(node, ghosts) {
		struct world_ghost *ghost = &list_entry(node, struct op_change, node)->ghost;

		if (ghost->target_epoch == session->target_epoch &&
		    ghost->cntlid == session->cntlid) {
			ghost->is_reset = true;
			count++;
		}
	}
	op_ghosts_settle(world, ghosts);
	return count;
}

static void ghost_add(const struct sim_op *op, struct list *ghosts,
		      const struct world_ghost *session)
{
	struct op_change *change = malloc(sizeof(*change));

	CHECK(change != NULL);
	*change = op->change;
	change->ghost = *session;
	list_push_back(ghosts, &change->node);
}

static bool op_changes(const struct sim_op *op)
{
	return op->kind == OP_WRITE || op->kind == OP_WRITE_ZEROES || op->kind == OP_DEALLOCATE ||
	       op->kind == OP_FUSED || op->kind == OP_UNCORRECTABLE || op->kind == OP_COPY ||
	       op->kind == OP_MISFIT;
}

static bool may_be_bad(const struct sim_op *op)
{
	const struct op_extent *extent = &op->change.extents[0];

	for (uint32_t i = 0; i < extent->block_count && op->ns->model; i++) {
		if (model_may_hold(op->ns->model, extent->first_block + i, OP_VALUE_BAD, op->start,
				   op->world->step))
			return true;
	}
	return false;
}

static bool ana_is_shut(enum ana_state state)
{
	return state != ANA_OPTIMIZED && state != ANA_NON_OPTIMIZED;
}

static nvme_status ana_status(enum ana_state state)
{
	if (state == ANA_INACCESSIBLE)
		return NVME_SC_ANA_INACCESSIBLE;
	return state == ANA_CHANGE ? NVME_SC_ANA_TRANSITION : NVME_SC_ANA_PERSISTENT_LOSS;
}

static bool is_settled(const struct sim_op *op)
{
	return op->ns && op->ns->settled_at < op->start;
}

/* A configuration change may interrupt a transfer directly into or out of a memory medium. */
static bool is_cut_off(const struct sim_op *op)
{
	return (op_changes(op) || op->kind == OP_READ) && op->ns->kind == WORLD_MEDIUM_MEM &&
	       (!is_settled(op) || op->ns->reserve_busy > 0 ||
		op->ns->reserve_quiet_at >= op->start);
}

/* A command of several pieces that lost its right after the first one. */
static bool is_broken_off(const struct sim_op *op)
{
	bool has_pieces = op->kind == OP_DEALLOCATE || op->kind == OP_COPY ||
			  (op->kind == OP_WRITE_ZEROES && op->ns->kind == WORLD_MEDIUM_MEM);

	return has_pieces && (!is_settled(op) || !world_ns_is_seen(op->ns, op->host_index));
}

/* True: an operator's change or a full store explains the status. */
static bool change_explains(const struct sim_op *op, nvme_status status)
{
	const struct world_plan *plan = &op->world->plan;
	const struct world_ns *ns = op->ns;

	if (nvme_status_same(status, NVME_SC_COMMAND_INTERRUPTED))
		return is_cut_off(op) || is_broken_off(op);
	if (!plan->has_changes)
		return false;
	if (nvme_status_same(status, NVME_SC_ANA_INACCESSIBLE) ||
	    nvme_status_same(status, NVME_SC_ANA_PERSISTENT_LOSS) ||
	    nvme_status_same(status, NVME_SC_ANA_TRANSITION))
		return plan->ana_one_in > 0 && !op_is_admin(op) &&
		       (!is_settled(op) ||
			(ana_is_shut(ns->ana) && nvme_status_same(status, ana_status(ns->ana))));
	if (nvme_status_same(status, NVME_SC_LBA_RANGE))
		return plan->grow_one_in > 0 && !is_settled(op);
	if (nvme_status_same(status, NVME_SC_INTERNAL))
		return plan->keep_fail_one_in > 0 &&
		       (op->kind == OP_RESERVE || (plan->has_bad_blocks && op_changes(op)));
	return reserve_explains(op, status);
}

/* Statuses of fused commands only: the other command failed, or the second command found no free
 * block range and may not wait. */
static bool fused_is_explained(const struct sim_op *op, bool is_second, nvme_status status)
{
	nvme_status other = is_second ? op->cmd.status : op->second.status;

	if (nvme_status_same(status, NVME_SC_FUSED_FAIL))
		return !nvme_status_is_ok(other);
	/* The second command was lost with its connection. */
	if (nvme_status_same(status, NVME_SC_FUSED_MISSING))
		return nvme_status_same(other, NVME_SC_HOST_PATHING_ERROR);
	return is_second && nvme_status_same(status, NVME_SC_COMMAND_INTERRUPTED);
}

/* The NSID was added after the host connected, and the host has not read its block size. */
static bool not_ready_is_explained(const struct sim_op *op)
{
	bool is_blind = op->kind == OP_WRITE_ZEROES || op->kind == OP_DEALLOCATE ||
			op->kind == OP_UNCORRECTABLE || op->kind == OP_COPY;

	return is_blind && (op->world->plan.swap_one_in > 0 || op->world->plan.has_changes);
}

static bool status_is_explained(const struct sim_op *op, bool is_second, nvme_status status)
{
	const struct world_ns *ns = op->ns;
	bool is_fused_compare = op->kind == OP_FUSED && !is_second;

	/* The second status is accepted because the controller must then end: see sim_host_lack. */
	if (nvme_status_same(status, NVME_SC_HOST_PATHING_ERROR) ||
	    nvme_status_same(status, NVME_SC_ABORT_SQ_DELETION))
		return true;
	if (nvme_status_same(status, NVME_SC_ABORT_REQUESTED))
		return op->may_be_aborted || op->world->plan.restart_one_in > 0;
	if (nvme_status_same(status, NVME_SC_TRANSIENT_TRANSPORT))
		return op->world->late.flip_one_in > 0;
	if (nvme_status_same(status, NVME_SC_INTERNAL) && op->world->wreck.refuse_one_in > 0)
		return true;
	if (!ns)
		return false;
	if (op->kind == OP_ODD_ADMIN || op->kind == OP_ODD_IO) {
		if (nvme_status_same(status, op->odd_status))
			return true;
		if (op->kind == OP_ODD_ADMIN)
			return false;
	}
	if (nvme_status_same(status, NVME_SC_NS_NOT_READY))
		return not_ready_is_explained(op);
	/* The NSID may be inactive. */
	if (nvme_status_same(status, NVME_SC_INVALID_FIELD))
		return op->kind == OP_RESERVE || !is_settled(op) ||
		       !world_ns_is_seen(ns, op->host_index);
	if (nvme_status_same(status, NVME_SC_NS_WRITE_PROTECTED))
		return op_changes(op) && (!is_settled(op) || ns->is_read_only);
	if (op->kind == OP_FUSED && fused_is_explained(op, is_second, status))
		return true;
	if (change_explains(op, status))
		return true;
	if (nvme_status_same(status, NVME_SC_COMPARE_FAILED))
		return op->kind == OP_COMPARE || is_fused_compare;
	if (nvme_status_same(status, NVME_SC_UNRECOVERED_READ))
		return op->kind == OP_COPY ? ns->can_fail
					   : (ns->can_fail || may_be_bad(op)) &&
						     (op->kind == OP_READ ||
						      op->kind == OP_COMPARE || is_fused_compare);
	if (nvme_status_same(status, NVME_SC_SGL_INVALID_DATA_LEN))
		return op->kind == OP_MISFIT;
	if (nvme_status_same(status, NVME_SC_CAPACITY_EXCEEDED))
		return ns->disk && op->world->wreck.full_one_in > 0 && op_changes(op);
	if (nvme_status_same(status, NVME_SC_WRITE_FAULT))
		return ns->can_fail && (op_changes(op) || op->kind == OP_FLUSH);
	return false;
}

static void check_status(struct sim_op *op, bool is_second)
{
	struct world *world = op->world;
	nvme_status status = is_second ? op->second.status : op->cmd.status;
	bool is_ok = nvme_status_is_ok(status);
	/* A Compare may succeed on blocks that must not be written. */
	bool is_change = op_changes(op) && (op->kind != OP_FUSED || is_second);

	world->stats->statuses[status.value % SIM_STATUS_MAX]++;
	if (!is_ok && !status_is_explained(op, is_second, status))
		world_fail(world, "kind %d on namespace %u ended with \"%s\" without a cause",
			   op->kind, op->ns ? op->ns->nsid : 0, nvme_status_name(status));
	if (is_ok && is_settled(op) && !op_is_admin(op) &&
	    !world_ns_is_seen(op->ns, op->host_index))
		world_fail(world, "success on namespace %u, which the host does not see",
			   op->ns->nsid);
	if (is_ok && is_settled(op) && !op_is_admin(op) && ana_is_shut(op->ns->ana))
		world_fail(world, "success on namespace %u, which is in ANA state %x", op->ns->nsid,
			   (unsigned)op->ns->ana);
	reserve_check(op, status);
	if (is_ok && (op->kind == OP_ODD_IO || op->kind == OP_ODD_ADMIN))
		world_fail(world, "an invalid command succeeded");
	if (is_ok && op->kind == OP_MISFIT)
		world_fail(world, "namespace %u: a Write with too little data succeeded",
			   op->ns->nsid);
	if (is_ok && is_settled(op) && is_change && op->ns->is_read_only)
		world_fail(world, "namespace %u is read-only and was changed", op->ns->nsid);
	if (op->must_be_aborted && !is_second &&
	    !nvme_status_same(status, NVME_SC_ABORT_REQUESTED) &&
	    !nvme_status_same(status, NVME_SC_ABORT_PREEMPT) &&
	    !nvme_status_same(status, NVME_SC_HOST_PATHING_ERROR))
		world_fail(world, "Abort reported success, but the command ended with \"%s\"",
			   nvme_status_name(status));
}

/* True: the disk misdirected a read during this command, perhaps the command's own. */
static bool op_is_astray(const struct sim_op *op)
{
	return wreck_misdirected(op->ns) != op->misdirected;
}

static void check_value(struct sim_op *op, uint64_t block, uint64_t value, uint64_t now)
{
	char why[160];

	op->world->stats->blocks_checked++;
	if (!model_read(op->ns->model, block, value, op->start, now, why))
		world_fail(op->world, "namespace %u: %s", op->ns->nsid, why);
}

static void check_read(struct sim_op *op, uint64_t now)
{
	const struct op_extent *extent = &op->change.extents[0];
	uint32_t block_bytes = 1u << op->ns->block_shift;
	uint64_t value;

	if (op_is_astray(op))
		return;
	/* The host lost the right to read at over_at, so the data must be from before. */
	if (op->over_at != MODEL_NEVER)
		now = op->over_at;
	for (uint32_t i = 0; i < extent->block_count && op->ns->model; i++) {
		uint64_t block = extent->first_block + i;

		if (!op_block_parse(op->world, op->data + i * block_bytes, block_bytes, &value)) {
			world_fail(op->world, "namespace %u: block %llu is torn or misplaced",
				   op->ns->nsid, (unsigned long long)block);
			return;
		}
		check_value(op, block, value, now);
	}
}

static void check_compare(struct sim_op *op, uint64_t now)
{
	const struct op_extent *extent = &op->change.extents[0];
	bool is_ok = nvme_status_is_ok(op->cmd.status);
	bool can_differ = false;

	if (!op->ns->model || op_is_astray(op))
		return;
	for (uint32_t i = 0; i < extent->block_count; i++) {
		uint64_t block = extent->first_block + i;

		if (is_ok)
			check_value(op, block, op->expected[i], now);
		else
			can_differ |=
				(op->expected[i] & OP_VALUE_BAD) != 0 ||
				!model_is_only(op->ns->model, block, op->expected[i], op->start);
	}
	if (nvme_status_same(op->cmd.status, NVME_SC_COMPARE_FAILED) && !can_differ)
		world_fail(op->world, "namespace %u: Compare with the stored data failed",
			   op->ns->nsid);
}

static void check_admin(struct sim_op *op)
{
	struct discovery_header header;
	uint64_t blocks;

	if (op->kind == OP_IDENTIFY_NS && is_settled(op) &&
	    world_ns_is_seen(op->ns, op->host_index)) {
		memcpy(&blocks, op->data, sizeof(blocks));
		if (le64toh(blocks) != op->ns->block_count)
			world_fail(op->world, "Identify: namespace %u has %llu blocks",
				   op->ns->nsid, (unsigned long long)le64toh(blocks));
	} else if (op->kind == OP_LOG_DISCOVERY) {
		log_discovery_header_decode(op->data, &header);
		if (header.entry_count == 0)
			world_fail(op->world, "the discovery log is empty");
		duty_discovery(op->world, op->generation_before, &header);
	} else if (op->kind == OP_LOG && (le32_get(op->cmd.sqe.cdw10) & 0xff) == LOG_CHANGED_NS) {
		duty_changed_log(op->world, op->host_index, op->data, op->cmd.data_bytes);
	}
}

/* Values that no Copy spread are unique, so only one fused pair can have replaced a value. */
static void check_fused_update(struct sim_op *op)
{
	const struct op_extent *extent = &op->change.extents[0];

	/* The compared value may have been in the cache that was lost. */
	if (op->start < op->ns->lost_at)
		return;
	for (uint32_t i = 0; i < extent->block_count && op->ns->model; i++) {
		uint64_t *from = &op->ns->fused_from[extent->first_block + i];

		if (op->expected[i] && *from == op->expected[i] && !op_is_astray(op) &&
		    !op->world->values[op->expected[i]].is_copied)
			world_fail(op->world, "namespace %u: block %llu: an update was lost",
				   op->ns->nsid, (unsigned long long)(extent->first_block + i));
		*from = op_is_astray(op) ? 0 : op->expected[i];
	}
}

/* Judges a fused pair: two commands with one outcome. */
static void fused_end(struct sim_op *op, struct list *ghosts, const struct world_ghost *session,
		      uint64_t now)
{
	bool is_compared = nvme_status_is_ok(op->cmd.status);
	bool is_written = nvme_status_is_ok(op->second.status);

	check_status(op, true);
	if (is_written && !is_compared &&
	    !nvme_status_same(op->cmd.status, NVME_SC_HOST_PATHING_ERROR))
		world_fail(op->world,
			   "namespace %u: fused: written although Compare ended with \"%s\"",
			   op->ns->nsid, nvme_status_name(op->cmd.status));
	if (is_compared || nvme_status_same(op->cmd.status, NVME_SC_COMPARE_FAILED))
		check_compare(op, now);
	if (is_compared && is_written)
		check_fused_update(op);
	if (nvme_status_same(op->second.status, NVME_SC_HOST_PATHING_ERROR))
		ghost_add(op, ghosts, session);
	else
		change_end(op, &op->change, is_written, now);
	fence_check(op, is_written);
}

static void op_trace(const struct sim_op *op, uint64_t now)
{
	const struct op_extent *extent = &op->change.extents[0];

	if (!op->ns)
		return;
	sim_trace(op->world->sim, "op: %llu to %llu: host %u, kind %d, namespace %u, %llu+%u: %s",
		  (unsigned long long)op->start, (unsigned long long)now, op->host_index, op->kind,
		  op->ns->nsid, (unsigned long long)extent->first_block, extent->block_count,
		  nvme_status_name(op->cmd.status));
	if (op->change.extent_count > 0)
		sim_trace(op->world->sim, "op: %llu: value %llx of block %llu%s",
			  (unsigned long long)op->start,
			  (unsigned long long)op_change_value(&op->change, extent->first_block),
			  (unsigned long long)extent->first_block,
			  op->over_at == MODEL_NEVER ? "" : ", shut out");
}

void op_end(struct sim_op *op, struct list *ghosts, const struct world_ghost *session)
{
	uint64_t now = world_step(op->world);
	bool is_ok = nvme_status_is_ok(op->cmd.status);
	bool is_lost = nvme_status_same(op->cmd.status, NVME_SC_HOST_PATHING_ERROR);

	if (!op->is_busy)
		world_fail(op->world, "a command was answered twice");
	op->is_busy = false;
	op_trace(op, now);
	world_hash(op->world, op->cmd.status.value ^ now << 16 ^ (uint64_t)op->kind << 60);
	check_status(op, false);
	if (op->kind != OP_FUSED)
		fence_check(op, is_ok);
	if (!is_lost)
		change_over(op->world, &op->change);
	if (op->kind == OP_FUSED)
		fused_end(op, ghosts, session, now);
	else if ((op->change.extent_count > 0 || op->kind == OP_RESERVE) && is_lost)
		ghost_add(op, ghosts, session);
	else if (op->kind == OP_RESERVE)
		reserve_end(op);
	else if (op->change.extent_count > 0)
		/* A Deallocate without promised zeroes may have no effect. */
		change_end(op, &op->change,
			   is_ok && (op->kind != OP_DEALLOCATE ||
				     op->ns->media->reads_zero_after_discard),
			   now);
	else if (op->kind == OP_READ && is_ok)
		check_read(op, now);
	else if (op->kind == OP_COMPARE)
		check_compare(op, now);
	else if (op->kind == OP_FLUSH && is_ok && op->ns->model)
		model_flush(op->ns->model, op->start);
	else if (op_is_admin(op) && is_ok)
		check_admin(op);
}
