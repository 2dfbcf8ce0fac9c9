/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of media that are not memory. A command holds the blocks that it names, exclusively to
 * change them or shared with other readers, from before the operation is submitted until the medium
 * is done. Thus commands of all queues on all reactors touch a block one after the other.
 *
 * Each store has a guard of its own, because a command holds its blocks as long as its medium
 * works: with a common table, one slow medium would stop the commands of others. All media that are
 * open over one store share its guard. The table of a guard is made when the first command needs
 * it.
 *
 * A hold takes the 4 KiB granules of its range in the order of their words in the table, and keeps
 * the granules it has while it waits for the next one. Because all holds use the same order, there
 * is no deadlock. Each word is handed over in order of arrival, so there is no starvation. Taking
 * or dropping a free granule costs one atomic operation. A lock is taken only to wait and to wake.
 *
 * The gate of a guard is a word beside the granules. A hold that takes a gate and a hold of a range
 * do not deadlock when each command takes the gate first.
 */
#ifndef WEFT_REACTOR_RANGE_GUARD_H
#define WEFT_REACTOR_RANGE_GUARD_H

#include "base/list.h"
#include "reactor/reactor.h"

#include <stdbool.h>
#include <stdint.h>

#define RANGE_GUARD_MAX_BYTES (8u << 20) /* largest range of one hold */
/* Granules that are this far apart share a word: 32 KiB of words for 32 MiB of blocks. */
#define RANGE_GUARD_WORDS 8192u

struct range_guard;
struct range_table;

enum range_hold_state {
	RANGE_HOLD_NONE, /* 0: a zeroed hold is ready for use */
	RANGE_HOLD_WAITING,
	RANGE_HOLD_HELD,
};

/* Embedded in a slot. Owned by the reactor that takes the hold. */
struct range_hold {
	enum range_hold_state state;
	bool is_exclusive; /* set by the caller of range_hold_take */
	/* Cancelled after the hold left the list of waiters: hold_go_on drops its granules. */
	bool is_cancelled;
	uint16_t wrapped; /* granules behind the end of the table: these have the first words */
	uint32_t first;   /* word; the range may wrap around the end of the table */
	uint32_t count;
	uint32_t taken;   /* granules taken; owned by the guard while the hold waits */
	uint32_t awaited; /* the word that the hold waits for */
	/* Called when a hold that had to wait is held, on the reactor that took the hold. */
	void (*granted)(struct range_hold *hold);
	struct range_table *table;
	struct reactor *reactor;
	struct list node; /* in a bucket while the hold waits; owned by the guard */
	struct reactor_msg msg;
};

/* With one reference. NULL when out of memory. Any thread; also get and put. */
struct range_guard *range_guard_create(void);
struct range_guard *range_guard_get(struct range_guard *guard);
/* Nothing is held or waits when the last reference is put. Returns true when this was the last. */
bool range_guard_put(struct range_guard *guard);

/*
 * Returns true when the range is held. Returns false when the hold waits: `granted` is called
 * later, unless range_hold_cancel returns true. The caller keeps a reference of the guard as long
 * as the hold waits or is held.
 */
bool range_hold_take(struct range_hold *hold, struct range_guard *guard, uint64_t offset,
		     uint64_t len_bytes);
/* As range_hold_take, for the gate. */
bool range_hold_take_gate(struct range_hold *hold, struct range_guard *guard);
/*
 * Shares the gate without a hold, for the control thread. Returns false when a hold has the gate
 * exclusively or waits for that. While the gate is shared, exclusive holds wait. Any thread; any
 * thread may drop the gate.
 */
bool range_guard_try_gate(struct range_guard *guard);
void range_guard_drop_gate(struct range_guard *guard);
/* Returns true when the wait has ended: nothing is held, and `granted` is not called. Returns false
 * when `granted` will be called soon, possibly with nothing held. */
bool range_hold_cancel(struct range_hold *hold);
/* Does nothing when nothing is held. */
void range_hold_drop(struct range_hold *hold);

#endif
