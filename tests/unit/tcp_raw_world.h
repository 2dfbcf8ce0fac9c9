/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the engine against a bare socket, or against another connection, on the
 * simulated reactor, for tests of bytes: world_create, connect, send, run_ms, look, world_destroy.
 * world_destroy checks that everything was closed once and nothing leaks.
 */
#ifndef WEFT_TESTS_TCP_RAW_WORLD_H
#define WEFT_TESTS_TCP_RAW_WORLD_H

#include "../sim/sim.h"
#include "tap.h"

#include "base/clock.h"
#include "base/log.h"
#include "tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RAW_BYTES (2 * 1024 * 1024)

struct raw {
	struct reactor_sock sock;
	bool is_open;
	bool is_deaf; /* receives nothing */
	bool has_eof;
	int error;
	size_t received;
	uint8_t *bytes;
	const uint8_t *answer; /* sent when the first bytes have been received */
	size_t answer_bytes;
};

struct subject {
	struct tcp_conn conn;
	bool is_begun;
	unsigned ready_count;
	unsigned pdu_count;
	unsigned bad_digests;
	unsigned ending_count;
	unsigned closed_count;
	int cause;
	char why[80];
	uint8_t *dest;
	struct pdu last;
	struct pdu_error header_error; /* what on_header and on_whole return */
};

struct world {
	struct sim *sim;
	struct reactor *reactor;
	struct reactor_listener listener;
	struct raw raw;
	struct subject subject; /* tested against raw */
	struct subject other;   /* or tested against this connection */
	struct tcp_conn_config target_config;
	struct tcp_conn_config host_config;
	bool is_raw_listening; /* raw, not other, gets what the listener accepts */
	uint64_t flip_at;      /* offset in the host's stream of the byte to flip; 0: none */
};

static struct world *world; /* of the running case */

struct sent {
	struct tcp_tx tx;
	unsigned done_count;
	int res;
};

__attribute__((unused)) static void sent_done(struct tcp_tx *tx, int res)
{
	struct sent *sent = container_of(tx, struct sent, tx);

	sent->done_count++;
	sent->res = res;
}

/* ---- the engine's user --------------------------------------------------------------------- */

__attribute__((unused)) static void on_ready(struct tcp_conn *conn)
{
	container_of(conn, struct subject, conn)->ready_count++;
}

__attribute__((unused)) static struct pdu_error
on_header(struct tcp_conn *conn, const struct pdu *pdu, struct tcp_sink *sink, bool *ret_pause)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	if (pdu_is_error(subject->header_error))
		return subject->header_error;
	if (pdu->data_bytes > 0) {
		free(subject->dest);
		subject->dest = malloc(pdu->data_bytes);
		sink->dest = subject->dest;
		sink->granule_bytes = 1;
	}
	return PDU_OK;
}

__attribute__((unused)) static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu,
						       bool is_digest_ok)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	subject->pdu_count++;
	subject->bad_digests += !is_digest_ok;
	subject->last = *pdu;
	return PDU_OK;
}

__attribute__((unused)) static struct pdu_error on_whole(struct tcp_conn *conn,
							 const struct pdu *pdu, bool *ret_pause)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	EXPECT_EQ(0, pdu->data_bytes);
	if (pdu_is_error(subject->header_error))
		return subject->header_error;
	return on_pdu(conn, pdu, true);
}

__attribute__((unused)) static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	/* on_ending comes before the end of an open connection. */
	EXPECT_EQ(subject->ready_count, subject->ending_count);
	subject->closed_count++;
	subject->cause = cause;
	snprintf(subject->why, sizeof(subject->why), "%s", why);
}

__attribute__((unused)) static void on_ending(struct tcp_conn *conn)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	EXPECT(!tcp_conn_is_open(conn));
	EXPECT_EQ(0, subject->closed_count);
	subject->ending_count++;
}

static const struct tcp_conn_handler handler = {
	.on_ready = on_ready,
	.on_header = on_header,
	.on_pdu = on_pdu,
	.on_whole = on_whole,
	.on_closed = on_closed,
	.on_ending = on_ending,
};

/* ---- the bare socket ----------------------------------------------------------------------- */

__attribute__((unused)) static void raw_send(const void *bytes, size_t len_bytes)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len_bytes};

	/* The simulated socket sometimes takes fewer bytes than it has room for. */
	while (iov.iov_len > 0) {
		ssize_t len = reactor_sock_send(&world->raw.sock, &iov, 1);

		CHECK(len > 0 || len == -EAGAIN);
		if (len > 0) {
			iov.iov_base = (uint8_t *)iov.iov_base + len;
			iov.iov_len -= (size_t)len;
		}
	}
}

__attribute__((unused)) static void raw_ready(struct reactor_sock *sock, unsigned events)
{
	struct raw *raw = &world->raw;
	struct iovec iov = {.iov_base = raw->bytes + raw->received,
			    .iov_len = RAW_BYTES - raw->received};
	ssize_t len = reactor_sock_recv(sock, &iov, 1);

	if (len > 0) {
		raw->received += (size_t)len;
		if (raw->answer && raw->received >= NVME_TCP_IC_BYTES) {
			raw_send(raw->answer, raw->answer_bytes);
			raw->answer = NULL;
		}
	} else if (len != -EAGAIN) {
		raw->has_eof = len == 0;
		raw->error = (int)len;
		reactor_sock_want(sock, 0);
	}
}

__attribute__((unused)) static void raw_connected(struct reactor_sock *sock, int res)
{
	EXPECT_EQ(0, res);
	world->raw.is_open = true;
	if (world->raw.is_deaf)
		reactor_sock_want(sock, 0);
}

__attribute__((unused)) static void raw_closed(struct reactor_sock *sock)
{
	world->raw.is_open = false;
}

/* ---- the world ----------------------------------------------------------------------------- */

__attribute__((unused)) static void on_accepted(struct reactor_listener *listener, int taken_fd,
						const struct net_addr *peer)
{
	if (world->is_raw_listening) {
		reactor_sock_open(world->reactor, &world->raw.sock, taken_fd, raw_ready);
		world->raw.is_open = true;
		return;
	}
	world->subject.is_begun = true;
	EXPECT_EQ(0, tcp_conn_accept(&world->subject.conn, world->reactor, taken_fd,
				     &world->target_config, &handler));
}

__attribute__((unused)) static void tap_flip(void *arg, int fd, uint64_t offset, uint8_t *bytes,
					     size_t len_bytes)
{
	/* The first socket after the listener is the connecting one. */
	if (fd == SIM_FIRST_FD + 1 && world->flip_at >= offset &&
	    world->flip_at < offset + len_bytes && world->flip_at > 0)
		bytes[world->flip_at - offset] ^= 0x40;
}

__attribute__((unused)) static void world_create(const struct sim_options *options)
{
	struct reactor_config config = {.cpu = -1};
	struct net_addr any;

	world = calloc(1, sizeof(*world));
	world->raw.bytes = malloc(RAW_BYTES);
	world->sim = sim_create(42, options);
	sim_net_set_tap(world->sim, tap_flip, NULL);
	CHECK(reactor_create(&config, &world->reactor) == 0);
	CHECK(net_addr_parse("127.0.0.1:0", 0, &any) == 0);
	sim_enter(world->reactor);
	CHECK(reactor_listener_open(world->reactor, &world->listener, &any, on_accepted) == 0);
	world->target_config = (struct tcp_conn_config){
		.role = PDU_ROLE_TARGET,
		.allows_header_digest = true,
		.allows_data_digest = true,
		.data_align_bytes = 4,
		.data_max_bytes = 128 * 1024,
		.in_capsule_max_bytes = 8192,
		.ic_timeout_ms = 300,
		.term_timeout_ms = 200,
	};
	world->host_config = world->target_config;
	world->host_config.role = PDU_ROLE_HOST;
	world->host_config.max_r2t = 1;
	sim_leave(world->reactor);
}

__attribute__((unused)) static void run_ms(uint64_t ms)
{
	sim_run_until(world->sim, sim_now(world->sim) + ms * NS_PER_MS);
}

__attribute__((unused)) static void listener_closed(struct reactor_listener *listener)
{
}

__attribute__((unused)) static void world_destroy(void)
{
	sim_enter(world->reactor);
	reactor_listener_close(&world->listener, listener_closed);
	if (world->raw.is_open)
		reactor_sock_close(&world->raw.sock, raw_closed);
	if (world->other.is_begun && world->other.closed_count == 0)
		tcp_conn_close(&world->other.conn, "the test is over");
	sim_leave(world->reactor);
	run_ms(1000);
	EXPECT_EQ(world->subject.is_begun, world->subject.closed_count);
	EXPECT_EQ(world->other.is_begun, world->other.closed_count);
	EXPECT_EQ(0, sim_leaks(world->sim));
	sim_destroy(world->sim);
	free(world->subject.dest);
	free(world->other.dest);
	free(world->raw.bytes);
	free(world);
	world = NULL;
}

/* Connects a bare socket to our target. */
__attribute__((unused)) static void raw_connect(void)
{
	sim_enter(world->reactor);
	reactor_sock_connect(world->reactor, &world->raw.sock, &world->listener.addr, raw_connected,
			     raw_ready);
	sim_leave(world->reactor);
	run_ms(1);
}

__attribute__((unused)) static void raw_send_ic_req(bool wants_header_digest,
						    bool wants_data_digest)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];

	sim_enter(world->reactor);
	raw_send(hdr, pdu_encode_ic_req(hdr, 4, wants_header_digest, wants_data_digest, 1));
	sim_leave(world->reactor);
	run_ms(1);
}

__attribute__((unused)) static void raw_send_now(const void *bytes, size_t len_bytes)
{
	sim_enter(world->reactor);
	raw_send(bytes, len_bytes);
	sim_leave(world->reactor);
	run_ms(1);
}

/* Connects our host to the listener. */
__attribute__((unused)) static void host_connect(struct subject *host)
{
	host->is_begun = true;
	sim_enter(world->reactor);
	CHECK(tcp_conn_connect(&host->conn, world->reactor, &world->listener.addr,
			       &world->host_config, &handler) == 0);
	sim_leave(world->reactor);
}

#endif
