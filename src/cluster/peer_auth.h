/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How members of a cluster prove that they know the shared secret, and sign messages: HMAC-SHA-256
 * over the whole handshake, with a different label for each purpose, so that nothing one side has
 * sent can be sent back to it. Pure, except for randomness; any thread.
 */
#ifndef WEFT_CLUSTER_PEER_AUTH_H
#define WEFT_CLUSTER_PEER_AUTH_H

#include "cluster/peer_message.h"

#define PEER_KEY_BYTES    32
#define PEER_SIGNED_HELLO (PEER_HEADER_BYTES + PEER_HELLO_BYTES)

/* Header and body of both hellos, in order: the input of proofs and keys. */
struct peer_transcript {
	uint8_t bytes[2 * PEER_SIGNED_HELLO];
};

enum peer_label {
	PEER_LABEL_DIALER_PROOF,
	PEER_LABEL_LISTENER_PROOF,
	PEER_LABEL_DIALER_KEY,
	PEER_LABEL_LISTENER_KEY,
};

/* 0 or -EIO. */
int peer_auth_derive(const struct peers_config *config, enum peer_label label,
		     const struct peer_transcript *transcript, uint8_t ret_mac[PEER_MAC_BYTES]);
int peer_auth_sign(const uint8_t key[PEER_KEY_BYTES], const uint8_t *bytes, size_t len_bytes,
		   uint8_t ret_mac[PEER_MAC_BYTES]);
/* Compares in constant time. */
bool peer_auth_equal(const uint8_t a[PEER_MAC_BYTES], const uint8_t b[PEER_MAC_BYTES]);
/* Hashes the names of all members and their ranges of controller identifiers, in order. */
int peer_auth_hash_members(const struct peers_config *config, uint8_t ret_hash[32]);
int peer_auth_nonce(uint8_t ret_nonce[PEER_NONCE_BYTES]);

#endif
