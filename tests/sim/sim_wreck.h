/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of the target world as a process that can end at any operation, on disks that outlive
 * it: what such a world has beside the troubles of all. One thread.
 *
 * Drawn from numbers of their own, for seeds of their own, so that the seeds that found something
 * before are what they were. In such a world the target, its reactors, stores and media are made in
 * a struct sim_process and gone with it; namespaces that have a model are on a struct sim_disk. A
 * life ends with a kill or with the power of the machine, then of the disks' caches too.
 */
#ifndef WEFT_TESTS_SIM_WRECK_H
#define WEFT_TESTS_SIM_WRECK_H

#include "sim.h"
#include "sim_disk.h"

struct world;
struct world_ns;

/* As features of the world, in its numbering from FEATURE_WRECK on. */
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
	uint32_t crash_one_in; /* per trouble, each */
	uint32_t freeze_one_in;
	uint32_t jump_one_in; /* of the target's clock, forward */
	uint32_t full_one_in;
	uint32_t cut_one_in;
	uint32_t refuse_one_in;    /* allocations */
	uint32_t misdirect_one_in; /* reads */
	int32_t drift_ppm;
	uint64_t clock_offset_ns;

	struct sim_process *process; /* the present one, or the last */
	struct sim_mourner mourner;
	enum sim_death death;
	bool is_down;
	uint64_t upset_until_ns; /* how long it is frozen, or when its clock jumped */
	uint64_t lives;
	uint64_t crashes;
	uint64_t freezes;
	uint64_t jumps;
	uint64_t jumped_ns; /* when the last one was, by the simulation's clock */
	uint64_t fulls;
	uint64_t cuts;
	uint64_t refused;
};

void wreck_choose(struct world *world, uint64_t seed);
void wreck_shrink(struct world *world);

/* Around what makes or frees things of the target from outside of its turns. */
void wreck_enter(struct world *world);
void wreck_leave(struct world *world);
/* The process of the first life, before anything of it is made. */
void wreck_begin(struct world *world);
/* No more of it, and no crash that is still to come. */
void wreck_heal(struct world *world);
/* The target has ended well: whether anything of it is left. */
void wreck_end(struct world *world);

/* At each trouble, in a turn of the target's control reactor. */
void wreck_strike(struct world *world);
/* Opens the disk of a namespace, which is made when there is none yet. */
struct media *wreck_medium_open(struct world *world, struct world_ns *ns,
				const struct sim_disk_options *options);
void wreck_ns_free(struct world_ns *ns);
/* Reads that began and ended while this stayed the same got what was there. */
uint64_t wreck_misdirected(const struct world_ns *ns);
/* What the target's clock reads; 0 within grace_ns after it was frozen, or its clock jumped. */
uint64_t wreck_clock_ns(const struct world *world, uint64_t grace_ns);
/* Whether connections may end for no other reason. */
bool wreck_can_break(const struct world *world);
void wreck_count(const struct world *world);

#endif
