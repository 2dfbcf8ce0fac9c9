/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the simulated hosts, until they are sent. sim_judge.c judges the answers. One
 * thread.
 *
 * A written block has its number, its address and a pattern in every word, so that torn or
 * misplaced blocks are noticed. A Copy spreads only known values: its sources are a few blocks (the
 * quarry) that no command writes meanwhile. A block marked bad has a value too, which no read
 * returns.
 */
#include "sim_op.h"

#include "base/clock.h"
#include "target/fused.h"
#include "wire/copy.h"
#include "wire/io_cmd.h"

#include <stdlib.h>
#include <string.h>

/* Each value is unique in the world and belongs to one block. */
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

bool op_block_parse(const struct world *world, const uint8_t *at, size_t bytes, uint64_t *ret_value)
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

uint64_t op_change_value(const struct op_change *change, uint64_t block)
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

			model_write_begin(op->ns->model, block, op_change_value(change, block),
					  op->start);
		}
	}
}

void op_reset(struct sim_op *op, enum op_kind kind, struct world_ns *ns)
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
	op->is_fenced = false;
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

/* Two commands with one outcome: the Compare uses likely values, the Write new ones. */
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
	/* Half of the commands share a few blocks. */
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

/* Adds a range of the quarry. False: a value in the range is not known. */
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

/* False: the source values are not known, or the total is too long. */
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

/* Commands that only worlds with changes have. False: choose another command. */
static bool begin_late(struct sim_op *op, struct prng *prng, struct world_ns *ns)
{
	const struct world_plan *plan = &op->world->plan;
	uint64_t choice = prng_below(prng, 12);
	struct op_extent extent;

	/* In a duel one reservation command at a time, so that the outcome is known. */
	if (plan->has_reservations &&
	    (plan->is_duel ? choice < (plan->has_late_data ? 3 : 4) && ns->reserve_busy == 0
			   : choice < 2)) {
		op_reset(op, OP_RESERVE, ns);
		reserve_begin(op, prng);
		return true;
	}
	/* If deallocated blocks may keep their data, data from before the mark may come back. */
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

/* A Write with too little data; no byte of it may reach the medium. */
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
	if (world->plan.odd_one_in && prng_one_in(prng, world->plan.odd_one_in)) {
		odd_begin(op, prng, ns);
		return;
	}
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
	op->generation_before = op->world->duties.generation_settled;
	host_cmd_log(&op->cmd, 0, LOG_DISCOVERY, 0, op->data, LOG_DISCOVERY_HEADER_BYTES * 2);
}

bool op_is_admin(const struct sim_op *op)
{
	return op->kind >= OP_IDENTIFY_CTRL;
}
