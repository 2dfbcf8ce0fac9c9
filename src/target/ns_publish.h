/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of a namespace's live state (ns/ns_live.h) on its way to every reactor. Control reactor
 * only.
 */
#ifndef WEFT_TARGET_NS_PUBLISH_H
#define WEFT_TARGET_NS_PUBLISH_H

#include "ns/ns_live.h"

struct target;

/*
 * Builds a view of the truth as it is now, gives it to every reactor and calls `done` on the
 * control reactor when all use it; never from inside this call. Changes that come meanwhile are
 * published in order. 0, or -ENOMEM: nothing was published and done is not called.
 */
int ns_live_publish(struct target *target, struct ns_live *live, void (*done)(void *arg),
		    void *arg);

/*
 * The same in two steps, for changes that are kept in between: what can fail comes first. A
 * prepared one is started or dropped before control lets go of the truth (in the same callback).
 */
struct publication;
int ns_live_publish_prepare(struct target *target, struct ns_live *live,
			    struct publication **ret_publication);
void ns_live_publish_start(struct publication *taken_publication, void (*done)(void *arg),
			   void *arg);
void ns_live_publish_drop(struct publication *taken_publication);

#endif
