/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target starts with: the source (the file of -c, or the flags) or the state that is saved.
 *
 * The store remembers a hash of the source that its state began with. The same source again: the
 * saved state counts, with every change made since. No source at all: likewise, or the embedded
 * default at the first start. Another source would undo those changes: the start is refused with
 * the difference, unless both say the same, --merge applies what the source adds and changes over
 * the saved state, or --reset replaces the saved state, of which a copy is kept. Main thread,
 * before the reactors run.
 */
#ifndef WEFT_DAEMON_START_H
#define WEFT_DAEMON_START_H

#include "daemon/daemon.h"
#include "store/store.h"

/* The document of a file and its hash, which follows its meaning, not its spaces. 0, or -errno with
 * an error. */
int start_read_file(const char *path, json_t **ret_document, char ret_hash[STORE_HASH_BYTES],
		    struct config_errors *errors);
/* Of the flags. */
void start_hash_flags(const struct config_flags *flags, char ret_hash[STORE_HASH_BYTES]);

struct start {
	struct config *config;   /* the caller's */
	json_t *kept;            /* what the store has; counted; NULL: nothing */
	const char *source_hash; /* to be kept; NULL: stays */
	char *diff;              /* from what is kept to config, for free(); NULL: not compared */
};

/* Takes options->taken_config over. 0, or -errno after the reason was logged. */
int start_choose(struct store *store, const struct daemon_options *options,
		 struct start *ret_start);
/* Before the saved state is replaced: a copy of the store beside it, told in the log
 * (start_copy.c). 0, or -errno after the reason was logged. */
int start_copy(struct store *store, const char *state_dir);

#endif
