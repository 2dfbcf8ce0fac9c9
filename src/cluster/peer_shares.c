/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files shared with other members, as the reactor of the peers sees them.
 *
 * The control reactor builds an immutable table of them for each configuration and publishes a
 * pointer to it. The reactor of the peers reads the table within one callback at a time. A replaced
 * table is posted to the reactor of the peers, which proves that no callback uses it any more, then
 * back to the control reactor, which frees it. So neither reactor waits for the other.
 *
 * Each file is open through a description of its own, without a member's lock, so that its locks
 * can still be read after the namespace was removed here. A peer whose document still has the
 * namespace, or whose last commands are in flight, may write to the file. The file therefore stays
 * in the table until no other member holds it, over our restart too (peers_watch_removed).
 */
#include "cluster/peers_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "media/member_lock.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- files: control reactor ------------------------------------------------------------------ */

static void share_put(struct peer_share *share)
{
	if (--share->refs > 0)
		return;
	member_lock_unwatch(share->fd);
	peer_loss_bind(share, NULL);
	free(share);
}

static void share_forget(struct peer_share *share)
{
	list_remove(&share->node);
	share_put(share);
}

/* Shares already found in this pass are at the end of the list. Namespaces mostly come in the same
 * order again, so the search is short even with very many. */
static struct peer_share *peer_share_find(struct peers *peers, const struct ns *ns, unsigned pass)
{
	list_for_each(node, &peers->files) {
		struct peer_share *share = list_entry(node, struct peer_share, node);

		if (share->pass == pass)
			break;
		if (uuid_equal(&share->uuid, &ns->uuid) &&
		    media_member_is_watched(ns->media, share->fd))
			return share;
	}
	return NULL;
}

/* NULL: the locks on the file cannot be watched. */
static struct peer_share *share_add(struct peers *peers, const struct ns *ns)
{
	struct peer_share *share = calloc(1, sizeof(*share));
	int fd = share ? media_member_watch(ns->media) : -1;

	if (fd < 0) {
		log_warn("control",
			 "%s: cannot watch the locks of other members, so members that share this "
			 "file cannot be fenced",
			 ns->media->spec);
		free(share);
		return NULL;
	}
	share->refs = 1;
	share->uuid = ns->uuid;
	share->fd = fd;
	share->is_writable = !ns->media->is_read_only;
	if (member_lock_file(fd, &share->file) < 0)
		memset(&share->file, 0, sizeof(share->file));
	list_push_back(&peers->files, &share->node);
	return share;
}

/* No other member can write to the file. A member that opens it again later does so by a document
 * that disagrees with ours, as if the file had never been shared. */
static bool share_is_over(const struct peers *peers, const struct peer_share *share)
{
	unsigned lock = peers->config.lock;
	bool is_held = true;

	if (member_lock_is_held(share->fd, 0, lock, &is_held) < 0 || is_held)
		return false;
	return member_lock_is_held(share->fd, lock + 1, MEMBER_LOCK_MAX - lock - 1, &is_held) ==
		       0 &&
	       !is_held;
}

void peers_watch_removed(struct peers *peers, const struct uuid *uuid, int taken_watch_fd)
{
	struct peer_share *share = calloc(1, sizeof(*share));

	if (!share) {
		log_warn("control", "out of memory for watching the file of a removed namespace: "
				    "another member's write to the file may land late");
		member_lock_unwatch(taken_watch_fd);
		return;
	}
	share->refs = 1;
	share->uuid = *uuid;
	share->fd = taken_watch_fd;
	list_push_back(&peers->files, &share->node);
	if (member_lock_file(taken_watch_fd, &share->file) < 0 || share_is_over(peers, share))
		share_forget(share);
}

/* ---- tables: control reactor ----------------------------------------------------------------- */

static void table_free(struct peer_shares *table)
{
	list_remove(&table->node);
	for (unsigned i = 0; i < table->count; i++) {
		if (table->entries[i].share)
			share_put(table->entries[i].share);
	}
	free(table->told);
	free(table->names);
	free(table);
}

static void table_back(struct reactor_msg *msg)
{
	table_free(container_of(msg, struct peer_shares, msg));
}

/* On the reactor of the peers: every callback that began before this one has ended. */
static void table_unused(struct reactor_msg *msg)
{
	struct peer_shares *table = container_of(msg, struct peer_shares, msg);

	reactor_post(table->peers->control, &table->msg, table_back);
}

static void table_publish(struct peers *peers, struct peer_shares *table)
{
	struct peer_shares *old =
		atomic_exchange_explicit(&peers->shares, table, memory_order_acq_rel);

	if (old)
		reactor_post(peers->reactor, &old->msg, table_unused);
}

static unsigned clustered_count(const struct snapshot *snapshot)
{
	unsigned count = 0;

	for (unsigned s = 0; snapshot && s < snapshot->subsystem_count; s++) {
		for (unsigned i = 0; i < snapshot->subsystems[s]->ns_count; i++)
			count += snapshot->subsystems[s]->namespaces[i].is_clustered;
	}
	return count;
}

static void shared_add(struct peer_shares *table, struct peer_share *share, int subsystem)
{
	table->entries[table->count++] = (struct peer_shared){
		.share = share,
		.fd = share ? share->fd : -1,
		.subsystem = subsystem,
		.is_writable = share && share->is_writable,
		.differs = share ? share->differs : 0,
	};
	if (share)
		share->refs++;
}

/* Adds entries in the order of the document, the order in which fence locks are taken. */
static void entries_add(struct peers *peers, struct peer_shares *table,
			const struct snapshot *snapshot, unsigned pass)
{
	for (unsigned s = 0; snapshot && s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		memcpy(table->names[table->name_count], subsystem->nqn, NVME_NQN_BYTES);
		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			const struct ns *ns = &subsystem->namespaces[i];
			struct peer_share *share;

			if (!ns->is_clustered)
				continue;
			share = peer_share_find(peers, ns, pass);
			if (!share)
				share = share_add(peers, ns);
			shared_add(table, share, (int)table->name_count);
			if (!share)
				continue;
			share->pass = pass;
			list_remove(&share->node);
			list_push_back(&peers->files, &share->node);
		}
		table->name_count++;
	}
}

static unsigned files_mark_unserved(struct peers *peers)
{
	unsigned count = 0;

	list_for_each(node, &peers->files) {
		list_entry(node, struct peer_share, node)->pass = 0;
		count++;
	}
	return count;
}

static struct peer_shares *table_alloc(struct peers *peers, unsigned entries, unsigned names)
{
	struct peer_shares *table = calloc(1, sizeof(*table) + entries * sizeof(table->entries[0]));

	if (!table)
		return NULL;
	list_push_back(&peers->tables, &table->node);
	table->peers = peers;
	table->names = calloc(names + 1, sizeof(table->names[0]));
	if (table->names)
		return table;
	table_free(table);
	return NULL;
}

/* Makes the list for peers from the configuration in force. Out of memory: peers keep the former
 * list. */
static void told_make(struct peers *peers, struct peer_shares *table)
{
	table->told = calloc(table->count + 1, sizeof(*table->told));
	if (!table->told)
		return;
	if (peers->list_generation == 0)
		peers->list_generation = clock_monotonic_ns();
	table->generation = ++peers->list_generation;
	list_for_each(node, &peers->files) {
		struct peer_share *share = list_entry(node, struct peer_share, node);

		if (!share->is_in_force || table->told_count == PEER_SERVED_MAX)
			continue;
		share->entry.differs = share->differs;
		table->told[table->told_count++] = share->entry;
		if (share->told_from == 0) {
			share->told_from = table->generation;
			share->told_ns = reactor_now_ns(peers->control);
		}
	}
}

/* Builds the table with the files of both configurations and publishes it; `now` may be NULL. */
static void shares_make(struct peers *peers, const struct snapshot *now,
			const struct snapshot *next, bool is_in_force)
{
	unsigned files = files_mark_unserved(peers);
	unsigned names = (now ? now->subsystem_count : 0) + next->subsystem_count;
	struct peer_shares *table =
		table_alloc(peers, files + clustered_count(now) + clustered_count(next), names);

	if (table) {
		entries_add(peers, table, now, 1);
		entries_add(peers, table, next, 2);
		list_for_each(node, &peers->files) {
			struct peer_share *share = list_entry(node, struct peer_share, node);

			if (share->pass == 0)
				shared_add(table, share, PEER_SHARED_UNSERVED);
		}
		if (is_in_force)
			told_make(peers, table);
	} else {
		log_warn("control",
			 "out of memory for the list of shared files: no member can be fenced");
	}
	table_publish(peers, table);
}

struct peer_share *peers_share_of(struct peers *peers, const struct ns *ns)
{
	struct peer_share *share = NULL;

	/* Namespaces mostly come in the order of the last call. */
	if (peers->share_cursor && peers->share_cursor != &peers->files)
		share = list_entry(peers->share_cursor, struct peer_share, node);
	if (!share || !uuid_equal(&share->uuid, &ns->uuid) ||
	    !media_member_is_watched(ns->media, share->fd))
		share = peer_share_find(peers, ns, UINT_MAX);
	if (!share)
		share = share_add(peers, ns);
	peers->share_cursor = share ? share->node.next : NULL;
	return share;
}

static void look_in_force(struct peers *peers, const struct snapshot *snapshot)
{
	peers_compare_look_begin(peers);
	for (unsigned s = 0; s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			const struct ns *ns = &subsystem->namespaces[i];
			struct peer_share *share = ns->is_clustered && !media_is_lost(ns->media)
							   ? peers_share_of(peers, ns)
							   : NULL;

			if (share)
				peers_compare_look(peers, share, ns);
		}
	}
	peers->share_cursor = NULL;
}

void peers_will_apply(struct peers *peers, const struct snapshot *snapshot)
{
	peers->is_applying = true;
	peers->share_cursor = NULL;
	shares_make(peers, peers->target ? target_snapshot(peers->target) : NULL, snapshot, false);
}

void peers_shares_renew(struct peers *peers)
{
	const struct snapshot *snapshot = peers->target ? target_snapshot(peers->target) : NULL;

	if (snapshot)
		shares_make(peers, NULL, snapshot, true);
}

void peers_look(struct peers *peers)
{
	const struct snapshot *snapshot = peers->target ? target_snapshot(peers->target) : NULL;

	peers->is_applying = false;
	if (!snapshot)
		return;
	look_in_force(peers, snapshot);
	shares_make(peers, NULL, snapshot, true);
	/* The table of the next configuration will not contain these files. */
	list_for_each_safe(node, &peers->files) {
		struct peer_share *share = list_entry(node, struct peer_share, node);

		if (share->pass == 0 && share_is_over(peers, share))
			share_forget(share);
	}
	peers_compare_look_end(peers);
}

void peers_shares_free(struct peers *peers)
{
	list_for_each_safe(node, &peers->tables)
		table_free(list_entry(node, struct peer_shares, node));
	list_for_each_safe(node, &peers->files)
		share_forget(list_entry(node, struct peer_share, node));
}
