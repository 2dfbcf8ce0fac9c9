/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A barrier: waits on every reactor until the commands that a change touches have ended, and has
 * ended itself after BARRIER_END_S whatever they do. docs/adr/0028 has the reasons.
 *
 * What began before the change ends well within BARRIER_PRESS_S. Then commands that execute are
 * cancelled; those that wait for their host or for a buffer are judged again before they begin
 * (judge_again.h) and are waited for no longer; a connection whose host sends straight into memory
 * media is closed. So no host can hold a barrier by being slow.
 *
 * Created on the control reactor; each reactor looks after its own commands; `done` is called on
 * the control reactor.
 */
#ifndef WEFT_TARGET_BARRIER_H
#define WEFT_TARGET_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

struct barrier;
struct local;
struct slot;
struct target;

/* Both since the start. The end leaves some of ANATT (10 s) for the second half of a transition. */
#define BARRIER_PRESS_S 5
#define BARRIER_END_S   9 /* what runs now hangs in its medium: done gets -ETIMEDOUT */

struct barrier_scope {
	/* Whether the change concerns this command. On the slot's reactor; arg does not change. */
	bool (*touches)(const struct slot *slot, const void *arg);
	const void *arg;
	/* Preempt and Abort: commands are cancelled at once and end as preempted. Otherwise they
	 * have BARRIER_PRESS_S, and a cancelled one ends with the status that the configuration in
	 * force gives it. */
	bool is_preempting;
};

/* NULL without memory. */
struct barrier *barrier_create(struct target *target, const struct barrier_scope *scope);
/* One that was not started. */
void barrier_free(struct barrier *barrier);
/* On a data reactor, before the start: what it will wait for is not judged again until then. */
void barrier_mark(const struct barrier *barrier, struct local *local);
/* done: 0, or -ETIMEDOUT when commands were left. Frees the barrier after it. */
void barrier_start(struct barrier *taken_barrier, void (*done)(void *arg, int res), void *arg);
/* On a data reactor: a slot with is_awaited has ended. */
void barrier_on_slot_end(struct local *local);

#endif
