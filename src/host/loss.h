/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledged writes that a target lost with its power: detected when one of its controllers comes
 * back with another boot (wire/identify.h) while acknowledged writes were not flushed. The next
 * flush of every user of the namespace then fails, once. The same happens when a medium of the
 * target has failed a flush, which the target reports by another mark of the namespace.
 *
 * A cache is what holds acknowledged writes until a flush. All controllers of one boot share one
 * cache. Controllers of several boots (machines of a cluster) share the storage below their caches,
 * so a flush through any controller covers the writes of all of them.
 *
 * Flushes of a namespace are numbered when they begin. When a write is acknowledged, its cache
 * records how many flushes have begun. A flush that begins later covers the write.
 *
 * Threads: a loss_book is used under the lock of its join. A loss_ns is used by any thread: the
 * first write after a flush stores, later writes only load.
 */
#ifndef WEFT_HOST_LOSS_H
#define WEFT_HOST_LOSS_H

#include "wire/identify.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOSS_CACHES     32 /* including LOSS_UNKNOWN */
#define LOSS_UNKNOWN    0  /* the controller does not report its boot, or has no volatile cache */
#define LOSS_ADDRS_MAX  64
#define LOSS_SOURCES    16 /* members of a cluster */
#define LOSS_CACHE_BITS uint32_t

/* ---- one namespace ---------------------------------------------------------------------------
 */

/* The last report of one target process about the namespace: wire/identify.h. */
struct loss_source {
	_Atomic uint64_t source;
	_Atomic uint64_t mark;
};

struct loss_ns {
	_Atomic uint64_t begun;   /* number of flushes that have begun */
	_Atomic uint64_t flushed; /* number of the latest flush that succeeded */
	_Atomic uint64_t losses;
	_Atomic uint64_t lost; /* the largest mark in `acked` that was lost */
	_Atomic uint64_t told; /* the latest loss that a user was notified of */
	/* 1 + the loss up to which later users count as notified of; 0: up to `told`. See
	 * loss_repeat. */
	_Atomic uint64_t untold;
	_Atomic uint64_t seen; /* how often a mark has changed */
	/* By cache: 1 + begun at the time of the latest acknowledged write. 0: none. */
	_Atomic uint64_t acked[LOSS_CACHES];
	/* The fields below are changed under the lock of the join. */
	struct loss_source sources[LOSS_SOURCES]; /* the first source_count are used */
	_Atomic unsigned source_count;
	unsigned source_next; /* the entry to replace when all are used */
};

/* Raises *number to `to`, unless *number is larger already. */
void loss_raise(_Atomic uint64_t *number, uint64_t to);

/* Call when a command is sent. loss_write_acked takes the result. */
static inline uint64_t loss_seen(const struct loss_ns *ns)
{
	return atomic_load_explicit(&ns->seen, memory_order_acquire);
}

/* The answer came after a mark had changed, and the command may have run before the loss. */
void loss_acked_late(struct loss_ns *ns);

/* A controller of the cache has acknowledged a write without FUA. seen: result of loss_seen when
 * the write was sent. Either loss_ns_see finds the write, or this function finds the changed
 * mark. */
static inline void loss_write_acked(struct loss_ns *ns, unsigned cache, uint64_t seen)
{
	uint64_t mark = atomic_load_explicit(&ns->begun, memory_order_acquire) + 1;
	uint64_t now;

	if (atomic_load_explicit(&ns->acked[cache], memory_order_acquire) < mark) {
		loss_raise(&ns->acked[cache], mark);
		now = atomic_fetch_add(&ns->seen, 0); /* in one order with loss_ns_see */
	} else {
		now = loss_seen(ns);
	}
	if (now != seen)
		loss_acked_late(ns);
}

/* Call before a flush is sent. Returns the number of the flush. */
static inline uint64_t loss_flush_begin(struct loss_ns *ns)
{
	return atomic_fetch_add(&ns->begun, 1) + 1;
}

/* The flush has succeeded at a controller. *told: the latest loss that the user of the flush had
 * been notified of when the flush was submitted. failed: number of the user's latest flush that the
 * controller has failed, 0: none. The user already knows that writes acknowledged before that flush
 * may be lost. Returns false when later writes were lost. *told then includes the loss. */
bool loss_flush_end(struct loss_ns *ns, uint64_t flush, uint64_t failed, uint64_t *told);
/*
 * The answer of a flush that loss_flush_end failed reached no program. told_before: the result of
 * loss_told when the user was opened. The program that wrote may come back as another user. So
 * users that are opened from now on are notified of the loss, until one of them has been notified.
 * Users that were opened before do not count.
 */
void loss_repeat(struct loss_ns *ns, uint64_t told_before);
/* The latest loss that a new user counts as notified of. Losses that no user was notified of are
 * left for the new user. Pass *ret_untold to loss_told_late as soon as the user is notified of a
 * loss. */
uint64_t loss_told(const struct loss_ns *ns, uint64_t *ret_untold);
void loss_told_late(struct loss_ns *ns, uint64_t untold);
/* The caches are lost. True: they held acknowledged writes of this namespace. */
bool loss_ns_judge(struct loss_ns *ns, LOSS_CACHE_BITS lost);

/* A controller reports this mark of the namespace. True: the mark has changed, and acknowledged
 * writes may be lost. */
bool loss_ns_see(struct loss_ns *ns, uint64_t source, uint64_t mark);

/* The mark of the source that was judged last. False: the source has reported none. Any thread. */
bool loss_ns_mark(const struct loss_ns *ns, uint64_t source, uint64_t *ret_mark);

/* ---- the caches of a subsystem -----------------------------------------------------------------
 */

struct loss_cache {
	bool is_used;
	bool is_clustered;  /* as its controllers reported last */
	bool is_superseded; /* one of its addresses has since reported another boot */
	unsigned live;      /* number of live controllers */
	uint8_t boot[IDENTIFY_BOOT_BYTES];
};

struct loss_book {
	struct loss_cache caches[LOSS_CACHES]; /* the first entry is LOSS_UNKNOWN */
	/* By address: the cache of its latest controller, kept while the address has no
	 * controller. */
	uint8_t at[LOSS_ADDRS_MAX];
};

/* A controller with this identity is live at the address, whose index is below LOSS_ADDRS_MAX.
 * Returns the controller's cache. *ret_lost: caches that are thereby known to be lost. */
unsigned loss_enter(struct loss_book *book, unsigned addr, const struct ctrl_identity *identity,
		    LOSS_CACHE_BITS *ret_lost);
/* The controller has ended. Returns the caches that are thereby known to be lost. */
LOSS_CACHE_BITS loss_leave(struct loss_book *book, unsigned cache);
/* The index stands for another address from now on. */
void loss_addr_forget(struct loss_book *book, unsigned addr);

#endif
