/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backing of a namespace: an open medium and the namespace's live state. The namespaces of
 * snapshots hold references; the last put closes the medium.
 */
#ifndef WEFT_NS_NS_BACKING_H
#define WEFT_NS_NS_BACKING_H

#include "media/media.h"

struct ns_backing;
/* State that outlives the medium: counters, reservation, bad blocks (ns/ns_live.h). */
struct ns_live;

/* Creates a backing with a new ns_live and takes over the medium. 0 or -ENOMEM. */
int ns_backing_create(struct media *taken_media, unsigned reactor_count,
		      struct ns_backing **ret_backing);
/* Creates a backing for a known namespace and takes a reference to `live`. 0 or -ENOMEM. */
int ns_backing_create_for(struct media *taken_media, struct ns_live *live,
			  struct ns_backing **ret_backing);
/* As ns_backing_create_for, for a medium over the store of the former backing's medium: commands on
 * both media exclude each other (reactor/range_guard.h). */
int ns_backing_create_beside(const struct ns_backing *former, struct media *taken_media,
			     struct ns_live *live, struct ns_backing **ret_backing);
struct ns_backing *ns_backing_get(struct ns_backing *backing);
/* Control reactor only, because closing the medium may block. */
void ns_backing_put(struct ns_backing *backing);
struct media *ns_backing_media(const struct ns_backing *backing);
struct ns_live *ns_backing_live(const struct ns_backing *backing);

#endif
