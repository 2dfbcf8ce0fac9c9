/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threshold and the bound of hedged reads; see hedge.h. Runs on the reactor of its mpath: a few
 * instructions for each read, and a walk over the histogram once in HEDGE_EVERY reads.
 */
#include "host/hedge.h"

#include "base/check.h"

#include <string.h>

/* The counts of the histogram are halved after this many reads, or after this time. */
#define HEDGE_COUNT_MAX 16384
#define HEDGE_HALVE_NS  10000000000ull
/* The threshold is computed again after this many reads. */
#define HEDGE_EVERY 64
/* A percentile is trusted when at least this many reads lie above it. */
#define HEDGE_ABOVE_MIN 2
/* Twins that a full bucket allows in a row, when a path stalls with many reads in flight. Equals
 * the reads of about twenty milliseconds at 10,000 reads per second. */
#define HEDGE_BURST  256
#define HEDGE_TOKENS 100 /* cost of one twin */

#define HEDGE_STEPS (1u << HEDGE_STEP_BITS)

static unsigned hedge_bucket_of(uint64_t ns)
{
	unsigned shift, bucket;

	if (ns < HEDGE_STEPS)
		return (unsigned)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - HEDGE_STEP_BITS;
	bucket = (shift + 1) * HEDGE_STEPS + (unsigned)(ns >> shift & (HEDGE_STEPS - 1));
	return bucket < HEDGE_BUCKETS ? bucket : HEDGE_BUCKETS - 1;
}

/* The smallest value above the bucket. */
static uint64_t hedge_bucket_end_ns(unsigned bucket)
{
	unsigned shift;

	if (bucket < HEDGE_STEPS)
		return bucket + 1;
	shift = bucket / HEDGE_STEPS - 1;
	return (uint64_t)(HEDGE_STEPS + bucket % HEDGE_STEPS + 1) << shift;
}

void hedge_gauge_init(struct hedge_gauge *gauge, uint32_t percentile, uint32_t min_us,
		      uint32_t extra_percent)
{
	CHECK(percentile > 0 && percentile < 10000);
	*gauge = (struct hedge_gauge){
		.percentile = percentile,
		.extra_percent = extra_percent == 0    ? 5
				 : extra_percent > 100 ? 100
						       : extra_percent,
		.min_ns = (uint64_t)min_us * 1000,
		.threshold_ns = HEDGE_NEVER,
	};
}

static void hedge_gauge_halve(struct hedge_gauge *gauge)
{
	gauge->count = 0;
	for (unsigned i = 0; i < HEDGE_BUCKETS; i++) {
		gauge->counts[i] /= 2;
		gauge->count += gauge->counts[i];
	}
}

/* The time counts only while enough reads would remain: a user that reads seldom would otherwise
 * never have a percentile. */
static bool hedge_gauge_is_old(const struct hedge_gauge *gauge, uint64_t now_ns)
{
	return now_ns > gauge->halved_ns && now_ns - gauge->halved_ns > HEDGE_HALVE_NS &&
	       (uint64_t)gauge->count * (10000 - gauge->percentile) / 10000 >= 4 * HEDGE_ABOVE_MIN;
}

static void hedge_gauge_compute(struct hedge_gauge *gauge)
{
	uint64_t above = (uint64_t)gauge->count * (10000 - gauge->percentile) / 10000;
	uint64_t seen = 0;
	unsigned bucket = HEDGE_BUCKETS;

	if (above < HEDGE_ABOVE_MIN) {
		gauge->threshold_ns = HEDGE_NEVER;
		return;
	}
	/* Start at the top: few buckets are above the percentile. */
	while (bucket > 0 && seen + gauge->counts[bucket - 1] <= above)
		seen += gauge->counts[--bucket];
	gauge->threshold_ns = hedge_bucket_end_ns(bucket > 0 ? bucket - 1 : 0);
	if (gauge->threshold_ns < gauge->min_ns)
		gauge->threshold_ns = gauge->min_ns;
}

void hedge_gauge_add(struct hedge_gauge *gauge, uint64_t took_ns, uint64_t now_ns)
{
	gauge->counts[hedge_bucket_of(took_ns)]++;
	gauge->count++;
	gauge->tokens += gauge->extra_percent;
	if (gauge->tokens > HEDGE_BURST * HEDGE_TOKENS)
		gauge->tokens = HEDGE_BURST * HEDGE_TOKENS;
	if (gauge->halved_ns == 0)
		gauge->halved_ns = now_ns;
	if (gauge->count >= HEDGE_COUNT_MAX || hedge_gauge_is_old(gauge, now_ns)) {
		hedge_gauge_halve(gauge);
		gauge->halved_ns = now_ns;
	}
	if (++gauge->unseen >= HEDGE_EVERY) {
		gauge->unseen = 0;
		hedge_gauge_compute(gauge);
	}
}

bool hedge_gauge_take(struct hedge_gauge *gauge)
{
	if (gauge->tokens < HEDGE_TOKENS)
		return false;
	gauge->tokens -= HEDGE_TOKENS;
	return true;
}

void hedge_gauge_give_back(struct hedge_gauge *gauge)
{
	gauge->tokens += HEDGE_TOKENS;
}
