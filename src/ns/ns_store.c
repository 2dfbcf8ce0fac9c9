/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores: open media with their live state. See ns_store.h.
 *
 * Created and put on the control reactor, because closing a medium may block. Other threads only
 * count references.
 */
#include "ns/ns_store.h"

#include "ns/ns_live.h"

#include <errno.h>
#include <stdlib.h>

struct ns_store {
	atomic_uint refs;
	struct media *media;
	struct ns_live *live; /* holds a reference */
};

int ns_store_create_for(struct media *taken_media, struct ns_live *live,
			struct ns_store **ret_store)
{
	struct ns_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	atomic_init(&store->refs, 1);
	store->media = taken_media;
	store->live = ns_live_get(live);
	*ret_store = store;
	return 0;
}

int ns_store_create(struct media *taken_media, unsigned reactor_count, struct ns_store **ret_store)
{
	struct ns_live *live;
	int res = ns_live_create(reactor_count, &live);

	if (res < 0)
		return res;
	res = ns_store_create_for(taken_media, live, ret_store);
	ns_live_put(live);
	return res;
}

struct ns_store *ns_store_get(struct ns_store *store)
{
	atomic_fetch_add(&store->refs, 1);
	return store;
}

void ns_store_put(struct ns_store *store)
{
	if (atomic_fetch_sub(&store->refs, 1) != 1)
		return;
	media_close(store->media);
	ns_live_put(store->live);
	free(store);
}

struct media *ns_store_media(const struct ns_store *store)
{
	return store->media;
}

struct ns_live *ns_store_live(const struct ns_store *store)
{
	return store->live;
}
