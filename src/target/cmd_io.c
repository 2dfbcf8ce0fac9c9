/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read and Write, and the choice among all I/O commands. NVM Command Set 1.1, section 3.3.
 *
 * Runs on the queue's reactor; the medium completes there too. Memory media are read and written in
 * place (the slot's data points into them) unless data digests forbid it. Within one reactor a
 * logical block is read and written whole: copies are not interrupted, and what arrives from the
 * network lands in whole blocks. Between reactors files and devices give whole blocks by the
 * kernel; memory media do not yet (docs/spec-coverage.md, atomic writes).
 */
#include "target/io.h"

#define READ_PREFETCH_MAX_BYTES 16384

/* ---- Read, Write
 * ------------------------------------------------------------------------------------ */

static void read_execute(struct slot *slot)
{
	struct ns_local *counters = io_counters(slot);

	io_counter_add(&counters->read_commands, 1);
	io_counter_add(&counters->bytes_read, slot->data_bytes);
	if (slot->is_data_mapped) {
		slot_complete(slot, NVME_SC_SUCCESS);
		return;
	}
	slot->iov = (struct iovec){.iov_base = slot->data, .iov_len = slot->data_bytes};
	io_submit(slot, MEDIA_READ, io_done);
}

static void write_execute(struct slot *slot)
{
	struct ns_local *counters = io_counters(slot);

	io_counter_add(&counters->write_commands, 1);
	io_counter_add(&counters->bytes_written, slot->data_bytes);
	if (slot->is_data_mapped) {
		slot_complete(slot, NVME_SC_SUCCESS);
		return;
	}
	slot->iov = (struct iovec){.iov_base = slot->data, .iov_len = slot->data_bytes};
	io_submit(slot, MEDIA_WRITE, io_done);
}

/* Points the slot into memory media, so that no buffer and no copy is needed. */
static void slot_try_map(struct slot *slot)
{
	const struct ns *ns = slot->ns;
	bool is_at_start = slot->sgl.kind != SGL_IN_CAPSULE || slot->sgl.offset_bytes == 0;

	if (!slot->queue->can_map_media || !ns->mapped || !is_at_start)
		return;
	if (slot->capsule_bytes > 0 && slot->capsule_bytes != slot->data_bytes)
		return;
	slot->data = ns->mapped + (slot->io_cmd.first_block << ns->block_shift);
	slot->is_data_mapped = true;
}

/*
 * Mapped data is not touched before the kernel copies it into the socket, at the end of the turn:
 * asked for now, it comes from memory meanwhile. Long data is a stream, which the CPU sees itself.
 */
static void data_prefetch(const struct slot *slot)
{
	if (!slot->is_data_mapped || slot->data_bytes > READ_PREFETCH_MAX_BYTES)
		return;
	/* Blocks are multiples of 512 bytes, which is eight lines. */
	for (uint32_t at = 0; at < slot->data_bytes; at += 8 * CACHE_LINE_BYTES) {
#pragma GCC unroll 8
		for (uint32_t line = 0; line < 8; line++)
			__builtin_prefetch(slot->data + at + line * CACHE_LINE_BYTES, 0, 2);
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
	if (nvme_status_is_ok(status))
		slot_try_map(slot);
	return status;
}

/* ---- choice
 * -----------------------------------------------------------------------------------------------
 */

static nvme_status ana_status(enum ana_state state)
{
	switch (state) {
	case ANA_INACCESSIBLE:
		return NVME_SC_ANA_INACCESSIBLE;
	case ANA_PERSISTENT_LOSS:
		return NVME_SC_ANA_PERSISTENT_LOSS;
	case ANA_CHANGE:
		return NVME_SC_ANA_TRANSITION;
	case ANA_OPTIMIZED:
	case ANA_NON_OPTIMIZED:
		break;
	}
	return NVME_SC_SUCCESS;
}

static bool opcode_changes_data(uint8_t opcode)
{
	return opcode == NVME_IO_WRITE || opcode == NVME_IO_WRITE_ZEROES ||
	       opcode == NVME_IO_DATASET_MANAGEMENT;
}

static nvme_status io_prepare_by_opcode(struct slot *slot)
{
	switch (slot->sqe.opcode) {
	case NVME_IO_READ:
		return read_prepare(slot);
	case NVME_IO_WRITE:
		return write_prepare(slot);
	case NVME_IO_FLUSH:
		return flush_prepare(slot);
	case NVME_IO_COMPARE:
		return compare_prepare(slot);
	case NVME_IO_WRITE_ZEROES:
		return write_zeroes_prepare(slot);
	default:
		return dsm_prepare(slot);
	}
}

static bool opcode_is_known(uint8_t opcode)
{
	return opcode == NVME_IO_READ || opcode == NVME_IO_FLUSH || opcode == NVME_IO_COMPARE ||
	       opcode_changes_data(opcode);
}

nvme_status io_prepare(struct slot *slot)
{
	struct queue *queue = slot->queue;
	uint32_t nsid = le32_get(slot->sqe.nsid);
	nvme_status status;

	slot->io_cmd = (struct io_cmd){0};
	if (!opcode_is_known(slot->sqe.opcode)) {
		slot->error_byte = offsetof(struct nvme_sqe, opcode);
		return nvme_status_dnr(NVME_SC_INVALID_OPCODE);
	}
	slot->ns = queue->subsystem ? subsystem_find_ns(queue->subsystem, nsid) : NULL;
	if (!slot->ns) {
		slot->error_byte = offsetof(struct nvme_sqe, nsid);
		return nvme_status_dnr(NVME_SC_INVALID_NS);
	}
	if (queue->port && queue->port->ana_count > 0) {
		status = ana_status(port_ana_state(queue->port, slot->ns->ana_group));
		if (!nvme_status_is_ok(status))
			return status;
	}
	if (slot->ns->is_read_only && opcode_changes_data(slot->sqe.opcode))
		return nvme_status_dnr(NVME_SC_NS_WRITE_PROTECTED);
	return io_prepare_by_opcode(slot);
}
