/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the network that came to the simulator after its first worlds: partitions in one
 * direction, limits of bandwidth, half-closes of every connection, slow readers. One thread. They
 * draw from numbers of their own and are on for some seeds only, so that the seeds that found
 * something before are what they were.
 */
#ifndef WEFT_TESTS_SIM_LATE_H
#define WEFT_TESTS_SIM_LATE_H

#include "sim.h"

#define LATE_SERVERS_MAX 4

/* The features of a world that these are, in the world's own numbering from `first` on. */
enum late_feature {
	LATE_ONE_WAY,
	LATE_LIMITS,
	LATE_END_EVENTS,
	LATE_SLOW,
	LATE_FLIPS,
	LATE_FEATURES,
};
#define LATE_FEATURE_NAMES LATE_FEATURE_NAMES_BUT_FLIPS, "late_flips"
/* Of a world that flips bits in its own way. */
#define LATE_FEATURE_NAMES_BUT_FLIPS "one_way", "limits", "end_events", "slow"

struct late {
	struct prng prng;
	bool is_on;
	uint32_t one_way_one_in; /* per trouble, each */
	uint32_t limit_one_in;
	uint32_t end_one_in;
	uint32_t slow_ppm;
	uint32_t flip_one_in; /* sends; for worlds that have digests then */
	struct late_server {
		uint64_t one_way_until_ns; /* 0: none */
		bool to_server;
		bool is_limited;
	} servers[LATE_SERVERS_MAX];
	uint64_t one_ways;
	uint64_t limits;
	uint64_t ends;
	uint64_t flips;
};

/* What the seed has of these; nothing for most of the old ones. */
void late_choose(struct late *late, uint64_t seed);
/* Takes away what the scenario switches off; feature() is asked for each. */
void late_shrink(struct late *late, bool (*feature)(void *arg, unsigned feature, bool is_chosen),
		 void *arg);
/* At each trouble, for one server (NULL: all of them, as number 0). `happens` is asked for each
 * that strikes. */
void late_strike(struct late *late, struct sim *sim, unsigned number, const struct net_addr *server,
		 bool (*happens)(void *arg), void *arg);
/* Ends what is due by then; UINT64_MAX: everything. */
void late_heal(struct late *late, struct sim *sim, unsigned number, const struct net_addr *server,
	       uint64_t now_ns);
/* A send: one bit of it changes now and then. */
void late_flip(struct late *late, uint8_t *bytes, size_t len_bytes);
/* Whether connections may end for no other reason. */
bool late_can_break(const struct late *late);

#endif
