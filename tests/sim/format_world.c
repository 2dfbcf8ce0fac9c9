/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a scenario of the format world (format_world.h): start, troubles, healing, a last look at
 * everything, a clean end. Also has the operator and the node's lives. One thread.
 */
#include "format_world.h"

#include "sim_store.h"

#include "base/crc32c.h"
#include "config/config.h"
#include "ns/reservation.h"
#include "target/local.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_NS       (2 * NS_PER_MS)
#define START_NS       (20 * NS_PER_S)
#define TROUBLED_NS    (20 * NS_PER_S)
#define HEALED_NS      (90 * NS_PER_S)
#define EVENTS_MAX     40
#define START_AGAIN_MS 100
#define DISK_BYTES     (FORMAT_CELLS * FORMAT_CELL_BYTES)

static const char *const format_feature_names[] = {
	"hosts",   "namespaces",  "erase",      "all",        "bad-blocks", "reserve", "rights",
	"block",   "replace",     "remove",     "cut",        "half-close", "kill",    "power",
	"restart", "store-error", "disk-error", "disk-spike", NULL,
};
_Static_assert(ARRAY_LEN(format_feature_names) == FF_COUNT + 1, "a name for each feature");

void format_fail(struct fworld *world, const char *format, ...)
{
	va_list args;

	if (world->is_failed)
		return;
	world->is_failed = true;
	va_start(args, format);
	vsnprintf(world->verdict->what, sizeof(world->verdict->what), format, args);
	va_end(args);
	sim_trace(world->sim, "VIOLATION: %s", world->verdict->what);
}

void format_count(struct fworld *world, const char *name)
{
	sim_counter_add(world->counters, name, 1);
}

bool format_has(const struct fworld *world, enum format_feature feature)
{
	return world->features >> feature & 1;
}

uint64_t format_step(struct fworld *world)
{
	return ++world->step;
}

void format_hash(struct fworld *world, uint64_t value)
{
	world->hash = (world->hash ^ value) * 0x100000001b3ull;
	world->hash ^= world->hash >> 29;
}

/* What the target serves under the NSID now; NULL: nothing. */
static const struct ns *ns_served(struct fworld *world, uint32_t nsid)
{
	const struct subsystem *subsystem;

	if (sim_node_state(world->node) != SIM_NODE_SERVING)
		return NULL;
	subsystem =
		snapshot_find_subsystem(target_snapshot(sim_node_target(world->node)), FORMAT_NQN);
	return subsystem ? subsystem_find_ns(subsystem, nsid) : NULL;
}

bool format_is_served(struct fworld *world, uint32_t nsid, const struct fdisk *disk)
{
	const struct ns *ns = ns_served(world, nsid);

	return ns && uuid_equal(&ns->uuid, &disk->uuid);
}

bool format_is_registered(struct fworld *world, uint32_t nsid, const struct uuid *host_id)
{
	const struct ns *ns = ns_served(world, nsid);

	return ns &&
	       reservation_find(ns_live_reservation(ns_backing_live(ns->backing)), host_id) != NULL;
}

/* ---- the operator -----------------------------------------------------------------------------
 */

enum change_kind {
	CHANGE_BLOCK,   /* another block size: the bytes stay */
	CHANGE_REPLACE, /* the other disk under the NSID */
	CHANGE_REMOVE,  /* the next one adds it again */
	CHANGE_RIGHTS,
	CHANGE_RESTORE, /* after the troubles: adds what is missing */
	CHANGE_KINDS = CHANGE_RESTORE,
};

static json_t *ns_document(struct fworld *world, unsigned disk, unsigned nsid, unsigned block)
{
	char uuid[UUID_TEXT_BYTES], media[64];

	snprintf(media, sizeof(media), "file:/disk/%s,size=%d,block=%u", world->disks[disk].name,
		 DISK_BYTES, block);
	return json_pack("{s:i, s:s, s:s}", "nsid", (int)nsid, "media", media, "uuid",
			 uuid_format(&world->disks[disk].uuid, uuid));
}

static json_t *rights_document(struct fworld *world, unsigned without)
{
	json_t *rights = json_object();

	for (unsigned i = 0; i < world->host_count; i++) {
		if (!(without >> i & 1))
			json_object_set_new(rights, world->hosts[i].nqn,
					    json_pack("[s]", "format"));
	}
	return rights;
}

static json_t *first_document(struct fworld *world)
{
	json_t *namespaces = json_array(), *hosts = json_array();
	json_t *document;

	for (unsigned n = 0; n < world->ns_count; n++)
		json_array_append_new(namespaces,
				      ns_document(world, 2 * n, n + 1, n == 0 ? 512 : 4096));
	for (unsigned i = 0; i < world->host_count; i++)
		json_array_append_new(hosts, json_string(world->hosts[i].nqn));
	document = json_pack("{s:i, s:[{s:s, s:o, s:o, s:o}], s:[{s:i, s:s, s:s}]}", "version", 1,
			     "subsystems", "nqn", FORMAT_NQN, "hosts", hosts, "rights",
			     rights_document(world, world->without_right), "namespaces", namespaces,
			     "ports", "id", 1, "address", "10.0.0.1", "service", "4420");
	CHECK(document != NULL);
	return document;
}

static json_t *ns_find(json_t *namespaces, unsigned nsid, size_t *ret_at)
{
	for (*ret_at = 0; *ret_at < json_array_size(namespaces); ++*ret_at) {
		json_t *ns = json_array_get(namespaces, *ret_at);

		if (json_integer_value(json_object_get(ns, "nsid")) == nsid)
			return ns;
	}
	return NULL;
}

static bool ns_is_disk(const json_t *ns, const struct fdisk *disk)
{
	char path[32];

	snprintf(path, sizeof(path), "/disk/%s,", disk->name);
	return strstr(json_string_value(json_object_get(ns, "media")), path) != NULL;
}

/* Serves one of the NSID's two disks, with one of two block sizes. */
static void ns_put(struct fworld *world, json_t *namespaces, unsigned nsid, bool is_other)
{
	unsigned block = world->change_draws[1] % 2 ? 512 : 4096;
	unsigned disk = 2 * (nsid - 1) + (world->change_draws[2] % 2);
	size_t at;
	json_t *ns = ns_find(namespaces, nsid, &at);

	if (ns)
		disk = 2 * (nsid - 1) + (ns_is_disk(ns, &world->disks[2 * (nsid - 1)]) == is_other);
	if (ns && !is_other) {
		char media[64];

		snprintf(media, sizeof(media), "file:/disk/%s,size=%d,block=%u",
			 world->disks[disk].name, DISK_BYTES, block);
		json_object_set_new(ns, "media", json_string(media));
		return;
	}
	if (ns)
		json_array_remove(namespaces, at);
	json_array_append_new(namespaces, ns_document(world, disk, nsid, block));
}

static int on_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct fworld *world = arg;
	json_t *subsystem = json_array_get(json_object_get(document, "subsystems"), 0);
	json_t *namespaces = json_object_get(subsystem, "namespaces");
	unsigned nsid = 1 + (unsigned)(world->change_draws[0] % world->ns_count);
	size_t at;

	(void)errors;
	switch ((enum change_kind)world->change_kind) {
	case CHANGE_BLOCK:
		ns_put(world, namespaces, nsid, false);
		break;
	case CHANGE_REPLACE:
		ns_put(world, namespaces, nsid, true);
		break;
	case CHANGE_REMOVE:
		if (ns_find(namespaces, nsid, &at))
			json_array_remove(namespaces, at);
		else
			ns_put(world, namespaces, nsid, false);
		break;
	case CHANGE_RIGHTS:
		json_object_set_new(subsystem, "rights",
				    rights_document(world, world->next_without_right));
		break;
	case CHANGE_RESTORE:
		for (unsigned n = 0; n < world->ns_count; n++) {
			if (!ns_find(namespaces, n + 1, &at))
				ns_put(world, namespaces, n + 1, false);
		}
		break;
	}
	return 0;
}

static void operator_epochs(struct fworld *world)
{
	/* A removed namespace loses its marks. A new block size keeps them. */
	bool keeps_marks =
		world->change_kind == CHANGE_BLOCK || world->change_kind == CHANGE_RIGHTS;

	world->operator_epoch++;
	for (unsigned i = 0; i < FORMAT_DISKS; i++) {
		world->disks[i].epoch++;
		world->disks[i].area_epoch += !keeps_marks;
	}
}

static void on_changed(void *arg, int res, uint64_t generation, const char *why)
{
	struct fworld *world = arg;

	if (!sim_process_is_alive(sim_node_process(world->node)))
		return;
	sim_trace(world->sim, "operator: change %u: %s", world->change_kind,
		  res == 0 ? "done" : why);
	format_hash(world, generation ^ (uint64_t)(int64_t)res);
	format_count(world, res == 0 ? "changes" : "changes refused");
	world->is_changing = false;
	operator_epochs(world);
	/* A change that could not be kept may be in force in the next life. */
	if (world->change_kind == CHANGE_RIGHTS)
		world->without_right =
			world->next_without_right & (res == 0 ? ~0u : world->without_right);
	if (res == 0 && world->change_kind == CHANGE_RESTORE)
		world->is_restored = true;
}

static void change_begin(struct fworld *world, enum change_kind kind)
{
	const struct sim_node_change change = {
		.edit = on_edit, .done = on_changed, .arg = world, .origin = "operator"};

	if (world->is_changing || sim_node_state(world->node) != SIM_NODE_SERVING)
		return;
	world->is_changing = true;
	world->change_kind = kind;
	operator_epochs(world);
	world->next_without_right = (unsigned)(world->change_draws[0] >> 8) % 4;
	for (unsigned i = 0; i < world->host_count && kind == CHANGE_RESTORE; i++)
		format_host_wake(&world->hosts[i]);
	sim_node_change(world->node, &change);
}

/* ---- the node ---------------------------------------------------------------------------------
 */

static void node_is_down(struct fworld *world)
{
	/* The change in progress may be in force or not: only a host without the right in both
	 * cases is judged. */
	if (world->is_changing && world->change_kind == CHANGE_RIGHTS)
		world->without_right &= world->next_without_right;
	world->is_changing = false;
	operator_epochs(world);
	if (!world->is_ending)
		world->start_at_ns = sim_now(world->sim) + START_AGAIN_MS * NS_PER_MS;
}

static void on_started(void *arg, struct sim_node *node, int res, const char *why)
{
	struct fworld *world = arg;

	(void)node;
	sim_trace(world->sim, "node: %s%s", res == 0 ? "serves" : "could not start: ", why);
	format_count(world, res == 0 ? "node starts" : "node starts refused");
	if (res < 0)
		node_is_down(world);
}

static void on_stopped(void *arg, struct sim_node *node)
{
	(void)node;
	node_is_down(arg);
}

static void on_died(void *arg, struct sim_node *node, enum sim_death how)
{
	(void)node;
	(void)how;
	format_count(arg, "nodes died");
	node_is_down(arg);
}

static void node_create(struct fworld *world)
{
	json_t *document = first_document(world);
	const struct sim_node_options options = {
		.name = "f",
		.reactor_count = 1 + (unsigned)prng_below(&world->prng, 2),
		.seed = world->scenario->seed,
		.document = document,
		.buf_counts = {32, 16, 4},
		.started = on_started,
		.stopped = on_stopped,
		.died = on_died,
		.arg = world,
	};

	world->node = sim_node_create(world->sim, &options);
	json_decref(document);
	sim_node_start(world->node);
}

/* ---- events -----------------------------------------------------------------------------------
 */

static const struct {
	enum format_feature feature;
	enum change_kind change; /* CHANGE_KINDS: none */
} events[] = {
	{FF_BLOCK, CHANGE_BLOCK},       {FF_REPLACE, CHANGE_REPLACE}, {FF_REMOVE, CHANGE_REMOVE},
	{FF_RIGHTS, CHANGE_RIGHTS},     {FF_CUT, CHANGE_KINDS},       {FF_HALF_CLOSE, CHANGE_KINDS},
	{FF_KILL, CHANGE_KINDS},        {FF_POWER, CHANGE_KINDS},     {FF_RESTART, CHANGE_KINDS},
	{FF_STORE_ERROR, CHANGE_KINDS},
};

/* The node dies at one of its next 200 operations. */
static void node_crash(struct fworld *world, uint64_t draw, enum sim_death how)
{
	if (sim_node_state(world->node) == SIM_NODE_SERVING)
		sim_node_crash_after(world->node, 1 + draw % 200, how);
}

static void event_happen(struct fworld *world, unsigned at, uint64_t draw)
{
	bool is_serving = sim_node_state(world->node) == SIM_NODE_SERVING;

	sim_trace(world->sim, "event: %s", format_feature_names[events[at].feature]);
	format_count(world, format_feature_names[events[at].feature]);
	if (events[at].change != CHANGE_KINDS) {
		change_begin(world, events[at].change);
		return;
	}
	switch (events[at].feature) {
	case FF_CUT:
		(void)sim_net_cut(world->sim, &world->addr);
		break;
	case FF_HALF_CLOSE:
		(void)sim_net_half_close(world->sim, &world->addr, draw >> 8 & 1);
		break;
	case FF_KILL:
		node_crash(world, draw, SIM_DEATH_KILLED);
		break;
	case FF_POWER:
		node_crash(world, draw, SIM_DEATH_POWER);
		break;
	case FF_RESTART:
		if (is_serving)
			sim_node_stop(world->node);
		break;
	default:
		sim_folder_set_errors(sim_node_folder(world->node), draw % 2 ? 10 : 0);
		break;
	}
}

static void events_look(struct fworld *world)
{
	unsigned at;
	uint64_t draw;

	if (world->start_at_ns > 0 && sim_now(world->sim) >= world->start_at_ns &&
	    sim_node_state(world->node) == SIM_NODE_DOWN) {
		world->start_at_ns = 0;
		sim_node_start(world->node);
	}
	if (world->is_healed || world->events_left == 0 ||
	    sim_now(world->sim) < world->next_event_ns)
		return;
	world->events_left--;
	world->next_event_ns =
		sim_now(world->sim) + (1 + prng_below(&world->prng, 150)) * NS_PER_MS;
	at = (unsigned)prng_below(&world->prng, ARRAY_LEN(events));
	draw = prng_next(&world->prng) >> 8;
	for (unsigned i = 0; i < ARRAY_LEN(world->change_draws); i++) {
		uint64_t change_draw = prng_next(&world->prng) >> 8;

		if (!world->is_changing)
			world->change_draws[i] = change_draw;
	}
	if (format_has(world, events[at].feature) &&
	    scenario_has_event(world->scenario, world->event_count++))
		event_happen(world, at, draw);
	world->verdict->events = world->event_count;
}

/* ---- a run ------------------------------------------------------------------------------------
 */

static void slice_run(struct fworld *world)
{
	uint64_t oldest = world->step + 1;

	sim_run_until(world->sim, sim_now(world->sim) + SLICE_NS);
	if (world->is_failed)
		return;
	events_look(world);
	format_ghosts_settle(world);
	for (unsigned i = 0; i < world->host_count; i++) {
		for (unsigned k = 0; k < world->hosts[i].worker_count; k++) {
			const struct fworker *worker = &world->hosts[i].workers[k];

			if (worker->is_busy && worker->op.start < oldest)
				oldest = worker->op.start;
		}
	}
	for (unsigned i = 0; i < FORMAT_DISKS; i++)
		model_forget(world->disks[i].model, oldest);
}

static bool run_until(struct fworld *world, bool (*pred)(struct fworld *world), uint64_t limit_ns)
{
	uint64_t end_ns = sim_now(world->sim) + limit_ns;

	while (!world->is_failed && !pred(world)) {
		if (sim_now(world->sim) >= end_ns)
			return false;
		slice_run(world);
	}
	return true;
}

static bool node_serves(struct fworld *world)
{
	return sim_node_state(world->node) == SIM_NODE_SERVING;
}

static bool node_is_gone(struct fworld *world)
{
	return sim_node_state(world->node) == SIM_NODE_DOWN;
}

static bool work_is_done(struct fworld *world)
{
	return world->commands_left == 0;
}

static bool all_is_well(struct fworld *world)
{
	if (!world->is_restored && !world->is_changing)
		change_begin(world, CHANGE_RESTORE);
	if (!world->is_restored || !node_serves(world) || world->ghost_count > 0)
		return false;
	for (unsigned i = 0; i < world->host_count; i++) {
		if (format_host_lack(&world->hosts[i]))
			return false;
	}
	return true;
}

static void lack_tell(struct fworld *world)
{
	for (unsigned i = 0; i < world->host_count; i++) {
		const char *lack = format_host_lack(&world->hosts[i]);

		if (lack)
			format_fail(world, "the faults have ended, but host %u %s", i, lack);
	}
	format_fail(world, "the faults have ended, but the world has not recovered");
}

static bool hosts_are_gone(struct fworld *world)
{
	for (unsigned i = 0; i < world->host_count; i++) {
		if (!format_host_is_gone(&world->hosts[i]))
			return false;
	}
	return true;
}

static void world_heal(struct fworld *world)
{
	sim_trace(world->sim, "the troubles are over");
	world->is_healed = true;
	world->commands_left = 0;
	sim_folder_set_errors(sim_node_folder(world->node), 0);
	if (sim_node_process(world->node))
		sim_node_crash_after(world->node, 0, SIM_DEATH_KILLED);
	for (unsigned i = 0; i < FORMAT_DISKS; i++)
		sim_disk_heal(world->disks[i].disk);
}

static void world_end(struct fworld *world)
{
	world->is_ending = true;
	for (unsigned i = 0; i < world->host_count; i++)
		format_host_leave(&world->hosts[i]);
	if (!run_until(world, hosts_are_gone, HEALED_NS))
		format_fail(world, "at the end a host does not close");
	if (world->is_failed)
		return;
	sim_node_stop(world->node);
	if (!run_until(world, node_is_gone, HEALED_NS))
		format_fail(world, "at the end the node does not stop");
	if (!world->is_failed && sim_leaks(world->sim) > 0)
		format_fail(world, "at the end %u sockets, timers or messages are left",
			    sim_leaks(world->sim));
}

static void world_play(struct fworld *world)
{
	node_create(world);
	if (!run_until(world, node_serves, START_NS)) {
		format_fail(world, "the node does not start");
		return;
	}
	for (unsigned i = 0; i < world->host_count; i++)
		format_host_create(world, i);
	world->next_event_ns = sim_now(world->sim) + 50 * NS_PER_MS;
	(void)run_until(world, work_is_done, TROUBLED_NS);
	if (world->is_failed)
		return;
	world_heal(world);
	if (!run_until(world, all_is_well, HEALED_NS))
		lack_tell(world);
	if (!world->is_failed)
		world_end(world);
}

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	struct fworld *world = arg;

	format_hash(world, (uint64_t)fd ^ offset << 20 ^ sim_now(world->sim));
	format_hash(world, crc32c(bytes, len_bytes));
}

static void disks_create(struct fworld *world)
{
	uint32_t slowest_us = prng_one_in(&world->prng, 2) ? 3000 : 30000;

	for (unsigned i = 0; i < FORMAT_DISKS; i++) {
		struct fdisk *disk = &world->disks[i];
		uint32_t errors = 30 + (uint32_t)prng_below(&world->prng, 200);
		uint32_t spikes = 5 + (uint32_t)prng_below(&world->prng, 50);
		const struct sim_disk_options options = {
			.name = disk->name,
			.seed = prng_next(&world->prng),
			.block_count = FORMAT_CELLS,
			.block_bytes = FORMAT_CELL_BYTES,
			.delay_max_us = 1 + (uint32_t)prng_below(&world->prng, slowest_us),
			.error_one_in = format_has(world, FF_DISK_ERROR) ? errors : 0,
			.spike_one_in = format_has(world, FF_DISK_SPIKE) ? spikes : 0,
			.spike_max_us = 300000,
			.cancel_deaf_one_in = 1 + (uint32_t)prng_below(&world->prng, 3),
			.can_discard = true,
			.reads_zero_after_discard = true,
			.takes_multiples = true,
		};

		disk->world = world;
		disk->index = i;
		disk->epoch = 1;
		disk->area_epoch = 1;
		snprintf(disk->name, sizeof(disk->name), "f%u", i);
		uuid_from_name(disk->name, &disk->uuid);
		disk->model = model_create(FORMAT_CELLS, false);
		disk->disk = sim_disk_create(world->sim, &options);
	}
}

static void world_plan(struct fworld *world)
{
	const struct sim_options options = {.latency_max_us = 100, .connect_timeout_us = 1000000};
	uint64_t of_six;

	prng_seed(&world->prng, world->scenario->seed * 0xd1342543de82ef95ull + 5);
	of_six = 2 + prng_below(&world->prng, 4);
	for (unsigned i = 0; i < FF_COUNT; i++) {
		if (prng_below(&world->prng, 6) < of_six)
			world->features |= 1ull << i;
	}
	world->features &= ~world->scenario->features_off;
	world->host_count = 1 + (unsigned)prng_below(&world->prng, FORMAT_HOSTS_MAX);
	if (!format_has(world, FF_HOSTS))
		world->host_count = 1;
	world->ns_count = format_has(world, FF_NAMESPACES) ? FORMAT_NS_MAX : 1;
	world->without_right = (unsigned)prng_below(&world->prng, 4);
	if (!format_has(world, FF_RIGHTS))
		world->without_right = 0;
	world->commands_left = 300 + prng_below(&world->prng, 700);
	if (world->scenario->commands_max > 0 &&
	    world->scenario->commands_max < world->commands_left)
		world->commands_left = world->scenario->commands_max;
	world->events_left = EVENTS_MAX;
	world->next_value = 1;
	world->sim = sim_create(world->scenario->seed, &options);
	sim_net_set_tap(world->sim, on_bytes, world);
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &world->addr) == 0);
	for (unsigned i = 0; i < world->host_count; i++)
		snprintf(world->hosts[i].nqn, sizeof(world->hosts[i].nqn),
			 "nqn.2026-11.io.weft:host%u", i);
	disks_create(world);
}

static void world_free(struct fworld *world)
{
	for (unsigned i = 0; i < FORMAT_DISKS; i++)
		model_destroy(world->disks[i].model);
	if (!world->is_failed) {
		sim_node_destroy(world->node);
		for (unsigned i = 0; i < FORMAT_DISKS; i++)
			sim_disk_destroy(world->disks[i].disk);
		sim_destroy(world->sim);
	}
	free(world);
}

static void format_run(const struct sim_scenario *scenario, struct sim_counters *counters,
		       struct sim_verdict *ret_verdict)
{
	struct fworld *world = sim_alloc(sizeof(*world));

	memset(ret_verdict, 0, sizeof(*ret_verdict));
	world->scenario = scenario;
	world->counters = counters;
	world->verdict = ret_verdict;
	world->hash = scenario->seed;
	sim_store_init();
	world_plan(world);
	world_play(world);
	format_hash(world, world->step);
	ret_verdict->is_ok = !world->is_failed;
	ret_verdict->hash = world->hash;
	ret_verdict->simulated_ns = sim_now(world->sim);
	ret_verdict->features_on = world->features;
	world_free(world);
}

const struct sim_world_kind sim_world_format = {
	.name = "format",
	.features = format_feature_names,
	.run = format_run,
};
