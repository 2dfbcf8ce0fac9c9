/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One target with one data reactor, for raw hosts (raw_host.h) in simulated time: shared by
 * test_deadlines.c, test_neighbour.c and test_target_transport.c. One thread.
 */
#ifndef WEFT_TESTS_RAW_SCENE_H
#define WEFT_TESTS_RAW_SCENE_H

#include "raw_host.h"

#include "../unit/tap.h"
#include "media/spec.h"
#include "target/target.h"

#define RAW_SCENE_NS 2

struct raw_scene_config {
	const char *specs[RAW_SCENE_NS]; /* media of NSIDs 1 and 2 */
	uint32_t data_timeout_ms;
	uint32_t quiesce_ms; /* 0: the target's default */
	unsigned buf_counts[3];
	uint64_t stop_limit_ms;                /* time limit for the target's shutdown */
	const struct transport_ops *transport; /* of the target's port; NULL: TCP */
	const char *allowed_host;              /* the subsystem's only host; NULL: any */
};

struct raw_scene {
	const struct raw_scene_config *config;
	struct sim *sim;
	struct reactor *control;
	struct reactor *data;
	struct reactor *host;
	struct target *target;
	struct ns_backing *backings[RAW_SCENE_NS];
	struct net_addr addr;
	bool is_waiting;
};

static bool raw_scene_is_waiting(void *arg)
{
	return ((struct raw_scene *)arg)->is_waiting;
}

static void raw_scene_on_applied(void *arg, int res, const char *error)
{
	EXPECT_EQ(0, res);
	((struct raw_scene *)arg)->is_waiting = false;
}

static void raw_scene_on_shut_down(void *arg)
{
	((struct raw_scene *)arg)->is_waiting = false;
}

static void raw_scene_run_ms(struct raw_scene *scene, uint64_t ms)
{
	sim_run_until(scene->sim, sim_now(scene->sim) + ms * NS_PER_MS);
}

static void raw_scene_uuid(unsigned index, struct uuid *ret_uuid)
{
	memset(ret_uuid, 0, sizeof(*ret_uuid));
	ret_uuid->bytes[15] = (uint8_t)(index + 1);
}

static void raw_scene_allow_only(struct subsystem *subsystem, const char *host_nqn)
{
	subsystem->host_nqns = sim_alloc(sizeof(*subsystem->host_nqns));
	text_copy(subsystem->host_nqns[0], sizeof(subsystem->host_nqns[0]), host_nqn);
	subsystem->host_count = 1;
}

static struct snapshot *raw_scene_snapshot(struct raw_scene *scene)
{
	struct snapshot *snapshot = snapshot_create();
	struct subsystem *subsystem = sim_alloc(sizeof(*subsystem));

	snapshot->limits.data_timeout_ms = scene->config->data_timeout_ms;
	if (scene->config->quiesce_ms > 0)
		snapshot->limits.quiesce_ms = scene->config->quiesce_ms;
	snapshot->subsystems = sim_alloc(sizeof(*snapshot->subsystems));
	snapshot->subsystems[0] = subsystem;
	snapshot->subsystem_count = 1;
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), TARGET_DEFAULT_NQN);
	text_copy(subsystem->serial, sizeof(subsystem->serial), "RAW");
	text_copy(subsystem->model, sizeof(subsystem->model), "weft");
	subsystem->allows_any_host = !scene->config->allowed_host;
	if (scene->config->allowed_host)
		raw_scene_allow_only(subsystem, scene->config->allowed_host);
	subsystem->ana_group_max = 1;
	subsystem->namespaces = ns_array_create(RAW_SCENE_NS);
	subsystem->ns_count = RAW_SCENE_NS;
	for (unsigned i = 0; i < RAW_SCENE_NS; i++) {
		subsystem->namespaces[i] = (struct ns){.nsid = i + 1, .ana_group = 1};
		raw_scene_uuid(i, &subsystem->namespaces[i].uuid);
		ns_bind(&subsystem->namespaces[i], ns_backing_get(scene->backings[i]));
	}
	snapshot->ports = sim_alloc(sizeof(*snapshot->ports));
	snapshot->ports[0] = (struct port){.id = 1,
					   .transport = scene->config->transport,
					   .listen = scene->addr,
					   .subsystem_count = 1};
	snapshot->ports[0].subsystems = sim_alloc(sizeof(struct subsystem *));
	snapshot->ports[0].subsystems[0] = subsystem;
	snapshot->port_count = 1;
	return snapshot;
}

static void raw_scene_open(struct raw_scene *scene, const struct raw_scene_config *config)
{
	struct reactor_config reactor = {.cpu = -1};
	struct target_config target = {.reactor_count = 1};
	struct media_error error;
	struct media *media;

	*scene = (struct raw_scene){.config = config, .is_waiting = true};
	scene->sim = sim_create(1, &(struct sim_options){.window_max_bytes = 4 << 20});
	EXPECT_EQ(0, reactor_create(&reactor, &scene->control));
	reactor.index = 1;
	EXPECT_EQ(0, reactor_create(&reactor, &scene->data));
	reactor.index = 2;
	EXPECT_EQ(0, reactor_create(&reactor, &scene->host));
	EXPECT_EQ(0, net_addr_parse("10.0.0.1", 4420, &scene->addr));
	sim_enter(scene->control);
	for (unsigned i = 0; i < RAW_SCENE_NS; i++) {
		EXPECT_EQ(0, media_open(config->specs[i], &media, &error));
		EXPECT_EQ(0, ns_backing_create(media, 1, &scene->backings[i]));
	}
	target.control = scene->control;
	target.reactors = &scene->data;
	memcpy(target.buf_counts, config->buf_counts, sizeof(target.buf_counts));
	EXPECT_EQ(0, target_create(&target, &scene->target));
	target_apply(scene->target, raw_scene_snapshot(scene), raw_scene_on_applied, scene);
	sim_leave(scene->control);
	EXPECT(sim_run_while(scene->sim, raw_scene_is_waiting, scene, NS_PER_S));
}

/* Call when all hosts have disconnected. */
static void raw_scene_close(struct raw_scene *scene)
{
	scene->is_waiting = true;
	sim_enter(scene->control);
	target_shutdown(scene->target, 1000, raw_scene_on_shut_down, scene);
	sim_leave(scene->control);
	EXPECT(sim_run_while(scene->sim, raw_scene_is_waiting, scene,
			     scene->config->stop_limit_ms * NS_PER_MS));
	raw_scene_run_ms(scene, 1000); /* sockets close after the shutdown */
	sim_enter(scene->control);
	target_destroy(scene->target);
	for (unsigned i = 0; i < RAW_SCENE_NS; i++)
		ns_backing_put(scene->backings[i]);
	sim_leave(scene->control);
	EXPECT_EQ(0, sim_leaks(scene->sim));
	sim_destroy(scene->sim);
}

#endif
