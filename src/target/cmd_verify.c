/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verify: reads a range from the medium piece by piece and reports whether all reads succeeded. No
 * data is sent to the host. NVM Command Set 1.1, section 3.3.5. Runs on the queue's reactor.
 *
 * bad_blocks_check has refused blocks that are marked bad. Memory media are not read, because their
 * data cannot be lost.
 */
#include "target/steps.h"

static bool verify_next(struct slot *slot, int res)
{
	struct slot_steps *steps = &slot->steps;
	struct io_cmd cmd;
	uint32_t blocks;

	io_cmd_decode(&slot->sqe, &cmd);
	steps->at_block += steps->step_blocks;
	if (res != 0 || steps->at_block == cmd.block_count) {
		io_done(&slot->io, res);
		return false;
	}
	blocks = STEP_BUF_BYTES >> slot->ns->block_shift;
	if (blocks > cmd.block_count - steps->at_block)
		blocks = cmd.block_count - steps->at_block;
	steps->step_blocks = blocks;
	slot->io_cmd = (struct io_cmd){.first_block = cmd.first_block + steps->at_block,
				       .block_count = blocks};
	slot->iov = (struct iovec){.iov_base = slot->buf.addr,
				   .iov_len = (size_t)blocks << slot->ns->block_shift};
	steps_submit(slot, slot->ns, MEDIA_READ);
	return true;
}

static void verify_execute(struct slot *slot)
{
	io_counter_add(&io_counters(slot)->read_commands, 1);
	io_counter_add(&io_counters(slot)->bytes_read, io_range_bytes(slot));
	if (slot->ns->mapped)
		slot_complete(slot, NVME_SC_SUCCESS);
	else
		steps_begin(slot, verify_next);
}

nvme_status verify_prepare(struct slot *slot)
{
	nvme_status status = io_check_range(slot);
	uint64_t bytes = io_range_bytes(slot);

	if (!nvme_status_is_ok(status))
		return status;
	if (bytes > TARGET_VERIFY_MAX_BYTES)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12);
	slot->execute = verify_execute;
	if (!slot->ns->mapped)
		slot->extra_bytes = bytes < STEP_BUF_BYTES ? (uint32_t)bytes : STEP_BUF_BYTES;
	return command_expect_data(slot, DATA_NONE, 0);
}
