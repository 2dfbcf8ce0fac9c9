/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images in the cluster world: files that are deleted, cut or hidden from a node, while nodes run
 * or between two starts; that come back; or whose data the operator gives up. Events run outside of
 * all turns; edits and their results on a node's control reactor.
 *
 * The model of a disk stays in use while its image is lost: whatever a read returns must have been
 * written. Only a kept recreate makes a new disk, with its own model and a UUID that the world
 * reads from the node. The new model does not judge commands that began before.
 *
 * The operator never adds a namespace whose image is missing, which would create the image, and
 * never restores an image while a recreate of it has no answer. A failed recreate is requested
 * again where the node demands it.
 */
#include "cluster_world.h"

#include "daemon/lost_ns.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define PURPOSE_CRASH 75
#define CRASH_MAX     8 /* operations */

/* What happens to the image. */
enum image_fate {
	FATE_DELETED,
	FATE_CUT,
	FATE_NOT_MOUNTED, /* hidden from one node */
	FATE_COUNT,
};

/* What happens to the node that serves the image. */
enum node_fate {
	NODE_RUNS,
	NODE_KILLED,
	NODE_STOPPED,
	NODE_CRASHES,
	NODE_FATES,
};

/* ---- UUIDs and disks ---------------------------------------------------------------------------
 */

struct cluster_disk *cluster_medium(const struct cluster *world,
				    const struct cluster_desired *desired, unsigned sub,
				    unsigned ns)
{
	const struct cluster_sub *of = &world->subs[sub];

	return desired->ns_other[sub] >> ns & 1 ? of->others[ns] : of->disks[ns];
}

void cluster_identity_add(struct cluster *world, const struct uuid *uuid, struct cluster_disk *disk)
{
	CHECK(world->identity_count < CLUSTER_IDENTITIES_MAX);
	world->identities[world->identity_count++] =
		(struct cluster_identity){.uuid = *uuid, .disk = disk};
}

int cluster_identity_find(const struct cluster *world, const struct uuid *uuid)
{
	for (unsigned i = 0; i < world->identity_count; i++) {
		if (uuid_equal(&world->identities[i].uuid, uuid))
			return (int)i;
	}
	return -1;
}

/* A recreate was kept: an empty disk replaces the former one. */
static void disk_reborn(struct cluster_disk *disk, const struct uuid *uuid)
{
	struct cluster *world = disk->world;
	unsigned ns = disk->nsid - 1;
	int former = cluster_identity_find(world, &world->desired.ns_uuid[disk->subsystem][ns]);

	sim_trace(world->sim, "disk %u: it is another one now", disk->index);
	cluster_count(world, "images made anew", 1);
	disk->born_at = ++world->step;
	disk->is_given_up = false;
	model_destroy(disk->model);
	disk->model = model_create(CLUSTER_BLOCKS_MAX, disk->options.has_volatile_cache);
	memset(disk->content, 0, sizeof(disk->content));
	memset(disk->fused_from, 0, sizeof(disk->fused_from));
	sim_disk_forget(disk->disk);
	for (unsigned h = 0; h < world->host_count; h++) {
		for (unsigned i = 0; i < world->hosts[h].worker_count; i++)
			cluster_worker_forget(world->hosts[h].workers[i], disk->index);
	}
	if (former >= 0)
		world->identities[former].disk = NULL;
	cluster_identity_add(world, uuid, disk);
	disk->uuid = *uuid;
	world->desired.ns_uuid[disk->subsystem][ns] = *uuid;
}

/* ---- recheck and recreate ----------------------------------------------------------------------
 */

static json_t *ns_of_document(const struct cluster *world, json_t *document,
			      const struct cluster_disk *disk)
{
	json_t *subsystem, *ns;
	size_t s, n;

	json_array_foreach(json_object_get(document, "subsystems"), s, subsystem)
	{
		if (strcmp(json_string_value(json_object_get(subsystem, "nqn")),
			   world->subs[disk->subsystem].nqn) != 0)
			continue;
		json_array_foreach(json_object_get(subsystem, "namespaces"), n, ns)
		{
			if (json_integer_value(json_object_get(ns, "nsid")) == disk->nsid)
				return ns;
		}
	}
	return NULL;
}

static bool node_is_lost(struct cluster_node *node, const struct cluster_disk *disk)
{
	const struct media *media =
		media_registry_find(sim_node_registry(node->node),
				    &node->acked.ns_uuid[disk->subsystem][disk->nsid - 1]);

	return media != NULL && media_is_lost(media);
}

/* In every second case the node dies at one of its next operations, most likely in this change. */
static void crash_soon(struct cluster_node *node)
{
	struct prng prng = cluster_prng(node->world, PURPOSE_CRASH, node->world->step);
	uint64_t operations = 1 + prng_below(&prng, CRASH_MAX);

	if (prng_one_in(&prng, 2))
		return;
	sim_trace(node->world->sim, "node %s: ends in %" PRIu64 " operations", node->name,
		  operations);
	cluster_count(node->world, "crashes about lost images", 1);
	sim_node_crash_after(node->node, operations, SIM_DEATH_KILLED);
}

void cluster_image_edit(struct cluster_node *node, json_t *document, struct config_errors *errors)
{
	struct cluster *world = node->world;
	struct cluster_disk *disk = node->retry_disk;
	bool is_shared;
	json_t *ns;
	int res;

	node->retry_pending = false;
	ns = disk != NULL ? ns_of_document(world, document, disk) : NULL;
	if (ns == NULL)
		return;
	is_shared = world->subs[disk->subsystem].is_shared;
	res = lost_ns_edit(sim_node_registry(node->node), ns,
			   node->retry_is_recreate ? LOST_NS_RECREATE : LOST_NS_RECHECK, false,
			   errors);
	sim_trace(world->sim, "operator: node %s: %s disk %u: %d", node->name,
		  node->retry_is_recreate ? "recreate" : "recheck", disk->index, res);
	if (res == 0 && node->retry_is_recreate && is_shared)
		cluster_fail(world, "node %s gives up what other members serve", node->name);
	node->retry_pending = res == 0;
	node->retry_gives_up = res == 0 && node->retry_is_recreate && !disk->is_given_up;
	disk->is_given_up |= node->retry_gives_up;
	disk->was_given_up |= node->retry_gives_up;
	errors->count = 0;
	if (res == 0 && !world->is_healed)
		crash_soon(node);
}

/* After a recreate that is in force, and perhaps kept: reads the new UUID from the node. */
static void uuid_learn(struct cluster_node *node)
{
	struct cluster_disk *disk = node->retry_disk;
	json_t *document = sim_node_document(node->node);
	const json_t *ns = ns_of_document(node->world, document, disk);
	struct uuid uuid;

	if (ns != NULL) {
		CHECK(uuid_parse(json_string_value(json_object_get(ns, "uuid")), &uuid) == 0);
		if (cluster_identity_find(node->world, &uuid) < 0)
			disk_reborn(disk, &uuid);
		node->acked.ns_uuid[disk->subsystem][disk->nsid - 1] = uuid;
		node->world->desired.ns_uuid[disk->subsystem][disk->nsid - 1] = uuid;
	}
	json_decref(document);
}

void cluster_image_done(struct cluster_node *node, int res)
{
	struct cluster_disk *disk = node->retry_disk;

	if (disk == NULL)
		return;
	if (node->retry_pending && node->retry_is_recreate) {
		if (res == 0 || node->is_store_behind)
			uuid_learn(node);
		/* The refusal of a later recreate does not undo one that a crash cut short. */
		else if (res != -ENOTRECOVERABLE && node->retry_gives_up)
			disk->is_given_up = false;
		if (res == 0 && node_is_lost(node, disk))
			cluster_fail(node->world,
				     "node %s: disk %u was recreated and its namespace is lost",
				     node->name, disk->index);
	}
	cluster_count(node->world,
		      node->retry_is_recreate ? "images asked to be made anew"
					      : "images looked at again",
		      node->retry_pending && res == 0);
	node->retry_disk = NULL;
	node->retry_pending = false;
}

/* In the node's next life: the recreate was kept, or not. */
void cluster_image_started(struct cluster_node *node)
{
	if (node->retry_disk != NULL && node->retry_pending && node->retry_is_recreate)
		uuid_learn(node);
	node->retry_disk = NULL;
	node->retry_pending = false;
}

static void retry_ask(struct cluster_node *node, struct cluster_disk *disk, bool is_recreate)
{
	if (node->retry_disk != NULL)
		return;
	node->retry_disk = disk;
	node->retry_is_recreate = is_recreate;
	node->retry_pending = false;
}

/* ---- events -----------------------------------------------------------------------------------
 */

static bool node_has_medium(const struct cluster_node *node, const struct cluster_desired *desired,
			    const struct cluster_disk *disk)
{
	unsigned ns = disk->nsid - 1;

	return !(desired->ns_absent[disk->subsystem] >> ns & 1) &&
	       !(desired->sub_absent >> disk->subsystem & 1) &&
	       cluster_medium(node->world, desired, disk->subsystem, ns) == disk;
}

/* Whether every node with the subsystem has the disk, whatever the result of its pending change. */
static bool is_known(const struct cluster *world, const struct cluster_disk *disk)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		const struct cluster_node *node = &world->nodes[i];

		if (cluster_node_has(world, i, disk->subsystem) &&
		    (!node_has_medium(node, &node->acked, disk) || node->is_store_behind ||
		     ((node->is_changing || node->may_have_pending) &&
		      !node_has_medium(node, &node->pending, disk))))
			return false;
	}
	return node_has_medium(&world->nodes[0], &world->desired, disk);
}

bool cluster_images_are_whole(const struct cluster *world)
{
	for (unsigned i = 0; i < world->disk_count; i++) {
		if (!sim_disk_is_whole(world->disks[i].disk) || world->disks[i].is_given_up)
			return false;
	}
	return true;
}

static struct cluster_node *node_of(struct cluster *world, const struct cluster_disk *disk,
				    uint64_t draw)
{
	const struct cluster_sub *sub = &world->subs[disk->subsystem];

	return &world->nodes[sub->is_shared ? draw % world->node_count : sub->node];
}

static void node_strike(struct cluster_node *node, const struct cluster_event *event)
{
	if (sim_node_state(node->node) != SIM_NODE_SERVING ||
	    sim_process_frozen_until(sim_node_process(node->node)) != 0)
		return;
	switch ((enum node_fate)(event->draws[2] % NODE_FATES)) {
	case NODE_KILLED:
		sim_node_kill(node->node, SIM_DEATH_KILLED);
		break;
	case NODE_STOPPED:
		sim_node_stop(node->node);
		break;
	case NODE_CRASHES:
		sim_node_crash_after(node->node, 1 + event->draws[2] / NODE_FATES % 200,
				     SIM_DEATH_KILLED);
		break;
	default:
		break;
	}
}

/* In half of the events a disk that is not shared, if any: only such disks can be given up. */
static struct cluster_disk *disk_of(struct cluster *world, const struct cluster_event *event)
{
	uint64_t at = event->draws[0];
	struct cluster_disk *disk = &world->disks[at % world->disk_count];

	for (unsigned i = 0; i < world->disk_count && event->draws[0] / 64 % 2 == 0; i++) {
		if (!world->subs[disk->subsystem].is_shared)
			break;
		disk = &world->disks[++at % world->disk_count];
	}
	return disk;
}

void cluster_image_begin(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_disk *disk = disk_of(world, event);
	struct cluster_node *node = node_of(world, disk, event->draws[3]);
	enum image_fate fate = (enum image_fate)(event->draws[1] % FATE_COUNT);
	uint64_t left = event->draws[1] / FATE_COUNT % CLUSTER_PART_BLOCKS;

	if (!is_known(world, disk) || !sim_disk_is_whole(disk->disk) || disk->is_given_up)
		return;
	sim_trace(world->sim, "disk %u: its image is lost (%d)", disk->index, (int)fate);
	cluster_count(world, "images lost", 1);
	if (fate == FATE_NOT_MOUNTED) {
		sim_disk_hide(disk->disk, node->name);
	} else {
		sim_disk_lose(disk->disk, fate == FATE_DELETED ? 0 : left);
		if (fate == FATE_CUT)
			sim_disk_cut(disk->disk, left);
	}
	node_strike(node, event);
}

/* The image comes back and the operator rechecks it, or the operator recreates it. */
void cluster_image_end(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_disk *disk = disk_of(world, event);
	enum image_fate fate = (enum image_fate)(event->draws[1] % FATE_COUNT);
	bool wants_recreate = event->draws[3] / 8 % 2 == 0 && fate != FATE_NOT_MOUNTED;

	if (world->is_healed || disk->is_given_up || sim_disk_is_whole(disk->disk))
		return;
	if (!wants_recreate)
		sim_disk_give_back(disk->disk);
	for (unsigned i = 0; i < world->node_count; i++) {
		if (cluster_node_has(world, i, disk->subsystem))
			retry_ask(&world->nodes[i], disk, wants_recreate);
	}
	world->desired.version++;
}

/* After the troubles all images come back that were not given up. */
void cluster_image_heal(struct cluster *world)
{
	for (unsigned i = 0; i < world->disk_count; i++) {
		if (!world->disks[i].is_given_up)
			sim_disk_give_back(world->disks[i].disk);
	}
}

static struct cluster_disk *lost_find(struct cluster_node *node)
{
	struct cluster *world = node->world;

	for (unsigned i = 0; i < world->disk_count; i++) {
		struct cluster_disk *disk = &world->disks[i];

		if (cluster_node_has(world, node->index, disk->subsystem) &&
		    node_has_medium(node, &node->acked, disk) && node_is_lost(node, disk))
			return disk;
	}
	return NULL;
}

/* Whether a recreate failed and could not be undone, because the undo could not be kept either. */
static bool must_recreate(const struct cluster_disk *disk)
{
	if (!sim_disk_asks_for_recreate(disk->disk))
		return false;
	if (!disk->was_given_up)
		cluster_fail(
			disk->world,
			"disk %u must be recreated, although no recreation was requested before",
			disk->index);
	return true;
}

bool cluster_images_are_served(struct cluster *world)
{
	bool is_so = true;

	for (unsigned i = 0; i < world->node_count; i++) {
		struct cluster_node *node = &world->nodes[i];
		struct cluster_disk *disk =
			sim_node_state(node->node) == SIM_NODE_SERVING ? lost_find(node) : NULL;

		is_so &= disk == NULL;
		if (disk == NULL || node->retry_disk != NULL)
			continue;
		if (!disk->is_given_up && !sim_disk_is_whole(disk->disk))
			sim_disk_give_back(disk->disk);
		retry_ask(node, disk, disk->is_given_up || must_recreate(disk));
		node->retries++;
		world->desired.version++;
	}
	return is_so;
}
