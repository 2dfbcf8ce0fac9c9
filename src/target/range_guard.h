/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of media that are not memory: a command has the blocks it names for itself (to change
 * them) or together with other readers, from before its medium hears of it until it is done. What
 * commands of all queues on all reactors do to a block thus happens one after the other.
 *
 * A hold takes the 4 KiB granules of its range in the order of their words in the table and keeps
 * what it has while it waits for the next one: with one order for all, nobody waits in a circle.
 * Each word is handed over in the order of arrival, so nobody waits for ever either. Free granules
 * cost one atomic operation each to take and one to drop; a lock is taken only to wait and to wake.
 */
#ifndef WEFT_TARGET_RANGE_GUARD_H
#define WEFT_TARGET_RANGE_GUARD_H

#include "base/list.h"
#include "reactor/reactor.h"

#include <stdbool.h>
#include <stdint.h>

#define RANGE_GUARD_MAX_BYTES (8u << 20) /* of one hold */

struct range_guard;

enum range_hold_state {
	RANGE_HOLD_NONE, /* 0: a zeroed hold is ready for use */
	RANGE_HOLD_WAITING,
	RANGE_HOLD_HELD,
};

/* Embedded in a slot; belongs to the reactor that takes it. */
struct range_hold {
	enum range_hold_state state;
	bool is_exclusive; /* the taker sets it */
	bool is_cancelled; /* too late to leave the queue: let go when told */
	uint32_t first;    /* word; a range may go over the end of the table to its beginning */
	uint32_t count;
	uint32_t taken;   /* while it waits: the guard's */
	uint32_t awaited; /* word, while it waits */
	/* On the reactor that took it, when it had to wait: it is held now. */
	void (*granted)(struct range_hold *hold);
	struct range_guard *guard;
	struct reactor *reactor;
	struct list node; /* in a bucket, while it waits; the guard's */
	struct reactor_msg msg;
};

struct range_guard *range_guard_create(void);
void range_guard_destroy(struct range_guard *guard);

/*
 * `medium` is any number that tells media apart. True: held. False: it waits, and `granted` follows
 * unless it is cancelled.
 */
bool range_hold_take(struct range_hold *hold, struct range_guard *guard, uint64_t medium,
		     uint64_t offset, uint64_t len_bytes);
/* True: it waits no more, holds nothing, and `granted` does not come. False: `granted` comes soon,
 * maybe with nothing held. */
bool range_hold_cancel(struct range_hold *hold);
/* Harmless when nothing is held. */
void range_hold_drop(struct range_hold *hold);

#endif
