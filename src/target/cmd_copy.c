/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy: copies the blocks of up to TARGET_COPY_RANGES_MAX source ranges to one destination, one
 * range behind the other. NVM Command Set 1.1, section 3.3.2. Source ranges in other namespaces of
 * the subsystem (descriptor format 2h): TP4130. Runs on the queue's reactor.
 *
 * Everything that can be judged is judged before the first block is written. Then the ranges are
 * copied in order, piece by piece: each piece is read into a buffer and written from there. The
 * range descriptors are in the same buffer. Before each read and each write, the rights to the
 * destination and to all sources are judged again if they may have changed (target/reach.h). A
 * range that overlaps its own destination is copied from its end where that is needed. A command
 * that fails reports the first range that was not copied. All ranges before that one are copied.
 */
#include "ns/reservation.h"
#include "target/bad_blocks_command.h"
#include "target/loss.h"
#include "target/reservation_command.h"
#include "target/steps.h"
#include "wire/copy.h"

#include <errno.h>

/* The buffer holds the range descriptors, then whole pages of data. */
#define COPY_HEAD_BYTES (TARGET_COPY_RANGES_MAX * NVME_COPY_RANGE_BYTES)
#define COPY_STEP_BYTES (STEP_BUF_BYTES - COPY_HEAD_BYTES)
_Static_assert(COPY_HEAD_BYTES % NVME_PAGE_BYTES == 0, "the data behind the ranges is aligned");

/* ---- judging -------------------------------------------------------------------------------- */

static struct copy_range copy_range_at(const struct slot *slot, const struct copy_cmd *cmd,
				       uint32_t index)
{
	return copy_range_decode(slot->data.addr, index, cmd->format);
}

/* NULL: the host does not see the namespace. */
static const struct ns *copy_source_ns(const struct slot *slot, const struct copy_cmd *cmd,
				       const struct copy_range *range)
{
	const struct ns *ns;

	if (cmd->format == COPY_FORMAT_ONE_NS)
		return slot->ns;
	ns = subsystem_find_ns(slot->steps.subsystem, range->nsid);
	return ns && ns_mask_has(ns->mask, slot->steps.host_index) ? ns : NULL;
}

static const struct ns_view *copy_view(const struct slot *slot, const struct ns *ns)
{
	return ns->locals[slot->queue->local->index].view;
}

/* As for the NSID of a command: an inactive NSID is an invalid field, any other is an invalid
 * namespace. */
static nvme_status copy_source_absent(uint32_t nsid)
{
	return nvme_status_dnr(nsid >= 1 && nsid <= TARGET_NSID_MAX ? NVME_SC_INVALID_FIELD
								    : NVME_SC_INVALID_NS);
}

static nvme_status copy_check_source(struct slot *slot, const struct copy_cmd *cmd,
				     const struct copy_range *range)
{
	const struct ns *ns = copy_source_ns(slot, cmd, range);
	nvme_status status;

	if (!ns)
		return copy_source_absent(range->nsid);
	if (range->is_fast_only)
		return nvme_status_dnr(NVME_SC_FAST_COPY_IMPOSSIBLE);
	if (ns->block_shift != slot->ns->block_shift)
		return nvme_status_dnr(NVME_SC_INCOMPATIBLE_NS);
	if (range->block_count > TARGET_COPY_RANGE_BLOCKS_MAX)
		return nvme_status_dnr(NVME_SC_SIZE_LIMIT);
	if (range->block_count > ns->block_count ||
	    range->first_block > ns->block_count - range->block_count)
		return nvme_status_dnr(NVME_SC_LBA_RANGE);
	if (ns == slot->ns)
		return NVME_SC_SUCCESS; /* judged by io_prepare_ns */
	if (!ctrl_knows_format(slot->queue->ctrl, ns))
		return NVME_SC_NS_NOT_READY;
	status = ctrl_check_identity(slot->queue->ctrl, slot->steps.subsystem, ns);
	if (nvme_status_is_ok(status))
		status = io_check_path(slot->queue, ns);
	if (nvme_status_is_ok(status) && copy_view(slot, ns))
		status = reservation_check(slot, ns, NVME_IO_READ, copy_view(slot, ns));
	return status;
}

/* Whether the range overlaps the destination although its format forbids overlaps. Format 0h is
 * older than that rule. */
static bool copy_overlaps(const struct slot *slot, const struct copy_cmd *cmd,
			  const struct copy_range *range, uint64_t total)
{
	if (cmd->format == COPY_FORMAT_ONE_NS || copy_source_ns(slot, cmd, range) != slot->ns)
		return false;
	return range->first_block < cmd->first_block + total &&
	       cmd->first_block < range->first_block + range->block_count;
}

static nvme_status copy_check(struct slot *slot, const struct copy_cmd *cmd, uint64_t *ret_total)
{
	const struct ns *ns = slot->ns;
	uint64_t total = 0;

	for (uint32_t i = 0; i < cmd->range_count; i++) {
		struct copy_range range = copy_range_at(slot, cmd, i);
		nvme_status status = copy_check_source(slot, cmd, &range);

		slot->io_cmd.first_block = range.first_block;
		if (!nvme_status_is_ok(status))
			return status;
		total += range.block_count;
	}
	slot->io_cmd.first_block = cmd->first_block;
	if (total > TARGET_COPY_BLOCKS_MAX)
		return nvme_status_dnr(NVME_SC_SIZE_LIMIT);
	if (total > ns->block_count || cmd->first_block > ns->block_count - total)
		return nvme_status_dnr(NVME_SC_LBA_RANGE);
	for (uint32_t i = 0; i < cmd->range_count; i++) {
		struct copy_range range = copy_range_at(slot, cmd, i);

		if (copy_overlaps(slot, cmd, &range, total))
			return nvme_status_dnr(NVME_SC_OVERLAPPING_RANGE);
	}
	*ret_total = total;
	return NVME_SC_SUCCESS;
}

/* ---- copying -------------------------------------------------------------------------------- */

/* Blocks that were marked bad and have been written are healed, even when a later range has
 * failed. */
static void copy_end(struct slot *slot, const struct copy_cmd *cmd, nvme_status status)
{
	uint64_t done = slot->steps.done_blocks;

	if (!nvme_status_is_ok(status))
		slot->result = slot->steps.index;
	io_counter_add(&io_counters(slot)->bytes_written, done << slot->ns->block_shift);
	if (slot->heals_bad && done > 0) {
		slot->io_cmd = (struct io_cmd){.first_block = cmd->first_block,
					       .block_count = (uint32_t)done};
		bad_blocks_heal_for(slot, status);
	} else if (!nvme_status_is_ok(status) && loss_is_news(slot->ns)) {
		loss_answer(slot, status);
	} else {
		slot_complete(slot, status);
	}
}

static void copy_fail(struct slot *slot, const struct copy_cmd *cmd, int res)
{
	struct copy_range range = copy_range_at(slot, cmd, slot->steps.index);
	const struct ns *ns = copy_source_ns(slot, cmd, &range);
	nvme_status status = io_status(slot, res);

	io_note_error(slot, slot->io.kind == MEDIA_READ ? ns : slot->ns, res, status);
	copy_end(slot, cmd, status);
}

/* Where in the range the step begins, in blocks. A range that is copied upwards onto itself is
 * copied from its end. */
static uint32_t copy_step_offset(const struct slot *slot, const struct copy_cmd *cmd,
				 const struct copy_range *range)
{
	const struct slot_steps *steps = &slot->steps;
	uint64_t dest = cmd->first_block + steps->done_blocks;
	bool is_upwards = copy_source_ns(slot, cmd, range) == slot->ns &&
			  dest > range->first_block &&
			  dest < range->first_block + range->block_count;

	return is_upwards ? range->block_count - steps->at_block - steps->step_blocks
			  : steps->at_block;
}

static bool copy_read(struct slot *slot, const struct copy_cmd *cmd, const struct copy_range *range)
{
	struct slot_steps *steps = &slot->steps;
	const struct ns *ns = copy_source_ns(slot, cmd, range);
	const struct ns_view *view = copy_view(slot, ns);
	uint32_t blocks = COPY_STEP_BYTES >> ns->block_shift;
	uint64_t bad_block;

	if (view && steps->at_block == 0 &&
	    bad_view_find_block(view->bad, ns->block_shift, range->first_block, range->block_count,
				&bad_block)) {
		slot->io_cmd.first_block = bad_block;
		io_counter_add(&ns->locals[slot->queue->local->index].media_errors, 1);
		copy_end(slot, cmd, nvme_status_dnr(NVME_SC_UNRECOVERED_READ));
		return false;
	}
	if (blocks > range->block_count - steps->at_block)
		blocks = range->block_count - steps->at_block;
	steps->step_blocks = blocks;
	slot->io_cmd = (struct io_cmd){
		.first_block = range->first_block + copy_step_offset(slot, cmd, range),
		.block_count = blocks,
	};
	slot->iov = (struct iovec){.iov_base = slot->buf.addr + COPY_HEAD_BYTES,
				   .iov_len = (size_t)blocks << ns->block_shift};
	io_counter_add(&ns->locals[slot->queue->local->index].bytes_read, slot->iov.iov_len);
	steps_submit(slot, ns, MEDIA_READ);
	return true;
}

static bool copy_write(struct slot *slot, const struct copy_cmd *cmd,
		       const struct copy_range *range)
{
	const struct slot_steps *steps = &slot->steps;

	slot->io_cmd = (struct io_cmd){
		.first_block =
			cmd->first_block + steps->done_blocks + copy_step_offset(slot, cmd, range),
		.block_count = steps->step_blocks,
		.is_fua = cmd->is_fua || slot->heals_bad,
	};
	steps_submit(slot, slot->ns, MEDIA_WRITE);
	return true;
}

static bool copy_next(struct slot *slot, int res)
{
	struct slot_steps *steps = &slot->steps;
	struct copy_range range;
	struct copy_cmd cmd;

	copy_cmd_decode(&slot->sqe, &cmd);
	if (res != 0) {
		copy_fail(slot, &cmd, res);
		return false;
	}
	range = copy_range_at(slot, &cmd, steps->index);
	if (steps->step_blocks > 0 && slot->io.kind == MEDIA_READ)
		return copy_write(slot, &cmd, &range);
	steps->at_block += steps->step_blocks;
	steps->step_blocks = 0;
	if (steps->at_block < range.block_count)
		return copy_read(slot, &cmd, &range);
	steps->done_blocks += range.block_count;
	steps->at_block = 0;
	if (++steps->index == cmd.range_count) {
		copy_end(slot, &cmd, NVME_SC_SUCCESS);
		return false;
	}
	range = copy_range_at(slot, &cmd, steps->index);
	return copy_read(slot, &cmd, &range);
}

static void copy_execute(struct slot *slot)
{
	const struct ns_view *view = copy_view(slot, slot->ns);
	struct copy_cmd cmd;
	uint64_t total, bad_block;
	nvme_status status;

	copy_cmd_decode(&slot->sqe, &cmd);
	status = copy_check(slot, &cmd, &total);
	if (!nvme_status_is_ok(status)) {
		slot_complete(slot, status);
		return;
	}
	io_counter_add(&io_counters(slot)->write_commands, 1);
	if (view && bad_view_find_block(view->bad, slot->ns->block_shift, cmd.first_block, total,
					&bad_block)) {
		slot->heals_bad = true;
		slot->bad_stamp = bad_view_stamp(view->bad);
	}
	steps_begin(slot, copy_next);
}

/* A host must enable format 2h before use (feature 16h, CDFE). */
static bool copy_format_is_enabled(const struct slot *slot, uint8_t format)
{
	uint32_t enabled =
		atomic_load_explicit(&slot->queue->ctrl->copy_formats, memory_order_relaxed);

	if (!(TARGET_COPY_FORMATS >> format & 1))
		return false;
	return format == COPY_FORMAT_ONE_NS || (enabled >> format & 1) != 0;
}

nvme_status copy_prepare(struct slot *slot)
{
	nvme_status status;
	struct copy_cmd cmd;

	copy_cmd_decode(&slot->sqe, &cmd);
	if (!copy_format_is_enabled(slot, cmd.format))
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12 + 1);
	/* PRINFO and STC are ignored without protection information. Directives and keys are not
	 * supported. */
	if (cmd.directive_type != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_AT(SQE_BYTE_CDW12 + 2, 4));
	if (cmd.extension_type != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12 + 2);
	if (cmd.range_count > TARGET_COPY_RANGES_MAX)
		return command_refuse(slot, NVME_SC_SIZE_LIMIT, SQE_BYTE_CDW12);
	slot->io_cmd.first_block = cmd.first_block;
	slot->steps.subsystem = slot->queue->subsystem;
	slot->steps.host_index = slot->queue->host_index;
	slot->execute = copy_execute;
	status = command_expect_data(slot, DATA_TO_CTRL, cmd.range_count * NVME_COPY_RANGE_BYTES);
	slot->extra_bytes = STEP_BUF_BYTES - slot->data_bytes;
	return status;
}
