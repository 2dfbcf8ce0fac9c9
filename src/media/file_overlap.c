/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlapping syncs of one file. Linux reports lost writes once per open file description: of two
 * concurrent syncs, one fails, and the other succeeds although its data are lost. So a successful
 * sync is held until all syncs that began before its end have ended. The held sync fails if one of
 * those failed.
 *
 * Any thread, no lock: hosts' syncs run on the rings of several reactors, a growth's on the control
 * thread. One word counts the running syncs of the present and the former generation. A sync that
 * must wait for the present one makes that one the former, now or once the old former one has
 * ended, so that later syncs do not prolong the wait. A sync without overlap costs two atomic
 * operations on this word.
 *
 * Held syncs form a stack. The thread that ends a generation takes the whole stack, completes the
 * syncs that are ready and pushes the others back. Only the thread that took a sync off the stack
 * touches it and posts to its reactor.
 */
#include "media/file.h"

#include <errno.h>
#include <stdatomic.h>

/* The bits of file_backing.syncs. */
union syncs {
	uint64_t bits;
	struct {
		uint64_t now : 22;    /* lowest bits: running, begun in the present generation */
		uint64_t before : 22; /* running, begun in the former generation */
		uint64_t is_due : 1;  /* the next generation begins when `before` is 0 */
		uint64_t generation : 19;
	};
};

void file_overlap_begin(struct file_backing *backing, struct file_overlap *overlap)
{
	union syncs was;

	overlap->loss = atomic_load_explicit(&backing->loss, memory_order_relaxed);
	was.bits = atomic_fetch_add(&backing->syncs, 1); /* increments `now` */
	overlap->generation = was.generation;
}

/* Counts the sync as ended. True: its success must be held until generation overlap->generation has
 * ended, which is set here. */
static bool overlap_leave(struct file_backing *backing, struct file_overlap *overlap)
{
	union syncs was = {.bits = atomic_load_explicit(&backing->syncs, memory_order_relaxed)};
	union syncs next;
	bool has_now;

	/* The usual case: no other sync is running. */
	if (was.now == 1 && was.before == 0 && !was.is_due &&
	    atomic_compare_exchange_strong(&backing->syncs, &was.bits, was.bits - 1))
		return false;
	do {
		next = was;
		if (overlap->generation == was.generation)
			next.now--;
		else
			next.before--;
		has_now = next.now > 0;
		next.is_due |= has_now && overlap->result >= 0;
		if (next.is_due && next.before == 0) {
			next.before = next.now;
			next.now = 0;
			next.is_due = 0;
			next.generation++;
		}
	} while (!atomic_compare_exchange_weak(&backing->syncs, &was.bits, next.bits));
	was.generation -= !has_now;
	overlap->generation = was.generation;
	return overlap->result >= 0 && (next.now > 0 || next.before > 0);
}

/* Whether all syncs of that generation and of earlier ones have ended. */
static bool has_ended(union syncs syncs, uint32_t generation)
{
	syncs.generation -= generation;
	return syncs.generation > 1 || (syncs.generation == 1 && syncs.before == 0);
}

/* The result after overlapping syncs. A failure is noted before its sync is counted as ended, so a
 * thread that sees the end also sees the failure. */
static int overlap_result(const struct file_backing *backing, const struct file_overlap *overlap)
{
	bool is_lost = overlap->loss != atomic_load_explicit(&backing->loss, memory_order_relaxed);

	return overlap->result >= 0 && is_lost ? -EIO : overlap->result;
}

static void held_push(struct file_backing *backing, struct file_overlap *overlap)
{
	struct file_overlap *first = atomic_load(&backing->syncs_held);

	do
		overlap->next = first;
	while (!atomic_compare_exchange_weak(&backing->syncs_held, &first, overlap));
}

/* Posts the result. The overlap may be freed right after this call. */
static void held_let_go(struct file_backing *backing, struct file_overlap *overlap)
{
	overlap->result =
		atomic_load(&overlap->is_cancelled) ? -ECANCELED : overlap_result(backing, overlap);
	reactor_post(overlap->reactor, &overlap->msg, overlap->done);
}

/* Completes the held syncs that are ready. A sync that is pushed back may have become ready
 * meanwhile, and the thread that made the sync ready found the stack without that sync. So look
 * again if anything changed. */
static void held_look(struct file_backing *backing)
{
	bool has_kept = true;
	uint32_t cancels;
	union syncs syncs;

	do {
		struct file_overlap *held, *next;

		if (!has_kept || !atomic_load(&backing->syncs_held))
			return;
		cancels = atomic_load(&backing->syncs_cancelled);
		syncs.bits = atomic_load(&backing->syncs);
		has_kept = false;
		for (held = atomic_exchange(&backing->syncs_held, NULL); held; held = next) {
			next = held->next;
			if (has_ended(syncs, held->generation) ||
			    atomic_load(&held->is_cancelled)) {
				held_let_go(backing, held);
			} else {
				held_push(backing, held);
				has_kept = true;
			}
		}
	} while (syncs.bits != atomic_load(&backing->syncs) ||
		 cancels != atomic_load(&backing->syncs_cancelled));
}

bool file_overlap_end(struct file_backing *backing, struct file_overlap *overlap,
		      struct reactor *reactor, void (*done)(struct reactor_msg *msg))
{
	bool is_held = overlap_leave(backing, overlap);

	if (is_held) {
		overlap->reactor = reactor;
		overlap->done = done;
		atomic_store(&overlap->is_cancelled, false);
		held_push(backing, overlap);
	} else {
		overlap->result = overlap_result(backing, overlap);
	}
	held_look(backing);
	return !is_held;
}

void file_overlap_drop(struct file_backing *backing, struct file_overlap *overlap)
{
	overlap->result = -ECANCELED; /* nobody waits for the result */
	overlap_leave(backing, overlap);
	held_look(backing);
}

void file_overlap_cancel(struct file_backing *backing, struct file_overlap *overlap)
{
	atomic_store(&overlap->is_cancelled, true);
	atomic_fetch_add(&backing->syncs_cancelled, 1);
	held_look(backing);
}
