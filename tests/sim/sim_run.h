/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weft_sim runs: worlds, each with one function that plays a scenario to its verdict. A
 * scenario is a seed minus what shrinking removed. The same scenario gives the same run, byte for
 * byte. One thread; one run at a time.
 */
#ifndef WEFT_TESTS_SIM_RUN_H
#define WEFT_TESTS_SIM_RUN_H

#include "wire/nvme.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_FEATURES_MAX 64
#define SIM_EVENTS_MAX   512
#define SIM_STATUS_MAX   0x800
#define SIM_COUNTERS_MAX 96

/* Features are what a seed switches on: faults, kinds of commands, operators. Events happen to the
 * world from outside (a cut, a kill, a change) and are numbered in the order of the plan. Only the
 * seed and its number decide an event, so that leaving one out does not change the others. */
struct sim_scenario {
	uint64_t seed;
	uint64_t features_off; /* bit per name of the world's features */
	uint64_t commands_max; /* 0: as many as the seed chooses */
	uint64_t events_max;   /* only the first events_max events; 0: all */
	uint64_t events_off[SIM_EVENTS_MAX / 64];
};

/* What a run did, or a sum over seeds. Names are literals. */
struct sim_counters {
	unsigned count;
	struct {
		const char *name;
		uint64_t value;
	} counters[SIM_COUNTERS_MAX];
	uint64_t statuses[SIM_STATUS_MAX]; /* of answers to hosts */
};

void sim_counter_add(struct sim_counters *counters, const char *name, uint64_t value);

struct sim_verdict {
	bool is_ok;
	uint64_t hash; /* of all events */
	uint64_t simulated_ns;
	uint64_t features_on; /* features of the seed, without features_off */
	uint64_t commands;
	unsigned events; /* planned events */
	char what[256];  /* the first violation; empty: none */
};

struct sim_world_kind {
	const char *name;            /* "target", "mpath", "cluster", "format" */
	const char *const *features; /* up to SIM_FEATURES_MAX, NULL at the end */
	void (*run)(const struct sim_scenario *scenario, struct sim_counters *counters,
		    struct sim_verdict *ret_verdict);
};

extern const struct sim_world_kind sim_world_target;
extern const struct sim_world_kind sim_world_mpath;
extern const struct sim_world_kind sim_world_cluster;
extern const struct sim_world_kind sim_world_format;

static inline bool scenario_has_event(const struct sim_scenario *scenario, unsigned event)
{
	return (scenario->events_max == 0 || event < scenario->events_max) &&
	       (event >= SIM_EVENTS_MAX || !(scenario->events_off[event / 64] >> event % 64 & 1));
}

#endif
