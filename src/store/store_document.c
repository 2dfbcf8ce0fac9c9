/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desired state as rows of the store: one per subsystem (without its namespaces), namespace and
 * port, and one per other key of the document. A change writes the rows that differ, together with
 * the generation and an audit row, in one transaction. So adding one namespace to ten thousand
 * costs one row.
 *
 * A namespace's row refers to its subsystem's row: the database refuses a namespace without its
 * subsystem. Control thread only.
 */
#include "store/store_private.h"

#include "config/json_whole.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KIND_KEY       "document"
#define KIND_SUBSYSTEM "subsystem"
#define KIND_NS        "namespace"
#define KIND_PORT      "port"

struct row {
	const char *kind;
	char *key;
	char *of;      /* NQN of a namespace's subsystem; NULL for other kinds */
	json_t *value; /* a counted reference */
};

struct rows {
	struct row *items;
	size_t count;
	size_t room;
};

struct undo_log {
	uint64_t generation; /* that the change makes */
	uint64_t bytes;      /* of undo rows so far */
};

/* ---- a document's rows ------------------------------------------------------------------------
 */

static void rows_release(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		free(rows->items[i].key);
		free(rows->items[i].of);
		json_decref(rows->items[i].value);
	}
	free(rows->items);
}

/* Takes ownership of key and value, also on failure. */
static int rows_add(struct rows *rows, const char *kind, char *key, const char *of, json_t *value)
{
	struct row row = {.kind = kind, .key = key, .of = of ? strdup(of) : NULL, .value = value};

	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 64;
		struct row *grown = realloc(rows->items, room * sizeof(*grown));

		if (grown) {
			rows->items = grown;
			rows->room = room;
		}
	}
	if (rows->count == rows->room || !key || !value || (of && !row.of)) {
		free(key);
		free(row.of);
		json_decref(value);
		return -ENOMEM;
	}
	rows->items[rows->count++] = row;
	return 0;
}

/* Numbers have leading zeroes, so that the rows are in the document's order. */
static char *key_of_ns(const char *nqn, json_int_t nsid)
{
	char *key;

	return asprintf(&key, "%s %010lld", nqn, (long long)nsid) < 0 ? NULL : key;
}

static int rows_add_subsystem(struct rows *rows, json_t *subsystem)
{
	json_t *namespaces = json_object_get(subsystem, "namespaces");
	const char *nqn = json_string_value(json_object_get(subsystem, "nqn"));
	json_t *alone;
	int res;

	if (!nqn)
		return -EINVAL;
	alone = json_copy(subsystem);
	/* Without memory Jansson leaves out keys and reports no error. */
	if (json_object_size(alone) != json_object_size(subsystem)) {
		json_decref(alone);
		return -ENOMEM;
	}
	json_object_del(alone, "namespaces");
	res = rows_add(rows, KIND_SUBSYSTEM, strdup(nqn), NULL, alone);
	for (size_t i = 0; res == 0 && i < json_array_size(namespaces); i++) {
		json_t *ns = json_array_get(namespaces, i);
		json_int_t nsid = json_integer_value(json_object_get(ns, "nsid"));

		res = nsid > 0 ? rows_add(rows, KIND_NS, key_of_ns(nqn, nsid), nqn, json_incref(ns))
			       : -EINVAL;
	}
	return res;
}

static int rows_add_port(struct rows *rows, json_t *port)
{
	json_int_t id = json_integer_value(json_object_get(port, "id"));
	char *key;

	if (id <= 0)
		return -EINVAL;
	if (asprintf(&key, "%05lld", (long long)id) < 0)
		key = NULL;
	return rows_add(rows, KIND_PORT, key, NULL, json_incref(port));
}

static int by_kind_and_key(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->kind, y->kind);

	return order ? order : strcmp(x->key, y->key);
}

/* 0, -EINVAL for a document without the identities that name rows, or -ENOMEM. */
static int rows_make(const json_t *document, struct rows *rows)
{
	const char *name;
	json_t *value;
	int res = 0;

	/* The cast is safe, because the iteration only reads. */
	json_object_foreach((json_t *)document, name, value)
	{
		if (strcmp(name, "subsystems") == 0) {
			for (size_t i = 0; res == 0 && i < json_array_size(value); i++)
				res = rows_add_subsystem(rows, json_array_get(value, i));
		} else if (strcmp(name, "ports") == 0) {
			for (size_t i = 0; res == 0 && i < json_array_size(value); i++)
				res = rows_add_port(rows, json_array_get(value, i));
		} else {
			res = rows_add(rows, KIND_KEY, strdup(name), NULL, json_incref(value));
		}
		if (res < 0)
			return res;
	}
	if (rows->count > 1)
		qsort(rows->items, rows->count, sizeof(*rows->items), by_kind_and_key);
	return 0;
}

/* ---- writing what differs ---------------------------------------------------------------------
 */

static int row_set(struct store *store, const struct row *row)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_OBJECT_SET);
	char *text = json_whole_text(row->value, JSON_COMPACT | JSON_ENCODE_ANY);
	int res;

	if (!text)
		return -ENOMEM;
	sqlite3_bind_text(stmt, 1, row->kind, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, row->key, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 3, row->of ? KIND_SUBSYSTEM : NULL, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 4, row->of, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 5, text, -1, SQLITE_STATIC);
	res = store_run(store, stmt);
	free(text);
	return res;
}

static int row_delete(struct store *store, const struct row *row)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_OBJECT_DELETE);

	sqlite3_bind_text(stmt, 1, row->kind, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, row->key, -1, SQLITE_STATIC);
	return store_run(store, stmt);
}

/* Records the row before the change, so that the former generation can be read. `before` NULL: the
 * row is new. */
static int row_undo(struct store *store, struct undo_log *log, const struct row *before,
		    const struct row *after)
{
	const struct row *row = before ? before : after;
	char *text = before ? json_whole_text(before->value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	const struct store_undo undo = {.generation = log->generation,
					.kind = row->kind,
					.key = row->key,
					.of = row->of,
					.json = text};
	int res = before && !text ? -ENOMEM : store_undo_add(store, &undo, &log->bytes);

	free(text);
	return res;
}

static int rows_write(struct store *store, struct undo_log *log, const struct rows *before,
		      const struct rows *after)
{
	size_t i = 0, j = 0;
	int res = 0;

	while (res == 0 && (i < before->count || j < after->count)) {
		int order = i == before->count ? 1
			    : j == after->count
				    ? -1
				    : by_kind_and_key(&before->items[i], &after->items[j]);

		const struct row *old = order <= 0 ? &before->items[i++] : NULL;
		const struct row *new = order >= 0 ? &after->items[j++] : NULL;

		if (old && new &&json_equal(old->value, new->value))
			continue;
		res = row_undo(store, log, old, new);
		if (res == 0)
			res = new ? row_set(store, new) : row_delete(store, old);
	}
	return res;
}

static int audit_trim(struct store *store, const char *origin)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_AUDIT_TRIM_ONE);
	int res = 0;

	if (store_is_by_host(origin)) {
		sqlite3_bind_text(stmt, 1, origin, -1, SQLITE_STATIC);
		sqlite3_bind_int64(stmt, 2, STORE_AUDIT_ONE_MAX);
		res = store_run(store, stmt);
	}
	if (res < 0)
		return res;
	stmt = store_stmt(store, STMT_AUDIT_TRIM);
	sqlite3_bind_int64(stmt, 1, store_is_by_host(origin));
	sqlite3_bind_int64(stmt, 2, STORE_AUDIT_MAX);
	return store_run(store, stmt);
}

static int audit_add(struct store *store, const struct store_change *change, uint64_t time_ms)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_AUDIT_ADD);
	const char *diff = change->diff ? change->diff : "";
	int res;

	sqlite3_bind_int64(stmt, 1, (sqlite3_int64)time_ms);
	sqlite3_bind_int64(stmt, 2, (sqlite3_int64)change->generation);
	sqlite3_bind_text(stmt, 3, change->origin ? change->origin : "", -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 4, diff, (int)strnlen(diff, STORE_DIFF_BYTES_MAX), SQLITE_STATIC);
	res = store_run(store, stmt);
	if (res == 0 && sqlite3_last_insert_rowid(store->db) % STORE_AUDIT_TRIM_EVERY == 0)
		res = audit_trim(store, change->origin ? change->origin : "");
	return res;
}

static int change_write(struct store *store, const struct store_change *change,
			const struct rows *before, const struct rows *after, const char *folder)
{
	struct undo_log log = {.generation = change->generation};
	struct timespec now;
	uint64_t time_ms;
	int res = store_begin(store);

	if (res < 0)
		return res;
	clock_gettime(CLOCK_REALTIME, &now);
	time_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	res = rows_write(store, &log, before, after);
	if (res == 0)
		res = store_set_number(store, "generation", change->generation);
	if (res == 0 && change->source_hash)
		res = store_set_text(store, "source_hash", change->source_hash);
	if (res == 0)
		res = store_set_text(store, "folder", folder);
	if (res == 0)
		res = audit_add(store, change, time_ms);
	if (res == 0)
		res = store_history_add(store, change, time_ms, folder, log.bytes);
	return store_finish(store, res);
}

int store_keep_document(struct store *store, const struct store_change *change,
			struct store_error *ret_error)
{
	struct rows before = {0}, after = {0};
	char folder[PATH_MAX];
	int res = change->before ? rows_make(change->before, &before) : 0;

	if (res == 0)
		res = rows_make(change->after, &after);
	if (res < 0)
		snprintf(ret_error->text, sizeof(ret_error->text), "cannot save the state: %s",
			 strerror(-res));
	if (!getcwd(folder, sizeof(folder)))
		folder[0] = 0;
	if (res == 0) {
		res = change_write(store, change, &before, &after, folder);
		if (res < 0)
			store_explain(store, res, "the change cannot be saved", ret_error);
	}
	rows_release(&before);
	rows_release(&after);
	if (res < 0)
		return res;
	store->generation = change->generation;
	snprintf(store->folder, sizeof(store->folder), "%s", folder);
	if (change->source_hash)
		snprintf(store->source_hash, sizeof(store->source_hash), "%s", change->source_hash);
	return 0;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

struct loading {
	uint64_t generation; /* 0: the one in force */
	json_t *document;
	json_t *namespaces; /* NQN to the array of its namespaces, a counted reference */
};

/* Adds one row to the document. 0, -EUCLEAN or -ENOMEM. */
typedef int (*row_take_fn)(struct loading *loading, const char *key, const char *of, json_t *value);

static int key_take(struct loading *loading, const char *key, const char *of, json_t *value)
{
	return json_object_set(loading->document, key, value) ? -ENOMEM : 0;
}

static int subsystem_take(struct loading *loading, const char *key, const char *of, json_t *value)
{
	json_t *namespaces = json_array();

	if (!json_is_object(value)) {
		json_decref(namespaces);
		return -EUCLEAN;
	}
	if (json_object_set_new(value, "namespaces", namespaces) ||
	    json_object_set(loading->namespaces, key, json_object_get(value, "namespaces")) ||
	    json_array_append(json_object_get(loading->document, "subsystems"), value))
		return -ENOMEM;
	return 0;
}

static int ns_take(struct loading *loading, const char *key, const char *of, json_t *value)
{
	json_t *namespaces = of ? json_object_get(loading->namespaces, of) : NULL;

	if (!namespaces)
		return -EUCLEAN;
	return json_array_append(namespaces, value) ? -ENOMEM : 0;
}

static int port_take(struct loading *loading, const char *key, const char *of, json_t *value)
{
	return json_array_append(json_object_get(loading->document, "ports"), value) ? -ENOMEM : 0;
}

int store_row_json(const char *text, size_t flags, json_t **ret_value)
{
	json_error_t error;

	*ret_value = text ? json_whole_load(text, strlen(text), flags, &error) : NULL;
	if (*ret_value)
		return 0;
	return text && json_whole_errno(&error) == -ENOMEM ? -ENOMEM : -EUCLEAN;
}

static int rows_load(struct store *store, struct loading *loading, const char *kind,
		     row_take_fn take)
{
	sqlite3_stmt *stmt =
		store_stmt(store, loading->generation ? STMT_UNDO_OBJECTS : STMT_OBJECT_LIST);
	int code, res = 0;

	sqlite3_bind_text(stmt, 1, kind, -1, SQLITE_STATIC);
	if (loading->generation)
		sqlite3_bind_int64(stmt, 2, (sqlite3_int64)loading->generation);
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW && res == 0) {
		const char *key = (const char *)sqlite3_column_text(stmt, 0);
		const char *of = (const char *)sqlite3_column_text(stmt, 1);
		const char *text = (const char *)sqlite3_column_text(stmt, 2);
		json_t *value;

		res = store_row_json(text, JSON_DECODE_ANY, &value);
		if (res == 0)
			res = key ? take(loading, key, of, value) : -EUCLEAN;
		json_decref(value);
	}
	if (res == 0 && code != SQLITE_DONE)
		res = store_errno(store->db, code);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return res;
}

int store_load_rows(struct store *store, uint64_t generation, json_t **ret_document,
		    struct store_error *ret_error)
{
	struct loading loading = {
		.generation = generation, .document = json_object(), .namespaces = json_object()};
	int res;

	*ret_document = NULL;
	res = json_object_set_new(loading.document, "subsystems", json_array()) ||
			      json_object_set_new(loading.document, "ports", json_array())
		      ? -ENOMEM
		      : 0;
	if (res == 0)
		res = rows_load(store, &loading, KIND_KEY, key_take);
	if (res == 0)
		res = rows_load(store, &loading, KIND_SUBSYSTEM, subsystem_take);
	if (res == 0)
		res = rows_load(store, &loading, KIND_NS, ns_take);
	if (res == 0)
		res = rows_load(store, &loading, KIND_PORT, port_take);
	json_decref(loading.namespaces);
	if (res < 0) {
		json_decref(loading.document);
		return store_explain(store, res, "the desired state cannot be read", ret_error);
	}
	*ret_document = loading.document;
	return 0;
}

int store_load_document(struct store *store, json_t **ret_document, struct store_error *ret_error)
{
	*ret_document = NULL;
	if (store->generation == 0)
		return store_explain(store, -ENOENT, "the desired state cannot be read", ret_error);
	return store_load_rows(store, 0, ret_document, ret_error);
}

int store_list_audit(struct store *store, unsigned count,
		     void (*each)(void *arg, const struct store_audit *audit), void *arg)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_AUDIT_LIST);
	int code;

	sqlite3_bind_int64(stmt, 1, count);
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const char *origin = (const char *)sqlite3_column_text(stmt, 2);
		const char *diff = (const char *)sqlite3_column_text(stmt, 3);
		struct store_audit audit = {
			.time_ms = (uint64_t)sqlite3_column_int64(stmt, 0),
			.generation = (uint64_t)sqlite3_column_int64(stmt, 1),
			.diff = diff ? diff : "",
		};

		snprintf(audit.origin, sizeof(audit.origin), "%s", origin ? origin : "");
		each(arg, &audit);
	}
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return code == SQLITE_DONE ? 0 : store_errno(store->db, code);
}
