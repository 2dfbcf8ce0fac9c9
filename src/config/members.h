/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a cluster as the document names them: which of them this process is, where the
 * others are, and the controller IDs of each. Plain values; any thread.
 */
#ifndef WEFT_CONFIG_MEMBERS_H
#define WEFT_CONFIG_MEMBERS_H

#include "base/net_addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEERS_MAX         15
#define PEER_NAME_BYTES   64
#define PEER_SECRET_BYTES 32 /* at least so many characters in the secret's file */
#define PEER_SECRET_MAX   256
#define PEER_ANSWER_MS    500

/* "unix:/path" or an address with a port. */
struct peer_addr {
	char path[108]; /* empty: TCP */
	struct net_addr addr;
};

struct peer_config {
	char name[PEER_NAME_BYTES];
	unsigned index; /* among all members, by name */
	unsigned lock;  /* media/member_lock.h: its number */
	struct peer_addr addr;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	bool may_kill; /* on this machine, and killing it is allowed */
};

/* Of the document's "cluster": see docs/config-schema.json. */
struct peers_config {
	char name[PEER_NAME_BYTES]; /* ours */
	unsigned index;             /* ours among all members, by name */
	unsigned lock;              /* our number of media/member_lock.h */
	struct peer_addr listen;
	uint8_t secret[PEER_SECRET_MAX];
	size_t secret_bytes;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	uint32_t answer_ms; /* a peer whose data path stands still for so long is fenced */
	struct peer_config peers[PEERS_MAX];
	unsigned peer_count;
};

#endif
