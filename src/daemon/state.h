/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state folder of one daemon: locked while the daemon runs, with the store of what survives the
 * process. Control thread only; everything here may block.
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
	uint64_t starts; /* including this one */
	uint64_t unsafe_shutdowns;
	bool was_unclean; /* the last run did not end in order */
	struct uuid id;   /* of this target; generated at the first start */
};

struct state_error {
	char text[STORE_ERROR_BYTES]; /* names the folder and the remedy */
};

/* The default folder: $XDG_STATE_HOME/weft or ~/.local/state/weft; for root /var/lib/weft. 0,
 * -ENOENT or -ENAMETOOLONG. */
int state_default_dir(char *ret_dir, size_t dir_bytes);

/* Creates the folder (0700) with its parents, locks it and counts this start. 0 or -errno. */
int state_open(const char *dir, struct state *ret_state, struct state_error *ret_error);
/* is_clean: all data were flushed. Otherwise the next start counts an unsafe shutdown. */
int state_close(struct state *state, bool is_clean);

/* Count as state_open and state_close do, for a store that the caller opens and closes. 0 or
 * -errno; a failure of state_count_clean_end was logged. */
int state_count_start(struct state *state, struct state_error *ret_error);
int state_count_clean_end(struct state *state);

#endif
