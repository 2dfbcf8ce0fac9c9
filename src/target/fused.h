/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused Compare and Write: two commands of one queue that happen as one, against every other
 * command of every queue on every reactor. NVMe Base 2.1, section 3.4.2; NVM Command
 * Set 1.1, 2.1.4.
 *
 * The first command waits, with its data, for the second; the next command of the queue must be
 * that. The range is then held alone (target/range_guard.h, or the guard of memory) while it is
 * read, compared and written. Whatever ends one of the two early ends the other. A second command
 * never waits for a buffer, because its first keeps one: without room it is refused as interrupted,
 * which hosts repeat. Runs on the queue's reactor.
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

/* A command that is fused, or that follows the first of two: judged here, then by its family. */
nvme_status fused_prepare(struct slot *slot);
/* A fused command ends, by whatever cause, before both have run: the other one ends too. */
void fused_on_end(struct slot *slot);
/* The queue takes no more commands: nobody may wait for one. */
void fused_on_closing(struct queue *queue);
/* The configuration changes: a first command that waits for its second must not keep the old. */
void fused_on_swap(struct queue *queue);

#endif
