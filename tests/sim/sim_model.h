/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a namespace may hold: every block is a register with a history, against which each read is
 * judged. One thread.
 *
 * Time is a counter of events (struct world's), not the simulated clock. A block's value is a
 * unique number, or 0 for zeroes. Each block by itself must be linearizable. For unique values this
 * check is exact: the history is wrong if and only if two values each had to come before the other.
 * Commands of unknown outcome took effect before a bound, or never.
 */
#ifndef WEFT_TESTS_SIM_MODEL_H
#define WEFT_TESTS_SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_NEVER UINT64_MAX

struct model;

struct model *model_create(uint64_t block_count, bool has_volatile_cache);
void model_destroy(struct model *model);

/* A write (value 0: zeroes) begins at `now`. It must end in exactly one of the ways below. */
void model_write_begin(struct model *model, uint64_t block, uint64_t value, uint64_t now);
/* Begun at `start`, acknowledged with success at `now`. */
void model_write_done(struct model *model, uint64_t block, uint64_t value, uint64_t start,
		      uint64_t now, bool is_stable);
/* Ended by `now` with unknown outcome: it took effect before, or never will. */
void model_write_maybe(struct model *model, uint64_t block, uint64_t value, uint64_t start,
		       uint64_t now);

/* Refused before it began: it never takes effect. */
void model_write_never(struct model *model, uint64_t block, uint64_t value, uint64_t start);

/* A read in [start, now] returned this value. False: impossible, and `why` gets the reason. */
bool model_read(struct model *model, uint64_t block, uint64_t value, uint64_t start, uint64_t now,
		char why[160]);
/* A flush in [start, now] succeeded: writes acknowledged before start are stable. */
void model_flush(struct model *model, uint64_t start);
/* The medium's cache is lost: blocks that are not stable may have an older value again. */
void model_power_loss(struct model *model, uint64_t now);
/* Frees versions that no read can return any more. oldest_start: the earliest start of all commands
 * in flight. */
void model_forget(struct model *model, uint64_t oldest_start);

/* A likely value of the block, for a Compare that should succeed. */
uint64_t model_guess(const struct model *model, uint64_t block);
/* True: a read in [start, now] may return a value with one of these bits. */
bool model_may_hold(const struct model *model, uint64_t block, uint64_t bits, uint64_t start,
		    uint64_t now);
/* True: a read that began at start can return only this value. */
bool model_is_only(const struct model *model, uint64_t block, uint64_t value, uint64_t start);

#endif
