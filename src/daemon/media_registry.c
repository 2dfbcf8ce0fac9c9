/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one reference to every open medium, and to the live state of every namespace and subsystem,
 * between two configurations. Snapshots hold references of their own, so a medium that leaves the
 * configuration closes when its last command is done.
 *
 * Control thread only.
 */
#include "daemon/media_registry_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/ana_change.h"
#include "daemon/ana_hold.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

int media_registry_create(unsigned reactor_count, struct media_registry **ret_registry)
{
	struct media_registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return -ENOMEM;
	registry->closing = media_closing_create();
	if (!registry->closing) {
		free(registry);
		return -ENOMEM;
	}
	if (media_records_create(&registry->records) < 0) {
		media_closing_release(registry->closing);
		free(registry);
		return -ENOMEM;
	}
	if (removed_list_create(clock_monotonic_ns() / NS_PER_S, &registry->removed) < 0) {
		media_records_destroy(registry->records);
		media_closing_release(registry->closing);
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
	media_openings_init(&registry->openings, media_closing_count(registry->closing));
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

static void registry_release(struct media_registry *registry)
{
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

void media_registry_destroy(struct media_registry *registry)
{
	struct media_closing *closing = registry ? registry->closing : NULL;

	if (!registry)
		return;
	registry_release(registry);
	media_closing_release(closing);
}

void media_registry_close(struct media_registry *registry, struct reactor *control,
			  void (*done)(void *arg), void *arg)
{
	struct media_closing *closing = registry->closing;

	registry_release(registry);
	media_closing_wait(closing, control, done, arg);
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

void media_registry_forgive(struct media_registry *registry, const struct uuid *uuid)
{
	registry->forgiven = *uuid;
	registry->forgiven_loss = media_loss(media_registry_find(registry, uuid));
}

void media_registry_end_wishes(struct media_registry *registry, bool is_success)
{
	static const struct uuid none;
	struct media *media = uuid_is_nil(&registry->forgiven)
				      ? NULL
				      : media_registry_find(registry, &registry->forgiven);

	if (is_success && media && media_loss(media) == registry->forgiven_loss)
		media_forgive(media);
	registry->forgiven = none;
	media_registry_retry(registry, &none, false);
	if (registry->peers)
		peers_end_recheck(registry->peers, is_success);
}

void media_registry_set_peers(struct media_registry *registry, struct peers *peers)
{
	registry->peers = peers;
}

struct peers *media_registry_peers(const struct media_registry *registry)
{
	return registry->peers;
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

int registry_entry_add(struct registry_entry *entry, struct list *list, void **tree,
		       int (*key_order)(const void *a, const void *b))
{
	if (!tsearch(entry, tree, key_order))
		return -ENOMEM;
	entry->is_new = true;
	list_push_back(list, &entry->node);
	return 0;
}

/* is_again: entries that are new stay new. */
static void entries_begin(struct list *entries, bool is_again)
{
	list_for_each(node, entries) {
		struct registry_entry *entry = list_entry(node, struct registry_entry, node);

		entry->is_new &= is_again;
		entry->is_used = false;
	}
}

bool media_registry_begin(struct media_registry *registry)
{
	bool is_again = registry->has_begun;

	if (is_again && !registry->openings.has_waited) {
		registry->is_taking_back = !registry->is_kept;
		return false;
	}
	registry->has_begun = true;
	registry->openings.has_waited = false;
	registry->is_kept = false;
	registry->is_taking_back = false;
	entries_begin(&registry->backings, is_again);
	entries_begin(&registry->lives, is_again);
	entries_begin(&registry->subsystems, is_again);
	return true;
}

void media_registry_wait(struct media_registry *registry, struct reactor *control,
			 void (*done)(void *arg, int res), void *arg)
{
	media_openings_wait(&registry->openings, control, done, arg);
}

void media_registry_stop_waiting(struct media_registry *registry)
{
	media_openings_stop(&registry->openings);
}

bool media_registry_has_started(const struct media_registry *registry)
{
	return registry->has_started;
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
