/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scene of the fault tests: simulator, target, host, and the model of the blocks. The steps
 * played in it are in scene_script.c. One thread.
 */
#include "scene.h"

#include "base/clock.h"
#include "discovery/discovery.h"
#include "ns/health.h"
#include "target/manage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCENE_NQN       "nqn.2026-11.io.weft:scene"
#define SCENE_SLOW_SPEC "fault:delay:op=zero:ms=20+delay:op=write:ms=1+delay:op=read:ms=1:every=2"
#define SCENE_KATO_MS   5000
#define SCENE_WAIT_NS   (100 * NS_PER_S)

void scene_complain(struct scene *scene, const char *text, int line)
{
	printf("# step \"%s\", line %d: expected %s\n", scene->step, line, text);
	fflush(stdout);
	scene->complaints++;
}

static void scene_wait(struct scene *scene, bool (*pred)(void *arg))
{
	SCENE_EXPECT(scene, sim_run_while(scene->sim, pred, scene, SCENE_WAIT_NS));
}

/* ---- the model ------------------------------------------------------------------------------ */

static struct scene_block *block_of(struct scene *scene, uint32_t nsid, uint32_t block)
{
	CHECK(nsid >= 1 && nsid <= SCENE_NS_COUNT && block < SCENE_BLOCKS);
	return &scene->blocks[nsid - 1][block];
}

static void block_set(struct scene_block *block, uint8_t value)
{
	memset(block, 0, sizeof(*block));
	block->allowed[value / 64] = 1ull << (value % 64);
}

static void block_allow(struct scene_block *block, uint8_t value)
{
	block->allowed[value / 64] |= 1ull << (value % 64);
}

int scene_block_value(const struct scene *scene, uint32_t nsid, uint32_t block)
{
	int value = -1;

	for (unsigned i = 0; i < 256; i++) {
		if ((scene->blocks[nsid - 1][block].allowed[i / 64] >> (i % 64) & 1) == 0)
			continue;
		if (value >= 0)
			return -1;
		value = (int)i;
	}
	return value;
}

/* A failed change may have written all, half or none of its blocks. */
static void model_change_failed(struct scene_cmd *cmd)
{
	struct scene *scene = cmd->scene;
	enum scene_write_fault fault = scene->options.write_fault;
	bool is_known = nvme_status_same(cmd->cmd.status, NVME_SC_WRITE_FAULT);

	for (uint32_t i = 0; i < cmd->block_count; i++) {
		struct scene_block *block = block_of(scene, cmd->nsid, cmd->first_block + i);

		if (!is_known || fault == SCENE_FAULT_UNKNOWN)
			block_allow(block, cmd->stamp);
		else if (fault == SCENE_FAULT_HALF_DONE && i < cmd->block_count / 2)
			block_set(block, cmd->stamp);
	}
}

static void model_read(struct scene_cmd *cmd)
{
	struct scene *scene = cmd->scene;

	for (uint32_t i = 0; i < cmd->block_count; i++) {
		struct scene_block *block = block_of(scene, cmd->nsid, cmd->first_block + i);
		const uint8_t *bytes = cmd->data + i * SCENE_BLOCK_BYTES;
		uint8_t value = bytes[0];
		bool is_whole = memcmp(bytes, bytes + 1, SCENE_BLOCK_BYTES - 1) == 0;

		if (!is_whole || (block->allowed[value / 64] >> (value % 64) & 1) == 0)
			scene->figures.wrong_reads++;
	}
}

static void on_cmd_done(struct host_cmd *host_cmd)
{
	struct scene_cmd *cmd = container_of(host_cmd, struct scene_cmd, cmd);
	struct scene *scene = cmd->scene;
	bool is_ok = nvme_status_is_ok(host_cmd->status);

	cmd->done_count++;
	scene->done_count++;
	SCENE_EXPECT(scene, cmd->done_count == 1);
	if (nvme_status_same(host_cmd->status, NVME_SC_HOST_PATHING_ERROR)) {
		scene->pathing_errors++;
	} else if (!is_ok && !nvme_status_same(host_cmd->status, NVME_SC_ABORT_REQUESTED) &&
		   !nvme_status_same(host_cmd->status, NVME_SC_COMPARE_FAILED)) {
		scene->figures.cmd_failures++;
		scene->figures.odd_failures += host_cmd->status.value != NVME_SC_INTERNAL.value;
		scene->figures.last_failure = host_cmd->status;
		scene->figures.last_failure_opcode = host_cmd->sqe.opcode;
	}
	if (cmd->changes_data && is_ok)
		for (uint32_t i = 0; i < cmd->block_count; i++)
			block_set(block_of(scene, cmd->nsid, cmd->first_block + i), cmd->stamp);
	else if (cmd->changes_data)
		model_change_failed(cmd);
	else if (is_ok && host_cmd->sqe.opcode == NVME_IO_READ && cmd->block_count > 0)
		model_read(cmd);
}

/* ---- commands ------------------------------------------------------------------------------- */

struct scene_cmd *scene_cmd(struct scene *scene, unsigned index, uint32_t nsid)
{
	struct scene_cmd *cmd = &scene->cmds[index];

	CHECK(index < SCENE_CMDS);
	memset(&cmd->cmd, 0, sizeof(cmd->cmd));
	cmd->scene = scene;
	cmd->done_count = 0;
	cmd->nsid = nsid;
	cmd->block_count = 0;
	cmd->changes_data = false;
	return cmd;
}

void scene_submit(struct scene *scene, struct scene_cmd *cmd, int queue)
{
	cmd->cmd.done = on_cmd_done;
	scene->submitted_count++;
	sim_enter(scene->client);
	if (queue < 0)
		host_submit_admin(scene->ctrl, &cmd->cmd);
	else
		host_submit_io(scene->ctrl, (unsigned)queue, &cmd->cmd);
	sim_leave(scene->client);
}

static bool is_busy(void *arg)
{
	struct scene *scene = arg;

	return scene->done_count < scene->submitted_count;
}

void scene_wait_cmds(struct scene *scene)
{
	scene_wait(scene, is_busy);
}

/* ---- the target ----------------------------------------------------------------------------- */

/* Keeps the reservation only. Health and events are accepted and dropped: no step recalls them. */
static int keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	struct scene *scene = arg;

	if (strcmp(kind, NS_LIVE_KEPT_RESERVATION) != 0)
		return 0;
	CHECK(value_bytes <= sizeof(scene->kept));
	if (value)
		memcpy(scene->kept, value, value_bytes);
	scene->kept_bytes = value ? value_bytes : 0;
	return 0;
}

static int recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	return -ENOENT;
}

/* The control reactor accepts every management command and changes nothing. */
static void on_manage(void *arg, struct manage_request *request)
{
	request->result_nsid = SCENE_NS_COUNT + 1;
	request->status = NVME_SC_SUCCESS;
	manage_done(request);
}

int scene_target_create(struct scene *scene)
{
	struct target_config config = {
		.control = scene->control,
		.reactors = scene->data,
		.reactor_count = 2,
		.discovery_log = discovery_log_read,
		.keeper = {keep, recall, scene},
		.manage = on_manage,
		.manage_arg = scene,
		/* few, so that commands wait for buffers */
		.buf_counts = {2, 1, 1},
	};
	int res;

	sim_enter(scene->control);
	res = target_create(&config, &scene->target);
	sim_leave(scene->control);
	return res;
}

static int backing_open(struct scene *scene, unsigned index)
{
	struct media_error error;
	struct media *media;
	char inner[128], spec[384];
	int res;

	if (scene->backings[index])
		return 0;
	/* The second namespace is slow, so that connections end while commands run, and slower
	 * still at zeroing, so that a command is left to abort. */
	if (index == 1 && scene->options.file)
		snprintf(inner, sizeof(inner), "file:%s,size=%u", scene->options.file,
			 SCENE_BLOCKS * SCENE_BLOCK_BYTES);
	else
		snprintf(inner, sizeof(inner), "mem:%u", SCENE_BLOCKS * SCENE_BLOCK_BYTES);
	if (index == 1)
		snprintf(spec, sizeof(spec), SCENE_SLOW_SPEC "%s%s@%s",
			 scene->options.rules ? "+" : "",
			 scene->options.rules ? scene->options.rules : "", inner);
	else
		snprintf(spec, sizeof(spec), "%s", inner);
	res = media_open(spec, &media, &error);
	if (res != 0)
		return res;
	res = ns_backing_create(media, 2, &scene->backings[index]);
	if (res != 0)
		media_close(media);
	return res;
}

static struct subsystem *subsystem_make(struct scene *scene, unsigned ns_count)
{
	struct subsystem *subsystem = sim_alloc(sizeof(*subsystem));

	snprintf(subsystem->nqn, sizeof(subsystem->nqn), SCENE_NQN);
	snprintf(subsystem->serial, sizeof(subsystem->serial), "SCENE");
	snprintf(subsystem->model, sizeof(subsystem->model), "scene");
	subsystem->allows_any_host = true;
	subsystem->rights_of_all = HOST_RIGHTS_ALL;
	subsystem->ana_group_max = 1;
	subsystem->live = subsystem_live_get(scene->live);
	subsystem->namespaces = sim_alloc(ns_count * sizeof(struct ns));
	subsystem->ns_count = ns_count;
	for (unsigned i = 0; i < ns_count; i++) {
		subsystem->namespaces[i] = (struct ns){
			.nsid = i + 1,
			.uuid = {{(uint8_t)(i + 1)}},
			.nguid = {(uint8_t)(i + 1)},
			.ana_group = 1,
		};
		ns_bind(&subsystem->namespaces[i], ns_backing_get(scene->backings[i]));
	}
	return subsystem;
}

/* NULL when an allocation of the code under test failed. */
static struct snapshot *snapshot_make(struct scene *scene, unsigned ns_count)
{
	struct snapshot *snapshot;
	struct port *port;

	for (unsigned i = 0; i < ns_count; i++)
		if (backing_open(scene, i) != 0)
			return NULL;
	if (!scene->live && subsystem_live_create(&scene->live) != 0)
		return NULL;
	snapshot = snapshot_create();
	if (!snapshot)
		return NULL;
	snapshot->limits.io_queues_max = 4;
	snapshot->limits.queue_size_max = 64;
	snapshot->discovery_generation = ns_count;
	snapshot->subsystems = sim_alloc(sizeof(struct subsystem *));
	snapshot->subsystems[0] = subsystem_make(scene, ns_count);
	snapshot->subsystem_count = 1;
	snapshot->ports = sim_alloc(2 * sizeof(struct port));
	/* The second configuration has a second port, which must not stay when applying fails. */
	snapshot->port_count = ns_count == SCENE_NS_COUNT ? 2 : 1;
	for (unsigned i = 0; i < snapshot->port_count; i++) {
		port = &snapshot->ports[i];
		port->id = (uint16_t)(i + 1);
		CHECK(net_addr_parse(i == 0 ? "127.0.0.1:4420" : "127.0.0.1:4421", 0,
				     &port->listen) == 0);
		port->subsystems = sim_alloc(sizeof(struct subsystem *));
		port->subsystems[0] = snapshot->subsystems[0];
		port->subsystem_count = 1;
	}
	return snapshot;
}

static void on_applied(void *arg, int res, const char *error)
{
	struct scene *scene = arg;

	SCENE_EXPECT(scene, scene->is_applying);
	scene->is_applying = false;
	scene->apply_result = res;
}

static bool is_applying(void *arg)
{
	return ((struct scene *)arg)->is_applying;
}

int scene_apply(struct scene *scene, unsigned ns_count)
{
	const struct snapshot *before = target_snapshot(scene->target);
	struct snapshot *snapshot;

	sim_enter(scene->control);
	snapshot = snapshot_make(scene, ns_count);
	scene->is_applying = snapshot != NULL;
	if (snapshot)
		target_apply(scene->target, snapshot, on_applied, scene);
	sim_leave(scene->control);
	if (!snapshot)
		return -ENOMEM;
	scene_wait(scene, is_applying);
	/* A configuration is applied as a whole or not at all. */
	if (scene->apply_result == 0) {
		SCENE_EXPECT(scene, target_snapshot(scene->target) == snapshot);
		SCENE_EXPECT(scene, target_port_addr(scene->target, 1, &scene->addr) == 0);
	} else {
		SCENE_EXPECT(scene, target_snapshot(scene->target) == before);
		SCENE_EXPECT(scene, sim_net_listener_count(scene->sim) == (before ? 1 : 0));
	}
	return scene->apply_result;
}

static bool is_connected_somewhere(void *arg)
{
	struct scene *scene = arg;
	struct target_stats stats;

	target_get_stats(scene->target, &stats);
	return stats.connections > 0 || stats.ctrls > 0 || stats.buffers_in_use > 0;
}

void scene_drain(struct scene *scene)
{
	struct target_stats stats;

	scene_wait(scene, is_connected_somewhere);
	target_get_stats(scene->target, &stats);
	scene->figures.keep_alive_expiries = stats.keep_alive_expiries;
}

static void on_shut_down(void *arg)
{
	((struct scene *)arg)->is_shut_down = true;
}

static bool is_shutting_down(void *arg)
{
	return !((struct scene *)arg)->is_shut_down;
}

void scene_shut_down(struct scene *scene)
{
	sim_enter(scene->control);
	target_shutdown(scene->target, 1000, on_shut_down, scene);
	sim_leave(scene->control);
	scene_wait(scene, is_shutting_down);
	if (!scene->is_shut_down)
		return;
	sim_enter(scene->control);
	target_destroy(scene->target);
	sim_leave(scene->control);
	scene->target = NULL;
}

/* ---- the host ------------------------------------------------------------------------------- */

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct scene *scene = arg;

	scene->connected_count++;
	scene->connect_result = res;
	if (res != 0)
		scene->ctrl = NULL;
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct scene *scene = arg;

	SCENE_EXPECT(scene, !scene->is_lost);
	scene->is_lost = true;
	scene->figures.losses++;
	/* All commands have completed before the loss is reported. */
	SCENE_EXPECT(scene, scene->done_count == scene->submitted_count);
}

static void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event)
{
	((struct scene *)arg)->figures.events++;
}

static bool is_connecting(void *arg)
{
	return ((struct scene *)arg)->connected_count == 0;
}

int scene_connect(struct scene *scene, unsigned io_queues)
{
	static const struct host_callbacks callbacks = {on_connected, on_lost, on_event};
	struct host_config config = {
		.addr.net = scene->addr,
		.host_nqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001",
		.host_id = {{1}},
		.io_queues = io_queues,
		.io_queue_size = 16,
		.kato_ms = SCENE_KATO_MS,
		.wants_header_digest = scene->options.has_digests,
		.wants_data_digest = scene->options.has_digests,
		.connect_timeout_ms = 4000,
		.command_timeout_ms = 3000,
	};
	int res;

	snprintf(config.subsystem_nqn, sizeof(config.subsystem_nqn), "%s",
		 io_queues > 0 ? SCENE_NQN : NVME_DISCOVERY_NQN);
	scene->connected_count = 0;
	scene->is_lost = false;
	sim_enter(scene->client);
	res = host_connect(scene->client, &config, &callbacks, scene, &scene->ctrl);
	sim_leave(scene->client);
	if (res != 0)
		return res;
	scene_wait(scene, is_connecting);
	SCENE_EXPECT(scene, scene->connected_count == 1);
	if (scene->connect_result == 0)
		SCENE_EXPECT(scene, host_ctrl_io_queues(scene->ctrl) == io_queues);
	return scene->connect_result;
}

static void on_gone(void *arg)
{
	struct scene *scene = arg;

	scene->is_gone = true;
	scene->ctrl = NULL;
}

static bool is_going(void *arg)
{
	return !((struct scene *)arg)->is_gone;
}

void scene_disconnect(struct scene *scene)
{
	bool is_farewell = scene->ctrl && !scene->is_lost && host_ctrl_io_queues(scene->ctrl) > 0;
	uint64_t start_ns = sim_now(scene->sim);

	if (!scene->ctrl)
		return;
	scene->is_gone = false;
	sim_enter(scene->client);
	host_disconnect(scene->ctrl, on_gone, scene);
	sim_leave(scene->client);
	scene_wait(scene, is_going);
	if (is_farewell)
		scene->figures.farewell_ns = sim_now(scene->sim) - start_ns;
}

static bool is_not_lost(void *arg)
{
	return !((struct scene *)arg)->is_lost;
}

void scene_forget_lost(struct scene *scene)
{
	if (!scene->ctrl)
		return;
	/* After a Host Pathing Error the loss is about to be reported. */
	if (scene->pathing_errors > 0 && !scene->is_lost)
		scene_wait(scene, is_not_lost);
	scene->pathing_errors = 0;
	if (scene->is_lost)
		scene_disconnect(scene);
}

/* ---- a whole play --------------------------------------------------------------------------- */

static struct reactor *reactor_make(unsigned index)
{
	struct reactor_config config = {.index = index, .cpu = -1};
	struct reactor *reactor;

	CHECK(reactor_create(&config, &reactor) == 0);
	return reactor;
}

static bool has_leftovers(void *arg)
{
	return sim_leaks(((struct scene *)arg)->sim) > 0;
}

unsigned scene_play(const struct scene_options *options, const char *label,
		    struct scene_figures *ret_figures)
{
	struct scene *scene = sim_alloc(sizeof(*scene));
	unsigned complaints;

	scene->options = *options;
	scene->step = "start";
	scene->cmds = sim_alloc(SCENE_CMDS * sizeof(*scene->cmds));
	for (unsigned n = 0; n < SCENE_NS_COUNT; n++)
		for (unsigned i = 0; i < SCENE_BLOCKS; i++)
			block_set(&scene->blocks[n][i], 0);
	scene->sim = sim_create(options->seed, &options->sim);
	if (options->has_break)
		sim_net_set_break(scene->sim, &options->net_break);
	scene->control = reactor_make(0);
	scene->data[0] = reactor_make(1);
	scene->data[1] = reactor_make(2);
	scene->client = reactor_make(3);
	scene_script(scene);
	scene->step = "end";
	SCENE_EXPECT(scene, scene->done_count == scene->submitted_count);
	SCENE_EXPECT(scene, sim_run_while(scene->sim, has_leftovers, scene, SCENE_WAIT_NS) ||
				    sim_leaks(scene->sim) == 0);
	sim_enter(scene->control);
	for (unsigned i = 0; i < SCENE_NS_COUNT; i++)
		if (scene->backings[i])
			ns_backing_put(scene->backings[i]);
	if (scene->live)
		subsystem_live_put(scene->live);
	sim_leave(scene->control);
	scene->figures.is_broken = options->has_break && !sim_net_has_break(scene->sim);
	sim_destroy(scene->sim);
	complaints = scene->complaints;
	if (complaints > 0)
		printf("# %u complaints: %s\n", complaints, label);
	*ret_figures = scene->figures;
	free(scene->cmds);
	free(scene);
	return complaints;
}
