/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backings: open media with their live state. See ns_backing.h.
 *
 * Created and put on the control reactor, because closing a medium may block. Other threads only
 * count references.
 */
#include "ns/ns_backing.h"

#include "ns/ns_live.h"
#include "reactor/range_guard.h"

#include <errno.h>
#include <stdlib.h>

struct ns_backing {
	atomic_uint refs;
	struct media *media;
	struct ns_live *live; /* holds a reference */
};

/* A simulated medium may have two backings for a while, and then has a guard already. */
static int backing_guard(struct media *media, struct range_guard *store_guard)
{
	if (media->range_guard)
		CHECK(!store_guard || store_guard == media->range_guard);
	else if (store_guard)
		media->range_guard = store_guard;
	else
		return (media->range_guard = range_guard_create()) ? 0 : -ENOMEM;
	range_guard_get(media->range_guard);
	return 0;
}

static int backing_create(struct media *taken_media, struct ns_live *live,
			  struct range_guard *store_guard, struct ns_backing **ret_backing)
{
	struct ns_backing *backing = calloc(1, sizeof(*backing));

	if (!backing || backing_guard(taken_media, store_guard) < 0) {
		free(backing);
		return -ENOMEM;
	}
	atomic_init(&backing->refs, 1);
	backing->media = taken_media;
	backing->live = ns_live_get(live);
	*ret_backing = backing;
	return 0;
}

int ns_backing_create_for(struct media *taken_media, struct ns_live *live,
			  struct ns_backing **ret_backing)
{
	return backing_create(taken_media, live, NULL, ret_backing);
}

int ns_backing_create_beside(const struct ns_backing *former, struct media *taken_media,
			     struct ns_live *live, struct ns_backing **ret_backing)
{
	return backing_create(taken_media, live, former->media->range_guard, ret_backing);
}

int ns_backing_create(struct media *taken_media, unsigned reactor_count,
		      struct ns_backing **ret_backing)
{
	struct ns_live *live;
	int res = ns_live_create(reactor_count, &live);

	if (res < 0)
		return res;
	res = ns_backing_create_for(taken_media, live, ret_backing);
	ns_live_put(live);
	return res;
}

struct ns_backing *ns_backing_get(struct ns_backing *backing)
{
	atomic_fetch_add(&backing->refs, 1);
	return backing;
}

void ns_backing_put(struct ns_backing *backing)
{
	if (atomic_fetch_sub(&backing->refs, 1) != 1)
		return;
	/* No command is left that holds or waits. The media that stay open over the store have
	 * references of their own. */
	if (range_guard_put(backing->media->range_guard))
		backing->media->range_guard = NULL;
	media_close(backing->media);
	ns_live_put(backing->live);
	free(backing);
}

struct media *ns_backing_media(const struct ns_backing *backing)
{
	return backing->media;
}

struct ns_live *ns_backing_live(const struct ns_backing *backing)
{
	return backing->live;
}
