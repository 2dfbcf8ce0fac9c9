/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other weft processes that serve the same namespaces: they end each other's controllers for a host
 * that has lost one (Cross-Controller Reset), and fence a process that does not answer.
 *
 * Links run over Unix sockets or TCP, on a reactor and thread of their own, which never wait for
 * the control reactor, a disk or a peer: a member that applies a large configuration, or syncs its
 * store, answers and resets. Both ends prove that they know the shared secret (HMAC-SHA-256 over
 * both nonces, OpenSSL), and every message carries a MAC with its number, so that nothing can be
 * forged, repeated or reordered.
 *
 * Fencing: a peer whose data path stands still for answer_ms is killed (SIGKILL through a pidfd
 * that was taken when the link came up; only on the same machine), and is dead when the locks that
 * it holds on the shared files are free: the kernel keeps them until the last I/O that it had
 * submitted is over (media/file.h). The data path stands still when the peer says so of one of its
 * reactors, or when the peer is silent and the kernel shows that none of its threads runs. Where
 * that is not possible the reset fails, and the host waits KATO + CQT.
 */
#ifndef WEFT_CLUSTER_PEERS_H
#define WEFT_CLUSTER_PEERS_H

#include "config/members.h"
#include "reactor/reactor.h"
#include "target/target.h"

#define PEERS_THREAD_NAME "weft-peers"

struct peers;

struct peers_reactors {
	struct reactor *control;
	struct reactor *peers;       /* runs, and does nothing else */
	struct reactor *const *data; /* of the target */
	unsigned data_count;
};

/* What peers need of the process. */
struct peers_hooks {
	/* What peers_may_serve answers has changed: build the configuration in force again, then
	 * peers_on_rebuilt. */
	void (*rebuild)(void *arg);
	/* Once: with 0, when shared namespaces were compared with the members that can be reached;
	 * or with -errno and a text. */
	void (*started)(void *arg, int res, const char *error);
	void *arg;
};

/* All of these on the control reactor, and so are their callbacks. */

/* Before the target; copies all arguments. keeper: where refusals survive a restart. 0 or -ENOMEM.
 */
int peers_create(const struct peers_reactors *reactors, const struct peers_config *config,
		 const struct keeper *keeper, struct peers **ret_peers);
/*
 * Listens and connects. Only once the first configuration is in force: whoever answers for a member
 * holds its locks, so that nothing of its predecessor can still write (media/member_lock.h).
 */
void peers_start(struct peers *peers, struct target *target, const struct peers_hooks *hooks);
/* 0, -ESHUTDOWN: the process ends, or another -errno, after the reason was logged. */
void peers_on_rebuilt(struct peers *peers, int res);
/*
 * Whether hosts may use this clustered namespace through this member: not before it was compared
 * with the members that can be reached, not while one of them has another size or block size under
 * its UUID and comes first, and not from when one that comes first had another file until the same
 * file is found there, or the operator asks for a recheck: over restarts, too. A file that is not
 * the one that was served last waits for the members that cannot be reached, too. Asked for every
 * configuration that is built.
 */
bool peers_may_serve(struct peers *peers, const struct ns *ns);
/* Whether the file of this medium is held for not being the right one, so that a recheck opens its
 * name again. */
bool peers_has_refused(struct peers *peers, const struct media *media);
/* The operator asks for another look at a namespace that is held. False: it is not. */
bool peers_recheck(struct peers *peers, const struct uuid *uuid, bool is_dry_run);
/* What is wrong with a namespace in the eyes of other members. False: nothing is. */
struct peers_problem {
	bool is_error; /* hosts cannot use it here; otherwise another member is the one to mend */
	char text[640];
};
bool peers_problem(struct peers *peers, const struct ns *ns, struct peers_problem *ret_problem);
/*
 * A file that this member shared before it was started, and whose namespace was removed since: it
 * is watched as those that are removed later, until no other member can write to it. Takes over the
 * watch (media/member_lock.h).
 */
void peers_watch_removed(struct peers *peers, const struct uuid *uuid, int taken_watch_fd);
/* A mark of lost writes was drawn for a medium of this process (ns/ns_live.h): members under
 * the same kernel are told. */
void peers_note_loss(struct peers *peers);
/* This configuration is about to be applied: what it shares is watched before a host can use it. */
void peers_will_apply(struct peers *peers, const struct snapshot *snapshot);
/* Another configuration is in force: what it shares is watched from now on, also when it is removed
 * again. */
void peers_look(struct peers *peers);
/* For struct target_config. The requests that it gets are the peers' until their `done`:
 * reset->node, ->msg and ->result too. */
struct target_peers peers_ops(struct peers *peers);
/* The target is about to end: what was asked of peers fails, and so does what follows. What they
 * ask is served on. */
void peers_stop_asking(struct peers *peers);
/* The target has shut down, and with it all its controllers: that is the answer from here on.
 * `over` comes when the target has nothing of ours any more, so that it may be destroyed. */
void peers_leave_target(struct peers *peers, void (*over)(void *arg), void *arg);
/* Started or not; after the target is destroyed, and before its reactors stop. `gone` comes later.
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
/* `done` comes later; infos is NULL without memory. */
void peers_list(struct peers *peers,
		void (*done)(void *arg, const struct peer_info *infos, unsigned count), void *arg);
/* At once, from a program whose reactors are simulated and run on one thread. */
unsigned peers_read(const struct peers *peers, struct peer_info infos[PEERS_MAX]);

#endif
