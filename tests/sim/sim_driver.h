/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of weft_sim: what it was asked for (weft_sim.c), children that run seeds and whose
 * death is a verdict too (sim_swarm.c), the way from a failing seed to a short scenario
 * (sim_shrink.c), and words (sim_report.c). One thread in each process; a child shares only what
 * lies in a struct swarm_slot.
 */
#ifndef WEFT_TESTS_SIM_DRIVER_H
#define WEFT_TESTS_SIM_DRIVER_H

#include "sim_run.h"

#include <stdio.h>
#include <sys/types.h>

#define SIM_WORLDS_MAX 4
/* A run that takes longer does not end, or is no use. */
#define SIM_CPU_LIMIT_S 60
#define SIM_TEXT_BYTES  1024

/* One seed of one world. */
struct sim_job {
	const struct sim_world_kind *world;
	uint64_t seed;
};

struct sim_failure {
	struct sim_job job;
	char what[256];
};

/* What runs of one world did, added up. */
struct sim_totals {
	uint64_t seeds;
	uint64_t simulated_ns;
	uint64_t commands;
	uint64_t events;
	uint64_t features[SIM_FEATURES_MAX]; /* seeds that had it on */
	struct sim_counters counters;
};

/* Of everything; failures belong to who zeroed it. */
struct sim_sum {
	struct sim_totals totals[SIM_WORLDS_MAX]; /* by the order of sim_worlds */
	struct sim_failure *failures;
	unsigned failure_count;
	double real_s;
	double cpu_s;
};

struct sim_driver {
	struct sim_scenario scenario;       /* what the options take away; its seed says nothing */
	const struct sim_world_kind *world; /* NULL: the seed picks */
	const char *without;                /* names of features, until the world is known */
	unsigned jobs;
	unsigned cpu_limit_s; /* of a seed */
	bool has_shrink;
	bool stops_at_first;
	bool lists_missing;    /* statuses and features that were not met */
	const char *trace_dir; /* NULL: no traces are kept */
};

/* Those that are built in, NULL behind the last. */
extern const struct sim_world_kind *sim_worlds[SIM_WORLDS_MAX + 1];
unsigned sim_world_index(const struct sim_world_kind *world);
const struct sim_world_kind *sim_world_find(const char *name);

/* ---- children -------------------------------------------------------------------------------- */

struct sim_child_options {
	unsigned cpu_limit_s;
	bool runs_twice;        /* the second time must give the same hash */
	const char *trace_path; /* NULL: no trace */
};

/* Runs the scenario in a child; a crash, a sanitizer's report and a hang are verdicts. */
void sim_child_run(const struct sim_world_kind *world, const struct sim_scenario *scenario,
		   const struct sim_child_options *options, struct sim_verdict *ret_verdict);
/* Runs all of them in driver->jobs children and adds to *sum. Returns how many were run. */
uint64_t sim_swarm_run(const struct sim_driver *driver, const struct sim_job *jobs, uint64_t count,
		       struct sim_sum *sum);

/* ---- shrinking ------------------------------------------------------------------------------- */

/* Tells how to replay the failure, makes a short scenario of it, and tells how to replay that. */
void sim_shrink(const struct sim_driver *driver, const struct sim_failure *failure,
		struct sim_scenario *ret_best);

/* ---- words ----------------------------------------------------------------------------------- */

/* The violation without its numbers: two failures of one kind have the same. */
void sim_kind_of(const char *what, char ret_kind[256]);
/* The variables of `make sim` that give this scenario. */
void sim_replay_format(const struct sim_world_kind *world, const struct sim_scenario *scenario,
		       char ret_text[SIM_TEXT_BYTES]);
/* Names with commas between them, to bits. 0, or -EINVAL: one is no feature of that world. */
int sim_features_parse(const struct sim_world_kind *world, const char *names, uint64_t *ret_bits);
void sim_totals_add(struct sim_totals *totals, const struct sim_verdict *verdict);
/* Adds `from` to `totals`, counters too. */
void sim_totals_merge(struct sim_totals *totals, const struct sim_totals *from);
void sim_sum_print(const struct sim_sum *sum, bool lists_missing);
/* The features that were on, by name. */
void sim_features_print(const struct sim_world_kind *world, uint64_t features);

#endif
