/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of I/O commands share: counters, ranges, submitting to the medium and ending
 * the command by its result. Private to target/. All functions run on the queue's reactor.
 */
#ifndef WEFT_TARGET_IO_H
#define WEFT_TARGET_IO_H

#include "ns/bad_blocks.h"
#include "target/command.h"
#include "target/local.h"

#include <errno.h>

/* Result of an operation that was not submitted to the medium, because the command is no longer
 * allowed (slot_judge_piece). slot->early_status has the reason. */
#define IO_REFUSED (-EBADE)

static inline void io_counter_add(atomic_ulong *counter, unsigned long add)
{
	/* Only one thread writes each counter, so no atomic addition is needed. */
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

/* Decodes CDW10 to 12 into slot->io_cmd and checks the range. */
static inline nvme_status io_check_range(struct slot *slot)
{
	const struct ns *ns = slot->ns;

	io_cmd_decode(&slot->sqe, &slot->io_cmd);
	if (slot->io_cmd.block_count > ns->block_count ||
	    slot->io_cmd.first_block > ns->block_count - slot->io_cmd.block_count) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw10);
		return nvme_status_dnr(NVME_SC_LBA_RANGE);
	}
	/* An unknown key per I/O must be refused: ignoring the key would store the data in the
	 * clear. */
	if (slot->io_cmd.extension_type != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12 + 2);
	return NVME_SC_SUCCESS;
}

/* For commands that write, after io_check_range: refuses all directives, as none is supported. */
nvme_status io_check_directive(struct slot *slot);

/* As io_check_range, for commands that transfer their blocks: checks the transfer length and SGL
 * too. */
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

enum io_flag {
	IO_IS_HELD = 1u << 0, /* the caller holds the range, by io_hold */
};

/* Submits slot->io_cmd's range on the medium of `ns`, to or from slot->iov. `ns` is a namespace of
 * the slot's snapshot; for Copy it may differ from slot->ns. Calls `done` on this reactor. `flags`
 * are of enum io_flag. */
void io_submit(struct slot *slot, const struct ns *ns, enum media_kind kind, unsigned flags,
	       void (*done)(struct media_io *io, int res));

enum io_hold_kind {
	IO_HOLD_RANGE, /* slot->io_cmd's range */
	/* The gate between fused pairs, which share the gate, and large deallocations, each of
	 * which holds the gate exclusively. A command that needs both a gate and a range takes the
	 * gate first. */
	IO_HOLD_GATE,
};

/* Takes slot->hold on `ns`. The caller has set hold.is_exclusive and hold.granted. Returns true
 * when the hold is taken. Returns false when the slot must wait: `granted` is called later, and
 * slot_cancel ends the wait. Only for callers that submit with IO_IS_HELD. */
bool io_hold(struct slot *slot, const struct ns *ns, enum io_hold_kind kind);
/* True when the command may work now. False: turn_wait.go is called later (target/turn.h), and
 * slot_cancel ends the wait. */
bool io_take_turn(struct slot *slot, void (*go)(struct turn_wait *wait));
/* For turn_wait.go: 0, -ECANCELED, or IO_REFUSED when the command is no longer allowed. */
int io_end_wait(struct slot *slot);
/* For slot_wait.c. */
void io_cancel_turn(struct slot *slot);
void io_cancel_hold(struct slot *slot);
void io_cancel_medium(struct slot *slot);
void flush_all_cancel(struct slot *slot); /* cmd_flush.c */
/*
 * The number of blocks that are written atomically (NAWUN). Memory media are guarded block by
 * block, all other media command by command. When another process serves the namespace too, the
 * answer is one block, the least that the field can express: the commands of that process do not
 * take our guards. Across a power failure (AWUPF, NAWUPF) Identify reports one block: the least
 * that the fields can express, and all that any medium promises.
 */
uint32_t ns_atomic_blocks(const struct ns *ns, const struct target_limits *limits);
/* The number of blocks of a fused Compare and Write that are compared and written atomically
 * (NACWU). Lower than ns_atomic_blocks, because the host's blocks and the stored blocks share one
 * buffer. */
uint32_t ns_fused_blocks(const struct ns *ns, const struct target_limits *limits);
/* Success when the namespace is accessible through the port of this queue now. */
static inline nvme_status io_check_path(const struct queue *queue, const struct ns *ns)
{
	if (ns->is_formatting)
		return NVME_SC_FORMAT_IN_PROGRESS;
	if (queue->port && queue->port->ana_count > 0)
		return port_ana_status(queue->port, ns->ana_group);
	return NVME_SC_SUCCESS;
}

/* Checks the command against the view of its namespace on this reactor: first the reservation, then
 * blocks marked bad. A write to memory media that heals marks gets a buffer instead of its place in
 * the medium: slot->data is then empty. */
nvme_status io_check_view(struct slot *slot, const struct ns_view *view);
/* The status for the result of the last operation. */
nvme_status io_status(const struct slot *slot, int res);
/* Whether the command is refused on a write-protected namespace (cmd_io.c). */
bool io_opcode_changes_data(uint8_t opcode);
/* Logs and counts a failure of the operation slot->io on `ns`. */
void io_note_error(const struct slot *slot, const struct ns *ns, int res, nvme_status status);
/* Completes the command of slot->io by the result of the medium. Logs and counts errors. Usable as
 * `done` of io_submit. */
void io_done(struct media_io *io, int res);

nvme_status compare_prepare(struct slot *slot);       /* cmd_compare.c */
nvme_status flush_prepare(struct slot *slot);         /* cmd_flush.c */
nvme_status write_zeroes_prepare(struct slot *slot);  /* cmd_zeroes.c */
nvme_status dsm_prepare(struct slot *slot);           /* cmd_dsm.c */
nvme_status verify_prepare(struct slot *slot);        /* cmd_verify.c */
nvme_status uncorrectable_prepare(struct slot *slot); /* cmd_uncorrectable.c */
nvme_status copy_prepare(struct slot *slot);          /* cmd_copy.c */
nvme_status cancel_prepare(struct slot *slot);        /* cmd_cancel.c */
/* cmd_uncorrectable.c: fails commands that read blocks marked bad. Commands that write such blocks
 * are prepared to heal the marks. */
nvme_status bad_blocks_check(struct slot *slot, const struct bad_view *bad);

#endif
