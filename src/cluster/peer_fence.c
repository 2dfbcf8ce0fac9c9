/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether another member is dead, and how it is killed. Reactor of the peers.
 *
 * Dead means that no write of the member can reach a shared file any more. The kernel shows this:
 * the lock held by each of the member's file descriptions (media/member_lock.c) is free when its
 * last I/O has ended. Locks are evidence on one machine only, so only peers behind a Unix socket
 * are judged by them. A peer is killed through a pidfd, which can never mean another process.
 * Before the kill, the killer takes a lock that exists once per shared file, so that two members
 * that want to kill each other do not both die (docs/adr/0021-fencing-between-processes.md).
 */
#include "cluster/peers_private.h"

#include "base/log.h"
#include "media/member_lock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

static const struct peer_file_table *file_table_of(const struct peer *peer)
{
	return atomic_load_explicit(&peer->peers->file_table, memory_order_acquire);
}

static enum peer_evidence file_evidence(const struct peer *peer,
					const struct peer_file_entry *shared)
{
	bool can_write = true;

	/* Locks on a file that the peer does not have prove nothing about the peer. */
	if (shared->fd < 0 || (shared->differs >> peer->config->index & 1) != 0)
		return PEER_EVIDENCE_NONE;
	/* The lock number follows from the peer's name, whatever members the peer has
	 * configured. */
	if (member_lock_is_held(shared->fd, peer->config->lock, 1, &can_write) < 0)
		return PEER_EVIDENCE_ALIVE;
	return can_write ? PEER_EVIDENCE_ALIVE : PEER_EVIDENCE_DEAD;
}

/* One file whose locks cannot be read leaves the whole subsystem without evidence. */
static enum peer_evidence subsystem_evidence(const struct peer *peer,
					     const struct peer_file_table *table, const char *nqn)
{
	enum peer_evidence evidence = PEER_EVIDENCE_NONE;

	for (unsigned i = 0; i < table->count; i++) {
		const struct peer_file_entry *shared = &table->entries[i];

		if (shared->subsystem == PEER_FILE_UNSERVED ||
		    strcmp(table->names[shared->subsystem], nqn) != 0)
			continue;
		evidence = file_evidence(peer, shared);
		if (evidence != PEER_EVIDENCE_DEAD)
			break;
	}
	return evidence;
}

/* Whether the peer holds a file that we shared once and do not serve any more. */
static bool can_write_elsewhere(const struct peer *peer, const struct peer_file_table *table)
{
	for (unsigned i = 0; i < table->count; i++) {
		const struct peer_file_entry *shared = &table->entries[i];
		bool is_held = true;

		if (shared->subsystem == PEER_FILE_UNSERVED &&
		    (member_lock_is_held(shared->fd, peer->config->lock, 1, &is_held) < 0 ||
		     is_held))
			return true;
	}
	return false;
}

enum peer_evidence peer_evidence(const struct peer *peer, const char *subsystem_nqn)
{
	const struct peer_file_table *table = file_table_of(peer);
	enum peer_evidence evidence;

	if (!table || peer->config->addr.path[0] == 0)
		return PEER_EVIDENCE_NONE;
	evidence = subsystem_evidence(peer, table, subsystem_nqn);
	/* The table does not know the subsystem of such a file. Waiting for its lock is always
	 * safe. */
	if (evidence == PEER_EVIDENCE_DEAD && can_write_elsewhere(peer, table))
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
	const struct peer_file_table *table = file_table_of(peer);

	/* A file that left the table was closed, which released its fence lock. */
	for (unsigned i = 0; table && i < table->count; i++) {
		if (table->entries[i].fd >= 0)
			member_lock_drop_fence(table->entries[i].fd);
	}
	peer->holds_fence = false;
}

/* Takes the fence lock of every file shared with other members, in the order of the document:
 * another member that wants to kill needs one of these locks too. For one peer at a time: the locks
 * are taken through the same descriptions for every peer, so they would not exclude each other. */
static int fence_take(struct peer *peer)
{
	const struct peer_file_table *table = file_table_of(peer);
	unsigned taken = 0;
	int res = 0;

	for (unsigned i = 0; i < peer->peers->config.peer_count; i++) {
		if (peer->peers->peers[i].holds_fence)
			return -EAGAIN;
	}
	for (unsigned i = 0; table && res == 0 && i < table->count; i++) {
		const struct peer_file_entry *shared = &table->entries[i];

		if (shared->subsystem == PEER_FILE_UNSERVED || !shared->is_writable)
			continue;
		res = member_lock_take_fence(shared->fd);
		taken++;
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
