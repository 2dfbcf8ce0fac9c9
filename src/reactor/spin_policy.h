/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long an idle reactor spins before it sleeps. A wake-up costs 20 us and more, a spin costs
 * CPU: spinning pays when the next event usually comes within the window. The policy averages the
 * idle gap (last work to next event): no spin when the average exceeds the limit, otherwise twice
 * the average, at least 5 us. Eight spins in a row that end in sleep halve the window until one
 * succeeds.
 *
 * A wake-up lengthens the gap that it ends, so a sleeping reactor could measure reasons to sleep
 * forever. Every 32nd idle stretch therefore spins up to the limit. If the event comes during this
 * spin, the gap is exact and replaces the average.
 *
 * The limit is set for each stretch: a wake-up delays all operations in flight, so more of them
 * justify a longer spin. Pure; units are nanoseconds.
 */
#ifndef WEFT_REACTOR_SPIN_POLICY_H
#define WEFT_REACTOR_SPIN_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_FLOOR_NS     5000u
#define SPIN_MISSES_LIMIT 8u
#define SPIN_PROBE_EVERY  32u
#define SPIN_SCALE_MAX    4u

struct spin_policy {
	uint64_t max_ns;
	uint64_t limit_ns; /* of this idle stretch */
	uint64_t gap_average_ns;
	unsigned misses; /* in a row since a hit or the last halving */
	unsigned halvings;
	unsigned sleeps; /* idle stretches without a spin since the last probe */
};

void spin_policy_init(struct spin_policy *policy, uint64_t max_ns);
/* Call once for each idle stretch. The limit is the max_ns of init times `scale`, which is from 1
 * to SPIN_SCALE_MAX. */
uint64_t spin_policy_window_ns(struct spin_policy *policy, unsigned scale);
/* Reports that an idle stretch ended after gap_ns. is_hit: the event came while spinning, not in
 * sleep. */
void spin_policy_note_gap(struct spin_policy *policy, uint64_t gap_ns, bool is_hit);
/* Reports that a spin ended in sleep. */
void spin_policy_note_miss(struct spin_policy *policy);

#endif
