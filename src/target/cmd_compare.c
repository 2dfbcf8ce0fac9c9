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

/* Compares with the memory of the medium. */
static void compare_mapped(struct slot *slot)
{
	const struct ns *ns = slot->ns;
	struct turn *turn = &slot->queue->local->turn;
	struct turn_host *host = slot->queue->turn_host;
	uint64_t cost_ns = turn_copy_ns(slot->data_bytes);
	struct turn_measure measure;
	bool is_same;

	turn_charge(turn, host, cost_ns);
	turn_measure_begin(turn, &measure, host);
	is_same = block_guard_is_equal(ns->media->guard,
				       ns->mapped + (slot->io_cmd.first_block << ns->block_shift),
				       slot->data.addr, slot->data_bytes);
	turn_measure_end(turn, &measure, cost_ns);
	compare_finish(slot, is_same);
}

static void compare_on_turn(struct turn_wait *wait)
{
	struct slot *slot = container_of(wait, struct slot, turn_wait);
	int res = io_end_wait(slot);

	if (res == 0)
		compare_mapped(slot);
	else
		io_done(&slot->io, res);
}

static void compare_execute(struct slot *slot)
{
	const struct ns *ns = slot->ns;

	io_counter_add(&io_counters(slot)->read_commands, 1);
	io_counter_add(&io_counters(slot)->bytes_read, slot->data_bytes);
	if (ns->mapped) {
		if (io_take_turn(slot, compare_on_turn))
			compare_mapped(slot);
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
