/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target starts with: the source (the file of -c, or the flags) or the state that is kept.
 *
 * The store remembers a hash of the source that its state began with. The same source again: the
 * kept state counts, with every change made since. Another one: it replaces the kept state. No
 * source at all: the kept state, or the embedded default at the first start. Main thread, before
 * the reactors run.
 */
#ifndef WEFT_CONTROL_START_H
#define WEFT_CONTROL_START_H

#include "control/daemon.h"
#include "control/store.h"

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
};

/* Takes options->taken_config over. 0, or -errno after the reason was logged. */
int start_choose(struct store *store, const struct daemon_options *options,
		 struct start *ret_start);

#endif
