/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of files by path: those that a start expects, in a tree, because there may be many
 * thousands; and how they are kept, as a line of text under the kind "image". The document alone
 * does not do: a file without size= has its size nowhere else.
 *
 * Control thread only.
 */
#include "daemon/media_records.h"

#include "base/list.h"
#include "base/log.h"
#include "config/config_parse.h"
#include "media/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_KIND   "image"
#define RECORD_FORMAT "size=%" PRIu64 " block=%" PRIu32 " device=%u inode=%" PRIu64 " born=%" PRIu64
#define RECORD_SCAN   "size=%" SCNu64 " block=%" SCNu32 " device=%u inode=%" SCNu64 " born=%" SCNu64
#define RECORD_LEAST  3       /* words that a record has, also of the version before */
#define RECORD_ID     " id="  /* the identity of a block device */
#define RECORD_FOR    " for=" /* the UUID of the namespace for which the file was made anew */
#define RECORD_BYTES  (200 + MEDIA_DEVICE_ID_BYTES)

struct expected {
	struct list node;
	char *path;
	struct media_record record;
};

struct media_records {
	struct list expected;
	void *by_path; /* tsearch's, of the same */
};

static int path_order(const void *a, const void *b)
{
	const struct expected *x = a, *y = b;

	return strcmp(x->path, y->path);
}

int media_records_create(struct media_records **ret_records)
{
	*ret_records = calloc(1, sizeof(**ret_records));
	if (!*ret_records)
		return -ENOMEM;
	list_init(&(*ret_records)->expected);
	return 0;
}

void media_records_clear(struct media_records *records)
{
	list_for_each_safe(node, &records->expected) {
		struct expected *expected = list_entry(node, struct expected, node);

		tdelete(expected, &records->by_path, path_order);
		list_remove(&expected->node);
		free(expected->path);
		free(expected);
	}
}

void media_records_destroy(struct media_records *records)
{
	media_records_clear(records);
	free(records);
}

/* Whatever the document says, what was served last counts when it is more. */
static void record_recall(const struct target_keeper *keeper, const char *path, const char *uuid,
			  struct media_record *record)
{
	struct media_record kept = {.has_type = true};
	const char *owner, *device;
	unsigned is_block_device;
	void *value = NULL;
	size_t bytes = 0;
	char text[RECORD_BYTES];

	if (!keeper->recall || keeper->recall(keeper->arg, RECORD_KIND, path, &value, &bytes) != 0)
		return;
	snprintf(text, sizeof(text), "%.*s", (int)bytes, (const char *)value);
	free(value);
	if (sscanf(text, RECORD_SCAN, &kept.size_bytes, &kept.block_bytes, &is_block_device,
		   &kept.inode, &kept.born_ns) < RECORD_LEAST) {
		log_warn("control", "%s: the size that was kept of it cannot be read", path);
		return;
	}
	kept.is_block_device = is_block_device != 0;
	device = strstr(text, RECORD_ID);
	if (device)
		snprintf(kept.device_id, sizeof(kept.device_id), "%.*s",
			 (int)strcspn(device + strlen(RECORD_ID), " "), device + strlen(RECORD_ID));
	owner = strstr(text, RECORD_FOR);
	kept.is_given_up = owner && strcmp(owner + strlen(RECORD_FOR), uuid) != 0;
	if (kept.size_bytes < record->size_bytes)
		kept.size_bytes = record->size_bytes;
	*record = kept;
}

/* The store under whatever faults. False: it is no file. */
static bool record_of_spec(const char *spec, char **ret_path, struct media_record *ret_record)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;

	*ret_path = NULL;
	if (media_spec_parse(spec, &parsed, NULL) < 0)
		return false;
	while (at->inner)
		at = at->inner;
	*ret_record =
		(struct media_record){.size_bytes = at->size_bytes, .block_bytes = at->block_bytes};
	*ret_path = at->path ? strdup(at->path) : NULL;
	media_spec_free(&parsed);
	return *ret_path != NULL;
}

static int expected_add(struct media_records *records, const struct target_keeper *keeper,
			const char *spec, const char *uuid)
{
	struct media_record record;
	struct expected *expected;
	char *path;

	if (!record_of_spec(spec, &path, &record))
		return 0;
	expected = calloc(1, sizeof(*expected));
	if (!expected) {
		free(path);
		return -ENOMEM;
	}
	record_recall(keeper, path, uuid, &record);
	expected->path = path;
	expected->record = record;
	if (!tsearch(expected, &records->by_path, path_order)) {
		free(path);
		free(expected);
		return -ENOMEM;
	}
	list_push_back(&records->expected, &expected->node);
	return 0;
}

int media_records_expect(struct media_records *records, const struct target_keeper *keeper,
			 const json_t *document)
{
	json_t *subsystem, *ns;
	size_t s, n;
	int res = 0;

	json_array_foreach(json_object_get(document, "subsystems"), s, subsystem)
	{
		json_array_foreach(json_object_get(subsystem, "namespaces"), n, ns)
		{
			const char *media = json_string_value(json_object_get(ns, "media"));
			const char *uuid = json_string_value(json_object_get(ns, "uuid"));

			if (res == 0 && media)
				res = expected_add(records, keeper, media, uuid ? uuid : "");
		}
	}
	return res;
}

const struct media_record *media_records_find(const struct media_records *records, const char *path)
{
	const struct expected wanted = {.path = (char *)path};
	struct expected **node = tfind(&wanted, &records->by_path, path_order);

	return node ? &(*node)->record : NULL;
}

/* owner NULL: that of the document. */
static int record_write(const struct target_keeper *keeper, const char *path,
			const struct media_record *record, const char *owner)
{
	bool has_id = record->device_id[0] != '\0';
	char text[RECORD_BYTES];

	snprintf(text, sizeof(text), RECORD_FORMAT "%s%s%s%s", record->size_bytes,
		 record->block_bytes, record->is_block_device, record->inode, record->born_ns,
		 has_id ? RECORD_ID : "", record->device_id, owner ? RECORD_FOR : "",
		 owner ? owner : "");
	return keeper->keep(keeper->arg, RECORD_KIND, path, text, strlen(text));
}

int media_record_give_up(const struct target_keeper *keeper, const char *path,
			 const struct media_record *record, const struct uuid *uuid)
{
	char text[UUID_TEXT_BYTES];

	return keeper->keep ? record_write(keeper, path, record, uuid_format(uuid, text)) : 0;
}

void media_record_take_back(const struct target_keeper *keeper, const char *path,
			    const struct media_record *record)
{
	int res =
		keeper->keep && !record->is_given_up ? record_write(keeper, path, record, NULL) : 0;

	if (res < 0)
		log_warn("control",
			 "%s: it was not made anew, and that could not be kept (%s): after a "
			 "restart it must be recreated, whatever is in it",
			 path, strerror(-res));
}

void media_record_keep(const struct target_keeper *keeper, const char *path,
		       const struct media *media, const struct uuid *owner,
		       struct media_record *kept)
{
	struct media_record now = {0};
	char text[UUID_TEXT_BYTES];
	int res;

	/* kept->is_given_up: the record in the store has an owner. Of a lost one the record is what
	 * it was. */
	if (!keeper->keep || (media && (media_is_lost(media) || !media_get_record(media, &now))))
		return;
	/* What is no longer served may have been lost, and then *kept does not tell. */
	if (media && !owner && !kept->is_given_up && now.size_bytes == kept->size_bytes &&
	    now.block_bytes == kept->block_bytes && now.is_block_device == kept->is_block_device &&
	    now.inode == kept->inode && now.born_ns == kept->born_ns &&
	    strcmp(now.device_id, kept->device_id) == 0)
		return;
	res = media ? record_write(keeper, path, &now, owner ? uuid_format(owner, text) : NULL)
		    : keeper->keep(keeper->arg, RECORD_KIND, path, NULL, 0);
	if (res == 0) {
		*kept = now;
		kept->is_given_up = owner != NULL;
	} else {
		log_warn("control",
			 "%s: its size could not be kept: %s; the next change tries again", path,
			 strerror(-res));
	}
}
