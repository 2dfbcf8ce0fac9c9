/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's program: runs seeds, counts, and says how to replay what went wrong. TAP.
 *
 *     weft_sim --seeds N [--seed-base M] [--regressions FILE]
 *     weft_sim --seed X        (TRACE=1 in the environment tells all)
 *
 * A seed decides everything; the first seed is run twice and must give the same events.
 */
#include "sim_mpath.h"
#include "sim_world.h"

#include "base/log.h"
#include "base/text.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile uint64_t seed_now;

/* What went wrong ends the process before anything can be printed the usual way. */
static void say_seed(void)
{
	char text[128];
	int length = snprintf(text, sizeof(text),
			      "# seed %llu: crashed\n# replay: make sim SEED=%llu TRACE=1\n",
			      (unsigned long long)seed_now, (unsigned long long)seed_now);

	if (write(STDOUT_FILENO, text, (size_t)length) < 0)
		_exit(1);
}

static void on_abort(int number)
{
	say_seed();
}

extern void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void crash_handler_set(void)
{
	struct sigaction action = {.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGABRT, &action, NULL);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(say_seed);
	else
		sigaction(SIGSEGV, &action, NULL);
}

static bool is_mpath; /* the worlds of sim_mpath.c instead */
static struct mpath_run_stats mpath_stats;

static bool seed_run(uint64_t seed, struct world_stats *stats, uint64_t *ret_hash)
{
	seed_now = seed;
	if (is_mpath)
		return mpath_run(seed, &mpath_stats, ret_hash);
	return world_run(seed, stats, ret_hash);
}

static void stats_print(const struct world_stats *stats)
{
	if (is_mpath) {
		mpath_run_print(&mpath_stats);
		return;
	}
	printf("# %" PRIu64 " commands, %" PRIu64 " blocks checked, %" PRIu64 " aborts (%" PRIu64
	       " aborted), %" PRIu64 " keep alive expiries\n",
	       stats->commands, stats->blocks_checked, stats->aborts, stats->aborted,
	       stats->keep_alive_expiries);
	printf("# %" PRIu64 " connects, %" PRIu64 " refused or failed, %" PRIu64 " lost, %" PRIu64
	       " host crashes, %" PRIu64 " cut, %" PRIu64 " partitions\n",
	       stats->connects, stats->connect_failures, stats->losses, stats->crashes, stats->cuts,
	       stats->partitions);
	printf("# %" PRIu64 " configuration changes, %" PRIu64 " restarts, %" PRIu64
	       " losses of a cache\n",
	       stats->swaps, stats->restarts, stats->power_losses);
	printf("# %" PRIu64 " live changes, %" PRIu64 " of reservations, %" PRIu64
	       " held again, %" PRIu64 " shut out, %" PRIu64 " copies, %" PRIu64
	       " times the store was full\n",
	       stats->changes, stats->reservations, stats->recalled, stats->preempted,
	       stats->copies, stats->keep_failures);
	printf("# %" PRIu64 " resets of lost controllers, %" PRIu64 " with commands about\n",
	       stats->resets, stats->resets_fence);
	for (unsigned i = 0; i < WORLD_STATUS_MAX; i++) {
		if (stats->statuses[i] > 0)
			printf("#   %8" PRIu64 " %s\n", stats->statuses[i],
			       nvme_status_name((nvme_status){(uint16_t)i}));
	}
}

static unsigned seeds_run(uint64_t base, uint64_t count, struct world_stats *stats)
{
	unsigned failed = 0;
	uint64_t hash;

	for (uint64_t i = 0; i < count; i++) {
		failed += !seed_run(base + i, stats, &hash);
		if ((i + 1) % 50 == 0) {
			printf("# %" PRIu64 " of %" PRIu64 " seeds, %u failed\n", i + 1, count,
			       failed);
			fflush(stdout);
		}
	}
	printf("%sok 1 - %" PRIu64 " seeds from %" PRIu64 "\n", failed ? "not " : "", count, base);
	return failed;
}

/* The same seed gives the same events, or no failure could be replayed. */
static unsigned check_determinism(uint64_t seed)
{
	struct world_stats stats = {0};
	uint64_t first, second;
	bool is_same;

	(void)seed_run(seed, &stats, &first);
	(void)seed_run(seed, &stats, &second);
	is_same = first == second;
	printf("# events of seed %" PRIu64 ": %016" PRIx64 "\n", seed, first);
	printf("%sok 2 - a seed gives the same events twice\n", is_same ? "" : "not ");
	return !is_same;
}

/* One seed per line; text behind a # says what it found. */
static unsigned regressions_run(const char *path, struct world_stats *stats)
{
	FILE *file = fopen(path, "re");
	unsigned failed = 0, count = 0;
	char line[256];
	uint64_t hash;

	if (!file) {
		printf("not ok 3 - cannot open %s\n", path);
		return 1;
	}
	while (fgets(line, sizeof(line), file)) {
		char *end;
		uint64_t seed = strtoull(line, &end, 10);

		if (end == line)
			continue;
		count++;
		failed += !seed_run(seed, stats, &hash);
	}
	fclose(file);
	printf("%sok 3 - %u seeds that found something once\n", failed ? "not " : "", count);
	return failed;
}

static int usage(void)
{
	fprintf(stderr, "usage: weft_sim [--mpath] --seeds N [--seed-base M] [--regressions FILE]\n"
			"       weft_sim [--mpath] --seed X\n");
	return 2;
}

static uint64_t number_of(const char *text)
{
	uint64_t value;

	if (text_parse_u64(text, UINT64_MAX, &value) != 0)
		exit(usage());
	return value;
}

static int one_run(uint64_t seed, struct world_stats *stats)
{
	uint64_t hash;
	bool is_ok = seed_run(seed, stats, &hash);

	printf("# events: %016" PRIx64 "\n%sok 1 - seed %" PRIu64 "\n1..1\n", hash,
	       is_ok ? "" : "not ", seed);
	stats_print(stats);
	return !is_ok;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
						{"seed-base", required_argument, NULL, 'b'},
						{"seed", required_argument, NULL, 's'},
						{"regressions", required_argument, NULL, 'r'},
						{"mpath", no_argument, NULL, 'm'},
						{0}};
	static struct world_stats stats;
	uint64_t count = 0, base = 1;
	const char *regressions = NULL;
	const char *trace = getenv("TRACE");
	unsigned failed;
	int option;

	crash_handler_set();
	/* Faults of media are the plan: not even errors are news. */
	log_set_level(trace && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's')
			return one_run(number_of(optarg), &stats);
		else if (option == 'n')
			count = number_of(optarg);
		else if (option == 'b')
			base = number_of(optarg);
		else if (option == 'r')
			regressions = optarg;
		else if (option == 'm')
			is_mpath = true;
		else
			return usage();
	}
	if (count == 0 || optind != argc)
		return usage();
	printf("1..%u\n", regressions ? 3 : 2);
	failed = seeds_run(base, count, &stats);
	failed += check_determinism(base);
	if (regressions)
		failed += regressions_run(regressions, &stats);
	stats_print(&stats);
	return failed > 0;
}
