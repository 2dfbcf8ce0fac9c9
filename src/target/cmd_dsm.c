/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dataset Management: deallocates the ranges that a host names, in order. NVM Command Set 1.1,
 * section 3.3.3. Runs on the queue's reactor.
 *
 * All ranges are judged before the first is deallocated. The attributes that describe how a host
 * will use its blocks (IDR, IDW, the context attributes) are hints, which are ignored. The ranges
 * have no limit (DMRL, DMRSL and DMSL are 0). Long ranges are split into pieces that end at a
 * multiple of the piece length, so that no granule of the medium is cut. The piece length of memory
 * media bounds the time for which the reactor is held. The piece length of other media bounds the
 * time for which fused pairs wait (IO_HOLD_GATE).
 */
#include "target/bad_blocks_command.h"
#include "target/steps.h"

/* Returning this much memory to the kernel takes about 0.1 ms. */
#define DSM_MEMORY_STEP_BYTES (2u << 20)
#define DSM_STEP_BYTES        (1u << 30)

/* Heals the deallocated blocks, which now read as the medium defines, not as errors. */
static void dsm_heal(struct slot *slot)
{
	bad_blocks_heal_for(slot, io_status(slot, slot->steps.res));
}

static void dsm_on_flushed(struct media_io *io, int res)
{
	if (res == 0)
		dsm_heal(container_of(io, struct slot, io));
	else
		io_done(io, res);
}

static void dsm_end(struct slot *slot, int res)
{
	slot->heals_bad &= slot->steps.index > 0;
	slot->steps.res = res;
	if (!slot->heals_bad)
		io_done(&slot->io, res);
	else if (slot->ns->media->has_volatile_cache)
		io_submit(slot, slot->ns, MEDIA_FLUSH, 0, dsm_on_flushed);
	else
		dsm_heal(slot);
}

/* Deallocates one piece after the other. A failed piece is an error although deallocation is
 * advice. */
static bool dsm_next(struct slot *slot, int res)
{
	struct slot_steps *steps = &slot->steps;
	const struct ns *ns = slot->ns;
	struct dsm_range range;
	struct dsm_cmd cmd;

	dsm_cmd_decode(&slot->sqe, &cmd);
	if (res == 0)
		steps->at_block += steps->step_blocks;
	for (;; steps->index++, steps->at_block = 0) {
		if (res != 0 || steps->index == cmd.range_count) {
			dsm_end(slot, res);
			return false;
		}
		range = dsm_range_decode(slot->data.addr, steps->index);
		if (steps->at_block < range.block_count)
			break;
	}
	slot->io_cmd = (struct io_cmd){.first_block = range.first_block + steps->at_block};
	steps->step_blocks =
		(ns->mapped ? DSM_MEMORY_STEP_BYTES : DSM_STEP_BYTES) >> ns->block_shift;
	steps->step_blocks -= (uint32_t)(slot->io_cmd.first_block % steps->step_blocks);
	if (steps->step_blocks > range.block_count - steps->at_block)
		steps->step_blocks = range.block_count - steps->at_block;
	slot->io_cmd.block_count = steps->step_blocks;
	steps_submit(slot, slot->ns, MEDIA_DISCARD);
	return true;
}

static void dsm_execute(struct slot *slot)
{
	const struct ns_view *view = io_counters(slot)->view;
	struct dsm_cmd cmd;
	uint64_t blocks = slot->ns->block_count, bad_block;

	dsm_cmd_decode(&slot->sqe, &cmd);
	for (uint32_t i = 0; i < cmd.range_count; i++) {
		struct dsm_range range = dsm_range_decode(slot->data.addr, i);

		if (range.block_count > blocks || range.first_block > blocks - range.block_count) {
			slot->io_cmd.first_block = range.first_block;
			slot_complete(slot,
				      command_refuse(slot, NVME_SC_LBA_RANGE, SQE_BYTE_CDW10));
			return;
		}
		if (view && bad_view_find_block(view->bad, slot->ns->block_shift, range.first_block,
						range.block_count, &bad_block)) {
			slot->heals_bad = true;
			slot->bad_stamp = bad_view_stamp(view->bad);
		}
	}
	if (!cmd.is_deallocate || !slot->ns->media->can_discard)
		slot_complete(slot, NVME_SC_SUCCESS);
	else
		steps_begin(slot, dsm_next);
}

nvme_status dsm_prepare(struct slot *slot)
{
	struct dsm_cmd cmd;
	uint32_t bytes;

	dsm_cmd_decode(&slot->sqe, &cmd);
	slot->execute = dsm_execute;
	slot->io_cmd = (struct io_cmd){0};
	/* Linux always sends room for all 256 ranges. */
	bytes = cmd.range_count * NVME_DSM_RANGE_BYTES;
	if (slot->sgl.len_bytes > bytes &&
	    slot->sgl.len_bytes <= NVME_DSM_RANGES_MAX * NVME_DSM_RANGE_BYTES)
		bytes = slot->sgl.len_bytes;
	return command_expect_data(slot, DATA_TO_CTRL, bytes);
}
