/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the cluster world: faults of the network, processes and media, and actions of
 * operators. Seed and number alone decide each event. An event begins at its planned time, outside
 * of all turns; events that last also have an end. One thread.
 */
#include "cluster_world.h"

#include "sim_posix.h"
#include "sim_store.h"

#include <inttypes.h>
#include <string.h>

#define PURPOSE_EVENT     40
#define PARTITION_MAX_MS  3000
#define FREEZE_MAX_MS     5000
#define DOWN_MAX_MS       2000
#define IMAGE_MAX_MS      1500
#define REMAKE_MAX_MS     500
#define LAST_MIN_MS       30
#define FIRST_EVENT_MS    200
#define CRASH_MAX         3000 /* operations of a process */
#define MEMORY_ONE_IN_MIN 10
#define LIMIT_MIN_BYTES   20000
#define AIM_NS            (2 * NS_PER_MS)

struct event_row {
	const char *name;
	enum cluster_feature feature;
	uint32_t last_max_ms;
	void (*begin)(struct cluster *world, const struct cluster_event *event);
	void (*end)(struct cluster *world, const struct cluster_event *event);
	bool can_kill_ctrl; /* may end controllers while it lasts */
};

/* ---- targets of an event ----------------------------------------------------------------------
 */

static struct cluster_node *event_node(struct cluster *world, const struct cluster_event *event)
{
	return &world->nodes[event->draws[0] % world->node_count];
}

static struct cluster_host *event_host(struct cluster *world, const struct cluster_event *event)
{
	return &world->hosts[event->draws[0] % world->host_count];
}

static struct cluster_disk *event_disk(struct cluster *world, const struct cluster_event *event)
{
	return &world->disks[event->draws[0] % world->disk_count];
}

/* Calls fn for all addresses of the event's node, or for one port. */
static void for_addrs(struct cluster *world, const struct cluster_event *event,
		      void (*fn)(struct cluster *world, const struct net_addr *addr,
				 const struct cluster_event *event))
{
	struct cluster_node *node = event_node(world, event);
	uint64_t port = event->draws[1] % (node->port_count + 1);

	for (unsigned i = 0; i < node->port_count; i++) {
		if (port == i || port == node->port_count)
			fn(world, &node->addrs[i], event);
	}
	if (port == node->port_count)
		fn(world, &node->discovery, event);
}

/* ---- network ----------------------------------------------------------------------------------
 */

static void addr_cut(struct cluster *world, const struct net_addr *addr,
		     const struct cluster_event *event)
{
	(void)event;
	cluster_count(world, "connections cut", sim_net_cut(world->sim, addr));
}

static void begin_cut(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_cut);
}

static void addr_part(struct cluster *world, const struct net_addr *addr,
		      const struct cluster_event *event)
{
	(void)event;
	sim_net_partition(world->sim, addr, true);
}

static void addr_join(struct cluster *world, const struct net_addr *addr,
		      const struct cluster_event *event)
{
	(void)event;
	sim_net_partition(world->sim, addr, false);
}

static void begin_partition(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_part);
}

static void end_partition(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_join);
}

static void addr_part_way(struct cluster *world, const struct net_addr *addr,
			  const struct cluster_event *event)
{
	sim_net_partition_one_way(world->sim, addr, event->kind == CEV_PARTITION_TO, true);
}

static void addr_join_way(struct cluster *world, const struct net_addr *addr,
			  const struct cluster_event *event)
{
	sim_net_partition_one_way(world->sim, addr, event->kind == CEV_PARTITION_TO, false);
}

static void begin_one_way(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_part_way);
}

static void end_one_way(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_join_way);
}

static void addr_half_close(struct cluster *world, const struct net_addr *addr,
			    const struct cluster_event *event)
{
	cluster_count(world, "connections half closed",
		      sim_net_half_close(world->sim, addr, event->draws[2] % 2 == 0));
}

static void begin_half_close(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_half_close);
}

static void addr_limit(struct cluster *world, const struct net_addr *addr,
		       const struct cluster_event *event)
{
	sim_net_limit(world->sim, addr, LIMIT_MIN_BYTES + event->draws[2] % 1000000);
}

static void addr_unlimit(struct cluster *world, const struct net_addr *addr,
			 const struct cluster_event *event)
{
	(void)event;
	sim_net_limit(world->sim, addr, 0);
}

static void begin_limit(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_limit);
}

static void end_limit(struct cluster *world, const struct cluster_event *event)
{
	for_addrs(world, event, addr_unlimit);
}

static void begin_flips(struct cluster *world, const struct cluster_event *event)
{
	world->flip_until_ns = sim_now(world->sim) + event->last_ns;
	world->flip_one_in = 10 + event->draws[1] % 100;
}

static void begin_slow(struct cluster *world, const struct cluster_event *event)
{
	struct sim_faults faults = world->faults;

	faults.slow_ppm = 10000 + (uint32_t)(event->draws[1] % 300000);
	sim_net_set_faults(world->sim, &faults);
}

static void end_slow(struct cluster *world, const struct cluster_event *event)
{
	static const struct sim_faults none;

	(void)event;
	sim_net_set_faults(world->sim, world->is_healed ? &none : &world->faults);
}

static void begin_peer_cut(struct cluster *world, const struct cluster_event *event)
{
	cluster_count(world, "connections of peers cut",
		      sim_net_cut(world->sim, &event_node(world, event)->peer));
}

static void begin_peer_partition(struct cluster *world, const struct cluster_event *event)
{
	sim_net_partition(world->sim, &event_node(world, event)->peer, true);
}

static void end_peer_partition(struct cluster *world, const struct cluster_event *event)
{
	sim_net_partition(world->sim, &event_node(world, event)->peer, false);
}

/* ---- nodes ------------------------------------------------------------------------------------
 */

static void node_kill(struct cluster *world, const struct cluster_event *event, enum sim_death how)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_state(node->node) == SIM_NODE_DOWN)
		return;
	cluster_node_start_later(node, event->last_ns + 50 * NS_PER_MS);
	sim_node_kill(node->node, how);
}

static void begin_node_kill(struct cluster *world, const struct cluster_event *event)
{
	node_kill(world, event, SIM_DEATH_KILLED);
}

static void begin_node_power(struct cluster *world, const struct cluster_event *event)
{
	node_kill(world, event, SIM_DEATH_POWER);
}

static void begin_node_crash(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);
	bool is_power = event->draws[2] % 4 == 0 && cluster_has(world, CF_NODE_POWER);

	if (sim_node_state(node->node) != SIM_NODE_DOWN)
		sim_node_crash_after(node->node, 1 + event->draws[1] % CRASH_MAX,
				     is_power ? SIM_DEATH_POWER : SIM_DEATH_KILLED);
}

static void begin_node_restart(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_state(node->node) != SIM_NODE_SERVING ||
	    sim_process_frozen_until(sim_node_process(node->node)) != 0)
		return;
	node->down_ns = event->last_ns;
	cluster_count(world, "nodes restarted", 1);
	sim_node_stop(node->node);
}

static void begin_node_freeze(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_state(node->node) != SIM_NODE_DOWN)
		sim_node_freeze(node->node, sim_now(world->sim) + event->last_ns);
}

/* As in a long apply, or a sync of the store that takes seconds: the data path continues. */
static void begin_control_busy(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_state(node->node) == SIM_NODE_SERVING)
		sim_node_freeze_control(node->node, sim_now(world->sim) + event->last_ns);
}

static void begin_reactor_stuck(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_state(node->node) == SIM_NODE_SERVING)
		sim_node_freeze_reactor(node->node, (unsigned)event->draws[1],
					sim_now(world->sim) + event->last_ns);
}

static void begin_node_memory(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_state(node->node) == SIM_NODE_SERVING)
		sim_process_refuse_memory(sim_node_process(node->node),
					  MEMORY_ONE_IN_MIN + (uint32_t)(event->draws[1] % 200),
					  event->draws[2]);
}

static void end_node_memory(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_process(node->node) != NULL)
		sim_process_refuse_memory(sim_node_process(node->node), 0, 0);
}

static void begin_node_jump(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_process(node->node) != NULL)
		sim_process_jump_clock(sim_node_process(node->node),
				       event->draws[1] % (5 * NS_PER_S));
}

/* An administrator sets the wall clock, forward or back. */
static void begin_wall(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (sim_node_process(node->node) != NULL)
		sim_posix_jump_wall(sim_node_process(node->node),
				    (int64_t)(event->draws[1] % (7200 * NS_PER_S)) -
					    (int64_t)(3600 * NS_PER_S));
}

/* ---- hosts ------------------------------------------------------------------------------------
 */

static void begin_host_kill(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_host *host = event_host(world, event);

	if (host->process == NULL)
		return;
	cluster_host_start_later(host, event->last_ns);
	cluster_host_kill(host, event->draws[1] % 2 == 0 ? SIM_DEATH_KILLED : SIM_DEATH_POWER);
}

static void begin_host_crash(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_host *host = event_host(world, event);

	if (host->process != NULL)
		sim_process_crash_after(host->process, 1 + event->draws[1] % CRASH_MAX,
					event->draws[2] % 2 == 0 ? SIM_DEATH_KILLED
								 : SIM_DEATH_POWER);
}

static void begin_host_close(struct cluster *world, const struct cluster_event *event)
{
	cluster_host_leave(event_host(world, event));
}

static void begin_host_freeze(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_host *host = event_host(world, event);

	if (host->process != NULL)
		sim_process_freeze(host->process, sim_now(world->sim) + event->last_ns);
}

static void begin_host_memory(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_host *host = event_host(world, event);

	if (host->process != NULL)
		sim_process_refuse_memory(host->process,
					  MEMORY_ONE_IN_MIN + (uint32_t)(event->draws[1] % 100),
					  event->draws[2]);
}

static void end_host_memory(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_host *host = event_host(world, event);

	if (host->process != NULL)
		sim_process_refuse_memory(host->process, 0, 0);
}

/* ---- media and stores -------------------------------------------------------------------------
 */

static void begin_disk_full(struct cluster *world, const struct cluster_event *event)
{
	sim_disk_set_full(event_disk(world, event)->disk, true);
}

static void end_disk_full(struct cluster *world, const struct cluster_event *event)
{
	sim_disk_set_full(event_disk(world, event)->disk, false);
}

static void begin_disk_cut(struct cluster *world, const struct cluster_event *event)
{
	sim_disk_cut(event_disk(world, event)->disk, event->draws[1] % CLUSTER_PART_BLOCKS);
}

static void end_disk_cut(struct cluster *world, const struct cluster_event *event)
{
	sim_disk_cut(event_disk(world, event)->disk, CLUSTER_BLOCKS_MAX);
}

void cluster_disk_lose(struct cluster_disk *disk)
{
	struct cluster *world = disk->world;

	sim_trace(world->sim, "disk %u: power is lost", disk->index);
	cluster_count(world, "disks that lost power", 1);
	world->step++;
	disk->lost_at = world->step;
	disk->is_losing = true;
	sim_disk_power_loss(disk->disk);
	disk->is_losing = false;
	memset(disk->fused_from, 0, sizeof(disk->fused_from));
	model_power_loss(disk->model, world->step);
	for (unsigned h = 0; h < world->host_count; h++) {
		for (unsigned i = 0; i < world->hosts[h].worker_count; i++)
			cluster_worker_forget(world->hosts[h].workers[i], disk->index);
	}
}

static void begin_disk_power(struct cluster *world, const struct cluster_event *event)
{
	cluster_disk_lose(event_disk(world, event));
}

static void begin_store_full(struct cluster *world, const struct cluster_event *event)
{
	sim_folder_set_full(sim_node_folder(event_node(world, event)->node), true);
}

static void end_store_full(struct cluster *world, const struct cluster_event *event)
{
	sim_folder_set_full(sim_node_folder(event_node(world, event)->node), false);
}

static void begin_store_error(struct cluster *world, const struct cluster_event *event)
{
	sim_folder_set_errors(sim_node_folder(event_node(world, event)->node),
			      2 + (uint32_t)(event->draws[1] % 20));
}

static void end_store_error(struct cluster *world, const struct cluster_event *event)
{
	sim_folder_set_errors(sim_node_folder(event_node(world, event)->node), 0);
}

/* ---- operators --------------------------------------------------------------------------------
 */

static struct cluster_disk *wanted_ns(struct cluster *world, const struct cluster_event *event,
				      uint8_t *ret_bit)
{
	struct cluster_disk *disk = event_disk(world, event);

	world->desired.version++;
	*ret_bit = (uint8_t)(1u << (disk->nsid - 1));
	return disk;
}

static void begin_ana(struct cluster *world, const struct cluster_event *event)
{
	static const enum ana_state states[] = {ANA_OPTIMIZED,       ANA_OPTIMIZED,
						ANA_NON_OPTIMIZED,   ANA_INACCESSIBLE,
						ANA_PERSISTENT_LOSS, ANA_CHANGE};
	struct cluster_node *node = event_node(world, event);

	world->desired.version++;
	world->desired.ana[node->index][event->draws[1] % node->port_count]
			  [event->draws[2] % CLUSTER_NS_MAX] =
		states[event->draws[3] % ARRAY_LEN(states)];
}

static void begin_ns(struct cluster *world, const struct cluster_event *event)
{
	uint8_t bit;
	struct cluster_disk *disk = wanted_ns(world, event, &bit);

	if (!cluster_images_are_whole(world) && cluster_has(world, CF_IMAGE))
		return;
	world->desired.ns_absent[disk->subsystem] ^= bit;
	/* The reservation ends with the namespace. */
	disk->holder = 0;
	disk->holder_number++;
}

static void begin_grow(struct cluster *world, const struct cluster_event *event)
{
	uint8_t bit;
	struct cluster_disk *disk = wanted_ns(world, event, &bit);

	world->desired.ns_grown[disk->subsystem] |= bit;
}

static void begin_read_only(struct cluster *world, const struct cluster_event *event)
{
	uint8_t bit;
	struct cluster_disk *disk = wanted_ns(world, event, &bit);

	world->desired.ns_read_only[disk->subsystem] ^= bit;
}

static void begin_revoke(struct cluster *world, const struct cluster_event *event)
{
	unsigned host = (unsigned)(event->draws[0] % world->host_count);
	unsigned sub = (unsigned)(event->draws[1] % world->sub_count);

	world->desired.version++;
	world->desired.host_revoked[sub] ^= (uint8_t)(1u << host);
}

/* Never the first port of a node: the discovery port shares its IP address. */
static void begin_port(struct cluster *world, const struct cluster_event *event)
{
	struct cluster_node *node = event_node(world, event);

	if (node->port_count < 2)
		return;
	world->desired.version++;
	world->desired.port_absent[node->index] ^= 2;
}

/* The subsystem's namespaces and their reservations end with it. */
static void begin_subsystem(struct cluster *world, const struct cluster_event *event)
{
	(void)event;
	if (world->sub_count < 2 ||
	    (cluster_has(world, CF_IMAGE) && !cluster_images_are_whole(world)))
		return;
	world->desired.version++;
	world->desired.sub_absent ^= 2;
	for (unsigned i = 0; i < world->subs[1].ns_count; i++) {
		world->subs[1].disks[i]->holder = 0;
		world->subs[1].disks[i]->holder_number++;
	}
}

static void begin_mask(struct cluster *world, const struct cluster_event *event)
{
	uint8_t bit;
	struct cluster_disk *disk = wanted_ns(world, event, &bit);

	world->desired.ns_hidden[disk->subsystem][disk->nsid - 1] ^=
		(uint8_t)(1u << event->draws[1] % world->host_count);
}

/* ---- the table --------------------------------------------------------------------------------
 */

static const struct event_row rows[CEV_COUNT] = {
	[CEV_CUT] = {"cut", CF_CUT, 0, begin_cut, NULL, false},
	[CEV_PARTITION] = {"partition", CF_PARTITION, PARTITION_MAX_MS, begin_partition,
			   end_partition, true},
	[CEV_PARTITION_TO] = {"partition to the server", CF_ONE_WAY, PARTITION_MAX_MS,
			      begin_one_way, end_one_way, true},
	[CEV_PARTITION_FROM] = {"partition from the server", CF_ONE_WAY, PARTITION_MAX_MS,
				begin_one_way, end_one_way, true},
	[CEV_HALF_CLOSE] = {"half close", CF_HALF_CLOSE, 0, begin_half_close, NULL, true},
	[CEV_LIMIT] = {"limit", CF_LIMIT, PARTITION_MAX_MS, begin_limit, end_limit, true},
	[CEV_FLIPS] = {"flips", CF_FLIP, 1000, begin_flips, NULL, true},
	[CEV_SLOW] = {"slow readers", CF_SLOW, 1000, begin_slow, end_slow, true},
	[CEV_NODE_KILL] = {"kill a node", CF_NODE_KILL, DOWN_MAX_MS, begin_node_kill, NULL, true},
	[CEV_NODE_POWER] = {"power off a node", CF_NODE_POWER, DOWN_MAX_MS, begin_node_power, NULL,
			    true},
	[CEV_NODE_CRASH] = {"crash a node", CF_NODE_CRASH, 0, begin_node_crash, NULL, true},
	[CEV_NODE_RESTART] = {"restart a node", CF_NODE_RESTART, DOWN_MAX_MS, begin_node_restart,
			      NULL, true},
	[CEV_NODE_FREEZE] = {"freeze a node", CF_NODE_FREEZE, FREEZE_MAX_MS, begin_node_freeze,
			     NULL, true},
	[CEV_CONTROL_BUSY] = {"a node's control is busy", CF_CONTROL_BUSY, FREEZE_MAX_MS,
			      begin_control_busy, NULL, false},
	[CEV_REACTOR_STUCK] = {"a reactor of a node is stuck", CF_REACTOR_STUCK, FREEZE_MAX_MS,
			       begin_reactor_stuck, NULL, true},
	[CEV_NODE_MEMORY] = {"refuse memory in a node", CF_NODE_MEMORY, 1000, begin_node_memory,
			     end_node_memory, true},
	[CEV_NODE_JUMP] = {"jump of a node's clock", CF_NODE_JUMP, 0, begin_node_jump, NULL, true},
	[CEV_HOST_KILL] = {"kill a host", CF_HOST_KILL, DOWN_MAX_MS, begin_host_kill, NULL, true},
	[CEV_HOST_CRASH] = {"crash a host", CF_HOST_CRASH, 0, begin_host_crash, NULL, true},
	[CEV_HOST_CLOSE] = {"close a host", CF_HOST_CLOSE, 0, begin_host_close, NULL, true},
	[CEV_HOST_FREEZE] = {"freeze a host", CF_HOST_FREEZE, FREEZE_MAX_MS, begin_host_freeze,
			     NULL, true},
	[CEV_HOST_MEMORY] = {"refuse memory in a host", CF_HOST_MEMORY, 1000, begin_host_memory,
			     end_host_memory, true},
	[CEV_DISK_FULL] = {"disk is full", CF_DISK_FULL, 2000, begin_disk_full, end_disk_full,
			   false},
	[CEV_DISK_CUT] = {"disk is cut", CF_DISK_CUT, 2000, begin_disk_cut, end_disk_cut, false},
	[CEV_DISK_POWER] = {"disk loses power", CF_DISK_POWER, 0, begin_disk_power, NULL, false},
	[CEV_STORE_FULL] = {"store is full", CF_STORE_FULL, 2000, begin_store_full, end_store_full,
			    false},
	[CEV_STORE_ERROR] = {"store has errors", CF_STORE_ERROR, 2000, begin_store_error,
			     end_store_error, false},
	[CEV_ANA] = {"ANA state", CF_ANA, 0, begin_ana, NULL, false},
	[CEV_NS] = {"add or remove a namespace", CF_NS, 0, begin_ns, NULL, false},
	[CEV_GROW] = {"grow a namespace", CF_GROW, 0, begin_grow, NULL, false},
	[CEV_REVOKE] = {"revoke or allow a host", CF_REVOKE, 0, begin_revoke, NULL, false},
	[CEV_READ_ONLY] = {"read-only or not", CF_READ_ONLY, 0, begin_read_only, NULL, false},
	[CEV_PEER_CUT] = {"peer links cut", CF_PEERS, 0, begin_peer_cut, NULL, false},
	[CEV_PEER_PARTITION] = {"peers parted", CF_PEERS, PARTITION_MAX_MS, begin_peer_partition,
				end_peer_partition, false},
	[CEV_PORT] = {"add or remove a port", CF_PORTS, 0, begin_port, NULL, false},
	[CEV_SUBSYSTEM] = {"add or remove a subsystem", CF_SUBSYSTEM, 0, begin_subsystem, NULL,
			   false},
	[CEV_MASK] = {"hide or show a namespace", CF_MASK, 0, begin_mask, NULL, false},
	[CEV_EDGE_FREEZE] = {"freeze a node, and cut it off", CF_EDGES, FREEZE_MAX_MS,
			     cluster_edges_freeze, cluster_edges_thaw, true},
	[CEV_IMAGE] = {"an image is to be lost", CF_IMAGE, IMAGE_MAX_MS, cluster_image_begin,
		       cluster_image_end, true},
	[CEV_REMAKE] = {"another namespace under an NSID", CF_REMAKE, REMAKE_MAX_MS,
			cluster_remake_begin, cluster_remake_end, false},
	[CEV_ROLLBACK] = {"return to a former generation", CF_ROLLBACK, 0, cluster_rollback_begin,
			  NULL, true},
	[CEV_SOURCE] = {"a start from another source", CF_SOURCE, DOWN_MAX_MS, cluster_start_begin,
			NULL, true},
	[CEV_TWIN] = {"a member finds another file", CF_TWIN, 1500, cluster_twin_begin,
		      cluster_twin_end, true},
	[CEV_LONG_APPLY] = {"a node applies for long", CF_LONG_APPLY, FREEZE_MAX_MS,
			    cluster_long_apply_begin, cluster_long_apply_end, true},
	[CEV_WALL] = {"wall clock set", CF_WALL, 0, begin_wall, NULL, false},
};

static void action_end(struct cluster *world, uint64_t arg)
{
	const struct cluster_event *event = &world->events[arg];

	sim_trace(world->sim, "event %" PRIu64 " ends: %s", arg, rows[event->kind].name);
	rows[event->kind].end(world, event);
}

static bool event_is_aimed(struct cluster *world, struct cluster_event *event)
{
	return event->kind == CEV_REMAKE ? cluster_remake_aim(world, event)
					 : cluster_edges_aim(world, event);
}

static void action_begin(struct cluster *world, uint64_t arg)
{
	const struct cluster_event *event = &world->events[arg];
	const struct event_row *row = &rows[event->kind];

	if (world->is_healed)
		return;
	if (!event_is_aimed(world, &world->events[arg])) {
		cluster_do_at(world, sim_now(world->sim) + AIM_NS, action_begin, arg);
		return;
	}
	sim_trace(world->sim,
		  "event %" PRIu64 ": %s (%" PRIu64 " %" PRIu64 " %" PRIu64 "), %llu ms", arg,
		  row->name, event->draws[0] % 6, event->draws[1] % 6, event->draws[2] % 6,
		  event->last_ns / NS_PER_MS);
	cluster_count(world, row->name, 1);
	cluster_hash(world, arg);
	if (row->can_kill_ctrl)
		cluster_fault(world, sim_now(world->sim) + event->last_ns);
	row->begin(world, event);
	if (row->end != NULL)
		cluster_do_at(world, sim_now(world->sim) + event->last_ns, action_end, arg);
}

static void event_choose(struct cluster *world, unsigned number)
{
	struct prng prng = cluster_prng(world, PURPOSE_EVENT, number);
	struct cluster_event *event = &world->events[number];
	enum cluster_event_kind kinds[CEV_COUNT];
	unsigned count = 0;

	for (unsigned i = 0; i < CEV_COUNT; i++) {
		if (world->features_drawn >> rows[i].feature & 1)
			kinds[count++] = (enum cluster_event_kind)i;
	}
	event->kind = count > 0 ? kinds[prng_below(&prng, count)] : CEV_CUT;
	event->is_off = count == 0 || !cluster_has(world, rows[event->kind].feature) ||
			!scenario_has_event(world->scenario, number);
	event->at_ns = FIRST_EVENT_MS * NS_PER_MS + prng_below(&prng, world->troubled_ns);
	if (rows[event->kind].last_max_ms > 0)
		event->last_ns = (LAST_MIN_MS + prng_below(&prng, rows[event->kind].last_max_ms)) *
				 NS_PER_MS;
	for (unsigned i = 0; i < ARRAY_LEN(event->draws); i++)
		event->draws[i] = prng_next(&prng) >> 8;
}

void cluster_events_plan(struct cluster *world)
{
	struct prng prng = cluster_prng(world, PURPOSE_EVENT + 1, 0);

	world->event_count = 3 + (unsigned)prng_below(&prng, CLUSTER_EVENTS_MAX - 3);
	for (unsigned i = 0; i < world->event_count; i++)
		event_choose(world, i);
	if (cluster_has(world, CF_EDGES))
		cluster_edges_plan(world);
	if (cluster_remake_is_on(world->seed))
		cluster_remake_plan(world);
	if (cluster_start_is_on(world->seed))
		cluster_start_plan(world);
	if (cluster_twin_is_on(world->seed))
		cluster_twin_plan(world);
	world->verdict->events = world->event_count;
}

void cluster_events_begin(struct cluster *world)
{
	uint64_t now_ns = sim_now(world->sim);

	sim_net_set_faults(world->sim, &world->faults);
	if (cluster_has(world, CF_NET_FAULTS))
		cluster_fault(world, now_ns + world->troubled_ns);
	for (unsigned i = 0; i < world->event_count; i++) {
		if (!world->events[i].is_off)
			cluster_do_at(world, now_ns + world->events[i].at_ns, action_begin, i);
	}
}

/* ---- the end of the troubles ------------------------------------------------------------------
 */

static void heal_net(struct cluster *world)
{
	static const struct sim_faults none;

	sim_net_set_faults(world->sim, &none);
	world->flip_until_ns = 0;
	for (unsigned i = 0; i < world->node_count; i++) {
		struct cluster_node *node = &world->nodes[i];

		sim_net_partition(world->sim, &node->peer, false);
		for (unsigned p = 0; p <= node->port_count; p++) {
			const struct net_addr *addr =
				p < node->port_count ? &node->addrs[p] : &node->discovery;

			sim_net_partition(world->sim, addr, false);
			sim_net_partition_one_way(world->sim, addr, false, false);
			sim_net_partition_one_way(world->sim, addr, true, false);
			sim_net_limit(world->sim, addr, 0);
		}
	}
}

static void heal_processes(struct cluster *world)
{
	for (unsigned i = 0; i < world->node_count; i++) {
		struct sim_node *node = world->nodes[i].node;

		sim_folder_set_full(sim_node_folder(node), false);
		sim_folder_set_errors(sim_node_folder(node), 0);
		if (sim_node_process(node) == NULL)
			continue;
		sim_node_crash_after(node, 0, SIM_DEATH_KILLED);
		sim_process_refuse_memory(sim_node_process(node), 0, 0);
	}
	for (unsigned i = 0; i < world->host_count; i++) {
		struct cluster_host *host = &world->hosts[i];

		if (host->process == NULL)
			continue;
		sim_process_crash_after(host->process, 0, SIM_DEATH_KILLED);
		sim_process_refuse_memory(host->process, 0, 0);
	}
}

static void heal_desired(struct cluster *world)
{
	struct cluster_desired *desired = &world->desired;

	desired->version++;
	memset(desired->ns_absent, 0, sizeof(desired->ns_absent));
	memset(desired->ns_read_only, 0, sizeof(desired->ns_read_only));
	memset(desired->host_revoked, 0, sizeof(desired->host_revoked));
	memset(desired->ns_hidden, 0, sizeof(desired->ns_hidden));
	memset(desired->port_absent, 0, sizeof(desired->port_absent));
	desired->sub_absent = 0;
	for (unsigned i = 0; i < world->node_count; i++) {
		for (unsigned p = 0; p < CLUSTER_PORTS_MAX; p++) {
			for (unsigned g = 0; g < CLUSTER_NS_MAX; g++) {
				if (desired->ana[i][p][g] != ANA_NON_OPTIMIZED)
					desired->ana[i][p][g] = ANA_OPTIMIZED;
			}
		}
	}
}

void cluster_heal(struct cluster *world)
{
	sim_trace(world->sim, "the troubles are over");
	cluster_fault(world, sim_now(world->sim));
	world->is_healed = true;
	world->commands_left = 0;
	heal_net(world);
	heal_processes(world);
	for (unsigned i = 0; i < world->disk_count; i++)
		sim_disk_heal(world->disks[i].disk);
	if (cluster_has(world, CF_IMAGE))
		cluster_image_heal(world);
	heal_desired(world);
	for (unsigned i = 0; i < world->host_count; i++)
		cluster_host_wake(&world->hosts[i]);
}
