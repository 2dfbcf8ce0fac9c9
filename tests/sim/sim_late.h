/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network faults that were added after the first worlds: one-way partitions, bandwidth limits,
 * half-closes of all connections, slow readers. One thread. They use their own random numbers and
 * are off for most old seeds, so that seeds that found a bug replay unchanged.
 */
#ifndef WEFT_TESTS_SIM_LATE_H
#define WEFT_TESTS_SIM_LATE_H

#include "sim.h"

#define LATE_SERVERS_MAX 4

/* Features of a world for these faults, numbered from the world's `first` on. */
enum late_feature {
	LATE_ONE_WAY,
	LATE_LIMITS,
	LATE_END_EVENTS,
	LATE_SLOW,
	LATE_FLIPS,
	LATE_FEATURES,
};
#define LATE_FEATURE_NAMES LATE_FEATURE_NAMES_BUT_FLIPS, "late_flips"
/* For worlds that flip bits themselves. */
#define LATE_FEATURE_NAMES_BUT_FLIPS "one_way", "limits", "end_events", "slow"

struct late {
	struct prng prng;
	bool is_on;
	uint32_t one_way_one_in; /* chance per trouble of the world, for each fault */
	uint32_t limit_one_in;
	uint32_t end_one_in;
	uint32_t slow_ppm;
	uint32_t flip_one_in; /* of sends; only worlds with digests use it */
	struct late_server {
		uint64_t one_way_until_ns; /* 0: no partition */
		bool to_server;
		bool is_limited;
	} servers[LATE_SERVERS_MAX];
	uint64_t one_ways;
	uint64_t limits;
	uint64_t ends;
	uint64_t flips;
};

/* Chooses the seed's faults; most old seeds get none. */
void late_choose(struct late *late, uint64_t seed);
/* Removes the faults that the scenario switches off; feature() is called for each. */
void late_shrink(struct late *late, bool (*feature)(void *arg, unsigned feature, bool is_chosen),
		 void *arg);
/* Call at each trouble, for one server (NULL: all, as number 0). `happens` is called for each fault
 * that strikes. */
void late_strike(struct late *late, struct sim *sim, unsigned number, const struct net_addr *server,
		 bool (*happens)(void *arg), void *arg);
/* Ends the faults that are due by now_ns; UINT64_MAX: all. */
void late_heal(struct late *late, struct sim *sim, unsigned number, const struct net_addr *server,
	       uint64_t now_ns);
/* Sometimes flips one bit of a send. */
void late_flip(struct late *late, uint8_t *bytes, size_t len_bytes);
/* True: these faults may end connections. */
bool late_can_break(const struct late *late);

#endif
