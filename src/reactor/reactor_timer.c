/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairing heap of reactor timers, shared by the io_uring reactor and the simulator.
 *
 * Runs on the thread of the reactor that owns the root. Pure: only links timers. The children of a
 * removed node are merged in two passes without recursion, so that ten thousand keep-alive timers
 * with the same deadline do not exhaust the stack.
 */
#include "reactor/timer_heap.h"

/* a and b must be roots without siblings. Returns the earlier one, with the other as its first
 * child. */
static struct reactor_timer *timer_heap_meld(struct reactor_timer *a, struct reactor_timer *b)
{
	if (b->deadline_ns < a->deadline_ns) {
		struct reactor_timer *swap = a;

		a = b;
		b = swap;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	return a;
}

/* Merges a chain of siblings into one tree. NULL for an empty chain. */
static struct reactor_timer *timer_heap_meld_siblings(struct reactor_timer *first)
{
	struct reactor_timer *pairs = NULL, *root = NULL;

	/* Meld pairs from left to right; stack the results through `next`. */
	while (first) {
		struct reactor_timer *a = first, *b = a->next;

		first = b ? b->next : NULL;
		a->next = NULL;
		a->prev = NULL;
		if (b) {
			b->next = NULL;
			b->prev = NULL;
			a = timer_heap_meld(a, b);
		}
		a->next = pairs;
		pairs = a;
	}
	/* Meld the pairs from right to left into one tree. */
	while (pairs) {
		struct reactor_timer *a = pairs;

		pairs = a->next;
		a->next = NULL;
		root = root ? timer_heap_meld(root, a) : a;
	}
	return root;
}

void timer_heap_insert(struct reactor_timer **root, struct reactor_timer *timer)
{
	CHECK(!timer->armed);
	timer->child = NULL;
	timer->next = NULL;
	timer->prev = NULL;
	timer->armed = true;
	*root = *root ? timer_heap_meld(*root, timer) : timer;
}

void timer_heap_remove(struct reactor_timer **root, struct reactor_timer *timer)
{
	struct reactor_timer *rest;

	CHECK(timer->armed);
	rest = timer_heap_meld_siblings(timer->child);
	if (timer == *root) {
		*root = rest;
	} else {
		if (timer->prev->child == timer)
			timer->prev->child = timer->next;
		else
			timer->prev->next = timer->next;
		if (timer->next)
			timer->next->prev = timer->prev;
		if (rest)
			*root = timer_heap_meld(*root, rest);
	}
	timer->child = NULL;
	timer->next = NULL;
	timer->prev = NULL;
	timer->armed = false;
}

struct reactor_timer *timer_heap_pop_due(struct reactor_timer **root, uint64_t now_ns)
{
	struct reactor_timer *first = *root;

	if (!first || first->deadline_ns > now_ns)
		return NULL;
	timer_heap_remove(root, first);
	return first;
}
