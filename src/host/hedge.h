/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a read is late enough to be sent on a second path too, and how many such reads are allowed.
 * Pure: sees only durations and the time. The twins themselves are in mpath_hedge.c.
 *
 * The threshold is a percentile of recent reads, from a histogram of a small fixed size (eight
 * steps for each power of two). Its counts are halved after a number of reads or a time, so that
 * old reads are forgotten. The bound on extra reads is a token bucket: each read adds extra_percent
 * hundredths of a token, each twin takes one token, and a full bucket allows a burst.
 */
#ifndef WEFT_HOST_HEDGE_H
#define WEFT_HOST_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

#define HEDGE_STEP_BITS 3
#define HEDGE_GROUPS    40 /* up to 2^42 ns, over an hour */
#define HEDGE_BUCKETS   (HEDGE_GROUPS << HEDGE_STEP_BITS)

#define HEDGE_NEVER UINT64_MAX

struct hedge_gauge {
	uint32_t percentile;    /* hundredths of a percent */
	uint32_t extra_percent; /* most extra reads, in percent of reads */
	uint64_t min_ns;
	uint64_t threshold_ns; /* HEDGE_NEVER: too few reads are known */
	uint64_t halved_ns;    /* when the counts were last halved */
	uint32_t count;        /* the sum of counts */
	uint32_t unseen;       /* reads since the threshold was computed */
	uint32_t tokens;       /* in hundredths of a read */
	uint32_t counts[HEDGE_BUCKETS];
};

/* percentile: 1 to 9999; min_us may be 0; extra_percent: 5 when 0, 100 at most. */
void hedge_gauge_init(struct hedge_gauge *gauge, uint32_t percentile, uint32_t min_us,
		      uint32_t extra_percent);
/* A read was answered after took_ns. Call once for each read. */
void hedge_gauge_add(struct hedge_gauge *gauge, uint64_t took_ns, uint64_t now_ns);
/* The age at which a read gets a twin. HEDGE_NEVER: no read does. */
static inline uint64_t hedge_gauge_threshold_ns(const struct hedge_gauge *gauge)
{
	return gauge->threshold_ns;
}
/* Takes the token for one twin. False: the bound is reached. */
bool hedge_gauge_take(struct hedge_gauge *gauge);
/* Returns the token of a twin that was not sent. */
void hedge_gauge_give_back(struct hedge_gauge *gauge);

#endif
