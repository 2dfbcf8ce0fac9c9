/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of files by path. The records that a start expects are in a tree, because there may be
 * many thousands. The state store has each record as a line of text under the kind "image". The
 * document is not enough, because it lacks the size of a file without size=. The same line with the
 * path, under the kind "served" and the UUID, is the file that was served last under that UUID.
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
#define SERVED_KIND   "served"
#define RECORD_FORMAT "size=%" PRIu64 " block=%" PRIu32 " device=%u inode=%" PRIu64 " born=%" PRIu64
#define RECORD_SCAN   "size=%" SCNu64 " block=%" SCNu32 " device=%u inode=%" SCNu64 " born=%" SCNu64
#define RECORD_LEAST  3        /* words in any record, also of the previous version */
#define RECORD_ID     " id="   /* the identity of a block device */
#define RECORD_FOR    " for="  /* the UUID of the namespace for which the file was recreated */
#define RECORD_PATH   " path=" /* of SERVED_KIND; at the end of the line */
#define RECORD_BYTES  (200 + MEDIA_DEVICE_ID_BYTES)

struct expected {
	struct list node;
	char *path;
	struct media_record record;
	struct uuid uuid; /* of the namespace; nil: none */
	bool is_clustered;
	bool is_kept;  /* the store has a record of the path */
	bool has_path; /* false: `path` is the key of a namespace without file */
	bool is_over_files;
};

struct media_records {
	struct list expected;
	void *by_path, *by_uuid; /* roots of tsearch over `expected`; by_uuid: files with a UUID */
};

static int path_order(const void *a, const void *b)
{
	const struct expected *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int uuid_order(const void *a, const void *b)
{
	const struct expected *x = a, *y = b;

	return memcmp(x->uuid.bytes, y->uuid.bytes, sizeof(x->uuid.bytes));
}

int media_records_create(struct media_records **ret_records)
{
	*ret_records = calloc(1, sizeof(**ret_records));
	if (!*ret_records)
		return -ENOMEM;
	list_init(&(*ret_records)->expected);
	return 0;
}

static void expected_free(struct expected *expected)
{
	free(expected->path);
	free(expected);
}

void media_records_clear(struct media_records *records)
{
	list_for_each_safe(node, &records->expected) {
		struct expected *expected = list_entry(node, struct expected, node);

		tdelete(expected, &records->by_path, path_order);
		tdelete(expected, &records->by_uuid, uuid_order);
		list_remove(&expected->node);
		expected_free(expected);
	}
}

void media_records_destroy(struct media_records *records)
{
	media_records_clear(records);
	free(records);
}

/* The caller frees the result. NULL: no value, or no memory. */
static char *text_recall(const struct keeper *keeper, const char *kind, const char *key)
{
	void *value = NULL;
	size_t bytes = 0;
	char *text;

	if (!keeper->recall || keeper->recall(keeper->arg, kind, key, &value, &bytes) != 0)
		return NULL;
	text = malloc(bytes + 1);
	if (text) {
		memcpy(text, value, bytes);
		text[bytes] = '\0';
	}
	free(value);
	return text;
}

/* Parses the part of the line that both kinds have. `key` is for the log. */
static bool record_parse(const char *text, const char *key, struct media_record *ret_record)
{
	struct media_record kept = {.has_type = true};
	const char *device = strstr(text, RECORD_ID), *path = strstr(text, RECORD_PATH);
	unsigned is_block_device;

	if (sscanf(text, RECORD_SCAN, &kept.size_bytes, &kept.block_bytes, &is_block_device,
		   &kept.inode, &kept.born_ns) < RECORD_LEAST) {
		log_warn("control", "%s: the saved record of its size is invalid", key);
		return false;
	}
	kept.is_block_device = is_block_device != 0;
	if (device && (!path || device < path))
		snprintf(kept.device_id, sizeof(kept.device_id), "%.*s",
			 (int)strcspn(device + strlen(RECORD_ID), " "), device + strlen(RECORD_ID));
	*ret_record = kept;
	return true;
}

/* Merges the kept record into *record. The larger size of the document and of the store counts.
 * False: the store has no record. */
static bool record_recall(const struct keeper *keeper, const char *path, const char *uuid,
			  struct media_record *record)
{
	char *text = text_recall(keeper, RECORD_KIND, path);
	uint64_t size_bytes = record->size_bytes;
	const char *owner;
	bool is_known = text && record_parse(text, path, record);

	if (is_known) {
		owner = strstr(text, RECORD_FOR);
		record->is_given_up = owner && strcmp(owner + strlen(RECORD_FOR), uuid) != 0;
		if (record->size_bytes < size_bytes)
			record->size_bytes = size_bytes;
	}
	free(text);
	return is_known;
}

bool media_record_recall(const struct keeper *keeper, const char *path,
			 struct media_record *ret_record)
{
	*ret_record = (struct media_record){0};
	return record_recall(keeper, path, "", ret_record);
}

/* Begins with a byte that no path begins with. NULL: no memory. */
static char *pathless_key(const char *nqn, unsigned nsid, const char *spec)
{
	char *key;

	return asprintf(&key, "\n%s\n%u\n%s", nqn, nsid, spec) < 0 ? NULL : key;
}

/* Fills path, has_path and record from the store below all wrappers. 0 or -errno. */
static int expected_fill(struct expected *expected, const char *nqn, unsigned nsid,
			 const char *spec)
{
	const struct media_spec *store;
	struct media_spec parsed;
	int res = media_spec_parse(spec, &parsed, NULL);

	if (res < 0)
		return res;
	store = media_spec_store(&parsed);
	expected->record.size_bytes = store->size_bytes;
	expected->record.block_bytes = store->block_bytes;
	expected->has_path = store->path != NULL;
	expected->is_over_files = media_spec_is_over_files(&parsed);
	expected->path = store->path ? strdup(store->path) : pathless_key(nqn, nsid, spec);
	media_spec_free(&parsed);
	return expected->path ? 0 : -ENOMEM;
}

static int expected_add(struct media_records *records, const struct keeper *keeper, const char *nqn,
			const json_t *ns)
{
	const char *uuid = json_string_value(json_object_get(ns, "uuid"));
	const char *spec = json_string_value(json_object_get(ns, "media"));
	unsigned nsid = (unsigned)json_integer_value(json_object_get(ns, "nsid"));
	struct expected *expected = calloc(1, sizeof(*expected));
	int res = expected ? expected_fill(expected, nqn, nsid, spec) : -ENOMEM;

	if (res < 0) {
		if (expected)
			expected_free(expected);
		return res == -ENOMEM ? res : 0;
	}
	if (expected->has_path)
		expected->is_kept =
			record_recall(keeper, expected->path, uuid ? uuid : "", &expected->record);
	expected->is_clustered = json_is_true(json_object_get(ns, "clustered"));
	if (!uuid || uuid_parse(uuid, &expected->uuid) < 0)
		memset(&expected->uuid, 0, sizeof(expected->uuid));
	if (!tsearch(expected, &records->by_path, path_order)) {
		expected_free(expected);
		return -ENOMEM;
	}
	list_push_back(&records->expected, &expected->node);
	if (!expected->has_path || uuid_is_nil(&expected->uuid))
		return 0;
	return tsearch(expected, &records->by_uuid, uuid_order) ? 0 : -ENOMEM;
}

int media_records_expect(struct media_records *records, const struct keeper *keeper,
			 const json_t *document)
{
	json_t *subsystem, *ns;
	size_t s, n;
	int res = 0;

	json_array_foreach(json_object_get(document, "subsystems"), s, subsystem)
	{
		const char *nqn = json_string_value(json_object_get(subsystem, "nqn"));

		json_array_foreach(json_object_get(subsystem, "namespaces"), n, ns)
		{
			if (res == 0 && json_is_string(json_object_get(ns, "media")))
				res = expected_add(records, keeper, nqn, ns);
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

const struct uuid *media_records_owner(const struct media_records *records, const char *path)
{
	const struct expected wanted = {.path = (char *)path};
	struct expected **node = tfind(&wanted, &records->by_path, path_order);

	return node && !uuid_is_nil(&(*node)->uuid) ? &(*node)->uuid : NULL;
}

const struct media_record *media_records_find_pathless(const struct media_records *records,
						       const char *nqn, unsigned nsid,
						       const char *spec)
{
	char *key = pathless_key(nqn, nsid, spec);
	const struct media_record *record = key ? media_records_find(records, key) : NULL;

	free(key);
	return record;
}

const struct media_record *media_records_find_over_files(const struct media_records *records,
							 const char *nqn, unsigned nsid,
							 const char *spec)
{
	const struct media_record *record = media_records_find_pathless(records, nqn, nsid, spec);

	return record && container_of(record, const struct expected, record)->is_over_files ? record
											    : NULL;
}

static struct media_expected expected_of(const struct expected *of)
{
	return (struct media_expected){.uuid = of->uuid,
				       .is_clustered = of->is_clustered,
				       .path = of->path,
				       .is_kept = of->is_kept,
				       .record = of->record};
}

bool media_records_find_uuid(const struct media_records *records, const struct uuid *uuid,
			     struct media_expected *ret_expected)
{
	const struct expected wanted = {.uuid = *uuid};
	struct expected **node = tfind(&wanted, &records->by_uuid, uuid_order);

	if (node)
		*ret_expected = expected_of(*node);
	return node != NULL;
}

void media_records_each(const struct media_records *records,
			void (*look)(void *arg, const struct media_expected *expected), void *arg)
{
	list_for_each(node, &records->expected) {
		const struct expected *of = list_entry(node, struct expected, node);
		const struct media_expected expected = expected_of(of);

		if (of->has_path)
			look(arg, &expected);
	}
}

bool media_record_is_file(const struct media_record *record, const char *record_path,
			  const struct media_record *now, const char *now_path)
{
	enum media_sameness sameness = media_record_compare(record, now);

	return sameness == MEDIA_SAME ||
	       (sameness == MEDIA_SAME_UNKNOWN && strcmp(record_path, now_path) == 0);
}

static void record_print(const struct media_record *record, char text[RECORD_BYTES])
{
	bool has_id = record->device_id[0] != '\0';

	snprintf(text, RECORD_BYTES, RECORD_FORMAT "%s%s", record->size_bytes, record->block_bytes,
		 record->is_block_device, record->inode, record->born_ns, has_id ? RECORD_ID : "",
		 record->device_id);
}

/* owner NULL: the namespace in the document owns the file. */
static int record_write(const struct keeper *keeper, const char *path,
			const struct media_record *record, const char *owner)
{
	char text[RECORD_BYTES];
	size_t len;

	record_print(record, text);
	len = strlen(text);
	snprintf(text + len, sizeof(text) - len, "%s%s", owner ? RECORD_FOR : "",
		 owner ? owner : "");
	return keeper->keep(keeper->arg, RECORD_KIND, path, text, strlen(text));
}

int media_record_give_up(const struct keeper *keeper, const char *path,
			 const struct media_record *record, const struct uuid *uuid)
{
	char text[UUID_TEXT_BYTES];

	return keeper->keep ? record_write(keeper, path, record, uuid_format(uuid, text)) : 0;
}

int media_record_take_back(const struct keeper *keeper, const char *path,
			   const struct media_record *record)
{
	int res = keeper->keep ? record_write(keeper, path, record, NULL) : 0;

	if (res < 0)
		log_warn("control",
			 "%s: cannot save that the recreation was undone (%s): the next change "
			 "tries again; after a restart before that, run `weft ctl namespace "
			 "recreate`, also if the file has data",
			 path, strerror(-res));
	return res;
}

void media_record_keep(const struct keeper *keeper, const char *path, const struct media *media,
		       const struct uuid *owner, struct media_record *kept)
{
	struct media_record now = {0};
	char text[UUID_TEXT_BYTES];
	int res;

	/* kept->is_given_up: the record in the store has an owner. The record of a lost medium
	 * stays. */
	if (!keeper->keep || (media && (media_is_lost(media) || !media_get_record(media, &now))))
		return;
	/* Without a medium the record is always deleted: after a loss *kept does not show what the
	 * store has. */
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
		log_warn("control", "%s: cannot save its size: %s; the next change tries again",
			 path, strerror(-res));
	}
}

void media_record_forget(const struct keeper *keeper, const char *path)
{
	if (keeper->keep && keeper->keep(keeper->arg, RECORD_KIND, path, NULL, 0) < 0)
		log_warn("control",
			 "%s: cannot delete the saved size of a file that is no longer served",
			 path);
}

/* ---- by UUID ----------------------------------------------------------------------------------
 */

bool media_served_recall(const struct keeper *keeper, const struct uuid *uuid,
			 struct media_record *ret_record, char **ret_path)
{
	char key[UUID_TEXT_BYTES];
	char *text = text_recall(keeper, SERVED_KIND, uuid_format(uuid, key));
	const char *path = text ? strstr(text, RECORD_PATH) : NULL;

	*ret_path = NULL;
	if (path && record_parse(text, key, ret_record))
		*ret_path = strdup(path + strlen(RECORD_PATH));
	free(text);
	return *ret_path != NULL;
}

int media_served_keep(const struct keeper *keeper, const struct uuid *uuid, const char *path,
		      const struct media_record *record)
{
	char key[UUID_TEXT_BYTES], words[RECORD_BYTES], *text;
	int res = -ENOMEM;

	record_print(record, words);
	if (asprintf(&text, "%s" RECORD_PATH "%s", words, path) >= 0) {
		res = keeper->keep(keeper->arg, SERVED_KIND, uuid_format(uuid, key), text,
				   strlen(text));
		free(text);
	}
	if (res < 0)
		log_warn(
			"control",
			"%s: cannot save that this file is served: %s; the next change tries again",
			path, strerror(-res));
	return res;
}

void media_served_forget(const struct keeper *keeper, const struct uuid *uuid)
{
	char key[UUID_TEXT_BYTES];

	if (keeper->keep &&
	    keeper->keep(keeper->arg, SERVED_KIND, uuid_format(uuid, key), NULL, 0) < 0)
		log_warn("control",
			 "namespace %s: cannot delete the record of the file that was served last",
			 key);
}
