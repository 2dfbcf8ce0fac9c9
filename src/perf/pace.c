/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timetable of `weft perf --rate`. Pure; any thread. Command k is due k / rate seconds after
 * the start, rounded down to nanoseconds. The remainder of each period is carried, so that no error
 * grows with time.
 */
#include "perf/pace.h"

#include "base/clock.h"

void perf_pace_start(struct perf_pace *pace, uint64_t rate, uint64_t start_ns)
{
	*pace = (struct perf_pace){
		.rate = rate,
		.start_ns = start_ns,
		.due_ns = start_ns,
		.period_ns = NS_PER_S / rate,
		.period_rest = NS_PER_S % rate,
	};
}

void perf_pace_take(struct perf_pace *pace)
{
	pace->count++;
	pace->due_ns += pace->period_ns;
	pace->rest += pace->period_rest;
	if (pace->rest >= pace->rate) {
		pace->rest -= pace->rate;
		pace->due_ns++;
	}
}

uint64_t perf_pace_owed(const struct perf_pace *pace, uint64_t end_ns)
{
	uint64_t span_ns = end_ns > pace->start_ns ? end_ns - pace->start_ns : 0;
	/* Counts all k < span * rate. Whole seconds are counted separately, so that nothing
	 * overflows. */
	uint64_t due = span_ns / NS_PER_S * pace->rate +
		       (span_ns % NS_PER_S * pace->rate + NS_PER_S - 1) / NS_PER_S;

	return due > pace->count ? due - pace->count : 0;
}
