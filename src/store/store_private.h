/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the store share: the database, its prepared statements, the errors.
 * Private to store/store*.c. Control thread only.
 */
#ifndef WEFT_STORE_STORE_PRIVATE_H
#define WEFT_STORE_STORE_PRIVATE_H

#include "store/store.h"

#include <limits.h>
#include <sqlite3.h>

#define STORE_DIFF_BYTES_MAX 4096 /* of a row of audit and history */

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
	int batch_res;     /* the first failure in it */
	uint64_t disowned; /* see store_disown */
	int failure;       /* of the last write, -errno; 0: it is kept */
	int changes;       /* sqlite3_total_changes when the transaction began */
};

/* -errno of the database's last failure. */
int store_errno(sqlite3 *db, int code);
/* Fills the text: the file, what failed, why, the remedy. Returns res. */
int store_explain(const struct store *store, int res, const char *what,
		  struct store_error *ret_error);

sqlite3_stmt *store_stmt(struct store *store, enum store_stmt which);
/* Runs one that returns no rows. 0 or -errno. */
int store_run(struct store *store, sqlite3_stmt *stmt);
/* Whether a change with this origin was made by a host. */
bool store_is_by_host(const char *origin);
int store_begin(struct store *store);
/* Commits after 0, else rolls back. 0 or -errno. */
int store_finish(struct store *store, int res);

/* The document of a generation that is kept; 0: the one in force (store_document.c). */
/* A value as a row keeps it, a new reference. 0, -ENOMEM, or -EUCLEAN: it is not JSON. */
int store_row_json(const char *text, size_t flags, json_t **ret_value);
int store_load_rows(struct store *store, uint64_t generation, json_t **ret_document,
		    struct store_error *ret_error);

/* ---- store_history.c --------------------------------------------------------------------------
 */

/* The row as it was before the change that makes `generation`; json NULL: it did not exist. Adds
 * what this takes to *bytes. */
struct store_undo {
	uint64_t generation;
	const char *kind;
	const char *key;
	const char *of; /* NULL: belongs to no other */
	const char *json;
};

int store_undo_add(struct store *store, const struct store_undo *undo, uint64_t *bytes);
/* Lists the generation that the change makes, and forgets the oldest ones. */
int store_history_add(struct store *store, const struct store_change *change, uint64_t time_ms,
		      const char *folder, uint64_t undo_bytes);

int store_set_number(struct store *store, const char *name, uint64_t value);
int store_set_text(struct store *store, const char *name, const char *value);

#endif
