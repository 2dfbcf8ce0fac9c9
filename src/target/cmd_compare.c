/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare: compares the host's blocks with the stored blocks. NVM Command Set 1.1, section 3.3.1.
 * Runs on the queue's reactor. The stored blocks are read into the same buffer, behind the host's
 * blocks.
 */
#include "target/io.h"

#include <string.h>

static void compare_finish(struct slot *slot, bool is_same)
{
	slot_complete(slot, is_same ? NVME_SC_SUCCESS : nvme_status_dnr(NVME_SC_COMPARE_FAILED));
}

static void compare_read_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	if (res != 0)
		io_done(io, res);
	else
		compare_finish(slot,
			       memcmp(slot->data.addr, slot->iov.iov_base, slot->data_bytes) == 0);
}

static void compare_execute(struct slot *slot)
{
	const struct ns *ns = slot->ns;

	io_counter_add(&io_counters(slot)->read_commands, 1);
	io_counter_add(&io_counters(slot)->bytes_read, slot->data_bytes);
	if (ns->mapped) {
		compare_finish(slot, block_guard_is_equal(ns->media->guard,
							  ns->mapped + (slot->io_cmd.first_block
									<< ns->block_shift),
							  slot->data.addr, slot->data_bytes));
		return;
	}
	slot->iov = (struct iovec){.iov_base = slot->buf.addr + slot->data_bytes,
				   .iov_len = slot->data_bytes};
	io_submit(slot, slot->ns, MEDIA_READ, 0, compare_read_done);
}

nvme_status compare_prepare(struct slot *slot)
{
	nvme_status status = io_transfer_prepare(slot, DATA_TO_CTRL);

	slot->execute = compare_execute;
	slot->extra_bytes = slot->data_bytes;
	/* The host's blocks and the stored blocks share one buffer. */
	if (nvme_status_is_ok(status) && slot->data_bytes > BUF_POOL_MAX_BYTES / 2) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw12);
		status = nvme_status_dnr(NVME_SC_INVALID_FIELD);
	}
	return status;
}
