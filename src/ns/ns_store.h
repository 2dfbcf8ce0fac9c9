/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a namespace: an open medium and the namespace's live state. The namespaces of
 * snapshots hold references; the last put closes the medium.
 */
#ifndef WEFT_NS_NS_STORE_H
#define WEFT_NS_NS_STORE_H

#include "media/media.h"

struct ns_store;
/* State that outlives the medium: counters, reservation, bad blocks (ns/ns_live.h). */
struct ns_live;

/* Creates a store with a new ns_live and takes over the medium. 0 or -ENOMEM. */
int ns_store_create(struct media *taken_media, unsigned reactor_count, struct ns_store **ret_store);
/* Creates a store for a known namespace and takes a reference to `live`. 0 or -ENOMEM. */
int ns_store_create_for(struct media *taken_media, struct ns_live *live,
			struct ns_store **ret_store);
struct ns_store *ns_store_get(struct ns_store *store);
/* Control reactor only, because closing the medium may block. */
void ns_store_put(struct ns_store *store);
struct media *ns_store_media(const struct ns_store *store);
struct ns_live *ns_store_live(const struct ns_store *store);

#endif
