/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host processes of the cluster world: each opens one mpath per subsystem and runs workers. A host
 * is killed, frozen or shut down, then started again. Callbacks run on the host's reactor; starts,
 * kills and shutdowns happen outside of all turns.
 */
#include "cluster_world.h"

#include "host/mpath_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HOST_DEFAULT_DOWN_NS (200 * NS_PER_MS)
#define PATHS_TIMER_MAX_US   300000

/* ---- paths ------------------------------------------------------------------------------------
 */

/* The known paths. In some seeds only the first one is known until discovery finds others. */
static unsigned addrs_of(struct cluster_mpath *cmpath, struct host_addr *addrs)
{
	const struct cluster *world = cmpath->host->world;
	unsigned count = 0;

	for (unsigned i = 0; i < world->node_count; i++) {
		for (unsigned p = 0;
		     cluster_node_has(world, i, cmpath->sub) && p < world->nodes[i].port_count;
		     p++) {
			if (cmpath->known_ports[i] >> p & 1)
				addrs[count++] =
					(struct host_addr){.net = world->nodes[i].addrs[p]};
		}
	}
	return count;
}

static bool has_to_discover(const struct cluster *world)
{
	return cluster_has(world, CF_DISCOVERY) && cluster_has(world, CF_DISCOVERED);
}

/* Returns whether a port is new. */
static bool ports_learn(struct cluster_mpath *cmpath)
{
	const struct cluster *world = cmpath->host->world;
	bool is_first = true;
	bool is_new = false;

	for (unsigned i = 0; i < world->node_count; i++) {
		for (unsigned p = 0;
		     cluster_node_has(world, i, cmpath->sub) && p < world->nodes[i].port_count;
		     p++) {
			uint8_t bit = (uint8_t)(1u << p);

			if (!(cmpath->known_ports[i] & bit) &&
			    (is_first || !has_to_discover(world) ||
			     cluster_discovery_knows(world, cmpath->sub,
						     &world->nodes[i].addrs[p]))) {
				cmpath->known_ports[i] |= bit;
				is_new = true;
			}
			is_first = false;
		}
	}
	return is_new;
}

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	struct cluster_mpath *cmpath = arg;

	(void)mpath;
	(void)error;
	cmpath->is_ready = true;
	sim_trace(cmpath->host->world->sim, "host %u: subsystem %u is ready (%d)",
		  cmpath->host->index, cmpath->sub, res);
}

static void on_ns_changed(struct mpath *mpath, void *arg, uint32_t nsid)
{
	struct cluster_mpath *cmpath = arg;

	(void)mpath;
	sim_trace(cmpath->host->world->sim, "host %u: subsystem %u: namespace %u changed",
		  cmpath->host->index, cmpath->sub, nsid);
}

static void on_path_changed(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	struct cluster_mpath *cmpath = arg;
	struct cluster *world = cmpath->host->world;

	CHECK(path < mpath_path_count(mpath));
	sim_trace(world->sim, "host %u: subsystem %u: path %u: %s", cmpath->host->index,
		  cmpath->sub, path, what);
	cluster_check_path(cmpath, path, what);
}

static void mpath_start(struct cluster_mpath *cmpath)
{
	static const struct mpath_callbacks callbacks = {
		.ready = on_ready, .ns_changed = on_ns_changed, .path_changed = on_path_changed};
	struct cluster_host *host = cmpath->host;
	struct host_addr addrs[CLUSTER_NODES_MAX * CLUSTER_PORTS_MAX];
	unsigned count;
	int res;

	memset(cmpath->known_ports, 0, sizeof(cmpath->known_ports));
	(void)ports_learn(cmpath);
	count = addrs_of(cmpath, addrs);
	do {
		res = mpath_open(host->reactor, &host->configs[cmpath->sub], addrs, count,
				 &callbacks, cmpath, &cmpath->mpath);
	} while (res == -ENOMEM);
	CHECK(res == 0);
	cmpath->is_ready = false;
	cmpath->is_closing = false;
}

static void paths_add_all(struct cluster_mpath *cmpath)
{
	struct host_addr addrs[CLUSTER_NODES_MAX * CLUSTER_PORTS_MAX];
	unsigned count = addrs_of(cmpath, addrs);

	for (unsigned i = 0; i < count; i++) {
		int res = mpath_add_path(cmpath->mpath, &addrs[i]);

		CHECK(res == 0 || res == -EEXIST || res == -ENOMEM);
	}
}

/* Removes a random path, whatever its state, or adds it again. */
static void on_paths_timer(struct reactor_timer *timer)
{
	struct cluster_host *host = container_of(timer, struct cluster_host, paths_timer);
	struct cluster *world = host->world;
	struct cluster_mpath *cmpath = &host->mpaths[prng_below(&world->prng, world->sub_count)];
	struct host_addr addrs[CLUSTER_NODES_MAX * CLUSTER_PORTS_MAX];
	unsigned count = addrs_of(cmpath, addrs);
	const struct host_addr *addr = &addrs[prng_below(&world->prng, count)];

	if (world->is_healed || host->is_leaving)
		return;
	if (mpath_remove_path(cmpath->mpath, addr) == -ENOENT) {
		int res = mpath_add_path(cmpath->mpath, addr);

		CHECK(res == 0 || res == -EEXIST || res == -ENOMEM || res == -ENOSPC);
	} else {
		cluster_count(world, "paths removed", 1);
	}
	reactor_timer_arm(timer,
			  reactor_now_ns(host->reactor) +
				  (1 + prng_below(&world->prng, PATHS_TIMER_MAX_US)) * NS_PER_US);
}

/* ---- life -------------------------------------------------------------------------------------
 */

static void on_dead(struct sim_mourner *mourner, struct sim_process *process, enum sim_death how)
{
	struct cluster_host *host = container_of(mourner, struct cluster_host, mourner);
	struct cluster *world = host->world;

	(void)process;
	sim_trace(world->sim, "host %u: died (%d)", host->index, (int)how);
	cluster_fault(world, sim_now(world->sim));
	for (unsigned i = 0; i < host->worker_count; i++) {
		if (host->workers[i]->is_busy)
			cluster_ghost_add(host->workers[i]);
		host->workers[i]->is_busy = false;
	}
	host->process = NULL;
	host->reactor = NULL;
	for (unsigned i = 0; i < world->sub_count; i++)
		host->mpaths[i].mpath = NULL;
	if (!host->is_restarting && !world->is_failed && !world->is_ending)
		cluster_host_start_later(host, HOST_DEFAULT_DOWN_NS);
}

static void workers_start(struct cluster_host *host)
{
	for (unsigned i = 0; i < host->worker_count; i++) {
		host->workers[i]->is_idle = false;
		cluster_worker_fill(host->workers[i]);
	}
	reactor_timer_init(host->reactor, &host->paths_timer, on_paths_timer);
	if (cluster_has(host->world, CF_PATHS))
		reactor_timer_arm(&host->paths_timer,
				  reactor_now_ns(host->reactor) + 300 * NS_PER_MS);
}

void cluster_host_start(struct cluster_host *host)
{
	struct cluster *world = host->world;
	struct prng prng = cluster_prng(world, 30 + host->index, host->life);
	uint64_t offset_ns = prng_below(&prng, 3600 * NS_PER_S);
	int32_t drift_ppm = (int32_t)prng_below(&prng, 2 * CLUSTER_DRIFT_PPM) - CLUSTER_DRIFT_PPM;
	struct reactor_config config = {.cpu = -1, .index = host->index};
	char name[32];

	CHECK(host->process == NULL);
	snprintf(name, sizeof(name), "host%u.%" PRIu64, host->index, host->life++);
	sim_trace(world->sim, "host %u: start", host->index);
	host->is_leaving = false;
	host->had_memory_trouble = false;
	host->process = sim_process_create(world->sim, name);
	sim_process_set_clock(host->process, offset_ns,
			      cluster_has(world, CF_DRIFT) ? drift_ppm : 0);
	host->mourner.dead = on_dead;
	sim_process_add_mourner(host->process, &host->mourner);
	sim_process_enter(host->process);
	CHECK(reactor_create(&config, &host->reactor) == 0);
	sim_process_leave(host->process);
	host->allocations = sim_process_allocations(host->process);
	sim_enter(host->reactor);
	for (unsigned i = 0; i < world->sub_count; i++)
		mpath_start(&host->mpaths[i]);
	workers_start(host);
	sim_leave(host->reactor);
}

static void action_start(struct cluster *world, uint64_t arg)
{
	struct cluster_host *host = &world->hosts[arg];

	host->is_restarting = false;
	if (host->process == NULL)
		cluster_host_start(host);
}

void cluster_host_start_later(struct cluster_host *host, uint64_t delay_ns)
{
	if (host->is_restarting)
		return;
	host->is_restarting = true;
	cluster_do_at(host->world, sim_now(host->world->sim) + delay_ns, action_start, host->index);
}

void cluster_host_kill(struct cluster_host *host, enum sim_death how)
{
	if (host->process != NULL)
		sim_process_kill(host->process, how);
}

/* ---- leaving ----------------------------------------------------------------------------------
 */

void cluster_host_leave(struct cluster_host *host)
{
	if (host->process == NULL || host->is_leaving)
		return;
	host->is_leaving = true;
	/* Commands in flight need paths to end. */
	sim_enter(host->reactor);
	for (unsigned i = 0; i < host->world->sub_count; i++)
		paths_add_all(&host->mpaths[i]);
	sim_leave(host->reactor);
}

static void on_gone(void *arg)
{
	struct cluster_mpath *cmpath = arg;

	cmpath->mpath = NULL;
}

/* Returns whether everything is closed. */
static bool host_close(struct cluster_host *host)
{
	bool is_closed = true;

	for (unsigned i = 0; i < host->worker_count; i++) {
		if (host->workers[i]->is_busy)
			return false;
	}
	if (sim_process_frozen_until(host->process) != 0)
		return false;
	for (unsigned i = 0; i < host->world->sub_count; i++) {
		struct cluster_mpath *cmpath = &host->mpaths[i];

		if (cmpath->mpath != NULL && !cmpath->is_closing) {
			cmpath->is_closing = true;
			sim_enter(host->reactor);
			for (unsigned k = 0; k < host->worker_count; k++)
				reactor_timer_cancel(&host->workers[k]->timer);
			reactor_timer_cancel(&host->paths_timer);
			mpath_close(cmpath->mpath, on_gone, cmpath);
			sim_leave(host->reactor);
		}
		is_closed &= cmpath->mpath == NULL;
	}
	/* The process may have died during the close (sim_process_crash_after). */
	return is_closed && host->process != NULL;
}

static void host_discover(struct cluster_host *host)
{
	if (host->process == NULL || host->is_leaving ||
	    sim_process_frozen_until(host->process) != 0)
		return;
	for (unsigned i = 0; i < host->world->sub_count; i++) {
		struct cluster_mpath *cmpath = &host->mpaths[i];

		/* The process may have died when paths of the previous mpath were added. */
		if (host->process == NULL || !ports_learn(cmpath))
			continue;
		cluster_count(host->world, "paths discovered", 1);
		sim_enter(host->reactor);
		paths_add_all(cmpath);
		sim_leave(host->reactor);
	}
}

void cluster_hosts_look(struct cluster *world)
{
	for (unsigned i = 0; i < world->host_count; i++) {
		struct cluster_host *host = &world->hosts[i];
		uint64_t allocations;

		if (has_to_discover(world))
			host_discover(host);
		if (host->process == NULL || !host->is_leaving || !host_close(host))
			continue;
		allocations = sim_process_allocations(host->process);
		if (allocations > host->allocations)
			cluster_fail(world,
				     "host %u has closed everything and still has %" PRIu64
				     " allocations",
				     i, allocations - host->allocations);
		cluster_count(world, "hosts closed", 1);
		sim_process_kill(host->process, SIM_DEATH_KILLED);
	}
}

void cluster_host_wake(struct cluster_host *host)
{
	if (host->process == NULL || host->is_leaving)
		return;
	sim_enter(host->reactor);
	reactor_timer_cancel(&host->paths_timer);
	for (unsigned i = 0; i < host->world->sub_count; i++)
		paths_add_all(&host->mpaths[i]);
	for (unsigned i = 0; i < host->worker_count; i++) {
		host->workers[i]->is_idle = false;
		if (!host->workers[i]->is_busy)
			reactor_timer_arm(&host->workers[i]->timer, reactor_now_ns(host->reactor));
	}
	sim_leave(host->reactor);
}

/* ---- state of a host at the end ---------------------------------------------------------------
 */

static bool ns_is_well(struct cluster_mpath *cmpath, unsigned ns_index, char why[200])
{
	struct cluster *world = cmpath->host->world;
	const struct cluster_desired *desired = &world->desired;
	struct mpath_ns *ns = mpath_ns_find(cmpath->mpath, ns_index + 1);
	bool is_absent = desired->ns_absent[cmpath->sub] >> ns_index & 1;
	uint64_t blocks = desired->ns_grown[cmpath->sub] >> ns_index & 1 ? CLUSTER_BLOCKS_MAX
									 : CLUSTER_PART_BLOCKS;
	struct ns_info info;

	if (ns != NULL)
		mpath_ns_info(ns, &info);
	if (ns == NULL || info.is_gone) {
		snprintf(why, 200, "namespace %u is missing", ns_index + 1);
		return is_absent;
	}
	snprintf(why, 200, "namespace %u is another one", ns_index + 1);
	if (!is_absent &&
	    !uuid_equal(&info.identity.uuid, &desired->ns_uuid[cmpath->sub][ns_index]))
		return false;
	snprintf(why, 200, "namespace %u has %" PRIu64 " blocks, not %" PRIu64 "", ns_index + 1,
		 info.identity.block_count, is_absent ? 0 : blocks);
	return !is_absent && info.identity.block_count == blocks;
}

static bool path_is_well(struct cluster_mpath *cmpath, const struct net_addr *addr, unsigned node,
			 unsigned port, char why[200])
{
	struct cluster *world = cmpath->host->world;
	char text[NET_ADDR_TEXT_BYTES];
	struct path_info info;

	for (unsigned i = 0; i < mpath_path_count(cmpath->mpath); i++) {
		mpath_path_info(cmpath->mpath, i, &info);
		if (memcmp(&info.addr.net, addr, sizeof(*addr)) != 0)
			continue;
		snprintf(why, 200, "path %s is not live: %.120s", net_addr_format(addr, text),
			 info.last_error);
		if (info.state != PATH_LIVE || !cmpath->mpath->paths[i]->is_usable)
			return false;
		for (unsigned n = 0; n < world->subs[cmpath->sub].ns_count; n++) {
			enum ana_state state = mpath_path_ana(cmpath->mpath, i, n + 1);

			snprintf(why, 200, "path %s: group %u is in state %x, not %x", text, n + 1,
				 (unsigned)state, (unsigned)world->desired.ana[node][port][n]);
			if (!(world->desired.ns_absent[cmpath->sub] >> n & 1) &&
			    state != world->desired.ana[node][port][n])
				return false;
		}
		return true;
	}
	snprintf(why, 200, "path %s is not there", net_addr_format(addr, text));
	return false;
}

static bool mpath_is_well(struct cluster_mpath *cmpath, char why[200])
{
	struct cluster *world = cmpath->host->world;
	unsigned count = 0;

	snprintf(why, 200, "it is not open");
	if (cmpath->mpath == NULL || cmpath->is_closing)
		return false;
	for (unsigned i = 0; i < world->node_count; i++) {
		for (unsigned p = 0;
		     cluster_node_has(world, i, cmpath->sub) && p < world->nodes[i].port_count;
		     p++) {
			count++;
			if (!path_is_well(cmpath, &world->nodes[i].addrs[p], i, p, why))
				return false;
		}
	}
	snprintf(why, 200, "it has %u paths", mpath_path_count(cmpath->mpath));
	if (mpath_path_count(cmpath->mpath) != count)
		return false;
	for (unsigned n = 0; n < world->subs[cmpath->sub].ns_count; n++) {
		if (!ns_is_well(cmpath, n, why))
			return false;
	}
	return true;
}

bool cluster_host_is_well(struct cluster_host *host, char why[200])
{
	bool is_well = true;

	snprintf(why, 200, "it is down");
	if (host->process == NULL)
		return false;
	snprintf(why, 200, "it is frozen");
	if (sim_process_frozen_until(host->process) != 0)
		return false;
	sim_enter(host->reactor);
	for (unsigned i = 0; i < host->world->sub_count && is_well; i++)
		is_well = mpath_is_well(&host->mpaths[i], why);
	sim_leave(host->reactor);
	for (unsigned i = 0; i < host->worker_count && is_well; i++) {
		snprintf(why, 200, "worker %u is busy", i);
		is_well = !host->workers[i]->is_busy && host->workers[i]->is_idle;
	}
	return is_well;
}
