/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data buffers of one reactor: page-aligned, in three size classes, mapped once and touched only
 * when used. Running out is back-pressure: the caller queues a waiter, which gets the next suitable
 * buffer that is returned. A caller takes at most one buffer per command, so that it never waits
 * for itself (docs/adr/0013 has the one exception).
 *
 * Every buffer is taken for a share. Each share has a minimum of each class that is kept for it
 * even while unused. Beyond its minimum a share borrows buffers that are kept for no share. So one
 * share can use nearly all buffers while the others are idle, and cannot take what they need.
 * Waiting shares are served in turn, those below their minimum first; within a share, in order of
 * arrival.
 */
#ifndef WEFT_REACTOR_BUF_POOL_H
#define WEFT_REACTOR_BUF_POOL_H

#include "base/list.h"
#include "reactor/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define BUF_POOL_CLASSES   3
#define BUF_POOL_MAX_BYTES (1024 * 1024) /* the largest buffer that a caller may request */

struct buf_pool;

/* Embedded in the caller's object; must stay valid until buf_pool_leave. */
struct buf_share {
	unsigned held[BUF_POOL_CLASSES];
	unsigned kept[BUF_POOL_CLASSES]; /* the minimum, in buffers */
	bool may_not_borrow; /* set by the caller: the share gets nothing beyond its minimum */
	struct list waiters[BUF_POOL_CLASSES];
	struct list turns[BUF_POOL_CLASSES]; /* linked in the pool while the share has waiters */
	struct list node;                    /* linked in the pool */
};

struct buf_waiter {
	struct list node;
	size_t len_bytes;
	/* Called with the buffer, which the callee then owns. */
	void (*granted)(struct buf_waiter *waiter, struct buf buf);
};

/* Creates a pool with this number of buffers of each class: 8 KiB, 128 KiB, 1 MiB. 0 or -ENOMEM. */
int buf_pool_create(const unsigned counts[BUF_POOL_CLASSES], struct buf_pool **ret_pool);
void buf_pool_destroy(struct buf_pool *pool);
void buf_pool_join(struct buf_pool *pool, struct buf_share *share);
/* The share must hold no buffer and have no waiters. */
void buf_pool_leave(struct buf_pool *pool, struct buf_share *share);
/* Sets the minimum of a share to one part in `parts` of what is kept for all shares; 0: no minimum.
 * Call buf_pool_serve after all shares are set. */
void buf_pool_keep(struct buf_pool *pool, struct buf_share *share, unsigned parts);
/* Gives waiters the buffers that they may have now. */
void buf_pool_serve(struct buf_pool *pool);
/* Takes a buffer of at least len_bytes (1..BUF_POOL_MAX_BYTES), possibly of a larger class.
 * BUF_NONE: none is available now. */
struct buf buf_pool_get(struct buf_pool *pool, struct buf_share *share, size_t len_bytes);
/* Call after buf_pool_get returned BUF_NONE. If a buffer is available after all, `granted` is
 * called at once. */
void buf_pool_wait(struct buf_pool *pool, struct buf_share *share, struct buf_waiter *waiter,
		   size_t len_bytes);
void buf_pool_wait_cancel(struct buf_waiter *waiter);
/* `share` must be the share for which the buffer was taken. */
void buf_pool_put(struct buf_pool *pool, struct buf_share *share, struct buf buf);
/*
 * All memory of the pool, indexed by the keys of its buffers and valid as long as the pool: what a
 * device has to register, once. A class without buffers has an empty region. Registering touches
 * every page.
 */
void buf_pool_get_regions(const struct buf_pool *pool, struct iovec regions[BUF_POOL_CLASSES]);
/* Number of buffers held by callers, for leak checks. */
unsigned buf_pool_in_use(const struct buf_pool *pool);

#endif
