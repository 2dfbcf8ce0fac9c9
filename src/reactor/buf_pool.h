/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data buffers of one reactor: page-aligned, in three size classes, mapped once and touched only
 * when used. Running out is back-pressure: the caller parks a waiter, which is called in order of
 * arrival when a buffer of its class comes back. A caller takes at most one buffer per command, so
 * that waiting is never for oneself (docs/adr/0013 has the one case where that is not enough).
 */
#ifndef WEFT_REACTOR_BUF_POOL_H
#define WEFT_REACTOR_BUF_POOL_H

#include "base/list.h"

#include <stddef.h>
#include <stdint.h>

#define BUF_POOL_CLASSES   3
#define BUF_POOL_MAX_BYTES (1024 * 1024) /* the largest buffer that can be asked for */

struct buf_pool;

struct buf_waiter {
	struct list node;
	size_t len_bytes;
	/* Called with the buffer, which the callee now owns. */
	void (*granted)(struct buf_waiter *waiter, void *buf);
};

/* Number of buffers of each class: 8 KiB, 128 KiB, 1 MiB. */
int buf_pool_create(const unsigned counts[BUF_POOL_CLASSES], struct buf_pool **ret_pool);
void buf_pool_destroy(struct buf_pool *pool);
/* NULL when there is none now; len_bytes in 1..BUF_POOL_MAX_BYTES. A larger class may serve. */
void *buf_pool_get(struct buf_pool *pool, size_t len_bytes);
/* After buf_pool_get answered NULL; if a buffer is free all the same, granted is called at once. */
void buf_pool_wait(struct buf_pool *pool, struct buf_waiter *waiter, size_t len_bytes);
void buf_pool_wait_cancel(struct buf_waiter *waiter);
void buf_pool_put(struct buf_pool *pool, void *buf);
/* Buffers now in the hands of callers, for leak checks. */
unsigned buf_pool_in_use(const struct buf_pool *pool);

#endif
