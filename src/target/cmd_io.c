/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read and Write, and the table of all I/O commands. NVM Command Set 1.1, section 3.3.
 *
 * Runs on the queue's reactor, where the medium also completes. Memory media are read and written
 * in place (the slot's data points into them) where the transport allows it. Within one reactor a
 * logical block is read and written whole: copies are not interrupted, and data from the network
 * lands in whole blocks. Between reactors, whoever touches a block of memory holds the granule of
 * the block: media/mem.c, and a transport that moves data in place. On all other media a command
 * holds its whole range (io_submit).
 */
#include "ns/health.h"
#include "ns/reservation.h"
#include "target/health_note.h"
#include "target/io.h"
#include "target/reservation_command.h"

#define READ_PREFETCH_MAX_BYTES 16384

/* ---- Read, Write ---------------------------------------------------------------------------- */

static void read_execute(struct slot *slot)
{
	struct ns_local *counters = io_counters(slot);

	io_counter_add(&counters->read_commands, 1);
	io_counter_add(&counters->bytes_read, slot->data_bytes);
	if (slot_is_mapped(slot)) {
		slot_complete(slot, NVME_SC_SUCCESS);
		return;
	}
	slot->iov = (struct iovec){.iov_base = slot->data.addr, .iov_len = slot->data_bytes};
	io_submit(slot, slot->ns, MEDIA_READ, 0, io_done);
}

static void write_execute(struct slot *slot)
{
	struct ns_local *counters = io_counters(slot);

	io_counter_add(&counters->write_commands, 1);
	io_counter_add(&counters->bytes_written, slot->data_bytes);
	if (slot_is_mapped(slot)) {
		slot_complete(slot, NVME_SC_SUCCESS);
		return;
	}
	slot->iov = (struct iovec){.iov_base = slot->data.addr, .iov_len = slot->data_bytes};
	io_submit(slot, slot->ns, MEDIA_WRITE, 0, io_done);
}

/* Points the slot into memory media, so that the command needs no buffer and no copy. */
static void slot_try_map(struct slot *slot)
{
	const struct ns *ns = slot->ns;
	bool is_at_start = slot->sgl.kind != SGL_IN_CAPSULE || slot->sgl.offset_bytes == 0;

	if (!slot->queue->moves_in_place || !ns->mapped || !is_at_start)
		return;
	/* The second command of a fused pair is written after the first was compared. */
	if (slot->sqe.flags & NVME_SQE_FUSE_MASK)
		return;
	if (slot->capsule_bytes > 0 && slot->capsule_bytes != slot->data_bytes)
		return;
	slot->data = (struct buf){
		.addr = ns->mapped + (slot->io_cmd.first_block << ns->block_shift),
		.kind = BUF_MAPPED,
	};
}

/*
 * Mapped data is first read at the end of the turn, when the kernel copies it into the socket.
 * Prefetched now, the data is in the cache by then. The CPU prefetches long data by itself. Always
 * inline: gcc takes a function that only prefetches for one without effect, and drops the call.
 */
static inline __attribute__((always_inline)) void data_prefetch(const struct slot *slot)
{
	if (!slot_is_mapped(slot) || slot->data_bytes > READ_PREFETCH_MAX_BYTES)
		return;
	if (slot->queue->in_place_guard)
		block_guard_prefetch(slot->queue->in_place_guard, slot->data.addr);
	/* Blocks are multiples of 512 bytes, that is, of eight cache lines. */
	for (uint32_t at = 0; at < slot->data_bytes; at += 8 * CACHE_LINE_BYTES) {
#pragma GCC unroll 8
		for (uint32_t line = 0; line < 8; line++)
			__builtin_prefetch(slot->data.addr + at + line * CACHE_LINE_BYTES, 0, 2);
	}
}

static nvme_status read_prepare(struct slot *slot)
{
	nvme_status status = io_transfer_prepare(slot, DATA_TO_HOST);

	slot->execute = read_execute;
	if (nvme_status_is_ok(status)) {
		slot_try_map(slot);
		data_prefetch(slot);
	}
	return status;
}

static nvme_status write_prepare(struct slot *slot)
{
	nvme_status status = io_transfer_prepare(slot, DATA_TO_CTRL);

	slot->execute = write_execute;
	/* PRINFO and STC are ignored without protection information. */
	if (nvme_status_is_ok(status))
		status = io_check_directive(slot);
	if (nvme_status_is_ok(status))
		slot_try_map(slot);
	return status;
}

/* ---- the table of commands ------------------------------------------------------------------ */

/* All I/O commands, by opcode. A row without `prepare` is an unknown command. */
struct io_row {
	nvme_status (*prepare)(struct slot *slot);
	bool changes_data; /* refused on a read-only namespace */
	bool may_name_all; /* NSID FFFFFFFFh is allowed: slot->ns is then NULL */
	bool is_blind; /* names blocks without data, whose length would reveal a stale block size */
	/* Unknown on a clustered namespace: other processes would not learn of the command. */
	bool needs_alone;
};

static const struct io_row io_rows[256] = {
	[NVME_IO_FLUSH] = {.prepare = flush_prepare, .may_name_all = true},
	[NVME_IO_WRITE] = {.prepare = write_prepare, .changes_data = true},
	[NVME_IO_READ] = {.prepare = read_prepare},
	[NVME_IO_COMPARE] = {.prepare = compare_prepare},
	[NVME_IO_WRITE_ZEROES] = {.prepare = write_zeroes_prepare,
				  .changes_data = true,
				  .is_blind = true},
	[NVME_IO_DATASET_MANAGEMENT] = {.prepare = dsm_prepare,
					.changes_data = true,
					.is_blind = true},
	[NVME_IO_WRITE_UNCORRECTABLE] = {.prepare = uncorrectable_prepare,
					 .changes_data = true,
					 .is_blind = true,
					 .needs_alone = true},
	[NVME_IO_VERIFY] = {.prepare = verify_prepare, .is_blind = true},
	[NVME_IO_COPY] = {.prepare = copy_prepare, .changes_data = true, .is_blind = true},
	[NVME_IO_CANCEL] = {.prepare = cancel_prepare, .may_name_all = true},
	[NVME_IO_RESERVATION_REGISTER] = {.prepare = reservation_register_prepare,
					  .needs_alone = true},
	[NVME_IO_RESERVATION_REPORT] = {.prepare = reservation_report_prepare, .needs_alone = true},
	[NVME_IO_RESERVATION_ACQUIRE] = {.prepare = reservation_acquire_prepare,
					 .needs_alone = true},
	[NVME_IO_RESERVATION_RELEASE] = {.prepare = reservation_release_prepare,
					 .needs_alone = true},
};

bool io_opcode_changes_data(uint8_t opcode)
{
	return io_rows[opcode].changes_data;
}

nvme_status io_check_view(struct slot *slot, const struct ns_view *view)
{
	nvme_status status = reservation_check(slot, slot->ns, slot->sqe.opcode, view);

	if (nvme_status_is_ok(status) && view->bad)
		status = bad_blocks_check(slot, view->bad);
	return status;
}

static nvme_status io_prepare_ns(struct slot *slot, const struct io_row *row)
{
	const struct ns *ns = slot->ns;
	const struct ns_view *view;
	nvme_status status = ctrl_check_identity(slot->queue->ctrl, slot->queue->subsystem, ns);

	if (nvme_status_is_ok(status))
		status = io_check_path(slot->queue, ns);
	if (!nvme_status_is_ok(status))
		return status;
	if (ns->is_read_only && row->changes_data)
		return nvme_status_dnr(NVME_SC_NS_WRITE_PROTECTED);
	if (row->is_blind && !ctrl_knows_format(slot->queue->ctrl, ns))
		return NVME_SC_NS_NOT_READY;
	if (row->needs_alone && ns->is_clustered)
		return command_refuse(slot, NVME_SC_INVALID_OPCODE,
				      offsetof(struct nvme_sqe, opcode));
	status = row->prepare(slot);
	view = io_counters(slot)->view;
	if (view && nvme_status_is_ok(status))
		status = io_check_view(slot, view);
	return status;
}

nvme_status io_prepare(struct slot *slot)
{
	const struct queue *queue = slot->queue;
	const struct io_row *row = &io_rows[slot->sqe.opcode];
	uint32_t nsid = le32_get(slot->sqe.nsid);
	const struct ns *ns;

	slot->io_cmd = (struct io_cmd){0};
	if (!row->prepare)
		return command_refuse(slot, NVME_SC_INVALID_OPCODE,
				      offsetof(struct nvme_sqe, opcode));
	if (row->may_name_all && nsid == NVME_NSID_ALL) {
		health_note_busy_all(queue);
		return row->prepare(slot);
	}
	ns = queue->subsystem ? subsystem_find_ns(queue->subsystem, nsid) : NULL;
	if (!ns || !ns_mask_has(ns->mask, queue->host_index))
		return command_refuse_nsid(slot, nsid);
	slot->ns = ns;
	health_note_busy(queue, io_counters(slot));
	return io_prepare_ns(slot, row);
}
