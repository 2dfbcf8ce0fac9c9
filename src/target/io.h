/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of I/O commands share: counters, ranges, the way to the medium and back.
 * Private to target/. All run on the queue's reactor.
 */
#ifndef WEFT_TARGET_IO_H
#define WEFT_TARGET_IO_H

#include "target/command.h"
#include "target/local.h"

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
nvme_status io_check_range(struct slot *slot);
/* The same for commands that move the blocks: transfer length and SGL too. */
nvme_status io_transfer_prepare(struct slot *slot, enum data_direction direction);
/* slot->io_cmd's range, to or from slot->iov, on the medium of slot->ns; done on this reactor. */
void io_submit(struct slot *slot, enum media_kind kind, void (*done)(struct media_io *io, int res));
/* Ends the command by what the medium said; logs and counts errors. */
void io_finish(struct slot *slot, int res);
/* A done that does just that. */
void io_done(struct media_io *io, int res);

nvme_status compare_prepare(struct slot *slot);      /* cmd_compare.c */
nvme_status flush_prepare(struct slot *slot);        /* cmd_flush.c */
nvme_status write_zeroes_prepare(struct slot *slot); /* cmd_zeroes.c */
nvme_status dsm_prepare(struct slot *slot);          /* cmd_dsm.c */

#endif
