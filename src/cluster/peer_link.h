/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection between two members of a cluster: the handshake, then numbered and signed
 * messages. Requests go from the dialer to the listener, so two members have two links. Lists of
 * namespaces go both ways. One reactor; private to cluster/.
 *
 *     dialer                       listener
 *     HELLO (names, nonce)   ---->
 *                            <---- CHALLENGE (names, nonce)
 *     PROOF                  ----> only now does the listener trust the dialer
 *                            <---- WELCOME (the listener's proof)
 */
#ifndef WEFT_CLUSTER_PEER_LINK_H
#define WEFT_CLUSTER_PEER_LINK_H

#include "cluster/peer_auth.h"
#include "reactor/reactor.h"

#define PEER_LINK_QUEUE_FRAMES 48 /* that wait to be sent; a longer queue ends the link */
#define PEER_LINK_ERROR_BYTES  128

/* What a member sends about itself. */
struct peer_self {
	const struct peers_config *config;
	uint8_t members[32];
	struct uuid boot_id;
	uint32_t pid;
};

enum peer_link_state {
	PEER_LINK_IDLE,
	PEER_LINK_CONNECTING,
	PEER_LINK_WANT_HELLO,
	PEER_LINK_WANT_CHALLENGE,
	PEER_LINK_WANT_PROOF,
	PEER_LINK_WANT_WELCOME,
	PEER_LINK_UP,
	PEER_LINK_CLOSING,
};

struct peer_link;

struct peer_link_handler {
	void (*up)(struct peer_link *link);
	/* A message whose signature and number are valid. May close the link. */
	void (*message)(struct peer_link *link, const struct peer_frame *frame);
	/* The last callback; link->error holds the reason. */
	void (*closed)(struct peer_link *link);
};

struct peer_link {
	const struct peer_self *self;
	const struct peer_link_handler *handler;
	enum peer_link_state state;
	bool is_dialer;
	bool was_up;
	char peer_name[PEER_NAME_BYTES]; /* expected name; of an accepted link: set by HELLO */
	uint32_t peer_pid;               /* as reported by the peer; for display only */
	struct uuid peer_boot_id;        /* boot ID of the peer's kernel; nil: unknown */
	/* Dialers over a Unix socket: the process at the other end; -1: none. A callback that takes
	 * it over sets -1. Opened before the handshake, which only a live process can answer, so
	 * the pidfd means that process. */
	int pidfd;
	uint64_t heard_ns; /* when the last message arrived */
	char error[PEER_LINK_ERROR_BYTES];
	/* Private to the link. */
	int address_res; /* -errno: the peer's address could not be made */
	struct reactor_sock sock;
	struct reactor_timer timer; /* limits the handshake */
	struct peer_transcript transcript;
	uint8_t send_key[PEER_KEY_BYTES];
	uint8_t receive_key[PEER_KEY_BYTES];
	uint64_t sent_number;
	uint64_t received_number;
	uint8_t in[PEER_FRAME_MAX];
	size_t in_bytes;
	uint8_t out[PEER_LINK_QUEUE_FRAMES * PEER_FRAME_MAX];
	size_t out_bytes;
};

void peer_link_dial(struct peer_link *link, struct reactor *reactor, const struct peer_self *self,
		    const struct peer_config *peer, const struct peer_link_handler *handler);
void peer_link_accept(struct peer_link *link, struct reactor *reactor, const struct peer_self *self,
		      int taken_fd, const struct peer_link_handler *handler);
/* True: the link is up and half of its queue is free. For messages that may be dropped. */
bool peer_link_is_free(const struct peer_link *link);
/* Sends while the link is up, else nothing; a full queue ends the link. body NULL: none. */
void peer_link_send(struct peer_link *link, enum peer_message type, const uint8_t *body);
/* Harmless when the link is idle or closing. */
void peer_link_close(struct peer_link *link, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Converts the address, "unix:" addresses too. 0 or -errno. *ret_folder is a descriptor that the
 * address depends on, which the caller closes after bind or connect; -1: none is needed. */
int peer_addr_to_net(const struct peer_addr *addr, struct net_addr *ret_addr, int *ret_folder);

#endif
