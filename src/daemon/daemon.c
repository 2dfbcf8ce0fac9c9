/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serving process from start to end. The main thread is the control reactor: it opens the
 * state folder, chooses what to start with (start.c), runs changes of the desired state (change.c),
 * and hears of signals through a thread of their own (signals.c). The data reactors run the target.
 *
 * A stop waits for the change under way; those that wait are refused.
 */
#include "daemon/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/peers.h"
#include "config/address.h"
#include "config/json_whole.h"
#include "daemon/ana_hold.h"
#include "daemon/boot.h"
#include "daemon/change.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "daemon/pool.h"
#include "daemon/reload.h"
#include "daemon/signals.h"
#include "daemon/start.h"
#include "daemon/state.h"
#include "discovery/discovery.h"
#include "reactor/reactor_group.h"
#include "reactor/uring_remedy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#define DAEMON_CONTROL_INDEX   1000 /* beyond any data reactor */
#define DAEMON_PEERS_INDEX     1001
#define DAEMON_GRACE_MS        10000
#define DAEMON_ADDRESS_WAIT_NS (5 * NS_PER_S)
#define DAEMON_HEALTH_NS       (60 * NS_PER_S)
#define DAEMON_TICK_NS         NS_PER_S
#define DAEMON_MEASURE_TICKS   5

struct daemon {
	const struct daemon_options *options;
	struct start start; /* until it has begun */
	struct state state;
	struct reactor *control;
	struct reactor_group *group;
	struct reactor **reactors;
	struct target *target;
	struct media_registry *registry;
	struct changes *changes;
	struct api *api;                   /* NULL: not started, or nothing is listened on */
	struct peers *peers;               /* NULL: no other process serves the same */
	struct reactor_group *peers_group; /* its one reactor */
	struct signals signals;
	struct reactor_timer run_for_timer;
	struct reactor_timer health_timer;
	struct reactor_timer tick_timer;
	unsigned ticks;
	struct reactor_msg begin_msg;
	struct reactor_msg end_msg;
	int exit_status;
	bool is_serving;       /* start-up is over: reloads are possible */
	bool is_stopping;      /* asked for */
	bool is_shutting_down; /* under way */
	bool is_reload_wanted;
	bool is_clean;
	struct boot_record boot;
	void (*private_applied)(struct daemon *daemon, int res, void *arg);
	void *private_arg;
};

struct reactor *daemon_control(const struct daemon *daemon)
{
	return daemon->control;
}

const struct target *daemon_target(const struct daemon *daemon)
{
	return daemon->target;
}

const struct config *daemon_config(const struct daemon *daemon)
{
	return changes_config(daemon->changes);
}

struct store *daemon_store(const struct daemon *daemon)
{
	return daemon->state.store;
}

bool daemon_is_stopping(const struct daemon *daemon)
{
	return daemon->is_stopping;
}

struct media_registry *daemon_registry(const struct daemon *daemon)
{
	return daemon->registry;
}

void daemon_get_facts(const struct daemon *daemon, struct daemon_facts *ret_facts)
{
	*ret_facts = (struct daemon_facts){
		.target = daemon->target,
		.reactors = daemon->reactors,
		.reactor_count = reactor_group_count(daemon->group),
		.id = daemon->state.id,
		.starts = daemon->state.starts,
		.unsafe_shutdowns = daemon->state.unsafe_shutdowns,
		.state_dir = daemon->state.dir,
		.peers = daemon->peers,
	};
}

/* ---- changes of configuration --------------------------------------------------------------- */

void daemon_change(struct daemon *daemon, const struct change *change)
{
	changes_submit(daemon->changes, change, NULL);
}

bool daemon_change_cancel(struct daemon *daemon, const struct change *change)
{
	return changes_cancel(daemon->changes, change);
}

uint64_t daemon_generation(const struct daemon *daemon)
{
	return changes_generation(daemon->changes);
}

static void private_done(void *arg, struct change_result *result)
{
	struct daemon *daemon = arg;

	if (result->res == -ESHUTDOWN)
		return;
	if (result->res < 0)
		config_errors_log("nothing was changed", &result->errors);
	daemon->private_applied(daemon, result->res, daemon->private_arg);
}

void daemon_set_private(struct daemon *daemon, const struct daemon_private *private,
			void (*applied)(struct daemon *daemon, int res, void *arg), void *arg)
{
	const struct change change = {.done = private_done, .arg = daemon, .origin = "self-check"};

	daemon->private_applied = applied;
	daemon->private_arg = arg;
	changes_submit_private(daemon->changes, private, &change);
}

static void daemon_reload(void *arg)
{
	struct daemon *daemon = arg;

	if (!daemon->options->config_path) {
		log_warn("control",
			 "SIGHUP: started from flags, so there is no file to read again");
		return;
	}
	daemon->is_reload_wanted = !daemon->is_serving;
	if (!daemon->is_reload_wanted && !daemon->is_stopping)
		reload_file(daemon->options->config_path, daemon->state.store, daemon->changes);
}

/* ---- start and end --------------------------------------------------------------------------- */

bool daemon_choose_discovery(const struct config *config, struct net_addr *ret_addr)
{
	const struct net_addr *first = NULL;
	char host[NET_ADDR_TEXT_BYTES];

	for (unsigned i = 0; i < config->port_count; i++) {
		/* It has its own: none is added. */
		if (config->ports[i].is_discovery_only)
			return false;
		if (!first)
			first = &config->ports[i].listen;
	}
	return first && net_addr_parse(net_addr_format_host(first, host), CONFIG_DISCOVERY_PORT,
				       ret_addr) == 0;
}

static bool discovery_addr(const struct daemon *daemon, struct net_addr *ret_addr)
{
	*ret_addr = daemon->options->discovery;
	if (daemon->options->has_discovery && daemon->options->discovery_is_auto)
		return daemon_choose_discovery(daemon->start.config, ret_addr);
	return daemon->options->has_discovery;
}

/* A predecessor that was killed holds its addresses until the kernel has ended its rings. */
static void addresses_wait(struct daemon *daemon)
{
	uint64_t deadline_ns = clock_monotonic_ns() + DAEMON_ADDRESS_WAIT_NS;
	struct net_addr discovery;

	if (!daemon->state.was_unclean)
		return;
	for (unsigned i = 0; i < daemon->start.config->port_count; i++)
		address_wait(&daemon->start.config->ports[i].listen, deadline_ns);
	if (discovery_addr(daemon, &discovery))
		address_wait(&discovery, deadline_ns);
}

static void discovery_add(struct daemon *daemon)
{
	char text[NET_ADDR_TEXT_BYTES];
	struct net_addr addr;
	int res;

	if (!discovery_addr(daemon, &addr))
		return;
	if (daemon->options->discovery_is_auto) {
		res = address_probe(&addr);
		if (res < 0) {
			log_warn("control",
				 "discovery answers on the other ports only: %s cannot be used "
				 "(%s); choose another with --discovery",
				 net_addr_format(&addr, text), strerror(-res));
			return;
		}
	}
	changes_set_discovery(daemon->changes, &addr);
}

static void daemon_go(struct daemon *daemon)
{
	const struct daemon_api *api = daemon->options->api;

	if (daemon->is_stopping)
		return;
	if (api && api->start(daemon, daemon->options->api_options, &daemon->api) < 0)
		daemon_stop(daemon, 1);
	else
		daemon->options->hooks.started(daemon, daemon->options->hooks.arg);
}

static void peers_started(void *arg, int res, const char *error)
{
	struct daemon *daemon = arg;

	if (res == 0) {
		daemon_go(daemon);
		return;
	}
	log_error("control", "cannot start: %s", error);
	daemon_stop(daemon, 1);
}

static void peers_rebuilt(void *arg, struct change_result *result)
{
	struct daemon *daemon = arg;

	if (result->res < 0 && result->res != -ESHUTDOWN)
		config_errors_log("what members compared could not be applied", &result->errors);
	peers_on_rebuilt(daemon->peers, result->res);
}

static void peers_rebuild(void *arg)
{
	struct daemon *daemon = arg;
	const struct change change = {
		.done = peers_rebuilt, .arg = daemon, .origin = "members of the cluster"};

	changes_rebuild(daemon->changes, &change);
}

static void started(void *arg, struct change_result *result)
{
	struct daemon *daemon = arg;
	const struct peers_hooks hooks = {
		.rebuild = peers_rebuild, .started = peers_started, .arg = daemon};

	if (result->res < 0 && result->res != -ESHUTDOWN) {
		config_errors_log("cannot start", &result->errors);
		daemon_stop(daemon, 1);
		return;
	}
	if (daemon->is_stopping)
		return;
	pool_report_orphans(daemon_config(daemon));
	/* The locks on what other members serve too are ours by now. */
	if (daemon->peers)
		peers_start(daemon->peers, daemon->target, &hooks);
	else
		daemon_go(daemon);
}

static void daemon_begin(struct reactor_msg *msg)
{
	struct daemon *daemon = container_of(msg, struct daemon, begin_msg);
	static const char *const origins[] = {[DAEMON_SAME] = "start",
					      [DAEMON_RESET] = "start --reset",
					      [DAEMON_MERGE] = "start --merge"};
	const struct change change = {
		.done = started, .arg = daemon, .origin = origins[daemon->options->start]};

	if (daemon->is_stopping)
		return;
	addresses_wait(daemon);
	discovery_add(daemon);
	if (media_registry_expect(daemon->registry, daemon->start.kept) < 0) {
		log_error("control", "cannot start: out of memory");
		daemon_stop(daemon, 1);
		return;
	}
	changes_start(daemon->changes, &daemon->start, &change);
}

/* What subsystems have counted, all of them in one transaction. */
static void health_keep(struct daemon *daemon, bool is_end)
{
	int res = store_batch_begin(daemon->state.store);

	if (res == 0) {
		media_registry_keep_health(daemon->registry, is_end);
		res = store_batch_end(daemon->state.store);
		if (res < 0)
			media_registry_set_unkept(daemon->registry);
	}
	if (res < 0)
		log_warn("control", "health counters could not be kept: %s", strerror(-res));
}

static void health_due(struct reactor_timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, health_timer);

	health_keep(daemon, false);
	reactor_timer_arm(timer, reactor_now_ns(daemon->control) + DAEMON_HEALTH_NS);
}

static void hold_done(void *arg, struct change_result *result)
{
	if (result->res < 0 && result->res != -ESHUTDOWN)
		config_errors_log("an ANA group stays in \"change\"", &result->errors);
}

/* What follows from time alone: groups that were in `change` for too long, and, while somebody may
 * ask for it, how much space namespaces take. */
static void tick_due(struct reactor_timer *timer)
{
	static const struct change over = {.done = hold_done, .origin = "the end of ANATT"};
	struct daemon *daemon = container_of(timer, struct daemon, tick_timer);
	struct target_stats stats;

	if (ana_holds_are_due(media_registry_ana_holds(daemon->registry), clock_monotonic_ns()))
		changes_rebuild(daemon->changes, &over);
	target_get_stats(daemon->target, &stats);
	if (++daemon->ticks % DAEMON_MEASURE_TICKS == 0 && stats.ctrls > 0)
		media_registry_measure(daemon->registry, clock_monotonic_ns());
	reactor_timer_arm(timer, reactor_now_ns(daemon->control) + DAEMON_TICK_NS);
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
	if (!daemon->is_stopping) {
		reactor_timer_arm(&daemon->health_timer,
				  reactor_now_ns(daemon->control) + DAEMON_HEALTH_NS);
		reactor_timer_arm(&daemon->tick_timer,
				  reactor_now_ns(daemon->control) + DAEMON_TICK_NS);
	}
	if (run_for_ms > 0 && !daemon->is_stopping)
		reactor_timer_arm(&daemon->run_for_timer,
				  reactor_now_ns(daemon->control) + run_for_ms * NS_PER_MS);
	if (daemon->is_reload_wanted)
		daemon_reload(daemon);
}

static void peers_gone(void *arg)
{
	struct daemon *daemon = arg;

	daemon->peers = NULL;
	reactor_stop(daemon->control);
}

/* A turn of its own: the target does not expect to be destroyed from inside its callback. */
static void daemon_end(struct reactor_msg *msg)
{
	struct daemon *daemon = container_of(msg, struct daemon, end_msg);

	media_registry_measure(daemon->registry,
			       clock_monotonic_ns()); /* a file that was deleted is missed now */
	health_keep(daemon, true);
	if (target_is_flushed(daemon->target))
		boot_end_flushed(daemon->state.store, &daemon->boot);
	target_destroy(daemon->target);
	daemon->target = NULL;
	media_registry_destroy(daemon->registry);
	daemon->registry = NULL;
	daemon->is_clean = true;
	if (daemon->peers)
		peers_destroy(daemon->peers, peers_gone, daemon);
	else
		reactor_stop(daemon->control);
}

static void target_over(void *arg)
{
	struct daemon *daemon = arg;

	reactor_post(daemon->control, &daemon->end_msg, daemon_end);
}

/* A reset that a peer has asked for may be on its way through the target still. */
static void shut_down_done(void *arg)
{
	struct daemon *daemon = arg;

	if (daemon->peers)
		peers_leave_target(daemon->peers, target_over, daemon);
	else
		target_over(daemon);
}

static void target_end(void *arg)
{
	struct daemon *daemon = arg;

	target_shutdown(daemon->target, DAEMON_GRACE_MS, shut_down_done, daemon);
}

/* No change is under way and none will be. */
static void daemon_shut_down(void *arg)
{
	struct daemon *daemon = arg;

	if (daemon->is_shutting_down)
		return;
	daemon->is_shutting_down = true;
	reactor_timer_cancel(&daemon->run_for_timer);
	reactor_timer_cancel(&daemon->health_timer);
	reactor_timer_cancel(&daemon->tick_timer);
	if (daemon->options->hooks.stopping)
		daemon->options->hooks.stopping(daemon->options->hooks.arg);
	log_info("control", "stopping: telling hosts, finishing commands, flushing media");
	if (daemon->peers)
		peers_stop_asking(daemon->peers);
	if (daemon->api)
		daemon->options->api->stop(daemon->api, target_end, daemon);
	else
		target_end(daemon);
}

void daemon_stop(struct daemon *daemon, int exit_status)
{
	if (exit_status != 0)
		daemon->exit_status = exit_status;
	if (daemon->is_stopping)
		return;
	daemon->is_stopping = true;
	changes_stop(daemon->changes);
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
	struct reactor_group_config group_config = {
		.count = daemon->options->reactor_count,
		.spin_max_us = daemon->options->spin_max_us,
		.is_pinned = daemon->options->is_pinned,
	};
	unsigned count;
	int res = reactor_create(&config, &daemon->control);

	if (res < 0)
		return res;
	res = reactor_group_start(&group_config, &daemon->group);
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

static struct target_keeper daemon_keeper(const struct daemon *daemon)
{
	return (struct target_keeper){
		.keep = store_keep, .recall = store_recall, .arg = daemon->state.store};
}

static void daemon_on_applying(void *arg, const struct snapshot *snapshot)
{
	struct daemon *daemon = arg;

	if (daemon->peers)
		peers_will_apply(daemon->peers, snapshot);
}

static void daemon_on_applied(void *arg)
{
	struct daemon *daemon = arg;

	if (daemon->peers)
		peers_look(daemon->peers);
}

static int changes_make(struct daemon *daemon)
{
	const struct changes_options options = {
		.control = daemon->control,
		.target = daemon->target,
		.registry = daemon->registry,
		.store = daemon->state.store,
		.generation = store_generation(daemon->state.store),
		.applying = daemon_on_applying,
		.applied = daemon_on_applied,
		.stopped = daemon_shut_down,
		.arg = daemon,
	};

	return changes_create(&options, &daemon->changes);
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

/* On a thread of their own, which answers whatever control is doing. */
static int peers_create_here(struct daemon *daemon, const struct peers_config *config)
{
	const struct reactor_group_config group = {
		.count = 1, .first_index = DAEMON_PEERS_INDEX, .name = PEERS_THREAD_NAME};
	struct peers_reactors reactors = {
		.control = daemon->control,
		.data = daemon->reactors,
		.data_count = reactor_group_count(daemon->group),
	};
	const struct target_keeper keeper = daemon_keeper(daemon);
	int res = reactor_group_start(&group, &daemon->peers_group);

	if (res < 0)
		return res;
	reactors.peers = reactor_group_get(daemon->peers_group, 0);
	return peers_create(&reactors, config, &keeper, &daemon->peers);
}

/* The other members of the document. 0, or -errno after a message. */
static int peers_make(struct daemon *daemon, struct target_config *config)
{
	struct config_cluster *cluster = daemon->start.config->cluster;
	struct config_errors errors = {.count = 0};
	int res;

	if (!cluster)
		return 0;
	res = config_cluster_read_secret(cluster, &errors);
	if (res == 0) {
		res = peers_create_here(daemon, &cluster->peers);
		explicit_bzero(cluster->peers.secret, sizeof(cluster->peers.secret));
		if (res < 0)
			config_errors_add(&errors, "cluster: %s", strerror(-res));
	}
	if (res < 0) {
		config_errors_log("cannot start", &errors);
		return res;
	}
	config->cntlid_first = cluster->peers.cntlid_first;
	config->cntlid_last = cluster->peers.cntlid_last;
	config->peers = peers_ops(daemon->peers);
	media_registry_set_peers(daemon->registry, daemon->peers);
	return 0;
}

static int daemon_start(struct daemon *daemon)
{
	struct target_config config = {.discovery_log = discovery_log_read};
	const struct config_cluster *cluster = daemon->start.config->cluster;
	int res;

	descriptors_raise();
	res = reactors_start(daemon);
	if (res < 0) {
		log_error("control", "cannot start the reactors: %s; %s", strerror(-res),
			  uring_remedy(res));
		return res;
	}
	config.control = daemon->control;
	config.reactors = daemon->reactors;
	config.reactor_count = reactor_group_count(daemon->group);
	config.power_cycles = daemon->state.starts;
	config.unsafe_shutdowns = daemon->state.unsafe_shutdowns;
	config.keeper = daemon_keeper(daemon);
	media_registry_set_keeper(daemon->registry, &config.keeper);
	config.manage = manage_handle;
	config.manage_arg = daemon;
	if (getrandom(&config.random_seed, sizeof(config.random_seed), 0) < 0)
		config.random_seed = clock_monotonic_ns();
	if (getrandom(config.instance, sizeof(config.instance), 0) < 0)
		memset(config.instance, 0, sizeof(config.instance));
	boot_begin(daemon->state.store, cluster != NULL, &daemon->boot);
	config.loss_source =
		boot_loss_source(&daemon->state.id, cluster ? cluster->peers.name : NULL);
	config.was_flushed = daemon->boot.was_flushed;
	memcpy(config.boot, daemon->boot.boot, sizeof(config.boot));
	res = peers_make(daemon, &config);
	if (res < 0)
		return res;
	res = target_create(&config, &daemon->target);
	if (res == 0)
		res = changes_make(daemon);
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
	changes_destroy(daemon->changes);
	if (daemon->options->api)
		daemon->options->api->destroy(daemon->api);
	media_registry_destroy(daemon->registry);
	/* Data reactors post to that of the peers, which has told control that it posts no more. */
	reactor_group_stop(daemon->group);
	reactor_group_stop(daemon->peers_group);
	peers_discard(daemon->peers);
	if (daemon->control)
		reactor_destroy(daemon->control);
	free(daemon->reactors);
	config_free(daemon->start.config);
	json_decref(daemon->start.kept);
	free(daemon->start.diff);
	if (state_close(&daemon->state, daemon->is_clean) < 0) {
		log_error("control", "cannot write to the state folder %s", daemon->state.dir);
		daemon->exit_status = 1;
	}
}

int daemon_run(const struct daemon_options *options)
{
	struct daemon daemon = {.options = options};
	const struct daemon_hooks *hooks = &options->hooks;
	struct state_error error;

	signals_block();
	json_whole_watch();
	daemon.state.lock_fd = -1;
	if (state_open(options->state_dir, &daemon.state, &error)) {
		log_error("control", "%s", error.text);
		config_free(options->taken_config);
		return 1;
	}
	if (start_choose(daemon.state.store, options, &daemon.start) < 0 ||
	    daemon_start(&daemon) < 0) {
		/* No host has written anything. */
		daemon.is_clean = true;
		daemon.exit_status = 1;
		daemon_release(&daemon);
		return 1;
	}
	reactor_timer_init(daemon.control, &daemon.run_for_timer, run_for_over);
	reactor_timer_init(daemon.control, &daemon.health_timer, health_due);
	reactor_timer_init(daemon.control, &daemon.tick_timer, tick_due);
	reactor_post(daemon.control, &daemon.begin_msg, daemon_begin);
	reactor_run(daemon.control);
	changes_destroy(daemon.changes);
	daemon.changes = NULL;
	if (hooks->ended)
		hooks->ended(hooks->arg);
	signals_stop(&daemon.signals);
	daemon_release(&daemon);
	return daemon.exit_status;
}
