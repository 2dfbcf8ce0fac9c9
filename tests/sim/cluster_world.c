/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a scenario of the cluster world: start, troubles, healing, a last check of everything, a
 * clean end. One thread.
 *
 * Between slices of simulated time, outside of all turns, it runs the actions that are due (events,
 * restarts) and checks what must always hold.
 */
#include "cluster_world.h"

#include "sim_store.h"

#include "base/crc32c.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_NS   (10 * NS_PER_MS)
#define START_NS   (20 * NS_PER_S)
#define HEALED_NS  (15 * NS_PER_S)
#define END_NS     (30 * NS_PER_S)
#define IC_BYTES   128
#define KEPT_EVERY 64 /* slices */

void cluster_fail(struct cluster *world, const char *format, ...)
{
	va_list args;

	if (world->is_failed)
		return;
	world->is_failed = true;
	va_start(args, format);
	vsnprintf(world->verdict->what, sizeof(world->verdict->what), format, args);
	va_end(args);
	sim_trace(world->sim, "VIOLATION: %s", world->verdict->what);
}

void cluster_hash(struct cluster *world, uint64_t value)
{
	world->hash = (world->hash ^ value) * 0x100000001b3ull;
	world->hash ^= world->hash >> 29;
}

void cluster_count(struct cluster *world, const char *name, uint64_t value)
{
	if (value > 0)
		sim_counter_add(world->counters, name, value);
}

void cluster_fault(struct cluster *world, uint64_t until_ns)
{
	if (until_ns > world->last_fault_ns)
		world->last_fault_ns = until_ns;
}

/* ---- actions ----------------------------------------------------------------------------------
 */

void cluster_do_at(struct cluster *world, uint64_t at_ns,
		   void (*fn)(struct cluster *world, uint64_t arg), uint64_t arg)
{
	unsigned at = world->action_count++;

	CHECK(at < CLUSTER_ACTIONS_MAX);
	for (; at > 0 && world->actions[at - 1].at_ns > at_ns; at--)
		world->actions[at] = world->actions[at - 1];
	world->actions[at] = (struct cluster_action){.at_ns = at_ns, .fn = fn, .arg = arg};
}

static void actions_run(struct cluster *world)
{
	while (world->action_count > 0 && world->actions[0].at_ns <= sim_now(world->sim)) {
		struct cluster_action action = world->actions[0];

		world->action_count--;
		memmove(world->actions, world->actions + 1,
			world->action_count * sizeof(world->actions[0]));
		action.fn(world, action.arg);
	}
}

static void slice_run(struct cluster *world)
{
	uint64_t until_ns = sim_now(world->sim) + SLICE_NS;

	if (world->action_count > 0 && world->actions[0].at_ns < until_ns)
		until_ns = world->actions[0].at_ns;
	sim_run_until(world->sim, until_ns);
	if (world->is_failed)
		return;
	actions_run(world);
	cluster_ghosts_settle(world);
	cluster_operate(world);
	cluster_hosts_look(world);
	cluster_check_stats(world);
	for (unsigned i = 0; i < world->node_count; i++)
		cluster_check_in_force(&world->nodes[i]);
	if (++world->slices % KEPT_EVERY == 0) {
		for (unsigned i = 0; i < world->node_count; i++)
			cluster_check_kept(&world->nodes[i]);
	}
}

/* Runs until pred is true. False, with the reason, if it is not within limit_ns. */
static bool run_until(struct cluster *world, bool (*pred)(struct cluster *world, char why[200]),
		      uint64_t limit_ns, char why[200])
{
	uint64_t end_ns = sim_now(world->sim) + limit_ns;

	while (!world->is_failed && !pred(world, why)) {
		if (sim_now(world->sim) >= end_ns)
			return false;
		slice_run(world);
	}
	return !world->is_failed;
}

/* ---- conditions to wait for -------------------------------------------------------------------
 */

static bool nodes_serve(struct cluster *world, char why[200])
{
	snprintf(why, 200, "not all nodes serve what they should");
	return cluster_nodes_are_settled(world);
}

static bool all_is_well(struct cluster *world, char why[200])
{
	char text[200];

	/* Images first: a node refuses changes of a lost namespace. */
	snprintf(why, 200, "an image is lost");
	if (cluster_has(world, CF_IMAGE) && !cluster_images_are_served(world))
		return false;
	if (!nodes_serve(world, why))
		return false;
	for (unsigned i = 0; i < world->host_count; i++) {
		if (!cluster_host_is_well(&world->hosts[i], text)) {
			snprintf(why, 200, "host %u: %.180s", i, text);
			return false;
		}
	}
	snprintf(why, 200, "%u commands of dead hosts are under way", world->ghost_count);
	return world->ghost_count == 0 && cluster_discovery_is_well(world, why);
}

static bool hosts_are_gone(struct cluster *world, char why[200])
{
	for (unsigned i = 0; i < world->host_count; i++) {
		snprintf(why, 200, "host %u does not close", i);
		if (world->hosts[i].process != NULL)
			return false;
	}
	snprintf(why, 200, "the discovery client does not close");
	return cluster_discovery_is_gone(world) && cluster_check_targets_are_empty(world, why);
}

static bool nodes_are_down(struct cluster *world, char why[200])
{
	for (unsigned i = 0; i < world->node_count; i++) {
		snprintf(why, 200, "node %u does not end", i);
		if (sim_node_state(world->nodes[i].node) != SIM_NODE_DOWN)
			return false;
	}
	return true;
}

/* ---- a run ------------------------------------------------------------------------------------
 */

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	struct cluster *world = arg;

	/* The PDUs that negotiate digests have none. */
	if (offset >= IC_BYTES && len_bytes > 0 && sim_now(world->sim) < world->flip_until_ns &&
	    prng_one_in(&world->flip_prng, world->flip_one_in)) {
		cluster_count(world, "bits flipped", 1);
		bytes[prng_below(&world->flip_prng, len_bytes)] ^=
			(uint8_t)(1u << prng_below(&world->flip_prng, 8));
	}
	cluster_hash(world, (uint64_t)fd ^ offset << 20 ^ sim_now(world->sim));
	cluster_hash(world, crc32c(bytes, len_bytes));
}

static void world_start(struct cluster *world)
{
	char why[200];

	sim_net_set_tap(world->sim, on_bytes, world);
	world->flip_prng = cluster_prng(world, 50, 0);
	for (unsigned i = 0; i < world->node_count; i++) {
		cluster_node_create(world, &world->nodes[i]);
		sim_node_start(world->nodes[i].node);
	}
	if (!run_until(world, nodes_serve, START_NS, why)) {
		cluster_fail(world, "not all nodes could be started");
		return;
	}
	for (unsigned i = 0; i < world->host_count; i++)
		cluster_host_start(&world->hosts[i]);
	cluster_discovery_start(world);
}

static void world_trouble(struct cluster *world)
{
	uint64_t end_ns = sim_now(world->sim) + world->troubled_ns;

	cluster_events_begin(world);
	while (!world->is_failed && sim_now(world->sim) < end_ns)
		slice_run(world);
}

static void world_end(struct cluster *world)
{
	char why[200];

	world->is_ending = true;
	for (unsigned i = 0; i < world->host_count; i++)
		cluster_host_leave(&world->hosts[i]);
	cluster_discovery_stop(world);
	if (!run_until(world, hosts_are_gone, END_NS, why)) {
		cluster_fail(world, "at the end: %s", why);
		return;
	}
	for (unsigned i = 0; i < world->node_count; i++) {
		cluster_check_kept(&world->nodes[i]);
		sim_node_stop(world->nodes[i].node);
	}
	if (!run_until(world, nodes_are_down, END_NS, why)) {
		cluster_fail(world, "at the end: %s", why);
		return;
	}
	cluster_discovery_free(world);
	if (sim_leaks(world->sim) > 0)
		cluster_fail(world, "at the end %u sockets, timers or messages are left",
			     sim_leaks(world->sim));
}

static void world_play(struct cluster *world)
{
	uint64_t healed_ns;
	char why[200];

	world_start(world);
	if (world->is_failed)
		return;
	world_trouble(world);
	if (world->is_failed)
		return;
	cluster_heal(world);
	healed_ns = sim_now(world->sim);
	if (!run_until(world, all_is_well, HEALED_NS, why)) {
		cluster_fail(world, "the faults have ended, but the cluster has not recovered: %s",
			     why);
		return;
	}
	cluster_count(world, "ms until all was well",
		      (sim_now(world->sim) - healed_ns) / NS_PER_MS);
	world_end(world);
}

static void world_free(struct cluster *world)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		if (world->nodes[i].node != NULL && !world->is_failed)
			sim_node_destroy(world->nodes[i].node);
		free(world->nodes[i].acked_text);
		cluster_past_free(&world->nodes[i]);
		cluster_start_free(&world->nodes[i]);
	}
	for (unsigned i = 0; i < world->host_count; i++) {
		for (unsigned k = 0; k < world->hosts[i].worker_count; k++)
			free(world->hosts[i].workers[k]);
	}
	cluster_twin_free(world);
	for (unsigned i = 0; i < world->disk_count; i++) {
		if (!world->is_failed)
			sim_disk_destroy(world->disks[i].disk);
		model_destroy(world->disks[i].model);
	}
	if (!world->is_failed)
		sim_destroy(world->sim);
	free(world->discovery);
	free(world->values);
	free(world);
}

static void cluster_run(const struct sim_scenario *scenario, struct sim_counters *counters,
			struct sim_verdict *ret_verdict)
{
	struct cluster *world = sim_alloc(sizeof(*world));

	memset(ret_verdict, 0, sizeof(*ret_verdict));
	world->scenario = scenario;
	world->counters = counters;
	world->verdict = ret_verdict;
	world->seed = scenario->seed;
	world->hash = scenario->seed;
	sim_store_init();
	cluster_plan(world);
	world_play(world);
	cluster_hash(world, world->step);
	ret_verdict->is_ok = !world->is_failed;
	ret_verdict->hash = world->hash;
	ret_verdict->simulated_ns = sim_now(world->sim);
	ret_verdict->features_on = world->features;
	world_free(world);
}

const struct sim_world_kind sim_world_cluster = {
	.name = "cluster",
	.features = cluster_feature_names,
	.run = cluster_run,
};
