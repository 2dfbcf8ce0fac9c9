/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What survives the process: the database STATE/weft.db (SQLite, write-ahead log, synchronous
 * FULL). It holds the desired state in rows, what the target keeps (struct keeper), the
 * counters, and who changed what.
 *
 * Control thread only; every call may block. On return of a successful call everything is on stable
 * storage; after a failure nothing has changed, also for the next start. -ENOTRECOVERABLE alone
 * leaves that open: the disk could not be made to forget what it had not confirmed.
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
/* Begins the origin of every change that a host makes, and of no other one. The audit and the
 * history count such changes apart: no host pushes out what the operator did. */
#define STORE_ORIGIN_HOST "host "
/* Changes in the audit, of the operator and of hosts each, and of one host. A few more are kept:
 * they are looked at every STORE_AUDIT_TRIM_EVERY changes. */
#define STORE_AUDIT_MAX        10000
#define STORE_AUDIT_ONE_MAX    1000
#define STORE_AUDIT_TRIM_EVERY 64
#define STORE_ERROR_BYTES      1024
/* Former generations that are kept, made by the operator and by hosts each, and what they may take
 * beside the desired state. The newest of them is kept whatever it takes. */
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
 * Opens STATE/weft.db and checks it; makes it, with these counters, when there is none. A database
 * that is damaged, of a newer version or somebody else's is an error, never replaced. 0 or -errno.
 */
int store_open(const char *dir, const struct store_counters *first, struct store **ret_store,
	       struct store_error *ret_error);
void store_close(struct store *store);

/* Its file was deleted, moved or replaced: every change fails with -ENOLINK. */
bool store_is_gone(const struct store *store);

/* The last write has failed, and still does: another one is tried. False: what is kept is kept. */
bool store_problem(struct store *store, struct store_error *ret_error);

void store_get_counters(const struct store *store, struct store_counters *ret_counters);
int store_set_counters(struct store *store, const struct store_counters *counters,
		       struct store_error *ret_error);

/* ---- the desired state ------------------------------------------------------------------------
 */

/* 0: none is kept. */
uint64_t store_generation(const struct store *store);
/* Of the source that the state began with; empty: none. */
const char *store_source_hash(const struct store *store);
/* The working folder of who made the last change: where its relative paths lead. */
const char *store_folder(const struct store *store);
/* The whole document, a new reference. 0, -ENOENT or -errno. */
int store_load_document(struct store *store, json_t **ret_document, struct store_error *ret_error);

struct store_change {
	const json_t *before; /* what is kept now; NULL: nothing */
	const json_t *after;
	uint64_t generation;     /* the new one */
	const char *source_hash; /* NULL: stays */
	const char *origin;
	const char *diff; /* for the audit */
};

/* Writes the rows that differ, the generation and an audit row in one transaction. */
int store_keep_document(struct store *store, const struct store_change *change,
			struct store_error *ret_error);

struct store_audit {
	uint64_t time_ms; /* since 1970 */
	uint64_t generation;
	char origin[256];
	const char *diff; /* valid until `each` returns */
};

/* The last `count` changes, newest first. 0 or -errno. */
int store_list_audit(struct store *store, unsigned count,
		     void (*each)(void *arg, const struct store_audit *audit), void *arg);

/* ---- former generations -----------------------------------------------------------------------
 */

struct store_generation {
	uint64_t generation;
	uint64_t time_ms; /* since 1970 */
	char origin[256]; /* who made it */
	const char *diff; /* what its change did; this and folder: valid until `each` returns */
	const char *folder;
};

/* The generation in force, then former ones, newest first. 0 or -errno. */
int store_list_history(struct store *store,
		       void (*each)(void *arg, const struct store_generation *generation),
		       void *arg);
/* The document as it was, a new reference, and the working folder where its relative paths lead
 * (for free()). 0, -ENOENT: it is not kept, or -errno. */
int store_load_generation(struct store *store, uint64_t generation, json_t **ret_document,
			  char **ret_folder, struct store_error *ret_error);
/* Every namespace of the document as changes since the generation have found it, those that are
 * gone by now included; one may come several times. 0 or -errno. */
int store_each_former_ns(struct store *store, uint64_t generation,
			 void (*each)(void *arg, const json_t *ns), void *arg);
/* Copies the whole database beside it, as a database of its own, whole or not at all. */
int store_copy(struct store *store, const char *path, struct store_error *ret_error);

/* ---- what the target keeps --------------------------------------------------------------------
 */

/* As struct keeper says; `arg` is the store. */
int store_keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes);
int store_recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes);

/* Many keeps as one: they are durable, or gone, at the end. 0 or -errno. */
int store_batch_begin(struct store *store);
int store_batch_end(struct store *store);

#endif
