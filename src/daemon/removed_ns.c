/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of removed namespaces that may come back: see daemon/removed_ns.h. Kept as one string of
 * the kind "removed", with a line for each namespace: LINE_FORMAT and the path. Oldest first. Ages
 * are kept to the day while the target runs, and exactly when it ends: a kill loses less than a
 * day of them.
 *
 * Control thread only.
 */
#include "daemon/removed_ns.h"

#include "base/log.h"
#include "daemon/media_records.h"
#include "ns/ns_live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REMOVED_KIND "removed"
#define REMOVED_KEY  "namespaces"
#define DAY_S        86400u

#define LINE_FORMAT                                                                                \
	"%s %" PRIu64 " kept=%u size=%" PRIu64 " block=%" PRIu32 " device=%u inode=%" PRIu64       \
	" born=%" PRIu64 " id=%s age=%" PRIu64 " "
#define LINE_SCAN                                                                                  \
	"%36s %" SCNu64 " kept=%u size=%" SCNu64 " block=%" SCNu32 " device=%u inode=%" SCNu64     \
	" born=%" SCNu64 " id=%191s %n"
#define LINE_WORDS 9
#define AGE_SCAN   "age=%" SCNu64 " %n" /* missing in lines of earlier versions */
#define ID_NONE    "-"

struct removed_list {
	struct list kept;  /* struct removed_ns with kept state (ns_live_kept) */
	struct list plain; /* struct removed_ns without kept state */
	/* Entries that are not replaced, and those among them that are new. */
	unsigned kept_count, plain_count, new_kept_count, new_plain_count;
	uint64_t looked_s; /* monotonic time of creation */
	bool is_changed;   /* since the list was last kept */
};

int removed_list_create(uint64_t now_s, struct removed_list **ret_list)
{
	*ret_list = calloc(1, sizeof(**ret_list));
	if (!*ret_list)
		return -ENOMEM;
	list_init(&(*ret_list)->kept);
	list_init(&(*ret_list)->plain);
	(*ret_list)->looked_s = now_s;
	return 0;
}

/* Counts an entry that is added or comes back (1), or leaves or is replaced (-1). */
static void entry_count(struct removed_list *list, const struct removed_ns *entry, int change)
{
	*(entry->kept ? &list->kept_count : &list->plain_count) += (unsigned)change;
	if (entry->is_new)
		*(entry->kept ? &list->new_kept_count : &list->new_plain_count) += (unsigned)change;
	list->is_changed = true;
}

static void entry_free(struct removed_list *list, struct removed_ns *entry)
{
	list_remove(&entry->node);
	if (!entry->is_replaced)
		entry_count(list, entry, -1);
	free(entry);
}

void removed_list_destroy(struct removed_list *list)
{
	list_for_each_safe(node, &list->kept)
		entry_free(list, list_entry(node, struct removed_ns, node));
	list_for_each_safe(node, &list->plain)
		entry_free(list, list_entry(node, struct removed_ns, node));
	free(list);
}

static struct removed_ns *entry_find(const struct list *entries, const struct uuid *uuid)
{
	list_for_each(node, entries) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (!entry->is_replaced && uuid_equal(&entry->uuid, uuid))
			return entry;
	}
	return NULL;
}

static struct removed_ns *list_find(const struct removed_list *list, const struct uuid *uuid)
{
	struct removed_ns *entry = entry_find(&list->kept, uuid);

	return entry ? entry : entry_find(&list->plain, uuid);
}

const struct removed_ns *removed_find(const struct removed_list *list, const struct uuid *uuid)
{
	return list_find(list, uuid);
}

/* The namespace will not come back: forgets what is kept of it, and frees the entry. */
static int entry_drop(struct removed_list *list, struct removed_ns *entry,
		      const struct keeper *keeper, const char *why)
{
	const struct uuid uuid = entry->uuid;
	char text[UUID_TEXT_BYTES];
	int res = entry->kept ? ns_live_forget_uuid(&uuid, keeper) : 0;

	uuid_format(&uuid, text);
	if (res < 0) {
		log_warn("control",
			 "namespace %s was removed, but its kept state could not be dropped; the "
			 "next change tries again",
			 text);
		return res;
	}
	if (entry->kept)
		log_info("control", "namespace %s: its kept state is dropped: %s", text, why);
	removed_take_back(list, &uuid);
	return 0;
}

/* ---- keeping ----------------------------------------------------------------------------------
 */

static void removed_push(struct removed_list *list, const struct removed_ns *about,
			 const char *path)
{
	struct removed_ns *entry = calloc(1, sizeof(*entry) + strlen(path) + 1);

	if (!entry) {
		log_warn("control",
			 "%s: out of memory: cannot record that its namespace was removed", path);
		return;
	}
	*entry = *about;
	memcpy(entry->path, path, strlen(path) + 1);
	list_push_back(entry->kept ? &list->kept : &list->plain, &entry->node);
	entry_count(list, entry, 1);
}

static void removed_line_take(struct removed_list *list, const char *line)
{
	struct removed_ns entry = {.record.has_type = true};
	struct media_record *record = &entry.record;
	char uuid[UUID_TEXT_BYTES];
	unsigned is_block_device;
	int at = 0, age_bytes = 0;

	if (sscanf(line, LINE_SCAN, uuid, &entry.since_s, &entry.kept, &record->size_bytes,
		   &record->block_bytes, &is_block_device, &record->inode, &record->born_ns,
		   record->device_id, &at) != LINE_WORDS ||
	    at == 0 || uuid_parse(uuid, &entry.uuid) < 0) {
		log_warn("control", "the saved record of a removed namespace is invalid: %.80s",
			 line);
		return;
	}
	record->is_block_device = is_block_device != 0;
	if (strcmp(record->device_id, ID_NONE) == 0)
		record->device_id[0] = '\0';
	if (sscanf(line + at, AGE_SCAN, &entry.age_s, &age_bytes) != 1 || age_bytes == 0)
		entry.age_s = 0;
	entry.looked_s = list->looked_s;
	removed_push(list, &entry, line + at + age_bytes);
}

int removed_list_recall(struct removed_list *list, const struct keeper *keeper)
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
	copy = realloc(value, bytes + 1);
	if (!copy) {
		free(value);
		return -ENOMEM;
	}
	copy[bytes] = '\0';
	for (line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		removed_line_take(list, line);
	free(copy);
	list->is_changed = false;
	return 0;
}

static void line_write(void *arg, const struct removed_ns *removed)
{
	const struct media_record *record = &removed->record;
	char uuid[UUID_TEXT_BYTES];

	fprintf(arg, LINE_FORMAT "%s\n", uuid_format(&removed->uuid, uuid), removed->since_s,
		removed->kept, record->size_bytes, record->block_bytes, record->is_block_device,
		record->inode, record->born_ns, record->device_id[0] ? record->device_id : ID_NONE,
		removed->age_s, removed->path);
}

static int list_write(const struct removed_list *list, const struct keeper *keeper)
{
	bool is_empty = list->kept_count + list->plain_count == 0;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int res;

	if (!out)
		return -ENOMEM;
	removed_each(list, line_write, out);
	res = fclose(out) == 0 ? 0 : -ENOMEM;
	if (res == 0)
		res = keeper->keep(keeper->arg, REMOVED_KIND, REMOVED_KEY, is_empty ? NULL : text,
				   is_empty ? 0 : bytes);
	free(text);
	return res;
}

static void entry_age(struct removed_list *list, struct removed_ns *entry, uint64_t now_s,
		      bool is_end)
{
	uint64_t before_s = entry->age_s;

	if (now_s > entry->looked_s)
		entry->age_s += now_s - entry->looked_s;
	entry->looked_s = now_s;
	if (is_end ? entry->age_s != before_s : entry->age_s / DAY_S != before_s / DAY_S)
		list->is_changed = true;
}

void removed_age(struct removed_list *list, uint64_t now_s, bool is_end)
{
	list_for_each(node, &list->kept)
		entry_age(list, list_entry(node, struct removed_ns, node), now_s, is_end);
	list_for_each(node, &list->plain)
		entry_age(list, list_entry(node, struct removed_ns, node), now_s, is_end);
}

/* Returns why the entry expires; NULL: the entry stays. */
static const char *entry_expires(const struct removed_ns *entry, unsigned count)
{
	if (entry->age_s > (uint64_t)REMOVED_NS_DAYS * DAY_S)
		return "the namespace was removed too long ago";
	return count > REMOVED_NS_MAX ? "many other namespaces were removed since" : NULL;
}

void removed_expire(struct removed_list *list, const struct keeper *keeper,
		    bool (*is_in_use)(void *arg, const struct uuid *uuid), void *arg)
{
	struct list *const kinds[] = {&list->kept, &list->plain};
	const unsigned *const counts[] = {&list->kept_count, &list->plain_count};

	if (list->new_kept_count + list->new_plain_count > 0)
		return;
	for (unsigned i = 0; i < 2; i++) {
		list_for_each_safe(node, kinds[i]) {
			struct removed_ns *entry = list_entry(node, struct removed_ns, node);
			const char *why = entry_expires(entry, *counts[i]);

			if (!why || entry->is_replaced || is_in_use(arg, &entry->uuid))
				continue;
			media_served_forget(keeper, &entry->uuid);
			(void)entry_drop(list, entry, keeper, why);
		}
	}
}

void removed_keep(struct removed_list *list, const struct keeper *keeper)
{
	if (!list->is_changed || !keeper->keep)
		return;
	if (list_write(list, keeper) == 0)
		list->is_changed = false;
	else
		log_warn("control",
			 "cannot save the list of removed namespaces; the next change tries again");
}

void removed_set_unkept(struct removed_list *list)
{
	list->is_changed = true;
}

/* ---- coming back and dropping -------------------------------------------------------------------
 */

static bool entry_is_in(const struct removed_ns *entry, const char *path,
			const struct media_record *now)
{
	return media_record_is_file(&entry->record, entry->path, now, path);
}

int removed_check(const struct removed_list *list, const struct uuid *uuid, const char *path,
		  const struct media_record *now, struct media_error *ret_error)
{
	const struct removed_ns *entry = list_find(list, uuid);
	struct media_record found;
	char text[UUID_TEXT_BYTES];
	int res = 0;

	if (!entry)
		return 0;
	if (path && !now) {
		res = media_path_record(path, &found);
		now = &found;
	}
	if (path && res == 0 && entry_is_in(entry, path, now))
		return 0;
	/* Hosts know the data of the former file by the UUID. */
	snprintf(ret_error->text, sizeof(ret_error->text),
		 "%s the namespace had when it was removed (%.50s). Restore that file, or omit the "
		 "UUID; to use this file: weft ctl removed drop %s",
		 res < 0 ? "missing, and not the file that" : "this is not the file that",
		 entry->path, uuid_format(uuid, text));
	return -EUCLEAN;
}

/* The entries of the UUID that are replaced, too. */
static void entries_free_of(struct removed_list *list, struct list *entries,
			    const struct uuid *uuid)
{
	list_for_each_safe(node, entries) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (uuid_equal(&entry->uuid, uuid))
			entry_free(list, entry);
	}
}

void removed_take_back(struct removed_list *list, const struct uuid *uuid)
{
	entries_free_of(list, &list->kept, uuid);
	entries_free_of(list, &list->plain, uuid);
}

static void entries_take_back(struct removed_list *list, struct list *entries,
			      bool (*is_back)(void *arg, const struct uuid *uuid), void *arg)
{
	list_for_each_safe(node, entries) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (is_back(arg, &entry->uuid))
			entry_free(list, entry);
	}
}

void removed_take_back_all(struct removed_list *list,
			   bool (*is_back)(void *arg, const struct uuid *uuid), void *arg)
{
	entries_take_back(list, &list->kept, is_back, arg);
	entries_take_back(list, &list->plain, is_back, arg);
}

static struct removed_ns *entry_oldest_new(const struct list *entries)
{
	list_for_each(node, entries) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (entry->is_new)
			return entry;
	}
	return NULL;
}

void removed_add(struct removed_list *list, const struct removed_ns *about, const char *path)
{
	struct removed_ns *former = list_find(list, &about->uuid), entry = *about;

	if (former && former->is_new) {
		entry_free(list, former);
	} else if (former) {
		entry_count(list, former, -1);
		former->is_replaced = true;
	}
	entry.is_new = true;
	/* A line has one entry, so a path with a newline is left out. */
	if (!strchr(path, '\n'))
		removed_push(list, &entry, path);
	/* A change may remove many thousands: those that expire with the change leave at once. */
	if (list->new_plain_count > REMOVED_NS_MAX)
		entry_free(list, entry_oldest_new(&list->plain));
}

static void entries_commit(struct removed_list *list, struct list *entries)
{
	list_for_each_safe(node, entries) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		entry->is_new = false;
		if (entry->is_replaced)
			entry_free(list, entry);
	}
}

void removed_commit(struct removed_list *list)
{
	entries_commit(list, &list->kept);
	entries_commit(list, &list->plain);
	list->new_kept_count = list->new_plain_count = 0;
}

static void entries_rollback(struct removed_list *list, struct list *entries)
{
	list_for_each_safe(node, entries) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (entry->is_new) {
			entry_free(list, entry);
		} else if (entry->is_replaced) {
			entry->is_replaced = false;
			entry_count(list, entry, 1);
		}
	}
}

void removed_rollback(struct removed_list *list)
{
	entries_rollback(list, &list->kept);
	entries_rollback(list, &list->plain);
}

/* The first entry that was in the file and is not the owner's. */
static struct removed_ns *entry_find_in(const struct list *entries, const char *path,
					const struct media_record *record, const struct uuid *owner)
{
	list_for_each(node, entries) {
		struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (!entry->is_replaced && !uuid_equal(&entry->uuid, owner) &&
		    entry_is_in(entry, path, record))
			return entry;
	}
	return NULL;
}

unsigned removed_kept_count(const struct removed_list *list)
{
	return list->kept_count;
}

const struct removed_ns *removed_find_kept_in(const struct removed_list *list, const char *path,
					      const struct media_record *record,
					      const struct uuid *owner)
{
	return entry_find_in(&list->kept, path, record, owner);
}

bool removed_has_file(const struct removed_list *list, const char *path,
		      const struct media_record *record, const struct uuid *owner)
{
	return entry_find_in(&list->kept, path, record, owner) ||
	       entry_find_in(&list->plain, path, record, owner);
}

void removed_drop_file(struct removed_list *list, const char *path,
		       const struct media_record *record, const struct uuid *owner,
		       const struct keeper *keeper)
{
	static const char why[] = "its file belongs to another namespace now";
	struct removed_ns *entry;
	int res = 0;

	while (res == 0 && (entry = entry_find_in(&list->kept, path, record, owner)) != NULL)
		res = entry_drop(list, entry, keeper, why);
	while ((entry = entry_find_in(&list->plain, path, record, owner)) != NULL)
		(void)entry_drop(list, entry, keeper, why);
}

int removed_drop(struct removed_list *list, const struct uuid *uuid, const char *why,
		 const struct keeper *keeper)
{
	struct removed_ns *entry = list_find(list, uuid);

	return entry ? entry_drop(list, entry, keeper, why) : -ENOENT;
}

static void entries_each(const struct list *entries,
			 void (*look)(void *arg, const struct removed_ns *removed), void *arg)
{
	list_for_each(node, entries) {
		const struct removed_ns *entry = list_entry(node, struct removed_ns, node);

		if (!entry->is_replaced)
			look(arg, entry);
	}
}

void removed_each(const struct removed_list *list,
		  void (*look)(void *arg, const struct removed_ns *removed), void *arg)
{
	entries_each(&list->kept, look, arg);
	entries_each(&list->plain, look, arg);
}
