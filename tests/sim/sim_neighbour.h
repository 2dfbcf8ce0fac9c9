/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile neighbours in the target world: hosts that hoard buffers, drip bytes, flood the target
 * with connections or lie about lengths, on a namespace of their own. The world has no other
 * troubles, so that simulated time bounds commands of the other hosts and changes of the
 * configuration. One thread; their own reactor and random numbers.
 */
#ifndef WEFT_TESTS_SIM_NEIGHBOUR_H
#define WEFT_TESTS_SIM_NEIGHBOUR_H

#include "sim.h"

#include "target/target.h"

struct world;
struct sim_op;
struct neighbour;

/* Features of the world, numbered from FEATURE_NEIGHBOUR on. */
enum neighbour_kind {
	NEIGHBOUR_HOARDS,
	NEIGHBOUR_DRIPS,
	NEIGHBOUR_FLOODS,
	NEIGHBOUR_LIES,
	NEIGHBOUR_KINDS,
};
#define NEIGHBOUR_FEATURE_NAMES "hoarders", "drips", "floods", "liars"

#define NEIGHBOURS_MAX 4
#define NEIGHBOUR_NSID 31

struct neighbours {
	bool is_on;
	struct prng prng;
	bool has_kind[NEIGHBOUR_KINDS];
	struct reactor *reactor;
	struct neighbour *all[NEIGHBOURS_MAX];
	unsigned count;
	struct ns_backing *backing; /* of NEIGHBOUR_NSID */
	bool is_changing;
	uint64_t change_ns; /* when the change in progress began */
	uint64_t asked;     /* writes sent */
	uint64_t hoarded;   /* R2Ts that were not answered at once */
	uint64_t cut_off;   /* connections that the target ended */
	uint64_t changes;
	uint64_t slowest_us; /* command of another host */
};

void neighbours_choose(struct world *world, uint64_t seed);
/* Removes what the scenario switches off, and troubles that could be mistaken for a neighbour's
 * effect. */
void neighbours_shrink(struct world *world, struct sim_options *options);
/* Call before the target starts. */
void neighbours_create(struct world *world);
void neighbours_start(struct world *world);
/* Appends their namespace to the subsystem's. */
void neighbours_build(const struct world *world, struct subsystem *subsystem);
/* Call at each trouble while the target is steady: may start a change with a barrier. */
void neighbours_strike(struct world *world);
/* Call when a command of another host was answered. */
void neighbours_judge(struct world *world, const struct sim_op *op);
/* Call between two events. */
void neighbours_watch(struct world *world);
void neighbours_leave(struct world *world);
bool neighbours_are_gone(const struct world *world);
void neighbours_destroy(struct world *world);
void neighbours_count(const struct world *world);

#endif
