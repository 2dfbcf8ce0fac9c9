/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a namespace may hold: every block as a register with a history, so that each read can be
 * judged. One thread.
 *
 * Time is a counter of events (struct world's), not the simulated clock. A block's value is a
 * unique number, or 0 for zeroes. The judgement is linearizability of each block by itself, which
 * for unique values is exact: the history is wrong if and only if some two values each had to
 * come before the other. Commands of unknown outcome took effect before a bound, or never.
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
/* Over by `now`, and it may have taken effect before, or not. */
void model_write_maybe(struct model *model, uint64_t block, uint64_t value, uint64_t start,
		       uint64_t now);

/* It was refused before it began: it took no effect, and will not. */
void model_write_never(struct model *model, uint64_t block, uint64_t value, uint64_t start);

/* A read in [start, now] returned this value. False: impossible, and `why` says so. */
bool model_read(struct model *model, uint64_t block, uint64_t value, uint64_t start, uint64_t now,
		char why[160]);
/* A flush in [start, now] succeeded: what was acknowledged before start is stable. */
void model_flush(struct model *model, uint64_t start);
/* The cache of the medium is lost: what is not stable may be back at an older value. */
void model_power_loss(struct model *model, uint64_t now);
/*
 * oldest_start: the earliest begin of all commands still under way; what no read from there on may
 * return any more is forgotten.
 */
void model_forget(struct model *model, uint64_t oldest_start);

/* A value that the block may hold, for a Compare that should succeed. */
uint64_t model_guess(const struct model *model, uint64_t block);
/* Whether the block may hold a value with one of these bits for a read in [start, now]. */
bool model_may_hold(const struct model *model, uint64_t block, uint64_t bits, uint64_t start,
		    uint64_t now);
/* True when a read in [start, now] can return nothing but this value. */
bool model_is_only(const struct model *model, uint64_t block, uint64_t value, uint64_t start);

#endif
