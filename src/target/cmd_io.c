/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVM command set: Read, Write, Flush, Write Zeroes, Dataset Management, Compare. NVM Command Set
 * 1.1, section 3.
 *
 * Runs on the queue's reactor; the medium completes there too. Memory media are read and written in
 * place (the slot's data points into them) unless data digests forbid it. Within one reactor a
 * logical block is read and written whole: copies are not interrupted, and what arrives from the
 * network lands in whole blocks. Between reactors files and devices give whole blocks by the
 * kernel; memory media do not yet (docs/spec-coverage.md, atomic writes).
 */
#include "base/log.h"
#include "target/command.h"
#include "target/local.h"

#include <errno.h>
#include <string.h>

#define READ_PREFETCH_MAX_BYTES 16384

static void counter_add(atomic_ulong *counter, unsigned long add)
{
	/* One writer per counter: a plain addition is enough. */
	unsigned long now = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, now + add, memory_order_relaxed);
}

static struct ns_counters *slot_counters(const struct slot *slot)
{
	return &slot->ns->counters[slot->queue->local->index];
}

static uint64_t range_bytes(const struct slot *slot)
{
	return (uint64_t)slot->io_cmd.block_count << slot->ns->block_shift;
}

/* ---- completion
 * ------------------------------------------------------------------------------------ */

static void io_finish(struct slot *slot, int res)
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
		counter_add(&slot_counters(slot)->media_errors, 1);
	slot_complete(slot, status);
}

static void io_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	io_finish(slot, res);
}

static void io_submit(struct slot *slot, enum media_kind kind,
		      void (*done)(struct media_io *io, int res))
{
	slot->io.reactor = slot->queue->reactor;
	slot->io.media = slot->ns->media;
	slot->io.kind = kind;
	slot->io.is_fua = slot->io_cmd.is_fua;
	slot->io.may_discard = slot->io_cmd.wants_deallocate;
	slot->io.offset = slot->io_cmd.first_block << slot->ns->block_shift;
	slot->io.len_bytes = kind == MEDIA_FLUSH ? 0 : range_bytes(slot);
	slot->io.iov = &slot->iov;
	slot->io.iov_count = 1;
	slot->io.done = done;
	media_submit(&slot->io);
}

/* ---- Read, Write
 * ------------------------------------------------------------------------------------ */

static void read_execute(struct slot *slot)
{
	struct ns_counters *counters = slot_counters(slot);

	counter_add(&counters->read_commands, 1);
	counter_add(&counters->bytes_read, slot->data_bytes);
	if (slot->is_data_mapped) {
		slot_complete(slot, NVME_SC_SUCCESS);
		return;
	}
	slot->iov = (struct iovec){.iov_base = slot->data, .iov_len = slot->data_bytes};
	io_submit(slot, MEDIA_READ, io_done);
}

static void write_execute(struct slot *slot)
{
	struct ns_counters *counters = slot_counters(slot);

	counter_add(&counters->write_commands, 1);
	counter_add(&counters->bytes_written, slot->data_bytes);
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

static nvme_status check_range(struct slot *slot)
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

static nvme_status transfer_prepare(struct slot *slot, enum data_direction direction)
{
	nvme_status status = check_range(slot);

	if (!nvme_status_is_ok(status))
		return status;
	if (range_bytes(slot) > slot->snapshot->limits.transfer_max_bytes) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw12);
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	}
	return command_expect_data(slot, direction, (uint32_t)range_bytes(slot));
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
	nvme_status status = transfer_prepare(slot, DATA_TO_HOST);

	slot->execute = read_execute;
	if (nvme_status_is_ok(status)) {
		slot_try_map(slot);
		data_prefetch(slot);
	}
	return status;
}

static nvme_status write_prepare(struct slot *slot)
{
	nvme_status status = transfer_prepare(slot, DATA_TO_CTRL);

	slot->execute = write_execute;
	if (nvme_status_is_ok(status))
		slot_try_map(slot);
	return status;
}

/* ---- Compare
 * ------------------------------------------------------------------------------------------ */

static void compare_with(struct slot *slot, const uint8_t *stored)
{
	bool is_same = memcmp(slot->data, stored, slot->data_bytes) == 0;

	slot_complete(slot, is_same ? NVME_SC_SUCCESS : nvme_status_dnr(NVME_SC_COMPARE_FAILED));
}

static void compare_read_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	if (res != 0)
		io_finish(slot, res);
	else
		compare_with(slot, slot->iov.iov_base);
}

static void compare_execute(struct slot *slot)
{
	const struct ns *ns = slot->ns;

	counter_add(&slot_counters(slot)->read_commands, 1);
	counter_add(&slot_counters(slot)->bytes_read, slot->data_bytes);
	if (ns->mapped) {
		compare_with(slot, ns->mapped + (slot->io_cmd.first_block << ns->block_shift));
		return;
	}
	slot->iov = (struct iovec){.iov_base = slot->buf + slot->data_bytes,
				   .iov_len = slot->data_bytes};
	io_submit(slot, MEDIA_READ, compare_read_done);
}

static nvme_status compare_prepare(struct slot *slot)
{
	nvme_status status = transfer_prepare(slot, DATA_TO_CTRL);

	slot->execute = compare_execute;
	slot->extra_bytes = slot->data_bytes;
	/* The stored blocks are read into the same buffer, behind the host's. */
	if (nvme_status_is_ok(status) && slot->data_bytes > BUF_POOL_MAX_BYTES / 2) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw12);
		status = nvme_status_dnr(NVME_SC_INVALID_FIELD);
	}
	return status;
}

/* ---- Flush, Write Zeroes
 * ------------------------------------------------------------------------------- */

static void flush_execute(struct slot *slot)
{
	if (slot->ns->media->has_volatile_cache)
		io_submit(slot, MEDIA_FLUSH, io_done);
	else
		slot_complete(slot, NVME_SC_SUCCESS);
}

static nvme_status flush_prepare(struct slot *slot)
{
	slot->execute = flush_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}

static void write_zeroes_execute(struct slot *slot)
{
	counter_add(&slot_counters(slot)->write_commands, 1);
	io_submit(slot, MEDIA_WRITE_ZEROES, io_done);
}

static nvme_status write_zeroes_prepare(struct slot *slot)
{
	nvme_status status = check_range(slot);

	if (!nvme_status_is_ok(status))
		return status;
	if (range_bytes(slot) > TARGET_WRITE_ZEROES_MAX_BYTES) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw12);
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	}
	slot->execute = write_zeroes_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}

/* ---- Dataset Management
 * --------------------------------------------------------------------------------- */

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

static nvme_status dsm_prepare(struct slot *slot)
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
