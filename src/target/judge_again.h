/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that outlast the configuration, or the reservation, under which they were judged.
 *
 * A command that waits for its host or for a buffer has not touched a medium. When the
 * configuration or the reservation changes meanwhile, the command is judged again under what is in
 * force, at the latest before it begins. It is refused when its namespace is by then gone,
 * formatted, protected, hidden, inaccessible or reserved for others. Therefore no change has to
 * wait for a host, and no host can use what it no longer has a right to. Runs on the queue's
 * reactor.
 */
#ifndef WEFT_TARGET_JUDGE_AGAIN_H
#define WEFT_TARGET_JUDGE_AGAIN_H

#include "target/slot.h"

struct local;
struct ns_local;

/*
 * Judges a command that has not begun under the snapshot in force, and moves the command to that
 * snapshot. Whatever the result, the command uses nothing of its former snapshot afterwards.
 * Exceptions, which keep their snapshot: a command whose data is mapped, a fused command, and a
 * command that a barrier lets finish.
 */
nvme_status slot_judge_again(struct slot *slot);
/* Judges a command by the view of its namespace alone (ns_live.h). For a command that keeps its
 * snapshot. */
nvme_status slot_check_view(struct slot *slot);
/* True while the command waits for its host or for a buffer. */
bool slot_is_waiting(const struct slot *slot);
/* True while data of the host is received directly into memory media. */
bool slot_is_filled_by_host(const struct slot *slot);
/*
 * Stop transfers between hosts and memory media that the configuration in force, or the reservation
 * of the namespace with these counters, no longer allows. A change can therefore be reported as
 * soon as every reactor has applied it.
 *
 * Data on its way into memory media: what arrives after the change is discarded. What landed before
 * stays, as with any write that fails half way.
 *
 * Data on its way out of memory media: nothing that is written after the change is sent. A read of
 * which nothing was sent is refused. The rest of a read that was partly sent comes from a copy made
 * at the change. Without a buffer for the copy, the connection ends.
 *
 * has_place: the result of queue_swap.
 */
void queue_cut_off_outdated(struct queue *queue, bool has_place);
void local_cut_off_fenced(struct local *local, const struct ns_local *locals);
/* True when what the slot knows of its namespace still holds: the same medium, writable,
 * reachable. */
bool slot_is_up_to_date(const struct slot *slot);
/* The status of an executing command that a barrier has cancelled: why the command did not run. */
nvme_status slot_displaced_status(const struct slot *slot);
/*
 * Releases commands of this reactor from snapshots that are not in force, where possible: commands
 * that wait for their host, and commands whose response the host does not read. Otherwise a host
 * could keep a removed medium open as long as it likes.
 */
void local_leave_retired(struct local *local);

#endif
