/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open media in the media registry, by the path of a file or by the namespace that owns the memory:
 * opened for a wish, opened again beside the present medium when the wish has changed, measured and
 * synced. Entries are found through a tree, because there may be many thousands.
 *
 * Control thread only; opening blocks.
 */
#include "daemon/media_registry_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/peers.h"
#include "config/config_parse.h"
#include "daemon/medium_open.h"
#include "daemon/served_files.h"
#include "reactor/range_guard.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_KEY "file\n" /* prefix of a backing_entry's key: the path follows */

static int backing_order(const void *a, const void *b)
{
	const struct backing_entry *x = a, *y = b;

	return strcmp(x->key, y->key);
}

void registry_put_backing(struct ns_backing *backing)
{
	media_unlisten(ns_backing_media(backing));
	ns_backing_put(backing);
}

void registry_release_backing(struct media_registry *registry, struct backing_entry *entry)
{
	struct live_entry *live =
		registry_find_live(registry, ns_live_uuid(ns_backing_live(entry->backing)));

	if (live && live->served == entry)
		live->served = NULL;
	tdelete(entry, &registry->backings_by_key, backing_order);
	list_remove(&entry->entry.node);
	registry_put_backing(entry->backing);
	free(entry->key);
	free(entry->served);
	free(entry);
}

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

/* `former`: has another medium over the same store; NULL: none. */
static int ns_backing_make(struct media_registry *registry, struct media *taken_media,
			   struct ns_live *live, struct ns_backing *former,
			   struct ns_backing **ret_backing, struct media_error *ret_error)
{
	int res = former ? ns_backing_create_beside(former, taken_media, live, ret_backing)
			 : ns_backing_create_for(taken_media, live, ret_backing);

	if (res == 0) {
		media_count_add(media_closing_count(registry->closing), taken_media);
		/* Without memory for this the medium is only looked at once in a while. */
		if (registry->listener.reactor)
			(void)media_listen(taken_media, &registry->listener);
	} else {
		(void)media_undo(taken_media);
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
static int known_open(struct media_registry *registry, const char *path,
		      const struct media_wish *wish, struct media **ret_media,
		      struct media_error *ret_error)
{
	const struct media_record *expected = media_records_find(registry->records, path);
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
	res = medium_open(&registry->openings, wish, expected, ret_media, ret_error);
	if (res == 0)
		served_note(registry, wish, path, *ret_media);
	return res;
}

/* A medium that is no file, opens late, and was in the document before this start is offered as
 * lost when its opening fails. One that is made of files is not opened (struct media_terms). */
static int pathless_open(struct media_registry *registry, const struct media_wish *wish,
			 struct media **ret_media, struct media_error *ret_error)
{
	const struct media_record *expected =
		media_records_find_over_files(registry->records, wish->nqn, wish->nsid, wish->spec);
	int res = medium_open(&registry->openings, wish, expected, ret_media, ret_error);

	if (!media_is_loss(res) || !media_openings_was_late(&registry->openings, wish))
		return res;
	expected =
		media_records_find_pathless(registry->records, wish->nqn, wish->nsid, wish->spec);
	return expected ? medium_open_lost(wish, expected, ret_media, ret_error) : res;
}

/* Checks the path before opening, so that no file is created in place of a missing one. A start
 * offers a removed namespace that comes back without its file as lost. */
static int wish_open(struct media_registry *registry, const char *path,
		     const struct media_wish *wish, struct media **ret_media,
		     struct media_error *ret_error)
{
	const struct removed_ns *removed = removed_find(registry->removed, wish->uuid);
	int res = wish_check(registry, wish, path, NULL, ret_error);

	if (res == 0)
		res = path ? known_open(registry, path, wish, ret_media, ret_error)
			   : pathless_open(registry, wish, ret_media, ret_error);
	else if (removed && !registry->has_started)
		return medium_open_lost(wish, &removed->record, ret_media, ret_error);
	if (res < 0)
		return res;
	res = identity_check(registry, wish, path, *ret_media, ret_error);
	if (res < 0) {
		(void)media_undo(*ret_media);
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
		res = ns_backing_make(registry, media, live, NULL, &entry->backing, ret_error);
	if (res == 0) {
		res = registry_entry_add(&entry->entry, &registry->backings,
					 &registry->backings_by_key, backing_order);
		if (res < 0) {
			(void)media_undo(media);
			registry_put_backing(entry->backing); /* closes the medium too */
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

static bool is_refused(const struct media_registry *registry, const struct media *media)
{
	return registry->peers && peers_has_refused(registry->peers, media);
}

static bool backing_is_as_wished(const struct ns_backing *backing, const struct media_wish *wish,
				 const struct ns_live *live)
{
	return backing && ns_backing_live(backing) == live &&
	       media_is_current(ns_backing_media(backing), wish->spec);
}

/* The transaction opens the failed medium of this wish again. */
static bool is_retried(const struct media_registry *registry, struct media *media,
		       const struct media_wish *wish)
{
	return uuid_equal(&registry->retry, wish->uuid) &&
	       (medium_has_failed(media) || is_refused(registry, media));
}

/* Opens a medium as wished, beside the one of the entry's backing. */
static int backing_reopen(struct media_registry *registry, struct backing_entry *entry,
			  const struct media_wish *wish, struct media **ret_media,
			  struct media_error *ret_error)
{
	struct media *before = ns_backing_media(entry->backing);
	const char *path = registry_key_path(entry->key);
	bool is_asked = uuid_equal(&registry->retry, wish->uuid);
	bool is_recreated = is_asked && registry->is_recreated;
	int res;

	if (is_asked && is_refused(registry, before))
		return medium_open_name(&registry->openings, wish, before, ret_media, ret_error);
	if (!media_is_lost(before))
		return is_asked && medium_has_failed(before)
			       ? medium_recheck(&registry->openings, wish, before, ret_media,
						ret_error)
			       : media_reopen(before, wish->spec, ret_media, ret_error);
	if (is_recreated && path) {
		res = medium_give_up(wish, before, path, &registry->keeper, ret_error);
		if (res < 0)
			return res;
		entry->is_given_up = entry->kept.is_given_up = true;
	}
	return medium_retry(&registry->openings, wish, before, is_recreated, ret_media, ret_error);
}

/* A Format of the namespace that has the store would erase the data of the next one. */
static int format_check(const struct media_registry *registry, const struct ns_backing *present,
			const struct ns_live *wanted, struct media_error *ret_error)
{
	const struct uuid *uuid = ns_live_uuid(ns_backing_live(present));
	char text[UUID_TEXT_BYTES];

	if (ns_backing_live(present) == wanted || !media_registry_is_formatting(registry, uuid))
		return 0;
	snprintf(ret_error->text, sizeof(ret_error->text),
		 "a Format of namespace %s, which has this medium now, is in progress; try again "
		 "when it has ended",
		 uuid_format(uuid, text));
	return -EBUSY;
}

/* When a change is taken back, the former namespace keeps its medium. A medium without size=
 * follows the size of its file, which the change may have grown. */
static bool backing_is_taken_back(const struct media_registry *registry,
				  const struct ns_backing *backing, const struct media_wish *wish,
				  const struct ns_live *live)
{
	return registry->is_taking_back && ns_backing_live(backing) == live &&
	       strcmp(ns_backing_media(backing)->spec, wish->spec) == 0;
}

/* Finds the entry's backing that is as wished. If none is, opens one beside the present one. */
static int backing_choose(struct media_registry *registry, struct backing_entry *entry,
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
	if (backing_is_taken_back(registry, entry->backing, wish, live) ||
	    (backing_is_as_wished(entry->backing, wish, live) &&
	     !is_retried(registry, ns_backing_media(entry->backing), wish))) {
		*ret_backing = entry->backing;
		return 0;
	}
	/* Opened in this transaction, so it is not retried again. */
	if (backing_is_as_wished(entry->next, wish, live)) {
		*ret_backing = entry->next;
		return 0;
	}
	if (entry->next) {
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "another change of this medium is in progress; try again");
		return -EBUSY;
	}
	res = format_check(registry, entry->backing, live, ret_error);
	if (res == 0)
		res = backing_reopen(registry, entry, wish, &media, ret_error);
	if (res == 0) {
		served_note(registry, wish, registry_key_path(entry->key), media);
		res = identity_check(registry, wish, registry_key_path(entry->key), media,
				     ret_error);
		if (res < 0) {
			(void)media_undo(media);
			media_close(media);
		}
	}
	if (res == 0)
		res = ns_backing_make(registry, media, live, entry->backing, &entry->next,
				      ret_error);
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

static void store_look(struct ns_backing *backing, uint64_t now_ns)
{
	struct media_error problem; /* unused: a problem is logged when first seen */

	backing_measure(backing);
	(void)media_problem(ns_backing_media(backing), &problem);
	ns_live_look_space(ns_backing_live(backing), now_ns);
}

void media_registry_measure(struct media_registry *registry, uint64_t now_ns)
{
	list_for_each(node, &registry->backings)
		store_look(list_entry(node, struct backing_entry, entry.node)->backing, now_ns);
}

/* A transaction may be growing the medium itself. */
static void size_look(const struct media_registry *registry, const struct media *media)
{
	if (!registry->has_begun && !media_is_current(media, media->spec))
		log_limited(
			LOG_LEVEL_INFO, "control",
			"%s: the file or device is now larger or smaller than the served size; the "
			"next change of the configuration serves the new size",
			media->spec);
}

static void on_told(struct media_listener *listener, struct media *media, unsigned events)
{
	struct media_registry *registry = container_of(listener, struct media_registry, listener);

	list_for_each(node, &registry->backings) {
		struct backing_entry *entry = list_entry(node, struct backing_entry, entry.node);

		if (ns_backing_media(entry->backing) == media) {
			store_look(entry->backing, clock_monotonic_ns());
			if (events & MEDIA_EVENT_SIZE)
				size_look(registry, media);
			return;
		}
	}
}

void media_registry_listen(struct media_registry *registry, struct reactor *control)
{
	registry->listener = (struct media_listener){.reactor = control, .told = on_told};
}

/* Whether a namespace of another UUID had the file of a new entry: in the document of this start,
 * or before it was removed. */
static bool file_has_owner(const struct media_registry *registry, const struct backing_entry *entry)
{
	const struct uuid *uuid = ns_live_uuid(ns_backing_live(entry->backing));
	const struct media *media = ns_backing_media(entry->backing);
	const char *path = registry_key_path(entry->key);
	const struct uuid *owner = path && !registry->has_started
					   ? media_records_owner(registry->records, path)
					   : NULL;
	struct media_record record;

	if (owner)
		return !uuid_equal(owner, uuid);
	return path && !media_is_lost(media) && media_get_record(media, &record) &&
	       removed_has_file(registry->removed, path, &record, uuid);
}

/* Whether the store of the backing, one of the entry's, was another namespace's. */
static bool backing_has_passed(const struct media_registry *registry, struct backing_entry *entry,
			       const struct ns_backing *backing)
{
	/* The change is being undone: this is the former namespace. */
	if (entry->next && backing != entry->next)
		return entry->has_passed;
	if (entry->next) {
		entry->next_has_passed =
			entry->has_passed ||
			ns_backing_live(entry->next) != ns_backing_live(entry->backing);
		return entry->next_has_passed;
	}
	if (entry->entry.is_new)
		entry->has_passed = file_has_owner(registry, entry);
	return entry->has_passed;
}

int media_registry_get(struct media_registry *registry, const struct media_wish *wish,
		       struct ns_backing **ret_backing, bool *ret_has_passed,
		       struct media_error *ret_error)
{
	struct backing_entry wanted = {.key = backing_key(wish)};
	struct backing_entry **node, *found;
	struct ns_live *live;
	int res;

	snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
	if (!wanted.key)
		return -ENOMEM;
	res = registry_get_live(registry, wish, &live, ret_error);
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
	*ret_has_passed = backing_has_passed(registry, found, *ret_backing) && !registry->is_kept;
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

void registry_drop_gate(struct backing_entry *entry)
{
	if (entry->has_gate)
		range_guard_drop_gate(ns_backing_media(entry->backing)->range_guard);
	entry->has_gate = false;
}

/*
 * Plain reads and writes do not wait for a large deallocation (target/io.c). One of the former
 * namespace could end after the next namespace has the store, and erase what its hosts have
 * written. So none may be at the medium now, and until the transaction ends none gets there: at
 * that time the reactors know the next namespace, and judge by that.
 */
static int entry_take_gate(struct backing_entry *entry, struct media_error *ret_error)
{
	const struct ns_live *former = ns_backing_live(entry->backing);
	char text[UUID_TEXT_BYTES];

	if (!entry->next || entry->has_gate || ns_backing_live(entry->next) == former)
		return 0;
	entry->has_gate = range_guard_try_gate(ns_backing_media(entry->backing)->range_guard);
	if (entry->has_gate)
		return 0;
	snprintf(ret_error->text, sizeof(ret_error->text),
		 "a deallocation by a host of namespace %s, which has this medium now, is in "
		 "progress; try again when it has ended",
		 uuid_format(ns_live_uuid(former), text));
	return -EBUSY;
}

static int gates_take(struct media_registry *registry, struct media_error *ret_error)
{
	int res = 0;

	list_for_each(node, &registry->backings) {
		if (res == 0)
			res = entry_take_gate(list_entry(node, struct backing_entry, entry.node),
					      ret_error);
	}
	return res;
}

bool media_registry_has_passed_any(const struct media_registry *registry)
{
	list_for_each(node, &registry->backings) {
		const struct backing_entry *entry =
			list_entry(node, struct backing_entry, entry.node);

		if (entry->has_passed || entry->next_has_passed)
			return true;
	}
	return false;
}

void media_registry_note_kept(struct media_registry *registry)
{
	registry->is_kept = true;
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
	if (res == 0)
		res = gates_take(registry, ret_error);
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
