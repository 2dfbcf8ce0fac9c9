/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serving process around a daemon (life.h): state folder, reactors, addresses, signals, the
 * REST API and the exit status. The main thread is the control reactor. It opens the state folder,
 * chooses the configuration to start with (start.c) and runs the daemon. A separate thread waits
 * for signals and posts them (signals.c). The data reactors run the target.
 */
#include "daemon/life.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/peers.h"
#include "config/address.h"
#include "config/json_whole.h"
#include "daemon/change.h"
#include "daemon/media_registry.h"
#include "daemon/reload.h"
#include "daemon/signals.h"
#include "reactor/reactor_group.h"
#include "reactor/uring_remedy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define DAEMON_CONTROL_INDEX   1000 /* above the index of any data reactor */
#define DAEMON_PEERS_INDEX     1001
#define DAEMON_ADDRESS_WAIT_NS (5 * NS_PER_S)

struct process {
	struct daemon daemon;
	const struct daemon_options *options;
	struct reactor_group *group;
	struct reactor_group *peers_group; /* the one reactor of the links to peers */
	struct api *api;                   /* NULL: not started, or no address to listen on */
	struct signals signals;
	struct reactor_timer run_for_timer;
	struct reactor_msg begin_msg;
	bool is_serving; /* start-up has ended: reloads are possible */
	bool is_reload_wanted;
};

static struct process *process_of(struct daemon *daemon)
{
	return container_of(daemon, struct process, daemon);
}

static void process_reload(void *arg)
{
	struct process *process = arg;
	struct daemon *daemon = &process->daemon;
	const char *path = process->options->config_path;

	if (!path) {
		log_warn("control",
			 "SIGHUP: started from flags, so there is no file to read again");
		return;
	}
	process->is_reload_wanted = !process->is_serving;
	if (!process->is_reload_wanted && !daemon->is_stopping)
		reload_file(path, daemon->state.store, daemon->changes);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool discovery_addr(const struct process *process, struct net_addr *ret_addr)
{
	const struct daemon_options *options = process->options;

	*ret_addr = options->discovery;
	if (options->has_discovery && options->discovery_is_auto)
		return daemon_choose_discovery(process->daemon.start.config, ret_addr);
	return options->has_discovery;
}

static void cluster_address_wait(const struct config_cluster *cluster, uint64_t deadline_ns)
{
	if (!cluster)
		return;
	if (cluster->peers.listen.path[0] != 0)
		address_wait_unix(cluster->peers.listen.path, deadline_ns);
	else
		address_wait(&cluster->peers.listen.addr, deadline_ns);
}

/* A killed predecessor holds its addresses until the kernel has ended its rings. */
static void addresses_wait(const struct process *process)
{
	uint64_t deadline_ns = clock_monotonic_ns() + DAEMON_ADDRESS_WAIT_NS;
	const struct config *config = process->daemon.start.config;
	struct net_addr discovery;

	if (!process->daemon.state.was_unclean)
		return;
	for (unsigned i = 0; i < config->port_count; i++) {
		if (config->ports[i].transport == DISCOVERY_TCP)
			address_wait(&config->ports[i].listen, deadline_ns);
	}
	if (discovery_addr(process, &discovery))
		address_wait(&discovery, deadline_ns);
	cluster_address_wait(config->cluster, deadline_ns);
}

static void discovery_add(const struct process *process)
{
	char text[NET_ADDR_TEXT_BYTES];
	struct net_addr addr;
	int res;

	if (!discovery_addr(process, &addr))
		return;
	if (process->options->discovery_is_auto) {
		res = address_probe(&addr);
		if (res < 0) {
			log_warn("control",
				 "discovery answers on the other ports only: %s cannot be used "
				 "(%s); choose another with --discovery",
				 net_addr_format(&addr, text), strerror(-res));
			return;
		}
	}
	changes_set_discovery(process->daemon.changes, &addr);
}

/* ---- start and end --------------------------------------------------------------------------- */

static int on_read_secret(struct daemon *daemon, struct config_cluster *cluster,
			  struct config_errors *errors)
{
	return config_cluster_read_secret(cluster, errors);
}

/* A thread of its own answers peers even while the control thread blocks. */
static int on_make_peers_reactor(struct daemon *daemon, struct reactor **ret_reactor)
{
	const struct reactor_group_config config = {
		.count = 1, .first_index = DAEMON_PEERS_INDEX, .name = PEERS_THREAD_NAME};
	struct process *process = process_of(daemon);
	int res = reactor_group_start(&config, &process->peers_group);

	if (res == 0)
		*ret_reactor = reactor_group_get(process->peers_group, 0);
	return res;
}

static void on_started(struct daemon *daemon)
{
	struct process *process = process_of(daemon);
	const struct daemon_options *options = process->options;

	if (options->api && options->api->start(daemon, options->api_options, &process->api) < 0)
		daemon_stop(daemon, 1);
	else
		options->hooks.started(daemon, options->hooks.arg);
}

static void on_serving(struct daemon *daemon)
{
	struct process *process = process_of(daemon);
	uint64_t run_for_ms = process->options->run_for_ms;

	process->is_serving = true;
	if (run_for_ms > 0 && !daemon->is_stopping)
		reactor_timer_arm(&process->run_for_timer,
				  reactor_now_ns(daemon->control) + run_for_ms * NS_PER_MS);
	if (process->is_reload_wanted)
		process_reload(process);
}

static void on_stopping(struct daemon *daemon, void (*stopped)(void *arg), void *arg)
{
	struct process *process = process_of(daemon);
	const struct daemon_hooks *hooks = &process->options->hooks;

	reactor_timer_cancel(&process->run_for_timer);
	if (hooks->stopping)
		hooks->stopping(hooks->arg);
	if (process->api)
		process->options->api->stop(process->api, stopped, arg);
	else
		stopped(arg);
}

static void on_ended(struct daemon *daemon)
{
	reactor_stop(daemon->control);
}

static const struct life_hooks life_hooks = {
	.read_secret = on_read_secret,
	.make_peers_reactor = on_make_peers_reactor,
	.started = on_started,
	.serving = on_serving,
	.stopping = on_stopping,
	.ended = on_ended,
};

static void process_begin(struct reactor_msg *msg)
{
	struct process *process = container_of(msg, struct process, begin_msg);

	if (process->daemon.is_stopping)
		return;
	addresses_wait(process);
	discovery_add(process);
	life_begin(&process->daemon);
}

static void run_for_over(struct reactor_timer *timer)
{
	daemon_stop(&container_of(timer, struct process, run_for_timer)->daemon, 0);
}

static void stop_asked(void *arg)
{
	struct process *process = arg;

	daemon_stop(&process->daemon, 0);
}

/* SIGUSR1. Logs one line per reactor, then the target's line, which is the last. */
static void figures_log(void *arg)
{
	const struct process *process = arg;
	const struct daemon *daemon = &process->daemon;
	struct target_stats target;

	if (!daemon->target)
		return;
	for (unsigned i = 0; i < daemon->reactor_count; i++) {
		struct reactor_stats stats;

		reactor_get_stats(daemon->reactors[i], &stats);
		log_info("control",
			 "reactor %u: run %.6f s, busy %.6f s, spun %.6f s, turns %llu, "
			 "sleeps %llu, posts %llu, stalls %llu",
			 i, (double)stats.run_ns / NS_PER_S, (double)stats.busy_ns / NS_PER_S,
			 (double)stats.spin_ns / NS_PER_S, (unsigned long long)stats.turns,
			 (unsigned long long)stats.sleeps, (unsigned long long)stats.posts,
			 (unsigned long long)stats.stalls);
	}
	target_get_stats(daemon->target, &target);
	log_info("control", "target: connections %u, controllers %u, commands %llu",
		 target.connections, target.ctrls, (unsigned long long)target.commands);
}

/* ---- the process ----------------------------------------------------------------------------- */

static int reactors_start(struct process *process)
{
	struct reactor_config config = {.index = DAEMON_CONTROL_INDEX, .cpu = -1};
	struct reactor_group_config group_config = {
		.count = process->options->reactor_count,
		.spin_max_us = process->options->spin_max_us,
		.is_pinned = process->options->is_pinned,
	};
	struct daemon *daemon = &process->daemon;
	int res = reactor_create(&config, &daemon->control);

	if (res < 0)
		return res;
	res = reactor_group_start(&group_config, &process->group);
	if (res < 0)
		return res;
	daemon->reactor_count = reactor_group_count(process->group);
	daemon->reactors = calloc(daemon->reactor_count, sizeof(struct reactor *));
	if (!daemon->reactors)
		return -ENOMEM;
	for (unsigned i = 0; i < daemon->reactor_count; i++)
		daemon->reactors[i] = reactor_group_get(process->group, i);
	return 0;
}

/* Each connection is a descriptor: use the hard limit, not the usual 1,024. */
static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		log_warn("control", "cannot raise the limit of open files: %s", strerror(errno));
}

static int process_start(struct process *process)
{
	struct daemon *daemon = &process->daemon;
	int res;

	descriptors_raise();
	res = reactors_start(process);
	if (res < 0) {
		log_error("control", "cannot start the reactors: %s; %s", strerror(-res),
			  uring_remedy(res));
		return res;
	}
	res = life_make(daemon);
	if (res < 0)
		return res;
	process->signals.control = daemon->control;
	process->signals.on_stop = stop_asked;
	process->signals.on_reload = process_reload;
	process->signals.on_report = figures_log;
	process->signals.arg = process;
	res = signals_start(&process->signals);
	if (res < 0) {
		log_error("control", "cannot start a thread: %s", strerror(-res));
		target_destroy(daemon->target);
		daemon->target = NULL;
	}
	return res;
}

static void process_release(struct process *process)
{
	struct daemon *daemon = &process->daemon;

	/* Data reactors post to the peers' reactor, so they stop first. The peers' reactor has
	 * already reported to control that it posts no more. */
	reactor_group_stop(process->group);
	reactor_group_stop(process->peers_group);
	life_release(daemon);
	if (process->options->api)
		process->options->api->destroy(process->api);
	if (daemon->control)
		reactor_destroy(daemon->control);
	free(daemon->reactors);
	if (state_close(&daemon->state, daemon->is_clean) < 0) {
		log_error("control", "cannot write to the state folder %s", daemon->state.dir);
		daemon->exit_status = 1;
	}
}

int daemon_run(const struct daemon_options *options)
{
	struct process process = {.options = options};
	const struct daemon_hooks *hooks = &options->hooks;
	struct daemon *daemon = &process.daemon;
	struct state_error error;

	signals_block();
	json_whole_watch();
	daemon->hooks = &life_hooks;
	daemon->start_kind = options->start;
	daemon->tells_boot = true;
	if (state_open(options->state_dir, &daemon->state, &error)) {
		log_error("control", "%s", error.text);
		config_free(options->taken_config);
		return 1;
	}
	if (start_choose(daemon->state.store, options, &daemon->start) < 0 ||
	    process_start(&process) < 0) {
		/* No host has written anything. */
		daemon->is_clean = true;
		process_release(&process);
		return 1;
	}
	reactor_timer_init(daemon->control, &process.run_for_timer, run_for_over);
	reactor_post(daemon->control, &process.begin_msg, process_begin);
	reactor_run(daemon->control);
	changes_destroy(daemon->changes);
	daemon->changes = NULL;
	if (hooks->ended)
		hooks->ended(hooks->arg);
	signals_stop(&process.signals);
	process_release(&process);
	return daemon->exit_status;
}
