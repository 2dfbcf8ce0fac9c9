/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches and pollers of the simulated reactor: the contract of test_reactor_watch.c, with one
 * seed, and features of the simulator alone: channels, processes that die with a watch armed.
 */
#include "../sim/sim.h"
#include "tap.h"

#include "base/clock.h"

#include <poll.h>
#include <string.h>

static struct sim *sim;
static struct reactor *r;
static struct reactor_watch watch;
static int channel;
static unsigned ready_count, closed_count;

static void world_create(uint64_t seed)
{
	struct reactor_config config = {.cpu = -1};

	sim = sim_create(seed, NULL);
	CHECK(reactor_create(&config, &r) == 0);
	channel = sim_channel_open(sim);
	ready_count = closed_count = 0;
}

static void world_destroy(void)
{
	EXPECT_EQ(1, sim_leaks(sim));
	sim_channel_close(sim, channel);
	EXPECT_EQ(0, sim_leaks(sim));
	sim_destroy(sim);
}

static void run_us(uint64_t us)
{
	sim_run_until(sim, sim_now(sim) + us * NS_PER_US);
}

static void on_ready(struct reactor_watch *ready, int events)
{
	EXPECT(reactor_current() == r);
	EXPECT_EQ(POLLIN, events);
	ready_count++;
}

static void on_closed(struct reactor_watch *closed)
{
	closed_count++;
}

static void arm(void)
{
	sim_enter(r);
	reactor_watch_arm(&watch, POLLIN);
	sim_leave(r);
	EXPECT_EQ(true, watch.armed);
}

static void close_watch(void)
{
	sim_enter(r);
	reactor_watch_close(&watch, on_closed);
	sim_leave(r);
	EXPECT_EQ(0, closed_count);
	run_us(100);
	EXPECT_EQ(1, closed_count);
}

static void a_watch_tells_once_for_each_arm(void)
{
	world_create(1);
	reactor_watch_open(r, &watch, channel, on_ready);
	arm();
	run_us(100);
	EXPECT_EQ(0, ready_count);
	sim_channel_set(sim, channel, POLLIN);
	EXPECT_EQ(0, ready_count);
	run_us(100);
	EXPECT_EQ(1, ready_count);
	run_us(100);
	EXPECT_EQ(1, ready_count);
	arm();
	run_us(100);
	EXPECT_EQ(2, ready_count);
	sim_channel_set(sim, channel, 0);
	arm();
	run_us(100);
	EXPECT_EQ(2, ready_count);
	close_watch();
	sim_channel_set(sim, channel, POLLIN);
	run_us(100);
	EXPECT_EQ(2, ready_count);
	world_destroy();
}

/* The watch is armed, but the event has passed when its turn comes. */
static void an_event_that_passed_is_not_told(void)
{
	world_create(2);
	reactor_watch_open(r, &watch, channel, on_ready);
	arm();
	for (unsigned i = 0; i < 20; i++) {
		sim_channel_set(sim, channel, POLLIN);
		sim_channel_set(sim, channel, 0);
	}
	run_us(100);
	EXPECT_EQ(0, ready_count);
	close_watch();
	world_destroy();
}

static void a_process_may_die_with_a_watch_armed(void)
{
	struct reactor_config config = {.cpu = -1};
	struct sim_process *process;
	struct reactor *of_process;

	world_create(3);
	process = sim_process_create(sim, "watcher");
	sim_process_enter(process);
	CHECK(reactor_create(&config, &of_process) == 0);
	sim_process_leave(process);
	sim_enter(of_process);
	reactor_watch_open(of_process, &watch, channel, on_ready);
	reactor_watch_arm(&watch, POLLIN);
	sim_leave(of_process);
	sim_channel_set(sim, channel, POLLIN);
	sim_process_kill(process, SIM_DEATH_KILLED);
	run_us(100);
	EXPECT_EQ(0, ready_count);
	world_destroy();
}

/* ---- a device: completions in memory, and a channel for the first one after arming ----------- */

static struct {
	struct reactor_poller poller;
	unsigned produced, consumed;
	bool is_armed;
	unsigned polls, arms;
	uint64_t times; /* mixed times of all consumed completions */
} device;

static bool device_poll(struct reactor_poller *poller)
{
	bool has_work = device.produced != device.consumed;

	device.polls++;
	while (device.consumed != device.produced) {
		device.consumed++;
		device.times = device.times * 31 + reactor_now_ns(r);
	}
	return has_work;
}

static bool device_arm(struct reactor_poller *poller)
{
	device.arms++;
	if (device.produced != device.consumed)
		return false;
	device.is_armed = true;
	reactor_watch_arm(&watch, POLLIN);
	return true;
}

static void device_ready(struct reactor_watch *ready, int events)
{
	device.is_armed = false;
	sim_channel_set(sim, channel, 0);
}

static void device_produce(void *arg)
{
	device.produced++;
	if (device.is_armed)
		sim_channel_set(sim, channel, POLLIN);
}

static uint64_t device_world(uint64_t seed)
{
	uint64_t end_ns;

	world_create(seed);
	memset(&device, 0, sizeof(device));
	device.poller = (struct reactor_poller){.poll = device_poll, .arm = device_arm};
	reactor_watch_open(r, &watch, channel, device_ready);
	sim_enter(r);
	reactor_poller_add(r, &device.poller);
	reactor_watch_arm(&watch, POLLIN);
	device.is_armed = true;
	sim_leave(r);
	for (unsigned i = 0; i < 200; i++)
		sim_at(sim, sim_now(sim) + i * i % 977 * NS_PER_US, device_produce, NULL);
	run_us(2000);
	EXPECT_EQ(200, device.consumed);
	EXPECT(device.arms > 10 && device.polls > device.arms);
	/* Idle now: no further event is pending. */
	end_ns = sim_now(sim);
	EXPECT(!sim_step(sim));
	EXPECT_EQ(end_ns, sim_now(sim));
	sim_enter(r);
	reactor_poller_remove(&device.poller);
	sim_leave(r);
	close_watch();
	world_destroy();
	return device.times;
}

static void a_poller_sleeps_and_wakes_with_its_device(void)
{
	for (uint64_t seed = 1; seed < 50; seed++)
		(void)device_world(seed);
}

static void the_same_seed_gives_the_same_run(void)
{
	uint64_t first = device_world(77);

	EXPECT_EQ(first, device_world(77));
	EXPECT(first != device_world(78));
}

int main(void)
{
	TAP_RUN(a_watch_tells_once_for_each_arm);
	TAP_RUN(an_event_that_passed_is_not_told);
	TAP_RUN(a_process_may_die_with_a_watch_armed);
	TAP_RUN(a_poller_sleeps_and_wakes_with_its_device);
	TAP_RUN(the_same_seed_gives_the_same_run);
	return tap_end();
}
