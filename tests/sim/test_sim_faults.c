/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's network: the effect of each fault on the bytes between the two talkers of
 * core_world.h. One thread.
 */
#include "core_world.h"

#include "base/log.h"

#define ALWAYS_PPM 1000000

static void world_begin(uint64_t seed)
{
	world_create(seed, NULL);
	world_connect();
	run_ms(10);
	EXPECT_EQ(1, world.notes[CLIENT].opened);
	EXPECT_EQ(1, world.notes[SERVER].opened);
}

/* ---- partitions ----------------------------------------------------------------------------- */

static void a_partition_of_one_way_holds_that_way(void)
{
	for (unsigned way = 0; way < 2; way++) {
		bool to_server = way == 1;
		struct note *deaf = &world.notes[to_server ? SERVER : CLIENT];
		struct note *other = &world.notes[to_server ? CLIENT : SERVER];

		world_begin(20 + way);
		sim_net_partition_one_way(world.sim, way ? &world.addr : NULL, to_server, true);
		side_send(CLIENT, 1000);
		side_send(SERVER, 1000);
		run_ms(60000);
		EXPECT_EQ(0, deaf->received);
		EXPECT_EQ(1000, other->received);
		sim_net_partition_one_way(world.sim, &world.addr, !to_server, false);
		run_ms(1000);
		EXPECT_EQ(0, deaf->received);
		sim_net_partition_one_way(world.sim, &world.addr, to_server, false);
		run_ms(1000);
		EXPECT_EQ(1000, deaf->received);
		EXPECT_EQ(0, deaf->wrong_bits + other->wrong_bits);
		EXPECT_EQ(0, deaf->ended + other->ended);
		sim_destroy(world.sim);
	}
}

static void a_partition_can_heal_one_way_first(void)
{
	world_begin(22);
	sim_net_partition(world.sim, &world.addr, true);
	side_send(CLIENT, 1000);
	side_send(SERVER, 1000);
	run_ms(100);
	EXPECT_EQ(0, world.notes[CLIENT].received + world.notes[SERVER].received);
	sim_net_partition_one_way(world.sim, &world.addr, true, false);
	run_ms(100);
	EXPECT_EQ(0, world.notes[CLIENT].received);
	EXPECT_EQ(1000, world.notes[SERVER].received);
	sim_net_partition(world.sim, &world.addr, false);
	run_ms(100);
	EXPECT_EQ(1000, world.notes[CLIENT].received);
	sim_destroy(world.sim);
}

/* A handshake needs both directions. */
static void nobody_connects_into_a_partition_of_one_way(void)
{
	for (unsigned way = 0; way < 2; way++) {
		world_create(23, NULL);
		sim_net_partition_one_way(world.sim, &world.addr, way == 1, true);
		world_connect();
		run_ms(9000);
		EXPECT_EQ(1, world.notes[CLIENT].connect_res);
		run_ms(2000);
		EXPECT_EQ(-ETIMEDOUT, world.notes[CLIENT].connect_res);
		EXPECT_EQ(0, world.notes[SERVER].opened);
		sim_destroy(world.sim);
	}
}

/* The reset by a dead machine must not pass a partition either. */
static void a_reset_does_not_cross_a_partition(void)
{
	world_begin(24);
	sim_process_kill(world.processes[SERVER], SIM_DEATH_POWER);
	sim_net_partition_one_way(world.sim, &world.addr, false, true);
	side_send(CLIENT, 10);
	run_ms(10000);
	EXPECT_EQ(0, world.notes[CLIENT].ended);
	sim_net_partition(world.sim, &world.addr, false);
	run_ms(10);
	EXPECT_EQ(1, world.notes[CLIENT].ended);
	EXPECT_EQ(-ECONNRESET, world.notes[CLIENT].end);
	sim_destroy(world.sim);
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Milliseconds until this side has received `bytes` more. */
static uint64_t transfer_ms(enum side to, uint64_t bytes)
{
	uint64_t begin_ns = sim_now(world.sim);
	uint64_t before = world.notes[to].received;

	side_send(!to, bytes);
	run_ms(20000);
	EXPECT_EQ(bytes, world.notes[to].received - before);
	return (world.notes[to].last_at_ns - begin_ns) / NS_PER_MS;
}

static void a_limit_is_kept_each_way(void)
{
	for (unsigned to = 0; to < 2; to++) {
		uint64_t ms;

		world_begin(30 + to);
		EXPECT(transfer_ms((enum side)to, 1000000) < 200);
		sim_net_limit(world.sim, to ? NULL : &world.addr, 500000);
		ms = transfer_ms((enum side)to, 1000000);
		EXPECT_THAT(ms >= 1990 && ms < 2200, "two seconds at the limit, not %u ms",
			    (unsigned)ms);
		sim_net_limit(world.sim, NULL, 0);
		EXPECT(transfer_ms((enum side)to, 1000000) < 200);
		EXPECT_EQ(0, world.notes[to].wrong_bits);
		sim_destroy(world.sim);
	}
}

static void a_limit_by_name_goes_before_that_of_all(void)
{
	struct net_addr other;

	CHECK(net_addr_parse("10.0.0.2", 4420, &other) == 0);
	world_begin(32);
	sim_net_limit(world.sim, NULL, 100000);
	sim_net_limit(world.sim, &other, 1);
	sim_net_limit(world.sim, &world.addr, 0);
	EXPECT(transfer_ms(SERVER, 200000) < 100);
	sim_net_limit(world.sim, &world.addr, 200000);
	EXPECT(transfer_ms(SERVER, 200000) >= 990);
	sim_net_limit(world.sim, NULL, 100000);
	EXPECT(transfer_ms(SERVER, 200000) >= 1990);
	sim_destroy(world.sim);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void a_half_close_ends_one_way(void)
{
	for (unsigned way = 0; way < 2; way++) {
		bool to_server = way == 1;
		struct note *reader = &world.notes[to_server ? SERVER : CLIENT];
		struct note *writer = &world.notes[to_server ? CLIENT : SERVER];

		world_begin(40 + way);
		reader->stays_open = true;
		side_send(to_server ? CLIENT : SERVER, 2000);
		writer->to_send = writer->sent;
		EXPECT_EQ(1, sim_net_half_close(world.sim, way ? &world.addr : NULL, to_server));
		EXPECT_EQ(0, sim_net_half_close(world.sim, &world.addr, to_server));
		run_ms(100);
		EXPECT(writer->sent > 0);
		EXPECT_EQ(writer->sent, reader->received);
		EXPECT_EQ(1, reader->ended);
		EXPECT_EQ(0, reader->end);
		EXPECT_EQ(0, writer->ended);
		side_send(to_server ? SERVER : CLIENT, 2000);
		run_ms(100);
		EXPECT_EQ(2000, writer->received);
		sim_destroy(world.sim);
	}
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void a_flip_changes_one_bit_of_a_send(void)
{
	for (uint64_t seed = 50; seed < 70; seed++) {
		world_begin(seed);
		sim_net_set_faults(world.sim, &(struct sim_faults){.flip_ppm = ALWAYS_PPM});
		side_send(CLIENT, 20000);
		run_ms(100);
		EXPECT_EQ(20000, world.notes[SERVER].received);
		EXPECT(world.notes[CLIENT].sends > 0);
		EXPECT_EQ(world.notes[CLIENT].sends, world.notes[SERVER].wrong_bits);
		sim_net_set_faults(world.sim, &(struct sim_faults){0});
		side_send(CLIENT, 20000);
		run_ms(100);
		EXPECT_EQ(40000, world.notes[SERVER].received);
		EXPECT(world.notes[SERVER].wrong_bits < world.notes[CLIENT].sends);
		sim_destroy(world.sim);
	}
}

static void a_slow_reader_gets_a_byte_or_two(void)
{
	world_begin(70);
	sim_net_set_faults(world.sim, &(struct sim_faults){.slow_ppm = ALWAYS_PPM});
	side_send(SERVER, 5000);
	run_ms(1000);
	EXPECT_EQ(5000, world.notes[CLIENT].received);
	EXPECT_EQ(2, world.notes[CLIENT].longest_recv);
	EXPECT_EQ(0, world.notes[CLIENT].wrong_bits);
	sim_net_set_faults(world.sim, &(struct sim_faults){0});
	side_send(SERVER, 50000);
	run_ms(1000);
	EXPECT(world.notes[CLIENT].longest_recv > 2);
	sim_destroy(world.sim);
}

/* ---- sockets of a machine -------------------------------------------------------------------- */

static struct net_addr unix_addr(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct net_addr addr = {.len_bytes = sizeof(name)};

	memcpy(name.sun_path, path, strlen(path));
	memcpy(&addr.storage, &name, sizeof(name));
	return addr;
}

static void the_network_does_not_touch_unix_sockets(void)
{
	const struct sim_faults all = {.reset_ppm = ALWAYS_PPM,
				       .stall_ppm = ALWAYS_PPM,
				       .half_close_ppm = ALWAYS_PPM,
				       .refuse_ppm = ALWAYS_PPM,
				       .flip_ppm = ALWAYS_PPM,
				       .stall_max_us = 100000000};
	struct net_addr addr = unix_addr("/run/a"), other = unix_addr("/run/b");
	struct net_addr peer;

	world_create_at(80, NULL, &addr);
	sim_net_set_faults(world.sim, &all);
	sim_net_partition(world.sim, NULL, true);
	sim_net_limit(world.sim, NULL, 1);
	world_connect();
	run_ms(10);
	EXPECT_EQ(0, world.notes[CLIENT].connect_res);
	EXPECT_EQ(0, sim_net_cut(world.sim, NULL));
	EXPECT_EQ(0, sim_net_half_close(world.sim, NULL, true));
	side_send(CLIENT, 5000);
	side_send(SERVER, 5000);
	run_ms(100);
	EXPECT_EQ(5000, world.notes[CLIENT].received);
	EXPECT_EQ(5000, world.notes[SERVER].received);
	EXPECT_EQ(0, world.notes[SERVER].wrong_bits);
	EXPECT_EQ(0, reactor_sock_peer(&world.talkers[SERVER]->sock, &peer));
	EXPECT_EQ(AF_UNIX, peer.storage.ss_family);
	EXPECT(sim_net_peer_process(world.sim, world.talkers[SERVER]->sock.fd) ==
	       world.processes[CLIENT]);
	EXPECT(sim_net_peer_process(world.sim, world.talkers[CLIENT]->sock.fd) ==
	       world.processes[SERVER]);
	EXPECT_EQ(0, sim_net_cut(world.sim, &other));
	EXPECT_EQ(1, sim_net_cut(world.sim, &addr));
	sim_destroy(world.sim);
}

static void unix_addresses_are_compared_as_bytes(void)
{
	struct net_addr addr = unix_addr("/run/a"), other = unix_addr("/run/ab");
	struct reactor_listener listener;

	world_create_at(81, NULL, &addr);
	sim_enter(world.reactors[CLIENT]);
	EXPECT_EQ(-EADDRINUSE,
		  reactor_listener_open(world.reactors[CLIENT], &listener, &addr, talker_accepted));
	sim_leave(world.reactors[CLIENT]);
	world.addr = other;
	world_connect();
	run_ms(10);
	EXPECT_EQ(-ECONNREFUSED, world.notes[CLIENT].connect_res);
	sim_process_kill(world.processes[SERVER], SIM_DEATH_KILLED);
	world.addr = addr;
	world_connect();
	run_ms(10);
	EXPECT_EQ(-ECONNREFUSED, world.notes[CLIENT].connect_res);
	sim_enter(world.reactors[CLIENT]);
	EXPECT_EQ(0,
		  reactor_listener_open(world.reactors[CLIENT], &listener, &addr, talker_accepted));
	sim_leave(world.reactors[CLIENT]);
	sim_destroy(world.sim);
}

/* ---- the same again ---------------------------------------------------------------------------
 */

/* All faults in one world. Returns a checksum of everything that happened. */
static uint64_t storm(uint64_t seed)
{
	const struct sim_faults faults = {
		.stall_ppm = 50000, .flip_ppm = 50000, .slow_ppm = 50000, .stall_max_us = 1000};
	uint64_t sum = 0;

	world_create(seed, NULL);
	sim_net_set_faults(world.sim, &faults);
	sim_net_limit(world.sim, NULL, 1000000);
	sim_process_crash_after(world.processes[SERVER], 100, SIM_DEATH_KILLED);
	world.notes[CLIENT].to_send = 100000;
	world.notes[SERVER].to_send = 100000;
	world_connect();
	for (unsigned i = 0; i < 1000 && sim_step(world.sim); i++) {
		sum = sum * 0x9e3779b97f4a7c15ull + sim_now(world.sim);
		sum += world.notes[CLIENT].received * 3 + world.notes[SERVER].received;
	}
	EXPECT(!sim_process_is_alive(world.processes[SERVER]));
	sum = sum * 31 + world.notes[CLIENT].wrong_bits;
	sim_destroy(world.sim);
	return sum;
}

static void a_seed_gives_the_same_events_twice(void)
{
	uint64_t first = storm(90);
	void *in_the_way = malloc(123456);

	EXPECT_EQ(first, storm(90));
	EXPECT(first != storm(91));
	free(in_the_way);
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(a_partition_of_one_way_holds_that_way);
	TAP_RUN(a_partition_can_heal_one_way_first);
	TAP_RUN(nobody_connects_into_a_partition_of_one_way);
	TAP_RUN(a_reset_does_not_cross_a_partition);
	TAP_RUN(a_limit_is_kept_each_way);
	TAP_RUN(a_limit_by_name_goes_before_that_of_all);
	TAP_RUN(a_half_close_ends_one_way);
	TAP_RUN(a_flip_changes_one_bit_of_a_send);
	TAP_RUN(a_slow_reader_gets_a_byte_or_two);
	TAP_RUN(the_network_does_not_touch_unix_sockets);
	TAP_RUN(unix_addresses_are_compared_as_bytes);
	TAP_RUN(a_seed_gives_the_same_events_twice);
	return tap_end();
}
