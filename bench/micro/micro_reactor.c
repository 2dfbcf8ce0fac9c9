/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro: turns and timers of the real reactor, on this thread.
 *
 * Turns are measured on a new spinning reactor: its maximum spin is much longer than the round, so
 * that it does not sleep, and a timer ends the round. A callback arms and cancels the timers.
 */
#include "micro.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/prng.h"
#include "reactor/reactor.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPIN_US 2000000u

struct loop {
	struct reactor *reactor;
	struct reactor_timer end;
	struct reactor_defer every_turn;
	struct reactor_sock sock;
	struct reactor_msg msg;
	uint64_t turns_wanted;
	uint64_t start_turns;
	uint64_t start_ns;
	uint64_t ns; /* the result, for turns_wanted */
};

static struct reactor *reactor_make(void)
{
	struct reactor_config config = {.cpu = -1, .spin_max_us = SPIN_US};
	struct reactor *reactor;

	CHECK(reactor_create(&config, &reactor) == 0);
	return reactor;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* An estimate of the time for the wanted turns; the result is scaled to the actual number. */
static uint64_t loop_guess_ns(const struct loop *loop)
{
	uint64_t guess_ns = loop->turns_wanted * 50;

	return guess_ns < NS_PER_S ? guess_ns : NS_PER_S;
}

static void loop_ended(struct reactor_timer *timer)
{
	struct loop *loop = container_of(timer, struct loop, end);
	uint64_t spent_ns = clock_thread_cpu_ns() - loop->start_ns;
	struct reactor_stats stats;

	reactor_get_stats(loop->reactor, &stats);
	loop->ns = (uint64_t)((double)spent_ns * (double)loop->turns_wanted /
			      (double)(stats.turns - loop->start_turns));
	reactor_stop(loop->reactor);
}

static void loop_started(struct reactor_msg *msg)
{
	struct loop *loop = container_of(msg, struct loop, msg);
	struct reactor_stats stats;

	reactor_get_stats(loop->reactor, &stats);
	loop->start_turns = stats.turns;
	loop->start_ns = clock_thread_cpu_ns();
	reactor_timer_arm(&loop->end, clock_monotonic_ns() + loop_guess_ns(loop));
}

static uint64_t loop_measure(struct loop *loop)
{
	reactor_timer_init(loop->reactor, &loop->end, loop_ended);
	reactor_post(loop->reactor, &loop->msg, loop_started);
	reactor_run(loop->reactor);
	reactor_destroy(loop->reactor);
	return loop->ns;
}

static uint64_t empty_turns(void *arg, uint64_t count)
{
	struct loop loop = {.reactor = reactor_make(), .turns_wanted = count};

	return loop_measure(&loop);
}

static void defer_again(struct reactor_defer *defer)
{
	reactor_defer(container_of(defer, struct loop, every_turn)->reactor, defer);
}

static uint64_t deferred_turns(void *arg, uint64_t count)
{
	struct loop loop = {.reactor = reactor_make(), .turns_wanted = count};

	reactor_defer_init(&loop.every_turn, defer_again);
	reactor_defer(loop.reactor, &loop.every_turn);
	return loop_measure(&loop);
}

static void sock_drain(struct reactor_sock *sock, unsigned events)
{
	uint8_t byte[64];
	struct iovec iov = {byte, sizeof(byte)};

	(void)reactor_sock_recv(sock, &iov, 1);
}

/* A spinning reactor between two commands of a host: tries its one socket every turn. */
static uint64_t hot_turns(void *arg, uint64_t count)
{
	struct loop loop = {.reactor = reactor_make(), .turns_wanted = count};
	int fds[2];
	uint64_t ns;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK(write(fds[1], "x", 1) == 1);
	reactor_sock_open(loop.reactor, &loop.sock, fds[0], sock_drain);
	ns = loop_measure(&loop);
	close(fds[0]);
	close(fds[1]);
	return ns;
}

/* ---- timers --------------------------------------------------------------------------------- */

struct timers {
	struct reactor *reactor;
	struct reactor_msg msg;
	struct reactor_timer *others;
	unsigned other_count;
	uint64_t count;
	uint64_t ns;
};

static void never(struct reactor_timer *timer)
{
	CHECK(!"a timer for tomorrow fired today");
}

static void timers_work(struct reactor_msg *msg)
{
	struct timers *timers = container_of(msg, struct timers, msg);
	uint64_t later_ns = clock_monotonic_ns() + 86400 * NS_PER_S;
	struct reactor_timer timer;
	struct prng prng;

	prng_seed(&prng, 1);
	for (unsigned i = 0; i < timers->other_count; i++) {
		reactor_timer_init(timers->reactor, &timers->others[i], never);
		reactor_timer_arm(&timers->others[i], later_ns + prng_below(&prng, NS_PER_S));
	}
	reactor_timer_init(timers->reactor, &timer, never);
	timers->ns = clock_thread_cpu_ns();
	for (uint64_t i = 0; i < timers->count; i++) {
		reactor_timer_arm(&timer, later_ns + (i & 0xfffff));
		reactor_timer_cancel(&timer);
	}
	timers->ns = clock_thread_cpu_ns() - timers->ns;
	for (unsigned i = 0; i < timers->other_count; i++)
		reactor_timer_cancel(&timers->others[i]);
	reactor_stop(timers->reactor);
}

static uint64_t timers_run(void *arg, uint64_t count)
{
	struct timers timers = {
		.reactor = reactor_make(), .other_count = *(unsigned *)arg, .count = count};

	timers.others = calloc(timers.other_count + 1, sizeof(*timers.others));
	CHECK(timers.others != NULL);
	reactor_post(timers.reactor, &timers.msg, timers_work);
	reactor_run(timers.reactor);
	reactor_destroy(timers.reactor);
	free(timers.others);
	return timers.ns;
}

void micro_reactor(struct micro *micro)
{
	static const struct micro_what empty = {.group = "turn", .name = "empty"},
				       deferred = {.group = "turn",
						   .name = "one deferred function"},
				       hot = {.group = "turn", .name = "one hot, empty socket"},
				       few = {.group = "timer", .name = "arm and cancel, alone"},
				       many = {.group = "timer",
					       .name = "arm and cancel, 1000 others"};
	unsigned none = 0, thousand = 1000;

	micro_measure(micro, &empty, empty_turns, NULL);
	micro_measure(micro, &deferred, deferred_turns, NULL);
	micro_measure(micro, &hot, hot_turns, NULL);
	micro_measure(micro, &few, timers_run, &none);
	micro_measure(micro, &many, timers_run, &thousand);
}
