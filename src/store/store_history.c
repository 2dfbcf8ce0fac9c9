/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Former generations of the desired state. Each change writes, in its own transaction, the former
 * values of the rows that it touches (table undo) and its origin (table history). So a generation
 * costs what its change costs, not a copy of the document. Generation N is read by taking, for
 * every row, the value that the first change after N found, or the row itself when no change has
 * touched it since.
 *
 * The last STORE_HISTORY_MAX former generations of the operator are kept, fewer when they take more
 * than STORE_HISTORY_BYTES_MAX. Hosts can make changes all day: beyond the last STORE_HISTORY_MAX
 * generations that hosts made, the oldest is folded into the generation after it. The operator's
 * older generations stay readable. Control thread only.
 */
#include "store/store_private.h"

#include "base/folder_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing, inside the transaction of a change ----------------------------------------------
 */

int store_undo_add(struct store *store, const struct store_undo *undo, uint64_t *bytes)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_UNDO_ADD);

	sqlite3_bind_text(stmt, 1, undo->kind, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, undo->key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 3, (sqlite3_int64)undo->generation);
	sqlite3_bind_text(stmt, 4, undo->of, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 5, undo->json, -1, SQLITE_STATIC);
	*bytes += strlen(undo->kind) + strlen(undo->key) + (undo->of ? strlen(undo->of) : 0) +
		  (undo->json ? strlen(undo->json) : 0);
	return store_run(store, stmt);
}

bool store_is_by_host(const char *origin)
{
	return strncmp(origin, STORE_ORIGIN_HOST, strlen(STORE_ORIGIN_HOST)) == 0;
}

/* Whether a host made the generation in the present row of STMT_HISTORY_LIST. */
static bool row_is_by_host(sqlite3_stmt *stmt)
{
	const char *origin = (const char *)sqlite3_column_text(stmt, 2);

	return origin && store_is_by_host(origin);
}

/* The neighbours of the oldest former generation that a host made. */
struct fold {
	uint64_t after; /* the generation before it; 0: none */
	uint64_t into;  /* the generation after it */
};

/* 1: hosts have made too many generations, and *ret_fold is filled; 0: not too many; or -errno. */
static int fold_find(struct store *store, struct fold *ret_fold)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_HISTORY_LIST);
	bool is_former = false, was_found = false;
	uint64_t later = 0;
	unsigned count = 0;
	int code;

	while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
		uint64_t generation = (uint64_t)sqlite3_column_int64(stmt, 0);

		if (was_found)
			ret_fold->after = generation;
		was_found = is_former && row_is_by_host(stmt);
		if (was_found) {
			*ret_fold = (struct fold){.into = later};
			count++;
		}
		is_former = true;
		later = generation;
	}
	sqlite3_reset(stmt);
	return code == SQLITE_DONE ? count > STORE_HISTORY_MAX : store_errno(store->db, code);
}

static int history_fold(struct store *store)
{
	static const enum store_stmt steps[] = {STMT_UNDO_FOLD, STMT_HISTORY_FOLD, STMT_UNDO_COUNT};
	struct fold fold = {0};
	int res;

	while ((res = fold_find(store, &fold)) > 0) {
		for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
			sqlite3_stmt *stmt = store_stmt(store, steps[i]);

			sqlite3_bind_int64(stmt, 1, (sqlite3_int64)fold.after);
			sqlite3_bind_int64(stmt, 2, (sqlite3_int64)fold.into);
			res = store_run(store, stmt);
			if (res < 0)
				return res;
		}
	}
	return res;
}

/* The oldest generation that stays; 0: all stay. *ret_res: 0 or -errno. */
static uint64_t history_oldest(struct store *store, int *ret_res)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_HISTORY_LIST);
	uint64_t oldest = 0, undo_bytes = 0;
	unsigned count = 0, by_operator = 0;
	bool is_full = false;
	int code;

	/* Reading a generation needs the undo rows of all later ones, not its own. */
	while (!is_full && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		is_full = by_operator > STORE_HISTORY_MAX ||
			  (count > 1 && undo_bytes > STORE_HISTORY_BYTES_MAX);
		if (is_full)
			break;
		oldest = (uint64_t)sqlite3_column_int64(stmt, 0);
		undo_bytes += (uint64_t)sqlite3_column_int64(stmt, 5);
		/* The generation in force counts too, and is not a former one. */
		if (count == 0 || !row_is_by_host(stmt))
			by_operator++;
		count++;
	}
	*ret_res = is_full || code == SQLITE_DONE ? 0 : store_errno(store->db, code);
	sqlite3_reset(stmt);
	return is_full ? oldest : 0;
}

static int history_trim(struct store *store)
{
	uint64_t oldest;
	int res = history_fold(store);

	if (res < 0)
		return res;
	oldest = history_oldest(store, &res);
	if (res < 0 || oldest == 0)
		return res;
	sqlite3_bind_int64(store_stmt(store, STMT_HISTORY_TRIM), 1, (sqlite3_int64)oldest);
	res = store_run(store, store_stmt(store, STMT_HISTORY_TRIM));
	if (res < 0)
		return res;
	sqlite3_bind_int64(store_stmt(store, STMT_UNDO_TRIM), 1, (sqlite3_int64)oldest);
	return store_run(store, store_stmt(store, STMT_UNDO_TRIM));
}

int store_history_add(struct store *store, const struct store_change *change, uint64_t time_ms,
		      const char *folder, uint64_t undo_bytes)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_HISTORY_ADD);
	const char *diff = change->diff ? change->diff : "";
	int res;

	sqlite3_bind_int64(stmt, 1, (sqlite3_int64)change->generation);
	sqlite3_bind_int64(stmt, 2, (sqlite3_int64)time_ms);
	sqlite3_bind_text(stmt, 3, change->origin ? change->origin : "", -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 4, diff, (int)strnlen(diff, STORE_DIFF_BYTES_MAX), SQLITE_STATIC);
	sqlite3_bind_text(stmt, 5, folder, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 6, (sqlite3_int64)undo_bytes);
	res = store_run(store, stmt);
	return res < 0 ? res : history_trim(store);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

int store_list_history(struct store *store,
		       void (*each)(void *arg, const struct store_generation *generation),
		       void *arg)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_HISTORY_LIST);
	int code;

	while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const char *origin = (const char *)sqlite3_column_text(stmt, 2);
		const char *diff = (const char *)sqlite3_column_text(stmt, 3);
		const char *folder = (const char *)sqlite3_column_text(stmt, 4);
		struct store_generation generation = {
			.generation = (uint64_t)sqlite3_column_int64(stmt, 0),
			.time_ms = (uint64_t)sqlite3_column_int64(stmt, 1),
			.diff = diff ? diff : "",
			.folder = folder ? folder : "",
		};

		snprintf(generation.origin, sizeof(generation.origin), "%s", origin ? origin : "");
		each(arg, &generation);
	}
	sqlite3_reset(stmt);
	return code == SQLITE_DONE ? 0 : store_errno(store->db, code);
}

struct wanted {
	uint64_t generation;
	bool is_found;
	char *folder;
};

static void wanted_look(void *arg, const struct store_generation *generation)
{
	struct wanted *wanted = arg;

	if (generation->generation != wanted->generation)
		return;
	wanted->is_found = true;
	wanted->folder = strdup(generation->folder);
}

int store_load_generation(struct store *store, uint64_t generation, json_t **ret_document,
			  char **ret_folder, struct store_error *ret_error)
{
	struct wanted wanted = {.generation = generation};
	int res = store_list_history(store, wanted_look, &wanted);

	*ret_document = NULL;
	*ret_folder = NULL;
	if (res < 0)
		return store_explain(store, res, "the history cannot be read", ret_error);
	if (!wanted.is_found) {
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "generation %llu is not saved; `weft ctl history` lists the saved "
			 "generations",
			 (unsigned long long)generation);
		return -ENOENT;
	}
	if (!wanted.folder) {
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		return -ENOMEM;
	}
	res = store_load_rows(store, generation, ret_document, ret_error);
	if (res < 0) {
		free(wanted.folder);
		return res;
	}
	*ret_folder = wanted.folder;
	return 0;
}

int store_each_former_ns(struct store *store, uint64_t generation,
			 void (*each)(void *arg, const json_t *ns), void *arg)
{
	sqlite3_stmt *stmt = store_stmt(store, STMT_UNDO_NAMESPACES);
	int code, res = 0;

	sqlite3_bind_int64(stmt, 1, (sqlite3_int64)generation);
	while (res == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(stmt, 0);
		json_t *ns;

		res = store_row_json(text, 0, &ns);
		if (res == 0)
			each(arg, ns);
		json_decref(ns);
	}
	if (res == 0 && code != SQLITE_DONE)
		res = store_errno(store->db, code);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return res;
}

/* ---- a copy of the whole store ------------------------------------------------------------------
 */

static int path_sync(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	int res = fd < 0 || fsync(fd) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return res;
}

/* Writes the copy into an empty file that only this user may read. */
static int store_copy_write(struct store *store, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	sqlite3_stmt *stmt = NULL;
	int code;

	if (fd < 0)
		return -errno;
	close(fd);
	code = sqlite3_prepare_v2(store->db, "VACUUM INTO ?1", -1, &stmt, NULL);
	if (code == SQLITE_OK) {
		sqlite3_bind_text(stmt, 1, path, -1, SQLITE_STATIC);
		code = sqlite3_step(stmt);
	}
	sqlite3_finalize(stmt);
	return code == SQLITE_DONE ? 0 : store_errno(store->db, code);
}

int store_copy(struct store *store, const char *path, struct store_error *ret_error)
{
	char fresh[PATH_MAX + 64];
	int res = 0;

	/* Under another name until the copy is complete, as store_make does. */
	if (snprintf(fresh, sizeof(fresh), "%s.new", path) >= (int)sizeof(fresh))
		return store_explain(store, -ENAMETOOLONG, "cannot be copied", ret_error);
	if (unlink(fresh) && errno != ENOENT)
		res = -errno;
	if (res == 0)
		res = store_copy_write(store, fresh);
	if (res == 0)
		res = path_sync(fresh);
	if (res == 0 && rename(fresh, path))
		res = -errno;
	if (res == 0)
		res = folder_sync_of(path);
	if (res == 0)
		return 0;
	unlink(fresh);
	return store_explain(store, res, "cannot be copied", ret_error);
}
