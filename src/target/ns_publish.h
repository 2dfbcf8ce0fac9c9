/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes a change of a namespace's live state (ns/ns_live.h) to every reactor. Control reactor
 * only.
 */
#ifndef WEFT_TARGET_NS_PUBLISH_H
#define WEFT_TARGET_NS_PUBLISH_H

#include "ns/ns_live.h"

struct target;

/*
 * A publication has two steps, because the change is kept between them (ns_live_keep). The step
 * that can fail comes first. The caller starts or drops a prepared publication in the same
 * callback, before the live state can change again.
 */
struct publication;
/* Builds a view of the live state as it is now. 0 or -ENOMEM. */
int ns_live_publish_prepare(struct target *target, struct ns_live *live,
			    struct publication **ret_publication);
/* Posts the view to every reactor. Calls `done` on the control reactor when all reactors use the
 * view, never from inside this call. Publications of later changes follow in order. */
void ns_live_publish_start(struct publication *taken_publication, void (*done)(void *arg),
			   void *arg);
void ns_live_publish_drop(struct publication *taken_publication);

#endif
