/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a number of equal commands through the real host, connections and target on the simulated
 * reactor, for counting instructions: every run is the same.
 *
 * bench/instructions runs it under callgrind and collects inside `measured_run` only; side_scope.c
 * separates the sides. The queue is full at first and empty at the end, so exactly N commands
 * count.
 */
#include "one_io_paths.h"
#include "side_scope.h"
#include "sim.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "host/host.h"
#include "target/target.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NQN           "nqn.2026-11.io.weft:one"
#define NS_SPEC       "mem:67108864"
#define NS_BLOCKS     16384
#define BLOCK_BYTES   4096
#define DEPTH_MAX     128
#define WARM_ROUNDS   8
#define WAIT_NS       (3600 * NS_PER_S)
#define WINDOW_BYTES  (8 * 1024 * 1024)
#define R2T_ALL_BYTES 1024 /* in-capsule limit of --r2t: a block is longer */
#define PORTS         2

_Static_assert(DEPTH_MAX <= PATHS_COMMANDS_MAX, "one command for each place in the queue");

struct one_io {
	bool is_write;
	bool has_digests;
	bool wants_r2t;
	uint64_t io_bytes;
	uint64_t depth;
	uint64_t count;
	uint64_t path_count; /* 0: a controller without multipath */
	enum path_policy policy;
	bool has_lib;

	struct sim *sim;
	struct reactor *control, *data, *client;
	struct target *target;
	struct ns_backing *backing;
	struct net_addr addrs[PORTS];
	struct host_addr path_addrs[PORTS]; /* the same, as the host side names them */
	struct host_ctrl *ctrl;
	bool is_applied, is_connected, is_gone, is_shut_down;
	struct host_cmd cmds[DEPTH_MAX];
	uint8_t *buffers;
	uint64_t next_block;
	uint64_t left_to_issue;
	uint64_t under_way;
};

static struct one_io one;

/* ---- commands ------------------------------------------------------------------------------- */

static void on_cmd_done(struct host_cmd *cmd);

static void cmd_submit(struct host_cmd *cmd)
{
	uint32_t blocks = (uint32_t)(one.io_bytes / BLOCK_BYTES);
	uint32_t bytes = (uint32_t)one.io_bytes;
	void *data = one.buffers + (size_t)(cmd - one.cmds) * bytes;
	uint64_t block = one.next_block;

	one.next_block = (block + blocks) % NS_BLOCKS;
	one.left_to_issue--;
	one.under_way++;
	if (one.path_count > 0) {
		paths_submit((unsigned)(cmd - one.cmds), one.is_write, block, blocks, data);
		return;
	}
	if (one.is_write)
		host_cmd_write(cmd, 1, block, blocks, data, bytes);
	else
		host_cmd_read(cmd, 1, block, blocks, data, bytes);
	cmd->done = on_cmd_done;
	host_submit_io(one.ctrl, 0, cmd);
}

static void on_cmd_done(struct host_cmd *cmd)
{
	CHECK(nvme_status_is_ok(cmd->status));
	one.under_way--;
	if (one.left_to_issue > 0)
		cmd_submit(cmd);
}

static void on_path_done(unsigned index)
{
	one.under_way--;
	if (one.left_to_issue > 0)
		cmd_submit(&one.cmds[index]);
}

static void cmds_start(void *arg)
{
	for (unsigned i = 0; i < one.depth && one.left_to_issue > 0; i++)
		cmd_submit(&one.cmds[i]);
}

static bool is_busy(void *arg)
{
	return one.under_way > 0;
}

static void commands_run(uint64_t count)
{
	one.left_to_issue = count;
	sim_enter(one.client);
	host_in_call(cmds_start, NULL);
	sim_leave(one.client);
	CHECK(sim_run_while(one.sim, is_busy, NULL, WAIT_NS) && one.left_to_issue == 0);
}

/* callgrind collects inside this function, by its name. */
void measured_run(uint64_t count);
__attribute__((noinline)) void measured_run(uint64_t count)
{
	commands_run(count);
	__asm__ volatile("" : : : "memory");
}

/* ---- the target ----------------------------------------------------------------------------- */

static void snapshot_fill(struct snapshot *snapshot)
{
	struct subsystem *subsystem = sim_alloc(sizeof(*subsystem));
	struct port *ports = sim_alloc(PORTS * sizeof(*ports));

	snapshot->limits.queue_size_max = DEPTH_MAX + 1;
	if (one.wants_r2t)
		snapshot->limits.in_capsule_bytes = R2T_ALL_BYTES;
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), NQN);
	text_copy(subsystem->serial, sizeof(subsystem->serial), "ONE");
	subsystem->allows_any_host = true;
	subsystem->ana_group_max = 1;
	subsystem->ns_count = 1;
	subsystem->namespaces = ns_array_create(1);
	CHECK(subsystem->namespaces);
	subsystem->namespaces[0] = (struct ns){
		.nsid = 1,
		.ana_group = 1,
	};
	ns_bind(&subsystem->namespaces[0], ns_backing_get(one.backing));
	snapshot->subsystems = sim_alloc(sizeof(struct subsystem *));
	snapshot->subsystems[0] = subsystem;
	snapshot->subsystem_count = 1;
	for (unsigned i = 0; i < PORTS; i++) {
		ports[i].id = (uint16_t)(i + 1);
		ports[i].listen = one.addrs[i];
		ports[i].subsystems = sim_alloc(sizeof(struct subsystem *));
		ports[i].subsystems[0] = subsystem;
		ports[i].subsystem_count = 1;
	}
	snapshot->ports = ports;
	snapshot->port_count = PORTS;
}

static void on_applied(void *arg, int res, const char *error)
{
	CHECK(res == 0);
	one.is_applied = true;
}

static bool is_applying(void *arg)
{
	return !one.is_applied;
}

static void target_start(void)
{
	struct target_config config = {
		.control = one.control, .reactors = &one.data, .reactor_count = 1};
	struct snapshot *snapshot = snapshot_create();
	struct media_error error;
	struct media *media;

	CHECK(snapshot != NULL && media_open(NS_SPEC, &media, &error) == 0);
	CHECK(ns_backing_create(media, 1, &one.backing) == 0);
	snapshot_fill(snapshot);
	sim_enter(one.control);
	CHECK(target_create(&config, &one.target) == 0);
	target_apply(one.target, snapshot, on_applied, NULL);
	sim_leave(one.control);
	CHECK(sim_run_while(one.sim, is_applying, NULL, WAIT_NS));
}

static void on_shut_down(void *arg)
{
	one.is_shut_down = true;
}

static bool is_shutting_down(void *arg)
{
	return !one.is_shut_down;
}

static void target_end(void)
{
	sim_enter(one.control);
	target_shutdown(one.target, 1000, on_shut_down, NULL);
	sim_leave(one.control);
	CHECK(sim_run_while(one.sim, is_shutting_down, NULL, WAIT_NS));
	sim_enter(one.control);
	target_destroy(one.target);
	ns_backing_put(one.backing);
	sim_leave(one.control);
}

/* ---- the host ------------------------------------------------------------------------------- */

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	if (res != 0)
		fprintf(stderr, "one_io: %s\n", error->text);
	CHECK(res == 0);
	one.is_connected = true;
}

static bool is_connecting(void *arg)
{
	return !one.is_connected;
}

static void host_start(void)
{
	static const struct host_callbacks callbacks = {.connected = on_connected};
	struct host_config config = {
		.addr = one.path_addrs[0],
		.subsystem_nqn = NQN,
		.host_nqn = "nqn.2026-11.io.weft:one-host",
		.io_queues = 1,
		.io_queue_size = DEPTH_MAX + 1,
		.wants_header_digest = one.has_digests,
		.wants_data_digest = one.has_digests,
		.command_timeout_ms = 3600000,
	};

	sim_enter(one.client);
	CHECK(host_connect(one.client, &config, &callbacks, NULL, &one.ctrl) == 0);
	sim_leave(one.client);
	CHECK(sim_run_while(one.sim, is_connecting, NULL, WAIT_NS));
	CHECK(host_ctrl_io_depth(one.ctrl) >= one.depth);
}

static bool are_paths_missing(void *arg)
{
	bool are_live;

	sim_enter(one.client);
	are_live = paths_are_live();
	sim_leave(one.client);
	return !are_live;
}

static void paths_start(void)
{
	struct paths_config config = {
		.reactor = one.client,
		.nqn = NQN,
		.addrs = one.path_addrs,
		.count = (unsigned)one.path_count,
		.policy = one.policy,
		.queue_size = DEPTH_MAX + 1,
		.has_digests = one.has_digests,
		.has_lib = one.has_lib,
		.block_bytes = BLOCK_BYTES,
		.block_count = NS_BLOCKS,
		.done = on_path_done,
	};

	sim_enter(one.client);
	paths_open(&config);
	sim_leave(one.client);
	CHECK(sim_run_while(one.sim, are_paths_missing, NULL, WAIT_NS));
}

static bool are_paths_going(void *arg)
{
	return !paths_are_gone();
}

static void paths_end(void)
{
	sim_enter(one.client);
	paths_close();
	sim_leave(one.client);
	CHECK(sim_run_while(one.sim, are_paths_going, NULL, WAIT_NS));
}

static void on_gone(void *arg)
{
	one.is_gone = true;
}

static bool is_going(void *arg)
{
	return !one.is_gone;
}

static void host_end(void)
{
	sim_enter(one.client);
	host_disconnect(one.ctrl, on_gone, NULL);
	sim_leave(one.client);
	CHECK(sim_run_while(one.sim, is_going, NULL, WAIT_NS));
}

/* ---- the whole ------------------------------------------------------------------------------ */

static struct reactor *reactor_make(unsigned index)
{
	struct reactor_config config = {.index = index, .cpu = -1};
	struct reactor *reactor;

	CHECK(reactor_create(&config, &reactor) == 0);
	return reactor;
}

static void play(void)
{
	struct sim_options options = {.is_orderly = true, .window_max_bytes = WINDOW_BYTES};

	one.sim = sim_create(1, &options);
	one.control = reactor_make(0);
	one.data = reactor_make(1);
	one.client = reactor_make(2);
	side_scope_init(one.data, one.client);
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &one.addrs[0]) == 0);
	CHECK(net_addr_parse("10.0.0.2:4420", 4420, &one.addrs[1]) == 0);
	for (unsigned i = 0; i < PORTS; i++)
		one.path_addrs[i].net = one.addrs[i];
	one.buffers = aligned_alloc(4096, one.depth * one.io_bytes);
	CHECK(one.buffers != NULL);
	memset(one.buffers, 0x5a, one.depth * one.io_bytes);
	target_start();
	if (one.path_count > 0)
		paths_start();
	else
		host_start();
	commands_run(one.depth * WARM_ROUNDS);
	measured_run(one.count);
	if (one.path_count > 0)
		paths_end();
	else
		host_end();
	target_end();
	/* The listener may end a little later. */
	sim_run_until(one.sim, sim_now(one.sim) + NS_PER_MS);
	CHECK(sim_leaks(one.sim) == 0);
	sim_destroy(one.sim);
	free(one.buffers);
}

static void help_print(void)
{
	printf("Usage: one_io [OPTION]...\n\n"
	       "Sends equal commands through host and target on the simulated reactor; prints how\n"
	       "many. Run under callgrind by bench/instructions.\n\n"
	       "      --rw read|write    (read)\n"
	       "      --bs SIZE          a multiple of 4k, up to 512k (4k)\n"
	       "      --depth N          commands under way, up to %u (1)\n"
	       "      --count N          how many to measure (1000)\n"
	       "      --digests          header and data digests\n"
	       "      --r2t              no data in capsules\n"
	       "      --paths N          through multipath, over up to %u paths (0: without)\n"
	       "      --policy NAME      of multipath (queue-depth)\n"
	       "      --lib              requests of libweft, over --paths\n"
	       "  -h, --help             this text\n",
	       DEPTH_MAX, PORTS);
}

static int option_take(int flag, const char *value)
{
	switch (flag) {
	case 'r':
		one.is_write = strcmp(value, "write") == 0;
		return one.is_write || strcmp(value, "read") == 0 ? 0 : -EINVAL;
	case 'b':
		return text_parse_size(value, &one.io_bytes) == 0 && one.io_bytes > 0 &&
				       one.io_bytes % BLOCK_BYTES == 0 && one.io_bytes <= 524288
			       ? 0
			       : -EINVAL;
	case 'd':
		return text_parse_u64(value, DEPTH_MAX, &one.depth) == 0 && one.depth > 0 ? 0
											  : -EINVAL;
	case 'c':
		return text_parse_u64(value, 1000000000, &one.count);
	case 'g':
		one.has_digests = true;
		return 0;
	case 't':
		one.wants_r2t = true;
		return 0;
	case 'p':
		return text_parse_u64(value, PORTS, &one.path_count);
	case 'o':
		return path_policy_parse(value, &one.policy);
	case 'l':
		one.has_lib = true;
		return 0;
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"rw", required_argument, NULL, 'r'},
						{"bs", required_argument, NULL, 'b'},
						{"depth", required_argument, NULL, 'd'},
						{"count", required_argument, NULL, 'c'},
						{"digests", no_argument, NULL, 'g'},
						{"r2t", no_argument, NULL, 't'},
						{"paths", required_argument, NULL, 'p'},
						{"policy", required_argument, NULL, 'o'},
						{"lib", no_argument, NULL, 'l'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int flag, which = 0;

	one.io_bytes = 4096;
	one.depth = 1;
	one.count = 1000;
	one.policy = PATH_POLICY_QUEUE_DEPTH;
	while ((flag = getopt_long(argc, argv, "h", options, &which)) != -1) {
		if (flag == 'h') {
			help_print();
			return 0;
		}
		if (flag == '?')
			return 2;
		if (option_take(flag, optarg) != 0) {
			fprintf(stderr, "one_io: --%s: \"%s\" is not understood\n",
				options[which].name, optarg);
			return 2;
		}
	}
	if (one.has_lib && one.path_count == 0)
		one.path_count = 1;
	log_set_level(LOG_LEVEL_ERROR);
	play();
	printf("%llu commands\n", (unsigned long long)one.count);
	return 0;
}
