/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a cluster in the document: this process, the addresses of the other members, and
 * the controller IDs of each. Plain values; any thread.
 */
#ifndef WEFT_CONFIG_MEMBERS_H
#define WEFT_CONFIG_MEMBERS_H

#include "base/net_addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEERS_MAX         15
#define PEER_NAME_BYTES   64
#define PEER_SECRET_BYTES 32 /* minimum length of the secret, in characters */
#define PEER_SECRET_MAX   256
#define PEER_ANSWER_MS    500
#define PEER_PATH_BYTES   1024

/* "unix:/path" or an address with a port. */
struct peer_addr {
	char path[PEER_PATH_BYTES]; /* empty: TCP */
	struct net_addr addr;
};

struct peer_config {
	char name[PEER_NAME_BYTES];
	unsigned index; /* position among all members, sorted by name */
	unsigned lock;  /* lock number, see media/member_lock.h */
	struct peer_addr addr;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	bool may_kill; /* the peer is on this machine and may be killed */
};

/* The document's "cluster": see docs/config-schema.json. */
struct peers_config {
	char name[PEER_NAME_BYTES]; /* this member's */
	unsigned index;             /* this member's position among all members, sorted by name */
	unsigned lock;              /* this member's lock number, see media/member_lock.h */
	struct peer_addr listen;
	uint8_t secret[PEER_SECRET_MAX];
	size_t secret_bytes;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	uint32_t answer_ms; /* a peer whose data path stands still this long is fenced */
	struct peer_config peers[PEERS_MAX];
	unsigned peer_count;
};

#endif
