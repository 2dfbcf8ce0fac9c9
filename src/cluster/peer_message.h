/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between members of a cluster as bytes: pure encode, decode, validate. The sender may
 * not have proven anything yet, so sizes follow from the type alone.
 *
 * A frame is a header, a body of the size that belongs to its type, and 32 bytes of proof (a MAC
 * after the handshake, see cluster/peer_auth.h). Integers are little-endian.
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
	PEER_HELLO = 1,      /* names of dialer and listener, a nonce */
	PEER_CHALLENGE = 2,  /* the same from the listener */
	PEER_PROOF = 3,      /* the dialer's proof */
	PEER_WELCOME = 4,    /* the listener's proof: the link is up */
	PEER_PING = 5,       /* numbered, like all types from here on */
	PEER_PONG = 6,       /* answers a ping; reports whether the data path runs */
	PEER_RESET = 7,      /* end a controller */
	PEER_RESET_DONE = 8, /* result of a reset */
	PEER_LOST_HOST = 9,  /* a controller of the sender has lost its host */
	PEER_SERVED = 10,    /* a part of the sender's list of shared namespaces */
	PEER_SEEN = 11,      /* the receiver's list was compared */
};

struct peer_frame {
	enum peer_message type;
	uint64_t number;        /* 0 in the handshake */
	size_t body_bytes;      /* follows from the type */
	const uint8_t *signed_; /* header and body, which the MAC covers */
	size_t signed_bytes;
	const uint8_t *body;
	const uint8_t *mac;
};

/*
 * Decodes the first frame of `bytes`; *ret_frame points into them. Returns its size in bytes, 0
 * when the frame is incomplete, or -EPROTO with *ret_error.
 */
int peer_frame_decode(const uint8_t *bytes, size_t len_bytes, struct peer_frame *ret_frame,
		      const char **ret_error);
/* Writes all but the MAC, which the caller adds at the end. Returns the size with the MAC. body
 * NULL: zeroes, or no body. */
size_t peer_frame_encode(enum peer_message type, uint64_t number, const uint8_t *body,
			 uint8_t bytes[PEER_FRAME_MAX]);
size_t peer_body_bytes(enum peer_message type);

/* PEER_HELLO and PEER_CHALLENGE. */
struct peer_hello {
	char from[PEER_NAME_BYTES];
	char to[PEER_NAME_BYTES];
	uint8_t members[32]; /* hash of all members' names and ranges; must be equal */
	uint8_t nonce[PEER_NONCE_BYTES];
	struct uuid boot_id;
	uint32_t pid; /* for display only */
};

void peer_hello_encode(const struct peer_hello *hello, uint8_t body[PEER_HELLO_BYTES]);
/* 0 or -EPROTO. */
int peer_hello_decode(const uint8_t body[PEER_HELLO_BYTES], struct peer_hello *ret_hello);

/* PEER_PONG: the data reactor whose probe has waited longest. */
struct peer_pulse {
	uint32_t stuck_ms; /* 0: all reactors take messages */
	uint32_t reactor;  /* its index */
};

void peer_pong_encode(const struct peer_pulse *pulse, uint8_t body[PEER_PONG_BYTES]);
/* 0 or -EPROTO. */
int peer_pong_decode(const uint8_t body[PEER_PONG_BYTES], struct peer_pulse *ret_pulse);

/* PEER_RESET: fields of struct ctrl_reset. */
struct peer_reset {
	uint64_t id; /* of the request; PEER_RESET_DONE returns it */
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

/* A shared namespace, as one member has it. */
struct peer_served {
	struct uuid uuid;
	struct member_file file;
	uint64_t size_bytes;
	uint32_t block_bytes;
	uint16_t differs; /* members (bits by index) seen to have another file */
	bool is_served;   /* hosts may use it through this member */
	/* Not served because a member that served had another file, or because this file is not the
	 * one served last. Members that have not served yet need not wait for this member. */
	bool is_refused;
	uint64_t since_boot_ns; /* start of serving in this format: CLOCK_MONOTONIC */
	uint64_t since_real_ns; /* the same, CLOCK_REALTIME */
	uint64_t loss; /* last mark of lost writes drawn by the sender under its kernel; 0: none */
};

/* PEER_SERVED: `count` of the list's `total` entries, starting at `first`. */
struct peer_served_part {
	uint64_t generation; /* of the list: rises with each change; never 0 */
	uint32_t first;
	uint32_t total;
	unsigned count;
	struct peer_served entries[PEER_SERVED_ENTRIES];
};

void peer_served_encode(const struct peer_served_part *part, uint8_t body[PEER_SERVED_BYTES]);
int peer_served_decode(const uint8_t body[PEER_SERVED_BYTES], struct peer_served_part *ret_part);

/* PEER_SEEN: the list of this generation was compared. */
void peer_seen_encode(uint64_t generation, uint8_t body[PEER_SEEN_BYTES]);
int peer_seen_decode(const uint8_t body[PEER_SEEN_BYTES], uint64_t *ret_generation);

#endif
