/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs, keys and signatures between members of a cluster, with OpenSSL. Any thread; no state.
 *
 * The transcript contains both nonces, so a proof or key is valid for one connection only, and a
 * recorded proof is useless for another. Signatures cover the header, which holds the message
 * number.
 */
#include "cluster/peer_auth.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

static const char *const labels[] = {
	[PEER_LABEL_DIALER_PROOF] = "weft peer, proof of who connects",
	[PEER_LABEL_LISTENER_PROOF] = "weft peer, proof of who was connected to",
	[PEER_LABEL_DIALER_KEY] = "weft peer, key of who connects",
	[PEER_LABEL_LISTENER_KEY] = "weft peer, key of who was connected to",
};

int peer_auth_derive(const struct peers_config *config, enum peer_label label,
		     const struct peer_transcript *transcript, uint8_t ret_mac[PEER_MAC_BYTES])
{
	uint8_t text[64 + sizeof(transcript->bytes)] = {0};
	unsigned mac_bytes = 0;

	memcpy(text, labels[label], strlen(labels[label]));
	memcpy(text + 64, transcript->bytes, sizeof(transcript->bytes));
	if (!HMAC(EVP_sha256(), config->secret, (int)config->secret_bytes, text, sizeof(text),
		  ret_mac, &mac_bytes))
		return -EIO;
	return mac_bytes == PEER_MAC_BYTES ? 0 : -EIO;
}

int peer_auth_sign(const uint8_t key[PEER_KEY_BYTES], const uint8_t *bytes, size_t len_bytes,
		   uint8_t ret_mac[PEER_MAC_BYTES])
{
	unsigned mac_bytes = 0;

	if (!HMAC(EVP_sha256(), key, PEER_KEY_BYTES, bytes, len_bytes, ret_mac, &mac_bytes))
		return -EIO;
	return mac_bytes == PEER_MAC_BYTES ? 0 : -EIO;
}

bool peer_auth_equal(const uint8_t a[PEER_MAC_BYTES], const uint8_t b[PEER_MAC_BYTES])
{
	return CRYPTO_memcmp(a, b, PEER_MAC_BYTES) == 0;
}

static void member_put(uint8_t *text, unsigned index, const char *name, uint16_t first,
		       uint16_t last)
{
	uint8_t *at = text + (size_t)index * (PEER_NAME_BYTES + 4);

	memcpy(at, name, strnlen(name, PEER_NAME_BYTES - 1));
	at[PEER_NAME_BYTES] = (uint8_t)first;
	at[PEER_NAME_BYTES + 1] = (uint8_t)(first >> 8);
	at[PEER_NAME_BYTES + 2] = (uint8_t)last;
	at[PEER_NAME_BYTES + 3] = (uint8_t)(last >> 8);
}

int peer_auth_hash_members(const struct peers_config *config, uint8_t ret_hash[32])
{
	uint8_t text[(PEERS_MAX + 1) * (PEER_NAME_BYTES + 4)] = {0};
	unsigned hash_bytes = 0;

	member_put(text, config->index, config->name, config->cntlid_first, config->cntlid_last);
	for (unsigned i = 0; i < config->peer_count; i++) {
		const struct peer_config *peer = &config->peers[i];

		member_put(text, peer->index, peer->name, peer->cntlid_first, peer->cntlid_last);
	}
	return EVP_Digest(text, sizeof(text), ret_hash, &hash_bytes, EVP_sha256(), NULL) ? 0 : -EIO;
}

int peer_auth_nonce(uint8_t ret_nonce[PEER_NONCE_BYTES])
{
	return getrandom(ret_nonce, PEER_NONCE_BYTES, 0) == PEER_NONCE_BYTES ? 0 : -EIO;
}
