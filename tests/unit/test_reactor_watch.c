/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches and pollers of the io_uring reactor: readiness of descriptors that the reactor does not
 * own, and work without any notification. The last case is a device like verbs: a queue that
 * another thread fills, and a channel that wakes the reactor if it was armed.
 */
#include "base/clock.h"
#include "reactor/reactor.h"
#include "tap.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct reactor *r;
static struct reactor_watch watch;
static struct reactor_timer timer;
static int event_fd;
static unsigned ready_count, closed_count;
static int last_events;

static void open_reactor(uint32_t spin_max_us)
{
	struct reactor_config config = {.index = 0, .cpu = -1, .spin_max_us = spin_max_us};

	CHECK(reactor_create(&config, &r) == 0);
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(event_fd >= 0);
	ready_count = closed_count = 0;
	last_events = 0;
}

static void run_reactor(void)
{
	reactor_run(r);
	reactor_destroy(r);
	close(event_fd);
}

static void event_raise(void)
{
	uint64_t one = 1;

	CHECK(write(event_fd, &one, sizeof(one)) == sizeof(one));
}

static void event_clear(void)
{
	uint64_t value;

	(void)!read(event_fd, &value, sizeof(value));
}

static void on_closed(struct reactor_watch *closed)
{
	closed_count++;
	reactor_stop(r);
}

/* Runs fn after ms, long enough for everything that was to happen. */
static void timer_after_ms(void (*fn)(struct reactor_timer *timer), uint64_t ms)
{
	reactor_timer_init(r, &timer, fn);
	reactor_timer_arm(&timer, reactor_now_ns(r) + ms * NS_PER_MS);
}

/* ---- watches -------------------------------------------------------------------------------- */

static void on_ready_count(struct reactor_watch *ready, int events)
{
	EXPECT(ready == &watch && reactor_current() == r);
	ready_count++;
	last_events = events;
}

static void close_watch(struct reactor_timer *due)
{
	reactor_watch_close(&watch, on_closed);
}

static void arm_again(struct reactor_timer *due)
{
	/* Readable all the time, but reported once per arm. */
	EXPECT_EQ(1, ready_count);
	reactor_watch_arm(&watch, POLLIN);
	timer_after_ms(close_watch, 20);
}

static void a_watch_tells_once_for_each_arm(void)
{
	open_reactor(0);
	event_raise();
	reactor_watch_open(r, &watch, event_fd, on_ready_count);
	reactor_watch_arm(&watch, POLLIN);
	reactor_watch_arm(&watch, POLLIN);
	timer_after_ms(arm_again, 20);
	run_reactor();
	EXPECT_EQ(2, ready_count);
	EXPECT_EQ(POLLIN, last_events & POLLIN);
	EXPECT_EQ(1, closed_count);
}

static void raise_late(struct reactor_timer *due)
{
	EXPECT_EQ(0, ready_count);
	event_raise();
	timer_after_ms(close_watch, 20);
}

static void a_watch_waits_for_its_event(void)
{
	open_reactor(0);
	reactor_watch_open(r, &watch, event_fd, on_ready_count);
	reactor_watch_arm(&watch, POLLIN);
	timer_after_ms(raise_late, 20);
	run_reactor();
	EXPECT_EQ(1, ready_count);
}

static void a_watch_is_for_room_too(void)
{
	open_reactor(0);
	reactor_watch_open(r, &watch, event_fd, on_ready_count);
	reactor_watch_arm(&watch, POLLOUT);
	timer_after_ms(close_watch, 20);
	run_reactor();
	EXPECT_EQ(1, ready_count);
	EXPECT_EQ(POLLOUT, last_events & POLLOUT);
}

static void raise_when_closed(struct reactor_watch *closed)
{
	event_raise();
	closed_count++;
	reactor_stop(r);
}

static void close_armed(struct reactor_timer *due)
{
	reactor_watch_close(&watch, raise_when_closed);
	EXPECT_EQ(0, closed_count);
}

static void a_closed_watch_says_nothing(void)
{
	open_reactor(0);
	reactor_watch_open(r, &watch, event_fd, on_ready_count);
	reactor_watch_arm(&watch, POLLIN);
	timer_after_ms(close_armed, 10);
	run_reactor();
	EXPECT_EQ(0, ready_count);
	EXPECT_EQ(1, closed_count);
}

static void a_watch_that_was_never_armed_closes(void)
{
	open_reactor(0);
	reactor_watch_open(r, &watch, event_fd, on_ready_count);
	reactor_watch_close(&watch, on_closed);
	EXPECT_EQ(0, closed_count);
	run_reactor();
	EXPECT_EQ(1, closed_count);
}

static void a_bad_descriptor_is_told(void)
{
	open_reactor(0);
	reactor_watch_open(r, &watch, 1 << 20, on_ready_count);
	reactor_watch_arm(&watch, POLLIN);
	timer_after_ms(close_watch, 20);
	run_reactor();
	EXPECT_EQ(1, ready_count);
	EXPECT_EQ(-EBADF, last_events);
}

/* ---- pollers -------------------------------------------------------------------------------- */

struct busy {
	struct reactor_poller poller;
	unsigned polls, arms;
	unsigned work_left;
	unsigned refusals_left; /* number of times that arm refuses */
	struct reactor_poller *removes;
};

static struct busy busy[3];

static bool busy_poll(struct reactor_poller *poller)
{
	struct busy *self = container_of(poller, struct busy, poller);

	EXPECT(reactor_current() == r);
	self->polls++;
	if (self->removes) {
		reactor_poller_remove(self->removes);
		self->removes = NULL;
	}
	if (self->work_left == 0)
		return false;
	self->work_left--;
	return true;
}

static bool busy_arm(struct reactor_poller *poller)
{
	struct busy *self = container_of(poller, struct busy, poller);

	self->arms++;
	if (self->refusals_left == 0)
		return true;
	self->refusals_left--;
	return false;
}

static void busy_add(struct busy *self, unsigned work, unsigned refusals)
{
	*self = (struct busy){.poller = {.poll = busy_poll, .arm = busy_arm},
			      .work_left = work,
			      .refusals_left = refusals};
	reactor_poller_add(r, &self->poller);
}

static void stop_reactor(struct reactor_timer *due)
{
	reactor_stop(r);
}

/* One turn per piece of work and none without work: no sleep in between. */
static void a_poller_is_asked_once_in_a_turn(void)
{
	struct reactor_stats stats;

	open_reactor(0);
	busy_add(&busy[0], 1000, 0);
	timer_after_ms(stop_reactor, 200);
	reactor_run(r);
	reactor_get_stats(r, &stats);
	EXPECT_EQ(0, busy[0].work_left);
	EXPECT_EQ(stats.turns, busy[0].polls);
	EXPECT(stats.turns >= 1001 && stats.turns < 1020);
	EXPECT(stats.sleeps >= 1 && stats.sleeps < 10);
	/* Armed before every sleep, and only then. */
	EXPECT(busy[0].arms >= stats.sleeps && busy[0].arms <= stats.sleeps + 2);
	reactor_destroy(r);
	close(event_fd);
}

static void a_poller_that_cannot_be_armed_is_asked_again(void)
{
	struct reactor_stats stats;

	open_reactor(0);
	busy_add(&busy[0], 0, 500);
	busy_add(&busy[1], 0, 0);
	timer_after_ms(stop_reactor, 200);
	reactor_run(r);
	reactor_get_stats(r, &stats);
	EXPECT_EQ(0, busy[0].refusals_left);
	EXPECT(busy[0].polls > 500 && busy[0].polls < 520);
	EXPECT_EQ(busy[0].polls, busy[1].polls);
	EXPECT(stats.sleeps >= 1 && stats.sleeps < 10);
	reactor_destroy(r);
	close(event_fd);
}

static void pollers_remove_each_other(void)
{
	open_reactor(0);
	for (unsigned i = 0; i < 3; i++)
		busy_add(&busy[i], 100, 0);
	busy[0].removes = &busy[1].poller; /* removes one that was not polled yet in this turn */
	busy[2].removes = &busy[2].poller; /* removes itself */
	timer_after_ms(stop_reactor, 20);
	run_reactor();
	EXPECT(busy[0].polls > 100);
	EXPECT_EQ(0, busy[1].polls);
	EXPECT_EQ(1, busy[2].polls);
}

/* ---- a device ------------------------------------------------------------------------------- */

#define COMPLETIONS 20000

/* Like verbs: completions in memory, and an event for the first one after arming. */
static struct {
	struct reactor_poller poller;
	_Atomic unsigned produced;
	_Atomic bool is_armed;
	unsigned consumed;
	unsigned wakes;
} device;

static bool device_poll(struct reactor_poller *poller)
{
	unsigned produced = atomic_load(&device.produced);
	bool has_work = produced != device.consumed;

	device.consumed = produced;
	if (produced == COMPLETIONS) {
		reactor_poller_remove(poller);
		reactor_watch_close(&watch, on_closed);
	}
	return has_work;
}

static bool device_arm(struct reactor_poller *poller)
{
	atomic_store(&device.is_armed, true);
	if (atomic_load(&device.produced) != device.consumed)
		return false;
	reactor_watch_arm(&watch, POLLIN);
	return true;
}

static void device_ready(struct reactor_watch *ready, int events)
{
	device.wakes++;
	event_clear();
}

static void *device_run(void *arg)
{
	for (unsigned i = 1; i <= COMPLETIONS; i++) {
		atomic_store(&device.produced, i);
		if (atomic_exchange(&device.is_armed, false))
			event_raise();
		/* Sometimes produce only after the reactor has armed the device to sleep. */
		while (i % 500 == 0 && i < COMPLETIONS && !atomic_load(&device.is_armed))
			sched_yield();
	}
	return NULL;
}

static void a_device_wakes_a_reactor_that_sleeps(void)
{
	pthread_t thread;

	open_reactor(20);
	memset(&device, 0, sizeof(device));
	device.poller = (struct reactor_poller){.poll = device_poll, .arm = device_arm};
	reactor_watch_open(r, &watch, event_fd, device_ready);
	reactor_poller_add(r, &device.poller);
	CHECK(pthread_create(&thread, NULL, device_run, NULL) == 0);
	reactor_run(r);
	pthread_join(thread, NULL);
	EXPECT_EQ(COMPLETIONS, device.consumed);
	EXPECT(device.wakes >= COMPLETIONS / 500 - 1);
	EXPECT_EQ(1, closed_count);
	reactor_destroy(r);
	close(event_fd);
}

int main(void)
{
	TAP_RUN(a_watch_tells_once_for_each_arm);
	TAP_RUN(a_watch_waits_for_its_event);
	TAP_RUN(a_watch_is_for_room_too);
	TAP_RUN(a_closed_watch_says_nothing);
	TAP_RUN(a_watch_that_was_never_armed_closes);
	TAP_RUN(a_bad_descriptor_is_told);
	TAP_RUN(a_poller_is_asked_once_in_a_turn);
	TAP_RUN(a_poller_that_cannot_be_armed_is_asked_again);
	TAP_RUN(pollers_remove_each_other);
	TAP_RUN(a_device_wakes_a_reactor_that_sleeps);
	return tap_end();
}
