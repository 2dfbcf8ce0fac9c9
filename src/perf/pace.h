/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the commands of `weft perf --rate` are due: evenly spaced and independent of answers. Exact
 * over any time, because fractions of nanoseconds are carried. Pure.
 */
#ifndef WEFT_PERF_PACE_H
#define WEFT_PERF_PACE_H

#include <stdint.h>

#define PERF_RATE_MAX 100000000u

struct perf_pace {
	uint64_t rate; /* per second, 1 to PERF_RATE_MAX */
	uint64_t start_ns;
	uint64_t due_ns; /* when the next command is due */
	uint64_t count;  /* commands taken so far */
	uint64_t period_ns;
	uint64_t period_rest; /* in parts of 1/rate ns */
	uint64_t rest;
};

/* The first command is due at start_ns. */
void perf_pace_start(struct perf_pace *pace, uint64_t rate, uint64_t start_ns);
/* Takes one command and advances due_ns. */
void perf_pace_take(struct perf_pace *pace);
/* The number of commands due before end_ns and not taken. */
uint64_t perf_pace_owed(const struct perf_pace *pace, uint64_t end_ns);

#endif
