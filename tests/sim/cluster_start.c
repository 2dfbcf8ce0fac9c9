/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts of nodes in the cluster world with another source than their saved state (ADR 31): another
 * file or flags, with and without --merge and --reset; a state restored from a backup; a missing
 * state. Events and starts run outside of all turns; cluster_start_served on the node's control
 * reactor.
 *
 * What must hold: another source without --merge or --reset is refused, and the next start finds
 * every change. --merge keeps what the source does not mention. After --reset the node has exactly
 * the source's document, and the former state is in a file beside it, which is restored later. A
 * start that dies half way leaves one of the two states. A restored state is complete.
 *
 * The seed alone selects this. All numbers come from generators of their own, so that the plans of
 * other seeds do not change.
 */
#include "cluster_world.h"

#include "sim_store.h"

#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PURPOSE_START  80
#define RESETS_MAX     6 /* of a node: each leaves a file */
#define START_CRASH    60
#define OTHER_VERSIONS 1000000u /* never desired */

bool cluster_start_is_on(uint64_t seed)
{
	return seed % 8 == 4;
}

void cluster_start_features(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_START, 0);
	uint64_t draw = prng_next(&prng);

	/* Fewer other features. Reservations and sizes of namespaces revert with the state, at a
	 * time that only the node knows. */
	world->features &= prng_next(&prng) >> 4 | 1ull << CF_NODE_CRASH | 1ull << CF_STORE_ERROR;
	world->features &= ~(1ull << CF_RESERVE | 1ull << CF_GROW);
	world->features |= 1ull << CF_SOURCE;
	if (draw & 1)
		world->features |= 1ull << CF_REMAKE;
	if (draw >> 8 & 1)
		world->features |= 1ull << CF_ROLLBACK;
}

/* A third of all events become those of this file. */
void cluster_start_plan(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_START, 1);

	for (unsigned i = 0; i < world->event_count; i++) {
		struct cluster_event *event = &world->events[i];
		uint64_t last_ms = 30 + prng_below(&prng, 1000);

		if (prng_below(&prng, 3) != 0)
			continue;
		event->kind = CEV_SOURCE;
		event->last_ns = last_ms * NS_PER_MS;
		event->is_off =
			!cluster_has(world, CF_SOURCE) || !scenario_has_event(world->scenario, i);
	}
}

/* ---- backups ----------------------------------------------------------------------------------
 */

static char *text_copy_of(const char *text)
{
	char *copy = sim_alloc(strlen(text) + 1);

	memcpy(copy, text, strlen(text) + 1);
	return copy;
}

static void backup_forget(struct cluster_backup *backup)
{
	free(backup->files);
	free(backup->text);
	*backup = (struct cluster_backup){.files = NULL};
}

/* The files hold what the node has acknowledged. */
static void backup_put(struct cluster_node *node, struct sim_backup *taken_files)
{
	struct cluster_backup *backup = &node->backup;

	backup_forget(backup);
	backup->files = taken_files;
	backup->desired = node->acked;
	backup->text = text_copy_of(node->acked_text);
	backup->generation = node->generation;
	backup->history = node->history;
	memcpy(backup->owners, node->owners, sizeof(backup->owners));
}

static bool is_sure(const struct cluster_node *node)
{
	return node->acked_text && !node->may_have_pending && !node->is_changing &&
	       !node->is_store_behind;
}

/* ---- before the start -------------------------------------------------------------------------
 */

/* The node has an older state: its document counts as acknowledged. */
static void acked_return(struct cluster_node *node, const struct cluster_desired *desired,
			 char *taken_text, uint64_t generation)
{
	struct cluster_desired former = node->acked;

	node->pending = *desired;
	cluster_epochs_count(node);
	node->acked = *desired;
	free(node->acked_text);
	node->acked_text = taken_text;
	node->generation = generation;
	node->may_have_pending = false;
	node->source = 0;
	cluster_past_forget(node, generation);
	cluster_remake_note(node, &former);
}

static void state_restore(struct cluster_node *node)
{
	const struct cluster_backup *backup = &node->backup;

	sim_folder_restore(sim_node_folder(node->node), backup->files);
	node->history = backup->history;
	acked_return(node, &backup->desired, text_copy_of(backup->text), backup->generation);
	memcpy(node->owners, backup->owners, sizeof(node->owners));
}

/* Deletes the state: the next start is a first one. */
static void state_lose(struct cluster_node *node)
{
	sim_folder_restore(sim_node_folder(node->node), NULL);
	node->history = ++node->last_history;
	acked_return(node, &node->first, NULL, 0);
	memset(node->owners, 0, sizeof(node->owners));
}

/* Removes parts of the source. --merge must keep them from the saved state. */
static void document_thin(struct cluster_node *node)
{
	struct prng prng = cluster_prng(node->world, PURPOSE_START + 1, node->start_number);
	json_t *subsystems = json_object_get(node->source_document, "subsystems");
	json_t *namespaces = json_object_get(json_array_get(subsystems, 0), "namespaces");

	if (prng_one_in(&prng, 2))
		json_object_del(node->source_document, "ports");
	if (prng_one_in(&prng, 2))
		json_object_del(node->source_document, "limits");
	if (prng_one_in(&prng, 2))
		json_array_clear(namespaces);
	else if (prng_one_in(&prng, 2))
		json_array_remove(subsystems, 1);
}

/* Makes a new version desired and gives it to this node as its source. */
static void source_change(struct cluster_node *node)
{
	struct cluster *world = node->world;

	world->desired.version++;
	node->pending = world->desired;
	cluster_epochs_count(node);
	free(node->start_text);
	node->start_text = cluster_document_text(world, node->index, &node->pending);
	node->pending_text = node->start_text;
	node->may_have_pending = true;
	node->source = 0;
	node->source_desired = node->pending;
	node->source_document = cluster_document(world, node->index, &node->pending);
}

/* The kind of the next start, or START_PLAIN where the node's state does not allow that kind. */
static enum cluster_start start_settle(const struct cluster_node *node)
{
	const struct cluster *world = node->world;

	switch (node->next_start) {
	case START_SAME:
		return node->source != 0 ? START_SAME : START_PLAIN;
	case START_OTHER:
		return node->acked_text ? START_OTHER : START_PLAIN;
	case START_MERGE:
		return is_sure(node) && node->acked.version == world->desired.version ? START_MERGE
										      : START_PLAIN;
	case START_RESET:
		return is_sure(node) && node->resets < RESETS_MAX ? START_RESET : START_PLAIN;
	case START_BACKUP:
		return node->backup.files ? START_BACKUP : START_PLAIN;
	default:
		return node->next_start;
	}
}

static void source_prepare(struct cluster_node *node)
{
	struct cluster_desired other = node->world->desired;

	json_decref(node->source_document);
	node->source_document = NULL;
	if (node->start == START_SAME) {
		node->source_document =
			cluster_document(node->world, node->index, &node->source_desired);
		return; /* with the same hash */
	}
	/* A refusal must change nothing: the node must not know the source the next time. */
	node->start_number += !node->is_start_again;
	snprintf(node->source_hash, sizeof(node->source_hash), "source %" PRIu64,
		 node->start_number);
	other.version = OTHER_VERSIONS + node->start_number;
	if (node->start == START_OTHER)
		node->source_document = cluster_document(node->world, node->index, &other);
	else
		source_change(node);
	if (node->start == START_MERGE)
		document_thin(node);
}

void cluster_start(struct cluster_node *node)
{
	static const enum daemon_start flags[START_KINDS] = {
		[START_MERGE] = DAEMON_MERGE, [START_RESET] = DAEMON_RESET};
	static const char *const names[START_KINDS] = {
		[START_SAME] = "starts with the same source",
		[START_OTHER] = "starts with another source",
		[START_MERGE] = "starts with --merge",
		[START_RESET] = "starts with --reset",
		[START_BACKUP] = "starts with a restored state",
		[START_GONE] = "starts without their state",
	};
	struct sim_node_source source = {.start = DAEMON_SAME};

	node->start = start_settle(node);
	node->next_start = START_PLAIN;
	if (node->start == START_PLAIN) {
		sim_node_start(node->node);
		return;
	}
	sim_trace(node->world->sim, "node %s %s", node->name, names[node->start]);
	cluster_count(node->world, names[node->start], 1);
	if (node->start == START_BACKUP) {
		state_restore(node);
	} else if (node->start == START_GONE) {
		state_lose(node);
	} else {
		source_prepare(node);
		source.document = node->source_document;
		source.hash = node->source_hash;
		source.start = flags[node->start];
	}
	sim_node_start_from(node->node, &source);
	/* Losing power tests that writes to a restored state are as stable as before. */
	if (node->start_crash > 0 && !node->world->is_healed)
		sim_node_crash_after(
			node->node, node->start_crash * (node->start == START_BACKUP ? 8 : 1),
			node->start == START_BACKUP ? SIM_DEATH_POWER : SIM_DEATH_KILLED);
	node->start_crash = 0;
}

/* ---- after the start --------------------------------------------------------------------------
 */

/* The former state must be in a file beside the new one. It becomes the next backup. */
static void copy_check(struct cluster_node *node)
{
	struct sim_backup *copy;
	char name[64];

	snprintf(name, sizeof(name), STORE_FILE ".reset-%" PRIu64, node->generation);
	copy = sim_folder_backup_file(sim_node_folder(node->node), name, STORE_FILE);
	if (copy)
		backup_put(node, copy);
	else
		cluster_fail(node->world,
			     "node %s: --reset has left no copy of generation %" PRIu64, node->name,
			     node->generation);
}

void cluster_start_served(struct cluster_node *node)
{
	struct cluster *world = node->world;
	struct cluster_desired former = node->acked;
	enum cluster_start start = node->start;

	node->start = START_PLAIN;
	node->is_start_again = false;
	if (start == START_OTHER)
		cluster_fail(world,
			     "node %s started with another source, without --merge or --reset",
			     node->name);
	if (start != START_MERGE && start != START_RESET)
		return;
	if (start == START_RESET) {
		node->resets++;
		copy_check(node);
	}
	node->acked = node->pending;
	cluster_acked_take(node);
	if (strcmp(node->acked_text, node->start_text) != 0) {
		sim_trace(world->sim, "it has %s", node->acked_text);
		sim_trace(world->sim, "instead of %s", node->start_text);
		cluster_fail(world,
			     "node %s started with %s and has another document than expected",
			     node->name, start == START_RESET ? "--reset" : "--merge");
	}
	node->source = node->start_number;
	cluster_remake_note(node, &former);
}

bool cluster_start_refused(struct cluster_node *node, int res)
{
	bool is_right = node->start == START_OTHER;

	/* All sources are valid: only the store or a medium may make a start fail. */
	if (res == -EINVAL && !is_right)
		cluster_fail(node->world, "node %s refused to start with %s", node->name,
			     node->start == START_MERGE   ? "--merge"
			     : node->start == START_RESET ? "--reset"
							  : "its own state");
	node->start = START_PLAIN;
	node->is_start_again = is_right && !node->is_start_again;
	if (node->is_start_again)
		node->next_start = START_OTHER;
	return is_right;
}

/* ---- events -----------------------------------------------------------------------------------
 */

void cluster_start_begin(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = &world->nodes[event->draws[0] % world->node_count];
	enum cluster_start start =
		(enum cluster_start)(START_SAME + event->draws[1] % (START_KINDS - START_SAME));
	bool is_serving = sim_node_state(node->node) == SIM_NODE_SERVING;

	if (!node->backup.files && is_serving && is_sure(node)) {
		backup_put(node, sim_folder_backup(sim_node_folder(node->node)));
		if (start == START_BACKUP)
			return;
	}
	if (start == START_SAME && node->source == 0)
		start = START_RESET;
	node->next_start = start;
	node->is_start_again = false;
	node->start_crash = event->draws[2] % 3 == 0 ? 1 + event->draws[3] % START_CRASH : 0;
	if (!is_serving)
		return;
	node->down_ns = event->last_ns;
	if (event->draws[2] / 3 % 2 == 0)
		sim_node_stop(node->node);
	else
		sim_node_kill(node->node, SIM_DEATH_KILLED);
}

void cluster_start_free(struct cluster_node *node)
{
	backup_forget(&node->backup);
	free(node->start_text);
	json_decref(node->source_document);
}
