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

static void peer_file_put(struct peer_file *file)
{
	if (--file->refs > 0)
		return;
	member_lock_unwatch(file->fd);
	peer_loss_bind(file, NULL);
	free(file);
}

static void peer_file_forget(struct peer_file *file)
{
	list_remove(&file->node);
	peer_file_put(file);
}

/* Files already found in this pass are at the end of the list. Namespaces mostly come in the same
 * order again, so the search is short even with very many. */
static struct peer_file *peer_file_find(struct peers *peers, const struct ns *ns, unsigned pass)
{
	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		if (file->pass == pass)
			break;
		if (uuid_equal(&file->uuid, &ns->uuid) &&
		    media_member_is_watched(ns->media, file->fd))
			return file;
	}
	return NULL;
}

/* NULL: the locks on the file cannot be watched. */
static struct peer_file *peer_file_add(struct peers *peers, const struct ns *ns)
{
	struct peer_file *file = calloc(1, sizeof(*file));
	int fd = file ? media_member_watch(ns->media) : -1;

	if (fd < 0) {
		log_warn("control",
			 "%s: cannot watch the locks of other members, so members that share this "
			 "file cannot be fenced",
			 ns->media->spec);
		free(file);
		return NULL;
	}
	file->refs = 1;
	file->uuid = ns->uuid;
	file->fd = fd;
	file->is_writable = !ns->media->is_read_only;
	if (member_lock_file(fd, &file->identity) < 0)
		memset(&file->identity, 0, sizeof(file->identity));
	list_push_back(&peers->files, &file->node);
	return file;
}

/* No other member can write to the file. A member that opens it again later does so by a document
 * that disagrees with ours, as if the file had never been shared. */
static bool file_is_over(const struct peers *peers, const struct peer_file *file)
{
	unsigned lock = peers->config.lock;
	bool is_held = true;

	if (member_lock_is_held(file->fd, 0, lock, &is_held) < 0 || is_held)
		return false;
	return member_lock_is_held(file->fd, lock + 1, MEMBER_LOCK_MAX - lock - 1, &is_held) == 0 &&
	       !is_held;
}

void peers_watch_removed(struct peers *peers, const struct uuid *uuid, int taken_watch_fd)
{
	struct peer_file *file = calloc(1, sizeof(*file));

	if (!file) {
		log_warn("control", "out of memory for watching the file of a removed namespace: "
				    "another member's write to the file may land late");
		member_lock_unwatch(taken_watch_fd);
		return;
	}
	file->refs = 1;
	file->uuid = *uuid;
	file->fd = taken_watch_fd;
	list_push_back(&peers->files, &file->node);
	if (member_lock_file(taken_watch_fd, &file->identity) < 0 || file_is_over(peers, file))
		peer_file_forget(file);
}

/* ---- tables: control reactor ----------------------------------------------------------------- */

static void table_free(struct peer_file_table *table)
{
	list_remove(&table->node);
	for (unsigned i = 0; i < table->count; i++) {
		if (table->entries[i].file)
			peer_file_put(table->entries[i].file);
	}
	free(table->told);
	free(table->names);
	free(table);
}

static void table_back(struct reactor_msg *msg)
{
	table_free(container_of(msg, struct peer_file_table, msg));
}

/* On the reactor of the peers: every callback that began before this one has ended. */
static void table_unused(struct reactor_msg *msg)
{
	struct peer_file_table *table = container_of(msg, struct peer_file_table, msg);

	reactor_post(table->peers->control, &table->msg, table_back);
}

static void table_publish(struct peers *peers, struct peer_file_table *table)
{
	struct peer_file_table *old =
		atomic_exchange_explicit(&peers->file_table, table, memory_order_acq_rel);

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

static void entry_add(struct peer_file_table *table, struct peer_file *file, int subsystem)
{
	table->entries[table->count++] = (struct peer_file_entry){
		.file = file,
		.fd = file ? file->fd : -1,
		.subsystem = subsystem,
		.is_writable = file && file->is_writable,
		.differs = file ? file->differs : 0,
	};
	if (file)
		file->refs++;
}

/* Adds entries in the order of the document, the order in which fence locks are taken. */
static void entries_add(struct peers *peers, struct peer_file_table *table,
			const struct snapshot *snapshot, unsigned pass)
{
	for (unsigned s = 0; snapshot && s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		memcpy(table->names[table->name_count], subsystem->nqn, NVME_NQN_BYTES);
		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			const struct ns *ns = &subsystem->namespaces[i];
			struct peer_file *file;

			if (!ns->is_clustered)
				continue;
			file = peer_file_find(peers, ns, pass);
			if (!file)
				file = peer_file_add(peers, ns);
			entry_add(table, file, (int)table->name_count);
			if (!file)
				continue;
			file->pass = pass;
			list_remove(&file->node);
			list_push_back(&peers->files, &file->node);
		}
		table->name_count++;
	}
}

static unsigned files_mark_unserved(struct peers *peers)
{
	unsigned count = 0;

	list_for_each(node, &peers->files) {
		list_entry(node, struct peer_file, node)->pass = 0;
		count++;
	}
	return count;
}

static struct peer_file_table *table_alloc(struct peers *peers, unsigned entries, unsigned names)
{
	struct peer_file_table *table =
		calloc(1, sizeof(*table) + entries * sizeof(table->entries[0]));

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
static void told_make(struct peers *peers, struct peer_file_table *table)
{
	table->told = calloc(table->count + 1, sizeof(*table->told));
	if (!table->told)
		return;
	if (peers->list_generation == 0)
		peers->list_generation = clock_monotonic_ns();
	table->generation = ++peers->list_generation;
	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		if (!file->is_in_force || table->told_count == PEER_SERVED_MAX)
			continue;
		file->entry.differs = file->differs;
		table->told[table->told_count++] = file->entry;
		if (file->told_from == 0) {
			file->told_from = table->generation;
			file->told_ns = reactor_now_ns(peers->control);
		}
	}
}

/* Builds the table with the files of both configurations and publishes it; `now` may be NULL. */
static void table_make(struct peers *peers, const struct snapshot *now, const struct snapshot *next,
		       bool is_in_force)
{
	unsigned files = files_mark_unserved(peers);
	unsigned names = (now ? now->subsystem_count : 0) + next->subsystem_count;
	struct peer_file_table *table =
		table_alloc(peers, files + clustered_count(now) + clustered_count(next), names);

	if (table) {
		entries_add(peers, table, now, 1);
		entries_add(peers, table, next, 2);
		list_for_each(node, &peers->files) {
			struct peer_file *file = list_entry(node, struct peer_file, node);

			if (file->pass == 0)
				entry_add(table, file, PEER_FILE_UNSERVED);
		}
		if (is_in_force)
			told_make(peers, table);
	} else {
		log_warn("control",
			 "out of memory for the list of shared files: no member can be fenced");
	}
	table_publish(peers, table);
}

struct peer_file *peers_file_of(struct peers *peers, const struct ns *ns)
{
	struct peer_file *file = NULL;

	/* Namespaces mostly come in the order of the last call. */
	if (peers->file_cursor && peers->file_cursor != &peers->files)
		file = list_entry(peers->file_cursor, struct peer_file, node);
	if (!file || !uuid_equal(&file->uuid, &ns->uuid) ||
	    !media_member_is_watched(ns->media, file->fd))
		file = peer_file_find(peers, ns, UINT_MAX);
	if (!file)
		file = peer_file_add(peers, ns);
	peers->file_cursor = file ? file->node.next : NULL;
	return file;
}

static void look_in_force(struct peers *peers, const struct snapshot *snapshot)
{
	peers_compare_look_begin(peers);
	for (unsigned s = 0; s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			const struct ns *ns = &subsystem->namespaces[i];
			struct peer_file *file = ns->is_clustered && !media_is_lost(ns->media)
							 ? peers_file_of(peers, ns)
							 : NULL;

			if (file)
				peers_compare_look(peers, file, ns);
		}
	}
	peers->file_cursor = NULL;
}

void peers_will_apply(struct peers *peers, const struct snapshot *snapshot)
{
	peers->is_applying = true;
	peers->file_cursor = NULL;
	table_make(peers, peers->target ? target_snapshot(peers->target) : NULL, snapshot, false);
}

void peers_files_renew(struct peers *peers)
{
	const struct snapshot *snapshot = peers->target ? target_snapshot(peers->target) : NULL;

	if (snapshot)
		table_make(peers, NULL, snapshot, true);
}

void peers_look(struct peers *peers)
{
	const struct snapshot *snapshot = peers->target ? target_snapshot(peers->target) : NULL;

	peers->is_applying = false;
	if (!snapshot)
		return;
	look_in_force(peers, snapshot);
	table_make(peers, NULL, snapshot, true);
	/* The table of the next configuration will not contain these files. */
	list_for_each_safe(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		if (file->pass == 0 && file_is_over(peers, file))
			peer_file_forget(file);
	}
	peers_compare_look_end(peers);
}

void peers_files_free(struct peers *peers)
{
	list_for_each_safe(node, &peers->tables)
		table_free(list_entry(node, struct peer_file_table, node));
	list_for_each_safe(node, &peers->files)
		peer_file_forget(list_entry(node, struct peer_file, node));
}
