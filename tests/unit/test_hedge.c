/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hedged reads: the threshold follows the percentile, the bound on extra reads holds, and in a
 * model of two paths, one of which stalls 1 % of the time for 20 ms, p99.9 drops to a fifth or
 * less.
 *
 * The model: reads arrive at a fixed rate and alternate between the paths; each takes 80 to 120 us;
 * a stalled path answers when its stall ends. A read older than the threshold gets a twin on the
 * other path. The first answer counts.
 */
#include "base/histogram.h"
#include "base/prng.h"
#include "host/hedge.h"
#include "tap.h"

#define MS_NS 1000000ull

static struct hedge_gauge gauge;

static void nothing_is_hedged_before_enough_is_known(void)
{
	hedge_gauge_init(&gauge, 9900, 0, 0);
	EXPECT(hedge_gauge_threshold_ns(&gauge) == HEDGE_NEVER);
	for (unsigned i = 0; i < 199; i++)
		hedge_gauge_add(&gauge, 100000, i * 1000);
	EXPECT(hedge_gauge_threshold_ns(&gauge) == HEDGE_NEVER);
	for (unsigned i = 199; i < 300; i++)
		hedge_gauge_add(&gauge, 100000, i * 1000);
	EXPECT(hedge_gauge_threshold_ns(&gauge) != HEDGE_NEVER);
}

/* Reads of 1 to 1000 us, equally often, so that every percentile is known. */
static void threshold_is_the_percentile(void)
{
	static const struct {
		uint32_t percentile;
		uint64_t want_us;
	} cases[] = {{5000, 500}, {9000, 900}, {9900, 990}, {9990, 999}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t threshold_us;

		hedge_gauge_init(&gauge, cases[i].percentile, 0, 5);
		for (unsigned n = 0; n < 8000; n++)
			hedge_gauge_add(&gauge, (1 + n * 7919ull % 1000) * 1000, n);
		threshold_us = hedge_gauge_threshold_ns(&gauge) / 1000;
		/* A step of the histogram is an eighth. The threshold is never too early. */
		EXPECT(threshold_us >= cases[i].want_us);
		EXPECT(threshold_us <= cases[i].want_us * 9 / 8 + 1);
	}
}

static void threshold_is_never_below_the_least(void)
{
	hedge_gauge_init(&gauge, 5000, 2000, 5);
	for (unsigned n = 0; n < 1000; n++)
		hedge_gauge_add(&gauge, 100000, n);
	EXPECT_EQ(2000000, hedge_gauge_threshold_ns(&gauge));
}

static void threshold_follows_what_is_recent(void)
{
	hedge_gauge_init(&gauge, 9900, 0, 5);
	for (unsigned n = 0; n < 100000; n++)
		hedge_gauge_add(&gauge, 100000, n);
	EXPECT(hedge_gauge_threshold_ns(&gauge) < 130000);
	for (unsigned n = 0; n < 2000; n++)
		hedge_gauge_add(&gauge, 1000000, n);
	EXPECT(hedge_gauge_threshold_ns(&gauge) >= 1000000);
	/* The gauge forgets former slow reads. */
	for (unsigned n = 0; n < 100000; n++)
		hedge_gauge_add(&gauge, 100000, n);
	EXPECT(hedge_gauge_threshold_ns(&gauge) < 130000);
	/* Also by time, for few reads: a minute at 10 reads a second. */
	for (unsigned n = 0; n < 2000; n++)
		hedge_gauge_add(&gauge, 1000000, n);
	for (unsigned n = 0; n < 600; n++)
		hedge_gauge_add(&gauge, 100000, 1 + n * 100 * MS_NS);
	EXPECT(hedge_gauge_threshold_ns(&gauge) >= 1000000);
	for (unsigned n = 600; n < 2400; n++)
		hedge_gauge_add(&gauge, 100000, 1 + n * 100 * MS_NS);
	EXPECT(hedge_gauge_threshold_ns(&gauge) < 130000);
}

static void odd_durations_do_no_harm(void)
{
	hedge_gauge_init(&gauge, 9900, 0, 5);
	for (unsigned n = 0; n < 1000; n++)
		hedge_gauge_add(&gauge, n % 2 ? 0 : UINT64_MAX, UINT64_MAX - n);
	EXPECT(hedge_gauge_threshold_ns(&gauge) > 3600 * 1000 * MS_NS);
	for (uint64_t value = 1; value < UINT64_MAX / 2; value *= 2) {
		hedge_gauge_init(&gauge, 5000, 0, 5);
		for (unsigned n = 0; n < 64; n++)
			hedge_gauge_add(&gauge, value, n);
		EXPECT(hedge_gauge_threshold_ns(&gauge) > value || value >= 1ull << 42);
		EXPECT(hedge_gauge_threshold_ns(&gauge) <= value + value / 8 + 1);
	}
}

static void extra_reads_are_bounded(void)
{
	static const uint32_t percents[] = {0, 1, 5, 50, 100, 1000};

	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
		uint32_t percent = percents[i] == 0 ? 5 : percents[i] > 100 ? 100 : percents[i];
		unsigned taken = 0;

		hedge_gauge_init(&gauge, 9900, 0, percents[i]);
		EXPECT(!hedge_gauge_take(&gauge));
		/* Every read asks for a twin. */
		for (unsigned n = 0; n < 10000; n++) {
			hedge_gauge_add(&gauge, 100000, n);
			taken += hedge_gauge_take(&gauge);
		}
		EXPECT_EQ(10000 * percent / 100, taken);
	}
	hedge_gauge_init(&gauge, 9900, 0, 100);
	hedge_gauge_add(&gauge, 1, 1);
	EXPECT(hedge_gauge_take(&gauge));
	EXPECT(!hedge_gauge_take(&gauge));
	hedge_gauge_give_back(&gauge);
	EXPECT(hedge_gauge_take(&gauge));
	/* A pause does not accumulate extra reads. */
	for (unsigned n = 0; n < 100000; n++)
		hedge_gauge_add(&gauge, 100000, n);
	for (unsigned n = 0; n < 256; n++)
		EXPECT(hedge_gauge_take(&gauge));
	EXPECT(!hedge_gauge_take(&gauge));
}

#define MODEL_READS   400000u
#define MODEL_APART   (100 * 1000ull) /* 10,000 per second */
#define STALL_NS      (20 * MS_NS)
#define STALL_EACH_NS (2000 * MS_NS) /* 1 % of the time */
#define MODEL_WAITING 1024

/* Time at which a read that reaches the path at at_ns is answered. */
static uint64_t model_answer_ns(struct prng *prng, unsigned path, uint64_t at_ns)
{
	uint64_t done_ns = at_ns + 80000 + prng_below(prng, 40000);
	uint64_t phase_ns = done_ns % STALL_EACH_NS;

	if (path == 1 && phase_ns < STALL_NS)
		done_ns += STALL_NS - phase_ns;
	return done_ns;
}

struct model_read {
	uint64_t sent_ns;
	uint64_t done_ns;
	bool is_hedged;
};

/* Reads in flight. The engine's timer is replaced by a check at every arrival. */
static unsigned model_run(struct histogram *latencies, bool is_hedging)
{
	static struct model_read reads[MODEL_WAITING];
	unsigned waiting = 0, twins = 0;
	struct prng prng;

	prng_seed(&prng, 5);
	histogram_init(latencies);
	hedge_gauge_init(&gauge, 9900, 0, 5);
	for (uint64_t n = 1; n <= MODEL_READS; n++) {
		uint64_t now_ns = n * MODEL_APART;

		for (unsigned i = 0; i < waiting; i++) {
			struct model_read *read = &reads[i];
			uint64_t due_ns =
				hedge_gauge_threshold_ns(&gauge) == HEDGE_NEVER
					? UINT64_MAX
					: read->sent_ns + hedge_gauge_threshold_ns(&gauge);

			if (is_hedging && !read->is_hedged && due_ns <= now_ns &&
			    read->done_ns > due_ns && hedge_gauge_take(&gauge)) {
				uint64_t twin_ns = model_answer_ns(&prng, 0, due_ns);

				read->is_hedged = true;
				twins++;
				if (twin_ns < read->done_ns)
					read->done_ns = twin_ns;
			}
			if (read->done_ns <= now_ns) {
				histogram_record(latencies, read->done_ns - read->sent_ns);
				hedge_gauge_add(&gauge, read->done_ns - read->sent_ns, now_ns);
				reads[i--] = reads[--waiting];
			}
		}
		if (waiting < MODEL_WAITING)
			reads[waiting++] = (struct model_read){
				.sent_ns = now_ns,
				.done_ns = model_answer_ns(&prng, n % 2, now_ns)};
	}
	return twins;
}

static void tail_falls_by_five_times(void)
{
	static struct histogram latencies;
	uint64_t plain_ns, hedged_ns;
	unsigned twins;

	EXPECT_EQ(0, model_run(&latencies, false));
	plain_ns = histogram_percentile(&latencies, 99.9);
	twins = model_run(&latencies, true);
	hedged_ns = histogram_percentile(&latencies, 99.9);
	printf("# p99.9 %llu us alone, %llu us hedged, %u twins for %u reads\n",
	       (unsigned long long)plain_ns / 1000, (unsigned long long)hedged_ns / 1000, twins,
	       MODEL_READS);
	EXPECT(plain_ns >= 10 * MS_NS);
	EXPECT(hedged_ns * 5 <= plain_ns);
	EXPECT(twins > 0);
	EXPECT(twins <= MODEL_READS / 20);
}

int main(void)
{
	TAP_RUN(nothing_is_hedged_before_enough_is_known);
	TAP_RUN(threshold_is_the_percentile);
	TAP_RUN(threshold_is_never_below_the_least);
	TAP_RUN(threshold_follows_what_is_recent);
	TAP_RUN(odd_durations_do_no_harm);
	TAP_RUN(extra_reads_are_bounded);
	TAP_RUN(tail_falls_by_five_times);
	return tap_end();
}
