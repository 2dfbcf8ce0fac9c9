/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear histogram of durations: 64 steps per power of two, error below 1.6 %, fixed memory.
 * One writer; histograms of several writers are merged when read.
 */
#ifndef WEFT_BASE_HISTOGRAM_H
#define WEFT_BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEP_BITS 6
#define HISTOGRAM_GROUPS    40
#define HISTOGRAM_BUCKETS   (HISTOGRAM_GROUPS << HISTOGRAM_STEP_BITS)

struct histogram {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_init(struct histogram *histogram);
void histogram_record(struct histogram *histogram, uint64_t value_ns);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The value below which `percent` (0 to 100) of the samples lie; 0 when there are none. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);
uint64_t histogram_mean(const struct histogram *histogram);

#endif
