/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of whole nodes and paths in the cluster world: controllers that end by their keep alive
 * without a fault, connections that end by a protocol error, members killed while they work, and
 * what targets still hold after all hosts left. Called between turns, except cluster_check_path.
 * One thread.
 */
#include "cluster_world.h"
#include "sim_posix.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A controller checks for traffic once per KATO. This covers the delay until the count is read. */
#define EXPIRY_SLACK_MS 1500

static uint32_t kato_max_ms(const struct cluster *world)
{
	uint32_t kato_ms = 1000; /* the discovery client's */

	for (unsigned i = 0; i < world->host_count; i++) {
		if (world->hosts[i].kato_ms > kato_ms)
			kato_ms = world->hosts[i].kato_ms;
	}
	return kato_ms;
}

static void node_check(struct cluster_node *node)
{
	struct cluster *world = node->world;
	uint64_t window_ns = (2 * kato_max_ms(world) + EXPIRY_SLACK_MS) * NS_PER_MS;
	struct target *target = sim_node_target(node->node);
	struct target_stats stats;

	if (target == NULL)
		return;
	if (node->stats_life != sim_node_lives(node->node)) {
		node->stats_life = sim_node_lives(node->node);
		node->expiries = 0;
		node->protocol_errors = 0;
	}
	target_get_stats(target, &stats);
	if (stats.keep_alive_expiries > node->expiries) {
		cluster_count(world, "keep alive expiries",
			      stats.keep_alive_expiries - node->expiries);
		if (sim_now(world->sim) > world->last_fault_ns + window_ns)
			cluster_fail(world,
				     "node %s: Keep Alive ended a controller, although no fault "
				     "was active for %llu ms",
				     node->name,
				     (sim_now(world->sim) - world->last_fault_ns) / NS_PER_MS +
					     0ull);
	}
	if (stats.protocol_errors > node->protocol_errors && !cluster_has(world, CF_FLIP))
		cluster_fail(world, "node %s: a host broke the protocol", node->name);
	node->expiries = stats.keep_alive_expiries;
	node->protocol_errors = stats.protocol_errors;
}

/* A member may be killed only when its data path stands still. */
static void kills_check(struct cluster *world)
{
	if (sim_posix_live_kills() > world->live_kills)
		cluster_fail(world, "a member with a running data path was killed");
	world->live_kills = sim_posix_live_kills();
}

void cluster_check_stats(struct cluster *world)
{
	kills_check(world);
	for (unsigned i = 0; i < world->node_count; i++)
		node_check(&world->nodes[i]);
}

void cluster_check_path(struct cluster_mpath *mpath, unsigned path, const char *what)
{
	struct cluster *world = mpath->host->world;

	cluster_count(world, "path messages", 1);
	if (!cluster_has(world, CF_FLIP) && strstr(what, "rotocol error") != NULL)
		cluster_fail(world, "host %u: path %u ended by a protocol error: %.150s",
			     mpath->host->index, path, what);
}

bool cluster_check_targets_are_empty(struct cluster *world, char why[200])
{
	for (unsigned i = 0; i < world->node_count; i++) {
		struct target *target = sim_node_target(world->nodes[i].node);
		struct target_stats stats;

		snprintf(why, 200, "node %u does not serve", i);
		if (target == NULL)
			return false;
		target_get_stats(target, &stats);
		snprintf(why, 200, "node %u has %u connections, %u controllers, %u buffers left", i,
			 stats.connections, stats.ctrls, stats.buffers_in_use);
		if (stats.connections > 0 || stats.ctrls > 0 || stats.buffers_in_use > 0)
			return false;
	}
	return true;
}
