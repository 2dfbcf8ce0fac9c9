/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state folder of one daemon: locked while it runs, with the store of what survives it. Control
 * thread only; everything here may block.
 */
#ifndef WEFT_DAEMON_STATE_H
#define WEFT_DAEMON_STATE_H

#include "base/uuid.h"
#include "store/store.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct state {
	char dir[PATH_MAX];
	int dir_fd;
	int lock_fd;
	struct store *store;
	uint64_t starts; /* with this one */
	uint64_t unsafe_shutdowns;
	bool was_unclean; /* the last run did not end by itself */
	struct uuid id;   /* of this target; made at the first start */
};

struct state_error {
	char text[STORE_ERROR_BYTES]; /* names the folder and the remedy */
};

/* $XDG_STATE_HOME/weft or ~/.local/state/weft; for root /var/lib/weft. 0 or -ENOENT. */
int state_default_dir(char *ret_dir, size_t dir_bytes);

/* Creates the folder (0700) with its parents, locks it, counts this start. 0 or -errno. */
int state_open(const char *dir, struct state *ret_state, struct state_error *ret_error);
/* is_clean: all data was flushed. Otherwise the next start counts an unsafe shutdown. */
int state_close(struct state *state, bool is_clean);

/* The parts of both that count, for a store that the caller opens and closes. 0, or -errno; what
 * failed at the end was logged. */
int state_count_start(struct state *state, struct state_error *ret_error);
int state_count_clean_end(struct state *state);

#endif
