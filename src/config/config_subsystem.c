/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a subsystem with its allowed hosts and its pool. Its namespaces: config_ns.c.
 * Identities that the document leaves out: config_identity.c. Control thread only.
 */
#include "base/check.h"
#include "base/text.h"
#include "config/config_merge.h"
#include "config/config_parse.h"
#include "config/fields.h"

#include <stdlib.h>
#include <string.h>

static void nqn_parse(struct config_cursor *at, const json_t *object,
		      const struct config_field *field, void *to)
{
	struct config_subsystem *subsystem = to;
	const char *nqn = NULL;

	if (config_get_text(at, object, field->key, &nqn) && config_nqn_check(at, field->key, nqn))
		text_copy(subsystem->nqn, sizeof(subsystem->nqn), nqn);
}

/* A list of hosts restricts access by default, even when an entry is wrong: a bad entry must not
 * admit every host. */
static void any_host_parse(struct config_cursor *at, const json_t *object,
			   const struct config_field *field, void *to)
{
	struct config_subsystem *subsystem = to;

	subsystem->allows_any_host = !json_object_get(object, "hosts");
	config_get_bool(at, object, field->key, &subsystem->allows_any_host);
}

/* A list restricts access even where any host was allowed before, as in a document. */
static void hosts_merge(struct config_merge *merge, const struct config_field *field, json_t *saved,
			const json_t *more)
{
	config_merge_unite(merge, saved, field->key, json_object_get(more, field->key));
	if (!json_object_get(more, "allow_any_host"))
		config_merge_set(merge, saved, "allow_any_host", json_false());
}

static void rights_parse(struct config_cursor *at, const json_t *object,
			 const struct config_field *field, void *to)
{
	const json_t *rights = json_object_get(object, field->key);
	size_t mark = config_cursor_enter(at, field->key, SIZE_MAX);

	if (rights)
		config_rights_parse(at, rights, to);
	config_cursor_leave(at, mark);
}

static json_t *rights_write(const struct config_writing *writing, const struct config_field *field,
			    const void *from)
{
	return config_subsystem_rights_to_json(from);
}

/* Unites the lists of each host in `more`. */
static void rights_merge(struct config_merge *merge, const struct config_field *field,
			 json_t *saved, const json_t *more)
{
	const char *host;
	json_t *rights;

	if (!json_is_object(json_object_get(saved, field->key)))
		json_object_set_new(saved, field->key, json_object());
	json_object_foreach(json_object_get(more, field->key), host, rights)
	{
		config_merge_unite(merge, json_object_get(saved, field->key), host, rights);
	}
}

static void rights_release(void *of)
{
	free(((struct config_subsystem *)of)->host_rights);
}

/* ---- its namespaces -------------------------------------------------------------------------- */

static void namespaces_parse(struct config_cursor *at, const json_t *object,
			     const struct config_field *field, void *to)
{
	struct config_subsystem *subsystem = to;
	const json_t *array = NULL;

	if (!config_get_array(at, object, field->key, field->max, &array))
		return;
	subsystem->namespaces = calloc(json_array_size(array) + 1, sizeof(*subsystem->namespaces));
	if (!subsystem->namespaces) {
		config_complain_memory(at, field->key);
		return;
	}
	for (size_t i = 0; i < json_array_size(array); i++) {
		size_t mark = config_cursor_enter(at, field->key, i);

		config_ns_parse(at, json_array_get(array, i), (unsigned)i,
				&subsystem->namespaces[i]);
		config_cursor_leave(at, mark);
	}
	subsystem->ns_count = (unsigned)json_array_size(array);
}

static json_t *namespaces_write(const struct config_writing *writing,
				const struct config_field *field, const void *from)
{
	const struct config_subsystem *subsystem = from;
	json_t *list = json_array();

	for (unsigned i = 0; list && i < subsystem->ns_count; i++) {
		if (json_array_append_new(list, config_object_write(writing, &config_ns_object,
								    &subsystem->namespaces[i])) <
		    0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int by_nsid(const void *a, const void *b)
{
	const struct config_ns *x = a, *y = b;

	return x->nsid < y->nsid ? -1 : x->nsid > y->nsid;
}

static void namespaces_sort(void *of)
{
	struct config_subsystem *subsystem = of;

	if (subsystem->ns_count > 1)
		qsort(subsystem->namespaces, subsystem->ns_count, sizeof(*subsystem->namespaces),
		      by_nsid);
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		config_object_sort(&config_ns_object, &subsystem->namespaces[i]);
}

static void namespaces_release(void *of)
{
	struct config_subsystem *subsystem = of;

	for (unsigned i = 0; i < subsystem->ns_count; i++)
		config_object_release(&config_ns_object, &subsystem->namespaces[i]);
	free(subsystem->namespaces);
}

/* ---- its pool -------------------------------------------------------------------------------- */

/* The path becomes part of a medium's spec, which a comma would split. */
static bool folder_is_good(const char *folder)
{
	return folder[0] == '/' && !strchr(folder, ',') && strlen(folder) <= CONFIG_POOL_FOLDER_MAX;
}

static void folder_parse(struct config_cursor *at, const json_t *object,
			 const struct config_field *field, void *to)
{
	struct config_subsystem *subsystem = to;
	const char *folder = NULL;

	if (!config_get_text(at, object, field->key, &folder))
		return;
	if (!folder_is_good(folder)) {
		config_complain(at, field->key,
				"\"%s\" must be an absolute path without a comma, of at most %d "
				"bytes",
				folder, CONFIG_POOL_FOLDER_MAX);
		return;
	}
	subsystem->pool_folder = strdup(folder);
	if (!subsystem->pool_folder)
		config_complain_memory(at, field->key);
}

static void capacity_parse(struct config_cursor *at, const json_t *object,
			   const struct config_field *field, void *to)
{
	struct config_subsystem *subsystem = to;
	const char *capacity = NULL;

	if (!config_get_text(at, object, field->key, &capacity) ||
	    (text_parse_size(capacity, &subsystem->pool_bytes) == 0 && subsystem->pool_bytes > 0 &&
	     subsystem->pool_bytes <= INT64_MAX))
		return;
	config_complain(at, field->key, "\"%s\" is not a size; write bytes or 512M, 10G, 2T",
			capacity);
	subsystem->pool_bytes = 1;
}

static json_t *capacity_write(const struct config_writing *writing,
			      const struct config_field *field, const void *from)
{
	const struct config_subsystem *subsystem = from;

	return json_sprintf("%llu", (unsigned long long)subsystem->pool_bytes);
}

#define SUBSYSTEM struct config_subsystem
static const struct config_field pool_fields[] = {
	{"folder", "folder in which hosts make namespaces of their own",
	 FIELD_IS_TEXT(SUBSYSTEM, pool_folder, CONFIG_POOL_FOLDER_MAX), .parse = folder_parse,
	 .argument = "PATH",
	 .missing = "give the folder in which hosts' namespaces become files, such as "
		    "\"/var/lib/weft/pool\""},
	{"capacity", "limit of the sum of the namespaces' sizes, such as 1T", .type = "string",
	 .parse = capacity_parse, .write = capacity_write, .argument = "SIZE",
	 .missing =
		 "give the maximum size of all namespaces in the folder together, such as \"1T\""},
};

const struct config_object config_pool_object = {"pool", sizeof(SUBSYSTEM), NULL, pool_fields,
						 ARRAY_LEN(pool_fields)};

static void pool_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	const json_t *pool = json_object_get(object, field->key);
	size_t mark = config_cursor_enter(at, field->key, SIZE_MAX);

	if (pool)
		config_object_parse(at, field->object, pool, to);
	config_cursor_leave(at, mark);
}

static bool pool_is_written(const struct config_writing *writing, const void *from)
{
	return ((const SUBSYSTEM *)from)->pool_folder != NULL;
}

static json_t *pool_write(const struct config_writing *writing, const struct config_field *field,
			  const void *from)
{
	return config_object_write(writing, field->object, from);
}

static void pool_release(void *of)
{
	config_object_release(&config_pool_object, of);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct config_field subsystem_fields[] = {
	{"nqn", "NQN of the subsystem, used once", FIELD_IS_CHARS(SUBSYSTEM, nqn),
	 FIELD_SERVED(struct subsystem, nqn), .change = FIELD_NAMES, .parse = nqn_parse,
	 .missing = "give a name such as " TARGET_DEFAULT_NQN},
	{"serial", "serial number, 1 to 20 characters", FIELD_IS_CHARS(SUBSYSTEM, serial),
	 .absent = "random", FIELD_SERVED(struct subsystem, serial), .argument = "TEXT"},
	{"model", "model, 1 to 40 characters", FIELD_IS_CHARS(SUBSYSTEM, model),
	 .text = CONFIG_DEFAULT_MODEL, FIELD_SERVED(struct subsystem, model), .argument = "TEXT"},
	{"allow_any_host", "whether any host may connect",
	 FIELD_IS_BOOL(SUBSYSTEM, allows_any_host), .absent = "yes without --host",
	 FIELD_SERVED(struct subsystem, allows_any_host), .parse = any_host_parse},
	{"hosts", "a host that may connect, or see the namespace",
	 FIELD_IS_NQNS(SUBSYSTEM, hosts, host_count, CONFIG_HOSTS_MAX), .merge = hosts_merge,
	 .option = "host", .argument = "NQN|any|none"},
	{"rights", "shared state that hosts may change", .type = "object", .parse = rights_parse,
	 .write = rights_write, .merge = rights_merge, .release = rights_release},
	{"pool", "folder and size limit for namespaces that hosts create", .type = "object",
	 .parse = pool_parse, .is_written = pool_is_written, .write = pool_write,
	 .release = pool_release, .object = &config_pool_object},
	{"namespaces", "namespaces of the subsystem", .type = "array", .max = CONFIG_NSID_MAX,
	 .parse = namespaces_parse, .write = namespaces_write, .sort = namespaces_sort,
	 .release = namespaces_release, .object = &config_ns_object},
};

const struct config_object config_subsystem_object = {
	"subsystem", sizeof(SUBSYSTEM), NULL, subsystem_fields, ARRAY_LEN(subsystem_fields)};

void config_subsystem_parse(struct config_cursor *at, const json_t *object,
			    struct config_subsystem *subsystem)
{
	config_object_init(&config_subsystem_object, subsystem);
	config_object_parse(at, &config_subsystem_object, object, subsystem);
}

void config_subsystem_release(struct config_subsystem *subsystem)
{
	config_object_release(&config_subsystem_object, subsystem);
}
