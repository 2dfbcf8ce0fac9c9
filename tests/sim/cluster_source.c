/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of the cluster world that roll a node back to a former generation (ADR 31). Events run
 * outside of all turns; edits and their results on the node's control reactor.
 *
 * The world remembers each node's document of each generation. After a rollback the node must have
 * exactly that document, or nothing has changed.
 */
#include "cluster_world.h"

#include "daemon/rollback.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HOLD_MAX_MS 300

/* ---- former generations -----------------------------------------------------------------------
 */

/* Records the UUID that this node served last from each medium. */
static void owners_note(struct cluster_node *node)
{
	struct cluster *world = node->world;

	for (unsigned s = 0; s < world->sub_count; s++) {
		for (unsigned n = 0; n < world->subs[s].ns_count; n++) {
			if (!(node->acked.ns_absent[s] >> n & 1) &&
			    !(node->acked.sub_absent >> s & 1))
				node->owners[cluster_medium(world, &node->acked, s, n)->index] =
					node->acked.ns_uuid[s][n];
		}
	}
}

void cluster_past_note(struct cluster_node *node)
{
	uint64_t generation = sim_node_generation(node->node);
	struct cluster_past *past = &node->past[generation % CLUSTER_PAST_MAX];

	if (!cluster_has(node->world, CF_ROLLBACK))
		return;
	owners_note(node);
	if (past->text != NULL && past->generation == generation)
		return;
	free(past->text);
	past->generation = generation;
	past->history = node->history;
	past->desired = node->acked;
	past->text = sim_alloc(strlen(node->acked_text) + 1);
	memcpy(past->text, node->acked_text, strlen(node->acked_text));
}

void cluster_past_free(struct cluster_node *node)
{
	for (unsigned i = 0; i < CLUSTER_PAST_MAX; i++)
		free(node->past[i].text);
}

void cluster_past_forget(struct cluster_node *node, uint64_t generation)
{
	for (unsigned i = 0; i < CLUSTER_PAST_MAX; i++) {
		if (node->past[i].generation <= generation &&
		    node->past[i].history == node->history)
			continue;
		free(node->past[i].text);
		node->past[i] = (struct cluster_past){.text = NULL};
	}
}

/* ---- rollback ---------------------------------------------------------------------------------
 */

static struct cluster_past *past_of(struct cluster_node *node)
{
	return &node->past[node->rollback_to % CLUSTER_PAST_MAX];
}

static int on_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct cluster_node *node = arg;

	node->pending = past_of(node)->desired;
	node->pending_text = past_of(node)->text;
	cluster_epochs_count(node);
	return rollback_edit(sim_node_store(node->node), node->rollback_to, document, errors);
}

/* A namespace came back: no other one may have used its medium since. */
static void owners_check(struct cluster_node *node, const struct cluster_desired *former)
{
	struct cluster *world = node->world;

	for (unsigned s = 0; s < world->sub_count; s++) {
		for (unsigned n = 0; n < world->subs[s].ns_count; n++) {
			const struct uuid *uuid = &node->acked.ns_uuid[s][n];
			unsigned disk = cluster_medium(world, &node->acked, s, n)->index;

			if (!cluster_node_has(world, node->index, s) ||
			    (node->acked.ns_absent[s] >> n & 1) ||
			    (node->acked.sub_absent >> s & 1) ||
			    uuid_equal(uuid, &former->ns_uuid[s][n]))
				continue;
			if (!uuid_equal(uuid, &node->owners[disk]))
				cluster_fail(world,
					     "node %s: a namespace returned to disk %u, which "
					     "another namespace has used since",
					     node->name, disk);
		}
	}
}

static void on_rolled_back(void *arg, int res, uint64_t generation, const char *why)
{
	struct cluster_node *node = arg;
	struct cluster *world = node->world;
	struct prng prng = cluster_prng(world, 76, world->step);
	struct cluster_desired former;

	if (!sim_process_is_alive(sim_node_process(node->node)))
		return;
	node->is_changing = false;
	cluster_hash(world, (uint64_t)(int64_t)res ^ generation << 8);
	sim_trace(world->sim, "operator: node %s: rollback to %" PRIu64 ": %s", node->name,
		  node->rollback_to, res == 0 ? "done" : why);
	cluster_count(world, res == 0 ? "rollbacks" : "rollbacks refused", 1);
	if (res != 0) {
		cluster_change_refused(node, res);
	} else {
		former = node->acked;
		node->acked = node->pending;
		node->is_store_behind = false;
		cluster_acked_take(node);
		if (strcmp(node->acked_text, node->pending_text) != 0)
			cluster_fail(world,
				     "node %s was rolled back to generation %" PRIu64
				     " and has another document",
				     node->name, node->rollback_to);
		owners_check(node, &former);
		cluster_past_note(node);
		cluster_remake_note(node, &former);
	}
	node->change_again_ns = sim_now(world->sim) + prng_below(&prng, HOLD_MAX_MS) * NS_PER_MS;
	node->rollback_to = 0;
	if (!node->may_have_pending)
		node->pending_text = NULL;
}

void cluster_rollback_begin(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];
	uint64_t back = 1 + event->draws[1] % 3;
	uint64_t generation = sim_node_generation(node->node);

	if (sim_node_state(node->node) != SIM_NODE_SERVING || generation <= back ||
	    node->rollback_to != 0 || !cluster_images_are_whole(world))
		return;
	node->rollback_to = generation - back;
	if (past_of(node)->text == NULL || past_of(node)->generation != node->rollback_to)
		node->rollback_to = 0;
	if (event->draws[2] % 3 == 0 && node->rollback_to != 0)
		sim_node_crash_after(node->node, 1 + event->draws[3] % 40, SIM_DEATH_KILLED);
}

void cluster_rollback_submit(struct cluster_node *node)
{
	const struct sim_node_change change = {
		.edit = on_edit, .done = on_rolled_back, .arg = node, .origin = "operator"};

	node->is_changing = true;
	node->pending = past_of(node)->desired;
	node->pending_text = past_of(node)->text;
	sim_node_change(node->node, &change);
}
