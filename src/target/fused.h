/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused Compare and Write: two commands of one queue that happen as one, as seen by every other
 * command of every queue on every reactor. Runs on the queue's reactor. NVMe Base 2.1, section
 * 3.4.2; NVM Command Set 1.1, section 2.1.4.
 *
 * The first command waits, with its data, for the second, which must be the next command of the
 * queue. The range is then held exclusively (reactor/range_guard.h, or the guard of memory media)
 * while it is read, compared and written. Whatever ends one of the two commands early ends its
 * partner too. A second command never waits for a buffer, because its first command keeps one:
 * without a free buffer the second one is refused as Command Interrupted, which hosts retry.
 */
#ifndef WEFT_TARGET_FUSED_H
#define WEFT_TARGET_FUSED_H

#include "target/slot.h"

enum sqe_fuse {
	SQE_FUSE_NONE,
	SQE_FUSE_FIRST,
	SQE_FUSE_SECOND,
	SQE_FUSE_RESERVED,
};

static inline enum sqe_fuse slot_fuse(const struct slot *slot)
{
	return slot->sqe.flags & NVME_SQE_FUSE_MASK;
}

/* Judges a command that is fused or that follows a first fused command, then calls the command's
 * family (command_prepare_alone). */
nvme_status fused_prepare(struct slot *slot);
/* A fused command ends before both have run, for any reason: ends its partner too. */
void fused_on_end(struct slot *slot);
/* The configuration changes: ends a first command that waits for its second, so that the command
 * does not keep the former snapshot in use. */
void fused_on_swap(struct queue *queue);
/* For slot_wait.c. */
void fused_cancel_ready(struct slot *slot);
void fused_cancel_gate(struct slot *first);

#endif
