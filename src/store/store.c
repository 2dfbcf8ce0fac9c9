/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database of the state folder: creates, opens, checks and migrates it; counters; what the
 * target keeps. The rows of the desired state are in store_document.c, those of former generations
 * in store_history.c.
 *
 * A new database is created under another name and renamed when it is complete, so STATE/weft.db is
 * never incomplete: an empty or short file is damage. Damage is reported and never repaired here,
 * because the administrator must decide what to give up. Control thread only.
 */
#include "store/store.h"

#include "base/check.h"
#include "base/folder_sync.h"
#include "store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE_FILE_NEW       STORE_FILE ".new"
#define STORE_APPLICATION_ID 0x77656674 /* "weft" */
#define STORE_SCHEMA         2
#define STORE_BUSY_MS        3000
#define STORE_DISOWN_TRIES   3
#define STORE_CACHE_KIB      "256" /* small: read once, and a change touches a few pages */

#define BY_HOST "origin GLOB '" STORE_ORIGIN_HOST "*'"

static const char *const stmt_texts[STMT_COUNT] = {
	[STMT_BEGIN] = "BEGIN IMMEDIATE",
	[STMT_COMMIT] = "COMMIT",
	[STMT_ROLLBACK] = "ROLLBACK",
	[STMT_META_SET] = "INSERT INTO meta(name, value) VALUES(?1, ?2)"
			  " ON CONFLICT(name) DO UPDATE SET value = excluded.value",
	[STMT_META_LIST] = "SELECT name, value FROM meta",
	[STMT_OBJECT_SET] =
		"INSERT INTO object(kind, key, of_kind, of_key, json) VALUES(?1, ?2, ?3, ?4, ?5)"
		" ON CONFLICT(kind, key) DO UPDATE SET json = excluded.json",
	[STMT_OBJECT_DELETE] = "DELETE FROM object WHERE kind = ?1 AND key = ?2",
	[STMT_OBJECT_LIST] = "SELECT key, of_key, json FROM object WHERE kind = ?1 ORDER BY key",
	[STMT_KEPT_SET] = "INSERT INTO kept(kind, key, value) VALUES(?1, ?2, ?3)"
			  " ON CONFLICT(kind, key) DO UPDATE SET value = excluded.value",
	[STMT_KEPT_DELETE] = "DELETE FROM kept WHERE kind = ?1 AND key = ?2",
	[STMT_KEPT_GET] = "SELECT value FROM kept WHERE kind = ?1 AND key = ?2",
	[STMT_AUDIT_ADD] =
		"INSERT INTO audit(time_ms, generation, origin, diff) VALUES(?1, ?2, ?3, ?4)",
	/* Keeps the newest ?2 changes of hosts, or of the operator. */
	[STMT_AUDIT_TRIM] = "DELETE FROM audit WHERE (" BY_HOST ") = ?1 AND id <= ("
			    "SELECT id FROM audit WHERE (" BY_HOST ") = ?1"
			    " ORDER BY id DESC LIMIT 1 OFFSET ?2)",
	[STMT_AUDIT_TRIM_ONE] = "DELETE FROM audit WHERE origin = ?1 AND id <= ("
				"SELECT id FROM audit WHERE origin = ?1"
				" ORDER BY id DESC LIMIT 1 OFFSET ?2)",
	[STMT_AUDIT_LIST] = "SELECT time_ms, generation, origin, diff FROM audit"
			    " ORDER BY id DESC LIMIT ?1",
	[STMT_HISTORY_ADD] =
		"INSERT INTO history(generation, time_ms, origin, diff, folder, undo_bytes)"
		" VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(generation) DO NOTHING",
	[STMT_HISTORY_LIST] = "SELECT generation, time_ms, origin, diff, folder, undo_bytes"
			      " FROM history ORDER BY generation DESC",
	[STMT_HISTORY_TRIM] = "DELETE FROM history WHERE generation < ?1",
	[STMT_HISTORY_FOLD] = "DELETE FROM history WHERE generation > ?1 AND generation < ?2",
	/* The first value of a row in a generation counts: the row before that generation's
	 * change. */
	[STMT_UNDO_ADD] = "INSERT INTO undo(kind, key, generation, of_key, json)"
			  " VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
	[STMT_UNDO_TRIM] = "DELETE FROM undo WHERE generation <= ?1",
	/* No generation between ?1 and ?2 can be read any more, so the first value of each row
	 * stays. Of namespaces every UUID and medium stays too: see store_each_former_ns. */
	[STMT_UNDO_FOLD] =
		"DELETE FROM undo AS late WHERE generation > ?1 AND generation <= ?2 AND EXISTS("
		"SELECT 1 FROM undo u WHERE u.kind = late.kind AND u.key = late.key"
		" AND u.generation > ?1 AND u.generation < late.generation"
		" AND (late.kind <> 'namespace' OR late.json IS NULL"
		" OR (late.json ->> 'uuid' IS u.json ->> 'uuid'"
		" AND late.json ->> 'media' IS u.json ->> 'media')))",
	[STMT_UNDO_COUNT] =
		"UPDATE history SET undo_bytes = (SELECT ifnull(sum(length(CAST(kind AS BLOB))"
		" + length(CAST(key AS BLOB)) + ifnull(length(CAST(of_key AS BLOB)), 0)"
		" + ifnull(length(CAST(json AS BLOB)), 0)), 0) FROM undo"
		" WHERE generation > ?1 AND generation <= ?2) WHERE generation = ?2",
	/* The rows of a kind at generation ?2: the value that the first later change found, or the
	 * present value if no change was later. */
	[STMT_UNDO_OBJECTS] =
		"SELECT key, of_key, json FROM object o WHERE kind = ?1 AND NOT EXISTS("
		"SELECT 1 FROM undo u WHERE u.kind = o.kind AND u.key = o.key"
		" AND u.generation > ?2)"
		" UNION ALL SELECT key, of_key, json FROM undo u WHERE kind = ?1"
		" AND json IS NOT NULL AND generation = (SELECT min(generation) FROM undo v"
		" WHERE v.kind = u.kind AND v.key = u.key AND v.generation > ?2)"
		" ORDER BY key",
	[STMT_UNDO_NAMESPACES] = "SELECT json FROM undo WHERE kind = 'namespace'"
				 " AND generation > ?1 AND json IS NOT NULL",
};

/* Step N migrates from version N to N + 1. */
static const char *const schema_steps[STORE_SCHEMA] = {
	"CREATE TABLE meta(name TEXT NOT NULL PRIMARY KEY, value NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE object(kind TEXT NOT NULL, key TEXT NOT NULL, of_kind TEXT, of_key TEXT,"
	" json TEXT NOT NULL, PRIMARY KEY(kind, key),"
	" FOREIGN KEY(of_kind, of_key) REFERENCES object(kind, key) DEFERRABLE INITIALLY DEFERRED"
	") WITHOUT ROWID;"
	"CREATE INDEX object_of ON object(of_kind, of_key);"
	"CREATE TABLE kept(kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,"
	" PRIMARY KEY(kind, key)) WITHOUT ROWID;"
	"CREATE TABLE audit(id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL,"
	" generation INTEGER NOT NULL, origin TEXT NOT NULL, diff TEXT NOT NULL);",
	/* The document that is kept already begins the history. */
	"CREATE TABLE history(generation INTEGER NOT NULL PRIMARY KEY, time_ms INTEGER NOT NULL,"
	" origin TEXT NOT NULL, diff TEXT NOT NULL, folder TEXT NOT NULL,"
	" undo_bytes INTEGER NOT NULL);"
	"CREATE TABLE undo(kind TEXT NOT NULL, key TEXT NOT NULL, generation INTEGER NOT NULL,"
	" of_key TEXT, json TEXT, PRIMARY KEY(kind, key, generation)) WITHOUT ROWID;"
	"CREATE INDEX undo_generation ON undo(generation);"
	"INSERT INTO history SELECT value,"
	" COALESCE((SELECT time_ms FROM audit ORDER BY id DESC LIMIT 1), 0),"
	" COALESCE((SELECT origin FROM audit ORDER BY id DESC LIMIT 1), ''),"
	" COALESCE((SELECT diff FROM audit ORDER BY id DESC LIMIT 1), ''),"
	" COALESCE((SELECT value FROM meta WHERE name = 'folder'), ''), 0"
	" FROM meta WHERE name = 'generation' AND value > 0;",
};

/* ---- errors -----------------------------------------------------------------------------------
 */

int store_errno(sqlite3 *db, int code)
{
	int system = db ? sqlite3_system_errno(db) : 0;

	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_TOOBIG:
		return -E2BIG;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_CONSTRAINT:
		return -EUCLEAN;
	default: /* SQLITE_IOERR, SQLITE_CANTOPEN */
		return system > 0 ? -system : -EIO;
	}
}

static const char *remedy_of(int res)
{
	switch (res) {
	case -ENOSPC:
	case -EDQUOT:
		return "the disk is full: free some space and try again";
	case -EBUSY:
		return "another program has locked the database: end that program and try again";
	case -EROFS:
	case -EACCES:
	case -EPERM:
		return "make the folder writable, or choose another folder with --state";
	case -EUCLEAN:
		return "restore the database from a backup; or, to start with empty state (without "
		       "changes, reservations and counters), move the file aside together with its "
		       "-wal and -shm";
	case -ENOLINK:
		return "changes made now would be lost when the target ends: save the "
		       "configuration with `weft ctl export`, stop the target, then restore the "
		       "folder or start with the saved configuration";
	case -ENOTRECOVERABLE:
		return "the change may be saved all the same: the next start shows, unless another "
		       "change succeeds before; check the disk";
	default:
		return "check the disk, or choose another folder with --state";
	}
}

int store_explain(const struct store *store, int res, const char *what,
		  struct store_error *ret_error)
{
	const char *why = store->db ? sqlite3_errmsg(store->db) : strerror(-res);

	if (res == -ENOLINK)
		why = "the file was deleted, moved or replaced while in use";
	else if (store->db && (sqlite3_errcode(store->db) & 0xff) == SQLITE_OK)
		why = strerror(-res);
	snprintf(ret_error->text, sizeof(ret_error->text), "%.400s: %s: %.120s; %s", store->path,
		 what, why, remedy_of(res));
	return res;
}

static int store_damaged(const struct store *store, const char *why, struct store_error *ret_error)
{
	snprintf(ret_error->text, sizeof(ret_error->text), "%.400s is damaged: %.200s; %s",
		 store->path, why, remedy_of(-EUCLEAN));
	return -EUCLEAN;
}

/* ---- statements -------------------------------------------------------------------------------
 */

sqlite3_stmt *store_stmt(struct store *store, enum store_stmt which)
{
	return store->stmts[which];
}

int store_run(struct store *store, sqlite3_stmt *stmt)
{
	int code = sqlite3_step(stmt);
	int res = code == SQLITE_DONE ? 0 : store_errno(store->db, code);

	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return res;
}

bool store_is_gone(const struct store *store)
{
	int has_moved = 0;

	return sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) ==
		       SQLITE_OK &&
	       has_moved;
}

/* A transaction without a change never reached the disk, so it does not clear a failure. */
static int store_note(struct store *store, int res)
{
	if (res < 0 || sqlite3_total_changes(store->db) != store->changes)
		store->failure = res;
	return res;
}

int store_begin(struct store *store)
{
	int res;

	store->changes = sqlite3_total_changes(store->db);
	/* SQLite would continue with a file that was deleted or renamed. */
	res = store_is_gone(store) ? -ENOLINK : store_run(store, store->stmts[STMT_BEGIN]);
	return res < 0 ? store_note(store, res) : 0;
}

/*
 * A failed commit may be complete in the log, if only the last sync failed. A crash would then
 * bring the transaction back. All other failures come before the last byte of the commit.
 */
static bool may_come_back(const struct store *store)
{
	int code = sqlite3_errcode(store->db) & 0xff;

	return code == SQLITE_IOERR || code == SQLITE_NOMEM;
}

/* *ret_may_return: the transaction failed, but a crash may bring it back. */
static int transaction_end(struct store *store, int res, bool *ret_may_return)
{
	*ret_may_return = false;
	if (res == 0) {
		res = store_run(store, store->stmts[STMT_COMMIT]);
		*ret_may_return = res < 0 && may_come_back(store);
	}
	/* After some failures SQLite has rolled back already. */
	if (res < 0 && !sqlite3_get_autocommit(store->db))
		store_run(store, store->stmts[STMT_ROLLBACK]);
	return res;
}

/* Overwrites in the log a failed transaction that may come back, with any write. The number is a
 * new one, because an equal value would not be written. Returns res, or -ENOTRECOVERABLE when
 * nothing could be written. */
static int store_disown(struct store *store, int res)
{
	for (unsigned i = 0; i < STORE_DISOWN_TRIES; i++) {
		int again = store_begin(store);
		bool may_return;

		if (again == 0)
			again = transaction_end(
				store, store_set_number(store, "disowned", ++store->disowned),
				&may_return);
		if (again == 0)
			return res;
	}
	return -ENOTRECOVERABLE;
}

int store_finish(struct store *store, int res)
{
	bool may_return;

	res = transaction_end(store, res, &may_return);
	return store_note(store, may_return ? store_disown(store, res) : res);
}

bool store_problem(struct store *store, struct store_error *ret_error)
{
	int res;

	if (store->failure == 0)
		return false;
	/* Callers may ask often, and must not wait for another program each time. */
	sqlite3_busy_timeout(store->db, 0);
	res = store_begin(store);
	if (res == 0)
		res = store_finish(store, store_set_number(store, "disowned", ++store->disowned));
	sqlite3_busy_timeout(store->db, STORE_BUSY_MS);
	if (res < 0)
		store_explain(store, res, "nothing can be saved, and changes are refused",
			      ret_error);
	return res < 0;
}

int store_set_number(struct store *store, const char *name, uint64_t value)
{
	sqlite3_stmt *stmt = store->stmts[STMT_META_SET];

	sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, (sqlite3_int64)value);
	return store_run(store, stmt);
}

int store_set_text(struct store *store, const char *name, const char *value)
{
	sqlite3_stmt *stmt = store->stmts[STMT_META_SET];

	sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, value, -1, SQLITE_STATIC);
	return store_run(store, stmt);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static int pragma_number(struct store *store, const char *sql, int *ret_value)
{
	sqlite3_stmt *stmt = NULL;
	int code = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(stmt);
	if (code == SQLITE_ROW)
		*ret_value = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	return code == SQLITE_ROW ? 0 : store_errno(store->db, code);
}

static int sql_run(struct store *store, const char *sql)
{
	return store_errno(store->db, sqlite3_exec(store->db, sql, NULL, NULL, NULL));
}

static int db_open(struct store *store, const char *path, int flags)
{
	int code = sqlite3_open_v2(path, &store->db, flags | SQLITE_OPEN_NOMUTEX, NULL);

	if (code != SQLITE_OK)
		return store_errno(store->db, code);
	sqlite3_extended_result_codes(store->db, 1);
	sqlite3_busy_timeout(store->db, STORE_BUSY_MS);
	return sql_run(store, "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; "
			      "PRAGMA cache_size = -" STORE_CACHE_KIB);
}

static void db_close(struct store *store)
{
	for (unsigned i = 0; i < STMT_COUNT; i++) {
		sqlite3_finalize(store->stmts[i]);
		store->stmts[i] = NULL;
	}
	sqlite3_close(store->db);
	store->db = NULL;
}

static int stmts_prepare(struct store *store)
{
	for (unsigned i = 0; i < STMT_COUNT; i++) {
		int code = sqlite3_prepare_v3(store->db, stmt_texts[i], -1,
					      SQLITE_PREPARE_PERSISTENT, &store->stmts[i], NULL);

		if (code != SQLITE_OK)
			return store_errno(store->db, code);
	}
	return 0;
}

/* Migrates the tables from `version` to STORE_SCHEMA, in one transaction. */
static int schema_migrate(struct store *store, int version)
{
	char pragma[64];
	int res;

	if (version == STORE_SCHEMA)
		return 0;
	res = sql_run(store, "BEGIN IMMEDIATE");
	for (int step = version; res == 0 && step < STORE_SCHEMA; step++)
		res = sql_run(store, schema_steps[step]);
	snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", STORE_SCHEMA);
	if (res == 0)
		res = sql_run(store, pragma);
	if (res == 0)
		res = sql_run(store, "COMMIT");
	if (res < 0 && !sqlite3_get_autocommit(store->db))
		sql_run(store, "ROLLBACK");
	return res;
}

/* Checks that the file is a complete database of weft, and migrates it. 0, or -errno with ret_error
 * filled. */
static int db_check(struct store *store, struct store_error *ret_error)
{
	sqlite3_stmt *stmt = NULL;
	const char *text;
	int id = 0, version = 0, code, res;

	res = pragma_number(store, "PRAGMA application_id", &id);
	if (res == 0)
		res = pragma_number(store, "PRAGMA user_version", &version);
	if (res < 0)
		return store_explain(store, res, "cannot be read", ret_error);
	if (id != STORE_APPLICATION_ID)
		return store_damaged(store, "not a state store of weft", ret_error);
	if (version > STORE_SCHEMA || version < 1) {
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "%.400s has version %d, this program reads up to %d: use the newer weft "
			 "that wrote it, or choose another folder with --state",
			 store->path, version, STORE_SCHEMA);
		return -EPROTO;
	}
	code = sqlite3_prepare_v2(store->db, "PRAGMA integrity_check(1)", -1, &stmt, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_step(stmt);
	text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
	if (code != SQLITE_ROW)
		res = store_explain(store, store_errno(store->db, code), "cannot be checked",
				    ret_error);
	else if (!text || strcmp(text, "ok") != 0)
		res = store_damaged(store, text ? text : "no answer", ret_error);
	sqlite3_finalize(stmt);
	if (res == 0) {
		res = schema_migrate(store, version);
		if (res < 0)
			store_explain(store, res, "cannot be upgraded to this version", ret_error);
	}
	return res;
}

/* False: the row has an invalid value. */
static bool meta_take(struct store *store, const char *name, sqlite3_stmt *stmt)
{
	uint64_t number = (uint64_t)sqlite3_column_int64(stmt, 1);
	const char *text = (const char *)sqlite3_column_text(stmt, 1);

	if (!name || !text)
		return false;
	if (strcmp(name, "generation") == 0)
		store->generation = number;
	else if (strcmp(name, "starts") == 0)
		store->counters.starts = number;
	else if (strcmp(name, "unsafe_shutdowns") == 0)
		store->counters.unsafe_shutdowns = number;
	else if (strcmp(name, "clean") == 0)
		store->counters.is_clean = number != 0;
	else if (strcmp(name, "disowned") == 0)
		store->disowned = number;
	else if (strcmp(name, "source_hash") == 0)
		return snprintf(store->source_hash, sizeof(store->source_hash), "%s", text) <
		       (int)sizeof(store->source_hash);
	else if (strcmp(name, "folder") == 0)
		return snprintf(store->folder, sizeof(store->folder), "%s", text) <
		       (int)sizeof(store->folder);
	else if (strcmp(name, "id") == 0)
		return uuid_parse(text, &store->counters.id) == 0;
	return true;
}

static int meta_load(struct store *store, struct store_error *ret_error)
{
	sqlite3_stmt *stmt = store->stmts[STMT_META_LIST];
	bool is_good = true;
	int code;

	while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
		is_good = meta_take(store, (const char *)sqlite3_column_text(stmt, 0), stmt) &&
			  is_good;
	sqlite3_reset(stmt);
	if (code != SQLITE_DONE)
		return store_explain(store, store_errno(store->db, code), "cannot be read",
				     ret_error);
	if (!is_good || uuid_is_nil(&store->counters.id))
		return store_damaged(store, "its counters are invalid", ret_error);
	return 0;
}

static int counters_write(struct store *store, const struct store_counters *counters)
{
	char id[UUID_TEXT_BYTES];
	int res = store_set_number(store, "starts", counters->starts);

	if (res == 0)
		res = store_set_number(store, "unsafe_shutdowns", counters->unsafe_shutdowns);
	if (res == 0)
		res = store_set_number(store, "clean", counters->is_clean);
	if (res == 0)
		res = store_set_text(store, "id", uuid_format(&counters->id, id));
	return res;
}

/* Fills the empty database. Everything is in its main file afterwards. */
static int db_fill(struct store *store, const struct store_counters *first)
{
	char pragma[64];
	int res;

	snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d", STORE_APPLICATION_ID);
	res = sql_run(store, pragma);
	if (res == 0)
		res = sql_run(store, "PRAGMA journal_mode = WAL");
	if (res == 0)
		res = schema_migrate(store, 0);
	if (res == 0)
		res = stmts_prepare(store);
	if (res == 0)
		res = store_begin(store);
	if (res == 0)
		res = store_finish(store, counters_write(store, first));
	/* Closing would checkpoint too, but reports no failure, and the log does not follow the
	 * file to its new name. */
	if (res == 0)
		res = store_errno(store->db, sqlite3_wal_checkpoint_v2(store->db, NULL,
								       SQLITE_CHECKPOINT_TRUNCATE,
								       NULL, NULL));
	return res;
}

/* Removes what a former attempt left: SQLite must not use its log for the next database. 0 or
 * -errno. */
static int leftovers_remove(const char *path)
{
	static const char *const suffixes[] = {"", "-wal", "-shm"};
	char side[PATH_MAX + sizeof(STORE_FILE_NEW) + 16];

	for (unsigned i = 0; i < ARRAY_LEN(suffixes); i++) {
		snprintf(side, sizeof(side), "%s%s", path, suffixes[i]);
		if (unlink(side) && errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* Creates the database under another name until it is complete; see the head of this file. */
static int store_make(struct store *store, const char *dir, const struct store_counters *first,
		      struct store_error *ret_error)
{
	char path[sizeof(store->path) + 8];
	int fd, res;

	snprintf(path, sizeof(path), "%s/%s", dir, STORE_FILE_NEW);
	res = leftovers_remove(path);
	if (res < 0)
		return store_explain(store, res, "cannot be created", ret_error);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return store_explain(store, -errno, "cannot be created", ret_error);
	close(fd);
	res = db_open(store, path, SQLITE_OPEN_READWRITE);
	if (res == 0)
		res = db_fill(store, first);
	if (res < 0)
		store_explain(store, res, "cannot be created", ret_error);
	db_close(store);
	if (res < 0) {
		unlink(path);
		return res;
	}
	if (rename(path, store->path))
		return store_explain(store, -errno, "cannot be created", ret_error);
	res = folder_sync(dir);
	return res < 0 ? store_explain(store, res, "cannot be created", ret_error) : 0;
}

static int store_begin_use(struct store *store, struct store_error *ret_error)
{
	struct stat info;
	int res;

	if (stat(store->path, &info))
		return store_explain(store, -errno, "cannot be opened", ret_error);
	if (info.st_size == 0)
		return store_damaged(store, "the file is empty", ret_error);
	res = db_open(store, store->path, SQLITE_OPEN_READWRITE);
	if (res < 0)
		return store_explain(store, res, "cannot be opened", ret_error);
	res = db_check(store, ret_error);
	if (res < 0)
		return res;
	/* A copy that was put back (of --reset, of SQLite's backup) has no write-ahead log. Until
	 * the database has a log, or if it can have none, a commit is stable when the removal of
	 * the journal from the folder is stable. EXTRA waits for that. With a log EXTRA equals
	 * FULL. */
	res = sql_run(store, "PRAGMA synchronous = EXTRA; PRAGMA journal_mode = WAL");
	if (res < 0)
		return store_explain(store, res, "cannot be written", ret_error);
	res = stmts_prepare(store);
	if (res < 0)
		return store_explain(store, res, "lacks a table", ret_error);
	return meta_load(store, ret_error);
}

int store_open(const char *dir, const struct store_counters *first, struct store **ret_store,
	       struct store_error *ret_error)
{
	struct store *store = calloc(1, sizeof(*store));
	int res = 0;

	*ret_store = NULL;
	if (!store) {
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		return -ENOMEM;
	}
	snprintf(store->path, sizeof(store->path), "%s/%s", dir, STORE_FILE);
	if (access(store->path, F_OK) && errno == ENOENT)
		res = store_make(store, dir, first, ret_error);
	if (res == 0)
		res = store_begin_use(store, ret_error);
	if (res < 0) {
		store_close(store);
		return res;
	}
	*ret_store = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	db_close(store);
	free(store);
}

/* ---- counters ---------------------------------------------------------------------------------
 */

void store_get_counters(const struct store *store, struct store_counters *ret_counters)
{
	*ret_counters = store->counters;
}

int store_set_counters(struct store *store, const struct store_counters *counters,
		       struct store_error *ret_error)
{
	int res = store_begin(store);

	if (res == 0)
		res = store_finish(store, counters_write(store, counters));
	if (res < 0)
		return store_explain(store, res, "cannot be written", ret_error);
	store->counters = *counters;
	return 0;
}

uint64_t store_generation(const struct store *store)
{
	return store->generation;
}

const char *store_source_hash(const struct store *store)
{
	return store->source_hash;
}

const char *store_folder(const struct store *store)
{
	return store->folder;
}

/* ---- what the target keeps --------------------------------------------------------------------
 */

int store_keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	struct store *store = arg;
	sqlite3_stmt *stmt = store->stmts[value ? STMT_KEPT_SET : STMT_KEPT_DELETE];
	int res;

	if (!store->is_batch && store_is_gone(store))
		return -ENOLINK;
	if (!store->is_batch)
		store->changes = sqlite3_total_changes(store->db);
	sqlite3_bind_text(stmt, 1, kind, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, key, -1, SQLITE_STATIC);
	if (value)
		sqlite3_bind_blob64(stmt, 3, value, value_bytes, SQLITE_STATIC);
	/* Outside a batch the statement is a transaction of its own. */
	res = store_run(store, stmt);
	if (res < 0 && !store->is_batch && may_come_back(store))
		res = store_disown(store, res);
	if (store->is_batch && store->batch_res == 0)
		store->batch_res = res;
	return store->is_batch ? res : store_note(store, res);
}

int store_recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	struct store *store = arg;
	sqlite3_stmt *stmt = store->stmts[STMT_KEPT_GET];
	int code, res;

	*ret_value = NULL;
	*ret_bytes = 0;
	sqlite3_bind_text(stmt, 1, kind, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, key, -1, SQLITE_STATIC);
	code = sqlite3_step(stmt);
	res = code == SQLITE_DONE ? -ENOENT : store_errno(store->db, code);
	if (code == SQLITE_ROW) {
		size_t bytes = (size_t)sqlite3_column_bytes(stmt, 0);
		const void *value = sqlite3_column_blob(stmt, 0);

		*ret_value = malloc(bytes + 1);
		if (*ret_value && bytes > 0)
			memcpy(*ret_value, value, bytes);
		*ret_bytes = bytes;
		res = *ret_value ? 0 : -ENOMEM;
	}
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return res;
}

int store_batch_begin(struct store *store)
{
	int res = store_begin(store);

	store->is_batch = res == 0;
	store->batch_res = 0;
	return res;
}

int store_batch_end(struct store *store)
{
	store->is_batch = false;
	return store_finish(store, store->batch_res);
}
