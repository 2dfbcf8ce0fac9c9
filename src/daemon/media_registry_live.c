/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live state of namespaces (by UUID) and of subsystems (by NQN) in the media registry: found,
 * created, recalled from the state store, and kept there. Entries are found through trees, because
 * there may be many thousands.
 *
 * Control thread only.
 */
#include "daemon/media_registry_private.h"

#include "base/log.h"
#include "ns/health.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void registry_release_live(struct media_registry *registry, struct live_entry *entry)
{
	tdelete(entry, &registry->lives_by_uuid, live_order);
	list_remove(&entry->entry.node);
	ns_live_put(entry->live);
	free(entry->left_path);
	free(entry->left_record);
	free(entry);
}

void registry_release_subsystem(struct media_registry *registry, struct subsystem_entry *entry)
{
	tdelete(entry, &registry->subsystems_by_nqn, subsystem_order);
	list_remove(&entry->entry.node);
	subsystem_live_put(entry->live);
	free(entry);
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

int registry_get_live(struct media_registry *registry, const struct media_wish *wish,
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
		free(entry->served);
		entry->served = NULL;
	}
	removed_set_unkept(registry->removed);
	list_for_each(node, &registry->lives)
		ns_live_set_unkept(list_entry(node, struct live_entry, entry.node)->live);
	list_for_each(node, &registry->subsystems)
		subsystem_live_set_unkept(
			list_entry(node, struct subsystem_entry, entry.node)->live);
}
