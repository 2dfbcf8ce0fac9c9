/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of the simulator, with worlds that fail as configured: what kills a child is a verdict
 * and other seeds still run; a failure is shrunk to its causes; reports name them. One thread in
 * each process.
 */
#include "../unit/tap.h"
#include "sim_driver.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"rain", "wind", "snow", "hail", NULL};

/* Fails with feature "wind", event 7 and at least 20 commands. */
static void picky_run(const struct sim_scenario *scenario, struct sim_counters *counters,
		      struct sim_verdict *verdict)
{
	uint64_t features = 0xf & ~scenario->features_off;
	uint64_t commands = scenario->commands_max > 0 ? scenario->commands_max : 500;

	sim_counter_add(counters, "runs", 1);
	counters->statuses[0x281]++;
	*verdict = (struct sim_verdict){.is_ok = true,
					.hash = scenario->seed,
					.simulated_ns = 1000,
					.features_on = features,
					.commands = commands,
					.events = 40};
	if (!(features >> 1 & 1) || !scenario_has_event(scenario, 7) || commands < 20)
		return;
	verdict->is_ok = false;
	snprintf(verdict->what, sizeof(verdict->what), "block %u is wet",
		 (unsigned)commands + (unsigned)scenario->events_max);
}

/* By seed: 3 aborts, 5 never ends, 7 fails, 9 writes to an invalid address; all others pass. */
static void deadly_run(const struct sim_scenario *scenario, struct sim_counters *counters,
		       struct sim_verdict *verdict)
{
	volatile unsigned turns = 0;

	*verdict = (struct sim_verdict){.is_ok = true, .hash = scenario->seed};
	if (scenario->seed == 3)
		CHECK(scenario->seed == 4);
	while (scenario->seed == 5)
		turns++;
	if (scenario->seed == 7) {
		verdict->is_ok = false;
		snprintf(verdict->what, sizeof(verdict->what), "seven");
	}
	if (scenario->seed == 9)
		exit(4);
}

static void fickle_run(const struct sim_scenario *scenario, struct sim_counters *counters,
		       struct sim_verdict *verdict)
{
	static uint64_t runs;

	*verdict = (struct sim_verdict){.is_ok = true, .hash = scenario->seed + runs++};
}

static const struct sim_world_kind picky = {"picky", names, picky_run};
static const struct sim_world_kind deadly = {"deadly", names, deadly_run};
static const struct sim_world_kind fickle = {"fickle", names, fickle_run};
const struct sim_world_kind *sim_worlds[SIM_WORLDS_MAX + 1] = {&picky, &deadly, &fickle};

static struct sim_driver driver = {.jobs = 2, .cpu_limit_s = 1};

static const char *violation_of(const struct sim_sum *sum, uint64_t seed)
{
	for (unsigned i = 0; i < sum->failure_count; i++) {
		if (sum->failures[i].job.seed == seed)
			return sum->failures[i].what;
	}
	return "it did not fail";
}

static void what_kills_a_child_is_its_seeds_verdict(void)
{
	static struct sim_sum sum;
	struct sim_job jobs[20];

	for (unsigned i = 0; i < 20; i++)
		jobs[i] = (struct sim_job){&deadly, i + 1};
	EXPECT_EQ(20, sim_swarm_run(&driver, jobs, 20, &sum));
	EXPECT_EQ(4, sum.failure_count);
	EXPECT(strstr(violation_of(&sum, 3), "check failed: scenario->seed == 4") != NULL);
	EXPECT(strstr(violation_of(&sum, 5), "does not end") != NULL);
	EXPECT_STR("seven", violation_of(&sum, 7));
	EXPECT(strstr(violation_of(&sum, 9), "status 4") != NULL);
	/* Seeds that died are not counted. */
	EXPECT_EQ(17, sum.totals[1].seeds);
	free(sum.failures);
}

static void the_first_failure_ends_a_swarm_that_is_told_so(void)
{
	static struct sim_sum sum;
	struct sim_driver first = driver;
	struct sim_job jobs[20];

	first.jobs = 1;
	first.stops_at_first = true;
	for (unsigned i = 0; i < 20; i++)
		jobs[i] = (struct sim_job){&deadly, i + 6};
	EXPECT_EQ(2, sim_swarm_run(&first, jobs, 20, &sum));
	EXPECT_EQ(1, sum.failure_count);
	free(sum.failures);
}

static void what_children_count_is_added_up(void)
{
	static struct sim_sum sum;
	struct sim_driver calm = driver;
	struct sim_job jobs[30];

	calm.scenario.features_off = 1 << 1;
	for (unsigned i = 0; i < 30; i++)
		jobs[i] = (struct sim_job){&picky, i};
	EXPECT_EQ(30, sim_swarm_run(&calm, jobs, 30, &sum));
	EXPECT_EQ(0, sum.failure_count);
	EXPECT_EQ(30, sum.totals[0].seeds);
	EXPECT_EQ(30, sum.totals[0].features[0]);
	EXPECT_EQ(0, sum.totals[0].features[1]);
	EXPECT_EQ(30, sum.totals[0].counters.counters[0].value);
	EXPECT_EQ(30, sum.totals[0].counters.statuses[0x281]);
	EXPECT_EQ(30000, sum.totals[0].simulated_ns);
}

static void a_failure_is_shrunk_to_what_it_needs(void)
{
	struct sim_failure failure = {.job = {&picky, 11}, .what = "block 500 is wet"};
	struct sim_scenario best;
	char text[SIM_TEXT_BYTES];

	sim_shrink(&driver, &failure, &best);
	EXPECT_EQ(11, best.seed);
	EXPECT_EQ(0xd, best.features_off);
	EXPECT_EQ(20, best.commands_max);
	EXPECT_EQ(8, best.events_max);
	EXPECT_EQ(0x7f, best.events_off[0]);
	sim_replay_format(&picky, &best, text);
	EXPECT(strcmp(text, "make sim WORLD=picky SEED=11 WITHOUT=rain,snow,hail COMMANDS=20 "
			    "EVENTS=8 SKIP=0,1,2,3,4,5,6 TRACE=1") == 0);
}

static void another_violation_is_not_the_same_failure(void)
{
	struct sim_failure failure = {.job = {&picky, 11}, .what = "block 500 is dry"};
	struct sim_scenario best;

	sim_shrink(&driver, &failure, &best);
	EXPECT_EQ(0, best.features_off);
	EXPECT_EQ(0, best.commands_max);
}

static void a_crash_is_shrunk_as_well(void)
{
	struct sim_failure failure = {.job = {&deadly, 3}};
	static const struct sim_child_options options = {.cpu_limit_s = 1};
	struct sim_scenario best, scenario = {.seed = 3};
	struct sim_verdict verdict;

	sim_child_run(&deadly, &scenario, &options, &verdict);
	EXPECT(!verdict.is_ok);
	snprintf(failure.what, sizeof(failure.what), "%s", verdict.what);
	sim_shrink(&driver, &failure, &best);
	EXPECT_EQ(3, best.seed);
	EXPECT_EQ(0xf, best.features_off);
}

static void a_run_that_differs_the_second_time_is_told(void)
{
	static const struct sim_child_options options = {.cpu_limit_s = 1, .runs_twice = true};
	struct sim_scenario scenario = {.seed = 3};
	struct sim_verdict verdict;

	sim_child_run(&fickle, &scenario, &options, &verdict);
	EXPECT(!verdict.is_ok);
	scenario.features_off = 1 << 1;
	sim_child_run(&picky, &scenario, &options, &verdict);
	EXPECT(verdict.is_ok);
	EXPECT_EQ(3, verdict.hash);
}

static void words_without_their_numbers_are_a_kind(void)
{
	char kind[256];
	uint64_t bits;

	sim_kind_of("ns 12: value 0x1f of block 7 at 1.5 s in ns3", kind);
	EXPECT(strcmp(kind, "ns #: value # of block # at #.# s in ns3") == 0);
	EXPECT_EQ(0, sim_features_parse(&picky, "wind,hail", &bits));
	EXPECT_EQ(0xa, bits);
	EXPECT(sim_features_parse(&picky, "wind,sun", &bits) < 0);
}

int main(void)
{
	TAP_RUN(what_kills_a_child_is_its_seeds_verdict);
	TAP_RUN(the_first_failure_ends_a_swarm_that_is_told_so);
	TAP_RUN(what_children_count_is_added_up);
	TAP_RUN(a_failure_is_shrunk_to_what_it_needs);
	TAP_RUN(another_violation_is_not_the_same_failure);
	TAP_RUN(a_crash_is_shrunk_as_well);
	TAP_RUN(a_run_that_differs_the_second_time_is_told);
	TAP_RUN(words_without_their_numbers_are_a_kind);
	return tap_end();
}
