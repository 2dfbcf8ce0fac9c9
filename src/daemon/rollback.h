/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a former generation of the desired state the next one: the edit of a change (struct
 * change), which is checked, applied, kept and audited as any other. Control reactor only; reads
 * the store and looks at files, so it may block.
 */
#ifndef WEFT_DAEMON_ROLLBACK_H
#define WEFT_DAEMON_ROLLBACK_H

#include "config/config.h"
#include "store/store.h"

/*
 * Replaces `document`, the desired state in force, with that of `generation`. Identities come back
 * as they were, except those of memory that was given up since: its blocks are lost.
 *
 * 0, or -errno with an error: -ENOENT the generation is not kept; -ENXIO a namespace cannot come
 * back with the data that it had.
 */
int rollback_edit(struct store *store, uint64_t generation, json_t *document,
		  struct config_errors *errors);

#endif
