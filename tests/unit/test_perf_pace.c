/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timetable of `weft perf --rate`: evenly spaced, exact after hours, and the backlog when
 * commands could not leave in time.
 */
#include "base/clock.h"
#include "perf/pace.h"
#include "tap.h"

#define START 12345678901ull

static const uint64_t rates[] = {1, 3, 7, 1000, 399999, 400000, 1000003, PERF_RATE_MAX};

static void one_second_has_rate_commands(void)
{
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		uint64_t rate = rates[i] < 2000000 ? rates[i] : 2000000;
		struct perf_pace pace;

		perf_pace_start(&pace, rate, START);
		EXPECT_EQ(START, pace.due_ns);
		for (uint64_t taken = 0; taken < rate; taken++) {
			EXPECT(pace.due_ns < START + NS_PER_S);
			perf_pace_take(&pace);
		}
		EXPECT_EQ(START + NS_PER_S, pace.due_ns);
	}
}

static void the_kth_is_due_after_k_periods(void)
{
	struct perf_pace pace;

	perf_pace_start(&pace, 7, START);
	for (uint64_t k = 0; k < 100000; k++) {
		EXPECT_EQ(START + k * NS_PER_S / 7, pace.due_ns);
		perf_pace_take(&pace);
	}
}

static void what_is_owed_counts_those_due_before_the_end(void)
{
	struct perf_pace pace;

	perf_pace_start(&pace, 4, START);
	EXPECT_EQ(0, perf_pace_owed(&pace, START - 1));
	EXPECT_EQ(0, perf_pace_owed(&pace, START));
	EXPECT_EQ(1, perf_pace_owed(&pace, START + 1));
	EXPECT_EQ(1, perf_pace_owed(&pace, START + NS_PER_S / 4));
	EXPECT_EQ(2, perf_pace_owed(&pace, START + NS_PER_S / 4 + 1));
	EXPECT_EQ(12, perf_pace_owed(&pace, START + 3 * NS_PER_S));
	for (int i = 0; i < 5; i++)
		perf_pace_take(&pace);
	EXPECT_EQ(7, perf_pace_owed(&pace, START + 3 * NS_PER_S));
	EXPECT_EQ(0, perf_pace_owed(&pace, START + NS_PER_S));
}

static void days_at_the_highest_rate_do_not_overflow(void)
{
	const uint64_t days_ns = 7 * 86400 * NS_PER_S;
	struct perf_pace pace;

	perf_pace_start(&pace, PERF_RATE_MAX, START);
	EXPECT_EQ(7ull * 86400 * PERF_RATE_MAX, perf_pace_owed(&pace, START + days_ns));
}

int main(void)
{
	TAP_RUN(one_second_has_rate_commands);
	TAP_RUN(the_kth_is_due_after_k_periods);
	TAP_RUN(what_is_owed_counts_those_due_before_the_end);
	TAP_RUN(days_at_the_highest_rate_do_not_overflow);
	return tap_end();
}
