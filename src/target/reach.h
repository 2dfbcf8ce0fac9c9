/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces that a command reaches, and whether its host may still use them.
 *
 * Most commands reach one namespace. Copy also reaches the sources that its ranges name, and Flush
 * of all reaches every namespace of the subsystem. Barriers, fences and second judgements all ask
 * here, so that no change forgets the sources of a Copy. Runs on the queue's reactor. A command
 * whose configuration and reservations did not change never runs this code.
 */
#ifndef WEFT_TARGET_REACH_H
#define WEFT_TARGET_REACH_H

#include "target/slot.h"

/*
 * True when the command reaches a namespace for which `matches` is true. The namespaces are those
 * of the slot's snapshot. A Copy whose ranges have not arrived may name any namespace of its
 * subsystem.
 */
bool slot_reaches(const struct slot *slot, bool (*matches)(const struct ns *ns, const void *arg),
		  const void *arg);
/*
 * For a command that executes: whether the configuration in force still gives its host the right to
 * what the command does with each namespace. The status is that of a new command. ANA states, a
 * Format in progress and reservations take no right away.
 */
nvme_status slot_check_rights(const struct slot *slot);
/*
 * For a command that executes: called before each operation on a medium that may begin long after
 * the last judgement, because the command waited for blocks or for its previous piece. As
 * slot_check_rights; checks also the reservation of each namespace. ANA states and a Format in
 * progress are not judged: their statuses promise that nothing of the command was done, and their
 * barriers wait for commands that execute. A refusal is final, and is noted in slot->early_status.
 */
nvme_status slot_judge_piece(struct slot *slot);

#endif
