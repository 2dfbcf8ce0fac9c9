/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several usable paths the next command takes; see path_policy.h for the policies.
 *
 * Runs on the reactor of its mpath, once for each command: no allocation, one or two passes over at
 * most MPATH_PATHS_MAX samples. The caller passes the time; random numbers come from the seed of
 * the state.
 *
 * The expected wait on a path is (duration of one command) x (commands in flight + 1). The duration
 * of one command is the measured mean, or half the age of the oldest command in flight if that is
 * more. The age matters because a stalled path answers nothing, so no measurement would show the
 * stall. In steady state the oldest of many commands is about twice as old as the mean.
 */
#include "host/path_policy.h"

#include "base/check.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Time constant of the mean: half of its weight is younger than about this. Short enough to follow
 * a path within a tenth of the second that is allowed, long enough not to follow single
 * commands. */
#define PATH_LATENCY_TAU_NS 50000000ull
#define PATH_WEIGHT_ONE     65536ull

/* The latency policy probes an idle path that was not picked for PATH_PROBE_NS. At most one command
 * in PATH_PROBE_ONE_IN is a probe, so that a slow application does not spend its commands on a slow
 * path. */
#define PATH_PROBE_NS     10000000ull
#define PATH_PROBE_ONE_IN 128

/* Scores that differ by less than an eighth count as equal: the measurement is no more precise. */
#define PATH_SCORE_SLACK 8

static const char *const path_policy_names[] = {
	[PATH_POLICY_NUMA] = "numa",
	[PATH_POLICY_ROUND_ROBIN] = "round-robin",
	[PATH_POLICY_QUEUE_DEPTH] = "queue-depth",
	[PATH_POLICY_LATENCY] = "latency",
};

int path_policy_parse(const char *name, enum path_policy *ret_policy)
{
	for (size_t i = 0; i < ARRAY_LEN(path_policy_names); i++) {
		if (strcmp(name, path_policy_names[i]) == 0) {
			*ret_policy = (enum path_policy)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *path_policy_name(enum path_policy policy)
{
	return (size_t)policy < ARRAY_LEN(path_policy_names) ? path_policy_names[policy]
							     : "unknown";
}

void path_latency_add(struct path_latency *latency, uint64_t took_ns, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns > latency->updated_ns ? now_ns - latency->updated_ns : 0;
	uint64_t weight;

	if (took_ns == 0)
		took_ns = 1; /* 0 means that nothing was measured */
	if (latency->mean_ns == 0) {
		latency->mean_ns = took_ns;
		latency->updated_ns = now_ns;
		return;
	}
	/* passed / (passed + tau): close to 1 - exp(-passed / tau) for short intervals, and a
	 * smaller step for long ones. Answers of one turn have the same time: each keeps a small
	 * weight. */
	if (passed_ns > 64 * PATH_LATENCY_TAU_NS)
		passed_ns = 64 * PATH_LATENCY_TAU_NS;
	weight = passed_ns * PATH_WEIGHT_ONE;
	weight = weight < PATH_LATENCY_TAU_NS ? 1 : weight / (passed_ns + PATH_LATENCY_TAU_NS);
	if (weight == 0)
		weight = 1;
	if (took_ns > latency->mean_ns)
		latency->mean_ns +=
			(took_ns - latency->mean_ns) / PATH_WEIGHT_ONE * weight +
			(took_ns - latency->mean_ns) % PATH_WEIGHT_ONE * weight / PATH_WEIGHT_ONE;
	else
		latency->mean_ns -=
			(latency->mean_ns - took_ns) / PATH_WEIGHT_ONE * weight +
			(latency->mean_ns - took_ns) % PATH_WEIGHT_ONE * weight / PATH_WEIGHT_ONE;
	if (now_ns > latency->updated_ns)
		latency->updated_ns = now_ns;
}

void path_policy_init(struct path_policy_state *state, enum path_policy policy, uint64_t seed)
{
	state->policy = policy;
	state->turn = 0;
	prng_seed(&state->prng, seed);
}

/* The first of the nearest paths: another path is picked only when this path is gone. */
static unsigned path_pick_nearest(const struct path_sample *samples, unsigned count)
{
	unsigned best = 0;

	for (unsigned i = 1; i < count; i++)
		if (samples[i].numa_distance < samples[best].numa_distance)
			best = i;
	return best;
}

/* Starts at the turn, so that equal paths take turns. */
static unsigned path_pick_shallowest(const struct path_sample *samples, unsigned count,
				     unsigned turn)
{
	unsigned best = turn;

	for (unsigned n = 1; n < count; n++) {
		unsigned i = turn + n < count ? turn + n : turn + n - count;

		if (samples[i].in_flight < samples[best].in_flight ||
		    (samples[i].in_flight == samples[best].in_flight &&
		     samples[i].picked_ns < samples[best].picked_ns))
			best = i;
	}
	return best;
}

/* The assumed mean of a path that was never measured: that of the fastest measured path, so that
 * the new path gets its share and not all commands. */
static uint64_t path_fastest_ns(const struct path_sample *samples, unsigned count)
{
	uint64_t fastest_ns = UINT64_MAX;

	for (unsigned i = 0; i < count; i++) {
		uint64_t mean_ns = samples[i].latency.mean_ns;

		if (mean_ns != 0 && mean_ns < fastest_ns)
			fastest_ns = mean_ns;
	}
	return fastest_ns == UINT64_MAX ? 1 : fastest_ns;
}

static uint64_t path_expected_wait_ns(const struct path_sample *sample, uint64_t fastest_ns)
{
	uint64_t one_ns = sample->latency.mean_ns != 0 ? sample->latency.mean_ns : fastest_ns;
	uint64_t wait_ns;

	if (sample->oldest_ns / 2 > one_ns)
		one_ns = sample->oldest_ns / 2;
	if (__builtin_mul_overflow(one_ns, (uint64_t)sample->in_flight + 1, &wait_ns))
		return UINT64_MAX;
	return wait_ns;
}

static bool path_wants_probe(const struct path_sample *sample, uint64_t now_ns)
{
	return sample->in_flight == 0 && now_ns > sample->picked_ns &&
	       now_ns - sample->picked_ns > PATH_PROBE_NS;
}

static unsigned path_pick_fastest(struct path_policy_state *state,
				  const struct path_sample *samples, unsigned count,
				  uint64_t now_ns)
{
	uint64_t fastest_ns = path_fastest_ns(samples, count);
	uint64_t best_ns = UINT64_MAX;
	unsigned best = 0, idle = count;

	for (unsigned i = 0; i < count; i++) {
		uint64_t wait_ns = path_expected_wait_ns(&samples[i], fastest_ns);

		if (wait_ns < best_ns) {
			best_ns = wait_ns;
			best = i;
		}
		if (path_wants_probe(&samples[i], now_ns) &&
		    (idle == count || samples[i].picked_ns < samples[idle].picked_ns))
			idle = i;
	}
	if (idle < count && idle != best && prng_one_in(&state->prng, PATH_PROBE_ONE_IN))
		return idle;
	/* Of the paths that score about as well, pick the path that was unused for longest. */
	for (unsigned n = 0, turn = state->turn; n < count; n++) {
		unsigned i = turn + n < count ? turn + n : turn + n - count;

		if (samples[i].picked_ns < samples[best].picked_ns &&
		    path_expected_wait_ns(&samples[i], fastest_ns) - best_ns <=
			    best_ns / PATH_SCORE_SLACK)
			best = i;
	}
	return best;
}

unsigned path_policy_pick(struct path_policy_state *state, const struct path_sample *samples,
			  unsigned count, uint64_t now_ns)
{
	unsigned turn;

	CHECK(count > 0);
	/* Compare instead of dividing: a division would be the most expensive part of the
	 * choice. */
	turn = state->turn < count ? state->turn : count - 1;
	state->turn = turn + 1 < count ? turn + 1 : 0;
	switch (state->policy) {
	case PATH_POLICY_ROUND_ROBIN:
		return turn;
	case PATH_POLICY_QUEUE_DEPTH:
		return path_pick_shallowest(samples, count, turn);
	case PATH_POLICY_LATENCY:
		return path_pick_fastest(state, samples, count, now_ns);
	case PATH_POLICY_NUMA:
		break;
	}
	return path_pick_nearest(samples, count);
}
