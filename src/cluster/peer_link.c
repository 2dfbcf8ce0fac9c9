/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake and the signed messages between two members of a cluster, over a Unix socket or
 * TCP. One reactor.
 *
 * Everything the other side sends is treated as hostile until it has proven that it knows the
 * secret: a connection has a fixed amount of memory and two seconds, every state takes one type of
 * message of one size, and the first mistake ends the connection. Afterwards message numbers rise
 * by one, so no message can be repeated, left out or reordered.
 */
#include "cluster/peer_link.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/unix_addr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define HANDSHAKE_NS      (2 * NS_PER_S)
#define FRAMES_A_TURN     64
#define LINK_SO_PEERPIDFD 77 /* Linux 6.5; missing in older headers */

int peer_addr_to_net(const struct peer_addr *addr, struct net_addr *ret_addr, int *ret_folder)
{
	struct sockaddr_un path;
	int res;

	*ret_addr = addr->addr;
	*ret_folder = -1;
	if (addr->path[0] == 0)
		return 0;
	_Static_assert(sizeof(path) <= sizeof(ret_addr->storage), "an address holds a path");
	res = unix_addr_make(addr->path, &path, ret_folder);
	memset(ret_addr, 0, sizeof(*ret_addr));
	if (res < 0) {
		/* An address without a path, which the kernel refuses. An empty path would be an
		 * abstract name, to which any local process may listen. */
		ret_addr->storage.ss_family = AF_UNIX;
		ret_addr->len_bytes = sizeof(ret_addr->storage.ss_family);
		return res;
	}
	memcpy(&ret_addr->storage, &path, sizeof(path));
	ret_addr->len_bytes = sizeof(path);
	return 0;
}

/* ---- closing ----------------------------------------------------------------------------------
 */

static void sock_on_closed(struct reactor_sock *sock)
{
	struct peer_link *link = container_of(sock, struct peer_link, sock);

	link->state = PEER_LINK_IDLE;
	link->handler->closed(link);
}

void peer_link_close(struct peer_link *link, const char *format, ...)
{
	va_list args;

	if (link->state == PEER_LINK_IDLE || link->state == PEER_LINK_CLOSING)
		return;
	va_start(args, format);
	vsnprintf(link->error, sizeof(link->error), format, args);
	va_end(args);
	reactor_timer_cancel(&link->timer);
	explicit_bzero(link->send_key, sizeof(link->send_key));
	explicit_bzero(link->receive_key, sizeof(link->receive_key));
	link->state = PEER_LINK_CLOSING;
	reactor_sock_close(&link->sock, sock_on_closed);
}

static void link_on_late(struct reactor_timer *timer)
{
	peer_link_close(container_of(timer, struct peer_link, timer),
			"no handshake within two seconds");
}

/* ---- sending ----------------------------------------------------------------------------------
 */

static void link_flush(struct peer_link *link)
{
	while (link->out_bytes > 0) {
		const struct iovec iov = {.iov_base = link->out, .iov_len = link->out_bytes};
		ssize_t sent = reactor_sock_send(&link->sock, &iov, 1);

		if (sent == -EAGAIN) {
			reactor_sock_want(&link->sock, REACTOR_SOCK_READ | REACTOR_SOCK_WRITE);
			return;
		}
		if (sent < 0) {
			peer_link_close(link, "%s", strerror((int)-sent));
			return;
		}
		link->out_bytes -= (size_t)sent;
		memmove(link->out, link->out + sent, link->out_bytes);
	}
	reactor_sock_want(&link->sock, REACTOR_SOCK_READ);
}

/* The last PEER_MAC_BYTES of the frame hold its MAC. */
static void link_queue(struct peer_link *link, const uint8_t *frame, size_t frame_bytes)
{
	if (link->out_bytes + frame_bytes > sizeof(link->out)) {
		peer_link_close(link, "the peer does not read from the link");
		return;
	}
	memcpy(link->out + link->out_bytes, frame, frame_bytes);
	link->out_bytes += frame_bytes;
	link_flush(link);
}

bool peer_link_is_free(const struct peer_link *link)
{
	return link->state == PEER_LINK_UP && link->out_bytes <= sizeof(link->out) / 2;
}

void peer_link_send(struct peer_link *link, enum peer_message type, const uint8_t *body)
{
	uint8_t frame[PEER_FRAME_MAX];
	size_t frame_bytes;

	if (link->state != PEER_LINK_UP)
		return;
	frame_bytes = peer_frame_encode(type, ++link->sent_number, body, frame);
	if (peer_auth_sign(link->send_key, frame, frame_bytes - PEER_MAC_BYTES,
			   frame + frame_bytes - PEER_MAC_BYTES) < 0)
		peer_link_close(link, "cannot sign a message");
	else
		link_queue(link, frame, frame_bytes);
}

/* Sends HELLO or CHALLENGE, and copies it into the transcript. */
static void hello_send(struct peer_link *link, enum peer_message type)
{
	const struct peer_self *self = link->self;
	struct peer_hello hello = {.boot_id = self->boot_id, .pid = self->pid};
	uint8_t body[PEER_HELLO_BYTES], frame[PEER_FRAME_MAX];
	size_t frame_bytes;

	text_copy(hello.from, sizeof(hello.from), self->config->name);
	text_copy(hello.to, sizeof(hello.to), link->peer_name);
	memcpy(hello.members, self->members, sizeof(hello.members));
	if (peer_auth_nonce(hello.nonce) < 0) {
		peer_link_close(link, "cannot read random numbers");
		return;
	}
	peer_hello_encode(&hello, body);
	frame_bytes = peer_frame_encode(type, 0, body, frame);
	memcpy(link->transcript.bytes + (type == PEER_HELLO ? 0 : PEER_SIGNED_HELLO), frame,
	       PEER_SIGNED_HELLO);
	link_queue(link, frame, frame_bytes);
}

static void proof_send(struct peer_link *link, enum peer_message type)
{
	uint8_t frame[PEER_FRAME_MAX];
	size_t frame_bytes = peer_frame_encode(type, 0, NULL, frame);

	if (peer_auth_derive(link->self->config,
			     link->is_dialer ? PEER_LABEL_DIALER_PROOF : PEER_LABEL_LISTENER_PROOF,
			     &link->transcript, frame + frame_bytes - PEER_MAC_BYTES) < 0)
		peer_link_close(link, "cannot sign a message");
	else
		link_queue(link, frame, frame_bytes);
}

/* ---- the handshake ----------------------------------------------------------------------------
 */

static bool is_member(const struct peers_config *config, const char *name)
{
	for (unsigned i = 0; i < config->peer_count; i++) {
		if (strcmp(config->peers[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Decodes HELLO or CHALLENGE, copies it into the transcript and checks both names. */
static bool hello_take(struct peer_link *link, const struct peer_frame *frame,
		       struct peer_hello *ret_hello)
{
	const struct peers_config *config = link->self->config;

	memcpy(link->transcript.bytes + (frame->type == PEER_HELLO ? 0 : PEER_SIGNED_HELLO),
	       frame->signed_, PEER_SIGNED_HELLO);
	if (peer_hello_decode(frame->body, ret_hello) < 0)
		peer_link_close(link, "malformed greeting");
	else if (strcmp(ret_hello->to, config->name) != 0)
		peer_link_close(
			link,
			"the peer expects member \"%s\" at this address, and this member is \"%s\"",
			ret_hello->to, config->name);
	else if (link->is_dialer && strcmp(ret_hello->from, link->peer_name) != 0)
		peer_link_close(link, "the member at this address is \"%s\"", ret_hello->from);
	else if (!is_member(config, ret_hello->from))
		peer_link_close(link, "\"%s\" is not a member of this cluster", ret_hello->from);
	else
		return true;
	return false;
}

static bool members_agree(struct peer_link *link, const uint8_t members[32])
{
	if (memcmp(members, link->self->members, 32) == 0)
		return true;
	peer_link_close(link,
			"the two documents differ in the members or their controller identifiers");
	return false;
}

static bool proof_is_right(const struct peer_link *link, const struct peer_frame *frame)
{
	uint8_t wanted[PEER_MAC_BYTES];

	return peer_auth_derive(link->self->config,
				link->is_dialer ? PEER_LABEL_LISTENER_PROOF
						: PEER_LABEL_DIALER_PROOF,
				&link->transcript, wanted) == 0 &&
	       peer_auth_equal(wanted, frame->mac);
}

static void link_rise(struct peer_link *link)
{
	const struct peers_config *config = link->self->config;
	enum peer_label ours = link->is_dialer ? PEER_LABEL_DIALER_KEY : PEER_LABEL_LISTENER_KEY;
	enum peer_label theirs = link->is_dialer ? PEER_LABEL_LISTENER_KEY : PEER_LABEL_DIALER_KEY;

	if (peer_auth_derive(config, ours, &link->transcript, link->send_key) < 0 ||
	    peer_auth_derive(config, theirs, &link->transcript, link->receive_key) < 0) {
		peer_link_close(link, "cannot derive the keys of the link");
		return;
	}
	reactor_timer_cancel(&link->timer);
	link->state = PEER_LINK_UP;
	link->was_up = true;
	link->handler->up(link);
}

static void on_hello(struct peer_link *link, const struct peer_frame *frame)
{
	struct peer_hello hello;

	if (!hello_take(link, frame, &hello))
		return;
	text_copy(link->peer_name, sizeof(link->peer_name), hello.from);
	link->peer_pid = hello.pid;
	link->peer_boot_id = hello.boot_id;
	link->state = PEER_LINK_WANT_PROOF;
	hello_send(link, PEER_CHALLENGE);
}

static void on_challenge(struct peer_link *link, const struct peer_frame *frame)
{
	struct peer_hello hello;

	if (!hello_take(link, frame, &hello) || !members_agree(link, hello.members))
		return;
	link->peer_pid = hello.pid;
	link->peer_boot_id = hello.boot_id;
	link->state = PEER_LINK_WANT_WELCOME;
	proof_send(link, PEER_PROOF);
}

static void on_proof(struct peer_link *link, const struct peer_frame *frame)
{
	struct peer_hello hello;

	if (!proof_is_right(link, frame)) {
		peer_link_close(link, "wrong secret: all members need the same secret");
		return;
	}
	if (peer_hello_decode(link->transcript.bytes + PEER_HEADER_BYTES, &hello) < 0 ||
	    !members_agree(link, hello.members))
		return;
	proof_send(link, PEER_WELCOME);
	if (link->state == PEER_LINK_WANT_PROOF)
		link_rise(link);
}

static void on_welcome(struct peer_link *link, const struct peer_frame *frame)
{
	if (proof_is_right(link, frame))
		link_rise(link);
	else
		peer_link_close(link, "wrong secret: all members need the same secret");
}

static void on_signed(struct peer_link *link, const struct peer_frame *frame)
{
	uint8_t wanted[PEER_MAC_BYTES];

	if (frame->number != link->received_number + 1 ||
	    peer_auth_sign(link->receive_key, frame->signed_, frame->signed_bytes, wanted) < 0 ||
	    !peer_auth_equal(wanted, frame->mac)) {
		peer_link_close(link, "a forged, repeated or reordered message");
		return;
	}
	link->received_number = frame->number;
	link->handler->message(link, frame);
}

static const struct {
	enum peer_message type;
	void (*take)(struct peer_link *link, const struct peer_frame *frame);
} expected[] = {
	[PEER_LINK_WANT_HELLO] = {PEER_HELLO, on_hello},
	[PEER_LINK_WANT_CHALLENGE] = {PEER_CHALLENGE, on_challenge},
	[PEER_LINK_WANT_PROOF] = {PEER_PROOF, on_proof},
	[PEER_LINK_WANT_WELCOME] = {PEER_WELCOME, on_welcome},
};

static void frame_take(struct peer_link *link, const struct peer_frame *frame)
{
	link->heard_ns = reactor_now_ns(link->sock.reactor);
	if (link->state == PEER_LINK_UP && frame->type >= PEER_PING)
		on_signed(link, frame);
	else if (link->state < PEER_LINK_UP && frame->type == expected[link->state].type)
		expected[link->state].take(link, frame);
	else
		peer_link_close(link, "unexpected message");
}

/* ---- receiving --------------------------------------------------------------------------------
 */

static bool link_is_open(const struct peer_link *link)
{
	return link->state != PEER_LINK_IDLE && link->state != PEER_LINK_CLOSING;
}

/* Receives once, and takes all frames that are complete then. False: nothing more to receive
 * now. */
static bool link_receive(struct peer_link *link)
{
	const struct iovec iov = {.iov_base = link->in + link->in_bytes,
				  .iov_len = sizeof(link->in) - link->in_bytes};
	ssize_t got = reactor_sock_recv(&link->sock, &iov, 1);

	if (got == -EAGAIN)
		return false;
	if (got <= 0) {
		if (link->state == PEER_LINK_WANT_WELCOME && got == 0)
			peer_link_close(link, "the peer refused this member; check that both have "
					      "the same secret");
		else
			peer_link_close(link, "%s",
					got == 0 ? "the peer closed the link"
						 : strerror((int)-got));
		return false;
	}
	link->in_bytes += (size_t)got;
	while (link_is_open(link)) {
		struct peer_frame frame;
		const char *error;
		int used = peer_frame_decode(link->in, link->in_bytes, &frame, &error);

		if (used == 0)
			return true;
		if (used < 0) {
			peer_link_close(link, "%s", error);
			return false;
		}
		frame_take(link, &frame);
		link->in_bytes -= (size_t)used;
		memmove(link->in, link->in + used, link->in_bytes);
	}
	return false;
}

static void link_on_ready(struct reactor_sock *sock, unsigned events)
{
	struct peer_link *link = container_of(sock, struct peer_link, sock);

	if (events & REACTOR_SOCK_WRITE)
		link_flush(link);
	for (unsigned i = 0; (events & REACTOR_SOCK_READ) && i < FRAMES_A_TURN; i++) {
		if (!link_is_open(link) || !link_receive(link))
			return;
	}
}

/* ---- opening ----------------------------------------------------------------------------------
 */

/* The process at the other end of a Unix socket; -1: unknown. */
static int peer_pidfd(int fd)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);
	struct ucred cred;

	if (getsockopt(fd, SOL_SOCKET, LINK_SO_PEERPIDFD, &pidfd, &len) == 0 && pidfd >= 0)
		return pidfd;
	len = sizeof(cred);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.pid <= 0)
		return -1;
	return (int)syscall(SYS_pidfd_open, cred.pid, 0);
}

static void link_init(struct peer_link *link, struct reactor *reactor, const struct peer_self *self,
		      const struct peer_link_handler *handler)
{
	memset(link, 0, sizeof(*link));
	link->self = self;
	link->handler = handler;
	link->pidfd = -1;
	link->heard_ns = reactor_now_ns(reactor);
	reactor_timer_init(reactor, &link->timer, link_on_late);
	reactor_timer_arm(&link->timer, link->heard_ns + HANDSHAKE_NS);
}

static void link_on_connected(struct reactor_sock *sock, int res)
{
	struct peer_link *link = container_of(sock, struct peer_link, sock);

	if (res < 0) {
		reactor_timer_cancel(&link->timer);
		snprintf(link->error, sizeof(link->error), "%s",
			 strerror(link->address_res < 0 ? -link->address_res : -res));
		link->state = PEER_LINK_IDLE;
		link->handler->closed(link);
		return;
	}
	link->pidfd = peer_pidfd(sock->fd);
	link->state = PEER_LINK_WANT_CHALLENGE;
	hello_send(link, PEER_HELLO);
}

void peer_link_dial(struct peer_link *link, struct reactor *reactor, const struct peer_self *self,
		    const struct peer_config *peer, const struct peer_link_handler *handler)
{
	struct net_addr addr;
	int folder;

	link_init(link, reactor, self, handler);
	link->is_dialer = true;
	link->state = PEER_LINK_CONNECTING;
	text_copy(link->peer_name, sizeof(link->peer_name), peer->name);
	/* An address that could not be made has no path: connecting fails later, as for any other
	 * peer that is not there. */
	link->address_res = peer_addr_to_net(&peer->addr, &addr, &folder);
	reactor_sock_connect(reactor, &link->sock, &addr, link_on_connected, link_on_ready);
	if (folder >= 0)
		close(folder);
}

void peer_link_accept(struct peer_link *link, struct reactor *reactor, const struct peer_self *self,
		      int taken_fd, const struct peer_link_handler *handler)
{
	link_init(link, reactor, self, handler);
	link->state = PEER_LINK_WANT_HELLO;
	reactor_sock_open(reactor, &link->sock, taken_fd, link_on_ready);
}
