/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and their operator: documents, starts and changes, and a check after each start that the
 * node still has the state that it acknowledged. Callbacks run on the nodes' control reactors,
 * everything else outside of all turns.
 *
 * The operator submits one desired state (world->desired) to each serving node that lacks it. So a
 * node that was down gets it after its start, and a refused change is retried. The document holds
 * the version as the model of the first subsystem.
 */
#include "cluster_world.h"

#include "sim_store.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANGE_AGAIN_NS (100 * NS_PER_MS)
#define START_AGAIN_NS  (200 * NS_PER_MS)
#define CNTLIDS         20000u

bool cluster_node_has(const struct cluster *world, unsigned node, unsigned sub)
{
	return world->subs[sub].is_shared || world->subs[sub].node == node;
}

/* ---- documents --------------------------------------------------------------------------------
 */

static json_t *ns_document(const struct cluster *world, const struct cluster_disk *disk,
			   const struct cluster_desired *desired)
{
	unsigned bit = 1u << (disk->nsid - 1);
	unsigned parts = desired->ns_grown[disk->subsystem] & bit ? 2 : 1;
	const struct uuid *uuid = &desired->ns_uuid[disk->subsystem][disk->nsid - 1];
	char media[96];
	char uuid_text[UUID_TEXT_BYTES];
	json_t *hidden = json_array();

	snprintf(media, sizeof(media), "file:/disk/%s,size=%u,block=%u", disk->options.name,
		 parts * CLUSTER_PART_BLOCKS * world->block_bytes, world->block_bytes);
	for (unsigned i = 0; i < world->host_count; i++) {
		if (desired->ns_hidden[disk->subsystem][disk->nsid - 1] >> i & 1)
			json_array_append_new(hidden, json_string(world->hosts[i].nqn));
	}
	return json_pack("{s:o, s:i, s:s, s:s, s:i, s:b, s:b}", "hidden_from", hidden, "nsid",
			 (int)disk->nsid, "media", media, "uuid", uuid_format(uuid, uuid_text),
			 "ana_group", (int)disk->nsid, "clustered",
			 (int)world->subs[disk->subsystem].is_shared, "read_only",
			 (desired->ns_read_only[disk->subsystem] & bit) != 0);
}

static json_t *sub_document(const struct cluster *world, unsigned index,
			    const struct cluster_desired *desired)
{
	const struct cluster_sub *sub = &world->subs[index];
	json_t *namespaces = json_array();
	json_t *hosts = json_array();
	char model[32];

	snprintf(model, sizeof(model), "v%" PRIu64, desired->version);
	for (unsigned i = 0; i < sub->ns_count; i++) {
		if (!(desired->ns_absent[index] >> i & 1))
			json_array_append_new(namespaces,
					      ns_document(world,
							  cluster_medium(world, desired, index, i),
							  desired));
	}
	for (unsigned i = 0; i < world->host_count; i++) {
		if (!(desired->host_revoked[index] >> i & 1))
			json_array_append_new(hosts, json_string(world->hosts[i].nqn));
	}
	return json_pack("{s:s, s:s, s:s, s:o, s:o}", "nqn", sub->nqn, "serial", "CLUSTER", "model",
			 index == 0 ? model : "weft", "hosts", hosts, "namespaces", namespaces);
}

static const char *ana_name(enum ana_state state)
{
	switch (state) {
	case ANA_NON_OPTIMIZED:
		return "non-optimized";
	case ANA_INACCESSIBLE:
		return "inaccessible";
	case ANA_PERSISTENT_LOSS:
		return "persistent-loss";
	case ANA_CHANGE:
		return "change";
	default:
		return "optimized";
	}
}

static json_t *port_document(const struct cluster *world, unsigned node, unsigned port,
			     const struct cluster_desired *desired)
{
	json_t *ana = json_array();
	char address[NET_ADDR_TEXT_BYTES];

	for (unsigned g = 0; g < CLUSTER_NS_MAX; g++) {
		if (desired->ana[node][port][g] != ANA_OPTIMIZED)
			json_array_append_new(ana,
					      json_pack("{s:i, s:s}", "group", (int)g + 1, "state",
							ana_name(desired->ana[node][port][g])));
	}
	return json_pack("{s:i, s:s, s:s, s:o}", "id", (int)(node * 10 + port + 1), "address",
			 net_addr_format_host(&world->nodes[node].addrs[port], address), "service",
			 "4420", "ana", ana);
}

static const char *peer_address(const struct cluster *world, unsigned node, char text[48])
{
	if (world->peer_kind == 2)
		snprintf(text, 48, "10.0.%u.1:4430", node + 1);
	else
		snprintf(text, 48, "unix:/run/%s.peer", world->nodes[node].name);
	return text;
}

static json_t *cluster_member(const struct cluster *world, unsigned node)
{
	json_t *peers = json_array();
	char address[48];

	for (unsigned i = 0; i < world->node_count; i++) {
		if (i != node)
			json_array_append_new(peers, json_pack("{s:s, s:s, s:[i,i]}", "name",
							       world->nodes[i].name, "address",
							       peer_address(world, i, address),
							       "cntlids", (int)(i * CNTLIDS + 1),
							       (int)((i + 1) * CNTLIDS)));
	}
	return json_pack("{s:s, s:s, s:s, s:[i,i], s:s, s:o}", "name", world->nodes[node].name,
			 "listen", peer_address(world, node, address), "secret_file",
			 "/cluster.secret", "cntlids", (int)(node * CNTLIDS + 1),
			 (int)((node + 1) * CNTLIDS), "fence",
			 world->peer_kind == 0 ? "kill" : "none", "peers", peers);
}

json_t *cluster_document(const struct cluster *world, unsigned node,
			 const struct cluster_desired *desired)
{
	json_t *subsystems = json_array();
	json_t *ports = json_array();
	json_t *document;

	for (unsigned i = 0; i < world->sub_count; i++) {
		if (cluster_node_has(world, node, i) && !(desired->sub_absent >> i & 1))
			json_array_append_new(subsystems, sub_document(world, i, desired));
	}
	for (unsigned i = 0; i < world->nodes[node].port_count; i++) {
		if (!(desired->port_absent[node] >> i & 1))
			json_array_append_new(ports, port_document(world, node, i, desired));
	}
	document = json_pack("{s:i, s:o, s:o, s:{s:i}}", "version", 1, "subsystems", subsystems,
			     "ports", ports, "limits", "quiesce_ms", (int)world->quiesce_ms);
	CHECK(document != NULL);
	if (world->node_count > 1)
		json_object_set_new(document, "cluster", cluster_member(world, node));
	return document;
}

/* In the world's memory. */
static char *document_text(json_t *taken_document)
{
	char *text;
	char *copy;

	CHECK(taken_document != NULL);
	text = json_dumps(taken_document, JSON_SORT_KEYS | JSON_COMPACT);
	CHECK(text != NULL);
	copy = sim_alloc(strlen(text) + 1);
	memcpy(copy, text, strlen(text));
	free(text);
	json_decref(taken_document);
	return copy;
}

char *cluster_document_text(struct cluster *world, unsigned node,
			    const struct cluster_desired *desired)
{
	json_t *document = cluster_document(world, node, desired);
	struct config_errors errors = {.count = 0};
	struct config *config;
	char *text;

	CHECK(config_load_json(document, &config, &errors) == 0);
	CHECK(config_identify(config, NULL, &errors) == 0);
	text = document_text(config_to_json(config));
	config_free(config);
	json_decref(document);
	return text;
}

static bool text_has_version(const char *text, uint64_t version)
{
	char model[48];

	snprintf(model, sizeof(model), "\"model\":\"v%" PRIu64 "\"", version);
	return strstr(text, model) != NULL;
}

/* ---- changes ----------------------------------------------------------------------------------
 */

/*
 * From now on commands that a newly allowed host sent earlier may land. Counted when the node edits
 * its document, not when the operator changes the desired state: until a node that is down or
 * refuses the change has it, the host is shut out and its commands wait for a path.
 */
void cluster_epochs_count(struct cluster_node *node)
{
	for (unsigned s = 0; s < CLUSTER_SUBS_MAX; s++) {
		for (unsigned h = 0; h < CLUSTER_HOSTS_MAX; h++) {
			if (!(node->pending.host_revoked[s] >> h & 1))
				node->world->allow_epochs[s][h]++;
		}
	}
}

/* A lost image cannot grow, and an image that grew through another node is refused with its former
 * size. So the operator alternates: a retry alone, then one with the whole desired state. */
static const struct cluster_desired *wanted_next(const struct cluster_node *node)
{
	return node->retry_disk != NULL && node->retries % 2 == 1 ? &node->acked
								  : &node->world->desired;
}

static int on_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct cluster_node *node = arg;
	json_t *wanted;

	node->pending = *wanted_next(node);
	node->pending_text = NULL;
	cluster_epochs_count(node);
	wanted = cluster_document(node->world, node->index, &node->pending);
	cluster_image_edit(node, wanted, errors);
	json_object_clear(document);
	json_object_update(document, wanted);
	json_decref(wanted);
	return 0;
}

static void acked_set(struct cluster_node *node, char *taken_text)
{
	free(node->acked_text);
	node->acked_text = taken_text;
	node->may_have_pending = false;
	node->generation = sim_node_generation(node->node);
}

void cluster_acked_take(struct cluster_node *node)
{
	acked_set(node, document_text(sim_node_document(node->node)));
}

void cluster_change_refused(struct cluster_node *node, int res)
{
	struct cluster *world = node->world;
	char *text = document_text(sim_node_document(node->node));

	/* The store could not erase the change from its disk: the next life may have it. */
	if (res == -ENOTRECOVERABLE)
		node->may_have_pending = true;
	cluster_count(world, "changes refused", 1);
	node->change_again_ns = sim_now(world->sim) + CHANGE_AGAIN_NS;
	/* A change that was neither kept nor taken back (the log reports it) is kept with the next
	 * one. */
	node->is_store_behind = strcmp(text, node->acked_text) != 0;
	cluster_count(world, "changes neither kept nor taken back", node->is_store_behind);
	free(text);
}

static void on_changed(void *arg, int res, uint64_t generation, const char *why)
{
	struct cluster_node *node = arg;
	struct cluster *world = node->world;
	struct cluster_desired former;

	/* Nobody receives the answer of a dying process. */
	if (!sim_process_is_alive(sim_node_process(node->node)))
		return;
	node->is_changing = false;
	cluster_hash(world, (uint64_t)(int64_t)res ^ generation << 8);
	sim_trace(world->sim, "operator: node %s: version %" PRIu64 ": %s", node->name,
		  node->pending.version, res == 0 ? "done" : why);
	if (res != 0) {
		cluster_change_refused(node, res);
		cluster_image_done(node, res);
		return;
	}
	cluster_count(world, "changes", 1);
	former = node->acked;
	node->acked = node->pending;
	node->is_store_behind = false;
	cluster_image_done(node, 0);
	cluster_remake_note(node, &former);
	cluster_acked_take(node);
	cluster_past_note(node);
	if (!text_has_version(node->acked_text, node->acked.version))
		cluster_fail(world, "node %s acknowledged version %" PRIu64 " and has another",
			     node->name, node->acked.version);
}

static bool node_can_be_asked(const struct cluster_node *node)
{
	return sim_node_state(node->node) == SIM_NODE_SERVING &&
	       sim_process_frozen_until(sim_node_process(node->node)) == 0;
}

static bool desired_has(const struct cluster *world, const struct cluster_desired *desired,
			const struct cluster_disk *disk)
{
	unsigned ns = disk->nsid - 1;

	return !(desired->sub_absent >> disk->subsystem & 1) &&
	       !(desired->ns_absent[disk->subsystem] >> ns & 1) &&
	       cluster_medium(world, desired, disk->subsystem, ns) == disk;
}

/* Adding a namespace whose image is missing would create an empty image. */
static bool adds_what_is_lost(const struct cluster_node *node)
{
	const struct cluster *world = node->world;

	for (unsigned i = 0; i < world->disk_count && cluster_has(world, CF_IMAGE); i++) {
		const struct cluster_disk *disk = &world->disks[i];

		if (!desired_has(world, &node->acked, disk) &&
		    desired_has(world, &world->desired, disk) &&
		    (!sim_disk_is_whole(disk->disk) || disk->is_given_up))
			return true;
	}
	return false;
}

void cluster_operate(struct cluster *world)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		struct cluster_node *node = &world->nodes[i];
		struct sim_node_change change = {.edit = on_edit,
						 .done = on_changed,
						 .arg = node,
						 .origin = "operator",
						 .is_forced = node->retry_disk != NULL};

		if (node->rollback_to != 0 && !cluster_images_are_whole(world))
			node->rollback_to = 0;
		if (node->rollback_to != 0 && !node->is_changing && node_can_be_asked(node)) {
			cluster_rollback_submit(node);
			continue;
		}
		if (node->is_changing || node->acked.version == world->desired.version ||
		    sim_now(world->sim) < node->change_again_ns || !node_can_be_asked(node) ||
		    adds_what_is_lost(node))
			continue;
		node->is_changing = true;
		node->pending = *wanted_next(node);
		sim_node_change(node->node, &change);
	}
}

bool cluster_nodes_are_settled(const struct cluster *world)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		const struct cluster_node *node = &world->nodes[i];

		if (sim_node_state(node->node) != SIM_NODE_SERVING || node->is_changing ||
		    node->acked.version != world->desired.version)
			return false;
	}
	return true;
}

bool cluster_is_revoked(const struct cluster *world, unsigned sub, unsigned host)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		const struct cluster_node *node = &world->nodes[i];

		if (!cluster_node_has(world, i, sub))
			continue;
		/* If the node's store is behind, an older change may be in force. */
		if (!(node->acked.host_revoked[sub] >> host & 1) || node->is_store_behind)
			return false;
		if ((node->is_changing || node->may_have_pending) &&
		    !(node->pending.host_revoked[sub] >> host & 1))
			return false;
	}
	return true;
}

void cluster_check_kept(struct cluster_node *node)
{
	char *kept;
	char *now;

	if (node->is_changing || node->is_store_behind || !node_can_be_asked(node))
		return;
	kept = document_text(sim_node_kept_document(node->node));
	now = document_text(sim_node_document(node->node));
	if (strcmp(kept, now) != 0)
		cluster_fail(node->world, "node %s keeps another document than is in force",
			     node->name);
	free(kept);
	free(now);
}

void cluster_check_in_force(struct cluster_node *node)
{
	const struct subsystem *subsystem;
	char model[32];

	if (node->is_changing || node->is_store_behind || !node_can_be_asked(node))
		return;
	subsystem = snapshot_find_subsystem(target_snapshot(sim_node_target(node->node)),
					    node->world->subs[0].nqn);
	snprintf(model, sizeof(model), "v%" PRIu64, node->acked.version);
	if (subsystem != NULL && strcmp(subsystem->model, model) != 0)
		cluster_fail(node->world, "node %s has %s in force, and acknowledged %s",
			     node->name, subsystem->model, model);
}

/* ---- life -------------------------------------------------------------------------------------
 */

static void action_start(struct cluster *world, uint64_t arg)
{
	struct cluster_node *node = &world->nodes[arg];

	node->is_restarting = false;
	if (sim_node_state(node->node) != SIM_NODE_DOWN)
		return;
	sim_trace(world->sim, "node %s: start", node->name);
	cluster_start(node);
}

void cluster_node_start_later(struct cluster_node *node, uint64_t delay_ns)
{
	if (node->is_restarting)
		return;
	node->is_restarting = true;
	cluster_do_at(node->world, sim_now(node->world->sim) + delay_ns, action_start, node->index);
}

/* The document must be the last acknowledged one, or the one in progress before the start. */
static void document_check(struct cluster_node *node)
{
	struct cluster *world = node->world;
	char *text = document_text(sim_node_document(node->node));
	struct cluster_desired former = node->acked;

	if (node->acked_text == NULL || strcmp(text, node->acked_text) == 0) {
		if (!text_has_version(text, node->acked.version))
			cluster_fail(world, "node %s started with another version", node->name);
		acked_set(node, text);
		cluster_image_started(node);
		cluster_past_note(node);
		return;
	}
	if (node->may_have_pending && text_has_version(text, node->pending.version) &&
	    (node->pending_text == NULL || strcmp(text, node->pending_text) == 0)) {
		node->acked = node->pending;
		acked_set(node, text);
		cluster_image_started(node);
		cluster_past_note(node);
		cluster_remake_note(node, &former);
		return;
	}
	sim_trace(world->sim, "it has %s", text);
	sim_trace(world->sim, "instead of %s", node->acked_text);
	cluster_fail(world, "node %s lost its version %" PRIu64 " when it was restarted",
		     node->name, node->acked.version);
	free(text);
}

static void on_started(void *arg, struct sim_node *sim_node, int res, const char *why)
{
	struct cluster_node *node = arg;
	struct cluster *world = node->world;

	(void)sim_node;
	sim_trace(world->sim, "node %s: %s%s", node->name,
		  res == 0 ? "serves" : "could not start: ", res == 0 ? "" : why);
	cluster_hash(world, (uint64_t)(int64_t)res);
	if (res == 0) {
		node->start_failures = 0;
		cluster_count(world, "node starts", 1);
		cluster_twin_started(node);
		cluster_start_served(node);
		document_check(node);
		return;
	}
	if (cluster_start_refused(node, res)) {
		cluster_node_start_later(node, START_AGAIN_NS);
		return;
	}
	cluster_count(world, "node starts refused", 1);
	if (++node->start_failures > 200)
		cluster_fail(world, "node %s cannot be started: %s", node->name, why);
	cluster_node_start_later(node, START_AGAIN_NS);
}

static void node_is_down(struct cluster_node *node)
{
	if (node->is_changing)
		node->may_have_pending = true;
	node->is_changing = false;
	node->is_store_behind = false;
	node->rollback_to = 0;
	if (!node->is_restarting && !node->world->is_failed && !node->world->is_ending)
		cluster_node_start_later(node, START_AGAIN_NS + node->down_ns);
	node->down_ns = 0;
}

/* The node's own disks lose power with it. Shared disks count as another machine's. */
static void action_power(struct cluster *world, uint64_t arg)
{
	for (unsigned i = 0; i < world->disk_count; i++) {
		const struct cluster_sub *sub = &world->subs[world->disks[i].subsystem];

		if (!sub->is_shared && sub->node == arg)
			cluster_disk_lose(&world->disks[i]);
	}
}

static void on_stopped(void *arg, struct sim_node *sim_node)
{
	struct cluster_node *node = arg;

	(void)sim_node;
	sim_trace(node->world->sim, "node %s: ended in good order", node->name);
	node_is_down(node);
}

static void on_died(void *arg, struct sim_node *sim_node, enum sim_death how)
{
	struct cluster_node *node = arg;
	struct cluster *world = node->world;

	(void)sim_node;
	sim_trace(world->sim, "node %s: died (%d)", node->name, (int)how);
	cluster_fault(world, sim_now(world->sim));
	cluster_count(world, "nodes died", 1);
	if (how == SIM_DEATH_POWER)
		cluster_do_at(world, sim_now(world->sim), action_power, node->index);
	node_is_down(node);
}

void cluster_node_create(struct cluster *world, struct cluster_node *node)
{
	struct prng prng = cluster_prng(world, 20, node->index);
	uint64_t offset_ns = prng_below(&prng, 3600 * NS_PER_S);
	int32_t drift_ppm = (int32_t)prng_below(&prng, 2 * CLUSTER_DRIFT_PPM) - CLUSTER_DRIFT_PPM;
	json_t *document = cluster_document(world, node->index, &world->desired);
	bool has_few = cluster_has(world, CF_FEW_BUFFERS);
	struct sim_node_options options = {
		.name = node->name,
		.reactor_count = 1 + (unsigned)prng_below(&prng, 3),
		.seed = prng_next(&prng),
		.document = document,
		.clock_offset_ns = offset_ns,
		.clock_drift_ppm = cluster_has(world, CF_DRIFT) ? drift_ppm : 0,
		.buf_counts = {has_few ? 2 : 32, has_few ? 2 : 16, has_few ? 1 : 4},
		.has_discovery = true,
		.started = on_started,
		.stopped = on_stopped,
		.died = on_died,
		.arg = node,
	};

	node->acked = world->desired;
	node->first = world->desired;
	node->node = sim_node_create(world->sim, &options);
	json_decref(document);
}
