/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of I/O commands share: counters, ranges, the way to the medium and back.
 * Private to target/. All run on the queue's reactor.
 */
#ifndef WEFT_TARGET_IO_H
#define WEFT_TARGET_IO_H

#include "ns/bad_blocks.h"
#include "target/command.h"
#include "target/local.h"

#include <errno.h>

/* As the result of a medium that was not asked: the reservation in force keeps its host away. */
#define IO_FENCED (-EBADE)

static inline void io_counter_add(atomic_ulong *counter, unsigned long add)
{
	/* One writer per counter: a plain addition is enough. */
	unsigned long now = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, now + add, memory_order_relaxed);
}

static inline struct ns_local *io_counters(const struct slot *slot)
{
	return &slot->ns->locals[slot->queue->local->index];
}

static inline uint64_t io_range_bytes(const struct slot *slot)
{
	return (uint64_t)slot->io_cmd.block_count << slot->ns->block_shift;
}

/* Decodes CDW10 to 12 into slot->io_cmd and judges the range. */
static inline nvme_status io_check_range(struct slot *slot)
{
	const struct ns *ns = slot->ns;

	io_cmd_decode(&slot->sqe, &slot->io_cmd);
	if (slot->io_cmd.block_count > ns->block_count ||
	    slot->io_cmd.first_block > ns->block_count - slot->io_cmd.block_count) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw10);
		return nvme_status_dnr(NVME_SC_LBA_RANGE);
	}
	/* A key per I/O that we do not know must not be ignored: data would be stored plain. */
	if (slot->io_cmd.extension_type != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12 + 2);
	return NVME_SC_SUCCESS;
}

/* After it, of commands that write: no directives are supported. */
nvme_status io_check_directive(struct slot *slot);

/* As io_check_range, for commands that move the blocks: transfer length and SGL too. */
static inline nvme_status io_transfer_prepare(struct slot *slot, enum data_direction direction)
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

/* slot->io_cmd's range, to or from slot->iov, on the medium of a namespace of the slot's snapshot,
 * which of Copy may be another one; done on this reactor. */
void io_submit_on(struct slot *slot, const struct ns *ns, enum media_kind kind,
		  void (*done)(struct media_io *io, int res));
/* The same on the medium of slot->ns. */
static inline void io_submit(struct slot *slot, enum media_kind kind,
			     void (*done)(struct media_io *io, int res))
{
	io_submit_on(slot, slot->ns, kind, done);
}
/* The same for a range that is held already. */
void io_submit_held(struct slot *slot, const struct ns *ns, enum media_kind kind,
		    void (*done)(struct media_io *io, int res));
/* Takes slot->io_cmd's range for the slot; hold.is_exclusive and hold.granted are set. True: it is
 * held; false: `granted` follows, and slot->cancel ends the wait. Only for those that submit to the
 * medium themselves. */
bool io_hold(struct slot *slot, const struct ns *ns);
/*
 * Likewise the gate between fused pairs, which share it, and large deallocations, each of which has
 * it alone. Whoever holds both a gate and a range takes the gate first.
 */
bool io_hold_gate(struct slot *slot, const struct ns *ns);
/* The command waits for its range, for the gate or for its medium. */
bool io_is_under_way(const struct slot *slot);
/*
 * How many blocks are written atomically (NAWUN): memory is guarded block by block, everything else
 * command by command, unless another process serves it too: its commands know nothing of ours, and
 * one block is the least that the field can say. Across a failure of power (AWUPF, NAWUPF) one
 * block is the least that the field can say, and all that any medium promises.
 */
uint32_t ns_atomic_blocks(const struct ns *ns, const struct target_limits *limits);
/* Likewise for a fused Compare and Write (NACWU): host's and stored blocks share one buffer. */
uint32_t ns_fused_blocks(const struct ns *ns, const struct target_limits *limits);
/* Whether the namespace can be reached through the port of this queue now. */
static inline nvme_status io_check_path(const struct queue *queue, const struct ns *ns)
{
	if (ns->is_formatting)
		return NVME_SC_FORMAT_IN_PROGRESS;
	if (queue->port && queue->port->ana_count > 0)
		return port_ana_status(queue->port, ns->ana_group);
	return NVME_SC_SUCCESS;
}

/* What is special about the slot's namespace on this reactor: reservation, then blocks marked bad.
 * A write that heals marks loses its place in memory media: slot->data is none then. */
nvme_status io_check_view(struct slot *slot, const struct ns_view *view);
/* Logs and counts what went wrong with the operation slot->io on `ns`. */
void io_note_error(const struct slot *slot, const struct ns *ns, int res, nvme_status status);
/* Ends the command by what the medium said; logs and counts errors. */
void io_finish(struct slot *slot, int res);
/* A done that does just that. */
void io_done(struct media_io *io, int res);

nvme_status compare_prepare(struct slot *slot);       /* cmd_compare.c */
nvme_status flush_prepare(struct slot *slot);         /* cmd_flush.c */
nvme_status write_zeroes_prepare(struct slot *slot);  /* cmd_zeroes.c */
nvme_status dsm_prepare(struct slot *slot);           /* cmd_dsm.c */
nvme_status verify_prepare(struct slot *slot);        /* cmd_verify.c */
nvme_status uncorrectable_prepare(struct slot *slot); /* cmd_uncorrectable.c */
nvme_status copy_prepare(struct slot *slot);          /* cmd_copy.c */
nvme_status cancel_prepare(struct slot *slot);        /* cmd_cancel.c */
/* cmd_uncorrectable.c: blocks marked bad fail what reads them; what writes them heals them. */
nvme_status bad_blocks_check(struct slot *slot, const struct bad_view *bad);

#endif
