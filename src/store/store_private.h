/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the store share: the database, its prepared statements, the errors. Private to
 * store/store*.c. Control thread only.
 */
#ifndef WEFT_STORE_STORE_PRIVATE_H
#define WEFT_STORE_STORE_PRIVATE_H

#include "store/store.h"

#include <limits.h>
#include <sqlite3.h>

#define STORE_DIFF_BYTES_MAX 4096 /* of the difference in a row of audit and history */

enum store_stmt {
	STMT_BEGIN,
	STMT_COMMIT,
	STMT_ROLLBACK,
	STMT_META_SET,
	STMT_META_LIST,
	STMT_OBJECT_SET,
	STMT_OBJECT_DELETE,
	STMT_OBJECT_LIST,
	STMT_KEPT_SET,
	STMT_KEPT_DELETE,
	STMT_KEPT_GET,
	STMT_AUDIT_ADD,
	STMT_AUDIT_TRIM,
	STMT_AUDIT_TRIM_ONE,
	STMT_AUDIT_LIST,
	STMT_HISTORY_ADD,
	STMT_HISTORY_LIST,
	STMT_HISTORY_TRIM,
	STMT_HISTORY_FOLD,
	STMT_UNDO_ADD,
	STMT_UNDO_TRIM,
	STMT_UNDO_FOLD,
	STMT_UNDO_COUNT,
	STMT_UNDO_OBJECTS,
	STMT_UNDO_NAMESPACES,
	STMT_COUNT,
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *stmts[STMT_COUNT];
	char path[PATH_MAX + sizeof(STORE_FILE) + 1];
	struct store_counters counters;
	uint64_t generation;
	char source_hash[STORE_HASH_BYTES];
	char folder[PATH_MAX];
	bool is_batch;
	int batch_res;     /* the first failure in the batch */
	uint64_t disowned; /* see store_disown */
	int failure;       /* -errno of the last write; 0: it succeeded */
	int changes;       /* sqlite3_total_changes when the transaction began */
};

/* The -errno of a result code of SQLite. db NULL: the system's error is unknown. */
int store_errno(sqlite3 *db, int code);
/* Fills ret_error: the file, what failed, why, the remedy. Returns res. */
int store_explain(const struct store *store, int res, const char *what,
		  struct store_error *ret_error);

sqlite3_stmt *store_stmt(struct store *store, enum store_stmt which);
/* Runs a statement that returns no rows. 0 or -errno. */
int store_run(struct store *store, sqlite3_stmt *stmt);
/* Whether a change with this origin was made by a host. */
bool store_is_by_host(const char *origin);
int store_begin(struct store *store);
/* Commits if res is 0, else rolls back. 0 or -errno. */
int store_finish(struct store *store, int res);

/* Parses the JSON of a row into a new reference. 0, -ENOMEM, or -EUCLEAN: it is not JSON. */
int store_row_json(const char *text, size_t flags, json_t **ret_value);
/* Returns the document of a kept generation; 0: the one in force (store_document.c). 0, or -errno
 * with ret_error filled. */
int store_load_rows(struct store *store, uint64_t generation, json_t **ret_document,
		    struct store_error *ret_error);

/* ---- store_history.c --------------------------------------------------------------------------
 */

/* A row as it was before the change that makes `generation`; json NULL: the row did not exist. */
struct store_undo {
	uint64_t generation;
	const char *kind;
	const char *key;
	const char *of; /* key of the subsystem; NULL: none */
	const char *json;
};

/* Records the row, and adds the bytes that it takes to *bytes. 0 or -errno. */
int store_undo_add(struct store *store, const struct store_undo *undo, uint64_t *bytes);
/* Adds the generation that the change makes to the history, and deletes the oldest ones. */
int store_history_add(struct store *store, const struct store_change *change, uint64_t time_ms,
		      const char *folder, uint64_t undo_bytes);

int store_set_number(struct store *store, const char *name, uint64_t value);
int store_set_text(struct store *store, const char *name, const char *value);

#endif
