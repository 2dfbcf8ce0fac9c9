/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairing heap of timers by deadline, used by the io_uring reactor and the simulated one.
 *
 * Runs on the thread of the root's owner; uses no clock, no allocation, no reactor. The links are
 * in struct reactor_timer (child: first child; next: right sibling; prev: left sibling, or the
 * parent for a first child). Insert and look at the first: O(1); remove: O(log n) amortised. Timers
 * with equal deadlines have no order.
 */
#ifndef WEFT_REACTOR_TIMER_HEAP_H
#define WEFT_REACTOR_TIMER_HEAP_H

#include "reactor/reactor.h"

/* `timer` must be on no heap. Sets armed. */
void timer_heap_insert(struct reactor_timer **root, struct reactor_timer *timer);
/* `timer` must be on this heap. Clears armed. */
void timer_heap_remove(struct reactor_timer **root, struct reactor_timer *timer);
/* Removes and returns the first timer if its deadline is at or before `now_ns`, else NULL. */
struct reactor_timer *timer_heap_pop_due(struct reactor_timer **root, uint64_t now_ns);

#endif
