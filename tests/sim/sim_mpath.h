/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random worlds of multipath: one seed is one run. One thread; see sim_mpath.c.
 */
#ifndef WEFT_TESTS_SIM_MPATH_H
#define WEFT_TESTS_SIM_MPATH_H

#include <stdbool.h>
#include <stdint.h>

struct mpath_run_stats {
	uint64_t commands;
	uint64_t resent; /* of those: more than one attempt */
	uint64_t unknown;
	uint64_t no_path;
	uint64_t blocks_checked;
	uint64_t cuts;
	uint64_t partitions;
	uint64_t ana_changes;
	uint64_t restarts;
	uint64_t freezes; /* targets that stood still */
	uint64_t removals;
	uint64_t flips; /* bits that the network changed */
	uint64_t losses;
	uint64_t fences_by_reset;
	uint64_t fences_by_time;
};

/* True when nothing was violated; *ret_hash is the same for the same seed. */
bool mpath_run(uint64_t seed, struct mpath_run_stats *stats, uint64_t *ret_hash);
void mpath_run_print(const struct mpath_run_stats *stats);

#endif
