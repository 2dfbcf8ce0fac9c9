/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that outlive the configuration, or the reservation, under which they were judged.
 *
 * A command that waits for its host, or for a buffer, has not touched a medium. When one of these
 * changes meanwhile it is judged again under what is in force, at the latest before it begins: a
 * namespace that is gone, formatted, protected, hidden, inaccessible or reserved for others by then
 * refuses it. So no change has to wait for a host, and no host can use what was taken from it.
 */
#ifndef WEFT_TARGET_JUDGE_AGAIN_H
#define WEFT_TARGET_JUDGE_AGAIN_H

#include "target/slot.h"

struct local;
struct ns_local;

/*
 * Judges a command that has not begun under the snapshot in force, and moves it there. Whatever the
 * answer, it uses nothing of its former snapshot any more, unless its data is mapped, or it is
 * fused, or a barrier lets it end well: those are left alone.
 */
nvme_status slot_judge_again(struct slot *slot);
/* The same by the view of its namespace alone (ns_live.h), for one that does not move. */
nvme_status slot_check_view(struct slot *slot);
/* The reservation has changed since the slot was judged, and keeps its host away. */
bool slot_is_fenced(const struct slot *slot);
/* It waits for its host or for a buffer. */
bool slot_is_waiting(const struct slot *slot);
/* Meanwhile data of the host goes straight into memory media. */
bool slot_is_filled_by_host(const struct slot *slot);
/*
 * The same moment for data that goes straight into memory media: what of it comes after a change
 * goes nowhere when the configuration in force, or the reservation of the namespace with these
 * counters, does not allow the write any more. So that a change can be told of as soon as every
 * reactor has it; what landed before is there, as of any write that fails half way.
 *
 * And for data that goes straight out of them when its host takes it: nothing that is written after
 * the change leaves. A read of which nothing has left is refused; the rest of one that has begun to
 * leave is what was there at the change; without a buffer for that its connection ends.
 *
 * has_place: what queue_swap said.
 */
void queue_cut_off_outdated(struct queue *queue, bool has_place);
void local_cut_off_fenced(struct local *local, const struct ns_local *locals);
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
