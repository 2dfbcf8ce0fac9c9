/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a failing seed to a short scenario: switches features off one by one, halves the commands
 * and the events, then leaves single events out, and keeps each scenario that fails in the same
 * way. Each try runs in a child. Ends when nothing can be removed or the time is up. One thread.
 *
 * A scenario with less is not always a part of the former run: a world that draws its numbers in
 * the order of what happens becomes another world. This costs only tries, since every try is run.
 */
#include "sim_driver.h"

#include "base/check.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define SHRINK_MAX_NS (60 * NS_PER_S)
#define TRY_CPU_S     10

struct shrinker {
	const struct sim_world_kind *world;
	struct sim_scenario best;
	struct sim_verdict verdict; /* of the best */
	char kind[256];
	uint64_t deadline_ns;
	unsigned tries;
};

static bool is_late(const struct shrinker *shrinker)
{
	return clock_monotonic_ns() >= shrinker->deadline_ns;
}

/* True: fails like the first failure; the scenario becomes the best. */
static bool still_fails(struct shrinker *shrinker, const struct sim_scenario *scenario)
{
	static const struct sim_child_options options = {.cpu_limit_s = TRY_CPU_S};
	struct sim_verdict verdict;
	char kind[256];

	if (is_late(shrinker))
		return false;
	shrinker->tries++;
	sim_child_run(shrinker->world, scenario, &options, &verdict);
	if (verdict.is_ok)
		return false;
	sim_kind_of(verdict.what, kind);
	if (strcmp(kind, shrinker->kind) != 0)
		return false;
	shrinker->best = *scenario;
	/* The verdict of a run that died has no numbers. */
	if (verdict.features_on != 0 || verdict.events != 0 || verdict.commands != 0)
		shrinker->verdict = verdict;
	return true;
}

static void features_shrink(struct shrinker *shrinker)
{
	bool has_changed = true;

	while (has_changed && !is_late(shrinker)) {
		has_changed = false;
		for (unsigned i = 0; shrinker->world->features[i]; i++) {
			struct sim_scenario scenario = shrinker->best;

			if (scenario.features_off >> i & 1)
				continue;
			scenario.features_off |= 1ull << i;
			/* A feature that is off needs no try. */
			if (!(shrinker->verdict.features_on >> i & 1) &&
			    shrinker->verdict.features_on != 0)
				continue;
			has_changed |= still_fails(shrinker, &scenario);
		}
	}
}

/* Halves the number as long as the run still fails. */
static void figure_shrink(struct shrinker *shrinker, size_t member_offset, uint64_t most)
{
	uint64_t low = 0, high = most;

	while (high > low + 1 && !is_late(shrinker)) {
		struct sim_scenario scenario = shrinker->best;
		uint64_t middle = low + (high - low) / 2;

		memcpy((char *)&scenario + member_offset, &middle, sizeof(middle));
		if (still_fails(shrinker, &scenario))
			high = middle;
		else
			low = middle;
	}
}

/* Leaves out ranges of the remaining events, large ranges first. */
static void events_shrink(struct shrinker *shrinker)
{
	unsigned count = shrinker->verdict.events;

	if (shrinker->best.events_max > 0 && shrinker->best.events_max < count)
		count = (unsigned)shrinker->best.events_max;
	if (count > SIM_EVENTS_MAX)
		count = SIM_EVENTS_MAX;
	for (unsigned piece = (count + 1) / 2; piece > 0; piece = piece > 1 ? (piece + 1) / 2 : 0) {
		for (unsigned first = 0; first < count && !is_late(shrinker); first += piece) {
			struct sim_scenario scenario = shrinker->best;
			bool has_any = false;

			for (unsigned i = first; i < first + piece && i < count; i++) {
				has_any |= scenario_has_event(&scenario, i);
				scenario.events_off[i / 64] |= 1ull << i % 64;
			}
			if (has_any)
				(void)still_fails(shrinker, &scenario);
		}
	}
}

static unsigned events_left(const struct shrinker *shrinker)
{
	unsigned left = 0;

	for (unsigned i = 0; i < shrinker->verdict.events; i++)
		left += scenario_has_event(&shrinker->best, i);
	return left;
}

static void trace_write(const struct sim_driver *driver, const struct shrinker *shrinker)
{
	struct sim_child_options options = {.cpu_limit_s = SIM_CPU_LIMIT_S};
	struct sim_verdict verdict;
	char path[512];

	if (!driver->trace_dir)
		return;
	snprintf(path, sizeof(path), "%s/%s-%" PRIu64 ".trace", driver->trace_dir,
		 shrinker->world->name, shrinker->best.seed);
	options.trace_path = path;
	sim_child_run(shrinker->world, &shrinker->best, &options, &verdict);
	printf("# its trace: %s\n", path);
}

void sim_shrink(const struct sim_driver *driver, const struct sim_failure *failure,
		struct sim_scenario *ret_best)
{
	struct shrinker shrinker = {
		.world = failure->job.world,
		.best = driver->scenario,
		.deadline_ns = clock_monotonic_ns() + SHRINK_MAX_NS,
	};
	uint64_t began_ns = clock_monotonic_ns();
	struct sim_scenario scenario;
	char text[SIM_TEXT_BYTES];

	shrinker.best.seed = failure->job.seed;
	scenario = shrinker.best;
	sim_kind_of(failure->what, shrinker.kind);
	printf("# %s seed %" PRIu64 " is shrunk\n", failure->job.world->name, failure->job.seed);
	fflush(stdout);
	if (!still_fails(&shrinker, &scenario)) {
		printf("# it does not fail again when it runs alone\n");
		*ret_best = shrinker.best;
		return;
	}
	features_shrink(&shrinker);
	figure_shrink(&shrinker, offsetof(struct sim_scenario, events_max),
		      shrinker.verdict.events);
	figure_shrink(&shrinker, offsetof(struct sim_scenario, commands_max),
		      shrinker.verdict.commands);
	events_shrink(&shrinker);
	features_shrink(&shrinker);
	sim_replay_format(shrinker.world, &shrinker.best, text);
	printf("# shrunk to %" PRIu64 " commands and %u events (%u tries, %.1f s)%s, with\n",
	       shrinker.verdict.commands, events_left(&shrinker), shrinker.tries,
	       (double)(clock_monotonic_ns() - began_ns) / 1e9,
	       is_late(&shrinker) ? ", not to its end" : "");
	sim_features_print(shrinker.world, shrinker.verdict.features_on);
	printf("# replay the short one: %s\n", text);
	trace_write(driver, &shrinker);
	fflush(stdout);
	*ret_best = shrinker.best;
}
