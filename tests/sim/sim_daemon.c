/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the place of daemon/daemon.c in simulated nodes (sim_daemon.h): it defines struct daemon
 * and the functions of daemon/daemon.h, with the same order at start and end and the same timers,
 * so that everything else of the control plane is the true code. On the node's control reactor.
 *
 * What is left out: signals, REST, reading files again, the lock of the state folder, and waiting
 * for addresses, which are free as soon as a simulated process is dead.
 */
#include "sim_daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cluster/peers.h"
#include "daemon/ana_hold.h"
#include "daemon/change.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "daemon/start.h"
#include "discovery/discovery.h"
#include "sim.h"
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DAEMON_GRACE_MS      10000
#define DAEMON_HEALTH_NS     (60 * NS_PER_S)
#define DAEMON_TICK_NS       NS_PER_S
#define DAEMON_MEASURE_TICKS 5
#define DAEMON_SECRET        "what all members of a simulated cluster know"

struct daemon {
	struct sim_daemon_config config;
	struct start start; /* until it has begun */
	struct store *store;
	struct store_counters counters;
	struct reactor *control;
	struct reactor *peers_reactor;
	struct reactor *reactors[SIM_DAEMON_REACTORS_MAX];
	struct target *target;
	struct media_registry *registry;
	struct changes *changes;
	struct peers *peers; /* NULL: no other process serves the same */
	struct reactor_timer health_timer;
	struct reactor_timer tick_timer;
	unsigned ticks;
	struct reactor_msg begin_msg;
	struct reactor_msg end_msg;
	int res; /* < 0: it could not start */
	char why[SIM_DAEMON_WHY_BYTES];
	bool is_stopping;      /* asked for */
	bool is_shutting_down; /* under way */
	bool is_clean;
	void (*private_applied)(struct daemon *daemon, int res, void *arg);
	void *private_arg;
};

/* ---- what others ask of it ------------------------------------------------------------------ */

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
	return daemon->changes ? changes_config(daemon->changes) : NULL;
}

struct store *daemon_store(const struct daemon *daemon)
{
	return daemon->store;
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
		.reactor_count = daemon->config.reactor_count,
		.id = daemon->counters.id,
		.starts = daemon->counters.starts,
		.unsafe_shutdowns = daemon->counters.unsafe_shutdowns,
		.state_dir = daemon->config.folder,
		.peers = daemon->peers,
	};
}

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

	if (result->res != -ESHUTDOWN)
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

bool daemon_choose_discovery(const struct config *config, struct net_addr *ret_addr)
{
	const struct net_addr *first = NULL;
	char host[NET_ADDR_TEXT_BYTES];

	for (unsigned i = 0; i < config->port_count; i++) {
		if (config->ports[i].is_discovery_only)
			return false;
		if (!first)
			first = &config->ports[i].listen;
	}
	return first && net_addr_parse(net_addr_format_host(first, host), CONFIG_DISCOVERY_PORT,
				       ret_addr) == 0;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void health_keep(struct daemon *daemon, bool is_end)
{
	int res = store_batch_begin(daemon->store);

	if (res == 0) {
		media_registry_keep_health(daemon->registry, is_end);
		res = store_batch_end(daemon->store);
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

static int hold_edit(json_t *document, void *arg, struct config_errors *errors)
{
	return 0;
}

static void hold_done(void *arg, struct change_result *result)
{
	if (result->res < 0 && result->res != -ESHUTDOWN)
		log_error("control", "an ANA group stays in \"change\": %s",
			  result->errors.texts[0]);
}

static void tick_due(struct reactor_timer *timer)
{
	static const struct change over = {.edit = hold_edit,
					   .done = hold_done,
					   .origin = "the end of ANATT",
					   .is_forced = true};
	struct daemon *daemon = container_of(timer, struct daemon, tick_timer);
	struct target_stats stats;

	if (ana_holds_are_due(media_registry_ana_holds(daemon->registry), clock_monotonic_ns()))
		daemon_change(daemon, &over);
	target_get_stats(daemon->target, &stats);
	if (++daemon->ticks % DAEMON_MEASURE_TICKS == 0 && stats.ctrls > 0)
		media_registry_measure(daemon->registry, clock_monotonic_ns());
	reactor_timer_arm(timer, reactor_now_ns(daemon->control) + DAEMON_TICK_NS);
}

void daemon_serve(struct daemon *daemon)
{
	reactor_timer_arm(&daemon->health_timer,
			  reactor_now_ns(daemon->control) + DAEMON_HEALTH_NS);
	reactor_timer_arm(&daemon->tick_timer, reactor_now_ns(daemon->control) + DAEMON_TICK_NS);
	daemon->config.serving(daemon->config.arg);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void daemon_over(struct daemon *daemon)
{
	daemon->config.ended(daemon->config.arg, daemon->res, daemon->why);
}

static void peers_gone(void *arg)
{
	struct daemon *daemon = arg;

	daemon->peers = NULL;
	daemon_over(daemon);
}

/* A turn of its own: the target does not expect to be destroyed from inside its callback. */
static void daemon_end(struct reactor_msg *msg)
{
	struct daemon *daemon = container_of(msg, struct daemon, end_msg);

	health_keep(daemon, true);
	target_destroy(daemon->target);
	daemon->target = NULL;
	media_registry_destroy(daemon->registry);
	daemon->registry = NULL;
	daemon->is_clean = true;
	if (daemon->peers)
		peers_destroy(daemon->peers, peers_gone, daemon);
	else
		daemon_over(daemon);
}

static void target_over(void *arg)
{
	struct daemon *daemon = arg;

	reactor_post(daemon->control, &daemon->end_msg, daemon_end);
}

static void shut_down_done(void *arg)
{
	struct daemon *daemon = arg;

	if (daemon->peers)
		peers_leave_target(daemon->peers, target_over, daemon);
	else
		target_over(daemon);
}

/* No change is under way and none will be. */
static void daemon_shut_down(void *arg)
{
	struct daemon *daemon = arg;

	if (daemon->is_shutting_down)
		return;
	daemon->is_shutting_down = true;
	reactor_timer_cancel(&daemon->health_timer);
	reactor_timer_cancel(&daemon->tick_timer);
	log_info("control", "stopping: telling hosts, finishing commands, flushing media");
	if (daemon->peers)
		peers_stop_asking(daemon->peers);
	target_shutdown(daemon->target, DAEMON_GRACE_MS, shut_down_done, daemon);
}

void daemon_stop(struct daemon *daemon, int exit_status)
{
	if (daemon->is_stopping)
		return;
	daemon->is_stopping = true;
	changes_stop(daemon->changes);
}

/* ---- the start ------------------------------------------------------------------------------- */

static int fail(struct daemon *daemon, int res, const char *why)
{
	log_error("control", "cannot start: %s", why);
	daemon->res = res;
	text_copy(daemon->why, sizeof(daemon->why), why);
	return res;
}

static void peers_started(void *arg, int res, const char *error)
{
	struct daemon *daemon = arg;

	if (res < 0) {
		fail(daemon, res, error);
		daemon_stop(daemon, 1);
	} else if (!daemon->is_stopping) {
		daemon_serve(daemon);
	}
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
		fail(daemon, result->res, result->errors.texts[0]);
		daemon_stop(daemon, 1);
		return;
	}
	if (daemon->is_stopping)
		return;
	if (daemon->peers)
		peers_start(daemon->peers, daemon->target, &hooks);
	else
		daemon_serve(daemon);
}

/* As state_open, for a folder that nobody else can have. */
static int store_start(struct daemon *daemon)
{
	struct store_counters first = {.is_clean = true};
	struct store_error error;
	int res;

	uuid_random(&first.id);
	res = store_open(daemon->config.folder, &first, &daemon->store, &error);
	if (res < 0)
		return fail(daemon, res, error.text);
	store_get_counters(daemon->store, &daemon->counters);
	daemon->counters.unsafe_shutdowns += !daemon->counters.is_clean;
	daemon->counters.starts++;
	daemon->counters.is_clean = false;
	res = store_set_counters(daemon->store, &daemon->counters, &error);
	return res < 0 ? fail(daemon, res, error.text) : 0;
}

/* Without a source what is kept counts, and the document is for a first start. */
static int choose(struct daemon *daemon)
{
	const struct sim_daemon_config *config = &daemon->config;
	struct config_errors errors = {.count = 0};
	struct daemon_options options = {
		.state_dir = config->folder,
		.source = config->source,
		.source_hash = config->source_hash,
		.start = config->start,
	};
	int res = config_load_json(config->source ? config->source : config->document,
				   &options.taken_config, &errors);

	if (res < 0)
		return fail(daemon, res, errors.texts[0]);
	res = start_choose(daemon->store, &options, &daemon->start);
	return res < 0 ? fail(daemon, res, "the kept state cannot be used") : 0;
}

static int peers_make(struct daemon *daemon, struct target_config *config)
{
	struct config_cluster *cluster = daemon->start.config->cluster;
	const struct peers_reactors reactors = {
		.control = daemon->control,
		.peers = daemon->peers_reactor,
		.data = daemon->reactors,
		.data_count = daemon->config.reactor_count,
	};
	int res;

	if (!cluster)
		return 0;
	_Static_assert(sizeof(DAEMON_SECRET) > PEER_SECRET_BYTES, "a secret is long");
	memcpy(cluster->peers.secret, DAEMON_SECRET, sizeof(DAEMON_SECRET));
	cluster->peers.secret_bytes = sizeof(DAEMON_SECRET);
	res = peers_create(&reactors, &cluster->peers, &config->keeper, &daemon->peers);
	if (res < 0)
		return fail(daemon, res, "cluster");
	config->cntlid_first = cluster->peers.cntlid_first;
	config->cntlid_last = cluster->peers.cntlid_last;
	config->peers = peers_ops(daemon->peers);
	media_registry_set_peers(daemon->registry, daemon->peers);
	return 0;
}

static int target_make(struct daemon *daemon)
{
	struct target_config config = {
		.control = daemon->control,
		.reactors = daemon->reactors,
		.reactor_count = daemon->config.reactor_count,
		.discovery_log = discovery_log_read,
		.power_cycles = daemon->counters.starts,
		.unsafe_shutdowns = daemon->counters.unsafe_shutdowns,
		.keeper = {.keep = store_keep, .recall = store_recall, .arg = daemon->store},
		.manage = manage_handle,
		.manage_arg = daemon,
	};
	int res = media_registry_create(daemon->config.reactor_count, &daemon->registry);

	if (res < 0)
		return fail(daemon, res, "out of memory");
	media_registry_set_keeper(daemon->registry, &config.keeper);
	for (unsigned i = 0; i < ARRAY_LEN(config.buf_counts); i++)
		config.buf_counts[i] = daemon->config.buf_counts[i];
	if (getrandom(&config.random_seed, sizeof(config.random_seed), 0) < 0)
		return fail(daemon, -EIO, "no randomness");
	if (getrandom(config.instance, sizeof(config.instance), 0) < 0)
		return fail(daemon, -EIO, "no randomness");
	res = peers_make(daemon, &config);
	if (res < 0)
		return res;
	res = target_create(&config, &daemon->target);
	return res < 0 ? fail(daemon, res, "cannot create the target") : 0;
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
		.store = daemon->store,
		.generation = store_generation(daemon->store),
		.applying = daemon_on_applying,
		.applied = daemon_on_applied,
		.stopped = daemon_shut_down,
		.arg = daemon,
	};
	struct net_addr discovery;
	int res = changes_create(&options, &daemon->changes);

	if (res < 0)
		return fail(daemon, res, "out of memory");
	if (daemon->config.has_discovery &&
	    daemon_choose_discovery(daemon->start.config, &discovery))
		changes_set_discovery(daemon->changes, &discovery);
	return 0;
}

static void daemon_begin(struct reactor_msg *msg)
{
	struct daemon *daemon = container_of(msg, struct daemon, begin_msg);
	static const char *const origins[] = {[DAEMON_SAME] = "start",
					      [DAEMON_RESET] = "start --reset",
					      [DAEMON_MERGE] = "start --merge"};
	const struct change change = {
		.done = started, .arg = daemon, .origin = origins[daemon->config.start]};

	if (store_start(daemon) < 0 || choose(daemon) < 0 || target_make(daemon) < 0 ||
	    changes_make(daemon) < 0) {
		/* No host has written anything. */
		daemon->is_clean = true;
		daemon_over(daemon);
		return;
	}
	CHECK(media_registry_expect(daemon->registry, daemon->start.kept) == 0);
	changes_start(daemon->changes, &daemon->start, &change);
}

struct daemon *sim_daemon_create(const struct sim_daemon_config *config)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	struct reactor_config reactor_config = {.index = SIM_CONTROL_INDEX, .cpu = -1};

	CHECK(daemon && config->reactor_count > 0 &&
	      config->reactor_count <= SIM_DAEMON_REACTORS_MAX);
	daemon->config = *config;
	CHECK(reactor_create(&reactor_config, &daemon->control) == 0);
	reactor_config.index = SIM_PEERS_INDEX;
	CHECK(reactor_create(&reactor_config, &daemon->peers_reactor) == 0);
	for (unsigned i = 0; i < config->reactor_count; i++) {
		reactor_config.index = i;
		CHECK(reactor_create(&reactor_config, &daemon->reactors[i]) == 0);
	}
	reactor_timer_init(daemon->control, &daemon->health_timer, health_due);
	reactor_timer_init(daemon->control, &daemon->tick_timer, tick_due);
	return daemon;
}

void sim_daemon_begin(struct daemon *daemon)
{
	reactor_post(daemon->control, &daemon->begin_msg, daemon_begin);
}

void sim_daemon_release(struct daemon *daemon)
{
	struct store_error error;

	changes_destroy(daemon->changes);
	if (daemon->target)
		target_destroy(daemon->target);
	media_registry_destroy(daemon->registry);
	peers_discard(daemon->peers);
	for (unsigned i = 0; i < daemon->config.reactor_count; i++)
		reactor_destroy(daemon->reactors[i]);
	reactor_destroy(daemon->peers_reactor);
	reactor_destroy(daemon->control);
	config_free(daemon->start.config);
	json_decref(daemon->start.kept);
	if (daemon->store && daemon->is_clean) {
		daemon->counters.is_clean = true;
		if (store_set_counters(daemon->store, &daemon->counters, &error) < 0)
			log_error("control", "%s", error.text);
	}
	store_close(daemon->store);
	free(daemon);
}
