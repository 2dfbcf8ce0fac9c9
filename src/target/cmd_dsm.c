/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dataset Management: deallocates the ranges that a host names, one after the other. NVM Command
 * Set 1.1, section 3.3.3. Runs on the queue's reactor.
 */
#include "target/io.h"

#include <errno.h>

static void dsm_continue(struct slot *slot, int res);

static void dsm_range_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	io->result = res;
	if (slot->is_in_submit)
		slot->is_in_submit = false; /* dsm_continue is below us and goes on */
	else
		dsm_continue(slot, res);
}

/* Releases range after range; advice that fails is an error all the same. */
static void dsm_continue(struct slot *slot, int res)
{
	struct dsm_cmd cmd;

	dsm_cmd_decode(&slot->sqe, &cmd);
	while (res == 0 && slot->dsm_next < cmd.range_count && !slot->is_abort_requested) {
		struct dsm_range range = dsm_range_decode(slot->data, slot->dsm_next++);

		if (range.block_count == 0)
			continue;
		slot->io_cmd = (struct io_cmd){.first_block = range.first_block,
					       .block_count = range.block_count};
		slot->is_in_submit = true;
		io_submit(slot, MEDIA_DISCARD, dsm_range_done);
		if (slot->is_in_submit) {
			slot->is_in_submit = false;
			return;
		}
		res = slot->io.result;
	}
	if (res == 0 && slot->is_abort_requested && slot->dsm_next < cmd.range_count)
		res = -ECANCELED;
	io_finish(slot, res);
}

static void dsm_execute(struct slot *slot)
{
	struct dsm_cmd cmd;
	uint64_t blocks = slot->ns->block_count;

	dsm_cmd_decode(&slot->sqe, &cmd);
	for (uint32_t i = 0; i < cmd.range_count; i++) {
		struct dsm_range range = dsm_range_decode(slot->data, i);

		if (range.block_count > blocks || range.first_block > blocks - range.block_count) {
			slot_complete_at(slot, nvme_status_dnr(NVME_SC_LBA_RANGE),
					 offsetof(struct nvme_sqe, cdw10));
			return;
		}
	}
	/* The other attributes are hints about access; there is nothing to do for them. */
	if (!cmd.is_deallocate || !slot->ns->media->can_discard) {
		slot_complete(slot, NVME_SC_SUCCESS);
		return;
	}
	slot->dsm_next = 0;
	dsm_continue(slot, 0);
}

nvme_status dsm_prepare(struct slot *slot)
{
	struct dsm_cmd cmd;

	uint32_t bytes;

	dsm_cmd_decode(&slot->sqe, &cmd);
	slot->execute = dsm_execute;
	slot->io_cmd = (struct io_cmd){0};
	/* Linux sends the room of all 256 ranges, however few it names. */
	bytes = cmd.range_count * NVME_DSM_RANGE_BYTES;
	if (slot->sgl.len_bytes > bytes &&
	    slot->sgl.len_bytes <= NVME_DSM_RANGES_MAX * NVME_DSM_RANGE_BYTES)
		bytes = slot->sgl.len_bytes;
	return command_expect_data(slot, DATA_TO_CTRL, bytes);
}
