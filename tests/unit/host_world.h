/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host and a scripted controller (fake_ctrl.h) on two simulated reactors, for tests of the host
 * side: connects, submits reads and writes, waits, and at the end destroys everything and checks
 * for leaks. One thread; the seed determines everything.
 */
#ifndef WEFT_TESTS_HOST_WORLD_H
#define WEFT_TESTS_HOST_WORLD_H

#include "../sim/sim.h"
#include "tap.h"

#include "base/log.h"
#include "fake_ctrl.h"
#include "host/host.h"

/* Some tests leave functions unused. */
#define WORLD_FN __attribute__((unused)) static

#define CMDS      100
#define CMD_BYTES 16384

struct test_cmd {
	struct host_cmd cmd;
	struct world *world;
	unsigned done_count;
	uint8_t data[CMD_BYTES];
};

struct world {
	struct sim *sim;
	struct fake *fake;
	struct reactor *reactor;
	struct host_config config;
	struct host_ctrl *ctrl;
	bool wants_events;
	unsigned connected_count;
	unsigned lost_count;
	unsigned gone_count;
	unsigned event_count;
	struct async_event event;
	int result;
	struct host_error error;
	struct test_cmd cmds[CMDS];
	unsigned done_count;
	unsigned submitted_count;
	bool resubmits; /* resubmits once, from done */
};

/* ---- the world ------------------------------------------------------------------------------ */

WORLD_FN void on_connected(struct host_ctrl *ctrl, void *arg, int res,
			   const struct host_error *error)
{
	struct world *world = arg;

	world->connected_count++;
	world->result = res;
	if (res != 0) {
		world->error = *error;
		world->ctrl = NULL;
	}
}

WORLD_FN void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct world *world = arg;

	world->lost_count++;
	world->error = *error;
	/* All commands have completed before the loss is reported. */
	if (!world->resubmits)
		EXPECT_EQ(world->submitted_count, world->done_count);
}

WORLD_FN void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event)
{
	struct world *world = arg;

	world->event_count++;
	world->event = *event;
}

WORLD_FN struct world *world_create_with(uint64_t seed, const struct sim_options *options)
{
	struct reactor_config config = {.index = 0, .cpu = -1};
	struct world *world = calloc(1, sizeof(*world));

	CHECK(world != NULL);
	world->sim = sim_create(seed, options);
	CHECK(reactor_create(&config, &world->reactor) == 0);
	world->fake = fake_create(world->sim);
	world->config = (struct host_config){
		.addr.net = world->fake->listener.addr,
		.subsystem_nqn = "nqn.2026-11.io.weft:default",
		.host_nqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001",
		.host_id = {{1}},
		.io_queues = 1,
		.io_queue_size = 32,
		.command_timeout_ms = 2000,
	};
	return world;
}

WORLD_FN struct world *world_create(uint64_t seed)
{
	static const struct sim_options options;

	return world_create_with(seed, &options);
}

WORLD_FN bool is_connecting(void *arg)
{
	return ((struct world *)arg)->connected_count == 0;
}

WORLD_FN void world_connect(struct world *world)
{
	struct host_callbacks callbacks = {.connected = on_connected,
					   .lost = on_lost,
					   .event = world->wants_events ? on_event : NULL};

	sim_enter(world->reactor);
	CHECK(host_connect(world->reactor, &world->config, &callbacks, world, &world->ctrl) == 0);
	sim_leave(world->reactor);
	EXPECT(sim_run_while(world->sim, is_connecting, world, 60 * NS_PER_S));
	EXPECT_EQ(1, world->connected_count);
}

/* False: the connection failed and the test must end. */
WORLD_FN bool world_connect_ok(struct world *world)
{
	world_connect(world);
	EXPECT_EQ(0, world->result);
	if (world->result != 0)
		printf("# %s\n", world->error.text);
	return world->result == 0;
}

WORLD_FN void on_gone(void *arg)
{
	struct world *world = arg;

	world->gone_count++;
	world->ctrl = NULL;
}

WORLD_FN bool is_settling(void *arg)
{
	struct world *world = arg;

	return world->ctrl != NULL || fake_is_connected(world->fake) || sim_leaks(world->sim) > 0;
}

WORLD_FN void world_destroy(struct world *world)
{
	sim_enter(world->reactor);
	if (world->ctrl != NULL)
		host_disconnect(world->ctrl, on_gone, world);
	sim_leave(world->reactor);
	sim_enter(world->fake->reactor);
	if (world->fake->listener.fd != -1)
		reactor_listener_close(&world->fake->listener, fake_listener_closed);
	sim_leave(world->fake->reactor);
	EXPECT(sim_run_while(world->sim, is_settling, world, 60 * NS_PER_S));
	EXPECT_EQ(0, sim_leaks(world->sim));
	EXPECT_EQ(world->submitted_count, world->done_count);
	for (unsigned i = 0; i < CMDS; i++)
		EXPECT(world->cmds[i].done_count <= (world->resubmits ? 2u : 1u));
	sim_destroy(world->sim);
	free(world->fake);
	free(world);
}

WORLD_FN void on_done(struct host_cmd *cmd)
{
	struct test_cmd *test = container_of(cmd, struct test_cmd, cmd);
	struct world *world = test->world;

	test->done_count++;
	world->done_count++;
	if (world->resubmits && test->done_count == 1) {
		world->submitted_count++;
		host_submit_io(world->ctrl, 0, cmd);
	}
}

WORLD_FN void cmd_submit(struct world *world, unsigned index)
{
	struct test_cmd *test = &world->cmds[index];

	test->world = world;
	test->cmd.done = on_done;
	world->submitted_count++;
	host_submit_io(world->ctrl, index % host_ctrl_io_queues(world->ctrl), &test->cmd);
}

/* Submits reads or writes of 1 to 32 blocks in one turn. */
WORLD_FN void world_submit(struct world *world, unsigned count, bool is_write, uint32_t blocks)
{
	sim_enter(world->reactor);
	for (unsigned i = 0; i < count; i++) {
		struct test_cmd *test = &world->cmds[i];

		if (is_write)
			host_cmd_write(&test->cmd, 1, i, blocks, test->data,
				       blocks * FAKE_BLOCK_BYTES);
		else
			host_cmd_read(&test->cmd, 1, i, blocks, test->data,
				      blocks * FAKE_BLOCK_BYTES);
		cmd_submit(world, i);
	}
	sim_leave(world->reactor);
}

WORLD_FN bool is_busy(void *arg)
{
	struct world *world = arg;

	return world->done_count < world->submitted_count;
}

WORLD_FN void world_drain(struct world *world)
{
	EXPECT(sim_run_while(world->sim, is_busy, world, 60 * NS_PER_S));
	EXPECT_EQ(world->submitted_count, world->done_count);
}

WORLD_FN bool is_not_lost(void *arg)
{
	return ((struct world *)arg)->lost_count == 0;
}

WORLD_FN void expect_status(const struct world *world, unsigned count, nvme_status want)
{
	for (unsigned i = 0; i < count; i++)
		EXPECT_EQ(want.value, world->cmds[i].cmd.status.value);
}

/* Expects all commands to fail, `lost` to be called once, and `text` in the error. */
WORLD_FN void expect_loss(struct world *world, unsigned count, const char *text)
{
	world_drain(world);
	EXPECT(sim_run_while(world->sim, is_not_lost, world, 60 * NS_PER_S));
	EXPECT_EQ(1, world->lost_count);
	expect_status(world, count, NVME_SC_HOST_PATHING_ERROR);
	EXPECT(strstr(world->error.text, text) != NULL);
	if (strstr(world->error.text, text) == NULL)
		printf("# \"%s\" is not in \"%s\"\n", text, world->error.text);
}

#endif
