/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of spin-then-sleep. See spin_policy.h for the rule.
 *
 * Runs on the reactor's thread. A gap enters the average clipped to eight times the configured
 * maximum, so that one quiet hour is forgotten after a dozen events and not after thousands.
 */
#include "reactor/spin_policy.h"

void spin_policy_init(struct spin_policy *policy, uint64_t max_ns)
{
	*policy = (struct spin_policy){
		.max_ns = max_ns, .limit_ns = max_ns, .gap_average_ns = max_ns};
}

uint64_t spin_policy_window_ns(struct spin_policy *policy, unsigned scale)
{
	uint64_t window_ns;

	if (policy->max_ns == 0)
		return 0;
	policy->limit_ns = policy->max_ns * (scale < SPIN_SCALE_MAX ? scale : SPIN_SCALE_MAX);
	if (policy->gap_average_ns > policy->limit_ns) {
		if (++policy->sleeps < SPIN_PROBE_EVERY)
			return 0;
		policy->sleeps = 0;
		return policy->limit_ns;
	}
	window_ns = 2 * policy->gap_average_ns;
	if (window_ns < SPIN_FLOOR_NS)
		window_ns = SPIN_FLOOR_NS;
	if (window_ns > policy->limit_ns)
		window_ns = policy->limit_ns;
	return window_ns >> policy->halvings;
}

void spin_policy_note_gap(struct spin_policy *policy, uint64_t gap_ns, bool is_hit)
{
	uint64_t clip_ns = 8 * policy->max_ns;

	if (gap_ns > clip_ns)
		gap_ns = clip_ns;
	if (is_hit && policy->gap_average_ns > policy->limit_ns)
		policy->gap_average_ns = gap_ns;
	else
		policy->gap_average_ns = (7 * policy->gap_average_ns + gap_ns) / 8;
	if (is_hit) {
		policy->misses = 0;
		policy->halvings = 0;
	}
}

void spin_policy_note_miss(struct spin_policy *policy)
{
	if (++policy->misses < SPIN_MISSES_LIMIT)
		return;
	policy->misses = 0;
	/* The smallest window is below a microsecond: it costs nothing, and a hit restores the full
	 * window. */
	if (policy->halvings < 6)
		policy->halvings++;
}
