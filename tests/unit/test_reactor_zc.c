/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-copy sends of the io_uring reactor over loopback, both ends on one reactor on the test's
 * thread: the bytes arrive, `sent` comes before `released`, loopback is reported as copied, and a
 * closing socket reports its end after the last release, not before.
 */
#include "base/clock.h"
#include "base/prng.h"
#include "reactor/reactor.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define STREAM_BYTES (8 * 1024 * 1024)
#define CHUNK_BYTES  (200 * 1000)
#define SENDS_MAX    256

struct zc_send {
	struct reactor_send send;
	struct iovec iov[3];
	int res;
	bool is_sent;
	bool is_released;
};

static struct reactor *r;
static struct reactor_listener listener;
static struct reactor_sock sender, receiver;
static struct reactor_timer timer;
static struct zc_send sends[SENDS_MAX];
static unsigned send_count, released_count, copied_count;
static uint8_t *stream, *received;
static size_t sent_bytes, received_bytes;
static unsigned open_objects;
static bool inside_call, is_sender_closed, is_reading, is_closing_early;
static void (*when_full)(void);

static void send_next(void);

static void object_closed(void)
{
	EXPECT(!inside_call);
	if (--open_objects == 0)
		reactor_stop(r);
}

static void on_sock_closed(struct reactor_sock *sock)
{
	EXPECT_EQ(-1, sock->fd);
	if (sock == &sender) {
		is_sender_closed = true;
		EXPECT_EQ(send_count, released_count);
	}
	object_closed();
}

static void on_listener_closed(struct reactor_listener *closed)
{
	object_closed();
}

static void close_sock(struct reactor_sock *sock)
{
	inside_call = true;
	reactor_sock_close(sock, on_sock_closed);
	inside_call = false;
}

static void on_sent(struct reactor_send *send, int res)
{
	struct zc_send *zs = container_of(send, struct zc_send, send);

	EXPECT(!inside_call && !zs->is_sent && !zs->is_released && !is_sender_closed);
	zs->is_sent = true;
	zs->res = res;
	if (res > 0)
		sent_bytes += (size_t)res;
	if (sender.closing)
		return;
	EXPECT(res > 0 || res == -EAGAIN);
	if (res == -EAGAIN && when_full)
		when_full();
	else if (res == -EAGAIN)
		reactor_sock_want(&sender, REACTOR_SOCK_WRITE);
	else
		send_next();
}

static void on_released(struct reactor_send *send, bool was_copied)
{
	struct zc_send *zs = container_of(send, struct zc_send, send);

	EXPECT(!inside_call && zs->is_sent && !zs->is_released && !is_sender_closed);
	EXPECT(!was_copied || zs->res > 0);
	zs->is_released = true;
	released_count++;
	copied_count += was_copied;
}

static void send_next(void)
{
	size_t left = STREAM_BYTES - sent_bytes;
	size_t len = left < CHUNK_BYTES ? left : CHUNK_BYTES;
	struct zc_send *zs = &sends[send_count];
	uint8_t *at = stream + sent_bytes;

	if (len < 3) {
		close_sock(&sender);
		return;
	}
	CHECK(send_count++ < SENDS_MAX);
	zs->send = (struct reactor_send){.sent = on_sent, .released = on_released};
	zs->iov[0] = (struct iovec){at, 1};
	zs->iov[1] = (struct iovec){at + 1, len / 2};
	zs->iov[2] = (struct iovec){at + 1 + len / 2, len - 1 - len / 2};
	inside_call = true;
	reactor_sock_send_zc(&sender, &zs->send, zs->iov, 3);
	inside_call = false;
	/* `sent` must come before the end, also for a socket that closes. */
	if (is_closing_early)
		close_sock(&sender);
}

static void sender_ready(struct reactor_sock *sock, unsigned events)
{
	uint8_t byte;
	struct iovec iov = {&byte, 1};

	if (events & REACTOR_SOCK_READ)
		(void)reactor_sock_recv(sock, &iov, 1);
	if (events & REACTOR_SOCK_WRITE) {
		reactor_sock_want(sock, REACTOR_SOCK_READ);
		send_next();
	}
}

static void sender_connected(struct reactor_sock *sock, int res)
{
	EXPECT_EQ(0, res);
	send_next();
}

static void receiver_ready(struct reactor_sock *sock, unsigned events)
{
	struct iovec iov = {received + received_bytes, STREAM_BYTES + 1 - received_bytes};
	ssize_t got = reactor_sock_recv(sock, &iov, 1);

	if (got > 0)
		received_bytes += (size_t)got;
	else if (got != -EAGAIN)
		close_sock(sock);
}

static void on_accepted(struct reactor_listener *from, int fd, const struct net_addr *peer)
{
	open_objects++;
	reactor_sock_open(r, &receiver, fd, receiver_ready);
	if (!is_reading)
		reactor_sock_want(&receiver, 0);
	reactor_listener_close(&listener, on_listener_closed);
}

static void run(bool reads, bool closes_early, void (*full)(void))
{
	struct reactor_config config = {.cpu = -1};
	struct net_addr addr;
	struct prng prng;

	CHECK(reactor_create(&config, &r) == 0);
	CHECK(net_addr_parse("127.0.0.1:0", 0, &addr) == 0);
	CHECK(reactor_listener_open(r, &listener, &addr, on_accepted) == 0);
	stream = malloc(STREAM_BYTES);
	received = malloc(STREAM_BYTES + 1);
	prng_seed(&prng, 7);
	prng_fill(&prng, stream, STREAM_BYTES);
	memset(sends, 0, sizeof(sends));
	send_count = released_count = copied_count = 0;
	sent_bytes = received_bytes = 0;
	is_sender_closed = false;
	is_reading = reads;
	is_closing_early = closes_early;
	when_full = full;
	open_objects = 2;
	reactor_sock_connect(r, &sender, &listener.addr, sender_connected, sender_ready);
	reactor_run(r);
	EXPECT(is_sender_closed);
	EXPECT_EQ(send_count, released_count);
	EXPECT(memcmp(stream, received, received_bytes) == 0);
	reactor_destroy(r);
	free(stream);
	free(received);
}

static void the_bytes_arrive_and_loopback_is_reported_as_copied(void)
{
	run(true, false, NULL);
	EXPECT_EQ(STREAM_BYTES, sent_bytes);
	EXPECT_EQ(STREAM_BYTES, received_bytes);
	EXPECT(copied_count > 0);
	printf("# %u sends, %u copied\n", send_count, copied_count);
}

/* The socket must not be closed before the request that uses it was submitted. */
static void a_close_right_behind_a_send_lets_it_through(void)
{
	run(true, true, NULL);
	EXPECT_EQ(1, send_count);
	EXPECT_EQ(CHUNK_BYTES, sent_bytes);
	EXPECT_EQ(CHUNK_BYTES, received_bytes);
}

static void abort_when_full(void)
{
	EXPECT(released_count < send_count);
	reactor_sock_set_abort(&sender);
	close_sock(&sender);
	close_sock(&receiver);
}

static void an_abort_releases_what_nobody_read(void)
{
	run(false, false, abort_when_full);
	EXPECT(sent_bytes > 0);
}

static void receiver_give_up(struct reactor_timer *fired)
{
	/* Unread bytes are still in the buffers: the end has to wait. */
	EXPECT(!is_sender_closed);
	EXPECT(released_count < send_count);
	close_sock(&receiver);
}

static void close_when_full(void)
{
	close_sock(&sender);
	reactor_timer_init(r, &timer, receiver_give_up);
	reactor_timer_arm(&timer, reactor_now_ns(r) + 50 * NS_PER_MS);
}

static void a_close_waits_for_the_last_release(void)
{
	run(false, false, close_when_full);
	EXPECT(sent_bytes > 0);
}

int main(void)
{
	struct reactor_config config = {.cpu = -1};
	bool can;

	CHECK(reactor_create(&config, &r) == 0);
	can = reactor_can_send_zc(r);
	reactor_destroy(r);
	if (!can) {
		tap_skip("zero-copy sends", "the kernel has none that report (Linux 6.2)");
		return tap_end();
	}
	TAP_RUN(the_bytes_arrive_and_loopback_is_reported_as_copied);
	TAP_RUN(a_close_right_behind_a_send_lets_it_through);
	TAP_RUN(an_abort_releases_what_nobody_read);
	TAP_RUN(a_close_waits_for_the_last_release);
	return tap_end();
}
