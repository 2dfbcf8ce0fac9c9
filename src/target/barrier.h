/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A barrier waits, on every reactor, for the end of the commands that a change touches. The barrier
 * itself ends after BARRIER_END_S at the latest. docs/adr/0028 has the reasons.
 *
 * Commands that began before the change normally end well within BARRIER_PRESS_S. After that time
 * the barrier presses. It cancels commands that execute. It stops waiting for commands that wait
 * for their host or for a buffer; those are judged again before they begin (judge_again.h). It
 * closes a connection whose host sends straight into memory media. So a slow host cannot hold up a
 * barrier.
 *
 * A barrier is created on the control reactor. Each reactor watches its own commands. `done` is
 * called on the control reactor.
 */
#ifndef WEFT_TARGET_BARRIER_H
#define WEFT_TARGET_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

struct barrier;
struct local;
struct slot;
struct target;

/* Both count from the start. The end leaves a part of ANATT (10 s) for the second half of a
 * transition. */
#define BARRIER_PRESS_S 5
#define BARRIER_END_S   9 /* commands still running hang in their medium: done gets -ETIMEDOUT */

struct barrier_scope {
	/* Whether the change concerns this command. Called on the slot's reactor. `arg` must be
	 * immutable. */
	bool (*touches)(const struct slot *slot, const void *arg);
	const void *arg;
	/* Preempt and Abort: commands are cancelled at once and end as preempted. Otherwise
	 * commands have BARRIER_PRESS_S to end, and a cancelled command gets the status that
	 * follows from the configuration in force. */
	bool is_preempting;
};

/* Returns NULL when out of memory. */
struct barrier *barrier_create(struct target *target, const struct barrier_scope *scope);
/* Frees a barrier that was not started. */
void barrier_free(struct barrier *barrier);
/* On a data reactor, before barrier_start: marks the commands that the barrier will wait for. A
 * marked command is not judged again before the barrier presses. */
void barrier_mark(const struct barrier *barrier, struct local *local);
/* Starts the barrier. `done` gets 0, or -ETIMEDOUT when commands were still running. The barrier is
 * freed after `done`. */
void barrier_start(struct barrier *taken_barrier, void (*done)(void *arg, int res), void *arg);
/* On a data reactor, after a slot with is_awaited has ended. */
void barrier_on_slot_end(struct local *local);

#endif
