/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the simulator itself: a server process that listens and a client process send each
 * other bytes. Each byte follows from its offset in the stream, so that the receiver can check it.
 *
 * A talker is in its process' memory and dies with it. A note belongs to the test and records what
 * happened. One thread. Included once per program.
 */
#ifndef WEFT_TESTS_CORE_WORLD_H
#define WEFT_TESTS_CORE_WORLD_H

#include "sim.h"
#include "tap.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/un.h>

enum side {
	CLIENT,
	SERVER,
};

struct note {
	uint64_t to_send; /* bytes that this side sends in all */
	uint64_t sent;
	uint64_t received;
	uint64_t wrong_bits;
	uint64_t sends;
	uint64_t longest_recv;
	uint64_t last_at_ns; /* when the last byte arrived */
	uint64_t late_calls; /* callbacks of a dead process */
	unsigned opened;     /* connections */
	unsigned ended;      /* connections that saw an end */
	int end;             /* how the last one ended: 0 or -errno */
	int connect_res;     /* 1: unknown yet */
	bool stays_open;     /* does not close after the peer's end */
};

struct talker {
	struct reactor_sock sock;
	struct note *note;
	struct sim_process *process;
};

struct world {
	struct sim *sim;
	struct net_addr addr;
	struct sim_process *processes[2];
	struct reactor *reactors[2];
	struct talker *talkers[2];         /* the latest; NULL: none */
	struct reactor_listener *listener; /* the server's memory */
	struct note notes[2];
};

static struct world world;

static uint8_t pattern(uint64_t offset)
{
	return (uint8_t)(offset * 167 + (offset >> 8));
}

/* ---- talkers ------------------------------------------------------------------------------- */

static void talker_closed(struct reactor_sock *sock)
{
	struct talker *talker = container_of(sock, struct talker, sock);

	for (unsigned side = 0; side < 2; side++) {
		if (world.talkers[side] == talker)
			world.talkers[side] = NULL;
	}
	free(talker);
}

static void talker_send(struct talker *talker)
{
	struct note *note = talker->note;
	uint8_t bytes[4096];

	while (note->sent < note->to_send) {
		uint64_t left = note->to_send - note->sent;
		struct iovec iov = {bytes, left < sizeof(bytes) ? left : sizeof(bytes)};
		ssize_t len;

		for (size_t i = 0; i < iov.iov_len; i++)
			bytes[i] = pattern(note->sent + i);
		len = reactor_sock_send(&talker->sock, &iov, 1);
		if (len <= 0) {
			unsigned write = len == -EAGAIN ? REACTOR_SOCK_WRITE : 0;

			reactor_sock_want(&talker->sock, REACTOR_SOCK_READ | write);
			return;
		}
		note->sends++;
		note->sent += (uint64_t)len;
	}
	reactor_sock_want(&talker->sock, REACTOR_SOCK_READ);
}

static void talker_judge(struct note *note, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		note->wrong_bits += (unsigned)__builtin_popcount(
			(unsigned)(bytes[i] ^ pattern(note->received + i)));
	note->received += len;
	note->last_at_ns = sim_now(world.sim);
	if (len > note->longest_recv)
		note->longest_recv = len;
}

static void talker_ready(struct reactor_sock *sock, unsigned events)
{
	struct talker *talker = container_of(sock, struct talker, sock);
	struct note *note = talker->note;
	uint8_t bytes[8192];
	ssize_t len;

	note->late_calls += !sim_process_is_alive(talker->process);
	while ((len = reactor_sock_recv(sock, &(struct iovec){bytes, sizeof(bytes)}, 1)) > 0)
		talker_judge(note, bytes, (size_t)len);
	if (len != -EAGAIN) {
		note->end = (int)len;
		note->ended++;
		if (!note->stays_open) {
			reactor_sock_close(sock, talker_closed);
			return;
		}
	}
	if (events & REACTOR_SOCK_WRITE)
		talker_send(talker);
}

static struct talker *talker_new(enum side side)
{
	struct talker *talker = calloc(1, sizeof(*talker));

	CHECK(talker != NULL);
	talker->note = &world.notes[side];
	talker->process = world.processes[side];
	world.talkers[side] = talker;
	return talker;
}

static void talker_accepted(struct reactor_listener *listener, int taken_fd,
			    const struct net_addr *peer)
{
	struct talker *talker = talker_new(SERVER);

	talker->note->late_calls += !sim_process_is_alive(talker->process);
	talker->note->opened++;
	reactor_sock_open(listener->reactor, &talker->sock, taken_fd, talker_ready);
	talker_send(talker);
}

static void talker_connected(struct reactor_sock *sock, int res)
{
	struct talker *talker = container_of(sock, struct talker, sock);

	talker->note->late_calls += !sim_process_is_alive(talker->process);
	talker->note->connect_res = res;
	if (res < 0) {
		talker_closed(sock);
		return;
	}
	talker->note->opened++;
	talker_send(talker);
}

/* ---- the world ----------------------------------------------------------------------------- */

static void side_create(enum side side)
{
	struct reactor_config config = {.index = side, .cpu = -1};

	world.processes[side] = sim_process_create(world.sim, side == CLIENT ? "client" : "server");
	sim_process_enter(world.processes[side]);
	CHECK(reactor_create(&config, &world.reactors[side]) == 0);
	sim_process_leave(world.processes[side]);
	world.notes[side] = (struct note){.connect_res = 1};
}

/* The server listens; no connection yet. */
__attribute__((unused)) static void
world_create_at(uint64_t seed, const struct sim_options *options, const struct net_addr *addr)
{
	memset(&world, 0, sizeof(world));
	world.sim = sim_create(seed, options);
	side_create(CLIENT);
	side_create(SERVER);
	sim_enter(world.reactors[SERVER]);
	world.listener = calloc(1, sizeof(*world.listener));
	CHECK(world.listener && reactor_listener_open(world.reactors[SERVER], world.listener, addr,
						      talker_accepted) == 0);
	world.addr = world.listener->addr;
	sim_leave(world.reactors[SERVER]);
}

__attribute__((unused)) static void world_create(uint64_t seed, const struct sim_options *options)
{
	struct net_addr addr;

	CHECK(net_addr_parse("10.0.0.1", 4420, &addr) == 0);
	world_create_at(seed, options, &addr);
}

__attribute__((unused)) static void world_connect(void)
{
	struct talker *talker;

	sim_enter(world.reactors[CLIENT]);
	talker = talker_new(CLIENT);
	world.notes[CLIENT].connect_res = 1;
	reactor_sock_connect(world.reactors[CLIENT], &talker->sock, &world.addr, talker_connected,
			     talker_ready);
	sim_leave(world.reactors[CLIENT]);
}

__attribute__((unused)) static void run_ms(uint64_t ms)
{
	sim_run_until(world.sim, sim_now(world.sim) + ms * NS_PER_MS);
}

/* The side sends `bytes` more bytes from now on. */
__attribute__((unused)) static void side_send(enum side side, uint64_t bytes)
{
	world.notes[side].to_send += bytes;
	sim_enter(world.reactors[side]);
	if (world.talkers[side] && !world.talkers[side]->sock.closing)
		talker_send(world.talkers[side]);
	sim_leave(world.reactors[side]);
}

#endif
