/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of weft_sim: options (weft_sim.c), children that run seeds and whose death is a verdict
 * too (sim_swarm.c), shrinking of a failing seed to a short scenario (sim_shrink.c), and reports
 * (sim_report.c). One thread in each process; a child shares only its struct swarm_slot with the
 * parent.
 */
#ifndef WEFT_TESTS_SIM_DRIVER_H
#define WEFT_TESTS_SIM_DRIVER_H

#include "sim_run.h"

#include <stdio.h>
#include <sys/types.h>

#define SIM_WORLDS_MAX 4
/* CPU time after which a run counts as hanging. */
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

/* Sums over all runs of one world. */
struct sim_totals {
	uint64_t seeds;
	uint64_t simulated_ns;
	uint64_t commands;
	uint64_t events;
	uint64_t features[SIM_FEATURES_MAX]; /* number of seeds with the feature on */
	struct sim_counters counters;
};

/* Sums over all worlds. Failures belong to the caller that zeroed the struct. */
struct sim_sum {
	struct sim_totals totals[SIM_WORLDS_MAX]; /* in the order of sim_worlds */
	struct sim_failure *failures;
	unsigned failure_count;
	double real_s;
	double cpu_s;
};

struct sim_driver {
	struct sim_scenario scenario;       /* what the options take away; its seed is not used */
	const struct sim_world_kind *world; /* NULL: the seed selects one */
	const char *without;                /* names of features; parsed when the world is known */
	unsigned jobs;
	unsigned cpu_limit_s; /* per seed */
	bool has_shrink;
	bool stops_at_first;
	bool lists_missing;    /* statuses and features that did not occur */
	const char *trace_dir; /* NULL: keep no traces */
};

/* Built-in worlds, NULL-terminated. */
extern const struct sim_world_kind *sim_worlds[SIM_WORLDS_MAX + 1];
unsigned sim_world_index(const struct sim_world_kind *world);
const struct sim_world_kind *sim_world_find(const char *name);

/* ---- children -------------------------------------------------------------------------------- */

struct sim_child_options {
	unsigned cpu_limit_s;
	bool runs_twice;        /* the second run must give the same hash */
	const char *trace_path; /* NULL: no trace */
};

/* Runs the scenario in a child. A crash, a sanitizer report and a hang are verdicts. */
void sim_child_run(const struct sim_world_kind *world, const struct sim_scenario *scenario,
		   const struct sim_child_options *options, struct sim_verdict *ret_verdict);
/* Runs all jobs in driver->jobs children and adds to *sum. Returns the number of runs. */
uint64_t sim_swarm_run(const struct sim_driver *driver, const struct sim_job *jobs, uint64_t count,
		       struct sim_sum *sum);

/* ---- shrinking ------------------------------------------------------------------------------- */

/* Prints how to replay the failure, shrinks it to a short scenario, prints how to replay that. */
void sim_shrink(const struct sim_driver *driver, const struct sim_failure *failure,
		struct sim_scenario *ret_best);

/* ---- words ----------------------------------------------------------------------------------- */

/* The violation without its numbers, so that two failures of one kind have the same text. */
void sim_kind_of(const char *what, char ret_kind[256]);
/* The variables of `make sim` that select this scenario. */
void sim_replay_format(const struct sim_world_kind *world, const struct sim_scenario *scenario,
		       char ret_text[SIM_TEXT_BYTES]);
/* Comma-separated feature names to bits. 0, or -EINVAL: a name is no feature of this world. */
int sim_features_parse(const struct sim_world_kind *world, const char *names, uint64_t *ret_bits);
void sim_totals_add(struct sim_totals *totals, const struct sim_verdict *verdict);
/* Adds `from` to `totals`, with counters. */
void sim_totals_merge(struct sim_totals *totals, const struct sim_totals *from);
void sim_sum_print(const struct sim_sum *sum, bool lists_missing);
/* Prints the names of the features that were on. */
void sim_features_print(const struct sim_world_kind *world, uint64_t features);

#endif
