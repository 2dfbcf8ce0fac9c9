/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spin-then-sleep arithmetic: no spinning for rare events, twice the gap for frequent ones, a
 * floor, a ceiling, halving after misses, recovery after a hit.
 */
#include "reactor/spin_policy.h"
#include "tap.h"

static struct spin_policy policy;

static void settle(uint64_t gap_ns)
{
	for (unsigned i = 0; i < 200; i++)
		spin_policy_note_gap(&policy, gap_ns, true);
}

static void follows_the_gap(void)
{
	spin_policy_init(&policy, 50000);
	settle(10000);
	EXPECT(spin_policy_window_ns(&policy, 1) >= 19000 &&
	       spin_policy_window_ns(&policy, 1) <= 20000);
	settle(100);
	EXPECT_EQ(SPIN_FLOOR_NS, spin_policy_window_ns(&policy, 1));
	settle(40000);
	EXPECT_EQ(50000, spin_policy_window_ns(&policy, 1));
	for (unsigned i = 0; i < 200; i++)
		spin_policy_note_gap(&policy, 60000, false);
	EXPECT_EQ(0, spin_policy_window_ns(&policy, 1));
}

/* Wake-ups make gaps look long. One true gap in a while is enough to notice. */
static void looks_again_now_and_then(void)
{
	unsigned spins = 0;

	spin_policy_init(&policy, 50000);
	for (unsigned i = 0; i < 10 * SPIN_PROBE_EVERY; i++) {
		spins += spin_policy_window_ns(&policy, 1) > 0;
		spin_policy_note_gap(&policy, 70000, false);
	}
	EXPECT(spins >= 9 && spins <= 11);
	while (spin_policy_window_ns(&policy, 1) == 0)
		spin_policy_note_gap(&policy, 70000, false);
	spin_policy_note_gap(&policy, 30000, true);
	EXPECT_EQ(50000, spin_policy_window_ns(&policy, 1));
}

/* With more commands in flight a longer spin is allowed, up to a bound. */
static void scales_with_what_waits(void)
{
	spin_policy_init(&policy, 50000);
	for (unsigned i = 0; i < 200; i++)
		spin_policy_note_gap(&policy, 80000, false);
	EXPECT_EQ(0, spin_policy_window_ns(&policy, 1));
	EXPECT_EQ(100000, spin_policy_window_ns(&policy, 2));
	EXPECT(spin_policy_window_ns(&policy, 4) > 150000);
	EXPECT(spin_policy_window_ns(&policy, 1000) <= 200000);
}

static void forgets_a_long_silence(void)
{
	spin_policy_init(&policy, 50000);
	spin_policy_note_gap(&policy, 3600ull * 1000000000, false);
	for (unsigned i = 0; i < 15; i++)
		spin_policy_note_gap(&policy, 3600ull * 1000000000, false);
	EXPECT_EQ(0, spin_policy_window_ns(&policy, 1));
	for (unsigned i = 0; i < 16; i++)
		spin_policy_note_gap(&policy, 5000, false);
	EXPECT(spin_policy_window_ns(&policy, 1) > 0);
}

static void halves_after_misses(void)
{
	uint64_t full_ns;

	spin_policy_init(&policy, 50000);
	settle(20000);
	full_ns = spin_policy_window_ns(&policy, 1);
	for (unsigned i = 0; i < SPIN_MISSES_LIMIT - 1; i++)
		spin_policy_note_miss(&policy);
	EXPECT_EQ(full_ns, spin_policy_window_ns(&policy, 1));
	spin_policy_note_miss(&policy);
	EXPECT_EQ(full_ns / 2, spin_policy_window_ns(&policy, 1));
	for (unsigned i = 0; i < 1000; i++)
		spin_policy_note_miss(&policy);
	EXPECT(spin_policy_window_ns(&policy, 1) < 1000);
	spin_policy_note_gap(&policy, 20000, true);
	EXPECT(spin_policy_window_ns(&policy, 1) >= full_ns - 10);
}

static void zero_never_spins(void)
{
	spin_policy_init(&policy, 0);
	EXPECT_EQ(0, spin_policy_window_ns(&policy, 1));
	settle(0);
	EXPECT_EQ(0, spin_policy_window_ns(&policy, 1));
}

int main(void)
{
	TAP_RUN(follows_the_gap);
	TAP_RUN(looks_again_now_and_then);
	TAP_RUN(scales_with_what_waits);
	TAP_RUN(forgets_a_long_silence);
	TAP_RUN(halves_after_misses);
	TAP_RUN(zero_never_spins);
	return tap_end();
}
