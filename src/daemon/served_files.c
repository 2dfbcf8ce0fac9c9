/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file was served last under a UUID: see daemon/served_files.h. The registry has a pointer
 * from each live state to its medium, and the expected files of a start are in a tree by UUID, so
 * that a change of ten thousand paths takes no quadratic time.
 *
 * Control thread only.
 */
#include "daemon/served_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: the namespace is not in force. */
static const struct backing_entry *entry_in_force(const struct media_registry *registry,
						  const struct uuid *uuid)
{
	const struct live_entry *live = registry_find_live(registry, uuid);

	return live ? live->served : NULL;
}

bool served_file_is_at(const struct media_registry *registry, const struct uuid *uuid,
		       const char *path)
{
	const struct backing_entry *entry = entry_in_force(registry, uuid);
	struct media_expected expected;
	const char *known = NULL;

	if (entry)
		known = registry_key_path(entry->key);
	else if (media_records_find_uuid(registry->records, uuid, &expected))
		known = expected.path;
	return path && known && strcmp(path, known) == 0;
}

bool served_file_has_spec(const struct media_registry *registry, const struct uuid *uuid,
			  const char *spec)
{
	const struct backing_entry *entry = entry_in_force(registry, uuid);

	return entry && strcmp(ns_backing_media(entry->backing)->spec, spec) == 0;
}

void served_file_of_entry(const struct media_registry *registry, const struct backing_entry *entry,
			  struct media_record *ret_record, char **ret_path)
{
	const struct uuid *uuid = ns_live_uuid(ns_backing_live(entry->backing));
	const char *path = registry_key_path(entry->key);
	struct media_record open = {0};

	*ret_record = (struct media_record){0};
	(void)media_get_record(ns_backing_media(entry->backing), &open);
	if (entry->is_withheld &&
	    media_served_recall(&registry->keeper, uuid, ret_record, ret_path))
		return;
	*ret_path = strdup(path);
	if (!entry->is_withheld)
		*ret_record = open;
	else if (!media_record_recall(&registry->keeper, path, ret_record))
		*ret_record = (struct media_record){.has_type = open.has_type,
						    .is_block_device = open.is_block_device};
}

void served_file_of_expected(const struct media_registry *registry,
			     const struct media_expected *expected, struct media_record *ret_record,
			     char **ret_path)
{
	if (expected->is_clustered &&
	    media_served_recall(&registry->keeper, &expected->uuid, ret_record, ret_path))
		return;
	*ret_record = expected->record;
	*ret_path = strdup(expected->path);
	if (!expected->is_kept && media_path_record(expected->path, ret_record) == 0 &&
	    expected->is_clustered) {
		/* The namespace was never served from the file at this path. */
		ret_record->inode = ret_record->born_ns = 0;
		ret_record->device_id[0] = '\0';
	}
}

/* What was served last under the UUID. False: nothing, or memory. The caller frees *ret_path; NULL:
 * no memory. */
static bool last_find(const struct media_registry *registry, const struct uuid *uuid,
		      struct media_record *ret_record, char **ret_path)
{
	const struct backing_entry *entry = entry_in_force(registry, uuid);
	struct media_expected expected;

	if (entry && !registry_key_path(entry->key))
		return false;
	if (entry)
		served_file_of_entry(registry, entry, ret_record, ret_path);
	else if (media_records_find_uuid(registry->records, uuid, &expected))
		served_file_of_expected(registry, &expected, ret_record, ret_path);
	else
		return false;
	return true;
}

/* Hosts know the data of the former file by the UUID. */
static int refuse(const struct uuid *uuid, const char *former, bool is_missing,
		  struct media_error *ret_error)
{
	char text[UUID_TEXT_BYTES];

	snprintf(ret_error->text, sizeof(ret_error->text),
		 "%snot the file of this UUID, which is %.60s. Keep that file, or omit the UUID; "
		 "to use this file: remove the namespace, weft ctl removed drop %s, add it again",
		 is_missing ? "missing, and " : "", former, uuid_format(uuid, text));
	return -EUCLEAN;
}

int served_file_check(const struct media_registry *registry, const struct uuid *uuid,
		      const char *path, const struct media_record *now,
		      struct media_error *ret_error)
{
	struct media_record last, found;
	char *last_path = NULL;
	int res = 0;

	if (removed_find(registry->removed, uuid))
		return removed_check(registry->removed, uuid, path, now, ret_error);
	if (served_file_is_at(registry, uuid, path) ||
	    !last_find(registry, uuid, &last, &last_path))
		return 0;
	if (!last_path) {
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		return -ENOMEM;
	}
	if (path && !now) {
		res = media_path_record(path, &found);
		now = &found;
	}
	if (!path || res < 0 || !media_record_is_file(&last, last_path, now, path))
		res = refuse(uuid, last_path, path && res < 0, ret_error);
	free(last_path);
	return res;
}
