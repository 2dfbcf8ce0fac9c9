/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a medium per reactor, for kinds with ops->state_bytes: connections, caches, counters
 * that only one thread touches. Used by media and by media.c.
 */
#ifndef WEFT_MEDIA_STATE_H
#define WEFT_MEDIA_STATE_H

#include "media/media.h"

/*
 * Returns the state of this medium for this reactor, ops->state_bytes long. Call on the reactor's
 * thread, as in submit. The first call allocates the state zeroed and calls ops->attach. NULL: out
 * of memory, or attach failed; the next call tries again.
 */
void *media_state(struct media *media, struct reactor *reactor);
/* For kinds with ops->detach: frees this state, which is not used any more. */
void media_detached(void *state);

/* For media_close: ends the state on every reactor, then calls `detached`. Without any state
 * `detached` is called at once on this thread, otherwise later on the calling reactor. */
void media_states_end(struct media *media, void (*detached)(struct media *media));

#endif
