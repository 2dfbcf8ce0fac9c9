/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other weft processes that serve the same namespaces: they end each other's controllers for a host
 * that has lost one (Cross-Controller Reset), and fence a process that does not answer.
 *
 * Links run over Unix sockets or TCP, on the control reactor. Both ends prove that they know the
 * shared secret (HMAC-SHA-256 over both nonces, OpenSSL), and every message carries a MAC with its
 * number, so that nothing can be forged, repeated or reordered.
 *
 * Fencing: a peer that does not answer within fence_ms is killed (SIGKILL through a pidfd that was
 * taken when the link came up; only on the same machine), and is dead when the locks that it holds
 * on the shared files are free: the kernel keeps them until the last I/O that it had submitted is
 * over (media/file.h). Where that is not possible the reset fails, and the host waits KATO + CQT.
 */
#ifndef WEFT_CONTROL_PEERS_H
#define WEFT_CONTROL_PEERS_H

#include "base/net_addr.h"
#include "reactor/reactor.h"
#include "target/target.h"

#define PEERS_MAX         15
#define PEER_NAME_BYTES   64
#define PEER_SECRET_BYTES 32 /* at least so many characters in the secret's file */

struct peers;

/* "unix:/path" or an address with a port. */
struct peer_addr {
	char path[108]; /* empty: TCP */
	struct net_addr addr;
};

struct peer_config {
	char name[PEER_NAME_BYTES];
	struct peer_addr addr;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	bool may_kill; /* on this machine, and killing it is allowed */
};

/* Of the document's "cluster": see docs/config-schema.json. */
struct peers_config {
	char name[PEER_NAME_BYTES]; /* ours */
	unsigned index;             /* ours among all members, by name: whose lock is whose */
	struct peer_addr listen;
	uint8_t secret[64];
	size_t secret_bytes;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	uint32_t answer_ms; /* a peer that does not answer for so long is fenced; 200 when 0 */
	struct peer_config peers[PEERS_MAX];
	unsigned peer_count;
};

/* On the control reactor. 0, or -errno with a text. target is used from the first message on. */
int peers_create(struct reactor *control, const struct peers_config *config,
		 struct peers **ret_peers, char *error, size_t error_bytes);
void peers_set_target(struct peers *peers, struct target *target);
/* For struct target_config. */
struct target_peers peers_ops(struct peers *peers);
void peers_destroy(struct peers *peers, void (*gone)(void *arg), void *arg);

/* A link as people see it. */
struct peer_info {
	char name[PEER_NAME_BYTES];
	bool is_up;
	bool is_fenced; /* killed by us, or found dead, and not seen since */
	uint64_t resets_asked;
	uint64_t resets_served;
	uint64_t fences;
	char last_error[128];
};
unsigned peers_list(const struct peers *peers, struct peer_info *infos, unsigned max);

#endif
