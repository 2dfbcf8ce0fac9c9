/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several usable paths the next command takes. Pure: the policies see samples, not paths,
 * so that they are tested without a network. One state for each namespace.
 *
 *   numa         the nearest path; the others only when it is gone
 *   round-robin  in turn
 *   queue-depth  the fewest commands in flight
 *   latency      the least expected wait: measured latency times the commands in flight. A path
 *                that has not answered for longer than usual counts as slow before it answers. A
 *                path that is hardly used gets a command now and then, so that its measurement
 *                stays current.
 */
#ifndef WEFT_HOST_PATH_POLICY_H
#define WEFT_HOST_PATH_POLICY_H

#include "base/prng.h"

#include <stdint.h>

enum path_policy {
	PATH_POLICY_NUMA,
	PATH_POLICY_ROUND_ROBIN,
	PATH_POLICY_QUEUE_DEPTH,
	PATH_POLICY_LATENCY,
};

/* 0, or -EINVAL. */
int path_policy_parse(const char *name, enum path_policy *ret_policy);
const char *path_policy_name(enum path_policy policy);

/* How long commands of a path take: a moving average that decays with time, not with the number of
 * commands. */
struct path_latency {
	uint64_t mean_ns; /* 0: nothing measured yet */
	uint64_t updated_ns;
};
void path_latency_add(struct path_latency *latency, uint64_t took_ns, uint64_t now_ns);

struct path_sample {
	uint32_t in_flight;
	uint32_t numa_distance; /* 0: the same node */
	uint64_t oldest_ns;     /* age of the oldest command in flight; 0: none */
	uint64_t picked_ns;     /* when the policy last picked this path */
	struct path_latency latency;
};

struct path_policy_state {
	enum path_policy policy;
	uint32_t turn; /* position of the next turn */
	struct prng prng;
};

void path_policy_init(struct path_policy_state *state, enum path_policy policy, uint64_t seed);
/* Returns the index of the picked sample. count: 1 or more. */
unsigned path_policy_pick(struct path_policy_state *state, const struct path_sample *samples,
			  unsigned count, uint64_t now_ns);

#endif
