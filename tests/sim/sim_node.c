/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated weft target over all its lives (sim_node.h). Each life is its own process with a
 * struct daemon (sim_daemon.c). The folder, the first document and pending changes of operators are
 * memory that no process owns. One thread.
 *
 * Each callback of a node counts as an operation, like a send: a process that died at an earlier
 * operation of the same turn calls no more callbacks.
 */
#include "sim_node.h"

#include "sim_daemon.h"
#include "sim_posix.h"
#include "sim_store.h"

#include "base/text.h"
#include "cluster/peers.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_NAME_BYTES 64

struct sim_node {
	struct sim *sim;
	struct sim_node_options options;
	char name[NODE_NAME_BYTES];
	char path[NODE_NAME_BYTES + 8];
	json_t *document;
	struct sim_folder *folder;
	enum sim_node_state state;
	uint64_t lives;
	/* Of this life. */
	struct sim_process *process;
	struct daemon *daemon; /* memory of the process; NULL: none */
	struct sim_mourner mourner;
	struct reactor_msg stop_msg;
	struct list asked; /* struct asked.node: pending changes of operators */
	bool is_released;  /* the daemon ended by itself and is freed; only the process is left */
	int end_res;
	char why[SIM_DAEMON_WHY_BYTES];
};

/* One pending change of an operator. */
struct asked {
	struct list node;
	struct sim_node *owner;
	struct sim_node_change change;
	char origin[128];
	struct reactor_msg msg;
};

static unsigned node_count;

/* ---- the end of a life ----------------------------------------------------------------------- */

static void asked_forget(struct sim_node *node)
{
	struct list *item;

	while ((item = list_pop_front(&node->asked)) != NULL)
		free(list_entry(item, struct asked, node));
}

/* Runs before the process' memory is freed. */
static void node_on_dead(struct sim_mourner *mourner, struct sim_process *process,
			 enum sim_death how)
{
	struct sim_node *node = container_of(mourner, struct sim_node, mourner);
	bool was_released = node->is_released;

	CHECK(node->process == process);
	if (node->daemon && daemon_store(node->daemon))
		sim_store_bury(daemon_store(node->daemon));
	if (how == SIM_DEATH_POWER)
		sim_folder_power_loss(node->folder);
	asked_forget(node);
	node->daemon = NULL;
	node->process = NULL;
	node->state = SIM_NODE_DOWN;
	node->is_released = false;
	if (!was_released) {
		if (node->options.died)
			node->options.died(node->options.arg, node, how);
	} else if (node->end_res < 0) {
		if (node->options.started)
			node->options.started(node->options.arg, node, node->end_res, node->why);
	} else if (node->options.stopped) {
		node->options.stopped(node->options.arg, node);
	}
}

struct ending {
	struct sim_node *node;
	uint64_t life;
};

/* Runs outside of any turn. */
static void node_release(void *arg)
{
	struct ending ending = *(struct ending *)arg;
	struct sim_node *node = ending.node;
	struct sim_process *process = node->process;

	free(arg);
	if (!process || node->lives != ending.life)
		return;
	sim_process_enter(process);
	sim_daemon_release(node->daemon);
	node->daemon = NULL;
	sim_process_leave(process);
	/* It may have died at the store's last write. */
	if (!sim_process_is_alive(process))
		return;
	CHECK(sim_process_allocations(process) == 0);
	node->is_released = true;
	sim_process_kill(process, SIM_DEATH_KILLED);
}

static void node_on_ended(void *arg, int res, const char *why)
{
	struct sim_node *node = arg;
	struct ending *ending = sim_alloc(sizeof(*ending));

	*ending = (struct ending){node, node->lives};
	node->state = SIM_NODE_STOPPING;
	node->end_res = res;
	text_copy(node->why, sizeof(node->why), why);
	sim_at(node->sim, sim_now(node->sim), node_release, ending);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void node_on_serving(void *arg)
{
	struct sim_node *node = arg;

	if (!sim_process_operate(node->process))
		return;
	node->state = SIM_NODE_SERVING;
	if (node->options.started)
		node->options.started(node->options.arg, node, 0, "");
}

struct sim_node *sim_node_create(struct sim *sim, const struct sim_node_options *options)
{
	struct sim_node *node = sim_alloc(sizeof(*node));

	if (node_count++ == 0)
		sim_posix_reset();
	sim_store_init();
	node->sim = sim;
	node->options = *options;
	text_copy(node->name, sizeof(node->name), options->name);
	node->options.name = node->name;
	snprintf(node->path, sizeof(node->path), "/node/%s", node->name);
	node->document = json_deep_copy(options->document);
	CHECK(node->document);
	node->options.document = node->document;
	node->folder = sim_folder_create(sim, node->path, options->seed);
	list_init(&node->asked);
	return node;
}

void sim_node_destroy(struct sim_node *node)
{
	CHECK(node->state == SIM_NODE_DOWN && node_count > 0);
	sim_folder_destroy(node->folder);
	json_decref(node->document);
	free(node);
	if (--node_count == 0)
		sim_posix_reset();
}

void sim_node_start(struct sim_node *node)
{
	sim_node_start_from(node, &(struct sim_node_source){.start = DAEMON_SAME});
}

void sim_node_start_from(struct sim_node *node, const struct sim_node_source *source)
{
	struct sim_daemon_config config = {
		.folder = node->path,
		.document = node->document,
		.source = source->document,
		.source_hash = source->hash,
		.start = source->start,
		.reactor_count = node->options.reactor_count,
		.has_discovery = node->options.has_discovery,
		.serving = node_on_serving,
		.ended = node_on_ended,
		.arg = node,
	};
	struct sim_process *process;

	CHECK(node->state == SIM_NODE_DOWN);
	memcpy(config.buf_counts, node->options.buf_counts, sizeof(config.buf_counts));
	process = sim_process_create(node->sim, node->name);
	sim_process_set_clock(process, node->options.clock_offset_ns,
			      node->options.clock_drift_ppm);
	node->lives++;
	sim_posix_seed(process, node->options.seed * 1000003 + node->lives);
	node->mourner = (struct sim_mourner){.dead = node_on_dead};
	sim_process_add_mourner(process, &node->mourner);
	node->process = process;
	node->state = SIM_NODE_STARTING;
	node->end_res = 0;
	sim_process_enter(process);
	node->daemon = sim_daemon_create(&config);
	sim_process_leave(process);
	sim_daemon_begin(node->daemon);
}

static void node_on_stop(struct reactor_msg *msg)
{
	daemon_stop(container_of(msg, struct sim_node, stop_msg)->daemon, 0);
}

void sim_node_stop(struct sim_node *node)
{
	CHECK(node->state == SIM_NODE_SERVING);
	node->state = SIM_NODE_STOPPING;
	reactor_post(daemon_control(node->daemon), &node->stop_msg, node_on_stop);
}

void sim_node_kill(struct sim_node *node, enum sim_death how)
{
	CHECK(node->process);
	sim_process_kill(node->process, how);
}

void sim_node_crash_after(struct sim_node *node, uint64_t operations, enum sim_death how)
{
	CHECK(node->process);
	sim_process_crash_after(node->process, operations, how);
}

void sim_node_freeze(struct sim_node *node, uint64_t until_ns)
{
	CHECK(node->process);
	sim_process_freeze(node->process, until_ns);
}

/* ---- looking at it --------------------------------------------------------------------------- */

enum sim_node_state sim_node_state(const struct sim_node *node)
{
	return node->state;
}

struct sim_process *sim_node_process(struct sim_node *node)
{
	return node->process;
}

struct sim_folder *sim_node_folder(struct sim_node *node)
{
	return node->folder;
}

static void facts_get(struct sim_node *node, struct daemon_facts *ret_facts)
{
	*ret_facts = (struct daemon_facts){0};
	if (node->daemon)
		daemon_get_facts(node->daemon, ret_facts);
}

void sim_node_freeze_control(struct sim_node *node, uint64_t until_ns)
{
	CHECK(node->daemon);
	sim_freeze(daemon_control(node->daemon), until_ns);
}

void sim_node_freeze_reactor(struct sim_node *node, unsigned index, uint64_t until_ns)
{
	struct daemon_facts facts;

	CHECK(node->daemon);
	facts_get(node, &facts);
	sim_freeze(facts.reactors[index % facts.reactor_count], until_ns);
}

struct target *sim_node_target(struct sim_node *node)
{
	struct daemon_facts facts;

	facts_get(node, &facts);
	return facts.target;
}

uint64_t sim_node_lives(const struct sim_node *node)
{
	return node->lives;
}

unsigned sim_node_peers(struct sim_node *node, struct peer_info infos[PEERS_MAX])
{
	struct daemon_facts facts;

	facts_get(node, &facts);
	return facts.peers ? peers_read(facts.peers, infos) : 0;
}

struct media_registry *sim_node_registry(struct sim_node *node)
{
	return node->daemon ? daemon_registry(node->daemon) : NULL;
}

struct store *sim_node_store(struct sim_node *node)
{
	return node->daemon ? daemon_store(node->daemon) : NULL;
}

/* A stopping node still ends changes until its control reactor handles the stop. */
static bool has_document(const struct sim_node *node)
{
	return node->daemon &&
	       (node->state == SIM_NODE_SERVING || node->state == SIM_NODE_STOPPING);
}

json_t *sim_node_document(struct sim_node *node)
{
	return has_document(node) ? config_to_json(daemon_config(node->daemon)) : NULL;
}

uint64_t sim_node_generation(const struct sim_node *node)
{
	return has_document(node) ? daemon_generation(node->daemon) : 0;
}

json_t *sim_node_kept_document(struct sim_node *node)
{
	struct store_error error;
	json_t *document = NULL;

	if (node->state == SIM_NODE_SERVING)
		(void)store_load_document(daemon_store(node->daemon), &document, &error);
	return document;
}

/* ---- operators ------------------------------------------------------------------------------- */

static int asked_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct asked *asked = arg;

	return asked->change.edit(document, asked->change.arg, errors);
}

static void asked_done(void *arg, struct change_result *result)
{
	struct asked *asked = arg;
	struct sim_node *node = asked->owner;
	const struct sim_node_change change = asked->change;

	/* A dead process reports nothing; node_on_dead frees the change. */
	if (!sim_process_operate(node->process))
		return;
	list_remove(&asked->node);
	free(asked);
	if (change.done)
		change.done(change.arg, result->res, result->generation,
			    result->errors.count > 0 ? result->errors.texts[0] : "");
}

static void asked_begin(struct reactor_msg *msg)
{
	struct asked *asked = container_of(msg, struct asked, msg);

	daemon_change(asked->owner->daemon, &(struct change){
						    .edit = asked_edit,
						    .done = asked_done,
						    .arg = asked,
						    .origin = asked->origin,
						    .is_forced = asked->change.is_forced,
					    });
}

void sim_node_change(struct sim_node *node, const struct sim_node_change *change)
{
	struct asked *asked = sim_alloc(sizeof(*asked));

	CHECK(node->state == SIM_NODE_SERVING);
	asked->owner = node;
	asked->change = *change;
	text_copy(asked->origin, sizeof(asked->origin),
		  change->origin ? change->origin : "operator");
	list_push_back(&node->asked, &asked->node);
	reactor_post(daemon_control(node->daemon), &asked->msg, asked_begin);
}
