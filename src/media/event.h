/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events by which a medium reports changes to a listener, without being asked.
 *
 * A medium raises them on any thread; one listener per store receives them on its reactor.
 */
#ifndef WEFT_MEDIA_EVENT_H
#define WEFT_MEDIA_EVENT_H

#include "media/media.h"

enum media_event {
	MEDIA_EVENT_SIZE = 1, /* media_is_current may have changed */
	/* media_problem, media_is_cut or media_has_lost_writes may have changed */
	MEDIA_EVENT_HEALTH = 2,
};

struct media_listener {
	struct reactor *reactor; /* calls `told` */
	/* `events` is a set of enum media_event. The listener then asks the medium for its
	 * state. */
	void (*told)(struct media_listener *listener, struct media *media, unsigned events);
};

/* Sends the events of the medium's store to `listener`; at most one listener per store. Call on the
 * listener's reactor. `told` gets `media`, even if the store is inside a wrapper. 0 or -ENOMEM. */
int media_listen(struct media *media, struct media_listener *listener);
/* On the same reactor: `told` is not called after this. media_close does the same. */
void media_unlisten(struct media *media);
/* For media: raises events, on any thread, while the medium is open. */
void media_tell(struct media *media, unsigned events);

/* Called by media_close. */
void media_channel_close(struct media *media);

#endif
