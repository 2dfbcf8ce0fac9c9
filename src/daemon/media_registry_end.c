/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a transaction of the media registry. A commit keeps what the transaction brought and
 * releases what it did not ask for. A rollback does the opposite. Namespaces that leave their data
 * behind are recorded as removed (daemon/removed_ns.h). Requests of the API and deletions for that
 * list are handled here, too.
 *
 * Control thread only: closing may block.
 */
#include "daemon/media_registry_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/removed_ns.h"
#include "daemon/served_files.h"
#include "ns/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t wall_s(void)
{
	return clock_realtime_ns() / NS_PER_S;
}

static uint64_t monotonic_s(void)
{
	return clock_monotonic_ns() / NS_PER_S;
}

/* A namespace that is in force, or comes back, does not expire from the list of removed ones. */
static bool live_is_there(void *arg, const struct uuid *uuid)
{
	return registry_find_live(arg, uuid) != NULL;
}

static void removed_list_keep(struct media_registry *registry)
{
	removed_age(registry->removed, monotonic_s(), false);
	removed_expire(registry->removed, &registry->keeper, live_is_there, registry);
	removed_keep(registry->removed, &registry->keeper);
}

void registry_age_removed(struct media_registry *registry, bool is_end)
{
	removed_age(registry->removed, monotonic_s(), is_end);
	removed_keep(registry->removed, &registry->keeper);
}

void media_registry_file_deleted(struct media_registry *registry, const struct uuid *uuid)
{
	(void)removed_drop(registry->removed, uuid, "its file was deleted", &registry->keeper);
	media_served_forget(&registry->keeper, uuid);
	removed_list_keep(registry);
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

	/* A removed namespace that is in force and lost keeps its live state. */
	if (removed_find(registry->removed, uuid) && registry_find_live(registry, uuid))
		removed_take_back(registry->removed, uuid);
	else
		res = removed_drop(registry->removed, uuid, "requested by the operator",
				   &registry->keeper);
	removed_list_keep(registry);
	return res;
}

/* Called when the entry's backing leaves, or serves a namespace that it did not serve before. */
static void backing_note_owner(struct media_registry *registry, const struct backing_entry *entry)
{
	const struct uuid *uuid = ns_live_uuid(ns_backing_live(entry->backing));
	const struct media *media = ns_backing_media(entry->backing);
	const char *path = registry_key_path(entry->key);
	struct media_record record = {0};
	struct live_entry *live;

	(void)media_get_record(media, &record);
	if (entry->entry.is_used) {
		/* The file of a lost medium is missing. */
		if (!media_is_lost(media))
			removed_drop_file(registry->removed, path, &record, uuid,
					  &registry->keeper);
		return;
	}
	live = registry_find_live(registry, uuid);
	if (!live || live->left_path)
		return;
	if (!live->left_record)
		live->left_record = calloc(1, sizeof(*live->left_record));
	if (live->left_record)
		served_file_of_entry(registry, entry, live->left_record, &live->left_path);
}

/* True: the namespace is in force with its data. A lost namespace is not back yet: the record of
 * its file is still needed. */
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
		.looked_s = monotonic_s(),
		.kept = ns_live_kept(entry->live) & ~(unsigned)NS_LIVE_HAS_VOLATILE,
		.record = *record,
	};
}

/* What a former process kept of the namespace. */
static unsigned kept_before(const struct media_registry *registry, const struct uuid *uuid)
{
	struct ns_live *live;
	unsigned kept = 0;

	if (ns_live_create(registry->reactor_count, &live) < 0)
		return 0;
	if (ns_live_recall(live, uuid, &registry->keeper) == 0)
		kept = ns_live_kept(live) & ~(unsigned)NS_LIVE_HAS_VOLATILE;
	ns_live_put(live);
	return kept;
}

/* A namespace of the stored document that the start leaves out. The caller frees *ret_path; NULL:
 * the expected path. */
static struct removed_ns expected_about(const struct media_registry *registry,
					const struct media_expected *expected, char **ret_path)
{
	const struct removed_ns *known = removed_find(registry->removed, &expected->uuid);
	struct removed_ns about = {.uuid = expected->uuid,
				   .since_s = wall_s(),
				   .looked_s = monotonic_s(),
				   .kept = kept_before(registry, &expected->uuid),
				   .record = expected->record};

	*ret_path = NULL;
	if (known) {
		/* Its file was missing: the known record of the file stays. */
		about.record = known->record;
		*ret_path = strdup(known->path);
	} else {
		served_file_of_expected(registry, expected, &about.record, ret_path);
	}
	return about;
}

/* Called at a start with another document than the stored one. */
static void expected_note(void *arg, const struct media_expected *expected)
{
	struct media_registry *registry = arg;
	struct removed_ns about;
	char *path;

	if (uuid_is_nil(&expected->uuid) || registry_find_live(registry, &expected->uuid))
		return;
	about = expected_about(registry, expected, &path);
	removed_add(registry->removed, &about, path ? path : expected->path);
	free(path);
}

/*
 * Called before the document is kept: a kill between document and commit would leave a namespace
 * that is neither in the document nor recorded as removed. A namespace that is both comes back with
 * the file that it has.
 */
void media_registry_note_leaving(struct media_registry *registry)
{
	list_for_each(node, &registry->backings) {
		const struct backing_entry *entry =
			list_entry(node, struct backing_entry, entry.node);
		const char *path = registry_key_path(entry->key);
		struct media_record record = {0};
		struct removed_ns about;
		const struct live_entry *live;
		char *left;

		if (entry->entry.is_used || !path)
			continue;
		live = registry_find_live(registry, ns_live_uuid(ns_backing_live(entry->backing)));
		if (!live || live->entry.is_used)
			continue;
		served_file_of_entry(registry, entry, &record, &left);
		about = removed_about(live, &record);
		removed_add(registry->removed, &about, left ? left : path);
		free(left);
	}
	media_records_each(registry->records, expected_note, registry);
	removed_list_keep(registry);
}

/* The namespace is no longer in force. What is kept of it stays as long as its data may come
 * back. */
static void live_left(struct media_registry *registry, struct live_entry *entry)
{
	static const struct media_record none;
	const struct removed_ns about =
		removed_about(entry, entry->left_path ? entry->left_record : &none);
	char text[UUID_TEXT_BYTES];

	if ((!entry->left_path || !about.kept) &&
	    ns_live_forget(entry->live, &registry->keeper) < 0)
		log_warn("control",
			 "namespace %s was removed, but its saved state could not be deleted",
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
			/* The document has the protection too, as long as it has the namespace. */
			if (ns_live_set_protected(entry->live, entry->wants_protection,
						  &registry->keeper) < 0)
				log_warn("control",
					 "namespace %s: its permanent write protection could not "
					 "be %s: the next change tries again",
					 uuid_format(&entry->uuid, text),
					 entry->wants_protection ? "saved" : "lifted");
			free(entry->left_path); /* the namespace continues in another file */
			entry->left_path = NULL;
		} else {
			live_left(registry, entry);
		}
	}
	removed_commit(registry->removed);
	removed_list_keep(registry);
}

static void subsystems_commit(struct media_registry *registry)
{
	list_for_each_safe(node, &registry->subsystems) {
		struct subsystem_entry *entry =
			list_entry(node, struct subsystem_entry, entry.node);

		if (entry->entry.is_used)
			continue;
		if (subsystem_live_forget(entry->live, &registry->keeper) < 0)
			log_warn("control",
				 "subsystem %s was removed, but its saved state could not be "
				 "deleted",
				 entry->nqn);
		registry_release_subsystem(registry, entry);
	}
}

/* Deletes the records of paths whose namespaces left with a start. */
static void expected_forget(void *arg, const struct media_expected *expected)
{
	struct media_registry *registry = arg;

	if (expected->is_kept && !registry_finds_path(registry, expected->path))
		media_record_forget(&registry->keeper, expected->path);
}

/* Records what hosts may use through this member as served last under the UUID. */
static void served_keep(struct media_registry *registry, struct backing_entry *entry)
{
	const struct media *media = ns_backing_media(entry->backing);
	const struct uuid *uuid = ns_live_uuid(ns_backing_live(entry->backing));
	const struct entry_served *served = entry->served;
	struct media_record now = {0};

	if (!registry->keeper.keep || media_member(media) < 0 || media_is_lost(media))
		return;
	(void)media_get_record(media, &now);
	if (served && uuid_equal(uuid, &served->uuid) &&
	    served->record.size_bytes == now.size_bytes &&
	    media_record_compare(&served->record, &now) != MEDIA_ANOTHER)
		return;
	if (media_served_keep(&registry->keeper, uuid, registry_key_path(entry->key), &now) < 0)
		return;
	/* Without memory, the next change saves the record again. */
	if (!entry->served)
		entry->served = malloc(sizeof(*entry->served));
	if (entry->served)
		*entry->served = (struct entry_served){.uuid = *uuid, .record = now};
}

static void entry_note_served(const struct media_registry *registry, struct backing_entry *entry)
{
	struct live_entry *live =
		registry_find_live(registry, ns_live_uuid(ns_backing_live(entry->backing)));

	if (live && entry->entry.is_used)
		live->served = entry;
}

static void change_forget(struct media_registry *registry)
{
	media_openings_end(&registry->openings);
	media_records_clear(registry->records);
	memset(&registry->retry, 0, sizeof(registry->retry));
	registry->is_recreated = false;
}

/* After backing_undo of a recreated file. */
static void entry_take_back(struct media_registry *registry, struct backing_entry *entry,
			    bool is_undone)
{
	struct media *lost = ns_backing_media(entry->backing);
	const char *path = registry_key_path(entry->key);
	struct media_record record;

	entry->is_given_up = false;
	if (!is_undone)
		media_lost_give_up(lost, path);
	else if (media_get_record(lost, &record) && !record.is_given_up)
		entry->kept.is_given_up =
			media_record_take_back(&registry->keeper, path, &record) < 0;
}

void media_registry_commit(struct media_registry *registry)
{
	if (!registry->has_begun)
		return;
	registry->has_begun = false;
	registry->has_started = true;
	list_for_each_safe(node, &registry->backings) {
		struct backing_entry *entry = list_entry(node, struct backing_entry, entry.node);

		bool is_changed = entry->entry.is_new || !entry->entry.is_used || entry->next;

		registry_drop_gate(entry);
		if (entry->next) {
			registry_put_backing(entry->backing);
			entry->backing = entry->next;
			entry->next = NULL;
			entry->has_passed = entry->next_has_passed;
		}
		entry_note_served(registry, entry);
		if (is_changed && registry_key_path(entry->key))
			backing_note_owner(registry, entry);
		/* The record of a recreate that was undone could not be restored then. */
		if (entry->kept.is_given_up && media_is_lost(ns_backing_media(entry->backing)))
			entry_take_back(registry, entry, true);
		/* The record of an empty file names its owner until the document does, and no
		 * longer: with a later UUID the file would look like an unfinished recreate. A file
		 * that other members refuse is not the one that was served last. */
		if (registry_key_path(entry->key) && !(entry->entry.is_used && entry->is_withheld))
			media_record_keep(&registry->keeper, registry_key_path(entry->key),
					  entry->entry.is_used ? ns_backing_media(entry->backing)
							       : NULL,
					  registry->is_unkept && entry->kept.is_given_up
						  ? ns_live_uuid(ns_backing_live(entry->backing))
						  : NULL,
					  &entry->kept);
		if (registry_key_path(entry->key) && entry->entry.is_used && !entry->is_withheld)
			served_keep(registry, entry);
		entry->is_given_up = false;
		/* Not kept: the namespace stays withheld until a change is. */
		entry->has_passed &= !registry->is_kept;
		entry->next_has_passed = false;
		if (!entry->entry.is_used)
			registry_release_backing(registry, entry);
	}
	media_records_each(registry->records, expected_forget, registry);
	lives_commit(registry);
	subsystems_commit(registry);
	change_forget(registry);
}

void media_registry_commit_unkept(struct media_registry *registry)
{
	registry->is_unkept = true;
	media_registry_commit(registry);
	registry->is_unkept = false;
}

/* The kernel reports the loss only once, and not to the next process, so the loss is kept now. */
static void backing_note_loss(struct media_registry *registry, const struct ns_backing *backing)
{
	const struct media *media = ns_backing_media(backing);
	struct ns_live *live = ns_backing_live(backing);
	uint64_t loss = media_loss(media);

	if (loss == 0 || loss == ns_live_loss_noted(live))
		return;
	if (ns_live_note_loss(live, loss, &registry->keeper) < 0)
		log_error("control",
			  "%s: cannot save that writes were lost: after a restart, hosts that have "
			  "not flushed by then are not notified",
			  media->spec);
	if (registry->peers)
		peers_note_loss(registry->peers);
}

void registry_note_losses(struct media_registry *registry)
{
	list_for_each(node, &registry->backings) {
		const struct backing_entry *entry =
			list_entry(node, struct backing_entry, entry.node);

		backing_note_loss(registry, entry->backing);
		if (entry->next)
			backing_note_loss(registry, entry->next);
	}
}

/* Hosts may have flushed data to a file that was created or grown, and the answer to them stands,
 * although the change is taken back. False: the file stays for these data. */
static bool backing_undo(const struct backing_entry *entry, struct ns_backing *backing)
{
	const char *path = registry_key_path(entry->key);

	if (media_undo(ns_backing_media(backing)))
		return true;
	if (path)
		log_warn("control",
			 "%s keeps its size and data, although the change that opened it was "
			 "undone: hosts have written to it",
			 path);
	return false;
}

void media_registry_rollback(struct media_registry *registry)
{
	if (!registry->has_begun)
		return;
	registry->has_begun = false;
	list_for_each_safe(node, &registry->backings) {
		struct backing_entry *entry = list_entry(node, struct backing_entry, entry.node);
		bool is_undone = true;

		entry->next_has_passed = false;
		registry_drop_gate(entry);
		if (entry->next) {
			is_undone = backing_undo(entry, entry->next);
			backing_note_loss(registry, entry->next);
			registry_put_backing(entry->next);
			entry->next = NULL;
		}
		if (entry->is_given_up)
			entry_take_back(registry, entry, is_undone);
		if (entry->entry.is_new) {
			(void)backing_undo(entry, entry->backing);
			backing_note_loss(registry, entry->backing);
			registry_release_backing(registry, entry);
		}
	}
	registry_note_losses(registry);
	removed_rollback(registry->removed);
	removed_list_keep(registry);
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
	change_forget(registry);
}
