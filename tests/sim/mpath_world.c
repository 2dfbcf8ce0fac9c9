/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of multipath tests: targets, ports, probes as media, one host. One thread, simulated
 * reactors.
 */
#include "mpath_world.h"
#include "host_config.h"

#include "base/clock.h"
#include "base/text.h"
#include "ns/ns_live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the target -------------------------------------------------------------------------------
 */

static void *made(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	CHECK(memory != NULL);
	return memory;
}

static void crowd_build(struct mworld *world, struct subsystem *subsystem, unsigned target)
{
	char name[64];

	for (unsigned i = 0; i < world->crowd_count; i++) {
		struct ns *ns = &subsystem->namespaces[subsystem->ns_count++];

		*ns = (struct ns){.nsid = MWORLD_NS + 1 + i, .ana_group = 1};
		ns_bind(ns, ns_backing_get(world->ns[MWORLD_NS - 1].backings[target]));
		snprintf(name, sizeof(name), "crowd %u", i);
		uuid_from_name(name, &ns->uuid);
	}
}

void mworld_uuid(const struct mworld *world, unsigned ns, unsigned target, unsigned life,
		 struct uuid *ret_uuid)
{
	bool is_other = target == MWORLD_TWIN ? world->twin.is_other : world->ns[ns].is_other;
	char name[64];

	snprintf(name, sizeof(name), "ns %u %u %u", ns + 1, is_other ? target : 0, life);
	uuid_from_name(name, ret_uuid);
}

static unsigned life_of(const struct mworld *world, unsigned ns, unsigned target)
{
	return target == MWORLD_TWIN && world->twin.is_other ? world->twin.life
							     : world->ns[ns].life;
}

static struct subsystem *subsystem_build(struct mworld *world, unsigned target)
{
	struct subsystem *subsystem = made(1, sizeof(*subsystem));
	bool is_serial_other = target == MWORLD_TWIN && world->twin.is_serial_other;

	text_copy(subsystem->nqn, sizeof(subsystem->nqn), TARGET_DEFAULT_NQN);
	text_copy(subsystem->serial, sizeof(subsystem->serial),
		  is_serial_other ? "MPATH2" : "MPATH1");
	text_copy(subsystem->model, sizeof(subsystem->model), "weft mpath");
	subsystem->allows_any_host = !world->is_shut;
	subsystem->ana_group_max = MWORLD_NS;
	subsystem->namespaces = ns_array_create(MWORLD_NS + world->crowd_count);
	CHECK(subsystem->namespaces != NULL);
	for (unsigned i = 0; i < MWORLD_NS; i++) {
		struct ns *ns = &subsystem->namespaces[subsystem->ns_count];

		if (world->ns[i].is_absent)
			continue;
		subsystem->ns_count++;
		*ns = (struct ns){.nsid = i + 1,
				  .ana_group =
					  world->ns[i].ana_group ? world->ns[i].ana_group : i + 1};
		ns_bind(ns, ns_backing_get(world->ns[i].backings[target]));
		mworld_uuid(world, i, target, life_of(world, i, target), &ns->uuid);
		memcpy(ns->nguid, ns->uuid.bytes, sizeof(ns->nguid));
	}
	crowd_build(world, subsystem, target);
	return subsystem;
}

/* The target that serves a port. */
static unsigned target_of(const struct mworld *world, unsigned port)
{
	if (world->twin.is_lent && world->twin.port == port)
		return MWORLD_TWIN;
	return world->target_count == 2 && port == world->port_count - 1;
}

static void port_build(struct mworld *world, struct port *port, unsigned index)
{
	port->id = (uint16_t)(index + 1);
	port->listen = world->addrs[index];
	port->subsystems = made(1, sizeof(*port->subsystems));
	port->subsystem_count = 1;
	port->ana = made(MWORLD_NS, sizeof(*port->ana));
	for (unsigned i = 0; i < MWORLD_NS; i++) {
		if (world->ana[index][i] != ANA_OPTIMIZED)
			port->ana[port->ana_count++] = (struct ana_group_state){
				.group = i + 1, .state = world->ana[index][i]};
	}
}

static struct snapshot *snapshot_build(struct mworld *world, unsigned target)
{
	struct snapshot *snapshot = snapshot_create();

	CHECK(snapshot != NULL);
	if (world->quiesce_ms > 0)
		snapshot->limits.quiesce_ms = world->quiesce_ms;
	if (world->io_queues_max > 0)
		snapshot->limits.io_queues_max = world->io_queues_max;
	snapshot->subsystem_count = 1;
	snapshot->subsystems = made(1, sizeof(*snapshot->subsystems));
	snapshot->subsystems[0] = subsystem_build(world, target);
	snapshot->ports = made(world->port_count, sizeof(*snapshot->ports));
	for (unsigned i = 0; i < world->port_count; i++) {
		struct port *port = &snapshot->ports[snapshot->port_count];

		if (target_of(world, i) != target)
			continue;
		port_build(world, port, i);
		port->subsystems[0] = snapshot->subsystems[0];
		snapshot->port_count++;
	}
	return snapshot;
}

static void on_applied(void *arg, int res, const char *error)
{
	struct mworld *world = arg;

	if (res != 0)
		check_failed(__FILE__, __LINE__, error);
	world->applying--;
}

static bool is_applying(void *arg)
{
	return ((struct mworld *)arg)->applying > 0;
}

void mworld_apply_start(struct mworld *world)
{
	for (unsigned i = 0; i < world->target_count; i++) {
		if (world->restarts[i].is_busy)
			continue;
		world->applying++;
		target_apply(world->targets[i], snapshot_build(world, i), on_applied, world);
	}
}

void mworld_apply(struct mworld *world)
{
	sim_enter(world->control);
	mworld_apply_start(world);
	sim_leave(world->control);
	CHECK(sim_run_while(world->sim, is_applying, world, 10 * NS_PER_S));
}

/* ---- life -------------------------------------------------------------------------------------
 */

/* The probe of the second target shares the first one's bytes, unless its namespace is another. */
static void second_probe_set(struct mworld *world, struct probe *probe, unsigned ns)
{
	world->ns[ns].second_probe = probe;
	if (!world->ns[ns].is_other)
		probe_share(probe, world->ns[ns].probe);
}

void mworld_grow(struct mworld *world, unsigned ns)
{
	struct ns_backing **backing = &world->ns[ns].backings[0];
	struct probe *old = world->ns[ns].probe;
	struct probe *probe = probe_open(world, old->block_count * 2);
	struct ns_backing *grown;

	memcpy(probe->blocks, old->blocks, old->block_count * MWORLD_BLOCK_BYTES);
	CHECK(ns_backing_create_for(&probe->media, ns_backing_live(*backing), &grown) == 0);
	ns_backing_put(*backing);
	*backing = grown;
	world->ns[ns].probe = probe;
}

/* A new medium with the delays and settings of the old one. */
static struct probe *probe_again(struct mworld *world, const struct probe *old)
{
	struct probe *probe = probe_open(world, old->block_count);

	probe->prng = old->prng;
	probe->delay_ns = old->delay_ns;
	probe->random_delay_us = old->random_delay_us;
	probe->spike_one_in = old->spike_one_in;
	probe->spike_us = old->spike_us;
	probe->is_deaf = old->is_deaf;
	probe->life = old->life;
	probe->ns = old->ns;
	probe->media.can_discard = old->media.can_discard;
	probe->media.reads_zero_after_discard = old->media.reads_zero_after_discard;
	probe->media.has_volatile_cache = old->media.has_volatile_cache;
	probe_format(probe, old->media.block_bytes);
	return probe;
}

static void ns_set_probe(struct mworld_ns *ns, unsigned target, struct probe *probe,
			 struct ns_backing *backing)
{
	ns_backing_put(ns->backings[target]);
	ns->backings[target] = backing;
	if (target == 0)
		ns->probe = probe;
	else
		ns->second_probe = probe;
}

void mworld_replace(struct mworld *world, unsigned ns)
{
	struct mworld_ns *of = &world->ns[ns];
	struct ns_backing *backing;

	CHECK(!of->is_other);
	of->life++;
	for (unsigned i = 0; i < world->target_count; i++) {
		struct probe *probe = probe_again(world, i == 0 ? of->probe : of->second_probe);

		probe->life = of->life;
		if (i > 0)
			probe_share(probe, of->probe);
		CHECK(ns_backing_create(&probe->media, world->is_wide ? 2 : 1, &backing) == 0);
		ns_set_probe(of, i, probe, backing);
	}
}

void mworld_format(struct mworld *world, unsigned ns, uint32_t block_bytes)
{
	struct mworld_ns *of = &world->ns[ns];
	struct ns_backing *backing;

	for (unsigned i = 0; i < world->target_count; i++) {
		struct probe *old = i == 0 ? of->probe : of->second_probe;
		struct probe *probe = probe_again(world, old);

		probe_share(probe, old);
		probe_format(probe, block_bytes);
		CHECK(ns_backing_create_for(&probe->media, ns_backing_live(of->backings[i]),
					    &backing) == 0);
		ns_set_probe(of, i, probe, backing);
	}
}

/* ---- what the first target keeps --------------------------------------------------------------
 */

static int keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	struct mworld *world = arg;

	if (strcmp(kind, NS_LIVE_KEPT_LOSS) != 0)
		return 0;
	/* The machine has no power, or the process is dead. */
	if (probe_root(world->ns[0].probe)->is_dark)
		return -EIO;
	CHECK(value_bytes == sizeof(world->kept_mark));
	memcpy(world->kept_mark, value, value_bytes);
	world->has_kept = true;
	world->marks++;
	if (world->on_mark != NULL)
		world->on_mark(world);
	return 0;
}

static int recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	const struct mworld *world = arg;

	if (strcmp(kind, NS_LIVE_KEPT_LOSS) != 0 || !world->has_kept)
		return -ENOENT;
	*ret_bytes = sizeof(world->kept_mark);
	*ret_value = made(1, *ret_bytes);
	memcpy(*ret_value, world->kept_mark, *ret_bytes);
	return 0;
}

static struct keeper keeper_of(struct mworld *world)
{
	return (struct keeper){.keep = keep, .recall = recall, .arg = world};
}

/* As in another process: the first namespace has only the kept loss mark, and its file a descriptor
 * without a failed flush. */
static void ns_forget(struct mworld *world)
{
	struct mworld_ns *ns = &world->ns[0];
	struct probe *probe = probe_again(world, ns->probe);
	struct probe *root = probe_root(ns->probe);
	struct keeper keeper = keeper_of(world);
	struct ns_backing *backing;
	struct ns_live *live;
	struct uuid uuid;

	probe_share(probe, ns->probe);
	root->loss = root->forgiven = 0;
	mworld_uuid(world, 0, 0, ns->life, &uuid);
	CHECK(ns_live_create(world->is_wide ? 2 : 1, &live) == 0);
	CHECK(ns_live_recall(live, &uuid, &keeper) == 0);
	CHECK(ns_backing_create_for(&probe->media, live, &backing) == 0);
	ns_live_put(live);
	ns_set_probe(ns, 0, probe, backing);
}

/* Two targets that serve the same blocks are of another make, which reports no instances. */
static bool has_instance(const struct mworld *world, unsigned index)
{
	if (index == MWORLD_TWIN)
		return world->twin.has_instance;
	return world->target_count == 1 || world->is_cloned;
}

static void target_start(struct mworld *world, unsigned index)
{
	struct target_config config = {.control = world->control,
				       .reactors = &world->datas[index],
				       .reactor_count = world->is_wide ? 2 : 1,
				       .buf_counts = {64, 64, 64},
				       .random_seed = ++world->starts,
				       .cntlid_first = 1,
				       .cntlid_last = MWORLD_CNTLIDS};

	if (index == MWORLD_TWIN) {
		config.reactor_count = 1;
		config.cntlid_first = world->twin.cntlid_first;
		config.cntlid_last = world->twin.cntlid_last;
	} else if (!world->has_equal_cntlids) {
		config.cntlid_first = (uint16_t)(1 + index * MWORLD_CNTLIDS);
		config.cntlid_last = (uint16_t)((index + 1) * MWORLD_CNTLIDS);
	}

	if (has_instance(world, index)) {
		memcpy(config.instance, &world->starts, sizeof(world->starts));
		config.boot[0] = (uint8_t)(index + 1);
		memcpy(config.boot + 1, &world->boots, sizeof(world->boots));
		if (index == 0) {
			config.keeper = keeper_of(world);
			config.loss_source = 1;
		}
	}
	CHECK(target_create(&config, &world->targets[index]) == 0);
}

/* ---- the twin ---------------------------------------------------------------------------------
 */

void mworld_twin_lend(struct mworld *world)
{
	CHECK(mworld_is_steady(world) && !world->twin.is_lent);
	world->twin.is_lent = true;
	mworld_apply_start(world);
}

static void twin_reactor_create(struct mworld *world)
{
	struct reactor_config config = {.cpu = -1, .index = 4};

	if (world->datas[MWORLD_TWIN] == NULL)
		CHECK(reactor_create(&config, &world->datas[MWORLD_TWIN]) == 0);
}

void mworld_twin_start(struct mworld *world)
{
	CHECK(mworld_is_steady(world) && world->twin.is_lent && !world->twin.is_up);
	(void)sim_net_cut(world->sim, &world->addrs[world->twin.port]);
	twin_reactor_create(world);
	world->twin.life++;
	for (unsigned i = 0; i < MWORLD_NS; i++) {
		struct probe *probe = probe_again(world, world->ns[i].probe);

		probe->is_of_twin = true;
		CHECK(ns_backing_create(&probe->media, 1, &world->ns[i].backings[MWORLD_TWIN]) ==
		      0);
	}
	target_start(world, MWORLD_TWIN);
	world->twin.is_up = true;
	world->applying++;
	target_apply(world->targets[MWORLD_TWIN], snapshot_build(world, MWORLD_TWIN), on_applied,
		     world);
}

static void on_twin_stopped(void *arg)
{
	struct mworld *world = arg;

	target_destroy(world->targets[MWORLD_TWIN]);
	for (unsigned i = 0; i < MWORLD_NS; i++)
		ns_backing_put(world->ns[i].backings[MWORLD_TWIN]);
	world->twin.is_lent = world->twin.is_up = world->twin.is_changing = false;
}

void mworld_twin_stop(struct mworld *world)
{
	CHECK(mworld_is_steady(world) && world->twin.is_up);
	world->twin.is_changing = true;
	target_shutdown(world->targets[MWORLD_TWIN], 200, on_twin_stopped, world);
}

/* ---- restarts ---------------------------------------------------------------------------------
 */

static void on_restart_timer(struct reactor_timer *timer)
{
	struct mworld_restart *restart = container_of(timer, struct mworld_restart, timer);
	struct mworld *world = restart->world;

	target_start(world, (unsigned)(restart - world->restarts));
	restart->is_busy = false;
	mworld_apply_start(world);
}

static void on_restart_stopped(void *arg)
{
	struct mworld_restart *restart = arg;
	struct mworld *world = restart->world;

	target_destroy(world->targets[restart - world->restarts]);
	if (restart->is_power) {
		probe_power_back(world->ns[0].probe);
		world->boots++;
	}
	probe_root(world->ns[0].probe)->is_dark = false;
	if (world->has_marks && restart == &world->restarts[0])
		ns_forget(world);
	reactor_timer_init(world->control, &restart->timer, on_restart_timer);
	reactor_timer_arm(&restart->timer, reactor_now_ns(world->control) + restart->down_ns);
}

void mworld_restart(struct mworld *world, unsigned target, uint64_t down_ms)
{
	struct mworld_restart *restart = &world->restarts[target];

	CHECK(mworld_is_steady(world));
	*restart = (struct mworld_restart){
		.world = world, .down_ns = down_ms * NS_PER_MS, .is_busy = true};
	target_shutdown(world->targets[target], 200, on_restart_stopped, restart);
}

void mworld_lose_power(struct mworld *world, uint64_t down_ms)
{
	CHECK(world->target_count == 1);
	probe_power_fail(world->ns[0].probe);
	/* Nothing that the target still sends arrives. */
	for (unsigned i = 0; i < world->port_count; i++)
		(void)sim_net_cut(world->sim, &world->addrs[i]);
	mworld_restart(world, 0, down_ms);
	world->restarts[0].is_power = true;
}

void mworld_kill(struct mworld *world, uint64_t down_ms)
{
	mworld_lose_power(world, down_ms);
	world->restarts[0].is_power = false;
}

bool mworld_is_steady(const struct mworld *world)
{
	return world->applying == 0 && !world->restarts[0].is_busy && !world->restarts[1].is_busy &&
	       !world->twin.is_changing;
}

void mworld_freeze(struct mworld *world, unsigned target, uint64_t ms)
{
	struct reactor *reactor = world->datas[target];
	uint64_t until_ns = sim_now(world->sim) + ms * NS_PER_MS;

	sim_freeze(reactor, until_ns);
	list_for_each(node, &world->probes)
		probe_freeze(list_entry(node, struct probe, node), world->sim, reactor, until_ns);
}

static void targets_create(struct mworld *world)
{
	struct reactor_config config = {.cpu = -1, .index = 3};

	if (world->target_count == 2 || world->is_wide)
		CHECK(reactor_create(&config, &world->datas[1]) == 0);
	for (unsigned i = 0; i < MWORLD_NS; i++) {
		for (unsigned k = 0; k < world->target_count; k++) {
			struct probe *probe = probe_open(world, MWORLD_BLOCKS);

			probe->ns = i;
			if (k == 0)
				world->ns[i].probe = probe;
			else
				second_probe_set(world, probe, i);
			CHECK(ns_backing_create(&probe->media, world->is_wide ? 2 : 1,
						&world->ns[i].backings[k]) == 0);
		}
	}
	sim_enter(world->control);
	for (unsigned i = 0; i < world->target_count; i++)
		target_start(world, i);
	sim_leave(world->control);
	mworld_apply(world);
}

static void world_fill(struct mworld *world, uint64_t seed, unsigned port_count,
		       const struct sim_options *options)
{
	struct reactor_config config = {.cpu = -1};
	char text[64];

	memset(world, 0, sizeof(*world));
	list_init(&world->probes);
	world->sim = sim_create(seed, options);
	world->port_count = port_count;
	world->target_count = 1;
	CHECK(reactor_create(&config, &world->control) == 0);
	config.index = 1;
	CHECK(reactor_create(&config, &world->datas[0]) == 0);
	config.index = 2;
	CHECK(reactor_create(&config, &world->reactor) == 0);
	for (unsigned i = 0; i < port_count; i++) {
		snprintf(text, sizeof(text), "10.0.0.%u:4420", i + 1);
		CHECK(net_addr_parse(text, 4420, &world->addrs[i]) == 0);
		world->path_addrs[i].net = world->addrs[i];
		for (unsigned k = 0; k < MWORLD_NS; k++)
			world->ana[i][k] = ANA_OPTIMIZED;
	}
	world->config = host_config_make(seed, TARGET_DEFAULT_NQN, "nqn.2026-11.io.weft:mpath");
}

void mworld_create(struct mworld *world, uint64_t seed, unsigned port_count,
		   const struct sim_options *options)
{
	world_fill(world, seed, port_count, options);
	targets_create(world);
}

void mworld_create_wide(struct mworld *world, uint64_t seed, unsigned port_count,
			const struct sim_options *options)
{
	world_fill(world, seed, port_count, options);
	world->is_wide = true;
	targets_create(world);
}

void mworld_create_two(struct mworld *world, uint64_t seed, unsigned port_count, bool is_stranger,
		       const struct sim_options *options)
{
	world_fill(world, seed, port_count, options);
	world->target_count = 2;
	world->ns[0].is_other = is_stranger;
	targets_create(world);
}

/* The targets differ in their instances (is_cloned), or have equal CNTLIDs and no instances. */
static void copies_create(struct mworld *world, uint64_t seed, bool is_cloned,
			  const struct sim_options *options)
{
	world_fill(world, seed, 2, options);
	world->target_count = 2;
	world->is_cloned = is_cloned;
	world->has_equal_cntlids = !is_cloned;
	/* The second target has its own blocks under the same UUID. */
	world->ns[0].is_other = true;
	targets_create(world);
	world->ns[0].is_other = false;
	mworld_apply(world);
}

void mworld_create_twins(struct mworld *world, uint64_t seed, const struct sim_options *options)
{
	copies_create(world, seed, false, options);
}

void mworld_create_clones(struct mworld *world, uint64_t seed, const struct sim_options *options)
{
	copies_create(world, seed, true, options);
}

static void on_stopped(void *arg)
{
	((struct mworld *)arg)->stopping--;
}

static void on_gone(void *arg)
{
	((struct mworld *)arg)->is_gone = true;
}

static bool is_stopping(void *arg)
{
	return ((struct mworld *)arg)->stopping > 0;
}

static bool is_going(void *arg)
{
	return !((struct mworld *)arg)->is_gone;
}

unsigned mworld_close(struct mworld *world)
{
	sim_enter(world->reactor);
	mpath_close(world->mpath, on_gone, world);
	sim_leave(world->reactor);
	world->mpath = NULL;
	return !sim_run_while(world->sim, is_going, world, 60 * NS_PER_S);
}

unsigned mworld_destroy(struct mworld *world)
{
	unsigned leaks = world->mpath != NULL ? mworld_close(world) : 0;

	sim_enter(world->control);
	for (unsigned i = 0; i < world->target_count; i++) {
		world->stopping++;
		target_shutdown(world->targets[i], 200, on_stopped, world);
	}
	sim_leave(world->control);
	leaks += !sim_run_while(world->sim, is_stopping, world, 60 * NS_PER_S);
	for (unsigned i = 0; i < world->target_count; i++)
		target_destroy(world->targets[i]);
	mworld_run_ms(world, 10000);
	/* The second target's backings first: the first target's probes own the blocks. */
	for (unsigned i = MWORLD_NS * world->target_count; i > 0; i--)
		ns_backing_put(world->ns[(i - 1) % MWORLD_NS].backings[(i - 1) / MWORLD_NS]);
	leaks += sim_leaks(world->sim);
	sim_destroy(world->sim);
	return leaks;
}

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	struct mworld *world = arg;

	world->ready_count++;
	world->ready_res = res;
	if (error != NULL)
		world->ready_error = *error;
}

static void on_ns_changed(struct mpath *mpath, void *arg, uint32_t nsid)
{
	struct ns_info info;

	((struct mworld *)arg)->ns_changed_count++;
	/* The namespace is complete when a change is reported. */
	mpath_ns_info(mpath_ns_find(mpath, nsid), &info);
	CHECK(info.identity.block_bytes == MWORLD_BLOCK_BYTES || info.identity.block_bytes == 512);
	CHECK(info.identity.block_count > 0);
}

static void on_path_changed(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	struct mworld *world = arg;

	CHECK(path < mpath_path_count(mpath));
	world->path_changed_count++;
	world->reset_waits += strstr(what, "wait for its reset") != NULL;
	world->time_waits += strstr(what, "(KATO + CQT), or") != NULL;
	sim_trace(world->sim, "path %u: %s", path, what);
	text_copy(world->last_what, sizeof(world->last_what), what);
	if (world->on_path != NULL)
		world->on_path(world, path, what);
}

static bool is_not_ready(void *arg)
{
	return ((struct mworld *)arg)->ready_count == 0;
}

void mworld_open(struct mworld *world)
{
	static const struct mpath_callbacks callbacks = {
		.ready = on_ready, .ns_changed = on_ns_changed, .path_changed = on_path_changed};

	int res;

	sim_enter(world->reactor);
	do {
		res = mpath_open(world->reactor, &world->config, world->path_addrs,
				 world->port_count, &callbacks, world, &world->mpath);
	} while (res == -ENOMEM);
	CHECK(res == 0);
	sim_leave(world->reactor);
}

void mworld_connect(struct mworld *world)
{
	mworld_open(world);
	CHECK(sim_run_while(world->sim, is_not_ready, world, 30 * NS_PER_S));
}

void mworld_run_ms(struct mworld *world, uint64_t ms)
{
	sim_run_until(world->sim, sim_now(world->sim) + ms * NS_PER_MS);
}

uint64_t mworld_now_ms(const struct mworld *world)
{
	return sim_now(world->sim) / NS_PER_MS;
}

struct until {
	struct mworld *world;
	bool (*fn)(struct mworld *world, void *arg);
	void *arg;
};

static bool until_not(void *arg)
{
	struct until *until = arg;

	return !until->fn(until->world, until->arg);
}

bool mworld_until(struct mworld *world, bool (*fn)(struct mworld *world, void *arg), void *arg,
		  uint64_t limit_ms)
{
	struct until until = {world, fn, arg};

	return sim_run_while(world->sim, until_not, &until, limit_ms * NS_PER_MS);
}

static bool is_done(struct mworld *world, void *arg)
{
	return ((struct mop *)arg)->is_done;
}

bool mworld_until_done(struct mop *mop, uint64_t limit_ms)
{
	return mworld_until(mop->world, is_done, mop, limit_ms);
}

struct path_info mworld_info(struct mworld *world, unsigned path)
{
	struct path_info info;

	sim_enter(world->reactor);
	mpath_path_info(world->mpath, path, &info);
	sim_leave(world->reactor);
	return info;
}

static bool are_live(struct mworld *world, void *arg)
{
	unsigned live = 0;

	for (unsigned i = 0; i < mpath_path_count(world->mpath); i++) {
		struct path_info info = mworld_info(world, i);

		live += info.state == PATH_LIVE;
	}
	return live >= *(unsigned *)arg;
}

bool mworld_until_live(struct mworld *world, unsigned paths, uint64_t limit_ms)
{
	return mworld_until(world, are_live, &paths, limit_ms);
}

struct mpath_ns *mworld_handle(struct mworld *world, uint32_t nsid)
{
	return mpath_ns_find(world->mpath, nsid);
}
