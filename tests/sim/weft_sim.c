/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's program: runs seeds of its worlds, counts, and shrinks failures to short
 * scenarios. TAP output; see docs/testing.md.
 *
 *     weft_sim --seeds N [--seed-base M] [--jobs J] [--world NAME] [--regressions FILE]
 *     weft_sim --seed X [--world NAME]    (TRACE=1 in the environment prints all events)
 *
 * A seed decides everything. The first seed of each world is run twice and must give the same
 * events. One thread; seeds run in children, a single one in this process.
 */
#include "sim_driver.h"

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Shrinks one failure per kind of violation, of the first few kinds. */
#define SHRINKS_MAX 5

const struct sim_world_kind *sim_worlds[SIM_WORLDS_MAX + 1] = {
	&sim_world_target,
	&sim_world_mpath,
	&sim_world_cluster,
	&sim_world_format,
};

/* Not seed % count: worlds use seed % 4, % 8 and so on for their choices, and each world must get
 * all kinds of seeds. The upper bits of the product are distributed evenly over every such part. */
static const struct sim_world_kind *world_of_seed(const struct sim_driver *driver, uint64_t seed)
{
	uint64_t part = seed * 0x9e3779b97f4a7c15ull >> 32;
	unsigned count = 0;

	if (driver->world)
		return driver->world;
	while (sim_worlds[count])
		count++;
	return sim_worlds[part * count >> 32];
}

/* ---- many ------------------------------------------------------------------------------------ */

static void failures_shrink(const struct sim_driver *driver, const struct sim_sum *sum,
			    unsigned first)
{
	struct sim_scenario best;
	unsigned shrunk = 0;

	for (unsigned i = first; i < sum->failure_count && shrunk < SHRINKS_MAX; i++) {
		char kind[256], other[256];
		bool is_new = true;

		sim_kind_of(sum->failures[i].what, kind);
		for (unsigned j = first; j < i && is_new; j++) {
			sim_kind_of(sum->failures[j].what, other);
			is_new = strcmp(kind, other) != 0;
		}
		if (!is_new)
			continue;
		shrunk++;
		sim_shrink(driver, &sum->failures[i], &best);
	}
}

static void jobs_run(const struct sim_driver *driver, const struct sim_job *jobs, uint64_t count,
		     struct sim_sum *sum)
{
	unsigned first = sum->failure_count;

	(void)sim_swarm_run(driver, jobs, count, sum);
	if (driver->has_shrink)
		failures_shrink(driver, sum, first);
}

static bool has_failed(const struct sim_sum *sum, const struct sim_job *job)
{
	for (unsigned i = 0; i < sum->failure_count; i++) {
		if (sum->failures[i].job.seed == job->seed &&
		    sum->failures[i].job.world == job->world)
			return true;
	}
	return false;
}

/* A seed must give the same events each time; otherwise no failure could be replayed. */
static unsigned determinism_check(const struct sim_driver *driver, const struct sim_job *jobs,
				  uint64_t count, const struct sim_sum *sum)
{
	struct sim_child_options options = {.cpu_limit_s = 2 * driver->cpu_limit_s,
					    .runs_twice = true};
	bool is_seen[SIM_WORLDS_MAX] = {false};
	unsigned failed = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct sim_scenario scenario = driver->scenario;
		bool *seen = &is_seen[sim_world_index(jobs[i].world)];
		struct sim_verdict verdict;

		if (*seen || has_failed(sum, &jobs[i]))
			continue;
		*seen = true;
		scenario.seed = jobs[i].seed;
		sim_child_run(jobs[i].world, &scenario, &options, &verdict);
		printf("# events of %s seed %" PRIu64 ": %016" PRIx64 "\n", jobs[i].world->name,
		       jobs[i].seed, verdict.hash);
		if (!verdict.is_ok) {
			printf("# %s\n", verdict.what);
			failed++;
		}
	}
	return failed;
}

static unsigned seeds_run(const struct sim_driver *driver, uint64_t base, uint64_t count,
			  struct sim_sum *sum)
{
	struct sim_job *jobs = calloc(count, sizeof(*jobs));
	unsigned failed;

	CHECK(jobs != NULL);
	for (uint64_t i = 0; i < count; i++)
		jobs[i] = (struct sim_job){world_of_seed(driver, base + i), base + i};
	jobs_run(driver, jobs, count, sum);
	failed = sum->failure_count;
	printf("%sok 1 - %" PRIu64 " seeds from %" PRIu64 "\n", failed ? "not " : "", count, base);
	if (determinism_check(driver, jobs, count, sum) > 0) {
		printf("not ok 2 - a seed gives the same events twice\n");
		failed++;
	} else {
		printf("ok 2 - a seed gives the same events twice\n");
	}
	free(jobs);
	return failed;
}

/* ---- regressions ----------------------------------------------------------------------------- */

/* Parses `WORLD SEED`; a # begins a comment. False: the line is empty. */
static bool regression_parse(char *line, struct sim_job *ret_job)
{
	char *name, *number, *rest, *end;

	line[strcspn(line, "#\n")] = 0;
	name = strtok_r(line, " \t", &rest);
	if (!name)
		return false;
	number = strtok_r(NULL, " \t", &rest);
	ret_job->world = sim_world_find(name);
	ret_job->seed = number ? strtoull(number, &end, 10) : 0;
	if (!ret_job->world || !number || *end != 0) {
		fprintf(stderr, "weft_sim: a line of regressions is not `WORLD SEED`: %s\n", name);
		exit(2);
	}
	return true;
}

static unsigned regressions_run(const struct sim_driver *driver, const char *path,
				struct sim_sum *sum)
{
	FILE *file = fopen(path, "re");
	struct sim_job *jobs = NULL;
	unsigned failed_before = sum->failure_count;
	uint64_t count = 0;
	char line[512];

	if (!file) {
		printf("not ok 3 - cannot open %s\n", path);
		return 1;
	}
	while (fgets(line, sizeof(line), file)) {
		struct sim_job job;

		if (!regression_parse(line, &job) || (driver->world && job.world != driver->world))
			continue;
		jobs = realloc(jobs, (count + 1) * sizeof(*jobs));
		CHECK(jobs != NULL);
		jobs[count++] = job;
	}
	fclose(file);
	if (count > 0)
		jobs_run(driver, jobs, count, sum);
	free(jobs);
	printf("%sok 3 - %" PRIu64 " seeds that found something once\n",
	       sum->failure_count > failed_before ? "not " : "", count);
	return sum->failure_count - failed_before;
}

/* ---- one ------------------------------------------------------------------------------------- */

static char crash_words[SIM_TEXT_BYTES];

/* The process is about to die, so stdio is not used. */
static void say_crash(void)
{
	if (write(STDOUT_FILENO, crash_words, strlen(crash_words)) < 0)
		_exit(1);
}

static void on_abort(int number)
{
	say_crash();
}

extern void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void crash_handler_set(void)
{
	struct sigaction action = {.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGABRT, &action, NULL);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(say_crash);
	else
		sigaction(SIGSEGV, &action, NULL);
}

/* Runs in this process, so that a debugger sees it. */
static int one_run(const struct sim_driver *driver)
{
	const struct sim_world_kind *world = world_of_seed(driver, driver->scenario.seed);
	static struct sim_sum sum;
	struct sim_totals *totals = &sum.totals[sim_world_index(world)];
	struct sim_verdict verdict = {0};
	char text[SIM_TEXT_BYTES];

	sim_replay_format(world, &driver->scenario, text);
	snprintf(crash_words, sizeof(crash_words), "# crashed\n# replay: %.900s\n", text);
	crash_handler_set();
	world->run(&driver->scenario, &totals->counters, &verdict);
	fflush(stderr);
	if (!verdict.is_ok)
		printf("# %s seed %" PRIu64 ": %s (at %.6f s)\n# replay: %s\n", world->name,
		       driver->scenario.seed, verdict.what, (double)verdict.simulated_ns / 1e9,
		       text);
	printf("# events: %016" PRIx64 "\n%sok 1 - seed %" PRIu64 ", world %s\n1..1\n",
	       verdict.hash, verdict.is_ok ? "" : "not ", driver->scenario.seed, world->name);
	printf("# features that were on:\n");
	sim_features_print(world, verdict.features_on);
	sim_totals_add(totals, &verdict);
	sim_sum_print(&sum, driver->lists_missing);
	return !verdict.is_ok;
}

/* ---- options --------------------------------------------------------------------------------- */

static int usage(FILE *out)
{
	fprintf(out,
		"usage: weft_sim --seeds N [--seed-base M] [--jobs J] [--regressions FILE]\n"
		"                [--no-shrink] [--stop-at-first] [--trace-dir DIR] "
		"[--list-missing]\n"
		"       weft_sim --seed X\n"
		"both: [--world NAME] [--without FEATURE,...] [--commands N] [--events-max N]\n"
		"      [--skip EVENT,...]\nworlds:");
	for (unsigned i = 0; sim_worlds[i]; i++)
		fprintf(out, " %s", sim_worlds[i]->name);
	fputc('\n', out);
	return 2;
}

static void help(void)
{
	usage(stdout);
	puts("\nSimulated runs, each of which follows from its seed; see docs/testing.md.\n"
	     "  --seeds N          N seeds from M on (1), in J processes; failing ones are shrunk\n"
	     "  --seed X           one seed, in this process: for gdb, and TRACE=1 (to stderr)\n"
	     "  --world NAME       this world (default: chosen by the seed)\n"
	     "  --regressions FILE also the seeds in FILE, lines of WORLD SEED # comment\n"
	     "  --no-shrink        report a failing seed without shrinking\n"
	     "  --stop-at-first    stop after the first failing seed\n"
	     "  --trace-dir DIR    write the trace of each shrunk scenario to a file in DIR\n"
	     "  --list-missing     list statuses that no command had, and features never on\n"
	     "  --without, --commands, --events-max, --skip: what shrinking has removed");
	exit(0);
}

static uint64_t number_of(const char *text)
{
	uint64_t value;

	if (text_parse_u64(text, UINT64_MAX, &value) != 0)
		exit(usage(stderr));
	return value;
}

static void skip_parse(struct sim_scenario *scenario, char *numbers)
{
	char *rest;

	for (char *one = strtok_r(numbers, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		uint64_t event = number_of(one);

		if (event >= SIM_EVENTS_MAX)
			exit(usage(stderr));
		scenario->events_off[event / 64] |= 1ull << event % 64;
	}
}

struct asked {
	struct sim_driver driver;
	uint64_t count;
	uint64_t base;
	bool has_seed;
	const char *regressions;
};

static const struct option options[] = {
	{"seeds", required_argument, NULL, 'n'},
	{"seed-base", required_argument, NULL, 'b'},
	{"seed", required_argument, NULL, 's'},
	{"jobs", required_argument, NULL, 'j'},
	{"world", required_argument, NULL, 'w'},
	{"regressions", required_argument, NULL, 'r'},
	{"without", required_argument, NULL, 'o'},
	{"commands", required_argument, NULL, 'c'},
	{"events-max", required_argument, NULL, 'e'},
	{"skip", required_argument, NULL, 'k'},
	{"trace-dir", required_argument, NULL, 't'},
	{"no-shrink", no_argument, NULL, 'N'},
	{"stop-at-first", no_argument, NULL, 'S'},
	{"list-missing", no_argument, NULL, 'M'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static bool scenario_option(struct sim_scenario *scenario, int option, char *value)
{
	if (option == 'c')
		scenario->commands_max = number_of(value);
	else if (option == 'e')
		scenario->events_max = number_of(value);
	else if (option == 'k')
		skip_parse(scenario, value);
	else
		return false;
	return true;
}

static bool driver_option(struct sim_driver *driver, int option, char *value)
{
	if (option == 'j')
		driver->jobs = (unsigned)number_of(value);
	else if (option == 'w')
		driver->world = sim_world_find(value);
	else if (option == 'o')
		driver->without = value;
	else if (option == 't')
		driver->trace_dir = value;
	else if (option == 'N')
		driver->has_shrink = false;
	else if (option == 'S')
		driver->stops_at_first = true;
	else if (option == 'M')
		driver->lists_missing = true;
	else
		return false;
	return option != 'w' || driver->world;
}

static bool options_parse(struct asked *asked, int argc, char **argv)
{
	struct sim_driver *driver = &asked->driver;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's') {
			driver->scenario.seed = number_of(optarg);
			asked->has_seed = true;
		} else if (option == 'n') {
			asked->count = number_of(optarg);
		} else if (option == 'b') {
			asked->base = number_of(optarg);
		} else if (option == 'r') {
			asked->regressions = optarg;
		} else if (option == 'h') {
			help();
		} else if (!scenario_option(&driver->scenario, option, optarg) &&
			   !driver_option(driver, option, optarg)) {
			return false;
		}
	}
	if (asked->has_seed)
		driver->world = world_of_seed(driver, driver->scenario.seed);
	if (driver->without &&
	    (!driver->world || sim_features_parse(driver->world, driver->without,
						  &driver->scenario.features_off) != 0)) {
		fprintf(stderr, "weft_sim: no world has all these features\n");
		return false;
	}
	return optind == argc && driver->jobs > 0 && (asked->has_seed || asked->count > 0);
}

int main(int argc, char **argv)
{
	struct asked asked = {
		.driver = {.jobs = 1, .has_shrink = true, .cpu_limit_s = SIM_CPU_LIMIT_S},
		.base = 1};
	static struct sim_sum sum;
	const char *trace = getenv("TRACE");
	unsigned failed;

	/* Media faults are intended, so even errors are not logged. */
	log_set_level(trace && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	if (!options_parse(&asked, argc, argv))
		return usage(stderr);
	if (asked.has_seed)
		return one_run(&asked.driver);
	printf("1..%u\n", asked.regressions ? 3 : 2);
	failed = seeds_run(&asked.driver, asked.base, asked.count, &sum);
	if (asked.regressions)
		failed += regressions_run(&asked.driver, asked.regressions, &sum);
	sim_sum_print(&sum, asked.driver.lists_missing);
	free(sum.failures);
	return failed > 0;
}
