/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of struct ns_live and the publication of views. See ns_live.h for the idea.
 *
 * Control reactor, but for the swap of a view, which every reactor does for itself between two
 * turns. A view that was replaced is freed when the last reactor has let go of it.
 */
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert(sizeof(struct ns_local) == CACHE_LINE_BYTES, "counters fill a cache line");

struct ns_live {
	atomic_uint refs;
	unsigned local_count;
	struct uuid uuid;
	struct ns_local *locals; /* begins a cache line */
};

int ns_live_create(unsigned reactor_count, struct ns_live **ret_live)
{
	struct ns_live *live = calloc(1, sizeof(*live));

	if (!live)
		return -ENOMEM;
	live->locals = cache_line_alloc(reactor_count * sizeof(struct ns_local));
	if (!live->locals) {
		free(live);
		return -ENOMEM;
	}
	atomic_init(&live->refs, 1);
	live->local_count = reactor_count;
	*ret_live = live;
	return 0;
}

struct ns_live *ns_live_get(struct ns_live *live)
{
	atomic_fetch_add(&live->refs, 1);
	return live;
}

void ns_live_put(struct ns_live *live)
{
	if (atomic_fetch_sub(&live->refs, 1) != 1)
		return;
	free(live->locals);
	free(live);
}

struct ns_local *ns_live_locals(struct ns_live *live)
{
	return live->locals;
}

unsigned ns_live_local_count(const struct ns_live *live)
{
	return live->local_count;
}
