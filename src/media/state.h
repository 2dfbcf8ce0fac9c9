/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a medium per reactor, for kinds with ops->state_bytes: connections, caches, counters
 * that only one thread touches. For media, and for media.c.
 */
#ifndef WEFT_MEDIA_STATE_H
#define WEFT_MEDIA_STATE_H

#include "media/media.h"

/*
 * On this reactor's thread, as in submit: ops->state_bytes of this medium and this reactor. The
 * first call makes them, zeroed, and calls ops->attach. NULL: no memory, or attach failed; the next
 * call tries again.
 */
void *media_state(struct media *media, struct reactor *reactor);
/* For kinds with ops->detach: this state is not used any more, and freed. */
void media_detached(void *state);

/* media_close: ends the state on every reactor that has some, then calls `detached`: at once, on
 * this thread, when there is none, otherwise later on the calling reactor. */
void media_states_end(struct media *media, void (*detached)(struct media *media));

#endif
