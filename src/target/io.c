/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of I/O commands share. See io.h. Runs on the queue's reactor.
 */
#include "target/io.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

void io_finish(struct slot *slot, int res)
{
	nvme_status status = status_from_errno(res, slot->io.kind);

	if (res < 0 && res != -ECANCELED)
		log_limited(LOG_LEVEL_ERROR, "target", "%s: %s of %llu bytes at %llu failed: %s",
			    slot->ns->media->spec, nvme_io_opcode_name(slot->sqe.opcode),
			    (unsigned long long)slot->io.len_bytes,
			    (unsigned long long)slot->io.offset, strerror(-res));
	/* SMART counts lost data, not a medium that is full or a lack of memory. */
	if (nvme_status_same(status, NVME_SC_UNRECOVERED_READ) ||
	    nvme_status_same(status, NVME_SC_WRITE_FAULT))
		io_counter_add(&io_counters(slot)->media_errors, 1);
	slot_complete(slot, status);
}

void io_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	io_finish(slot, res);
}

void io_submit(struct slot *slot, enum media_kind kind, void (*done)(struct media_io *io, int res))
{
	slot->io.reactor = slot->queue->reactor;
	slot->io.media = slot->ns->media;
	slot->io.kind = kind;
	slot->io.is_fua = slot->io_cmd.is_fua;
	slot->io.may_discard = slot->io_cmd.wants_deallocate;
	slot->io.offset = slot->io_cmd.first_block << slot->ns->block_shift;
	slot->io.len_bytes = kind == MEDIA_FLUSH ? 0 : io_range_bytes(slot);
	slot->io.iov = &slot->iov;
	slot->io.iov_count = 1;
	slot->io.done = done;
	media_submit(&slot->io);
}

nvme_status io_check_range(struct slot *slot)
{
	const struct ns *ns = slot->ns;

	io_cmd_decode(&slot->sqe, &slot->io_cmd);
	if (slot->io_cmd.block_count > ns->block_count ||
	    slot->io_cmd.first_block > ns->block_count - slot->io_cmd.block_count) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw10);
		return nvme_status_dnr(NVME_SC_LBA_RANGE);
	}
	return NVME_SC_SUCCESS;
}

nvme_status io_transfer_prepare(struct slot *slot, enum data_direction direction)
{
	nvme_status status = io_check_range(slot);

	if (!nvme_status_is_ok(status))
		return status;
	if (io_range_bytes(slot) > slot->snapshot->limits.transfer_max_bytes) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw12);
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	}
	return command_expect_data(slot, direction, (uint32_t)io_range_bytes(slot));
}
