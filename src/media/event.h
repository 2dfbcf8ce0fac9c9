/* SPDX-License-Identifier: Apache-2.0 */
/* What a medium tells without being asked. */
#ifndef WEFT_MEDIA_EVENT_H
#define WEFT_MEDIA_EVENT_H

#include "media/media.h"

enum media_event {
	MEDIA_EVENT_SIZE = 1,   /* media_is_current may answer otherwise than before */
	MEDIA_EVENT_HEALTH = 2, /* likewise media_problem, media_is_cut, media_has_lost_writes */
};

struct media_listener {
	struct reactor *reactor; /* where told is called */
	/* `events` is made of enum media_event. The listener asks the medium what it is now. */
	void (*told)(struct media_listener *listener, struct media *media, unsigned events);
};

/* On the listener's reactor: the events of the medium's store from now on, for one listener at a
 * time; those of a wrapper come from the medium inside. 0 or -ENOMEM. */
int media_listen(struct media *media, struct media_listener *listener);
/* On the same reactor: told is not called any more. media_close does it too. */
void media_unlisten(struct media *media);
/* For media, on any thread, while the medium is open. */
void media_tell(struct media *media, unsigned events);

/* media_close. */
void media_channel_close(struct media *media);

#endif
