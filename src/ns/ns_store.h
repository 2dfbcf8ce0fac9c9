/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a namespace: an open medium with the namespace's live state. Counted by the
 * namespaces of snapshots; the medium is closed with the last of them.
 */
#ifndef WEFT_NS_NS_STORE_H
#define WEFT_NS_NS_STORE_H

#include "media/media.h"

struct ns_store;
/* What outlives the medium too: counters, reservations, blocks marked bad (ns/ns_live.h). */
struct ns_live;

/* With a live of its own. */
int ns_store_create(struct media *taken_media, unsigned reactor_count, struct ns_store **ret_store);
/* For a namespace that is known already; counts `live` itself. */
int ns_store_create_for(struct media *taken_media, struct ns_live *live,
			struct ns_store **ret_store);
struct ns_store *ns_store_get(struct ns_store *store);
/* Control reactor only: closing the medium may block. */
void ns_store_put(struct ns_store *store);
struct media *ns_store_media(const struct ns_store *store);
struct ns_live *ns_store_live(const struct ns_store *store);

#endif
