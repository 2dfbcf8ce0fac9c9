/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether another member is dead, and making it so. Control reactor.
 *
 * Dead means that no write of it can reach a file that we share any more. The kernel tells: the
 * lock that each of its descriptions holds (media/member_lock.c) is free when the last of its I/O
 * has ended. That is evidence on one machine only, so only peers behind a Unix socket are judged by
 * it. A peer is killed through a pidfd, which can never mean another process. Before, the killer
 * takes a lock that there is once per shared file: two members that want to kill each other at the
 * same time do not both die (docs/adr/0021-fencing-between-processes.md).
 */
#include "control/peers_private.h"

#include "base/log.h"
#include "media/member_lock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

static enum peer_evidence media_evidence(const struct peer *peer, const struct media *media)
{
	unsigned members = peer->peers->config.peer_count + 1;
	bool can_write = true, has_stranger = true;

	if (media_members_can_write(media, peer->config->index, 1, &can_write) < 0 ||
	    media_members_can_write(media, members, MEMBER_LOCK_MAX - members, &has_stranger) < 0)
		return PEER_EVIDENCE_ALIVE;
	/* Somebody counts more members than we do: whose lock is whose is not known then. */
	if (has_stranger)
		log_limited(LOG_LEVEL_WARN, "control",
			    "%s: somebody holds it as a member that our cluster does not have",
			    media->spec);
	return can_write || has_stranger ? PEER_EVIDENCE_ALIVE : PEER_EVIDENCE_DEAD;
}

static enum peer_evidence subsystem_evidence(const struct peer *peer,
					     const struct subsystem *subsystem)
{
	enum peer_evidence evidence = PEER_EVIDENCE_NONE;

	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];

		if (!ns->is_clustered)
			continue;
		evidence = media_evidence(peer, ns->media);
		if (evidence == PEER_EVIDENCE_ALIVE)
			break;
	}
	return evidence;
}

enum peer_evidence peer_evidence(const struct peer *peer, const char *subsystem_nqn)
{
	const struct target *target = peer->peers->target;
	const struct snapshot *snapshot = target ? target_snapshot(target) : NULL;
	const struct subsystem *subsystem =
		snapshot ? snapshot_find_subsystem(snapshot, subsystem_nqn) : NULL;
	enum peer_evidence evidence;

	if (!subsystem || peer->config->addr.path[0] == 0)
		return PEER_EVIDENCE_NONE;
	evidence = subsystem_evidence(peer, subsystem);
	/* Which subsystem such a file was of does not matter: waiting for it is never wrong. */
	if (evidence == PEER_EVIDENCE_DEAD && peer_can_write_elsewhere(peer))
		evidence = PEER_EVIDENCE_ALIVE;
	return evidence;
}

bool peer_process_is_over(const struct peer *peer)
{
	struct pollfd process = {.fd = peer->pidfd, .events = POLLIN};

	return peer->pidfd >= 0 && poll(&process, 1, 0) == 1 && (process.revents & POLLIN) != 0;
}

/* ---- the right to kill ------------------------------------------------------------------------
 */

static void fence_drop(struct peer *peer)
{
	const struct snapshot *snapshot =
		peer->peers->target ? target_snapshot(peer->peers->target) : NULL;

	for (unsigned s = 0; snapshot && s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			if (subsystem->namespaces[i].is_clustered)
				media_fence_drop(subsystem->namespaces[i].media);
		}
	}
	peer->holds_fence = false;
}

/* On every file that anybody shares with us, in the order of the document: whoever else wants to
 * kill needs one of these too. One peer at a time, so that we do not share the right with
 * ourselves. */
static int fence_take(struct peer *peer)
{
	const struct snapshot *snapshot = target_snapshot(peer->peers->target);
	unsigned taken = 0;
	int res = 0;

	for (unsigned i = 0; i < peer->peers->config.peer_count; i++) {
		if (peer->peers->peers[i].holds_fence)
			return -EAGAIN;
	}
	for (unsigned s = 0; res == 0 && s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		for (unsigned i = 0; res == 0 && i < subsystem->ns_count; i++) {
			const struct ns *ns = &subsystem->namespaces[i];

			if (!ns->is_clustered || ns->media->is_read_only)
				continue;
			res = media_fence_take(ns->media);
			taken++;
		}
	}
	peer->holds_fence = true;
	if (res == 0 && taken > 0)
		return 0;
	fence_drop(peer);
	return res < 0 ? res : -ENOLCK;
}

int peer_fence_step(struct peer *peer)
{
	int res;

	if (peer->is_killed || peer_process_is_over(peer))
		return 0;
	if (!peer->config->may_kill)
		return -EPERM;
	if (peer->pidfd < 0)
		return -ESRCH;
	res = fence_take(peer);
	if (res < 0)
		return res;
	if (pidfd_send_signal(peer->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH) {
		res = -errno;
		fence_drop(peer);
		return res;
	}
	peer->is_killed = true;
	peer->info.fences++;
	return 0;
}

void peer_fence_end(struct peer *peer)
{
	if (peer->holds_fence)
		fence_drop(peer);
	peer->is_killed = false;
	peer->waits_for_fence = false;
}
