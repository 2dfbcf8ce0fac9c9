/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What survives the process: the database STATE/weft.db (SQLite, write-ahead log, synchronous
 * FULL). It has the desired state in rows, what the target keeps (struct keeper), the counters, and
 * the audit.
 *
 * Control thread only; every call may block. After a success everything is on stable storage. After
 * a failure nothing has changed, also for the next start. Only -ENOTRECOVERABLE leaves this open:
 * the disk could not be made to forget what it had not confirmed.
 */
#ifndef WEFT_STORE_STORE_H
#define WEFT_STORE_STORE_H

#include "base/uuid.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_FILE       "weft.db"
#define STORE_HASH_BYTES 65 /* a SHA-256 in hexadecimal */
/* Prefix of the origin of every change that a host makes, and of no other change. The audit and the
 * history count changes of hosts apart, so that no host pushes out the operator's changes. */
#define STORE_ORIGIN_HOST "host "
/* Changes in the audit: of the operator and of hosts each, and of one host. A few more are kept,
 * because the audit is trimmed every STORE_AUDIT_TRIM_EVERY changes. */
#define STORE_AUDIT_MAX        10000
#define STORE_AUDIT_ONE_MAX    1000
#define STORE_AUDIT_TRIM_EVERY 64
#define STORE_ERROR_BYTES      1024
/* Former generations that are kept, of the operator and of hosts each, and the bytes that they may
 * take beside the desired state. The newest one is kept whatever its size. */
#define STORE_HISTORY_MAX       32
#define STORE_HISTORY_BYTES_MAX (32ull * 1024 * 1024)

struct store;

struct store_error {
	char text[STORE_ERROR_BYTES]; /* names the file and the remedy */
};

struct store_counters {
	uint64_t starts;
	uint64_t unsafe_shutdowns;
	bool is_clean; /* the last end was orderly */
	struct uuid id;
};

/*
 * Opens STATE/weft.db and checks it. A missing database is created with these counters. A database
 * that is damaged, of a newer version or of another program is an error, and never replaced. 0, or
 * -errno with ret_error filled.
 */
int store_open(const char *dir, const struct store_counters *first, struct store **ret_store,
	       struct store_error *ret_error);
void store_close(struct store *store);

/* The file of the store was deleted, moved or replaced: every change fails with -ENOLINK. */
bool store_is_gone(const struct store *store);

/* True: the last write failed, and another attempt fails too. False: the store can be written. */
bool store_problem(struct store *store, struct store_error *ret_error);

void store_get_counters(const struct store *store, struct store_counters *ret_counters);
int store_set_counters(struct store *store, const struct store_counters *counters,
		       struct store_error *ret_error);

/* ---- the desired state ------------------------------------------------------------------------
 */

/* The generation of the kept document; 0: none is kept. */
uint64_t store_generation(const struct store *store);
/* The hash of the source that the state was created from; empty: none. */
const char *store_source_hash(const struct store *store);
/* The working folder of the process that made the last change: the base of its relative paths. */
const char *store_folder(const struct store *store);
/* Returns the whole document, a new reference. 0, -ENOENT or -errno. */
int store_load_document(struct store *store, json_t **ret_document, struct store_error *ret_error);

struct store_change {
	const json_t *before; /* the document kept now; NULL: none */
	const json_t *after;
	uint64_t generation;     /* of `after` */
	const char *source_hash; /* NULL: the kept hash stays */
	const char *origin;
	const char *diff; /* for the audit */
};

/* Writes the rows that differ, the generation, and a row of the audit and of the history in one
 * transaction. 0, or -errno with ret_error filled. */
int store_keep_document(struct store *store, const struct store_change *change,
			struct store_error *ret_error);

struct store_audit {
	uint64_t time_ms; /* since 1970 */
	uint64_t generation;
	char origin[256];
	const char *diff; /* valid until `each` returns */
};

/* Calls `each` for the last `count` changes, newest first. 0 or -errno. */
int store_list_audit(struct store *store, unsigned count,
		     void (*each)(void *arg, const struct store_audit *audit), void *arg);

/* ---- former generations -----------------------------------------------------------------------
 */

struct store_generation {
	uint64_t generation;
	uint64_t time_ms; /* since 1970 */
	char origin[256]; /* who made the generation */
	/* The difference that its change made. Like folder, valid until `each` returns. */
	const char *diff;
	const char *folder;
};

/* Calls `each` for the generation in force, then for former ones, newest first. 0 or -errno. */
int store_list_history(struct store *store,
		       void (*each)(void *arg, const struct store_generation *generation),
		       void *arg);
/* Returns the document of a generation, a new reference, and the working folder, the base of its
 * relative paths (for free()). 0, -ENOENT: not kept, or -errno. */
int store_load_generation(struct store *store, uint64_t generation, json_t **ret_document,
			  char **ret_folder, struct store_error *ret_error);
/* Calls `each` for every namespace as changes since the generation found it, including removed
 * ones. A namespace may come several times. 0 or -errno. */
int store_each_former_ns(struct store *store, uint64_t generation,
			 void (*each)(void *arg, const json_t *ns), void *arg);
/* Copies the whole database to `path`, as a database of its own, complete or not at all. 0, or
 * -errno with ret_error filled. */
int store_copy(struct store *store, const char *path, struct store_error *ret_error);

/* ---- what the target keeps --------------------------------------------------------------------
 */

/* As struct keeper specifies; `arg` is the store. */
int store_keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes);
int store_recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes);

/* Many keeps as one transaction: all are durable, or lost, at the end. 0 or -errno. */
int store_batch_begin(struct store *store);
int store_batch_end(struct store *store);

#endif
