/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one reference to every open medium, and to the live state of every namespace and subsystem,
 * between two configurations. Snapshots hold references of their own, so a medium that leaves the
 * configuration closes when its last command is done. Entries are found through trees, because
 * there may be many thousands.
 *
 * Control thread only.
 */
#include "daemon/media_registry_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/peers.h"
#include "config/config_parse.h"
#include "daemon/ana_change.h"
#include "daemon/ana_hold.h"
#include "daemon/medium_open.h"
#include "daemon/served_files.h"
#include "ns/health.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_KEY "file\n" /* prefix of a backing_entry's key: the path follows */

int media_registry_create(unsigned reactor_count, struct media_registry **ret_registry)
{
	struct media_registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return -ENOMEM;
	if (media_records_create(&registry->records) < 0) {
		free(registry);
		return -ENOMEM;
	}
	if (removed_list_create(clock_monotonic_ns() / NS_PER_S, &registry->removed) < 0) {
		media_records_destroy(registry->records);
		free(registry);
		return -ENOMEM;
	}
	list_init(&registry->backings);
	list_init(&registry->lives);
	list_init(&registry->subsystems);
	list_init(&registry->marks);
	list_init(&registry->ana_transitions);
	list_init(&registry->ana_holds);
	registry->reactor_count = reactor_count;
	*ret_registry = registry;
	return 0;
}

void media_registry_set_keeper(struct media_registry *registry, const struct keeper *keeper)
{
	int res = removed_list_recall(registry->removed, keeper);

	registry->keeper = *keeper;
	if (res < 0)
		log_warn("control", "cannot read the list of removed namespaces: %s",
			 strerror(-res));
}

static int backing_order(const void *a, const void *b)
{
	const struct backing_entry *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static int live_order(const void *a, const void *b)
{
	const struct live_entry *x = a, *y = b;

	return memcmp(x->uuid.bytes, y->uuid.bytes, sizeof(x->uuid.bytes));
}

static int subsystem_order(const void *a, const void *b)
{
	const struct subsystem_entry *x = a, *y = b;

	return strcmp(x->nqn, y->nqn);
}

void registry_release_backing(struct media_registry *registry, struct backing_entry *entry)
{
	struct live_entry *live =
		registry_find_live(registry, ns_live_uuid(ns_backing_live(entry->backing)));

	if (live && live->served == entry)
		live->served = NULL;
	tdelete(entry, &registry->backings_by_key, backing_order);
	list_remove(&entry->entry.node);
	ns_backing_put(entry->backing);
	free(entry->key);
	free(entry);
}

void registry_release_live(struct media_registry *registry, struct live_entry *entry)
{
	tdelete(entry, &registry->lives_by_uuid, live_order);
	list_remove(&entry->entry.node);
	ns_live_put(entry->live);
	free(entry->left_path);
	free(entry);
}

void registry_release_subsystem(struct media_registry *registry, struct subsystem_entry *entry)
{
	tdelete(entry, &registry->subsystems_by_nqn, subsystem_order);
	list_remove(&entry->entry.node);
	subsystem_live_put(entry->live);
	free(entry);
}

void media_registry_destroy(struct media_registry *registry)
{
	if (!registry)
		return;
	media_registry_rollback(registry);
	list_for_each_safe(node, &registry->backings)
		registry_release_backing(registry,
					 list_entry(node, struct backing_entry, entry.node));
	list_for_each_safe(node, &registry->lives)
		registry_release_live(registry, list_entry(node, struct live_entry, entry.node));
	list_for_each_safe(node, &registry->subsystems)
		registry_release_subsystem(registry,
					   list_entry(node, struct subsystem_entry, entry.node));
	list_for_each_safe(node, &registry->marks)
		free(list_entry(node, struct mark, node));
	media_records_destroy(registry->records);
	removed_list_destroy(registry->removed);
	ana_transitions_forget(&registry->ana_transitions);
	ana_holds_forget(&registry->ana_holds);
	free(registry);
}

/* ---- what the state store knows of files --------------------------------------------------------
 */

int media_registry_expect(struct media_registry *registry, const json_t *document)
{
	return media_records_expect(registry->records, &registry->keeper, document);
}

void media_registry_retry(struct media_registry *registry, const struct uuid *uuid,
			  bool is_recreated)
{
	registry->retry = *uuid;
	registry->is_recreated = is_recreated;
}

void media_registry_set_peers(struct media_registry *registry, struct peers *peers)
{
	registry->peers = peers;
}

struct peers *media_registry_peers(const struct media_registry *registry)
{
	return registry->peers;
}

static bool is_refused(const struct media_registry *registry, const struct media *media)
{
	return registry->peers && peers_has_refused(registry->peers, media);
}

struct media *media_registry_find(const struct media_registry *registry, const struct uuid *uuid)
{
	list_for_each(node, &registry->backings) {
		const struct backing_entry *entry =
			list_entry(node, struct backing_entry, entry.node);

		if (uuid_equal(ns_live_uuid(ns_backing_live(entry->backing)), uuid))
			return ns_backing_media(entry->backing);
	}
	return NULL;
}

static void entries_begin(struct list *entries)
{
	list_for_each(node, entries) {
		struct registry_entry *entry = list_entry(node, struct registry_entry, node);

		entry->is_new = false;
		entry->is_used = false;
	}
}

bool media_registry_begin(struct media_registry *registry)
{
	if (registry->has_begun)
		return false;
	registry->has_begun = true;
	entries_begin(&registry->backings);
	entries_begin(&registry->lives);
	entries_begin(&registry->subsystems);
	return true;
}

bool media_registry_has_started(const struct media_registry *registry)
{
	return registry->has_started;
}

/* ---- live state -------------------------------------------------------------------------------
 */

/* Adds the entry to the list and the tree of its kind. `key_order` compares whole entries. */
static int registry_entry_add(struct registry_entry *entry, struct list *list, void **tree,
			      int (*key_order)(const void *a, const void *b))
{
	if (!tsearch(entry, tree, key_order))
		return -ENOMEM;
	entry->is_new = true;
	list_push_back(list, &entry->node);
	return 0;
}

static int live_create(struct media_registry *registry, const struct media_wish *wish,
		       struct live_entry **ret_entry)
{
	struct live_entry *entry = calloc(1, sizeof(*entry));
	int res;

	if (!entry)
		return -ENOMEM;
	entry->uuid = *wish->uuid;
	res = ns_live_create(registry->reactor_count, &entry->live);
	if (res == 0)
		res = ns_live_recall(entry->live, wish->uuid, &registry->keeper);
	if (res == 0)
		res = registry_entry_add(&entry->entry, &registry->lives, &registry->lives_by_uuid,
					 live_order);
	if (res == 0) {
		*ret_entry = entry;
		return 0;
	}
	if (entry->live)
		ns_live_put(entry->live);
	free(entry);
	return res;
}

struct live_entry *registry_find_live(const struct media_registry *registry,
				      const struct uuid *uuid)
{
	const struct live_entry wanted = {.uuid = *uuid};
	struct live_entry **node = tfind(&wanted, &registry->lives_by_uuid, live_order);

	return node ? *node : NULL;
}

static int live_get(struct media_registry *registry, const struct media_wish *wish,
		    struct ns_live **ret_live, struct media_error *ret_error)
{
	struct live_entry *entry = registry_find_live(registry, wish->uuid);
	int res = entry ? 0 : live_create(registry, wish, &entry);

	if (res < 0) {
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "cannot read its saved state: %s", strerror(-res));
		return res;
	}
	if (ns_live_is_protected(entry->live) && !wish->is_protected && !wish->lifts_protection) {
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "the namespace with this UUID was write protected permanently; write "
			 "\"write_protect\": \"permanent\" to keep the protection, or \"none\" to "
			 "lift it");
		return -EINVAL;
	}
	entry->entry.is_used = true;
	entry->owner = wish->owner;
	entry->wants_protection = wish->is_protected;
	*ret_live = entry->live;
	return 0;
}

static int subsystem_create(struct media_registry *registry, const char *nqn,
			    struct subsystem_entry **ret_entry)
{
	struct subsystem_entry *entry = calloc(1, sizeof(*entry));
	int res;

	if (!entry)
		return -ENOMEM;
	snprintf(entry->nqn, sizeof(entry->nqn), "%s", nqn);
	res = subsystem_live_create(&entry->live);
	if (res == 0)
		res = subsystem_live_recall(entry->live, nqn, &registry->keeper);
	if (res == 0)
		res = registry_entry_add(&entry->entry, &registry->subsystems,
					 &registry->subsystems_by_nqn, subsystem_order);
	if (res < 0) {
		subsystem_live_put(entry->live); /* NULL is harmless */
		free(entry);
		return res;
	}
	*ret_entry = entry;
	return 0;
}

int media_registry_get_subsystem(struct media_registry *registry, const char *nqn,
				 struct subsystem_live **ret_live)
{
	struct subsystem_entry wanted;
	struct subsystem_entry **node, *entry;
	int res = 0;

	snprintf(wanted.nqn, sizeof(wanted.nqn), "%s", nqn);
	node = tfind(&wanted, &registry->subsystems_by_nqn, subsystem_order);
	entry = node ? *node : NULL;
	if (!entry)
		res = subsystem_create(registry, nqn, &entry);
	if (res < 0)
		return res;
	entry->entry.is_used = true;
	*ret_live = subsystem_live_get(entry->live);
	return 0;
}

void media_registry_keep_health(struct media_registry *registry, bool is_end)
{
	registry_age_removed(registry, is_end);
	list_for_each(node, &registry->subsystems) {
		struct subsystem_entry *entry =
			list_entry(node, struct subsystem_entry, entry.node);
		int res = is_end ? subsystem_live_end(entry->live, &registry->keeper)
				 : subsystem_live_keep(entry->live, &registry->keeper);

		if (res < 0)
			log_warn("control", "%s: cannot save its health counters: %s", entry->nqn,
				 strerror(-res));
	}
}

void media_registry_set_unkept(struct media_registry *registry)
{
	list_for_each(node, &registry->backings) {
		struct backing_entry *entry = list_entry(node, struct backing_entry, entry.node);

		entry->kept = (struct media_record){.is_given_up = entry->kept.is_given_up};
		memset(&entry->served_uuid, 0, sizeof(entry->served_uuid));
	}
	removed_set_unkept(registry->removed);
	list_for_each(node, &registry->lives)
		ns_live_set_unkept(list_entry(node, struct live_entry, entry.node)->live);
	list_for_each(node, &registry->subsystems)
		subsystem_live_set_unkept(
			list_entry(node, struct subsystem_entry, entry.node)->live);
}

/* ---- media ------------------------------------------------------------------------------------
 */

/* A file has the same key wherever its path appears. Memory belongs to one namespace. */
static char *backing_key(const struct media_wish *wish)
{
	char *path = config_media_path(wish->spec), *key = NULL, *identity;

	if (path) {
		if (asprintf(&key, "%s%s", FILE_KEY, path) < 0)
			key = NULL;
		free(path);
		return key;
	}
	identity = config_media_identity(wish->spec);
	if (identity && asprintf(&key, "%s\n%u\n%s", wish->nqn, wish->nsid, identity) < 0)
		key = NULL;
	free(identity);
	return key;
}

const char *registry_key_path(const char *key)
{
	return strncmp(key, FILE_KEY, strlen(FILE_KEY)) == 0 ? key + strlen(FILE_KEY) : NULL;
}

bool registry_finds_path(const struct media_registry *registry, const char *path)
{
	struct backing_entry wanted;
	bool is_found = true;

	if (asprintf(&wanted.key, "%s%s", FILE_KEY, path) >= 0) {
		is_found = tfind(&wanted, &registry->backings_by_key, backing_order) != NULL;
		free(wanted.key);
	}
	return is_found;
}

static int ns_backing_make(struct media *taken_media, struct ns_live *live,
			   struct ns_backing **ret_backing, struct media_error *ret_error)
{
	int res = ns_backing_create_for(taken_media, live, ret_backing);

	if (res < 0) {
		media_undo(taken_media);
		media_close(taken_media);
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
	}
	return res;
}

/* Recalls what was served last under the UUID. False: unknown, or the namespace is not
 * clustered. */
static bool served_recall(const struct media_registry *registry, const struct media_wish *wish,
			  struct media_record *ret_record)
{
	char *path = NULL;
	bool is_known = wish->is_clustered &&
			media_served_recall(&registry->keeper, wish->uuid, ret_record, &path);

	free(path);
	return is_known;
}

/* As served_file_check. At the start of a member of a cluster all members decide together about a
 * file that is not the one served last (served_note). */
static int wish_check(const struct media_registry *registry, const struct media_wish *wish,
		      const char *path, const struct media_record *now,
		      struct media_error *ret_error)
{
	struct media_record served;

	if (!registry->has_started && !removed_find(registry->removed, wish->uuid) &&
	    served_recall(registry, wish, &served))
		return 0;
	return served_file_check(registry, wish->uuid, path, now, ret_error);
}

/* Whether the medium may be served under the UUID: see wish_check. */
static int identity_check(const struct media_registry *registry, const struct media_wish *wish,
			  const char *path, struct media *media, struct media_error *ret_error)
{
	struct media_record record = {0};

	if (media_is_lost(media))
		return 0;
	(void)media_get_record(media, &record);
	return wish_check(registry, wish, path, &record, ret_error);
}

/* Notes in a medium that was just opened what was served last under the UUID. */
static void served_note(const struct media_registry *registry, const struct media_wish *wish,
			const char *path, struct media *media)
{
	struct media_record served;

	if (path && !media_is_lost(media) && served_recall(registry, wish, &served))
		media_note_known(media, path, &served);
}

/* Opens with what the start knows of the path and of the UUID. The UUID decides which file it
 * was. */
static int known_open(const struct media_registry *registry, const char *path,
		      const struct media_wish *wish, struct media **ret_media,
		      struct media_error *ret_error)
{
	const struct media_record *expected =
		path ? media_records_find(registry->records, path) : NULL;
	struct media_record known, served;
	int res;

	if (expected && served_recall(registry, wish, &served)) {
		known = *expected;
		if (served.inode != 0) {
			known.inode = served.inode;
			known.born_ns = served.born_ns;
		}
		expected = &known;
	}
	res = medium_open(wish, expected, ret_media, ret_error);
	if (res == 0)
		served_note(registry, wish, path, *ret_media);
	return res;
}

/* Checks the path before opening, so that no file is created in place of a missing one. A start
 * offers a removed namespace that comes back without its file as lost. */
static int wish_open(const struct media_registry *registry, const char *path,
		     const struct media_wish *wish, struct media **ret_media,
		     struct media_error *ret_error)
{
	const struct removed_ns *removed = removed_find(registry->removed, wish->uuid);
	int res = wish_check(registry, wish, path, NULL, ret_error);

	if (res == 0)
		res = known_open(registry, path, wish, ret_media, ret_error);
	else if (removed && !registry->has_started)
		return medium_open_lost(wish, &removed->record, ret_media, ret_error);
	if (res < 0)
		return res;
	res = identity_check(registry, wish, path, *ret_media, ret_error);
	if (res < 0) {
		media_undo(*ret_media);
		media_close(*ret_media);
	}
	return res;
}

/* Takes ownership of the key. */
static int backing_entry_open(struct media_registry *registry, char *taken_key,
			      const struct media_wish *wish, struct ns_live *live,
			      struct backing_entry **ret_entry, struct media_error *ret_error)
{
	struct backing_entry *entry = calloc(1, sizeof(*entry));
	const char *path = registry_key_path(taken_key);
	struct media *media;
	int res = -ENOMEM;

	snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
	if (entry) {
		entry->key = taken_key;
		res = wish_open(registry, path, wish, &media, ret_error);
	}
	if (res == 0)
		res = ns_backing_make(media, live, &entry->backing, ret_error);
	if (res == 0) {
		res = registry_entry_add(&entry->entry, &registry->backings,
					 &registry->backings_by_key, backing_order);
		if (res < 0) {
			media_undo(media);
			ns_backing_put(entry->backing); /* closes the medium too */
			snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		}
	}
	if (res < 0) {
		free(taken_key);
		free(entry);
		return res;
	}
	*ret_entry = entry;
	return 0;
}

static bool backing_is_as_wished(const struct media_registry *registry,
				 const struct ns_backing *backing, const struct media_wish *wish,
				 const struct ns_live *live)
{
	if (backing && uuid_equal(&registry->retry, wish->uuid) &&
	    (medium_has_failed(ns_backing_media(backing)) ||
	     is_refused(registry, ns_backing_media(backing))))
		return false;
	return backing && ns_backing_live(backing) == live &&
	       media_is_current(ns_backing_media(backing), wish->spec);
}

/* Opens a medium as wished, beside the one of the entry's backing. */
static int backing_reopen(const struct media_registry *registry, struct backing_entry *entry,
			  const struct media_wish *wish, struct media **ret_media,
			  struct media_error *ret_error)
{
	struct media *before = ns_backing_media(entry->backing);
	const char *path = registry_key_path(entry->key);
	bool is_asked = uuid_equal(&registry->retry, wish->uuid);
	bool is_recreated = is_asked && registry->is_recreated;
	int res;

	if (is_asked && is_refused(registry, before))
		return medium_open_name(wish, before, ret_media, ret_error);
	if (!media_is_lost(before))
		return is_asked && medium_has_failed(before)
			       ? medium_recheck(wish, before, ret_media, ret_error)
			       : media_reopen(before, wish->spec, ret_media, ret_error);
	if (is_recreated && path) {
		res = medium_give_up(wish, before, path, &registry->keeper, ret_error);
		if (res < 0)
			return res;
		entry->is_given_up = entry->kept.is_given_up = true;
	}
	return medium_retry(wish, before, is_recreated, ret_media, ret_error);
}

/* Finds the entry's backing that is as wished. If none is, opens one beside the present one. */
static int backing_choose(const struct media_registry *registry, struct backing_entry *entry,
			  const struct media_wish *wish, struct ns_live *live,
			  struct ns_backing **ret_backing, struct media_error *ret_error)
{
	struct media *media;
	int res;

	if ((media_member(ns_backing_media(entry->backing)) >= 0) != wish->is_clustered) {
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "the medium is open %s the other members of the cluster; restart the "
			 "target to change that",
			 wish->is_clustered ? "without" : "in common with");
		return -EBUSY;
	}
	if (backing_is_as_wished(registry, entry->backing, wish, live)) {
		*ret_backing = entry->backing;
		return 0;
	}
	if (backing_is_as_wished(registry, entry->next, wish, live)) {
		*ret_backing = entry->next;
		return 0;
	}
	if (entry->next) {
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "another change of this medium is in progress; try again");
		return -EBUSY;
	}
	res = backing_reopen(registry, entry, wish, &media, ret_error);
	if (res == 0) {
		served_note(registry, wish, registry_key_path(entry->key), media);
		res = identity_check(registry, wish, registry_key_path(entry->key), media,
				     ret_error);
		if (res < 0) {
			media_undo(media);
			media_close(media);
		}
	}
	if (res == 0)
		res = ns_backing_make(media, live, &entry->next, ret_error);
	if (res < 0) {
		entry->next = NULL;
		return res;
	}
	*ret_backing = entry->next;
	return 0;
}

static void backing_measure(struct ns_backing *backing)
{
	ns_live_set_used_bytes(ns_backing_live(backing),
			       media_used_bytes(ns_backing_media(backing)));
}

void media_registry_measure(struct media_registry *registry, uint64_t now_ns)
{
	list_for_each(node, &registry->backings) {
		struct ns_backing *backing =
			list_entry(node, struct backing_entry, entry.node)->backing;
		struct media_error problem; /* unused: a problem is logged when first seen */

		backing_measure(backing);
		(void)media_problem(ns_backing_media(backing), &problem);
		ns_live_look_space(ns_backing_live(backing), now_ns);
	}
}

int media_registry_get(struct media_registry *registry, const struct media_wish *wish,
		       struct ns_backing **ret_backing, struct media_error *ret_error)
{
	struct backing_entry wanted = {.key = backing_key(wish)};
	struct backing_entry **node, *found;
	struct ns_live *live;
	int res;

	snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
	if (!wanted.key)
		return -ENOMEM;
	res = live_get(registry, wish, &live, ret_error);
	if (res < 0) {
		free(wanted.key);
		return res;
	}
	node = tfind(&wanted, &registry->backings_by_key, backing_order);
	found = node ? *node : NULL;
	if (found) {
		free(wanted.key);
		res = backing_choose(registry, found, wish, live, ret_backing, ret_error);
	} else {
		res = backing_entry_open(registry, wanted.key, wish, live, &found, ret_error);
		if (res == 0)
			*ret_backing = found->backing;
	}
	if (res < 0)
		return res;
	found->is_withheld &= found->entry.is_used;
	found->entry.is_used = true;
	backing_measure(*ret_backing);
	ns_backing_get(*ret_backing);
	return 0;
}

void media_registry_hold(struct media_registry *registry, const struct media_wish *wish)
{
	struct backing_entry wanted = {.key = backing_key(wish)};
	struct backing_entry **node =
		wanted.key ? tfind(&wanted, &registry->backings_by_key, backing_order) : NULL;

	if (node)
		(*node)->is_withheld = true;
	free(wanted.key);
}

int media_registry_sync(struct media_registry *registry, struct media_error *ret_error)
{
	struct media **media = calloc(media_registry_count(registry) + 1, sizeof(struct media *));
	unsigned count = 0;
	int res;

	snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
	if (!media)
		return -ENOMEM;
	list_for_each(node, &registry->backings) {
		struct backing_entry *entry = list_entry(node, struct backing_entry, entry.node);

		if (entry->next)
			media[count++] = ns_backing_media(entry->next);
		else if (entry->entry.is_new)
			media[count++] = ns_backing_media(entry->backing);
	}
	res = media_sync(media, count, ret_error);
	registry_note_losses(registry);
	free(media);
	return res;
}

unsigned media_registry_count(const struct media_registry *registry)
{
	unsigned count = 0;

	list_for_each(node, &registry->backings)
		count++;
	return count;
}

/* ---- marks ------------------------------------------------------------------------------------
 */

static struct mark *mark_find(const struct media_registry *registry, const struct uuid *uuid)
{
	list_for_each(node, &registry->marks) {
		struct mark *mark = list_entry(node, struct mark, node);

		if (uuid_equal(&mark->uuid, uuid))
			return mark;
	}
	return NULL;
}

int media_registry_set_formatting(struct media_registry *registry, const struct uuid *uuid,
				  bool is_formatting)
{
	struct mark *mark = mark_find(registry, uuid);

	if (!is_formatting && mark) {
		list_remove(&mark->node);
		free(mark);
	} else if (is_formatting && !mark) {
		mark = calloc(1, sizeof(*mark));
		if (!mark)
			return -ENOMEM;
		mark->uuid = *uuid;
		list_push_back(&registry->marks, &mark->node);
	}
	return 0;
}

bool media_registry_is_formatting(const struct media_registry *registry, const struct uuid *uuid)
{
	return mark_find(registry, uuid) != NULL;
}

struct list *media_registry_ana_transitions(struct media_registry *registry)
{
	return &registry->ana_transitions;
}

struct list *media_registry_ana_holds(struct media_registry *registry)
{
	return &registry->ana_holds;
}
