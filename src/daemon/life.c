/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon from the creation of its parts to its end. See life.h. On the control reactor.
 *
 * A stop waits for the change under way. Waiting changes are refused.
 */
#include "daemon/life.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/peers.h"
#include "daemon/ana_hold.h"
#include "daemon/change.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "daemon/pool.h"
#include "discovery/discovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DAEMON_GRACE_MS      10000
#define DAEMON_HEALTH_NS     (60 * NS_PER_S)
#define DAEMON_TICK_NS       NS_PER_S
#define DAEMON_MEASURE_TICKS 5

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
		.reactor_count = daemon->reactor_count,
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

bool daemon_refresh(struct daemon *daemon, struct changes_refresh *refresh)
{
	if (changes_are_idle(daemon->changes))
		return false;
	changes_refresh(daemon->changes, refresh);
	return true;
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

bool daemon_choose_discovery(const struct config *config, struct net_addr *ret_addr)
{
	const struct net_addr *first = NULL;
	char host[NET_ADDR_TEXT_BYTES];

	for (unsigned i = 0; i < config->port_count; i++) {
		/* The configuration has a discovery port, so none is added. */
		if (config->ports[i].is_discovery_only)
			return false;
		if (!first)
			first = &config->ports[i].listen;
	}
	return first && net_addr_parse(net_addr_format_host(first, host), CONFIG_DISCOVERY_PORT,
				       ret_addr) == 0;
}

/* ---- while the daemon serves ----------------------------------------------------------------- */

/* Keeps the health counters of all subsystems in one transaction. */
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
		log_warn("control", "cannot save the health counters: %s", strerror(-res));
}

static void health_due(struct reactor_timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, health_timer);

	health_keep(daemon, false);
	reactor_timer_arm(timer, reactor_now_ns(daemon->control) + DAEMON_HEALTH_NS);
}

static void hold_done(void *arg, int res)
{
	if (res < 0 && res != -ESHUTDOWN)
		log_error("control", "an ANA group stays in \"change\": %s", strerror(-res));
}

/* Handles what follows from time alone: groups that were in `change` for too long. While a
 * controller exists that may ask, also measures how much space namespaces take. */
static void tick_due(struct reactor_timer *timer)
{
	struct daemon *daemon = container_of(timer, struct daemon, tick_timer);
	struct target_stats stats;

	if (!list_linked(&daemon->hold.node) &&
	    ana_holds_are_due(media_registry_ana_holds(daemon->registry), clock_monotonic_ns()))
		changes_refresh(daemon->changes, &daemon->hold);
	target_get_stats(daemon->target, &stats);
	if (++daemon->ticks % DAEMON_MEASURE_TICKS == 0 && stats.ctrls > 0)
		media_registry_measure(daemon->registry, clock_monotonic_ns());
	reactor_timer_arm(timer, reactor_now_ns(daemon->control) + DAEMON_TICK_NS);
}

void daemon_serve(struct daemon *daemon)
{
	if (!daemon->is_stopping) {
		reactor_timer_arm(&daemon->health_timer,
				  reactor_now_ns(daemon->control) + DAEMON_HEALTH_NS);
		reactor_timer_arm(&daemon->tick_timer,
				  reactor_now_ns(daemon->control) + DAEMON_TICK_NS);
	}
	daemon->hooks->serving(daemon);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void peers_gone(void *arg)
{
	struct daemon *daemon = arg;

	daemon->peers = NULL;
	daemon->hooks->ended(daemon);
}

static void media_closed(void *arg)
{
	struct daemon *daemon = arg;

	if (daemon->peers)
		peers_destroy(daemon->peers, peers_gone, daemon);
	else
		daemon->hooks->ended(daemon);
}

/* Runs in a turn of its own: the target must not be destroyed from inside its callback. All
 * reactors still run: media with state per reactor close there. */
static void daemon_end(struct reactor_msg *msg)
{
	struct daemon *daemon = container_of(msg, struct daemon, end_msg);
	struct media_registry *registry = daemon->registry;

	media_registry_measure(daemon->registry,
			       clock_monotonic_ns()); /* finds files deleted since */
	health_keep(daemon, true);
	if (daemon->tells_boot && target_is_flushed(daemon->target))
		boot_end_flushed(daemon->state.store, &daemon->boot);
	target_destroy(daemon->target);
	daemon->target = NULL;
	daemon->registry = NULL;
	daemon->is_clean = true;
	media_registry_close(registry, daemon->control, media_closed, daemon);
}

static void target_over(void *arg)
{
	struct daemon *daemon = arg;

	reactor_post(daemon->control, &daemon->end_msg, daemon_end);
}

/* A reset requested by a peer may still be on its way through the target. */
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

/* No change is under way, and none will begin. */
static void daemon_shut_down(void *arg)
{
	struct daemon *daemon = arg;

	if (daemon->is_shutting_down)
		return;
	daemon->is_shutting_down = true;
	reactor_timer_cancel(&daemon->health_timer);
	reactor_timer_cancel(&daemon->tick_timer);
	log_info("control", "stopping: notifying hosts, finishing commands, flushing media");
	if (daemon->peers)
		peers_stop_asking(daemon->peers);
	daemon->hooks->stopping(daemon, target_end, daemon);
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

/* ---- the parts ------------------------------------------------------------------------------- */

static struct keeper daemon_keeper(const struct daemon *daemon)
{
	return (struct keeper){
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

/* Creates the peers: the other members in the document. 0, or -errno after the reason was
 * logged. */
static int peers_make(struct daemon *daemon, struct target_config *config)
{
	struct config_cluster *cluster = daemon->start.config->cluster;
	struct config_errors errors = {.count = 0};
	struct peers_reactors reactors = {
		.control = daemon->control,
		.data = daemon->reactors,
		.data_count = daemon->reactor_count,
	};
	int res;

	if (!cluster)
		return 0;
	res = daemon->hooks->read_secret(daemon, cluster, &errors);
	if (res == 0) {
		res = daemon->hooks->make_peers_reactor(daemon, &reactors.peers);
		if (res == 0)
			res = peers_create(&reactors, &cluster->peers, &config->keeper,
					   &daemon->peers);
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

static void target_config_fill(struct daemon *daemon, struct target_config *config)
{
	const struct config_cluster *cluster = daemon->start.config->cluster;

	*config = (struct target_config){
		.control = daemon->control,
		.reactors = daemon->reactors,
		.reactor_count = daemon->reactor_count,
		.discovery_log = discovery_log_read,
		.power_cycles = daemon->state.starts,
		.unsafe_shutdowns = daemon->state.unsafe_shutdowns,
		.keeper = daemon_keeper(daemon),
		.manage = manage_handle,
		.manage_arg = daemon,
	};
	memcpy(config->buf_counts, daemon->buf_counts, sizeof(config->buf_counts));
	if (getrandom(&config->random_seed, sizeof(config->random_seed), 0) < 0)
		config->random_seed = clock_monotonic_ns();
	if (getrandom(config->instance, sizeof(config->instance), 0) < 0)
		memset(config->instance, 0, sizeof(config->instance));
	if (!daemon->tells_boot)
		return;
	boot_begin(daemon->state.store, cluster != NULL, &daemon->boot);
	config->loss_source =
		boot_loss_source(&daemon->state.id, cluster ? cluster->peers.name : NULL);
	config->was_flushed = daemon->boot.was_flushed;
	memcpy(config->boot, daemon->boot.boot, sizeof(config->boot));
}

int life_make(struct daemon *daemon)
{
	struct target_config config;
	int res = media_registry_create(daemon->reactor_count, &daemon->registry);

	if (res == 0) {
		media_registry_listen(daemon->registry, daemon->control);
		target_config_fill(daemon, &config);
		media_registry_set_keeper(daemon->registry, &config.keeper);
		res = peers_make(daemon, &config);
		if (res < 0)
			return res;
		res = target_create(&config, &daemon->target);
	}
	if (res == 0)
		res = changes_make(daemon);
	if (res < 0) {
		if (daemon->target)
			target_destroy(daemon->target);
		daemon->target = NULL;
		log_error("control", "cannot create the target: %s", strerror(-res));
		return res;
	}
	reactor_timer_init(daemon->control, &daemon->health_timer, health_due);
	reactor_timer_init(daemon->control, &daemon->tick_timer, tick_due);
	list_init(&daemon->hold.node);
	daemon->hold.done = hold_done;
	return 0;
}

void life_release(struct daemon *daemon)
{
	CHECK(!daemon->target);
	changes_destroy(daemon->changes);
	media_registry_destroy(daemon->registry);
	peers_discard(daemon->peers);
	config_free(daemon->start.config);
	json_decref(daemon->start.kept);
	free(daemon->start.diff);
}

/* ---- the start ------------------------------------------------------------------------------- */

/* Ends a failed start. The caller has logged the reason. */
static void life_failed(struct daemon *daemon, int res, const char *why)
{
	if (daemon->hooks->failed)
		daemon->hooks->failed(daemon, res, why);
	daemon_stop(daemon, 1);
}

static void peers_started(void *arg, int res, const char *error)
{
	struct daemon *daemon = arg;

	if (res < 0) {
		log_error("control", "cannot start: %s", error);
		life_failed(daemon, res, error);
	} else if (!daemon->is_stopping) {
		daemon->hooks->started(daemon);
	}
}

/* Here and not with the answer: the next comparison waits for this. */
static void peers_rebuild_ended(void *arg, const struct change_result *result)
{
	struct daemon *daemon = arg;

	peers_on_rebuilt(daemon->peers, result->res);
}

static void peers_rebuilt(void *arg, struct change_result *result)
{
	if (result->res < 0 && result->res != -ESHUTDOWN)
		config_errors_log("cannot apply the result of comparing files with other members",
				  &result->errors);
}

static void peers_rebuild(void *arg)
{
	struct daemon *daemon = arg;
	const struct change change = {.ended = peers_rebuild_ended,
				      .done = peers_rebuilt,
				      .arg = daemon,
				      .origin = "members of the cluster"};

	changes_rebuild(daemon->changes, &change);
}

static void started(void *arg, struct change_result *result)
{
	struct daemon *daemon = arg;
	const struct peers_hooks hooks = {
		.rebuild = peers_rebuild, .started = peers_started, .arg = daemon};

	if (result->res < 0 && result->res != -ESHUTDOWN) {
		config_errors_log("cannot start", &result->errors);
		life_failed(daemon, result->res, result->errors.texts[0]);
		return;
	}
	if (daemon->is_stopping)
		return;
	pool_report_orphans(daemon_config(daemon));
	/* This process now holds the locks on files that other members serve too. */
	if (daemon->peers)
		peers_start(daemon->peers, daemon->target, &hooks);
	else
		daemon->hooks->started(daemon);
}

void life_begin(struct daemon *daemon)
{
	static const char *const origins[] = {[DAEMON_SAME] = "start",
					      [DAEMON_RESET] = "start --reset",
					      [DAEMON_MERGE] = "start --merge"};
	const struct change change = {
		.done = started, .arg = daemon, .origin = origins[daemon->start_kind]};

	if (media_registry_expect(daemon->registry, daemon->start.kept) < 0) {
		log_error("control", "cannot start: out of memory");
		life_failed(daemon, -ENOMEM, "out of memory");
		return;
	}
	changes_start(daemon->changes, &daemon->start, &change);
}
