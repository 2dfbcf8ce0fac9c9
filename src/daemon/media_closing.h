/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits at the end of a daemon for the media of its registry: a medium with state per reactor
 * closes after media_close has returned, and a cancelled opening ends when its driver reports it.
 * Outlives the registry until the last medium has closed. Control thread.
 */
#ifndef WEFT_DAEMON_MEDIA_CLOSING_H
#define WEFT_DAEMON_MEDIA_CLOSING_H

#include "media/media.h"

struct media_closing;

/* NULL: no memory. */
struct media_closing *media_closing_create(void);
/* The count that media and openings of the registry are in. */
struct media_count *media_closing_count(struct media_closing *closing);
/* Without a wait: frees the object, when the last medium has closed. */
void media_closing_release(struct media_closing *closing);
/* As media_closing_release. Calls `done` on the control reactor, in a turn of its own, when nothing
 * is closing or opening, or after a limit. */
void media_closing_wait(struct media_closing *closing, struct reactor *control,
			void (*done)(void *arg), void *arg);

#endif
