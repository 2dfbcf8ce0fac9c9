/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a transaction of the media registry: what it brought stays and what nobody asked for
 * goes, or the other way round. Namespaces that go and leave their data behind are remembered
 * (daemon/removed_ns.h); what the API and deletions ask of that list is answered here, too.
 *
 * Control thread only: closing may block.
 */
#include "daemon/media_registry_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/removed_ns.h"
#include "target/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t wall_s(void)
{
	return clock_realtime_ns() / NS_PER_S;
}

void media_registry_file_deleted(struct media_registry *registry, const struct uuid *uuid)
{
	(void)removed_drop(registry->removed, uuid, "its file was deleted", &registry->keeper);
	removed_keep(registry->removed, &registry->keeper, wall_s());
}

void media_registry_each_removed(const struct media_registry *registry,
				 void (*look)(void *arg, const struct removed_ns *removed),
				 void *arg)
{
	removed_each(registry->removed, look, arg);
}

int media_registry_drop_removed(struct media_registry *registry, const struct uuid *uuid)
{
	int res = 0;

	/* One that is in force and lost keeps what is its own. */
	if (removed_find(registry->removed, uuid) && registry_find_live(registry, uuid))
		removed_take_back(registry->removed, uuid);
	else
		res = removed_drop(registry->removed, uuid, "the operator asked for it",
				   &registry->keeper);
	removed_keep(registry->removed, &registry->keeper, wall_s());
	return res;
}

/* The store goes, or serves a namespace that it did not serve before. */
static void store_note_owner(struct media_registry *registry, const struct store_entry *entry)
{
	const struct uuid *uuid = ns_live_uuid(ns_store_live(entry->store));
	const struct media *media = ns_store_media(entry->store);
	const char *path = registry_key_path(entry->key);
	struct media_record record = {0};
	struct live_entry *live;

	(void)media_get_record(media, &record);
	if (entry->entry.is_used) {
		/* Of a lost one the file is not there. */
		if (!media_is_lost(media))
			removed_drop_file(registry->removed, path, &record, uuid,
					  &registry->keeper);
		return;
	}
	live = registry_find_live(registry, uuid);
	if (live && !live->left_path) {
		live->left_path = strdup(path);
		live->left_record = record;
	}
}

/* It is in force. What is lost is not there yet: which file it had is still to be known. */
static bool live_is_back(void *arg, const struct uuid *uuid)
{
	const struct live_entry *entry = registry_find_live(arg, uuid);
	const struct media *media =
		entry && entry->entry.is_used ? media_registry_find(arg, uuid) : NULL;

	return media && !media_is_lost(media);
}

static struct removed_ns removed_about(const struct live_entry *entry,
				       const struct media_record *record)
{
	return (struct removed_ns){
		.uuid = entry->uuid,
		.since_s = wall_s(),
		.kept = ns_live_kept(entry->live) & ~(unsigned)NS_LIVE_HAS_VOLATILE,
		.record = *record,
	};
}

/*
 * Whoever is killed behind the document, and before the commit, leaves a namespace that is neither
 * in the document nor known as removed. One that is both comes back with the file that it has.
 */
void media_registry_note_leaving(struct media_registry *registry)
{
	list_for_each(node, &registry->stores) {
		const struct store_entry *entry = list_entry(node, struct store_entry, entry.node);
		const char *path = registry_key_path(entry->key);
		struct media_record record = {0};
		struct removed_ns about;
		const struct live_entry *live;

		if (entry->entry.is_used || !path)
			continue;
		live = registry_find_live(registry, ns_live_uuid(ns_store_live(entry->store)));
		if (!live || live->entry.is_used)
			continue;
		(void)media_get_record(ns_store_media(entry->store), &record);
		about = removed_about(live, &record);
		removed_add(registry->removed, &about, path);
	}
	removed_keep(registry->removed, &registry->keeper, wall_s());
}

/* The transaction is taken back: it was in force before, and is. */
static bool live_stays(void *arg, const struct uuid *uuid)
{
	const struct live_entry *entry = registry_find_live(arg, uuid);

	return entry && !entry->entry.is_new && live_is_back(arg, uuid);
}

/* It is in force no more. What is kept of it stays as long as its data may come back with it. */
static void live_left(struct media_registry *registry, struct live_entry *entry)
{
	const struct removed_ns about = removed_about(entry, &entry->left_record);
	char text[UUID_TEXT_BYTES];

	if ((!entry->left_path || !about.kept) &&
	    ns_live_forget(entry->live, &registry->keeper) < 0)
		log_warn("control", "namespace %s is gone, but what was kept of it is not",
			 uuid_format(&entry->uuid, text));
	ns_live_retire(entry->live);
	if (entry->left_path)
		removed_add(registry->removed, &about, entry->left_path);
	registry_release_live(registry, entry);
}

static void lives_commit(struct media_registry *registry)
{
	removed_take_back_all(registry->removed, live_is_back, registry);
	list_for_each_safe(node, &registry->lives) {
		struct live_entry *entry = list_entry(node, struct live_entry, entry.node);
		char text[UUID_TEXT_BYTES];

		if (entry->entry.is_used) {
			if (entry->owner)
				subsystem_live_adopt(entry->owner, entry->live);
			/* The document says so too, as long as it has the namespace. */
			if (ns_live_set_protected(entry->live, entry->wants_protection,
						  &registry->keeper) < 0)
				log_warn("control",
					 "namespace %s: its protection for good could not be %s "
					 "yet: the next change tries again",
					 uuid_format(&entry->uuid, text),
					 entry->wants_protection ? "kept" : "lifted");
			free(entry->left_path); /* it goes on in another file */
			entry->left_path = NULL;
		} else {
			live_left(registry, entry);
		}
	}
	removed_keep(registry->removed, &registry->keeper, wall_s());
}

static void subsystems_commit(struct media_registry *registry)
{
	list_for_each_safe(node, &registry->subsystems) {
		struct subsystem_entry *entry =
			list_entry(node, struct subsystem_entry, entry.node);

		if (entry->entry.is_used)
			continue;
		if (subsystem_live_forget(entry->live, &registry->keeper) < 0)
			log_warn("control", "subsystem %s is gone, but what was kept of it is not",
				 entry->nqn);
		registry_release_subsystem(registry, entry);
	}
}

static void transaction_end(struct media_registry *registry)
{
	media_records_clear(registry->records);
	memset(&registry->retry, 0, sizeof(registry->retry));
	registry->is_recreated = false;
}

void media_registry_commit(struct media_registry *registry)
{
	if (!registry->has_begun)
		return;
	registry->has_begun = false;
	registry->has_started = true;
	list_for_each_safe(node, &registry->stores) {
		struct store_entry *entry = list_entry(node, struct store_entry, entry.node);

		bool is_changed = entry->entry.is_new || !entry->entry.is_used || entry->next;

		if (entry->next) {
			ns_store_put(entry->store);
			entry->store = entry->next;
			entry->next = NULL;
		}
		if (is_changed && registry_key_path(entry->key))
			store_note_owner(registry, entry);
		/* The record of an empty file says whose it is until the document does, and no
		 * longer: under a later UUID it would be taken for half of a recreate. A file that
		 * other members refuse is not the one that was served last. */
		if (registry_key_path(entry->key) && !(entry->entry.is_used && entry->is_held))
			media_record_keep(&registry->keeper, registry_key_path(entry->key),
					  entry->entry.is_used ? ns_store_media(entry->store)
							       : NULL,
					  registry->is_unkept && entry->kept.is_given_up
						  ? ns_live_uuid(ns_store_live(entry->store))
						  : NULL,
					  &entry->kept);
		entry->is_given_up = false;
		if (!entry->entry.is_used)
			registry_release_store(registry, entry);
	}
	lives_commit(registry);
	subsystems_commit(registry);
	transaction_end(registry);
}

void media_registry_commit_unkept(struct media_registry *registry)
{
	registry->is_unkept = true;
	media_registry_commit(registry);
	registry->is_unkept = false;
}

/* The kernel has told of it, and tells nobody again, not even the next process. */
static void store_note_loss(struct media_registry *registry, const struct ns_store *store)
{
	const struct media *media = ns_store_media(store);
	struct ns_live *live = ns_store_live(store);
	uint64_t loss = media_loss(media);

	if (loss == 0 || loss == ns_live_loss_noted(live))
		return;
	if (ns_live_note_loss(live, loss, &registry->keeper) < 0)
		log_error("control",
			  "%s: that it has lost writes could not be kept: after a restart hosts "
			  "that have not flushed until then are not told",
			  media->spec);
}

void registry_note_losses(struct media_registry *registry)
{
	list_for_each(node, &registry->stores) {
		const struct store_entry *entry = list_entry(node, struct store_entry, entry.node);

		store_note_loss(registry, entry->store);
		if (entry->next)
			store_note_loss(registry, entry->next);
	}
}

/* After media_undo: no empty file has the name any more. */
static void entry_take_back(struct media_registry *registry, struct store_entry *entry)
{
	struct media_record record;

	entry->is_given_up = entry->kept.is_given_up = false;
	if (media_get_record(ns_store_media(entry->store), &record))
		media_record_take_back(&registry->keeper, registry_key_path(entry->key), &record);
}

void media_registry_rollback(struct media_registry *registry)
{
	if (!registry->has_begun)
		return;
	registry->has_begun = false;
	list_for_each_safe(node, &registry->stores) {
		struct store_entry *entry = list_entry(node, struct store_entry, entry.node);

		if (entry->next) {
			media_undo(ns_store_media(entry->next));
			store_note_loss(registry, entry->next);
			ns_store_put(entry->next);
			entry->next = NULL;
		}
		if (entry->is_given_up)
			entry_take_back(registry, entry);
		if (entry->entry.is_new) {
			media_undo(ns_store_media(entry->store));
			store_note_loss(registry, entry->store);
			registry_release_store(registry, entry);
		}
	}
	registry_note_losses(registry);
	removed_take_back_all(registry->removed, live_stays, registry);
	removed_keep(registry->removed, &registry->keeper, wall_s());
	list_for_each_safe(node, &registry->lives) {
		struct live_entry *entry = list_entry(node, struct live_entry, entry.node);

		if (entry->entry.is_new)
			registry_release_live(registry, entry);
	}
	list_for_each_safe(node, &registry->subsystems) {
		struct subsystem_entry *entry =
			list_entry(node, struct subsystem_entry, entry.node);

		if (entry->entry.is_new)
			registry_release_subsystem(registry, entry);
	}
	transaction_end(registry);
}
