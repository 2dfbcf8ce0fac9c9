/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of namespaces that were removed and may come back: see daemon/removed_ns.h. It is kept
 * as one text of the kind "removed", a line each: UUID, time in seconds, path. Oldest first.
 *
 * Control thread only.
 */
#include "daemon/removed_ns.h"

#include "base/list.h"
#include "base/log.h"
#include "target/ns_live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REMOVED_KIND "removed"
#define REMOVED_KEY  "namespaces"
#define DAY_S        86400u

struct removed_ns {
	struct list node;
	struct uuid uuid;
	uint64_t since_s;
	char path[];
};

struct removed_list {
	struct list all;
	unsigned count;
	bool is_changed; /* since it was kept */
};

int removed_list_create(struct removed_list **ret_list)
{
	*ret_list = calloc(1, sizeof(**ret_list));
	if (!*ret_list)
		return -ENOMEM;
	list_init(&(*ret_list)->all);
	return 0;
}

static void entry_free(struct removed_list *list, struct removed_ns *entry)
{
	list_remove(&entry->node);
	list->count--;
	list->is_changed = true;
	free(entry);
}

void removed_list_destroy(struct removed_list *list)
{
	list_for_each_safe(node, &list->all)
		entry_free(list, list_entry(node, struct removed_ns, node));
	free(list);
}

static struct removed_ns *entry_find(const struct removed_list *list, const struct uuid *uuid)
{
	list_for_each(node, &list->all) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (uuid_equal(&entry->uuid, uuid))
			return entry;
	}
	return NULL;
}

/* Nobody comes back for it any more. */
static int entry_drop(struct removed_list *list, struct removed_ns *entry,
		      const struct target_keeper *keeper, const char *why)
{
	char text[UUID_TEXT_BYTES];
	int res = ns_live_forget_uuid(&entry->uuid, keeper);

	uuid_format(&entry->uuid, text);
	if (res < 0) {
		log_warn("control",
			 "namespace %s was removed, and what was kept of it could not be dropped; "
			 "the next change tries again",
			 text);
		return res;
	}
	log_info("control", "namespace %s: what was kept of it is dropped: %s", text, why);
	entry_free(list, entry);
	return 0;
}

/* ---- keeping ----------------------------------------------------------------------------------
 */

static void entry_add(struct removed_list *list, const struct uuid *uuid, const char *path,
		      uint64_t since_s)
{
	struct removed_ns *entry = calloc(1, sizeof(*entry) + strlen(path) + 1);

	if (!entry) {
		log_warn("control", "%s: no memory to note that its namespace was removed", path);
		return;
	}
	entry->uuid = *uuid;
	entry->since_s = since_s;
	memcpy(entry->path, path, strlen(path) + 1);
	list_push_back(&list->all, &entry->node);
	list->count++;
	list->is_changed = true;
}

static void line_take(struct removed_list *list, const char *line)
{
	char text[UUID_TEXT_BYTES];
	struct uuid uuid;
	uint64_t since_s;
	int at = 0;

	if (sscanf(line, "%36s %" SCNu64 " %n", text, &since_s, &at) == 2 && at > 0 &&
	    uuid_parse(text, &uuid) == 0)
		entry_add(list, &uuid, line + at, since_s);
	else
		log_warn("control", "a removed namespace that was kept cannot be read: %.80s",
			 line);
}

int removed_list_recall(struct removed_list *list, const struct target_keeper *keeper)
{
	char *copy, *line, *rest = NULL;
	void *value = NULL;
	size_t bytes = 0;
	int res;

	if (!keeper->recall)
		return 0;
	res = keeper->recall(keeper->arg, REMOVED_KIND, REMOVED_KEY, &value, &bytes);
	if (res < 0)
		return res == -ENOENT ? 0 : res;
	copy = strndup(value, bytes);
	free(value);
	if (!copy)
		return -ENOMEM;
	for (line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		line_take(list, line);
	free(copy);
	list->is_changed = false;
	return 0;
}

static int list_write(const struct removed_list *list, const struct target_keeper *keeper)
{
	char *text = NULL, uuid[UUID_TEXT_BYTES];
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int res;

	if (!out)
		return -ENOMEM;
	list_for_each(node, &list->all) {
		const struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		fprintf(out, "%s %" PRIu64 " %s\n", uuid_format(&entry->uuid, uuid), entry->since_s,
			entry->path);
	}
	res = fclose(out) == 0 ? 0 : -ENOMEM;
	if (res == 0)
		res = keeper->keep(keeper->arg, REMOVED_KIND, REMOVED_KEY,
				   list->count > 0 ? text : NULL, list->count > 0 ? bytes : 0);
	free(text);
	return res;
}

void removed_keep(struct removed_list *list, const struct target_keeper *keeper, uint64_t now_s)
{
	list_for_each_safe(node, &list->all) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (entry->since_s + (uint64_t)REMOVED_NS_DAYS * DAY_S < now_s)
			(void)entry_drop(list, entry, keeper, "it was removed too long ago");
		else if (list->count > REMOVED_NS_MAX)
			(void)entry_drop(list, entry, keeper, "many others were removed since");
	}
	if (!list->is_changed || !keeper->keep)
		return;
	if (list_write(list, keeper) == 0)
		list->is_changed = false;
	else
		log_warn("control", "which namespaces were removed could not be kept; the next "
				    "change tries again");
}

void removed_set_unkept(struct removed_list *list)
{
	list->is_changed = true;
}

/* ---- what becomes of them ---------------------------------------------------------------------
 */

bool removed_is_elsewhere(const struct removed_list *list, const struct uuid *uuid,
			  const char *path)
{
	const struct removed_ns *entry = entry_find(list, uuid);

	return entry && (!path || strcmp(entry->path, path) != 0);
}

void removed_take_back(struct removed_list *list, const struct uuid *uuid)
{
	struct removed_ns *entry = entry_find(list, uuid);

	if (entry)
		entry_free(list, entry);
}

void removed_add(struct removed_list *list, const struct uuid *uuid, const char *path,
		 uint64_t now_s)
{
	removed_take_back(list, uuid);
	/* A line each. */
	if (!strchr(path, '\n'))
		entry_add(list, uuid, path, now_s);
}

void removed_drop_path(struct removed_list *list, const char *path, const struct uuid *owner,
		       const struct target_keeper *keeper)
{
	list_for_each_safe(node, &list->all) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (strcmp(entry->path, path) == 0 && (!owner || !uuid_equal(&entry->uuid, owner)))
			(void)entry_drop(list, entry, keeper,
					 owner ? "its file is another namespace's now"
					       : "its file was deleted");
	}
}

int removed_drop(struct removed_list *list, const struct uuid *uuid,
		 const struct target_keeper *keeper)
{
	struct removed_ns *entry = entry_find(list, uuid);

	return entry ? entry_drop(list, entry, keeper, "the operator asked for it") : -ENOENT;
}

void removed_each(const struct removed_list *list,
		  void (*look)(void *arg, const struct uuid *uuid, const char *path,
			       uint64_t since_s),
		  void *arg)
{
	list_for_each(node, &list->all) {
		const struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		look(arg, &entry->uuid, entry->path, entry->since_s);
	}
}
