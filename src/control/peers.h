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
#define PEER_SECRET_MAX   256
#define PEER_ANSWER_MS    200

struct peers;

/* "unix:/path" or an address with a port. */
struct peer_addr {
	char path[108]; /* empty: TCP */
	struct net_addr addr;
};

struct peer_config {
	char name[PEER_NAME_BYTES];
	unsigned index; /* among all members, by name */
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
	uint8_t secret[PEER_SECRET_MAX];
	size_t secret_bytes;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	uint32_t answer_ms; /* a peer that does not answer for so long is fenced; 200 when 0 */
	struct peer_config peers[PEERS_MAX];
	unsigned peer_count;
};

/* On the control reactor, before the target; copies the configuration. 0 or -ENOMEM. */
int peers_create(struct reactor *control, const struct peers_config *config,
		 struct peers **ret_peers);
/*
 * Listens and connects. Only once the first configuration is in force: whoever answers for a member
 * holds its locks, so that nothing of its predecessor can still write (media/member_lock.h). 0, or
 * -errno with a text.
 */
int peers_start(struct peers *peers, struct target *target, char *error, size_t error_bytes);
/* Another configuration is in force: what it shares is watched from now on, also when it is removed
 * again. */
void peers_look(struct peers *peers);
/* For struct target_config. The requests that it gets are the peers' until their `done`:
 * reset->node,
 * ->msg and ->result too. */
struct target_peers peers_ops(struct peers *peers);
/* The target is about to end: what was asked of peers fails now, and so does what follows. What
 * they ask is served on. */
void peers_stop_asking(struct peers *peers);
/* The target has shut down, and with it all its controllers: that is the answer from here on.
 * `over` comes when it has nothing of ours any more, so that it may be destroyed; maybe from
 * inside. */
void peers_leave_target(struct peers *peers, void (*over)(void *arg), void *arg);
/* Started or not; after the target is destroyed: nobody asks any more. `gone` comes later, on the
 * control reactor.
 */
void peers_destroy(struct peers *peers, void (*gone)(void *arg), void *arg);
/* Those that were never started, when no reactor runs any more. NULL is harmless. */
void peers_discard(struct peers *peers);

/* A link as people see it. */
struct peer_info {
	char name[PEER_NAME_BYTES];
	bool is_up;
	bool is_fenced; /* killed by us, or found dead, and not seen since */
	uint64_t resets_asked;
	uint64_t resets_served;
	uint64_t fences;
	uint32_t pid;   /* as it says; 0 while the link is down */
	bool can_fence; /* its process is known, and may be killed */
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	char last_error[128];
};
unsigned peers_list(const struct peers *peers, struct peer_info *infos, unsigned max);

#endif
