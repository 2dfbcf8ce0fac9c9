/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the fuzzers of whole connections: a reader of script bytes, and a bare socket on the
 * simulated reactor that sends bytes of the script. Included once by each program; one thread.
 */
#ifndef WEFT_TESTS_FUZZ_SCRIPT_H
#define WEFT_TESTS_FUZZ_SCRIPT_H

#include "sim.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PEER_OUT_BYTES (256 * 1024)

struct script {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t script_u8(struct script *script)
{
	if (script->left == 0)
		return 0;
	script->left--;
	return *script->at++;
}

static inline uint16_t script_u16(struct script *script)
{
	uint16_t low = script_u8(script);

	return (uint16_t)(low | script_u8(script) << 8);
}

static inline uint32_t script_u32(struct script *script)
{
	uint32_t low = script_u16(script);

	return low | (uint32_t)script_u16(script) << 16;
}

/* Missing bytes are zero. */
static inline void script_bytes(struct script *script, void *to, size_t len_bytes)
{
	size_t part = len_bytes < script->left ? len_bytes : script->left;

	memset(to, 0, len_bytes);
	memcpy(to, script->at, part);
	script->at += part;
	script->left -= part;
}

/* A socket that sends given bytes and discards what it receives; `heard`, if set, sees it first. */
struct peer {
	struct reactor_sock sock;
	bool is_open;
	bool is_connecting;
	bool is_deaf;
	void (*heard)(struct peer *peer, const uint8_t *bytes, size_t len_bytes);
	void *owner;
	size_t out_bytes;
	size_t out_done_bytes;
	uint8_t *out;
};

static void peer_closed(struct reactor_sock *sock)
{
	container_of(sock, struct peer, sock)->is_open = false;
}

static inline void peer_close(struct peer *peer, bool is_abort)
{
	if (!peer->is_open || peer->sock.closing)
		return;
	if (is_abort)
		reactor_sock_set_abort(&peer->sock);
	reactor_sock_close(&peer->sock, peer_closed);
}

static void peer_flush(struct peer *peer)
{
	unsigned wanted = peer->is_deaf ? 0 : REACTOR_SOCK_READ;

	while (peer->out_done_bytes < peer->out_bytes) {
		struct iovec iov = {.iov_base = peer->out + peer->out_done_bytes,
				    .iov_len = peer->out_bytes - peer->out_done_bytes};
		ssize_t sent = reactor_sock_send(&peer->sock, &iov, 1);

		if (sent == -EAGAIN)
			wanted |= REACTOR_SOCK_WRITE;
		if (sent <= 0)
			break;
		peer->out_done_bytes += (size_t)sent;
	}
	if (peer->out_done_bytes == peer->out_bytes) {
		peer->out_bytes = 0;
		peer->out_done_bytes = 0;
	}
	reactor_sock_want(&peer->sock, wanted);
}

/* Call inside a turn of the socket's reactor. Bytes that do not fit are dropped. */
static inline void peer_send(struct peer *peer, const void *bytes, size_t len_bytes)
{
	if (!peer->is_open || peer->sock.closing || len_bytes > PEER_OUT_BYTES - peer->out_bytes)
		return;
	memcpy(peer->out + peer->out_bytes, bytes, len_bytes);
	peer->out_bytes += len_bytes;
	if (!peer->is_connecting)
		peer_flush(peer);
}

static void peer_ready(struct reactor_sock *sock, unsigned events)
{
	struct peer *peer = container_of(sock, struct peer, sock);
	uint8_t bytes[4096];
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	ssize_t got = 1;

	if (events & REACTOR_SOCK_WRITE)
		peer_flush(peer);
	for (unsigned i = 0; i < 64 && got > 0 && !peer->is_deaf && !sock->closing; i++) {
		got = reactor_sock_recv(sock, &iov, 1);
		if (got > 0 && peer->heard)
			peer->heard(peer, bytes, (size_t)got);
	}
	if (got == 0 || (got < 0 && got != -EAGAIN))
		peer_close(peer, false);
}

static void peer_connected(struct reactor_sock *sock, int res)
{
	struct peer *peer = container_of(sock, struct peer, sock);

	peer->is_connecting = false;
	if (res != 0)
		peer->is_open = false;
	else
		peer_flush(peer);
}

static inline void peer_init(struct peer *peer)
{
	memset(peer, 0, sizeof(*peer));
	peer->out = malloc(PEER_OUT_BYTES);
	CHECK(peer->out != NULL);
}

static inline void peer_connect(struct peer *peer, struct reactor *reactor,
				const struct net_addr *addr)
{
	peer->is_open = true;
	peer->is_connecting = true;
	peer->out_bytes = 0;
	peer->out_done_bytes = 0;
	reactor_sock_connect(reactor, &peer->sock, addr, peer_connected, peer_ready);
}

static inline void peer_accept(struct peer *peer, struct reactor *reactor, int fd)
{
	peer->is_open = true;
	peer->out_bytes = 0;
	peer->out_done_bytes = 0;
	reactor_sock_open(reactor, &peer->sock, fd, peer_ready);
}

/* Runs until pred is false. Too many steps are a hang. */
static inline void run_while(struct sim *sim, bool (*pred)(void *arg), void *arg)
{
	uint64_t deadline_ns = sim_now(sim) + 300 * NS_PER_S;

	for (unsigned steps = 0; pred(arg); steps++) {
		CHECK(steps < 2000000 && sim_now(sim) < deadline_ns);
		CHECK(sim_step(sim));
	}
}

#endif
