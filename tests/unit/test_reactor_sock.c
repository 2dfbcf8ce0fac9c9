/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets and listeners of the io_uring reactor over loopback, both ends on one reactor on the
 * test's thread: echo with partial reads and full send buffers, back-pressure, all ways to end,
 * lack of file descriptors, and the CPU time of idle sockets.
 */
#include "base/clock.h"
#include "base/prng.h"
#include "reactor/reactor.h"
#include "tap.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static struct reactor *r;
static struct reactor_listener listener;
static unsigned open_objects;
static unsigned inside_call; /* checked by callbacks that must not run inside a call */

static void open_reactor(uint32_t spin_max_us)
{
	struct reactor_config config = {.index = 0, .cpu = -1, .spin_max_us = spin_max_us};

	CHECK(reactor_create(&config, &r) == 0);
	open_objects = 0;
	inside_call = 0;
}

static void object_closed(void)
{
	EXPECT_EQ(0, inside_call);
	if (--open_objects == 0)
		reactor_stop(r);
}

static void on_sock_closed(struct reactor_sock *sock)
{
	EXPECT_EQ(-1, sock->fd);
	object_closed();
}

static void on_listener_closed(struct reactor_listener *closed)
{
	EXPECT_EQ(-1, closed->fd);
	object_closed();
}

static void close_sock(struct reactor_sock *sock)
{
	inside_call++;
	reactor_sock_close(sock, on_sock_closed);
	inside_call--;
}

static void close_listener(void)
{
	inside_call++;
	reactor_listener_close(&listener, on_listener_closed);
	inside_call--;
}

static void open_listener(const char *text, void (*accepted)(struct reactor_listener *listener,
							     int fd, const struct net_addr *peer))
{
	struct net_addr addr;

	CHECK(net_addr_parse(text, 0, &addr) == 0);
	CHECK(reactor_listener_open(r, &listener, &addr, accepted) == 0);
	EXPECT(net_addr_port(&listener.addr) != 0);
	open_objects++;
}

/* ---- echo: the client sends a stream, the server returns it, the client compares ------------ */

#define PAIRS_MAX    12
#define STREAM_BYTES (1024 * 1024)

struct pair {
	struct reactor_sock client, server;
	size_t sent, received;
	/* Received by the server and not yet returned. */
	size_t held_at, held_bytes;
	uint8_t held[3000];
};

static struct pair pairs[PAIRS_MAX];
static unsigned pair_count, pairs_accepted, pairs_finished, chunk_bytes;
static uint8_t stream[STREAM_BYTES];

static void client_push(struct pair *pair)
{
	while (pair->sent < STREAM_BYTES) {
		/* In ping-pong, the next chunk is sent when the last one is back. */
		size_t limit = chunk_bytes ? pair->received + chunk_bytes : STREAM_BYTES;
		size_t end = limit < STREAM_BYTES ? limit : STREAM_BYTES;
		struct iovec iov[2] = {{stream + pair->sent, (end - pair->sent) / 2}};
		ssize_t sent;

		if (pair->sent == end || (chunk_bytes && pair->received % chunk_bytes))
			break;
		iov[1].iov_base = stream + pair->sent + iov[0].iov_len;
		iov[1].iov_len = end - pair->sent - iov[0].iov_len;
		sent = reactor_sock_send(&pair->client, iov, 2);
		if (sent == -EAGAIN) {
			reactor_sock_want(&pair->client, REACTOR_SOCK_READ | REACTOR_SOCK_WRITE);
			return;
		}
		EXPECT(sent > 0);
		if (sent <= 0)
			return;
		pair->sent += (size_t)sent;
	}
	reactor_sock_want(&pair->client, REACTOR_SOCK_READ);
}

static void client_ready(struct reactor_sock *sock, unsigned events)
{
	struct pair *pair = container_of(sock, struct pair, client);
	uint8_t *buf = reactor_scratch(r);
	struct iovec iov[2] = {{buf, 7}, {buf + 7, 50000}};
	ssize_t got;

	EXPECT(reactor_current() == r);
	if (events & REACTOR_SOCK_WRITE)
		client_push(pair);
	if (!(events & REACTOR_SOCK_READ))
		return;
	got = reactor_sock_recv(sock, iov, 2);
	if (got == -EAGAIN)
		return;
	if (got == 0) {
		EXPECT_EQ(STREAM_BYTES, pair->received);
		close_sock(sock);
		if (++pairs_finished == pair_count)
			close_listener();
		return;
	}
	CHECK(got > 0 && pair->received + (size_t)got <= STREAM_BYTES);
	EXPECT(memcmp(stream + pair->received, buf, (size_t)got) == 0);
	pair->received += (size_t)got;
	if (pair->received == STREAM_BYTES)
		reactor_sock_shutdown_send(sock);
	else
		client_push(pair);
}

static void server_return(struct pair *pair)
{
	while (pair->held_bytes > 0) {
		struct iovec iov = {pair->held + pair->held_at, pair->held_bytes};
		ssize_t sent = reactor_sock_send(&pair->server, &iov, 1);

		if (sent == -EAGAIN) {
			/* The server reads nothing until this is sent. */
			reactor_sock_want(&pair->server, REACTOR_SOCK_WRITE);
			return;
		}
		EXPECT(sent > 0);
		if (sent <= 0)
			return;
		pair->held_at += (size_t)sent;
		pair->held_bytes -= (size_t)sent;
	}
	reactor_sock_want(&pair->server, REACTOR_SOCK_READ);
}

static void server_ready(struct reactor_sock *sock, unsigned events)
{
	struct pair *pair = container_of(sock, struct pair, server);
	struct iovec iov = {pair->held, sizeof(pair->held)};
	ssize_t got;

	if (events & REACTOR_SOCK_WRITE) {
		server_return(pair);
		return;
	}
	EXPECT_EQ(0, pair->held_bytes);
	/* One small read per call: the rest causes the next call. */
	got = reactor_sock_recv(sock, &iov, 1);
	if (got == -EAGAIN)
		return;
	EXPECT(got >= 0);
	if (got <= 0) {
		close_sock(sock);
		return;
	}
	pair->held_at = 0;
	pair->held_bytes = (size_t)got;
	server_return(pair);
}

static int get_option(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = -1;

	getsockopt(fd, level, name, &value, &len);
	return value;
}

/* A vanished peer is detected within two minutes, also without traffic. */
static void expect_keep_alive(int fd)
{
	EXPECT_EQ(1, get_option(fd, SOL_SOCKET, SO_KEEPALIVE));
	EXPECT_EQ(60, get_option(fd, IPPROTO_TCP, TCP_KEEPIDLE));
	EXPECT_EQ(10, get_option(fd, IPPROTO_TCP, TCP_KEEPINTVL));
	EXPECT_EQ(6, get_option(fd, IPPROTO_TCP, TCP_KEEPCNT));
}

static void client_connected(struct reactor_sock *sock, int res)
{
	struct net_addr peer;
	socklen_t len = sizeof(int);
	int nodelay = 0;

	EXPECT_EQ(0, inside_call);
	EXPECT_EQ(0, res);
	EXPECT_EQ(0, reactor_sock_peer(sock, &peer));
	EXPECT_EQ(net_addr_port(&listener.addr), net_addr_port(&peer));
	getsockopt(sock->fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len);
	EXPECT_EQ(1, nodelay != 0);
	expect_keep_alive(sock->fd);
	client_push(container_of(sock, struct pair, client));
}

static void echo_accepted(struct reactor_listener *from, int fd, const struct net_addr *peer)
{
	struct reactor_sock *server = &pairs[pairs_accepted++].server;
	struct net_addr local;
	socklen_t len = sizeof(int);
	int nodelay = 0;

	EXPECT(net_addr_same_host(peer, &from->addr));
	getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len);
	EXPECT_EQ(1, nodelay != 0);
	expect_keep_alive(fd);
	open_objects++;
	reactor_sock_open(r, server, fd, server_ready);
	EXPECT_EQ(0, reactor_sock_local(server, &local));
	EXPECT_EQ(net_addr_port(&from->addr), net_addr_port(&local));
}

static void run_echo(const char *addr, unsigned count, unsigned chunk, uint32_t spin_max_us)
{
	struct prng prng;

	prng_seed(&prng, 5);
	prng_fill(&prng, stream, sizeof(stream));
	memset(pairs, 0, sizeof(pairs));
	pair_count = count;
	chunk_bytes = chunk;
	pairs_accepted = 0;
	pairs_finished = 0;
	open_reactor(spin_max_us);
	open_listener(addr, echo_accepted);
	inside_call++;
	for (unsigned i = 0; i < count; i++) {
		open_objects++;
		reactor_sock_connect(r, &pairs[i].client, &listener.addr, client_connected,
				     client_ready);
	}
	inside_call--;
	reactor_run(r);
	EXPECT_EQ(count, pairs_finished);
	reactor_destroy(r);
}

static void echo_ping_pong(void)
{
	run_echo("127.0.0.1:0", 1, 4096, 0);
	run_echo("127.0.0.1:0", 1, 4096, 50);
}

static void echo_full_pipes(void)
{
	run_echo("127.0.0.1:0", 2, 0, 0);
}

static void echo_on_many_sockets(void)
{
	run_echo("127.0.0.1:0", PAIRS_MAX, 32768, 50);
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	int res = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&addr, sizeof(addr));

	if (fd >= 0)
		close(fd);
	return res == 0;
}

static void echo_on_ipv6(void)
{
	run_echo("[::1]:0", 1, 0, 0);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static struct reactor_sock ends[2];
static ssize_t end_result;
static bool end_aborts;
static struct reactor_timer end_timer;

static void end_ready(struct reactor_sock *sock, unsigned events)
{
	char byte;
	struct iovec iov = {&byte, 1};
	ssize_t got = reactor_sock_recv(sock, &iov, 1);

	if (got == -EAGAIN)
		return;
	EXPECT(sock == &ends[1]);
	end_result = got;
	close_sock(sock);
}

static void end_on_timer(struct reactor_timer *timer)
{
	/* Both ends have polls in the kernel by now: nothing has happened since the start. */
	EXPECT_EQ(REACTOR_SOCK_READ, ends[0].armed);
	if (end_aborts)
		reactor_sock_set_abort(&ends[0]);
	close_sock(&ends[0]);
	close_listener();
}

static void end_accepted(struct reactor_listener *from, int fd, const struct net_addr *peer)
{
	open_objects++;
	reactor_sock_open(r, &ends[1], fd, end_ready);
	reactor_timer_arm(&end_timer, reactor_now_ns(r) + 2 * NS_PER_MS);
}

static void end_connected(struct reactor_sock *sock, int res)
{
	EXPECT_EQ(0, res);
}

static void run_end(bool aborts)
{
	end_aborts = aborts;
	end_result = 1;
	open_reactor(0);
	open_listener("127.0.0.1:0", end_accepted);
	reactor_timer_init(r, &end_timer, end_on_timer);
	open_objects++;
	reactor_sock_connect(r, &ends[0], &listener.addr, end_connected, end_ready);
	reactor_run(r);
	reactor_destroy(r);
}

static void close_with_a_poll_pending(void)
{
	run_end(false);
	EXPECT_EQ(0, end_result);
}

static void an_abort_is_a_reset(void)
{
	run_end(true);
	EXPECT_EQ(-ECONNRESET, end_result);
}

static int tcp_option(const struct reactor_sock *sock, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	CHECK(getsockopt(sock->fd, IPPROTO_TCP, name, &value, &len) == 0);
	return value;
}

static void options_connected(struct reactor_sock *sock, int res)
{
	EXPECT_EQ(0, res);
	EXPECT_EQ(0, tcp_option(sock, TCP_USER_TIMEOUT));
	reactor_sock_set_timeout(sock, 1234);
	EXPECT_EQ(1234, tcp_option(sock, TCP_USER_TIMEOUT));
	EXPECT_EQ(1, tcp_option(sock, TCP_KEEPIDLE));
	EXPECT_EQ(1, tcp_option(sock, TCP_KEEPINTVL));
	/* The handshake gives a first round trip. */
	EXPECT(reactor_sock_rtt_ns(sock) > 0);
	EXPECT(reactor_sock_rtt_ns(sock) < NS_PER_S);
}

static void a_host_can_bound_the_silence_of_the_network(void)
{
	open_reactor(0);
	open_listener("127.0.0.1:0", end_accepted);
	reactor_timer_init(r, &end_timer, end_on_timer);
	open_objects++;
	reactor_sock_connect(r, &ends[0], &listener.addr, options_connected, end_ready);
	reactor_run(r);
	EXPECT_EQ(0, reactor_sock_rtt_ns(&ends[0]));
	reactor_destroy(r);
}

static int connect_result;

static void refused_connected(struct reactor_sock *sock, int res)
{
	EXPECT_EQ(0, inside_call);
	connect_result = res;
	EXPECT_EQ(-1, sock->fd);
	reactor_stop(r);
}

static void connect_is_refused(void)
{
	struct net_addr addr;

	open_reactor(0);
	open_listener("127.0.0.1:0", end_accepted);
	addr = listener.addr;
	close_listener();
	reactor_run(r);
	reactor_destroy(r);
	/* The port was free just now and has no listener. */
	open_reactor(0);
	inside_call++;
	reactor_sock_connect(r, &ends[0], &addr, refused_connected, end_ready);
	inside_call--;
	reactor_run(r);
	EXPECT_EQ(-ECONNREFUSED, connect_result);
	reactor_destroy(r);
	/* A failure that the system call itself reports is delivered later too. */
	open_reactor(0);
	addr.storage.ss_family = AF_UNSPEC;
	inside_call++;
	reactor_sock_connect(r, &ends[0], &addr, refused_connected, end_ready);
	inside_call--;
	reactor_run(r);
	EXPECT_EQ(-EAFNOSUPPORT, connect_result);
	reactor_destroy(r);
}

static void unexpected_connected(struct reactor_sock *sock, int res)
{
	EXPECT(!"called after close");
}

static void close_while_connecting(void)
{
	struct net_addr addr;

	open_reactor(0);
	open_objects = 2;
	/* One connect in progress (192.0.2.0/24 is for documentation), and one that has failed. */
	CHECK(net_addr_parse("192.0.2.1:4420", 0, &addr) == 0);
	reactor_sock_connect(r, &ends[0], &addr, unexpected_connected, end_ready);
	addr.storage.ss_family = AF_UNSPEC;
	reactor_sock_connect(r, &ends[1], &addr, unexpected_connected, end_ready);
	close_sock(&ends[0]);
	close_sock(&ends[1]);
	reactor_run(r);
	EXPECT_EQ(0, open_objects);
	reactor_destroy(r);
}

/* ---- back-pressure --------------------------------------------------------------------------- */

static unsigned paused_calls;
static bool is_paused;

static void paused_ready(struct reactor_sock *sock, unsigned events)
{
	char bytes[16];
	struct iovec iov = {bytes, sizeof(bytes)};

	EXPECT(!is_paused);
	EXPECT_EQ(5, reactor_sock_available(sock));
	EXPECT_EQ(5, reactor_sock_recv(sock, &iov, 1));
	EXPECT_EQ(-EAGAIN, reactor_sock_recv(sock, &iov, 1));
	paused_calls++;
	close_sock(sock);
}

static void paused_on_timer(struct reactor_timer *timer)
{
	EXPECT_EQ(0, paused_calls);
	is_paused = false;
	reactor_sock_want(&ends[0], REACTOR_SOCK_READ);
}

static void reading_off_is_back_pressure(void)
{
	int fds[2];

	open_reactor(0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	open_objects = 1;
	paused_calls = 0;
	is_paused = true;
	reactor_sock_open(r, &ends[0], fds[0], paused_ready);
	reactor_sock_want(&ends[0], 0);
	EXPECT_EQ(5, write(fds[1], "hello", 5));
	reactor_timer_init(r, &end_timer, paused_on_timer);
	reactor_timer_arm(&end_timer, reactor_now_ns(r) + 3 * NS_PER_MS);
	reactor_run(r);
	EXPECT_EQ(1, paused_calls);
	close(fds[1]);
	reactor_destroy(r);
}

/* ---- listeners ------------------------------------------------------------------------------- */

static struct rlimit files_before;
static uint64_t starved_since_ns;

static void starved_accepted(struct reactor_listener *from, int fd, const struct net_addr *peer)
{
	/* After the first failure the listener waits 100 ms. */
	EXPECT(reactor_now_ns(r) - starved_since_ns >= 100 * NS_PER_MS);
	reactor_refuse_fd(fd);
	close_listener();
}

static void starved_on_timer(struct reactor_timer *timer)
{
	EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &files_before));
}

static void a_lack_of_files_is_waited_out(void)
{
	struct rlimit none;
	int fd;

	open_reactor(0);
	open_listener("127.0.0.1:0", starved_accepted);
	/* The port in use is reported. */
	EXPECT_EQ(-EADDRINUSE,
		  reactor_listener_open(r, &(struct reactor_listener){0}, &listener.addr, NULL));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(0,
		  connect(fd, (struct sockaddr *)&listener.addr.storage, listener.addr.len_bytes));
	CHECK(getrlimit(RLIMIT_NOFILE, &files_before) == 0);
	none = files_before;
	none.rlim_cur = (rlim_t)fd + 1;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	reactor_timer_init(r, &end_timer, starved_on_timer);
	starved_since_ns = reactor_now_ns(r);
	reactor_timer_arm(&end_timer, starved_since_ns + 20 * NS_PER_MS);
	reactor_run(r);
	close(fd);
	reactor_destroy(r);
}

/* ---- idle sockets ---------------------------------------------------------------------------- */

#define IDLE_SOCKS 100

static struct reactor_sock idle_socks[IDLE_SOCKS];
static uint64_t idle_cpu_ns;
static struct reactor_stats idle_stats;

static void idle_ready(struct reactor_sock *sock, unsigned events)
{
	char byte;
	struct iovec iov = {&byte, 1};

	EXPECT_EQ(-EAGAIN, reactor_sock_recv(sock, &iov, 1));
}

static void idle_end(struct reactor_timer *timer)
{
	struct reactor_stats stats;

	idle_cpu_ns = clock_thread_cpu_ns() - idle_cpu_ns;
	reactor_get_stats(r, &stats);
	/* Only this timer woke the reactor. */
	EXPECT(stats.sleeps - idle_stats.sleeps <= 2);
	for (unsigned i = 0; i < IDLE_SOCKS; i++)
		close_sock(&idle_socks[i]);
}

static void idle_begin(struct reactor_timer *timer)
{
	idle_cpu_ns = clock_thread_cpu_ns();
	reactor_get_stats(r, &idle_stats);
	timer->fn = idle_end;
	reactor_timer_arm(timer, reactor_now_ns(r) + 300 * NS_PER_MS);
}

static void idle_sockets_cost_no_cpu(void)
{
	int others[IDLE_SOCKS], fds[2];

	open_reactor(50);
	open_objects = IDLE_SOCKS;
	for (unsigned i = 0; i < IDLE_SOCKS; i++) {
		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
		reactor_sock_open(r, &idle_socks[i], fds[0], idle_ready);
		others[i] = fds[1];
	}
	reactor_timer_init(r, &end_timer, idle_begin);
	reactor_timer_arm(&end_timer, reactor_now_ns(r) + 5 * NS_PER_MS);
	reactor_run(r);
	printf("# CPU in 300 ms: %u us\n", (unsigned)(idle_cpu_ns / NS_PER_US));
	/* Spinning would use most of the 300 ms; a busy machine charges some interrupts here. */
	EXPECT(idle_cpu_ns < 30 * NS_PER_MS);
	for (unsigned i = 0; i < IDLE_SOCKS; i++)
		close(others[i]);
	reactor_destroy(r);
}

int main(void)
{
	TAP_RUN(echo_ping_pong);
	TAP_RUN(echo_full_pipes);
	TAP_RUN(echo_on_many_sockets);
	if (has_ipv6())
		TAP_RUN(echo_on_ipv6);
	else
		tap_skip("echo_on_ipv6", "no IPv6 loopback address");
	TAP_RUN(close_with_a_poll_pending);
	TAP_RUN(an_abort_is_a_reset);
	TAP_RUN(a_host_can_bound_the_silence_of_the_network);
	TAP_RUN(connect_is_refused);
	TAP_RUN(close_while_connecting);
	TAP_RUN(reading_off_is_back_pressure);
	TAP_RUN(a_lack_of_files_is_waited_out);
	TAP_RUN(idle_sockets_cost_no_cpu);
	return tap_end();
}
