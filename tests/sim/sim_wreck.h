/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of the target world as a process that can die at any operation, on disks that outlive
 * it. One thread.
 *
 * Uses its own random numbers and seeds of its own, so that seeds that found a bug replay
 * unchanged. In such a world the target, its reactors, stores and media belong to a struct
 * sim_process and are freed with it; namespaces with a model are on a struct sim_disk. A life ends
 * with a kill or with a power loss of the machine, which also loses the disks' caches.
 */
#ifndef WEFT_TESTS_SIM_WRECK_H
#define WEFT_TESTS_SIM_WRECK_H

#include "sim.h"
#include "sim_disk.h"

struct world;
struct world_ns;

/* Features of the world, numbered from FEATURE_WRECK on. */
enum wreck_feature {
	WRECK_CRASHES,
	WRECK_FREEZES,
	WRECK_REFUSALS,
	WRECK_CLOCK,
	WRECK_MISDIRECTS,
	WRECK_FULL,
	WRECK_CUT,
	WRECK_FEATURES,
};
#define WRECK_FEATURE_NAMES                                                                        \
	"target_crashes", "target_freezes", "no_memory", "clock", "misdirects", "full_media",      \
		"cut_media"

struct wreck {
	struct prng prng;
	bool is_on;
	uint32_t crash_one_in; /* chance per trouble, for each */
	uint32_t freeze_one_in;
	uint32_t jump_one_in; /* of the target's clock, forward */
	uint32_t full_one_in;
	uint32_t cut_one_in;
	uint32_t refuse_one_in;    /* allocations */
	uint32_t misdirect_one_in; /* reads */
	int32_t drift_ppm;
	uint64_t clock_offset_ns;

	struct sim_process *process; /* the current process, or the last */
	struct sim_mourner mourner;
	enum sim_death death;
	bool is_down;
	uint64_t upset_until_ns; /* end of the freeze, or time of the clock's jump */
	uint64_t lives;
	uint64_t crashes;
	uint64_t freezes;
	uint64_t jumps;
	uint64_t jumped_ns; /* time of the last jump, in simulation time */
	uint64_t fulls;
	uint64_t cuts;
	uint64_t refused;
};

void wreck_choose(struct world *world, uint64_t seed);
void wreck_shrink(struct world *world);

/* Call around code that creates or frees the target's objects outside of its turns. */
void wreck_enter(struct world *world);
void wreck_leave(struct world *world);
/* Creates the process of the first life. Call before anything in it is created. */
void wreck_begin(struct world *world);
/* Ends these troubles; a pending crash is cancelled. */
void wreck_heal(struct world *world);
/* The target has stopped properly: reports memory that it leaked. */
void wreck_end(struct world *world);

/* Call at each trouble, in a turn of the target's control reactor. */
void wreck_strike(struct world *world);
/* Opens the disk of a namespace; creates the disk if it is missing. */
struct media *wreck_medium_open(struct world *world, struct world_ns *ns,
				const struct sim_disk_options *options);
void wreck_ns_free(struct world_ns *ns);
/* Reads during which this number did not change were not misdirected. */
uint64_t wreck_misdirected(const struct world_ns *ns);
/* What the target's clock reads; 0 within grace_ns after a freeze or a clock jump. */
uint64_t wreck_clock_ns(const struct world *world, uint64_t grace_ns);
/* True: these faults may end connections. */
bool wreck_can_break(const struct world *world);
void wreck_count(const struct world *world);

#endif
