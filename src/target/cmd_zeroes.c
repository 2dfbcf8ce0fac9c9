/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write Zeroes, with or without deallocation (DEAC). NVM Command Set 1.1, section 3.3.8. Runs on
 * the queue's reactor.
 *
 * WZSL limits the range (TARGET_WRITE_ZEROES_MAX_BYTES). The medium decides what DEAC does. The
 * range reads as zeroes in either case. Memory is set by the reactor itself, so a long range is set
 * in pieces, which the budget of the turn counts (target/turn.h). A piece that is released instead
 * is longer, and ends at a multiple of its length, so that huge pages are not cut.
 */
#include "target/steps.h"

/* From this length on, memory is released even without DEAC: it is faster. */
#define ZEROES_RELEASE_MIN_BYTES   (1u << 20)
#define ZEROES_RELEASE_PIECE_BYTES (2u << 20)

static bool write_zeroes_next(struct slot *slot, int res)
{
	struct slot_steps *steps = &slot->steps;
	uint32_t shift = slot->ns->block_shift, piece;
	struct io_cmd cmd;
	bool is_release;

	io_cmd_decode(&slot->sqe, &cmd);
	steps->at_block += steps->step_blocks;
	if (res != 0 || steps->at_block == cmd.block_count) {
		slot->io_cmd = cmd; /* all of it, to heal marks */
		io_done(&slot->io, res);
		return false;
	}
	is_release = cmd.wants_deallocate ||
		     (uint64_t)cmd.block_count << shift >= ZEROES_RELEASE_MIN_BYTES;
	piece = (is_release ? ZEROES_RELEASE_PIECE_BYTES : TURN_PIECE_BYTES) >> shift;
	slot->io_cmd.first_block = cmd.first_block + steps->at_block;
	piece -= (uint32_t)(slot->io_cmd.first_block % piece);
	if (piece > cmd.block_count - steps->at_block)
		piece = cmd.block_count - steps->at_block;
	steps->step_blocks = piece;
	slot->io_cmd.block_count = piece;
	slot->io_cmd.wants_deallocate = is_release;
	steps_submit(slot, slot->ns, MEDIA_WRITE_ZEROES);
	return true;
}

static void write_zeroes_execute(struct slot *slot)
{
	io_counter_add(&io_counters(slot)->write_commands, 1);
	if (slot->ns->mapped && io_range_bytes(slot) > TURN_PIECE_BYTES)
		steps_begin(slot, write_zeroes_next);
	else
		io_submit(slot, slot->ns, MEDIA_WRITE_ZEROES, 0, io_done);
}

nvme_status write_zeroes_prepare(struct slot *slot)
{
	nvme_status status = io_check_range(slot);

	if (nvme_status_is_ok(status))
		status = io_check_directive(slot);
	if (!nvme_status_is_ok(status))
		return status;
	if (io_range_bytes(slot) > TARGET_WRITE_ZEROES_MAX_BYTES) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw12);
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	}
	slot->execute = write_zeroes_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
