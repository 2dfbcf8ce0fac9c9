/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces daemon/daemon.c in simulated nodes (sim_daemon.h): the process around a daemon. Start
 * and shutdown run in the order of daemon/life.c. On the node's control reactor.
 *
 * Left out: signals, REST, reloading files, the lock of the state folder, the boot ID, and waiting
 * for addresses, which are free as soon as a simulated process is dead.
 */
#include "sim_daemon.h"

#include "base/log.h"
#include "base/text.h"
#include "cluster/peers.h"
#include "daemon/change.h"
#include "daemon/life.h"
#include "daemon/media_registry.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define SIM_SECRET "what all members of a simulated cluster know"

struct sim_daemon {
	struct daemon daemon;
	struct sim_daemon_config config;
	struct reactor *peers_reactor;
	struct reactor *reactors[SIM_DAEMON_REACTORS_MAX];
	struct reactor_msg begin_msg;
	int res; /* < 0: the start failed */
	char why[SIM_DAEMON_WHY_BYTES];
};

static struct sim_daemon *sim_of(struct daemon *daemon)
{
	return container_of(daemon, struct sim_daemon, daemon);
}

/* ---- the daemon's hooks ---------------------------------------------------------------------- */

static int on_read_secret(struct daemon *daemon, struct config_cluster *cluster,
			  struct config_errors *errors)
{
	_Static_assert(sizeof(SIM_SECRET) > PEER_SECRET_BYTES, "a secret is long");
	memcpy(cluster->peers.secret, SIM_SECRET, sizeof(SIM_SECRET));
	cluster->peers.secret_bytes = sizeof(SIM_SECRET);
	return 0;
}

static int on_make_peers_reactor(struct daemon *daemon, struct reactor **ret_reactor)
{
	*ret_reactor = sim_of(daemon)->peers_reactor;
	return 0;
}

static void on_failed(struct daemon *daemon, int res, const char *why)
{
	struct sim_daemon *sim = sim_of(daemon);

	sim->res = res;
	text_copy(sim->why, sizeof(sim->why), why);
}

static void on_serving(struct daemon *daemon)
{
	const struct sim_daemon_config *config = &sim_of(daemon)->config;

	config->serving(config->arg);
}

static void on_stopping(struct daemon *daemon, void (*stopped)(void *arg), void *arg)
{
	stopped(arg);
}

static void on_ended(struct daemon *daemon)
{
	struct sim_daemon *sim = sim_of(daemon);

	sim->config.ended(sim->config.arg, sim->res, sim->why);
}

static const struct life_hooks sim_hooks = {
	.read_secret = on_read_secret,
	.make_peers_reactor = on_make_peers_reactor,
	.failed = on_failed,
	.started = daemon_serve,
	.serving = on_serving,
	.stopping = on_stopping,
	.ended = on_ended,
};

/* ---- the start ------------------------------------------------------------------------------- */

static int fail(struct sim_daemon *sim, int res, const char *why)
{
	log_error("control", "cannot start: %s", why);
	on_failed(&sim->daemon, res, why);
	return res;
}

/* Like state_open; a simulated folder needs no lock. */
static int store_start(struct sim_daemon *sim)
{
	struct store_counters first = {.is_clean = true};
	struct state *state = &sim->daemon.state;
	struct state_error state_error;
	struct store_error error;
	int res;

	uuid_random(&first.id);
	text_copy(state->dir, sizeof(state->dir), sim->config.folder);
	res = store_open(sim->config.folder, &first, &state->store, &error);
	if (res < 0)
		return fail(sim, res, error.text);
	res = state_count_start(state, &state_error);
	return res < 0 ? fail(sim, res, state_error.text) : 0;
}

/* Without a source the kept document is used; config->document is only for a first start. */
static int choose(struct sim_daemon *sim)
{
	const struct sim_daemon_config *config = &sim->config;
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
		return fail(sim, res, errors.texts[0]);
	res = start_choose(sim->daemon.state.store, &options, &sim->daemon.start);
	return res < 0 ? fail(sim, res, "the kept state cannot be used") : 0;
}

static int make(struct sim_daemon *sim)
{
	struct daemon *daemon = &sim->daemon;
	struct net_addr discovery;
	int res = life_make(daemon);

	if (res < 0)
		return fail(sim, res, "its parts cannot be made");
	if (sim->config.has_discovery && daemon_choose_discovery(daemon->start.config, &discovery))
		changes_set_discovery(daemon->changes, &discovery);
	return 0;
}

static void sim_begin(struct reactor_msg *msg)
{
	struct sim_daemon *sim = container_of(msg, struct sim_daemon, begin_msg);

	if (store_start(sim) < 0 || choose(sim) < 0 || make(sim) < 0) {
		/* No host was served, so the shutdown counts as clean. */
		sim->daemon.is_clean = true;
		on_ended(&sim->daemon);
		return;
	}
	life_begin(&sim->daemon);
}

struct daemon *sim_daemon_create(const struct sim_daemon_config *config)
{
	struct sim_daemon *sim = calloc(1, sizeof(*sim));
	struct reactor_config reactor_config = {.index = SIM_CONTROL_INDEX, .cpu = -1};

	CHECK(sim && config->reactor_count > 0 && config->reactor_count <= SIM_DAEMON_REACTORS_MAX);
	sim->config = *config;
	sim->daemon.hooks = &sim_hooks;
	sim->daemon.start_kind = config->start;
	sim->daemon.reactors = sim->reactors;
	sim->daemon.reactor_count = config->reactor_count;
	memcpy(sim->daemon.buf_counts, config->buf_counts, sizeof(config->buf_counts));
	CHECK(reactor_create(&reactor_config, &sim->daemon.control) == 0);
	reactor_config.index = SIM_PEERS_INDEX;
	CHECK(reactor_create(&reactor_config, &sim->peers_reactor) == 0);
	for (unsigned i = 0; i < config->reactor_count; i++) {
		reactor_config.index = i;
		CHECK(reactor_create(&reactor_config, &sim->reactors[i]) == 0);
	}
	return &sim->daemon;
}

void sim_daemon_begin(struct daemon *daemon)
{
	reactor_post(daemon->control, &sim_of(daemon)->begin_msg, sim_begin);
}

void sim_daemon_release(struct daemon *daemon)
{
	struct sim_daemon *sim = sim_of(daemon);

	life_release(daemon);
	for (unsigned i = 0; i < daemon->reactor_count; i++)
		reactor_destroy(sim->reactors[i]);
	reactor_destroy(sim->peers_reactor);
	reactor_destroy(daemon->control);
	if (daemon->state.store && daemon->is_clean)
		(void)state_count_clean_end(&daemon->state);
	store_close(daemon->state.store);
	free(sim);
}
