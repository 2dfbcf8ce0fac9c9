/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random worlds of multipath: the state of a run. sim_mpath_plan.c chooses it from the seed and
 * reports what the run did; sim_mpath.c plays it. One thread.
 */
#ifndef WEFT_TESTS_SIM_MPATH_H
#define WEFT_TESTS_SIM_MPATH_H

#include "mpath_world.h"
#include "sim_late.h"
#include "sim_model.h"
#include "sim_run.h"
#include "sim_tenant.h"

struct mpath_run_stats {
	uint64_t commands;
	uint64_t resent; /* commands with more than one attempt */
	uint64_t unknown;
	uint64_t no_path;
	uint64_t blocks_checked;
	uint64_t cuts;
	uint64_t partitions;
	uint64_t ana_changes;
	uint64_t group_moves;
	uint64_t restarts;
	uint64_t freezes; /* of targets */
	uint64_t removals;
	uint64_t flushes;
	uint64_t flushes_lost; /* that reported lost writes */
	uint64_t flushes_failed;
	uint64_t write_backs_failed;
	uint64_t rechecks;
	uint64_t kills;
	uint64_t flips; /* bits flipped by the network */
	uint64_t losses;
	uint64_t fences_by_reset;
	uint64_t fences_by_time;
	uint64_t statuses[SIM_STATUS_MAX];
};

#define WORKERS_MAX   8
#define WORKER_BLOCKS (MWORLD_BLOCKS / WORKERS_MAX)

enum step_kind {
	STEP_READ,
	STEP_WRITE,
	STEP_FUSED,
	STEP_FLUSH,
};

struct mrun;

struct mworker {
	struct mop mop; /* first member: the worker is found from it */
	struct mrun *run;
	struct reactor_timer timer;
	enum step_kind kind;
	uint64_t first_block;
	uint64_t block;
	uint64_t value;
	uint64_t start;
	bool is_busy;
	uint64_t swept; /* blocks read after the troubles */
	/* What the worker's blocks hold for sure; MODEL_NEVER: unknown. */
	uint64_t known[WORKER_BLOCKS];
	/* Each worker is a separate user. The value that a flush must make stable: it was
	 * acknowledged, and the worker got no report of a loss since; 0: none. */
	uint64_t acked[WORKER_BLOCKS];
	uint64_t losses_told;
	uint64_t power_losses_told;
	uint64_t flush_failed; /* number of its latest flush that failed at the target */
	uint64_t lost_flushes; /* flushes that reported a loss to it */
};

struct mrun {
	struct mworld world;
	const struct sim_scenario *scenario;
	struct sim_verdict *verdict;
	struct sim_counters *counters;
	enum path_state path_states[MPATH_PATHS_MAX]; /* as last reported */
	struct mpath_run_stats stats;
	unsigned event_count; /* troubles so far, left out or not */
	struct prng prng;
	struct late late;
	struct tenants tenants;
	struct model *model;
	uint64_t step;
	uint64_t next_value;
	uint64_t hash;
	uint64_t commands_left;
	uint32_t chaos_max_us;
	uint32_t cut_one_in;
	uint32_t partition_one_in;
	uint32_t ana_one_in;
	uint32_t restart_one_in;
	bool is_volatile; /* unflushed writes may be lost */
	uint32_t power_one_in;
	uint64_t power_losses;
	uint32_t fault_one_in; /* write-back of unflushed data fails */
	uint32_t kill_one_in;
	uint64_t failing_until_ns;          /* 0: write-back works */
	struct reactor_timer recheck_timer; /* of the control reactor */
	uint32_t freeze_one_in;
	bool is_edgy;  /* two targets; freezes end about when their controllers do */
	bool is_apart; /* the frozen target is also partitioned */
	unsigned frozen_target;
	uint64_t apart_from_ns; /* when the frozen target is partitioned; 0: never */
	uint32_t remove_one_in;
	uint32_t flip_one_in; /* of sends, with digests: one bit flips */
	uint32_t think_max_us;
	uint64_t frozen_until_ns; /* only one target is frozen at a time */
	bool has_reset;
	bool is_healed;
	bool is_failed;
	uint64_t healed_until_ns[MWORLD_PORTS_MAX]; /* 0: not partitioned */
	struct reactor_timer chaos_timer;           /* of the control reactor */
	struct reactor_timer paths_timer;           /* of the host's */
	struct mworker workers[WORKERS_MAX];
	unsigned worker_count;
};

/* sim_mpath_plan.c */
void mpath_world_choose(struct mrun *run);

/* sim_power.c: power losses of the target, failures of the medium, and flushes. */
void power_choose(struct mrun *run, bool is_chosen);
void power_faults_choose(struct mrun *run, bool has_power_losses, bool has_kills);
void power_strike(struct mrun *run);
/* After an acknowledged write; after a flush has ended. */
void power_note_write(struct mworker *worker);
void power_flush_judge(struct mworker *worker);

/* sim_mpath.c: from the first connection until all paths work again after the troubles. */
void mpath_run_play(struct mrun *run);
void mpath_run_fail(struct mrun *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void mpath_hash_add(struct mrun *run, uint64_t value);
/* Call when a trouble strikes and its numbers are drawn. False: the scenario leaves it out. */
bool mpath_run_happens(struct mrun *run);

#endif
