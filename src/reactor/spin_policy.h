/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long an idle reactor watches its queues before it sleeps.
 *
 * A wake-up costs 20 us and more, a spin costs CPU: spinning pays when the next event usually
 * comes within the window. The policy keeps a moving average of the idle gap (last work to next
 * event): no spin when the average is over the limit, else twice the average, at least 5 us; eight
 * spins in a row that end in sleep halve it until one succeeds.
 *
 * A gap that ends in a wake-up is measured too long by that wake-up, so a reactor that has begun to
 * sleep could find reasons to go on sleeping for ever. Every 32nd idle stretch therefore spins all
 * the same, up to the limit; if the event comes, that gap is the true one and replaces the average.
 *
 * The limit is given for each stretch: a wake-up delays all that is under way, so the more that is,
 * the longer a spin is worth its CPU. Pure; units are nanoseconds.
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
	unsigned misses; /* in a row, since the window was last halved */
	unsigned halvings;
	unsigned sleeps; /* idle stretches without a spin since the last probe */
};

void spin_policy_init(struct spin_policy *policy, uint64_t max_ns);
/* Asked once for each idle stretch. scale: 1 to SPIN_SCALE_MAX times the limit of init. */
uint64_t spin_policy_window_ns(struct spin_policy *policy, unsigned scale);
/* An idle stretch ended after gap_ns; is_hit: while spinning, not by waking from sleep. */
void spin_policy_note_gap(struct spin_policy *policy, uint64_t gap_ns, bool is_hit);
/* A spin ended in sleep. */
void spin_policy_note_miss(struct spin_policy *policy);

#endif
