/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledged writes that a target lost with its power: noticed when one of its controllers comes
 * back with another boot (wire/identify.h) while writes were acknowledged and not flushed. The next
 * flush of every user of the namespace fails then, once. So it does when a medium of the target has
 * failed a flush, which the target reports by another mark of the namespace.
 *
 * A cache is what holds acknowledged writes until a flush: all controllers of one boot share one.
 * Controllers of several boots (machines of a cluster) share the storage below their caches, so a
 * flush through any controller covers the writes of all of them.
 *
 * Flushes of a namespace are numbered when they begin. A write notes in its cache how many have
 * begun when it is acknowledged: a flush that begins later covers the write.
 *
 * Threads: a loss_book is used under the lock of its join. A loss_ns is used by any thread: the
 * first write after a flush stores, the writes behind it only load.
 */
#ifndef WEFT_HOST_LOSS_H
#define WEFT_HOST_LOSS_H

#include "wire/identify.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOSS_CACHES     32 /* with LOSS_UNKNOWN */
#define LOSS_UNKNOWN    0  /* the controller does not report its boot, or has no volatile cache */
#define LOSS_ADDRS_MAX  64
#define LOSS_SOURCES    16 /* members of a cluster */
#define LOSS_CACHE_BITS uint32_t

/* ---- one namespace ---------------------------------------------------------------------------
 */

/* What a target process reported last of the namespace: wire/identify.h. */
struct loss_source {
	_Atomic uint64_t source;
	_Atomic uint64_t mark;
};

struct loss_ns {
	_Atomic uint64_t begun;   /* flushes */
	_Atomic uint64_t flushed; /* number of the latest flush that succeeded */
	_Atomic uint64_t losses;
	_Atomic uint64_t lost; /* the largest mark of `acked` that is lost */
	_Atomic uint64_t told; /* the latest loss that a user was told of */
	/* 1 + the loss up to which users that come later know; 0: up to `told`. See loss_untell. */
	_Atomic uint64_t untold;
	_Atomic uint64_t seen; /* how often a mark has changed */
	/* By cache: 1 + begun when the latest write was acknowledged; 0: none was. */
	_Atomic uint64_t acked[LOSS_CACHES];
	/* The rest is changed under the lock of the join. */
	struct loss_source sources[LOSS_SOURCES]; /* the first ones are used */
	_Atomic unsigned source_count;
	unsigned source_next; /* makes room for another one */
};

/* Stores the larger one. */
void loss_raise(_Atomic uint64_t *number, uint64_t to);

/* A command is sent: for loss_write_acked. */
static inline uint64_t loss_seen(const struct loss_ns *ns)
{
	return atomic_load_explicit(&ns->seen, memory_order_acquire);
}

/* The answer came after another mark, and the command may have run before the loss. */
void loss_acked_late(struct loss_ns *ns);

/* A controller of the cache has acknowledged a write without FUA that was sent when so many marks
 * were seen. Either loss_ns_see finds the write, or the write the mark. */
static inline void loss_write_acked(struct loss_ns *ns, unsigned cache, uint64_t seen)
{
	uint64_t mark = atomic_load_explicit(&ns->begun, memory_order_acquire) + 1;
	uint64_t now;

	if (atomic_load_explicit(&ns->acked[cache], memory_order_acquire) < mark) {
		loss_raise(&ns->acked[cache], mark);
		now = atomic_fetch_add(&ns->seen, 0); /* in one order with loss_ns_see's */
	} else {
		now = loss_seen(ns);
	}
	if (now != seen)
		loss_acked_late(ns);
}

/* A flush begins, before it is sent: its number. */
static inline uint64_t loss_flush_begin(struct loss_ns *ns)
{
	return atomic_fetch_add(&ns->begun, 1) + 1;
}

/* The flush has succeeded at a controller. *told: the latest loss that the user of the flush had
 * been told of when the flush was submitted. failed: number of the user's latest flush that the
 * controller has failed, 0: none; writes that were acknowledged before it are news to nobody.
 * False: writes were lost since, and *told counts them.
 */
bool loss_flush_end(struct loss_ns *ns, uint64_t flush, uint64_t failed, uint64_t *told);
/*
 * A user was told by loss_flush_end, whose answer reached nobody, and had known losses up to
 * told_before when it came. The one that wrote may come back as another user: the users that come
 * from now on are told, until one of them has been, whatever users that were there before are told.
 */
void loss_untell(struct loss_ns *ns, uint64_t told_before);
/* What a new user counts as told: losses that nobody was told of are the new user's, too.
 * *ret_untold: for loss_told_late, as soon as the user is told of a loss. */
uint64_t loss_told(const struct loss_ns *ns, uint64_t *ret_untold);
void loss_told_late(struct loss_ns *ns, uint64_t untold);
/* The caches are lost. True: with acknowledged writes of this namespace. */
bool loss_ns_judge(struct loss_ns *ns, LOSS_CACHE_BITS lost);

/* A controller reports this mark of the namespace. True: it is another one than before, and there
 * were acknowledged writes. */
bool loss_ns_see(struct loss_ns *ns, uint64_t source, uint64_t mark);

/* The mark that was judged last. False: the source has reported none. Any thread. */
bool loss_ns_mark(const struct loss_ns *ns, uint64_t source, uint64_t *ret_mark);

/* ---- the caches of a subsystem -----------------------------------------------------------------
 */

struct loss_cache {
	bool is_used;
	bool is_clustered;  /* as its controllers reported last */
	bool is_superseded; /* one of its addresses has reported another boot since */
	unsigned live;      /* controllers */
	uint8_t boot[IDENTIFY_BOOT_BYTES];
};

struct loss_book {
	struct loss_cache caches[LOSS_CACHES]; /* the first one is LOSS_UNKNOWN */
	/* By address: the cache of its latest controller, also while the address is away. */
	uint8_t at[LOSS_ADDRS_MAX];
};

/* A controller of this identity is live at the address, which is an index below LOSS_ADDRS_MAX. Its
 * cache; *ret_lost: caches that are known to be lost by this. */
unsigned loss_enter(struct loss_book *book, unsigned addr, const struct ctrl_identity *identity,
		    LOSS_CACHE_BITS *ret_lost);
/* The controller has ended. Caches that are known to be lost by this. */
LOSS_CACHE_BITS loss_leave(struct loss_book *book, unsigned cache);
/* The index stands for another address from now on. */
void loss_addr_forget(struct loss_book *book, unsigned addr);

#endif
