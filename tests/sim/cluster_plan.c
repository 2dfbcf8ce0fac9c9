/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans a run of the cluster world from its seed: shape, features, hosts' settings, disks. Runs
 * before everything else. One thread.
 *
 * Each purpose has its own generator, so that shrinking one part of the plan leaves the rest as it
 * is. Features are drawn first, also those that the scenario then switches off.
 */
#include "cluster_world.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

const char *const cluster_feature_names[] = {
	"cut",          "partition",      "one-way",    "half-close", "net-faults",  "limit",
	"flip",         "slow",           "node-kill",  "node-power", "node-crash",  "node-restart",
	"node-freeze",  "node-memory",    "node-jump",  "host-kill",  "host-crash",  "host-close",
	"host-freeze",  "host-memory",    "drift",      "disk-error", "disk-spike",  "disk-full",
	"disk-cut",     "disk-misdirect", "disk-power", "store-full", "store-error", "ana",
	"ns",           "grow",           "revoke",     "read-only",  "zeroes",      "deallocate",
	"compare",      "fused",          "copy",       "reserve",    "digest",      "zero-copy",
	"hedge",        "fast-fail",      "paths",      "discovery",  "discovered",  "peers",
	"wall-clock",   "ports",          "subsystem",  "mask",       "admin",       "few-buffers",
	"control-busy", "reactor-stuck",  "edges",      "images",     "remade",      "long-apply",
	"rollback",     "source",         "twins",      NULL,
};
_Static_assert(ARRAY_LEN(cluster_feature_names) == CF_COUNT + 1, "a name for each feature");
_Static_assert(CF_COUNT <= SIM_FEATURES_MAX, "room for each");

enum purpose {
	PURPOSE_FEATURES = 1,
	PURPOSE_SHAPE,
	PURPOSE_NET,
	PURPOSE_DISK,
	PURPOSE_HOST,
};

struct prng cluster_prng(const struct cluster *world, uint64_t purpose, uint64_t number)
{
	struct prng prng;

	prng_seed(&prng,
		  (world->seed * 0x9e3779b97f4a7c15ull + purpose) * 0xd1342543de82ef95ull + number);
	return prng;
}

/* Between a sixth and two thirds of the features: some seeds are quiet and others are wild. */
static void features_choose(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_FEATURES, 0);
	uint64_t of_six = 1 + prng_below(&prng, 4);

	for (unsigned i = 0; i < CF_EDGES; i++) {
		if (prng_below(&prng, 6) < of_six)
			world->features |= 1ull << i;
	}
	if (cluster_edges_is_on(world->seed))
		cluster_edges_features(world);
	if (cluster_remake_is_on(world->seed))
		cluster_remake_features(world);
	if (cluster_start_is_on(world->seed))
		cluster_start_features(world);
	if (cluster_twin_is_on(world->seed))
		cluster_twin_features(world);
	/* Only digests detect a flipped bit. A Copy of a misdirected read cannot be judged. */
	if (cluster_has(world, CF_FLIP))
		world->features |= 1ull << CF_DIGEST;
	if (cluster_has(world, CF_DISK_MISDIRECT))
		world->features &= ~(1ull << CF_COPY);
	world->features_drawn = world->features;
	world->features &= ~world->scenario->features_off;
	if (!cluster_has(world, CF_DIGEST))
		world->features &= ~(1ull << CF_FLIP);
}

static void net_choose(struct cluster *world, struct sim_options *options)
{
	struct prng prng = cluster_prng(world, PURPOSE_NET, 0);

	*options = (struct sim_options){
		.latency_max_us = 1 + (uint32_t)prng_below(&prng, 200),
		.connect_timeout_us = 1000000,
		.window_max_bytes = prng_one_in(&prng, 3) ? 8192 : 0,
		.segment_max_bytes = prng_one_in(&prng, 4) ? 500 : 0,
		.recv_max_bytes = prng_one_in(&prng, 6) ? 700 : 0,
	};
	world->faults = (struct sim_faults){
		.reset_ppm = (uint32_t)prng_below(&prng, 1000),
		.stall_ppm = (uint32_t)prng_below(&prng, 5000),
		.half_close_ppm = (uint32_t)prng_below(&prng, 500),
		.refuse_ppm = (uint32_t)prng_below(&prng, 100000),
		.stall_max_us = 100 + (uint32_t)prng_below(&prng, 200000),
	};
	options->zc_hold_max_us = prng_one_in(&prng, 3) ? 200000 : 0;
	options->zc_refuse_one_in = prng_one_in(&prng, 3) ? 6 : 0;
	if (!cluster_has(world, CF_NET_FAULTS))
		world->faults = (struct sim_faults){0};
}

static void shape_choose(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_SHAPE, 0);

	world->node_count = 1 + (unsigned)prng_below(&prng, CLUSTER_NODES_MAX);
	world->host_count = 1 + (unsigned)prng_below(&prng, CLUSTER_HOSTS_MAX);
	world->sub_count = 1 + (unsigned)prng_below(&prng, CLUSTER_SUBS_MAX);
	world->block_bytes = prng_one_in(&prng, 2) ? 512 : 4096;
	world->peer_kind = (unsigned)prng_below(&prng, 3);
	world->troubled_ns = (1500 + prng_below(&prng, 4500)) * NS_PER_MS;
	world->commands_left = 400 + prng_below(&prng, 1000);
	for (unsigned i = 0; i < world->node_count; i++)
		world->nodes[i].port_count = 1 + (unsigned)prng_below(&prng, CLUSTER_PORTS_MAX);
	for (unsigned i = 0; i < world->sub_count; i++) {
		struct cluster_sub *sub = &world->subs[i];

		/* With several nodes the first subsystem is shared. The second one never is. */
		sub->is_shared = world->node_count > 1 && i == 0;
		sub->node = (unsigned)prng_below(&prng, world->node_count);
		sub->ns_count = 1 + (unsigned)prng_below(&prng, CLUSTER_NS_MAX);
		snprintf(sub->nqn, sizeof(sub->nqn), "nqn.2026-11.io.weft:sub%u", i);
	}
	world->quiesce_ms = CLUSTER_QUIESCE_MS;
	world->spike_max_us = CLUSTER_SPIKE_MAX_US;
	if (cluster_has(world, CF_EDGES))
		cluster_edges_shape(world);
	if (cluster_remake_is_on(world->seed))
		cluster_remake_shape(world);
	world->think_max_us = prng_one_in(&prng, 2) ? 20 : 5000;
	/* All bursts together take about as long as the troubles. */
	world->pause_max_us = (uint32_t)(2 * world->troubled_ns / NS_PER_US * world->host_count *
					 2 * 12 / world->commands_left);
	if (world->scenario->commands_max > 0 &&
	    world->scenario->commands_max < world->commands_left)
		world->commands_left = world->scenario->commands_max;
}

static void addresses_choose(struct cluster *world)
{
	char text[NET_ADDR_TEXT_BYTES];

	for (unsigned i = 0; i < world->node_count; i++) {
		struct cluster_node *node = &world->nodes[i];

		node->world = world;
		node->index = i;
		snprintf(node->name, sizeof(node->name), "n%u", i);
		for (unsigned p = 0; p < node->port_count; p++) {
			snprintf(text, sizeof(text), "10.0.%u.%u:4420", i + 1, p + 1);
			CHECK(net_addr_parse(text, 4420, &node->addrs[p]) == 0);
			for (unsigned g = 0; g < CLUSTER_NS_MAX; g++)
				world->desired.ana[i][p][g] = ANA_OPTIMIZED;
		}
		snprintf(text, sizeof(text), "10.0.%u.1:8009", i + 1);
		CHECK(net_addr_parse(text, 8009, &node->discovery) == 0);
		if (world->peer_kind == 2) {
			snprintf(text, sizeof(text), "10.0.%u.1:4430", i + 1);
			CHECK(net_addr_parse(text, 4430, &node->peer) == 0);
		} else {
			struct sockaddr_un address = {.sun_family = AF_UNIX};

			snprintf(address.sun_path, sizeof(address.sun_path), "/run/%s.peer",
				 node->name);
			memcpy(&node->peer.storage, &address, sizeof(address));
			node->peer.len_bytes = sizeof(address);
		}
	}
}

static void disk_choose(struct cluster *world, unsigned sub, unsigned ns, bool is_other)
{
	struct cluster_disk *disk = &world->disks[world->disk_count];
	struct prng prng = cluster_prng(world, PURPOSE_DISK, world->disk_count);
	uint32_t spike_one_in = 20 + (uint32_t)prng_below(&prng, 200);
	uint32_t error_one_in = 20 + (uint32_t)prng_below(&prng, 200);
	uint32_t misdirect_one_in = 20 + (uint32_t)prng_below(&prng, 100);
	static const char *const names[CLUSTER_DISKS_MAX] = {"d0", "d1", "d2", "d3",
							     "d4", "d5", "d6", "d7"};
	char name[32];

	disk->options = (struct sim_disk_options){
		.name = names[world->disk_count],
		.seed = prng_next(&prng),
		.block_count = CLUSTER_PART_BLOCKS,
		.block_count_max = CLUSTER_BLOCKS_MAX,
		.block_bytes = world->block_bytes,
		.delay_max_us =
			1 + (uint32_t)prng_below(&prng, prng_one_in(&prng, 2) ? 3000 : 50000),
		.spike_one_in = cluster_has(world, CF_DISK_SPIKE) ? spike_one_in : 0,
		.spike_max_us = world->spike_max_us,
		.error_one_in = cluster_has(world, CF_DISK_ERROR) ? error_one_in : 0,
		.misdirect_one_in = cluster_has(world, CF_DISK_MISDIRECT) ? misdirect_one_in : 0,
		.cancel_deaf_one_in =
			prng_one_in(&prng, 2) ? 1 + (uint32_t)prng_below(&prng, 3) : 0,
		.has_volatile_cache = prng_one_in(&prng, 2),
		.can_discard = !prng_one_in(&prng, 4),
		.reads_zero_after_discard = prng_one_in(&prng, 2),
		.is_recorded = cluster_has(world, CF_IMAGE) || cluster_twin_is_recorded(world),
	};
	if (cluster_has(world, CF_EDGES))
		cluster_edges_disk(world, &disk->options);
	disk->world = world;
	disk->index = world->disk_count++;
	disk->subsystem = sub;
	disk->nsid = ns + 1;
	*(is_other ? &world->subs[sub].others[ns] : &world->subs[sub].disks[ns]) = disk;
	snprintf(name, sizeof(name), "disk %u", disk->index);
	uuid_from_name(name, &disk->uuid);
	cluster_identity_add(world, &disk->uuid, disk);
	if (!is_other)
		world->desired.ns_uuid[sub][ns] = disk->uuid;
	disk->model = model_create(CLUSTER_BLOCKS_MAX, disk->options.has_volatile_cache);
	disk->disk = sim_disk_create(world->sim, &disk->options);
	sim_disk_watch(disk->disk, cluster_on_landed, disk);
}

static void timeouts_choose(struct cluster *world, struct host_timeouts *timeouts,
			    struct prng *prng)
{
	uint32_t fast_io_fail_ms = 200 + (uint32_t)prng_below(prng, 3000);

	*timeouts = (struct host_timeouts){
		.connect_ms = 1000,
		.keep_alive_ms = 300 + (uint32_t)prng_below(prng, 1200),
		.command_ms = 600 + (uint32_t)prng_below(prng, 1500),
		.silence_ms = prng_one_in(prng, 3) ? 0 : 100 + (uint32_t)prng_below(prng, 150),
		.unacked_ms = 300,
		.reconnect_min_ms = 10,
		.reconnect_max_ms = 200,
		.jitter_percent = 25,
		.stable_ms = 1 + (uint32_t)prng_below(prng, 1000),
		.ctrl_loss_ms = 5000,
		.quiesce_ms = world->quiesce_ms,
		.reset_ms = 50 + (uint32_t)prng_below(prng, 1000),
		.fast_io_fail_ms = cluster_has(world, CF_FAST_FAIL) ? fast_io_fail_ms : 0,
	};
}

static void config_choose(struct cluster *world, struct cluster_host *host, unsigned sub,
			  struct prng *prng)
{
	struct mpath_config *config = &host->configs[sub];
	bool has_header_digest = prng_one_in(prng, 2) || cluster_has(world, CF_FLIP);
	bool has_data_digest = prng_one_in(prng, 2) || cluster_has(world, CF_FLIP);
	uint32_t percentile = 5000 + (uint32_t)prng_below(prng, 4900);

	*config = (struct mpath_config){
		.policy = (enum path_policy)prng_below(prng, 4),
		.io_queues = 1 + (unsigned)prng_below(prng, 2),
		.io_queue_size = 3 + (unsigned)prng_below(prng, 14), /* a fused pair fits */
		.numa_node = -1,
		.wants_header_digest = cluster_has(world, CF_DIGEST) && has_header_digest,
		.wants_data_digest = cluster_has(world, CF_DIGEST) && has_data_digest,
		.zero_copy_min_bytes = cluster_has(world, CF_ZERO_COPY) ? 512 : 0,
		.seed = prng_next(prng),
		.host_id = host->id,
	};
	if (cluster_has(world, CF_HEDGE))
		config->hedge = (struct mpath_hedge){.percentile = percentile, .extra_percent = 20};
	text_copy(config->subsystem_nqn, sizeof(config->subsystem_nqn), world->subs[sub].nqn);
	text_copy(config->host_nqn, sizeof(config->host_nqn), host->nqn);
	timeouts_choose(world, &config->timeouts, prng);
	if (cluster_has(world, CF_EDGES))
		cluster_edges_timeouts(world, host->index, &config->timeouts);
	if (config->timeouts.keep_alive_ms > host->kato_ms)
		host->kato_ms = config->timeouts.keep_alive_ms;
}

static void host_choose(struct cluster *world, unsigned index)
{
	struct prng prng = cluster_prng(world, PURPOSE_HOST, index);
	struct cluster_host *host = &world->hosts[index];

	host->world = world;
	host->index = index;
	snprintf(host->nqn, sizeof(host->nqn), "nqn.2026-11.io.weft:host%u", index);
	uuid_from_name(host->nqn, &host->id);
	host->worker_count = 1 + (unsigned)prng_below(&prng, CLUSTER_WORKERS_MAX);
	for (unsigned i = 0; i < world->sub_count; i++) {
		host->mpaths[i].host = host;
		host->mpaths[i].sub = i;
		config_choose(world, host, i, &prng);
	}
	for (unsigned i = 0; i < host->worker_count; i++) {
		host->workers[i] = sim_alloc(sizeof(*host->workers[i]));
		host->workers[i]->host = host;
		host->workers[i]->index = i;
		cluster_worker_init(host->workers[i]);
	}
}

void cluster_plan(struct cluster *world)
{
	struct sim_options options;

	features_choose(world);
	shape_choose(world);
	net_choose(world, &options);
	addresses_choose(world);
	world->sim = sim_create(world->seed, &options);
	sim_net_set_faults(world->sim, &world->faults);
	world->prng = cluster_prng(world, PURPOSE_SHAPE, 1);
	for (unsigned s = 0; s < world->sub_count; s++) {
		for (unsigned n = 0; n < world->subs[s].ns_count; n++)
			disk_choose(world, s, n, false);
	}
	for (unsigned s = 0; s < world->sub_count && cluster_has(world, CF_REMAKE); s++) {
		for (unsigned n = 0; n < world->subs[s].ns_count; n++)
			disk_choose(world, s, n, true);
	}
	for (unsigned i = 0; i < world->host_count; i++)
		host_choose(world, i);
	cluster_events_plan(world);
}
