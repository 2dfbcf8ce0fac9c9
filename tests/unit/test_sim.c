/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator fulfils the contract of reactor/reactor.h: timers, messages, deferred functions,
 * files, offloaded work, listeners, the ways in which connections end, and the count of leaks.
 */
#include "../sim/sim.h"
#include "tap.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sim *sim;
static struct reactor *reactors[2];

static void setup(const struct sim_options *options)
{
	sim = sim_create(11, options);
	for (unsigned i = 0; i < 2; i++)
		CHECK(reactor_create(&(struct reactor_config){.index = i, .cpu = -1},
				     &reactors[i]) == 0);
}

static void run_ms(uint64_t ms)
{
	sim_run_until(sim, sim_now(sim) + ms * NS_PER_MS);
}

/* ---- timers, messages, deferred functions -------------------------------------------------- */

static uint64_t fired_at[8];
static unsigned fired;

static void note_time(struct reactor_timer *timer)
{
	EXPECT(reactor_current() == timer->reactor);
	EXPECT_EQ(timer->deadline_ns, reactor_now_ns(timer->reactor));
	fired_at[fired++] = reactor_now_ns(timer->reactor);
}

static void timers_fire_in_order_and_on_time(void)
{
	static const uint64_t delays_us[] = {500, 20, 300, 20, 400};
	struct reactor_timer timers[5];
	uint64_t start_ns;

	setup(NULL);
	fired = 0;
	start_ns = sim_now(sim);
	sim_enter(reactors[0]);
	for (unsigned i = 0; i < 5; i++) {
		reactor_timer_init(reactors[0], &timers[i], note_time);
		reactor_timer_arm(&timers[i], start_ns + NS_PER_S);
		reactor_timer_arm(&timers[i], start_ns + delays_us[i] * NS_PER_US);
	}
	reactor_timer_cancel(&timers[4]);
	reactor_timer_cancel(&timers[4]);
	sim_leave(reactors[0]);
	EXPECT_EQ(4, sim_leaks(sim));
	run_ms(2000);
	EXPECT_EQ(4, fired);
	EXPECT_EQ(start_ns + 20 * NS_PER_US, fired_at[0]);
	EXPECT_EQ(start_ns + 20 * NS_PER_US, fired_at[1]);
	EXPECT_EQ(start_ns + 300 * NS_PER_US, fired_at[2]);
	EXPECT_EQ(start_ns + 500 * NS_PER_US, fired_at[3]);
	EXPECT_EQ(0, sim_leaks(sim));
	sim_destroy(sim);
}

struct letter {
	struct reactor_msg msg;
	unsigned number;
};

static unsigned letters_read;

static void letter_read(struct reactor_msg *msg)
{
	struct letter *letter = container_of(msg, struct letter, msg);

	EXPECT(reactor_current() == reactors[1]);
	EXPECT_EQ(letters_read, letter->number);
	letters_read++;
}

static void messages_keep_their_order(void)
{
	struct letter letters[50];

	setup(NULL);
	letters_read = 0;
	for (unsigned i = 0; i < 50; i++) {
		letters[i].number = i;
		reactor_post(reactors[1], &letters[i].msg, letter_read);
	}
	EXPECT_EQ(0, letters_read);
	run_ms(1);
	EXPECT_EQ(50, letters_read);
	sim_destroy(sim);
}

static struct reactor_defer defer_once, defer_again;
static unsigned defer_calls;

static void defer_run(struct reactor_defer *defer)
{
	defer_calls++;
	if (defer_calls == 1)
		reactor_defer(reactors[0], defer);
}

static void deferred_functions_run_once_a_turn(void)
{
	setup(NULL);
	defer_calls = 0;
	reactor_defer_init(&defer_once, defer_run);
	reactor_defer_init(&defer_again, defer_run);
	sim_enter(reactors[0]);
	reactor_defer(reactors[0], &defer_once);
	reactor_defer(reactors[0], &defer_once);
	reactor_defer(reactors[0], &defer_again);
	reactor_defer_cancel(&defer_again);
	EXPECT_EQ(0, defer_calls);
	sim_leave(reactors[0]);
	EXPECT_EQ(1, defer_calls);
	run_ms(1);
	EXPECT_EQ(2, defer_calls);
	sim_destroy(sim);
}

/* ---- files --------------------------------------------------------------------------------- */

static int op_results[8];
static unsigned op_count;

static void op_done(struct reactor_op *op, int res)
{
	op_results[op_count++] = res;
}

static int op_work(struct reactor_op *op)
{
	return 42;
}

static void file_operations_are_real(void)
{
	char out[] = "simulated", in[sizeof(out)] = "";
	struct iovec out_iov = {.iov_base = out, .iov_len = sizeof(out)};
	struct iovec in_iov = {.iov_base = in, .iov_len = sizeof(in)};
	struct reactor_op op = {.done = op_done}, cancelled = {.done = op_done};
	int fd = memfd_create("sim", MFD_CLOEXEC);

	setup(NULL);
	op_count = 0;
	sim_enter(reactors[0]);
	reactor_writev(reactors[0], &op, fd, &out_iov, 1, 4096, 0);
	sim_leave(reactors[0]);
	EXPECT_EQ(1, sim_leaks(sim));
	run_ms(1);
	sim_enter(reactors[0]);
	reactor_readv(reactors[0], &op, fd, &in_iov, 1, 4096);
	sim_leave(reactors[0]);
	run_ms(1);
	sim_enter(reactors[0]);
	reactor_fdatasync(reactors[0], &op, fd);
	sim_leave(reactors[0]);
	run_ms(1);
	sim_enter(reactors[0]);
	reactor_offload(reactors[0], &op, op_work);
	reactor_fdatasync(reactors[0], &cancelled, -1);
	reactor_op_cancel(&cancelled);
	sim_leave(reactors[0]);
	run_ms(1);
	EXPECT_EQ(5, op_count);
	EXPECT_EQ(sizeof(out), op_results[0]);
	EXPECT_EQ(sizeof(out), op_results[1]);
	EXPECT_STR("simulated", in);
	EXPECT_EQ(0, op_results[2]);
	EXPECT(op_results[3] == 42 || op_results[4] == 42);
	EXPECT_EQ(0, sim_leaks(sim));
	sim_destroy(sim);
	close(fd);
}

/* ---- connections --------------------------------------------------------------------------- */

static struct reactor_listener listener;
static struct reactor_sock client, server;
static int connect_result;
static unsigned closed_count;
static ssize_t last_recv[2];
static size_t received[2];

static void sock_ready(struct reactor_sock *sock, unsigned events)
{
	char buf[100];
	struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
	unsigned who = sock == &server;
	ssize_t len;

	while ((len = reactor_sock_recv(sock, &iov, 1)) > 0)
		received[who] += (size_t)len;
	last_recv[who] = len;
}

static void sock_connected(struct reactor_sock *sock, int res)
{
	connect_result = res;
}

static void sock_accepted(struct reactor_listener *from, int taken_fd, const struct net_addr *peer)
{
	reactor_sock_open(reactors[1], &server, taken_fd, sock_ready);
}

static void sock_closed(struct reactor_sock *sock)
{
	EXPECT_EQ(-1, sock->fd);
	closed_count++;
}

static void listener_closed(struct reactor_listener *closed)
{
	closed_count++;
}

static void connect_both(void)
{
	struct net_addr addr;

	connect_result = 1;
	closed_count = 0;
	memset(received, 0, sizeof(received));
	last_recv[0] = last_recv[1] = 1;
	CHECK(net_addr_parse("127.0.0.1:0", 0, &addr) == 0);
	sim_enter(reactors[1]);
	CHECK(reactor_listener_open(reactors[1], &listener, &addr, sock_accepted) == 0);
	sim_leave(reactors[1]);
	sim_enter(reactors[0]);
	reactor_sock_connect(reactors[0], &client, &listener.addr, sock_connected, sock_ready);
	EXPECT_EQ(1, connect_result);
	sim_leave(reactors[0]);
	run_ms(1);
	EXPECT_EQ(0, connect_result);
}

static void close_all(void)
{
	sim_enter(reactors[0]);
	reactor_sock_close(&client, sock_closed);
	sim_leave(reactors[0]);
	sim_enter(reactors[1]);
	reactor_sock_close(&server, sock_closed);
	reactor_listener_close(&listener, listener_closed);
	EXPECT_EQ(0, closed_count);
	sim_leave(reactors[1]);
	run_ms(10);
	EXPECT_EQ(3, closed_count);
	EXPECT_EQ(0, sim_leaks(sim));
	sim_destroy(sim);
}

static ssize_t client_send(size_t len_bytes)
{
	static char buf[4096];
	struct iovec iov = {.iov_base = buf, .iov_len = len_bytes};
	ssize_t len;

	sim_enter(reactors[0]);
	len = reactor_sock_send(&client, &iov, 1);
	sim_leave(reactors[0]);
	return len;
}

static void a_connection_has_addresses_a_window_and_an_end(void)
{
	struct net_addr peer, local;

	setup(&(struct sim_options){.is_orderly = true, .window_max_bytes = 1000});
	connect_both();
	EXPECT(net_addr_port(&listener.addr) != 0);
	EXPECT_EQ(0, reactor_sock_peer(&server, &peer));
	EXPECT_EQ(0, reactor_sock_local(&client, &local));
	EXPECT_EQ(net_addr_port(&local), net_addr_port(&peer));
	EXPECT_EQ(1000, client_send(3000));
	EXPECT_EQ(-EAGAIN, client_send(1));
	run_ms(1);
	EXPECT_EQ(1000, received[1]);
	EXPECT_EQ(5, client_send(5));
	sim_enter(reactors[0]);
	reactor_sock_shutdown_send(&client);
	sim_leave(reactors[0]);
	EXPECT_EQ(-EPIPE, client_send(5));
	run_ms(1);
	EXPECT_EQ(1005, received[1]);
	EXPECT_EQ(0, last_recv[1]);
	EXPECT_EQ(1, last_recv[0]); /* the other direction is still open: nothing is reported */
	close_all();
}

static void a_cut_resets_both_ends(void)
{
	setup(NULL);
	connect_both();
	EXPECT_EQ(1, sim_net_cut(sim, &listener.addr));
	EXPECT_EQ(0, sim_net_cut(sim, &listener.addr));
	run_ms(1);
	EXPECT_EQ(-ECONNRESET, last_recv[0]);
	EXPECT_EQ(-ECONNRESET, last_recv[1]);
	EXPECT_EQ(-ECONNRESET, client_send(1));
	close_all();
}

static void a_partition_holds_bytes_until_it_heals(void)
{
	setup(&(struct sim_options){.is_orderly = true});
	connect_both();
	sim_net_partition(sim, &listener.addr, true);
	EXPECT_EQ(100, client_send(100));
	run_ms(1000);
	EXPECT_EQ(0, received[1]);
	sim_net_partition(sim, &listener.addr, false);
	run_ms(1);
	EXPECT_EQ(100, received[1]);
	close_all();
}

static void nobody_listening_is_refused(void)
{
	struct net_addr addr;

	setup(NULL);
	CHECK(net_addr_parse("127.0.0.1:4420", 0, &addr) == 0);
	connect_result = 1;
	sim_enter(reactors[0]);
	reactor_sock_connect(reactors[0], &client, &addr, sock_connected, sock_ready);
	sim_leave(reactors[0]);
	EXPECT_EQ(1, sim_leaks(sim));
	run_ms(1);
	EXPECT_EQ(-ECONNREFUSED, connect_result);
	EXPECT_EQ(-1, client.fd);
	EXPECT_EQ(0, sim_leaks(sim));
	sim_destroy(sim);
}

int main(void)
{
	TAP_RUN(timers_fire_in_order_and_on_time);
	TAP_RUN(messages_keep_their_order);
	TAP_RUN(deferred_functions_run_once_a_turn);
	TAP_RUN(file_operations_are_real);
	TAP_RUN(a_connection_has_addresses_a_window_and_an_end);
	TAP_RUN(a_cut_resets_both_ends);
	TAP_RUN(a_partition_holds_bytes_until_it_heals);
	TAP_RUN(nobody_listening_is_refused);
	return tap_end();
}
