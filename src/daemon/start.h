/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target starts with: the source (the file of -c, or the flags) or the saved state.
 *
 * The store has a hash of the source that its state was created from. With the same source, or with
 * none, the saved state is used, with every change made since. The first start without a source
 * uses the embedded default. A changed source would undo those changes, so the start is refused
 * with the difference, unless source and state are equal, --merge applies what the source adds and
 * changes to the saved state, or --reset replaces the saved state and keeps a copy. Main thread,
 * before the reactors run.
 */
#ifndef WEFT_DAEMON_START_H
#define WEFT_DAEMON_START_H

#include "daemon/daemon.h"
#include "store/store.h"

/* Returns the document of a file and its hash, which depends on the content, not on spaces. 0, or
 * -errno with an error. */
int start_read_file(const char *path, json_t **ret_document, char ret_hash[STORE_HASH_BYTES],
		    struct config_errors *errors);
/* Returns the hash of the flags. */
void start_hash_flags(const struct config_flags *flags, char ret_hash[STORE_HASH_BYTES]);

struct start {
	struct config *config;   /* owned by the caller of start_choose */
	json_t *kept;            /* the document in the store, a counted reference; NULL: none */
	const char *source_hash; /* to be kept; NULL: the kept hash stays */
	char *diff;              /* from `kept` to `config`, for free(); NULL: not compared */
};

/* Takes ownership of options->taken_config. 0, or -errno after the reason was logged. */
int start_choose(struct store *store, const struct daemon_options *options,
		 struct start *ret_start);
/* Copies the store beside itself before the saved state is replaced, and logs the path
 * (start_copy.c). 0, or -errno after the reason was logged. */
int start_copy(struct store *store, const char *state_dir);

#endif
