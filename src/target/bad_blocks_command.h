/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that mark blocks bad and heal them (ns/bad_blocks.h): bad_blocks_change.c. On the
 * queue's reactor; the change itself is the control reactor's.
 */
#ifndef WEFT_TARGET_BAD_BLOCKS_COMMAND_H
#define WEFT_TARGET_BAD_BLOCKS_COMMAND_H

#include "ns/bad_blocks.h"
#include "wire/nvme.h"

struct ns_live;
struct slot;
struct target;

/* Before the first command. */
void bad_blocks_init(struct target *target);
/* Marks slot->io_cmd's range of slot->ns, then completes the command. */
void bad_blocks_mark_for(struct slot *slot);
/*
 * The command has written its blocks, and they are stable: a mark that is gone must not leave what
 * was there before it. Takes away those marks that the view of slot->bad_stamp had, then completes
 * the command with `status`, or with an error when that cannot be kept.
 */
void bad_blocks_heal_for(struct slot *slot, nvme_status status);

/*
 * Format NVM, on the control reactor: no block is bad any more. `done` as in ns_live_publish. 0 or
 * -errno: nothing has changed and done is not called.
 */
int bad_blocks_clear(struct target *target, struct ns_live *live, void (*done)(void *arg),
		     void *arg);

#endif
