/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one reference to every open medium between two configurations. The snapshots hold their
 * own, so a medium that leaves the configuration closes when the last command on it is done.
 * There may be many thousands: they are found through a tree.
 *
 * Control thread only.
 */
#include "control/media_registry.h"

#include "base/list.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct registry_entry {
	struct list node;
	char *key;
	struct ns_store *store; /* counted */
	bool is_new;            /* opened in this transaction */
	bool is_used;           /* asked for in this transaction */
};

struct media_registry {
	struct list entries;
	void *by_key; /* tsearch's, of the same entries */
	unsigned reactor_count;
};

int media_registry_create(unsigned reactor_count, struct media_registry **ret_registry)
{
	struct media_registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return -ENOMEM;
	list_init(&registry->entries);
	registry->reactor_count = reactor_count;
	*ret_registry = registry;
	return 0;
}

static int entry_order(const void *a, const void *b)
{
	const struct registry_entry *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static void entry_release(struct media_registry *registry, struct registry_entry *entry)
{
	tdelete(entry, &registry->by_key, entry_order);
	list_remove(&entry->node);
	ns_store_put(entry->store);
	free(entry->key);
	free(entry);
}

void media_registry_destroy(struct media_registry *registry)
{
	if (!registry)
		return;
	list_for_each_safe(node, &registry->entries)
		entry_release(registry, list_entry(node, struct registry_entry, node));
	free(registry);
}

void media_registry_begin(struct media_registry *registry)
{
	list_for_each(node, &registry->entries) {
		struct registry_entry *entry = list_entry(node, struct registry_entry, node);

		entry->is_new = false;
		entry->is_used = false;
	}
}

static int entry_open(struct media_registry *registry, const char *key, const char *spec,
		      struct registry_entry **ret_entry, struct media_error *ret_error)
{
	struct registry_entry *entry = calloc(1, sizeof(*entry));
	struct media *media;
	int res = -ENOMEM;

	snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
	if (!entry)
		return res;
	entry->key = strdup(key);
	if (entry->key)
		res = media_open(spec, &media, ret_error);
	if (res == 0) {
		res = ns_store_create(media, registry->reactor_count, &entry->store);
		if (res < 0) {
			media_close(media);
			snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		}
	}
	if (res == 0 && !tsearch(entry, &registry->by_key, entry_order)) {
		ns_store_put(entry->store); /* closes the medium too */
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		res = -ENOMEM;
	}
	if (res < 0) {
		free(entry->key);
		free(entry);
		return res;
	}
	entry->is_new = true;
	list_push_back(&registry->entries, &entry->node);
	*ret_entry = entry;
	return 0;
}

int media_registry_get(struct media_registry *registry, const char *key, const char *spec,
		       struct ns_store **ret_store, struct media_error *ret_error)
{
	const struct registry_entry wanted = {.key = (char *)key};
	struct registry_entry **node = tfind(&wanted, &registry->by_key, entry_order);
	struct registry_entry *found = node ? *node : NULL;
	int res;

	if (!found) {
		res = entry_open(registry, key, spec, &found, ret_error);
		if (res < 0)
			return res;
	}
	found->is_used = true;
	*ret_store = ns_store_get(found->store);
	return 0;
}

void media_registry_commit(struct media_registry *registry)
{
	list_for_each_safe(node, &registry->entries) {
		struct registry_entry *entry = list_entry(node, struct registry_entry, node);

		if (!entry->is_used)
			entry_release(registry, entry);
	}
}

void media_registry_rollback(struct media_registry *registry)
{
	list_for_each_safe(node, &registry->entries) {
		struct registry_entry *entry = list_entry(node, struct registry_entry, node);

		if (entry->is_new)
			entry_release(registry, entry);
	}
}

unsigned media_registry_count(const struct media_registry *registry)
{
	unsigned count = 0;

	list_for_each(node, &registry->entries)
		count++;
	return count;
}
