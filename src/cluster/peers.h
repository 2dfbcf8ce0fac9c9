/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other weft processes (peers) that serve the same namespaces. Members end each other's controllers
 * for a host that has lost one (Cross-Controller Reset), and fence a process that does not answer.
 *
 * Links run over Unix sockets or TCP, on a reactor and thread of their own. That thread never waits
 * for the control reactor, a disk or a peer, so a member that applies a large configuration or
 * syncs its store still answers and resets. Both ends prove that they know the shared secret
 * (HMAC-SHA-256 over both nonces, OpenSSL). Every message carries a MAC over its number, so no
 * message can be forged, repeated or reordered.
 *
 * Fencing: a peer whose data path stands still for answer_ms is killed: SIGKILL through the pidfd
 * taken when the link came up, on the same machine only. The data path stands still when the peer
 * reports a stuck reactor, or when the peer is silent and the kernel shows that none of its threads
 * runs. The peer is dead when its locks on the shared files are free: the kernel keeps them until
 * the peer's last submitted I/O has ended (media/file.h). Where fencing is not possible the reset
 * fails, and the host waits KATO + CQT.
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
	struct reactor *peers;       /* runs the links, and nothing else */
	struct reactor *const *data; /* of the target */
	unsigned data_count;
};

/* What peers need from the process. */
struct peers_hooks {
	/* The answers of peers_may_serve have changed: build the configuration in force again, then
	 * call peers_on_rebuilt. */
	void (*rebuild)(void *arg);
	/* Called once: with 0 when shared namespaces were compared with all members that can be
	 * reached, or with -errno and a message. */
	void (*started)(void *arg, int res, const char *error);
	void *arg;
};

/* All functions below are called on the control reactor; so are their callbacks. */

/* Call before the target is created; copies all arguments. Refusals survive a restart in `keeper`.
 * Returns 0 or -ENOMEM. */
int peers_create(const struct peers_reactors *reactors, const struct peers_config *config,
		 const struct keeper *keeper, struct peers **ret_peers);
/*
 * Listens and connects. Call only when the first configuration is in force: a process that answers
 * for a member must hold the member's locks, which proves that its predecessor can write no more
 * (media/member_lock.h).
 */
void peers_start(struct peers *peers, struct target *target, const struct peers_hooks *hooks);
/* res: 0, -ESHUTDOWN when the process ends, or another -errno whose reason was logged. */
void peers_on_rebuilt(struct peers *peers, int res);
/*
 * Whether hosts may use this clustered namespace through this member. False:
 * - before it was compared with the members that can be reached,
 * - while a member that comes first has another size or block size under its UUID,
 * - after a member that comes first had another file, over restarts too, until the same file is
 *   found there or the operator asks for a recheck.
 * A file other than the one served last also waits for the members that cannot be reached. Called
 * for every configuration that is built.
 */
bool peers_may_serve(struct peers *peers, const struct ns *ns);
/* Whether the medium's file is withheld because another member has another file. If so, a recheck
 * opens the file by its name again. */
bool peers_has_refused(struct peers *peers, const struct media *media);
/* The operator asks to compare a withheld namespace again. False: it is not withheld. Counts for
 * the configurations that are built until peers_end_recheck. */
bool peers_recheck(struct peers *peers, const struct uuid *uuid, bool is_dry_run);
/* The change that asked has ended; without success its recheck has no effect. Harmless without a
 * recheck. */
void peers_end_recheck(struct peers *peers, bool is_success);
/* What is wrong with a namespace compared with other members. False: nothing. */
struct peers_problem {
	bool is_error; /* hosts cannot use it here; false: the problem is on another member */
	char text[768];
};
bool peers_problem(struct peers *peers, const struct ns *ns, struct peers_problem *ret_problem);
/*
 * Watches a file that this member shared before it was started, and whose namespace was removed
 * since, until no other member can write to it, as for files removed later. Takes over the watch
 * (media/member_lock.h).
 */
void peers_watch_removed(struct peers *peers, const struct uuid *uuid, int taken_watch_fd);
/* A mark of lost writes was drawn for a medium of this process (ns/ns_live.h): sends it to members
 * under the same kernel. */
void peers_note_loss(struct peers *peers);
/* `snapshot` is about to be applied: watch its shared files before a host can use them. */
void peers_will_apply(struct peers *peers, const struct snapshot *snapshot);
/* Another configuration is in force: watch its shared files from now on, also after their
 * namespaces are removed. */
void peers_look(struct peers *peers);
/* For struct target_config. Requests passed to these functions belong to the peers until their
 * `done`, including reset->node, ->msg and ->result. */
struct target_peers peers_ops(struct peers *peers);
/* The target is about to end: resets asked of peers fail, and so do later ones. Requests from peers
 * are still served. */
void peers_stop_asking(struct peers *peers);
/* The target and all its controllers have shut down: requests from peers are answered with that
 * from here on. `over` is called when the target holds no request of the peers any more and may be
 * destroyed. */
void peers_leave_target(struct peers *peers, void (*over)(void *arg), void *arg);
/* Started or not. Call after the target is destroyed, before its reactors stop. `gone` comes
 * later. */
void peers_destroy(struct peers *peers, void (*gone)(void *arg), void *arg);
/* Frees peers that were never started, when no reactor runs any more. NULL is harmless. */
void peers_discard(struct peers *peers);

/* State of a peer, for the operator. */
struct peer_info {
	char name[PEER_NAME_BYTES];
	bool is_up;
	bool is_fenced; /* killed by this member, or found dead, and not linked since */
	uint64_t resets_asked;
	uint64_t resets_served;
	uint64_t fences;
	uint32_t pid;   /* as reported by the peer; 0 while the link is down */
	bool can_fence; /* its process is known and may be killed */
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	char last_error[128];
};
/* Calls `done` later, or at once with infos NULL when out of memory. */
void peers_list(struct peers *peers,
		void (*done)(void *arg, const struct peer_info *infos, unsigned count), void *arg);
/* Reads at once. Only for programs whose reactors are simulated and run on one thread. */
unsigned peers_read(const struct peers *peers, struct peer_info infos[PEERS_MAX]);

#endif
