/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that mark blocks bad and heal them (ns/bad_blocks.h). Implemented in
 * bad_blocks_change.c. Called on the queue's reactor; the control reactor makes the change.
 */
#ifndef WEFT_TARGET_BAD_BLOCKS_COMMAND_H
#define WEFT_TARGET_BAD_BLOCKS_COMMAND_H

#include "ns/bad_blocks.h"
#include "wire/nvme.h"

struct ns_live;
struct slot;
struct target;

/* Call before the first command. */
void bad_blocks_init(struct target *target);
/* Marks slot->io_cmd's range of slot->ns, then completes the command. */
void bad_blocks_mark_for(struct slot *slot);
/*
 * Heals blocks that the command has written: removes the marks that the view of slot->bad_stamp
 * had, then completes the command with `status`, or with an error when the change cannot be kept.
 * The written blocks must be on stable storage: without the mark, the old data must not reappear.
 */
void bad_blocks_heal_for(struct slot *slot, nvme_status status);

/*
 * Format NVM, on the control reactor: removes all marks. Calls `done` as ns_live_publish_start
 * does. Returns 0 or -errno. On -errno nothing has changed and `done` is not called.
 */
int bad_blocks_clear(struct target *target, struct ns_live *live, void (*done)(void *arg),
		     void *arg);

#endif
