/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data buffers of one reactor: page-aligned, in three size classes, mapped once and touched only
 * when used. Running out is back-pressure: the caller parks a waiter, which is called when a buffer
 * for it comes back. A caller takes at most one buffer per command, so that waiting is never for
 * oneself (docs/adr/0013 has the one case where that is not enough).
 *
 * Buffers are taken in the name of a share. A share has a minimum of each class that is kept for it
 * while it does not use it; beyond that it borrows what is kept for nobody. So one share uses
 * nearly all when the others are idle, and cannot take what they need when they are not. Shares
 * that wait are served in turn, those below their minimum first; within a share, in order of
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
#define BUF_POOL_MAX_BYTES (1024 * 1024) /* the largest buffer that can be asked for */

struct buf_pool;

/* Embedded in the caller's object; lives until buf_pool_leave. */
struct buf_share {
	unsigned held[BUF_POOL_CLASSES];
	unsigned kept[BUF_POOL_CLASSES]; /* the minimum */
	bool may_not_borrow;             /* the caller's: beyond its minimum it gets nothing */
	struct list waiters[BUF_POOL_CLASSES];
	struct list turns[BUF_POOL_CLASSES]; /* in the pool, while somebody waits */
	struct list node;                    /* in the pool */
};

struct buf_waiter {
	struct list node;
	size_t len_bytes;
	/* Called with the buffer, which the callee now owns. */
	void (*granted)(struct buf_waiter *waiter, struct buf buf);
};

/* Number of buffers of each class: 8 KiB, 128 KiB, 1 MiB. */
int buf_pool_create(const unsigned counts[BUF_POOL_CLASSES], struct buf_pool **ret_pool);
void buf_pool_destroy(struct buf_pool *pool);
void buf_pool_join(struct buf_pool *pool, struct buf_share *share);
/* It holds nothing, and nobody waits in its name. */
void buf_pool_leave(struct buf_pool *pool, struct buf_share *share);
/* The minimum of a share: one part in `parts` of what is kept for all of them; 0: nothing. To be
 * followed by buf_pool_serve when all are set. */
void buf_pool_keep(struct buf_pool *pool, struct buf_share *share, unsigned parts);
/* Gives waiters what they may have by now. */
void buf_pool_serve(struct buf_pool *pool);
/* BUF_NONE when there is none now; len_bytes in 1..BUF_POOL_MAX_BYTES. A larger class may serve. */
struct buf buf_pool_get(struct buf_pool *pool, struct buf_share *share, size_t len_bytes);
/* After buf_pool_get answered BUF_NONE; if a buffer is free all the same, granted is called at
 * once. */
void buf_pool_wait(struct buf_pool *pool, struct buf_share *share, struct buf_waiter *waiter,
		   size_t len_bytes);
void buf_pool_wait_cancel(struct buf_waiter *waiter);
/* The share in whose name it was taken. */
void buf_pool_put(struct buf_pool *pool, struct buf_share *share, struct buf buf);
/*
 * All memory of the pool, by the keys of its buffers, for as long as the pool lives: what a device
 * has to register, once. A class without buffers has a region of no bytes. Registering touches
 * every page.
 */
void buf_pool_get_regions(const struct buf_pool *pool, struct iovec regions[BUF_POOL_CLASSES]);
/* Buffers now in the hands of callers, for leak checks. */
unsigned buf_pool_in_use(const struct buf_pool *pool);

#endif
