/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the simulated hosts and what their answers may be. One thread.
 *
 * A written block carries its number, its address and a pattern in every word, so that a torn or
 * misplaced block is seen. A Copy spreads values that are known for sure: its sources are a few
 * blocks that nobody writes meanwhile. A block marked bad has a value too, which no read returns. A
 * status is right only if something that was done can explain it: media
 * errors need a medium that fails, Invalid Namespace a namespace that is not (or not for sure)
 * there, Command Aborted an Abort or a restart.
 */
#include "sim_op.h"

#include "base/clock.h"
#include "target/fused.h"
#include "wire/copy.h"
#include "wire/io_cmd.h"

#include <stdlib.h>
#include <string.h>

/* Values are unique in the world: each was made for one block. */
static uint64_t value_block(const struct world *world, uint64_t value)
{
	return value > 0 && value < world->next_value ? world->values[value].block : 0;
}

static uint64_t values_make(struct world *world, uint64_t first_block, uint32_t count)
{
	uint64_t first = world->next_value;

	world->next_value += count;
	if (world->next_value > world->value_room) {
		world->value_room = world->next_value * 2;
		world->values = realloc(world->values, world->value_room * sizeof(*world->values));
		CHECK(world->values != NULL);
	}
	for (uint32_t i = 0; i < count; i++)
		world->values[first + i] = (struct world_value){(uint32_t)first_block + i, false};
	return first;
}

static uint64_t word_of(uint64_t value, uint64_t block, size_t index)
{
	if (value == 0)
		return 0;
	if (index == 0)
		return value;
	return (value * 0x9e3779b97f4a7c15ull) ^ (block << 32) ^ index;
}

static void block_fill(const struct world *world, uint8_t *at, size_t bytes, uint64_t value)
{
	uint64_t block = value_block(world, value);

	for (size_t i = 0; i < bytes / 8; i++) {
		uint64_t word = word_of(value, block, i);

		memcpy(at + i * 8, &word, 8);
	}
}

/* False when the words do not belong together. */
static bool block_parse(const struct world *world, const uint8_t *at, size_t bytes,
			uint64_t *ret_value)
{
	uint64_t block, word;

	memcpy(ret_value, at, 8);
	block = value_block(world, *ret_value);
	for (size_t i = 1; i < bytes / 8; i++) {
		memcpy(&word, at + i * 8, 8);
		if (word != word_of(*ret_value, block, i))
			return false;
	}
	return true;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static uint64_t change_value(const struct op_change *change, uint64_t block)
{
	if (change->has_values)
		return change->values[block - change->extents[0].first_block];
	return change->value ? change->value + (block - change->extents[0].first_block) : 0;
}

static void change_begin(struct sim_op *op)
{
	struct op_change *change = &op->change;

	change->start = op->start;
	for (unsigned e = 0; e < change->extent_count && op->ns->model; e++) {
		for (uint32_t i = 0; i < change->extents[e].block_count; i++) {
			uint64_t block = change->extents[e].first_block + i;

			model_write_begin(op->ns->model, block, change_value(change, block),
					  op->start);
		}
	}
}

static void op_reset(struct sim_op *op, enum op_kind kind, struct world_ns *ns)
{
	CHECK(!op->is_busy);
	memset(&op->cmd, 0, sizeof(op->cmd));
	op->kind = kind;
	op->ns = ns;
	op->start = world_step(op->world);
	op->misdirected = wreck_misdirected(ns);
	op->is_busy = true;
	op->is_fua = false;
	op->must_be_aborted = false;
	op->may_be_aborted = false;
	op->change.ns = ns;
	op->over_at = MODEL_NEVER;
	op->change.extent_count = 0;
	op->change.value = 0;
	op->change.has_values = false;
	op->change.is_reserve = false;
	op->change.writes_quarry = false;
	op->change.reads_quarry = false;
}

void op_begin_read(struct sim_op *op, struct world_ns *ns, uint64_t first_block, uint32_t count)
{
	uint32_t bytes = count << ns->block_shift;

	op_reset(op, OP_READ, ns);
	op->change.extents[0] = (struct op_extent){first_block, count};
	memset(op->data, 0xee, bytes);
	host_cmd_read(&op->cmd, ns->nsid, first_block, count, op->data, bytes);
}

static void begin_write(struct sim_op *op, const struct op_extent *extent, struct host_cmd *cmd,
			uint8_t *data)
{
	uint32_t bytes = extent->block_count << op->ns->block_shift;
	uint32_t block_bytes = 1u << op->ns->block_shift;

	op->change.value = values_make(op->world, extent->first_block, extent->block_count);
	for (uint32_t i = 0; i < extent->block_count; i++)
		block_fill(op->world, data + i * block_bytes, block_bytes, op->change.value + i);
	host_cmd_write(cmd, op->ns->nsid, extent->first_block, extent->block_count, data, bytes);
}

static void begin_compare(struct sim_op *op, const struct op_extent *extent)
{
	uint32_t bytes = extent->block_count << op->ns->block_shift;
	uint32_t block_bytes = 1u << op->ns->block_shift;

	for (uint32_t i = 0; i < extent->block_count; i++) {
		uint64_t block = extent->first_block + i;

		op->expected[i] = op->ns->model ? model_guess(op->ns->model, block) : 0;
		block_fill(op->world, op->data + i * block_bytes, block_bytes, op->expected[i]);
	}
	host_cmd_compare(&op->cmd, op->ns->nsid, extent->first_block, extent->block_count, op->data,
			 bytes);
}

/* Two commands with one outcome: what is compared may be there, what is written is new. */
static void begin_fused(struct sim_op *op, const struct op_extent *extent)
{
	memset(&op->second, 0, sizeof(op->second));
	begin_compare(op, extent);
	begin_write(op, extent, &op->second, op->second_data);
	op->cmd.sqe.flags |= SQE_FUSE_FIRST;
	op->second.sqe.flags |= SQE_FUSE_SECOND;
}

static bool is_in_quarry(const struct world_ns *ns, uint64_t first_block, uint64_t count)
{
	return ns->quarry_first > 0 && first_block < ns->quarry_first + WORLD_QUARRY_BLOCKS &&
	       ns->quarry_first < first_block + count;
}

/* Ranges that do not overlap: each in its own part of the namespace. */
static void begin_deallocate(struct sim_op *op, struct prng *prng)
{
	struct op_change *change = &op->change;
	uint64_t part = op->ns->block_count / OP_EXTENTS_MAX;

	change->extent_count = 1 + (unsigned)prng_below(prng, OP_EXTENTS_MAX);
	for (unsigned i = 0; i < change->extent_count; i++) {
		uint64_t first = prng_below(prng, part);
		struct dsm_range range = {
			.first_block = i * part + first,
			.block_count = (uint32_t)prng_below(prng, part - first + 1),
		};

		if (is_in_quarry(op->ns, range.first_block, range.block_count))
			range = (struct dsm_range){0};

		dsm_range_encode(op->data, i, &range);
		change->extents[i] = (struct op_extent){range.first_block, range.block_count};
	}
	host_cmd_deallocate(&op->cmd, op->ns->nsid, op->data, change->extent_count);
}

static struct op_extent extent_choose(const struct world_ns *ns, struct prng *prng)
{
	uint32_t max = prng_one_in(prng, 3) ? OP_BLOCKS_MAX : 4;
	uint32_t count = 1 + (uint32_t)prng_below(prng, max);

	if (count > ns->block_count)
		count = (uint32_t)ns->block_count;
	/* Half of the commands meet on a few blocks. */
	if (prng_one_in(prng, 2) && ns->block_count >= 48)
		return (struct op_extent){prng_below(prng, 48 - count + 1), count};
	return (struct op_extent){prng_below(prng, ns->block_count - count + 1), count};
}

static void begin_admin(struct sim_op *op, enum op_kind kind, struct prng *prng)
{
	static const uint8_t logs[] = {LOG_SUPPORTED, LOG_ERROR, LOG_SMART, LOG_CHANGED_NS,
				       LOG_ANA};

	if (kind == OP_IDENTIFY_CTRL)
		host_cmd_identify(&op->cmd, 0, 1, op->data);
	else if (kind == OP_IDENTIFY_NS)
		host_cmd_identify(&op->cmd, op->ns->nsid, 0, op->data);
	else
		host_cmd_log(&op->cmd, NVME_NSID_ALL, logs[prng_below(prng, ARRAY_LEN(logs))], 0,
			     op->data, 512);
}

static enum op_kind kind_choose(struct world *world, struct prng *prng)
{
	static const enum op_kind mix[] = {
		OP_READ,  OP_READ,    OP_READ,       OP_READ,         OP_WRITE, OP_WRITE, OP_WRITE,
		OP_WRITE, OP_COMPARE, OP_DEALLOCATE, OP_WRITE_ZEROES, OP_FLUSH, OP_FUSED};

	if (world->plan.admin_one_in && prng_one_in(prng, world->plan.admin_one_in))
		return OP_IDENTIFY_CTRL + (enum op_kind)prng_below(prng, 3);
	return mix[prng_below(prng, ARRAY_LEN(mix))];
}

static void begin_uncorrectable(struct sim_op *op, const struct op_extent *extent)
{
	struct io_cmd cmd = {.first_block = extent->first_block,
			     .block_count = extent->block_count};

	op->change.value =
		values_make(op->world, extent->first_block, extent->block_count) | OP_VALUE_BAD;
	io_cmd_encode(&op->cmd.sqe, NVME_IO_WRITE_UNCORRECTABLE, op->ns->nsid, &cmd);
}

/* A range of the quarry whose every value is known. False: it is not. */
static bool copy_add_range(struct sim_op *op, struct prng *prng, uint32_t index, uint32_t *total)
{
	const struct world_ns *ns = op->ns;
	uint32_t count = 1 + (uint32_t)prng_below(prng, OP_COPY_MAX / OP_EXTENTS_MAX);
	struct copy_range range = {
		.first_block = ns->quarry_first + prng_below(prng, WORLD_QUARRY_BLOCKS - count + 1),
		.block_count = count,
	};

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = model_guess(ns->model, range.first_block + i);

		if (!model_is_only(ns->model, range.first_block + i, value, op->start))
			return false;
		op->change.values[*total + i] = value;
	}
	*total += count;
	copy_range_encode(op->data, index, COPY_FORMAT_ONE_NS, &range);
	return true;
}

/* False: what there is to copy is not known, or does not fit. */
static bool begin_copy(struct sim_op *op, struct prng *prng)
{
	struct copy_cmd cmd = {.range_count = 1 + (uint32_t)prng_below(prng, OP_EXTENTS_MAX),
			       .is_fua = prng_one_in(prng, 4)};
	struct world_ns *ns = op->ns;
	uint32_t total = 0;

	for (uint32_t i = 0; i < cmd.range_count; i++) {
		if (!copy_add_range(op, prng, i, &total))
			return false;
	}
	if (total > ns->quarry_first)
		return false;
	cmd.first_block = prng_below(prng, ns->quarry_first - total + 1);
	for (uint32_t i = 0; i < total; i++) {
		if (op->change.values[i] > 0)
			op->world->values[op->change.values[i]].is_copied = true;
	}
	ns->quarry_readers++;
	op->world->stats->copies++;
	op->change.reads_quarry = true;
	op->change.has_values = true;
	op->change.extents[0] = (struct op_extent){cmd.first_block, total};
	op->change.extent_count = 1;
	copy_cmd_encode(&op->cmd.sqe, ns->nsid, &cmd);
	op->cmd.direction = HOST_DATA_TO_CTRL;
	op->cmd.data = op->data;
	op->cmd.data_bytes = cmd.range_count * NVME_COPY_RANGE_BYTES;
	return true;
}

/* The commands that worlds with changes have beside the others. False: an other one it is. */
static bool begin_late(struct sim_op *op, struct prng *prng, struct world_ns *ns)
{
	const struct world_plan *plan = &op->world->plan;
	uint64_t choice = prng_below(prng, 12);
	struct op_extent extent;

	/* In a duel one after the other, so that the outcome is known. */
	if (plan->has_reservations &&
	    (plan->is_duel ? choice < 4 && ns->reserve_busy == 0 : choice < 2)) {
		op_reset(op, OP_RESERVE, ns);
		reserve_begin(op, prng);
		return true;
	}
	/* Where deallocating is advice, what was there before the mark may come back. */
	if (choice == 2 && plan->has_bad_blocks && ns->model &&
	    (!ns->media->can_discard || ns->media->reads_zero_after_discard)) {
		extent.block_count = 1 + (uint32_t)prng_below(prng, 3);
		extent.first_block = prng_below(prng, 8);
		op_reset(op, OP_UNCORRECTABLE, ns);
		op->change.extents[0] = extent;
		op->change.extent_count = 1;
		if (is_in_quarry(ns, extent.first_block, extent.block_count))
			op->change.extents[0].block_count = extent.block_count = 1;
		begin_uncorrectable(op, &extent);
		change_begin(op);
		return true;
	}
	if (choice == 3 && ns->quarry_first && !ns->is_quarry_written) {
		op_reset(op, OP_COPY, ns);
		if (begin_copy(op, prng)) {
			change_begin(op);
			return true;
		}
		op->is_busy = false;
	}
	if (choice == 4 && ns->quarry_first && !ns->is_quarry_written && ns->quarry_readers == 0) {
		extent = (struct op_extent){ns->quarry_first, WORLD_QUARRY_BLOCKS};
		op_reset(op, OP_WRITE, ns);
		op->change.extents[0] = extent;
		op->change.extent_count = 1;
		op->change.writes_quarry = ns->is_quarry_written = true;
		begin_write(op, &extent, &op->cmd, op->data);
		change_begin(op);
		return true;
	}
	return false;
}

/* Nothing of it may reach the medium. */
static void begin_misfit(struct sim_op *op, struct world_ns *ns, const struct op_extent *extent)
{
	uint32_t count = extent->block_count < 2 ? 2 : extent->block_count;
	uint64_t first = extent->block_count < 2 ? 0 : extent->first_block;
	uint32_t bytes = (count - 1) << ns->block_shift;

	op_reset(op, OP_MISFIT, ns);
	op->change.extents[0] = (struct op_extent){first, count};
	memset(op->data, 0xdd, bytes);
	host_cmd_write(&op->cmd, ns->nsid, first, count, op->data, bytes);
}

void op_begin_random(struct sim_op *op, struct prng *prng)
{
	struct world *world = op->world;
	struct world_ns *ns = &world->ns[prng_below(prng, world->ns_count)];
	enum op_kind kind = kind_choose(world, prng);
	struct op_extent extent = extent_choose(ns, prng);

	if (world->plan.has_large && ns->block_count >= OP_BLOCKS_LARGE && prng_one_in(prng, 8))
		extent = (struct op_extent){prng_below(prng, ns->block_count - OP_BLOCKS_LARGE + 1),
					    OP_BLOCKS_LARGE};
	if (world->plan.has_changes && begin_late(op, prng, ns))
		return;
	if (kind == OP_READ) {
		op_begin_read(op, ns, extent.first_block, extent.block_count);
		return;
	}
	if (is_in_quarry(ns, extent.first_block, extent.block_count)) {
		extent.first_block = 0;
		if (extent.block_count > ns->quarry_first)
			extent.block_count = (uint32_t)ns->quarry_first;
	}
	if (world->plan.misfit_one_in && prng_one_in(prng, world->plan.misfit_one_in)) {
		begin_misfit(op, ns, &extent);
		return;
	}
	if (kind == OP_FUSED && !op->can_fuse)
		kind = OP_COMPARE;
	if (kind == OP_FUSED && ns->media->ops->map)
		extent.block_count = 1; /* NACWU of memory */
	op_reset(op, kind, ns);
	op->change.extents[0] = extent;
	if (kind == OP_WRITE || kind == OP_WRITE_ZEROES || kind == OP_FUSED)
		op->change.extent_count = 1;
	if (kind == OP_WRITE)
		begin_write(op, &extent, &op->cmd, op->data);
	else if (kind == OP_FUSED)
		begin_fused(op, &extent);
	else if (kind == OP_WRITE_ZEROES)
		host_cmd_write_zeroes(&op->cmd, ns->nsid, extent.first_block, extent.block_count,
				      prng_one_in(prng, 2));
	else if (kind == OP_COMPARE)
		begin_compare(op, &extent);
	else if (kind == OP_DEALLOCATE)
		begin_deallocate(op, prng);
	else if (kind == OP_FLUSH)
		host_cmd_flush(&op->cmd, ns->nsid);
	else
		begin_admin(op, kind, prng);
	if (op->change.extent_count > 0 && kind != OP_DEALLOCATE && prng_one_in(prng, 4)) {
		op->is_fua = true;
		host_cmd_set_fua(kind == OP_FUSED ? &op->second : &op->cmd);
	}
	change_begin(op);
}

void op_begin_discovery(struct sim_op *op)
{
	op_reset(op, OP_LOG_DISCOVERY, NULL);
	op->generation_before = op->world->watch.generation_settled;
	host_cmd_log(&op->cmd, 0, LOG_DISCOVERY, 0, op->data, LOG_DISCOVERY_HEADER_BYTES * 2);
}

bool op_is_admin(const struct sim_op *op)
{
	return op->kind >= OP_IDENTIFY_CTRL;
}

/* ---- end ------------------------------------------------------------------------------------- */

static void change_end(const struct sim_op *op, const struct op_change *change, bool is_done,
		       uint64_t now)
{
	const struct media *media = change->ns->media;
	bool is_stable =
		op && (op->is_fua || op->kind == OP_UNCORRECTABLE || !media->has_volatile_cache);

	if (op && op->over_at != MODEL_NEVER && op->over_number == op->ns->reserve_begun)
		now = op->over_at;

	for (unsigned e = 0; e < change->extent_count && change->ns->model; e++) {
		for (uint32_t i = 0; i < change->extents[e].block_count; i++) {
			uint64_t block = change->extents[e].first_block + i;
			uint64_t value = change_value(change, block);

			if (is_done)
				model_write_done(change->ns->model, block, value, change->start,
						 now, is_stable);
			else
				model_write_maybe(change->ns->model, block, value, change->start,
						  now);
		}
	}
}

/* Nothing of it is under way any more. */
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

/* What an operator's change, or a store that is full, may make of a command. */
static bool change_explains(const struct sim_op *op, nvme_status status)
{
	const struct world_plan *plan = &op->world->plan;
	const struct world_ns *ns = op->ns;

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

/* What only the two of a fused operation may say: that the other one failed, or that the second
 * one found no room, which it may not wait for. */
static bool fused_is_explained(const struct sim_op *op, bool is_second, nvme_status status)
{
	nvme_status other = is_second ? op->cmd.status : op->second.status;

	if (nvme_status_same(status, NVME_SC_FUSED_FAIL))
		return !nvme_status_is_ok(other);
	/* Its second was lost on the way with its connection. */
	if (nvme_status_same(status, NVME_SC_FUSED_MISSING))
		return nvme_status_same(other, NVME_SC_HOST_PATHING_ERROR);
	return is_second && nvme_status_same(status, NVME_SC_COMMAND_INTERRUPTED);
}

static bool status_is_explained(const struct sim_op *op, bool is_second, nvme_status status)
{
	const struct world_ns *ns = op->ns;
	bool is_fused_compare = op->kind == OP_FUSED && !is_second;

	/* The second is believed because its session must then end: see sim_host_is_content. */
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
	/* Of an NSID that is inactive. */
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
	/* A Compare may succeed on what must not be written. */
	bool is_change = op_changes(op) && (op->kind != OP_FUSED || is_second);

	world->stats->statuses[status.value % SIM_STATUS_MAX]++;
	if (!is_ok && !status_is_explained(op, is_second, status))
		world_fail(world, "kind %d on namespace %u ended with \"%s\" for no reason",
			   op->kind, op->ns ? op->ns->nsid : 0, nvme_status_name(status));
	if (is_ok && is_settled(op) && !op_is_admin(op) &&
	    !world_ns_is_seen(op->ns, op->host_index))
		world_fail(world, "success on namespace %u, which is not there", op->ns->nsid);
	if (is_ok && is_settled(op) && !op_is_admin(op) && ana_is_shut(op->ns->ana))
		world_fail(world, "success on namespace %u, which is in ANA state %x", op->ns->nsid,
			   (unsigned)op->ns->ana);
	reserve_check(op, status);
	if (is_ok && op->kind == OP_MISFIT)
		world_fail(world, "namespace %u: a Write with too little data succeeded",
			   op->ns->nsid);
	if (is_ok && is_settled(op) && is_change && op->ns->is_read_only)
		world_fail(world, "namespace %u is read-only and was changed", op->ns->nsid);
	if (op->must_be_aborted && !is_second &&
	    !nvme_status_same(status, NVME_SC_ABORT_REQUESTED) &&
	    !nvme_status_same(status, NVME_SC_ABORT_PREEMPT) &&
	    !nvme_status_same(status, NVME_SC_HOST_PATHING_ERROR))
		world_fail(world, "Abort told of success, the command ended with \"%s\"",
			   nvme_status_name(status));
}

/* A read of its medium went to the wrong place meanwhile, and it may have been this one's. */
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
	for (uint32_t i = 0; i < extent->block_count && op->ns->model; i++) {
		uint64_t block = extent->first_block + i;

		if (!block_parse(op->world, op->data + i * block_bytes, block_bytes, &value)) {
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
		world_fail(op->world, "namespace %u: Compare of what must be there failed",
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
		watch_discovery(op->world, op->generation_before, &header);
	} else if (op->kind == OP_LOG && (le32_get(op->cmd.sqe.cdw10) & 0xff) == LOG_CHANGED_NS) {
		watch_changed_log(op->world, op->host_index, op->data, op->cmd.data_bytes);
	}
}

/* Values that no Copy spread are unique: who compared with one and wrote was the only one. */
static void check_fused_update(struct sim_op *op)
{
	const struct op_extent *extent = &op->change.extents[0];

	for (uint32_t i = 0; i < extent->block_count && op->ns->model; i++) {
		uint64_t *from = &op->ns->fused_from[extent->first_block + i];

		if (op->expected[i] && *from == op->expected[i] && !op_is_astray(op) &&
		    !op->world->values[op->expected[i]].is_copied)
			world_fail(op->world, "namespace %u: block %llu: an update was lost",
				   op->ns->nsid, (unsigned long long)(extent->first_block + i));
		*from = op_is_astray(op) ? 0 : op->expected[i];
	}
}

/* One outcome of two commands. */
static void fused_end(struct sim_op *op, struct list *ghosts, const struct world_ghost *session,
		      uint64_t now)
{
	bool is_compared = nvme_status_is_ok(op->cmd.status);
	bool is_written = nvme_status_is_ok(op->second.status);

	check_status(op, true);
	if (is_written && !is_compared &&
	    !nvme_status_same(op->cmd.status, NVME_SC_HOST_PATHING_ERROR))
		world_fail(op->world,
			   "namespace %u: fused: written after a Compare that said \"%s\"",
			   op->ns->nsid, nvme_status_name(op->cmd.status));
	if (is_compared || nvme_status_same(op->cmd.status, NVME_SC_COMPARE_FAILED))
		check_compare(op, now);
	if (is_compared && is_written)
		check_fused_update(op);
	if (nvme_status_same(op->second.status, NVME_SC_HOST_PATHING_ERROR))
		ghost_add(op, ghosts, session);
	else
		change_end(op, &op->change, is_written, now);
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
			  (unsigned long long)change_value(&op->change, extent->first_block),
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
	if (!is_lost)
		change_over(op->world, &op->change);
	if (op->kind == OP_FUSED)
		fused_end(op, ghosts, session, now);
	else if ((op->change.extent_count > 0 || op->kind == OP_RESERVE) && is_lost)
		ghost_add(op, ghosts, session);
	else if (op->kind == OP_RESERVE)
		reserve_end(op);
	else if (op->change.extent_count > 0)
		/* Discarding is advice where the medium does not promise zeroes. */
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
