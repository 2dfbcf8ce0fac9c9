/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the state changes that worlds see: counters with a literal for each pair. One thread.
 * Coverage counts what happens inside of src/; see tools/sim-cover.
 */
#include "sim_transition.h"

#define PAIR(of, from, to) [from][to] = of " " #from " to " #to

enum ana_index {
	optimized,
	non_optimized,
	inaccessible,
	persistent_loss,
	change,
	ANA_INDEXES,
};

enum path_index {
	connecting,
	live,
	waiting,
	closing,
	PATH_INDEXES,
};

#define ANA_ROW(from)                                                                              \
	PAIR("ANA", from, optimized), PAIR("ANA", from, non_optimized),                            \
		PAIR("ANA", from, inaccessible), PAIR("ANA", from, persistent_loss),               \
		PAIR("ANA", from, change)
#define PATH_ROW(from)                                                                             \
	PAIR("path", from, connecting), PAIR("path", from, live), PAIR("path", from, waiting),     \
		PAIR("path", from, closing)

static const char *const ana_names[ANA_INDEXES][ANA_INDEXES] = {
	ANA_ROW(optimized),       ANA_ROW(non_optimized), ANA_ROW(inaccessible),
	ANA_ROW(persistent_loss), ANA_ROW(change),
};
static const char *const path_names[PATH_INDEXES][PATH_INDEXES] = {
	PATH_ROW(connecting),
	PATH_ROW(live),
	PATH_ROW(waiting),
	PATH_ROW(closing),
};

static enum ana_index ana_index_of(enum ana_state state)
{
	switch (state) {
	case ANA_NON_OPTIMIZED:
		return non_optimized;
	case ANA_INACCESSIBLE:
		return inaccessible;
	case ANA_PERSISTENT_LOSS:
		return persistent_loss;
	case ANA_CHANGE:
		return change;
	default:
		return optimized;
	}
}

static enum path_index path_index_of(enum path_state state)
{
	switch (state) {
	case PATH_LIVE:
		return live;
	case PATH_WAITING:
		return waiting;
	case PATH_CLOSING:
		return closing;
	default:
		return connecting;
	}
}

void sim_transition_ana(struct sim_counters *counters, enum ana_state from, enum ana_state to)
{
	if (from != to)
		sim_counter_add(counters, ana_names[ana_index_of(from)][ana_index_of(to)], 1);
}

void sim_transition_path(struct sim_counters *counters, enum path_state from, enum path_state to)
{
	/* A new path may reuse the index of a closed one. */
	if (from != to && from != PATH_CLOSING)
		sim_counter_add(counters, path_names[path_index_of(from)][path_index_of(to)], 1);
}
