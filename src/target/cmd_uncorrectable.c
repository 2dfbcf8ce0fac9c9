/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write Uncorrectable, and the effect of its marks on other commands. NVM Command Set 1.1, section
 * 3.3.7. Runs on the queue's reactor; the control reactor makes the change.
 *
 * The data on the medium stays as it is: the mark alone makes the blocks unreadable. Marks survive
 * a restart, like all live state of a namespace that is kept.
 */
#include "target/bad_blocks_command.h"
#include "target/io.h"

static void uncorrectable_execute(struct slot *slot)
{
	io_counter_add(&io_counters(slot)->write_commands, 1);
	bad_blocks_mark_for(slot);
}

nvme_status uncorrectable_prepare(struct slot *slot)
{
	nvme_status status = io_check_range(slot);

	if (nvme_status_is_ok(status))
		status = io_check_directive(slot);
	if (!nvme_status_is_ok(status))
		return status;
	slot->execute = uncorrectable_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}

nvme_status bad_blocks_check(struct slot *slot, const struct bad_view *bad)
{
	uint64_t bad_block;

	switch (slot->sqe.opcode) {
	case NVME_IO_READ:
	case NVME_IO_COMPARE:
	case NVME_IO_VERIFY:
	case NVME_IO_WRITE:
	case NVME_IO_WRITE_ZEROES:
		break;
	default:
		return NVME_SC_SUCCESS; /* others check when they know their ranges */
	}
	if (!bad_view_find_block(bad, slot->ns->block_shift, slot->io_cmd.first_block,
				 slot->io_cmd.block_count, &bad_block))
		return NVME_SC_SUCCESS;
	if (slot->sqe.opcode == NVME_IO_WRITE || slot->sqe.opcode == NVME_IO_WRITE_ZEROES) {
		/* Write through a buffer: the command then ends in io_done, which removes the
		 * marks. */
		slot->heals_bad = true;
		slot->bad_stamp = bad_view_stamp(bad);
		slot->io_cmd.is_fua = true;
		slot->data = (struct buf){0};
		return NVME_SC_SUCCESS;
	}
	io_counter_add(&io_counters(slot)->media_errors, 1);
	slot->io_cmd.first_block = bad_block; /* for the error log */
	return nvme_status_dnr(NVME_SC_UNRECOVERED_READ);
}
