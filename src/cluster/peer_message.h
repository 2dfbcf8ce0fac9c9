/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members of a cluster say to each other, as bytes: pure encode, decode, validate. Everything
 * comes from somebody who may not have proven anything yet: sizes follow from the type alone.
 *
 * A frame is a header, a body of the size that its type has, and 32 bytes of proof (a MAC from the
 * handshake on, see cluster/peer_auth.h). Integers are little-endian.
 */
#ifndef WEFT_CLUSTER_PEER_MESSAGE_H
#define WEFT_CLUSTER_PEER_MESSAGE_H

#include "base/uuid.h"
#include "cluster/peers.h"
#include "media/member_lock.h"
#include "wire/nvme.h"

#include <stddef.h>
#include <stdint.h>

#define PEER_PROTOCOL_VERSION 4
#define PEER_HEADER_BYTES     24
#define PEER_MAC_BYTES        32
#define PEER_NONCE_BYTES      32
#define PEER_HELLO_BYTES      216
#define PEER_PONG_BYTES       16
#define PEER_RESET_BYTES      488
#define PEER_DONE_BYTES       16
#define PEER_LOST_BYTES       472
#define PEER_SERVED_BYTES     448
#define PEER_SEEN_BYTES       16
#define PEER_SERVED_ENTRIES   6     /* namespaces in one PEER_SERVED */
#define PEER_SERVED_MAX       65536 /* namespaces that one member shares */
#define PEER_FRAME_MAX        (PEER_HEADER_BYTES + PEER_RESET_BYTES + PEER_MAC_BYTES)

enum peer_message {
	PEER_HELLO = 1,      /* who connects, whom to, a nonce */
	PEER_CHALLENGE = 2,  /* the same of who was connected to */
	PEER_PROOF = 3,      /* of who connects */
	PEER_WELCOME = 4,    /* proof of who was connected to: the link is up */
	PEER_PING = 5,       /* from here on with a number */
	PEER_PONG = 6,       /* answers a ping, and tells whether the data path runs */
	PEER_RESET = 7,      /* end a controller */
	PEER_RESET_DONE = 8, /* it has ended */
	PEER_LOST_HOST = 9,  /* a controller of who connects has lost its host */
	PEER_SERVED = 10,    /* what the sender shares with others: a part of the list */
	PEER_SEEN = 11,      /* the list was compared */
};

struct peer_frame {
	enum peer_message type;
	uint64_t number;        /* 0 in the handshake */
	size_t body_bytes;      /* what the type has */
	const uint8_t *signed_; /* header and body: what the MAC is of */
	size_t signed_bytes;
	const uint8_t *body;
	const uint8_t *mac;
};

/*
 * The first frame of these bytes, pointing into them. Its size in bytes, 0 when it is not all there
 * yet, or -EPROTO with what is wrong with it.
 */
int peer_frame_decode(const uint8_t *bytes, size_t len_bytes, struct peer_frame *ret_frame,
		      const char **ret_error);
/* Everything but the MAC, which stands behind; returns the size with it. body NULL: zeroes, or
 * none. */
size_t peer_frame_encode(enum peer_message type, uint64_t number, const uint8_t *body,
			 uint8_t bytes[PEER_FRAME_MAX]);
size_t peer_body_bytes(enum peer_message type);

/* PEER_HELLO and PEER_CHALLENGE. */
struct peer_hello {
	char from[PEER_NAME_BYTES];
	char to[PEER_NAME_BYTES];
	uint8_t members[32]; /* hash of all members' names: they must agree */
	uint8_t nonce[PEER_NONCE_BYTES];
	struct uuid boot_id;
	uint32_t pid; /* for people: nothing is decided by it */
};

void peer_hello_encode(const struct peer_hello *hello, uint8_t body[PEER_HELLO_BYTES]);
/* 0 or -EPROTO. */
int peer_hello_decode(const uint8_t body[PEER_HELLO_BYTES], struct peer_hello *ret_hello);

/* PEER_PONG: the data reactor that has not taken a message for longest. */
struct peer_pulse {
	uint32_t stuck_ms; /* 0: all of them take messages */
	uint32_t reactor;  /* its index */
};

void peer_pong_encode(const struct peer_pulse *pulse, uint8_t body[PEER_PONG_BYTES]);
/* 0 or -EPROTO. */
int peer_pong_decode(const uint8_t body[PEER_PONG_BYTES], struct peer_pulse *ret_pulse);

/* PEER_RESET: of struct ctrl_reset. */
struct peer_reset {
	uint64_t id; /* of the request; comes back in PEER_RESET_DONE */
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	uint16_t cntlid;
	uint8_t uniquifier;
	uint64_t random_number;
	bool is_exclusive;
};

void peer_reset_encode(const struct peer_reset *reset, uint8_t body[PEER_RESET_BYTES]);
int peer_reset_decode(const uint8_t body[PEER_RESET_BYTES], struct peer_reset *ret_reset);

/* PEER_RESET_DONE; the result is an enum ctrl_reset_result. */
void peer_done_encode(uint64_t id, uint32_t result, uint8_t body[PEER_DONE_BYTES]);
int peer_done_decode(const uint8_t body[PEER_DONE_BYTES], uint64_t *ret_id, uint32_t *ret_result);

/* PEER_LOST_HOST. */
void peer_lost_encode(const struct lost_host *lost, uint8_t body[PEER_LOST_BYTES]);
int peer_lost_decode(const uint8_t body[PEER_LOST_BYTES], struct lost_host *ret_lost);

/* A shared namespace as one member has it. */
struct peer_served {
	struct uuid uuid;
	struct member_file file;
	uint64_t size_bytes;
	uint32_t block_bytes;
	uint16_t differs; /* members (bits by index) whose file is not this one, as far as we see */
	bool is_served;   /* to hosts; otherwise it is inaccessible through this member */
	/* Not served, because a member that served had another file, or it is not the one that was
	 * served last: others that have not served yet need not wait. */
	bool is_refused;
	uint64_t since_boot_ns; /* when this member began to serve it so: CLOCK_MONOTONIC */
	uint64_t since_real_ns; /* the same, CLOCK_REALTIME */
	uint64_t loss; /* the last mark of lost writes of its own, under its kernel; 0: none */
};

/* PEER_SERVED: `count` of the `total` entries of a list, from `first` on. */
struct peer_served_part {
	uint64_t generation; /* of the list: rises with each change; not 0 */
	uint32_t first;
	uint32_t total;
	unsigned count;
	struct peer_served entries[PEER_SERVED_ENTRIES];
};

void peer_served_encode(const struct peer_served_part *part, uint8_t body[PEER_SERVED_BYTES]);
int peer_served_decode(const uint8_t body[PEER_SERVED_BYTES], struct peer_served_part *ret_part);

/* PEER_SEEN: the list of this generation. */
void peer_seen_encode(uint64_t generation, uint8_t body[PEER_SEEN_BYTES]);
int peer_seen_decode(const uint8_t body[PEER_SEEN_BYTES], uint64_t *ret_generation);

#endif
