/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile neighbours in the target world: hosts that hoard buffers, drip bytes, flood the target
 * with connections or lie about lengths, on a namespace of their own. The world is calm otherwise,
 * so that commands of the other hosts, and changes of the configuration, are judged by simulated
 * time. One thread, on a reactor of their own; numbers of their own.
 */
#ifndef WEFT_TESTS_SIM_NEIGHBOUR_H
#define WEFT_TESTS_SIM_NEIGHBOUR_H

#include "sim.h"

#include "target/target.h"

struct world;
struct sim_op;
struct neighbour;

/* As features of the world, in its numbering from FEATURE_NEIGHBOUR on. */
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
	struct ns_store *store; /* of NEIGHBOUR_NSID */
	bool is_changing;
	uint64_t change_ns; /* when the change under way began */
	uint64_t asked;     /* writes */
	uint64_t hoarded;   /* R2Ts that were not answered at once */
	uint64_t cut_off;   /* connections that the target ended */
	uint64_t changes;
	uint64_t slowest_us; /* command of another host */
};

void neighbours_choose(struct world *world, uint64_t seed);
/* Takes away what the scenario switches off, and the troubles that would be mistaken for them. */
void neighbours_shrink(struct world *world, struct sim_options *options);
/* Before the target starts. */
void neighbours_create(struct world *world);
void neighbours_start(struct world *world);
/* Puts their namespace at the end of the subsystem's. */
void neighbours_build(const struct world *world, struct subsystem *subsystem);
/* At each trouble, while the target is steady: a change whose barrier is waited for. */
void neighbours_strike(struct world *world);
/* A command of another host was answered. */
void neighbours_judge(struct world *world, const struct sim_op *op);
/* Between two events. */
void neighbours_watch(struct world *world);
void neighbours_leave(struct world *world);
bool neighbours_are_gone(const struct world *world);
void neighbours_destroy(struct world *world);
void neighbours_count(const struct world *world);

#endif
