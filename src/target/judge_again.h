/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that outlive the configuration under which they were judged.
 *
 * A command that waits for its host, or for a buffer, has not touched a medium. When the
 * configuration changes meanwhile it is judged again under the one in force, at the latest before
 * it begins: a namespace that is gone, formatted, protected, hidden or inaccessible by then refuses
 * it. So no change has to wait for a host, and no host can use what was taken from it.
 */
#ifndef WEFT_TARGET_JUDGE_AGAIN_H
#define WEFT_TARGET_JUDGE_AGAIN_H

#include "target/slot.h"

struct local;

/*
 * Judges a command that has not begun under the snapshot in force, and moves it there. Whatever the
 * answer, it uses nothing of its former snapshot any more, unless its data is mapped, or it is
 * fused, or a barrier lets it end well: those are left alone.
 */
nvme_status slot_judge_again(struct slot *slot);
/* Whether what the slot knows of its namespace still holds: the same medium, writable, reachable.
 */
bool slot_is_up_to_date(const struct slot *slot);
/* Why a command that a barrier has cancelled did not run. */
nvme_status slot_displaced_status(const struct slot *slot);
/*
 * Releases the commands of this reactor from snapshots that are not in force, where that can be
 * done: those that wait for their host or whose response the host does not read. Media that were
 * removed must not stay open for as long as a host likes.
 */
void local_leave_retired(struct local *local);

#endif
