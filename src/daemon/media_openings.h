/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The media that one transaction of the media registry opens. A medium that opens late is begun,
 * and the transaction waits for all of them together, while the control reactor goes on. Then the
 * transaction asks for each medium a second time and gets the result.
 *
 * No opening outlives the wait for it: after MEDIA_OPEN_LIMIT_S the transaction gets -ETIMEDOUT. An
 * opening that ends after that, or after its transaction has ended, is undone and closed. Its
 * result never reaches another transaction. Control thread; waiting needs the control reactor.
 */
#ifndef WEFT_DAEMON_MEDIA_OPENINGS_H
#define WEFT_DAEMON_MEDIA_OPENINGS_H

#include "base/list.h"
#include "media/media.h"

#define MEDIA_OPEN_LIMIT_S 10

struct media_wish;

struct media_openings {
	struct list all;           /* struct medium_opening, of this transaction */
	struct media_count *count; /* counts openings that have not ended, and their media */
	bool has_waited;           /* the transaction is about to ask again */
	/* The wait; done NULL: none. */
	void (*done)(void *arg, int res);
	void *arg;
	int res;
	struct reactor *control;
	struct reactor_timer limit;
	struct reactor_msg msg;
	bool is_posted;
};

void media_openings_init(struct media_openings *openings, struct media_count *count);
/*
 * As media_open_on. -EINPROGRESS: the medium opens late. After the wait, call again with the same
 * wish and terms for the result.
 */
int media_openings_open(struct media_openings *openings, const struct media_wish *wish,
			const struct media_terms *terms, struct media **ret_media,
			struct media_error *ret_error);
/* After media_openings_open has failed: whether the medium of this wish opened late. */
bool media_openings_was_late(const struct media_openings *openings, const struct media_wish *wish);
/* Calls `done` on the control reactor, in a turn of its own: with 0 when no opening is in progress
 * or after the limit, with -ESHUTDOWN after media_openings_stop. */
void media_openings_wait(struct media_openings *openings, struct reactor *control,
			 void (*done)(void *arg, int res), void *arg);
/* Ends a wait early. Without a wait: nothing. */
void media_openings_stop(struct media_openings *openings);
/* The transaction has ended: cancels the openings in progress, and closes media that nobody took.
 */
void media_openings_end(struct media_openings *openings);

#endif
