/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear buckets: the first 64 hold one value each; every later group of 64 covers one power of
 * two. The last bucket counts all values from 2^45 ns (about ten hours) up.
 *
 * The one writer records without a lock. min, max and mean are exact. Percentiles are the upper
 * edge of their bucket, so at most 1.6 % too high.
 */
#include "base/histogram.h"

#include <string.h>

#define HISTOGRAM_STEPS (1u << HISTOGRAM_STEP_BITS)

void histogram_init(struct histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->min_ns = UINT64_MAX;
}

static unsigned histogram_bucket_of(uint64_t value_ns)
{
	unsigned shift, bucket;

	if (value_ns < HISTOGRAM_STEPS)
		return (unsigned)value_ns;
	shift = 63 - (unsigned)__builtin_clzll(value_ns) - HISTOGRAM_STEP_BITS;
	bucket = (shift + 1) << HISTOGRAM_STEP_BITS |
		 (unsigned)(value_ns >> shift & (HISTOGRAM_STEPS - 1));
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The largest value that falls into the bucket. */
static uint64_t histogram_bucket_top(unsigned bucket)
{
	unsigned group = bucket >> HISTOGRAM_STEP_BITS;
	uint64_t step = bucket & (HISTOGRAM_STEPS - 1);

	if (group == 0)
		return step;
	return ((HISTOGRAM_STEPS + step + 1) << (group - 1)) - 1;
}

void histogram_record(struct histogram *histogram, uint64_t value_ns)
{
	histogram->count++;
	histogram->sum_ns += value_ns;
	if (value_ns < histogram->min_ns)
		histogram->min_ns = value_ns;
	if (value_ns > histogram->max_ns)
		histogram->max_ns = value_ns;
	histogram->buckets[histogram_bucket_of(value_ns)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	if (from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
	double share = percent < 0 ? 0 : percent > 100 ? 100 : percent;
	uint64_t rank, seen = 0;

	if (histogram->count == 0)
		return 0;
	/* The rank of the sample asked for, rounded up, from 1 to count. */
	rank = (uint64_t)(share / 100 * (double)histogram->count);
	if ((double)rank < share / 100 * (double)histogram->count || rank == 0)
		rank++;
	if (rank >= histogram->count)
		return histogram->max_ns;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		uint64_t top;

		seen += histogram->buckets[i];
		if (seen < rank)
			continue;
		top = histogram_bucket_top(i);
		return top < histogram->max_ns ? top : histogram->max_ns;
	}
	return histogram->max_ns;
}

uint64_t histogram_mean(const struct histogram *histogram)
{
	return histogram->count == 0 ? 0 : histogram->sum_ns / histogram->count;
}
