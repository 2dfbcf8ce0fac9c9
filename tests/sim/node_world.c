/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of tests of simulated nodes (node_world.h): documents, disks, one host. Everything runs
 * in one thread on simulated reactors.
 */
#include "node_world.h"
#include "host_config.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const node_names[NWORLD_NODES] = {"a", "b"};
static const char *const disk_names[NWORLD_DISKS] = {"one", "two"};

/* ---- documents ------------------------------------------------------------------------------- */

static json_t *made(json_t *value)
{
	CHECK(value);
	return value;
}

static json_t *cluster_make(unsigned node)
{
	unsigned other = 1 - node;

	return made(json_pack("{s:s, s:s, s:s, s:[i, i], s:[{s:s, s:s, s:[i, i]}]}", "name",
			      node_names[node], "listen", node == 0 ? "unix:/sim/a" : "unix:/sim/b",
			      "secret_file", "/sim/secret", "cntlids", (int)node * 1000 + 1,
			      (int)node * 1000 + 999, "peers", "name", node_names[other], "address",
			      other == 0 ? "unix:/sim/a" : "unix:/sim/b", "cntlids",
			      (int)other * 1000 + 1, (int)other * 1000 + 999));
}

static json_t *document_make(unsigned node, bool is_cluster)
{
	char address[32], media[64];
	json_t *document;

	snprintf(address, sizeof(address), "10.0.0.%u", node + 1);
	snprintf(media, sizeof(media), "file:/disk/one,size=%u,block=%u",
		 NWORLD_BLOCKS * NWORLD_BLOCK_BYTES, NWORLD_BLOCK_BYTES);
	document = made(json_pack(
		"{s:i, s:[{s:s, s:s, s:{s:[s]}, s:[{s:i, s:s, s:s, s:b}]}], s:[{s:i, s:s, s:s}], "
		"s:{s:i}}",
		"version", 1, "subsystems", "nqn", NWORLD_NQN, "serial", "NODES", "rights", "any",
		"write-protect", "namespaces", "nsid", 1, "media", media, "uuid",
		"6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f", "clustered", (int)is_cluster, "ports", "id",
		(int)node + 1, "address", address, "service", "4420", "limits", "quiesce_ms", 400));
	if (is_cluster)
		CHECK(json_object_set_new(document, "cluster", cluster_make(node)) == 0);
	return document;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct nworld_node *entry_of(struct nworld *world, struct sim_node *node)
{
	return &world->nodes[world->nodes[0].node == node ? 0 : 1];
}

static void on_started(void *arg, struct sim_node *node, int res, const char *why)
{
	struct nworld_node *entry = entry_of(arg, node);

	entry->started++;
	entry->start_res = res;
	text_copy(entry->why, sizeof(entry->why), why);
}

static void on_stopped(void *arg, struct sim_node *node)
{
	entry_of(arg, node)->stopped++;
}

static void on_died(void *arg, struct sim_node *node, enum sim_death how)
{
	struct nworld_node *entry = entry_of(arg, node);

	entry->died++;
	entry->how = how;
}

static void on_landed(void *arg, struct sim_disk *disk, uint64_t block, const uint8_t *bytes,
		      const struct sim_process *writer, bool is_late)
{
	struct nworld *world = arg;
	struct nlanding *landing = &world->landings[world->landing_count];

	CHECK(world->landing_count < NWORLD_LANDINGS);
	world->landing_count++;
	*landing = (struct nlanding){
		.at_ns = sim_now(world->sim), .block = block, .writer = writer, .is_late = is_late};
	memcpy(&landing->value, bytes, sizeof(landing->value));
}

static void node_make(struct nworld *world, unsigned index, uint64_t seed)
{
	json_t *document = document_make(index, world->node_count > 1);
	const struct sim_node_options options = {
		.name = node_names[index],
		.reactor_count = 1,
		.seed = seed + index,
		.document = document,
		.clock_offset_ns = (index + 1) * 1000 * NS_PER_S,
		.buf_counts = {64, 64, 64},
		.has_discovery = true,
		.started = on_started,
		.stopped = on_stopped,
		.died = on_died,
		.arg = world,
	};
	char text[32];

	snprintf(text, sizeof(text), "10.0.0.%u:4420", index + 1);
	CHECK(net_addr_parse(text, 4420, &world->nodes[index].addr) == 0);
	world->nodes[index].world = world;
	world->nodes[index].node = sim_node_create(world->sim, &options);
	json_decref(document);
}

void nworld_create(struct nworld *world, uint64_t seed, unsigned node_count,
		   const struct sim_disk_options *disk)
{
	static const struct sim_options orderly = {.is_orderly = true};
	struct sim_disk_options options = {.delay_max_us = 20};
	struct reactor_config config = {.cpu = -1};

	memset(world, 0, sizeof(*world));
	world->sim = sim_create(seed, &orderly);
	world->node_count = node_count;
	if (disk)
		options = *disk;
	options.block_count = NWORLD_BLOCKS;
	options.block_count_max = NWORLD_BLOCKS * 4;
	options.block_bytes = NWORLD_BLOCK_BYTES;
	for (unsigned i = 0; i < NWORLD_DISKS; i++) {
		options.name = disk_names[i];
		options.seed = seed * 10 + i;
		world->disks[i] = sim_disk_create(world->sim, &options);
	}
	sim_disk_watch(world->disks[0], on_landed, world);
	for (unsigned i = 0; i < node_count; i++)
		node_make(world, i, seed);
	world->host = sim_process_create(world->sim, "host");
	sim_process_enter(world->host);
	CHECK(reactor_create(&config, &world->reactor) == 0);
	sim_process_leave(world->host);
	world->config = host_config_make(seed, NWORLD_NQN, NWORLD_HOST_NQN);
	world->config.io_queues = 1;
	world->config.timeouts.stable_ms = 100;
}

unsigned nworld_destroy(struct nworld *world)
{
	unsigned leaks = 0;

	if (world->mpath)
		nworld_close(world);
	for (unsigned i = 0; i < world->node_count; i++) {
		if (sim_node_state(world->nodes[i].node) != SIM_NODE_DOWN)
			leaks += !nworld_stop(world, i);
	}
	nworld_run_ms(world, 100);
	sim_process_kill(world->host, SIM_DEATH_KILLED);
	leaks += sim_leaks(world->sim);
	for (unsigned i = 0; i < world->node_count; i++)
		sim_node_destroy(world->nodes[i].node);
	for (unsigned i = 0; i < NWORLD_DISKS; i++)
		sim_disk_destroy(world->disks[i]);
	sim_destroy(world->sim);
	return leaks;
}

void nworld_run_ms(struct nworld *world, uint64_t ms)
{
	sim_run_until(world->sim, sim_now(world->sim) + ms * NS_PER_MS);
}

struct until {
	struct nworld *world;
	bool (*fn)(struct nworld *world, void *arg);
	void *arg;
};

static bool until_not(void *arg)
{
	struct until *until = arg;

	return !until->fn(until->world, until->arg);
}

bool nworld_until(struct nworld *world, bool (*fn)(struct nworld *world, void *arg), void *arg,
		  uint64_t limit_ms)
{
	struct until until = {world, fn, arg};

	return sim_run_while(world->sim, until_not, &until, limit_ms * NS_PER_MS);
}

static bool has_started(struct nworld *world, void *arg)
{
	struct nworld_node *entry = arg;

	return sim_node_state(entry->node) == SIM_NODE_SERVING ||
	       sim_node_state(entry->node) == SIM_NODE_DOWN;
}

bool nworld_start(struct nworld *world, unsigned node)
{
	struct nworld_node *entry = &world->nodes[node];

	sim_node_start(entry->node);
	return nworld_until(world, has_started, entry, 20000) &&
	       sim_node_state(entry->node) == SIM_NODE_SERVING;
}

static bool has_stopped(struct nworld *world, void *arg)
{
	return sim_node_state(((struct nworld_node *)arg)->node) == SIM_NODE_DOWN;
}

bool nworld_stop(struct nworld *world, unsigned node)
{
	struct nworld_node *entry = &world->nodes[node];
	unsigned stopped = entry->stopped;

	sim_node_stop(entry->node);
	return nworld_until(world, has_stopped, entry, 60000) && entry->stopped == stopped + 1;
}

/* ---- the host -------------------------------------------------------------------------------- */

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	((struct nworld *)arg)->is_ready = res == 0;
}

static void on_gone(void *arg)
{
	((struct nworld *)arg)->is_gone = true;
}

static bool is_gone(struct nworld *world, void *arg)
{
	return world->is_gone;
}

static void on_path(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	sim_trace(((struct nworld *)arg)->sim, "path %u: %s", path, what);
}

bool nworld_connect(struct nworld *world, unsigned paths)
{
	static const struct mpath_callbacks callbacks = {.ready = on_ready,
							 .path_changed = on_path};
	struct host_addr addrs[NWORLD_NODES];

	for (unsigned i = 0; i < world->node_count; i++)
		addrs[i] = (struct host_addr){.net = world->nodes[i].addr};
	sim_enter(world->reactor);
	CHECK(mpath_open(world->reactor, &world->config, addrs, world->node_count, &callbacks,
			 world, &world->mpath) == 0);
	sim_leave(world->reactor);
	return nworld_until_live(world, paths, 10000) && world->is_ready;
}

void nworld_close(struct nworld *world)
{
	world->is_gone = false;
	sim_enter(world->reactor);
	mpath_close(world->mpath, on_gone, world);
	sim_leave(world->reactor);
	world->mpath = NULL;
	CHECK(nworld_until(world, is_gone, NULL, 60000));
}

struct path_info nworld_path(struct nworld *world, unsigned path)
{
	struct path_info info;

	sim_enter(world->reactor);
	mpath_path_info(world->mpath, path, &info);
	sim_leave(world->reactor);
	return info;
}

/* True when enough paths are live and not damped. */
static bool are_live(struct nworld *world, void *arg)
{
	unsigned live = 0;

	for (unsigned i = 0; i < mpath_path_count(world->mpath); i++) {
		struct path_info info = nworld_path(world, i);

		live += info.state == PATH_LIVE && info.is_stable;
	}
	return live >= *(unsigned *)arg;
}

bool nworld_until_live(struct nworld *world, unsigned paths, uint64_t limit_ms)
{
	return nworld_until(world, are_live, &paths, limit_ms);
}

static bool peers_are_up(struct nworld *world, void *arg)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		struct peer_info infos[PEERS_MAX];

		if (sim_node_peers(world->nodes[i].node, infos) != 1 || !infos[0].is_up ||
		    !infos[0].can_fence)
			return false;
	}
	return true;
}

bool nworld_until_peers(struct nworld *world, uint64_t limit_ms)
{
	return nworld_until(world, peers_are_up, NULL, limit_ms);
}

bool nworld_cluster_open(struct nworld *world)
{
	return nworld_start(world, 0) && nworld_start(world, 1) &&
	       nworld_until_peers(world, 5000) && nworld_connect(world, 2);
}

/* ---- operators ------------------------------------------------------------------------------- */

static void on_change_done(void *arg, int res, uint64_t generation, const char *why)
{
	struct nchange *change = arg;

	change->is_done = true;
	change->res = res;
	change->generation = generation;
	text_copy(change->why, sizeof(change->why), why);
}

void nworld_change(struct nworld *world, unsigned node, struct nchange *change,
		   int (*edit)(json_t *document, void *arg, struct config_errors *errors))
{
	*change = (struct nchange){.is_done = false};
	sim_node_change(
		world->nodes[node].node,
		&(struct sim_node_change){.edit = edit, .done = on_change_done, .arg = change});
}

static bool is_changed(struct nworld *world, void *arg)
{
	return ((struct nchange *)arg)->is_done;
}

bool nworld_change_wait(struct nworld *world, unsigned node, struct nchange *change,
			int (*edit)(json_t *document, void *arg, struct config_errors *errors))
{
	nworld_change(world, node, change, edit);
	return nworld_until(world, is_changed, change, 20000);
}

bool nworld_kept_is_in_force(struct nworld *world, unsigned node)
{
	json_t *kept = sim_node_kept_document(world->nodes[node].node);
	json_t *in_force = sim_node_document(world->nodes[node].node);
	bool is_same = kept && in_force && json_equal(kept, in_force);

	json_decref(kept);
	json_decref(in_force);
	return is_same;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void on_nop_done(struct mpath_io *io)
{
	struct nop *nop = container_of(io, struct nop, io);

	CHECK(!nop->is_done);
	nop->is_done = true;
}

static void nop_fill(struct nworld *world, struct nop *nop, const struct nvme_sqe *sqe,
		     enum host_data_direction direction)
{
	nop->world = world;
	nop->iov = (struct iovec){nop->data, sizeof(nop->data)};
	nop->io = (struct mpath_io){.sqe = *sqe, .direction = direction, .done = on_nop_done};
	if (direction != HOST_DATA_NONE) {
		nop->io.iov = &nop->iov;
		nop->io.iov_count = 1;
		nop->io.data_bytes = sizeof(nop->data);
	}
	nop->is_done = false;
}

static void nop_submit(struct nworld *world, struct nop *nop, const struct host_cmd *cmd,
		       enum host_data_direction direction)
{
	nop_fill(world, nop, &cmd->sqe, direction);
	sim_enter(world->reactor);
	mpath_submit(mpath_ns_find(world->mpath, 1), &nop->io);
	sim_leave(world->reactor);
}

void nop_admin(struct nworld *world, struct nop *nop, const struct nvme_sqe *sqe)
{
	nop_fill(world, nop, sqe, HOST_DATA_NONE);
	sim_enter(world->reactor);
	mpath_submit_admin(world->mpath, &nop->io);
	sim_leave(world->reactor);
}

void nop_log(struct nworld *world, struct nop *nop, uint8_t log_id)
{
	struct host_cmd cmd = {0};

	host_cmd_log(&cmd, NVME_NSID_ALL, log_id, 0, nop->data, sizeof(nop->data));
	nop_fill(world, nop, &cmd.sqe, HOST_DATA_FROM_CTRL);
	sim_enter(world->reactor);
	mpath_submit_admin(world->mpath, &nop->io);
	sim_leave(world->reactor);
}

void nop_write(struct nworld *world, struct nop *nop, uint64_t block, uint64_t value)
{
	struct host_cmd cmd = {0};

	for (unsigned i = 0; i < sizeof(nop->data) / sizeof(value); i++)
		memcpy(nop->data + i * sizeof(value), &value, sizeof(value));
	host_cmd_write(&cmd, 1, block, 1, nop->data, sizeof(nop->data));
	nop_submit(world, nop, &cmd, HOST_DATA_TO_CTRL);
}

void nop_read(struct nworld *world, struct nop *nop, uint64_t block)
{
	struct host_cmd cmd = {0};

	memset(nop->data, 0xee, sizeof(nop->data));
	host_cmd_read(&cmd, 1, block, 1, nop->data, sizeof(nop->data));
	nop_submit(world, nop, &cmd, HOST_DATA_FROM_CTRL);
}

void nop_flush(struct nworld *world, struct nop *nop)
{
	struct host_cmd cmd = {0};

	host_cmd_flush(&cmd, 1);
	nop_submit(world, nop, &cmd, HOST_DATA_NONE);
}

static bool is_nop_done(struct nworld *world, void *arg)
{
	return ((struct nop *)arg)->is_done;
}

bool nop_wait(struct nop *nop, uint64_t limit_ms)
{
	return nworld_until(nop->world, is_nop_done, nop, limit_ms) && nop->io.result == MPATH_OK;
}

uint64_t nop_value(const struct nop *nop)
{
	uint64_t value;

	memcpy(&value, nop->data, sizeof(value));
	return value;
}

uint64_t nworld_block_value(const struct nworld *world, uint64_t block)
{
	uint64_t value;

	memcpy(&value, sim_disk_block(world->disks[0], block), sizeof(value));
	return value;
}

uint64_t nworld_read(struct nworld *world, uint64_t block)
{
	static struct nop nop;

	nop_read(world, &nop, block);
	return nop_wait(&nop, 10000) ? nop_value(&nop) : UINT64_MAX;
}

json_t *nworld_subsystem(json_t *document)
{
	return json_array_get(json_object_get(document, "subsystems"), 0);
}
