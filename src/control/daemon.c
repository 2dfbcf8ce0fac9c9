/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serving process from start to end. The main thread is the control reactor: it opens the
 * state folder and the media, builds snapshots and gives them to the target, and hears of signals
 * through a thread of their own (signals.c). The data reactors run the target.
 *
 * One change of configuration at a time: a reload that arrives during another waits; a stop waits
 * for the change under way. An error leaves everything as it was.
 */
#include "control/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/address.h"
#include "control/media_registry.h"
#include "control/signals.h"
#include "control/state.h"
#include "discovery/discovery.h"
#include "reactor/reactor_group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define DAEMON_CONTROL_INDEX   1000 /* beyond any data reactor */
#define DAEMON_GRACE_MS        10000
#define DAEMON_ADDRESS_WAIT_NS (5 * NS_PER_S)

typedef void (*daemon_applied_fn)(struct daemon *daemon, int res, void *arg);

struct daemon {
	const struct daemon_options *options;
	struct config *config;
	struct state state;
	struct reactor *control;
	struct reactor_group *group;
	struct reactor **reactors;
	struct target *target;
	struct media_registry *registry;
	struct signals signals;
	struct reactor_timer run_for_timer;
	struct reactor_msg begin_msg;
	struct reactor_msg end_msg;
	uint64_t discovery_generation;
	int exit_status;
	bool has_discovery;
	bool is_applying;
	bool is_serving;       /* start-up is over: reloads are possible */
	bool is_stopping;      /* asked for */
	bool is_shutting_down; /* under way */
	bool is_reload_wanted;
	bool is_clean;
	/* The change under way, and one that waits for it. */
	daemon_applied_fn applied;
	void *applied_arg;
	daemon_applied_fn next_applied;
	void *next_applied_arg;
	struct config *next_config; /* a reload's, in force once applied */
};

static void daemon_shut_down(struct daemon *daemon);
static void daemon_reload(void *arg);

struct reactor *daemon_control(const struct daemon *daemon)
{
	return daemon->control;
}

const struct target *daemon_target(const struct daemon *daemon)
{
	return daemon->target;
}

struct config *daemon_config(struct daemon *daemon)
{
	return daemon->config;
}

static void errors_log(const char *what, const struct config_errors *errors)
{
	unsigned kept = errors->count < CONFIG_ERRORS_MAX ? errors->count : CONFIG_ERRORS_MAX;

	for (unsigned i = 0; i < kept; i++)
		log_error("control", "%s: %s", what, errors->texts[i]);
	if (errors->count > kept)
		log_error("control", "%s: ... and %u errors more", what, errors->count - kept);
}

/* ---- changes of configuration --------------------------------------------------------------- */

/* What waited for the change that has just ended. */
static void daemon_next(struct daemon *daemon)
{
	daemon_applied_fn applied = daemon->next_applied;

	if (daemon->is_applying)
		return;
	if (daemon->is_stopping) {
		daemon_shut_down(daemon);
	} else if (applied) {
		daemon->next_applied = NULL;
		daemon_apply(daemon, applied, daemon->next_applied_arg);
	} else if (daemon->is_reload_wanted) {
		daemon_reload(daemon);
	}
}

static void apply_end(struct daemon *daemon, int res)
{
	daemon_applied_fn applied = daemon->applied;

	daemon->applied = NULL;
	daemon->is_applying = false;
	if (applied)
		applied(daemon, res, daemon->applied_arg);
	daemon_next(daemon);
}

static void apply_done(void *arg, int res, const char *error)
{
	struct daemon *daemon = arg;

	if (res < 0) {
		log_error("control", "%s", error ? error : strerror(-res));
		media_registry_rollback(daemon->registry);
	} else {
		media_registry_commit(daemon->registry);
	}
	apply_end(daemon, res);
}

static void apply_start(struct daemon *daemon, const struct config *config,
			daemon_applied_fn applied, void *arg)
{
	struct config_errors errors = {.count = 0};
	struct snapshot *snapshot;
	int res;

	CHECK(!daemon->is_applying);
	daemon->is_applying = true;
	daemon->applied = applied;
	daemon->applied_arg = arg;
	res = config_build_snapshot(config, daemon->registry, daemon->discovery_generation + 1,
				    &snapshot, &errors);
	if (res < 0) {
		errors_log("nothing was changed", &errors);
		apply_end(daemon, res);
		return;
	}
	daemon->discovery_generation++;
	target_apply(daemon->target, snapshot, apply_done, daemon);
}

void daemon_apply(struct daemon *daemon, daemon_applied_fn applied, void *arg)
{
	if (daemon->is_stopping)
		return;
	if (daemon->is_applying) {
		CHECK(!daemon->next_applied);
		daemon->next_applied = applied;
		daemon->next_applied_arg = arg;
		return;
	}
	apply_start(daemon, daemon->config, applied, arg);
}

static void reload_done(struct daemon *daemon, int res, void *arg)
{
	if (res == 0) {
		config_free(daemon->config);
		daemon->config = daemon->next_config;
		log_info("control", "%s is in force", daemon->options->config_path);
	} else {
		config_free(daemon->next_config);
		log_error("control", "%s was not applied; the old configuration stays",
			  daemon->options->config_path);
	}
	daemon->next_config = NULL;
}

static void daemon_reload(void *arg)
{
	const char *path;
	struct config_errors errors = {.count = 0};
	struct daemon *daemon = arg;

	path = daemon->options->config_path;
	if (!path) {
		log_warn("control",
			 "SIGHUP: started from flags, so there is no file to read again");
		return;
	}
	daemon->is_reload_wanted = daemon->is_applying || !daemon->is_serving;
	if (daemon->is_reload_wanted || daemon->is_stopping)
		return;
	if (config_load_file(path, &daemon->next_config, &errors)) {
		errors_log(path, &errors);
		log_error("control", "%s was not applied; the old configuration stays", path);
		return;
	}
	if (daemon->has_discovery)
		config_add_discovery_port(daemon->next_config, &daemon->options->discovery);
	apply_start(daemon, daemon->next_config, reload_done, NULL);
}

/* ---- start and end --------------------------------------------------------------------------- */

/* A predecessor that was killed holds its addresses until the kernel has ended its rings. */
static void addresses_wait(struct daemon *daemon)
{
	uint64_t deadline_ns = clock_monotonic_ns() + DAEMON_ADDRESS_WAIT_NS;

	if (!daemon->state.was_unclean)
		return;
	for (unsigned i = 0; i < daemon->config->port_count; i++)
		address_wait(&daemon->config->ports[i].listen, deadline_ns);
	if (daemon->options->has_discovery)
		address_wait(&daemon->options->discovery, deadline_ns);
}

static void discovery_add(struct daemon *daemon)
{
	const struct daemon_options *options = daemon->options;
	char text[NET_ADDR_TEXT_BYTES];
	int res;

	if (!options->has_discovery)
		return;
	if (options->discovery_is_optional) {
		res = address_probe(&options->discovery);
		if (res < 0) {
			log_warn("control",
				 "discovery answers on the other ports only: %s cannot be used "
				 "(%s); choose another with --discovery",
				 net_addr_format(&options->discovery, text), strerror(-res));
			return;
		}
	}
	daemon->has_discovery = config_add_discovery_port(daemon->config, &options->discovery);
}

static void started(struct daemon *daemon, int res, void *arg)
{
	if (res < 0) {
		daemon_stop(daemon, 1);
		return;
	}
	if (!daemon->is_stopping)
		daemon->options->hooks.started(daemon, daemon->options->hooks.arg);
}

static void daemon_begin(struct reactor_msg *msg)
{
	struct daemon *daemon = container_of(msg, struct daemon, begin_msg);

	if (daemon->is_stopping)
		return;
	addresses_wait(daemon);
	discovery_add(daemon);
	daemon_apply(daemon, started, NULL);
}

static void run_for_over(struct reactor_timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, run_for_timer);

	daemon_stop(daemon, 0);
}

void daemon_serve(struct daemon *daemon)
{
	uint64_t run_for_ms = daemon->options->run_for_ms;

	daemon->is_serving = true;
	if (run_for_ms > 0 && !daemon->is_stopping)
		reactor_timer_arm(&daemon->run_for_timer,
				  reactor_now_ns(daemon->control) + run_for_ms * NS_PER_MS);
	daemon_next(daemon);
}

/* A turn of its own: the target does not expect to be destroyed from inside its callback. */
static void daemon_end(struct reactor_msg *msg)
{
	struct daemon *daemon = container_of(msg, struct daemon, end_msg);

	target_destroy(daemon->target);
	daemon->target = NULL;
	media_registry_destroy(daemon->registry);
	daemon->registry = NULL;
	daemon->is_clean = true;
	reactor_stop(daemon->control);
}

static void shut_down_done(void *arg)
{
	struct daemon *daemon = arg;

	reactor_post(daemon->control, &daemon->end_msg, daemon_end);
}

static void daemon_shut_down(struct daemon *daemon)
{
	if (daemon->is_shutting_down)
		return;
	daemon->is_shutting_down = true;
	reactor_timer_cancel(&daemon->run_for_timer);
	if (daemon->options->hooks.stopping)
		daemon->options->hooks.stopping(daemon->options->hooks.arg);
	log_info("control", "stopping: telling hosts, finishing commands, flushing media");
	target_shutdown(daemon->target, DAEMON_GRACE_MS, shut_down_done, daemon);
}

void daemon_stop(struct daemon *daemon, int exit_status)
{
	if (exit_status != 0)
		daemon->exit_status = exit_status;
	if (daemon->is_stopping)
		return;
	daemon->is_stopping = true;
	if (!daemon->is_applying)
		daemon_shut_down(daemon);
}

static void stop_asked(void *arg)
{
	daemon_stop(arg, 0);
}

/* SIGUSR1. One line per reactor, then the target's, which says that there are no more to come. */
static void figures_log(void *arg)
{
	const struct daemon *daemon = arg;
	struct target_stats target;

	if (!daemon->target)
		return;
	for (unsigned i = 0; i < reactor_group_count(daemon->group); i++) {
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

static int reactors_start(struct daemon *daemon)
{
	struct reactor_config config = {.index = DAEMON_CONTROL_INDEX, .cpu = -1};
	unsigned count;
	int res = reactor_create(&config, &daemon->control);

	if (res < 0)
		return res;
	res = reactor_group_start(daemon->options->reactor_count, daemon->options->spin_max_us,
				  &daemon->group);
	if (res < 0)
		return res;
	count = reactor_group_count(daemon->group);
	daemon->reactors = calloc(count, sizeof(struct reactor *));
	if (!daemon->reactors)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++)
		daemon->reactors[i] = reactor_group_get(daemon->group, i);
	return media_registry_create(count, &daemon->registry);
}

/* A connection is a descriptor: take what the administrator allows, not the usual 1,024. */
static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		log_warn("control", "cannot raise the limit of open files: %s", strerror(errno));
}

static int daemon_start(struct daemon *daemon)
{
	struct target_config config = {.discovery_log = discovery_log_read};
	int res;

	descriptors_raise();
	res = reactors_start(daemon);
	if (res < 0) {
		log_error("control",
			  "cannot start the reactors: %s; io_uring may be disabled "
			  "(kernel.io_uring_disabled) or locked memory scarce (ulimit -l)",
			  strerror(-res));
		return res;
	}
	config.control = daemon->control;
	config.reactors = daemon->reactors;
	config.reactor_count = reactor_group_count(daemon->group);
	config.power_cycles = daemon->state.starts;
	config.unsafe_shutdowns = daemon->state.unsafe_shutdowns;
	res = target_create(&config, &daemon->target);
	if (res < 0) {
		log_error("control", "cannot create the target: %s", strerror(-res));
		return res;
	}
	daemon->signals.control = daemon->control;
	daemon->signals.on_stop = stop_asked;
	daemon->signals.on_reload = daemon_reload;
	daemon->signals.on_report = figures_log;
	daemon->signals.arg = daemon;
	res = signals_start(&daemon->signals);
	if (res < 0) {
		log_error("control", "cannot start a thread: %s", strerror(-res));
		target_destroy(daemon->target);
		daemon->target = NULL;
	}
	return res;
}

static void daemon_release(struct daemon *daemon)
{
	media_registry_destroy(daemon->registry);
	reactor_group_stop(daemon->group);
	if (daemon->control)
		reactor_destroy(daemon->control);
	free(daemon->reactors);
	config_free(daemon->config);
	if (state_close(&daemon->state, daemon->is_clean) < 0) {
		log_error("control", "cannot write to the state folder %s", daemon->state.dir);
		daemon->exit_status = 1;
	}
}

int daemon_run(const struct daemon_options *options)
{
	struct daemon daemon = {.options = options, .config = options->taken_config};
	const struct daemon_hooks *hooks = &options->hooks;
	struct state_error error;

	signals_block();
	daemon.state.lock_fd = -1;
	if (state_open(options->state_dir, &daemon.state, &error)) {
		log_error("control", "%s", error.text);
		config_free(daemon.config);
		return 1;
	}
	if (daemon_start(&daemon) < 0) {
		/* No host has written anything. */
		daemon.is_clean = true;
		daemon.exit_status = 1;
		daemon_release(&daemon);
		return 1;
	}
	reactor_timer_init(daemon.control, &daemon.run_for_timer, run_for_over);
	reactor_post(daemon.control, &daemon.begin_msg, daemon_begin);
	reactor_run(daemon.control);
	if (hooks->ended)
		hooks->ended(hooks->arg);
	signals_stop(&daemon.signals);
	daemon_release(&daemon);
	return daemon.exit_status;
}
