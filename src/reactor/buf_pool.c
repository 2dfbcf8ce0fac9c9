/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data buffers of one reactor in three size classes. Each class is one mapping that costs no memory
 * until its pages are touched, and one region, whose number is the key of its buffers.
 *
 * Runs on the owning reactor's thread. Free buffers are a stack of indices outside the mapping: the
 * buffer used last is the warmest, and a free buffer is never touched. A returned buffer goes to a
 * waiter of its own class, then to one of a smaller class, as shares allow.
 *
 * `missing` of a class is the sum of what its shares hold less than their minimum. A share at or
 * above its own minimum may take a free buffer only while more than `missing` are free.
 */
#include "reactor/buf_pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Sizes of the classes, as powers of two: 8 KiB, 128 KiB, BUF_POOL_MAX_BYTES. */
static const uint8_t buf_class_shift[BUF_POOL_CLASSES] = {13, 17, 20};

struct buf_class {
	uint8_t *base; /* NULL when the class has no buffers */
	size_t map_bytes;
	unsigned count;
	unsigned free_count;
	unsigned missing; /* buffers below the minimum, over all shares */
	uint32_t *free_stack;
	struct list turns; /* of shares with waiters of this class */
};

/* One part in BUF_KEPT_PART of each class is kept for shares; any share may use the rest. */
#define BUF_KEPT_PART 8

struct buf_pool {
	struct buf_class classes[BUF_POOL_CLASSES];
	struct list shares;
	atomic_uint in_use; /* written by the reactor, read by any thread */
	bool granting; /* buf_pool_serve is running: a nested put leaves the work to that call */
};

static void buf_pool_count(struct buf_pool *pool, int more)
{
	unsigned in_use = atomic_load_explicit(&pool->in_use, memory_order_relaxed);

	atomic_store_explicit(&pool->in_use, in_use + (unsigned)more, memory_order_relaxed);
}

static int buf_class_open(struct buf_class *class, size_t bytes, unsigned count)
{
	class->count = count;
	if (count == 0)
		return 0;
	class->free_stack = malloc(count * sizeof(*class->free_stack));
	if (!class->free_stack)
		return -ENOMEM;
	class->map_bytes = bytes * count;
	class->base = mmap(NULL, class->map_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (class->base == MAP_FAILED) {
		class->base = NULL;
		return -ENOMEM;
	}
	/* The lowest address is on top, so that a lightly used pool stays in few pages. */
	for (unsigned i = 0; i < count; i++)
		class->free_stack[i] = count - 1 - i;
	class->free_count = count;
	return 0;
}

int buf_pool_create(const unsigned counts[BUF_POOL_CLASSES], struct buf_pool **ret_pool)
{
	struct buf_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++)
		list_init(&pool->classes[i].turns);
	list_init(&pool->shares);
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++) {
		int res = buf_class_open(&pool->classes[i], (size_t)1 << buf_class_shift[i],
					 counts[i]);

		if (res) {
			buf_pool_destroy(pool);
			return res;
		}
	}
	*ret_pool = pool;
	return 0;
}

void buf_pool_destroy(struct buf_pool *pool)
{
	if (!pool)
		return;
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++) {
		struct buf_class *class = &pool->classes[i];

		if (class->base)
			munmap(class->base, class->map_bytes);
		free(class->free_stack);
	}
	free(pool);
}

static unsigned buf_class_for(size_t len_bytes)
{
	unsigned i = 0;

	CHECK(len_bytes > 0 && len_bytes <= BUF_POOL_MAX_BYTES);
	while (len_bytes > (size_t)1 << buf_class_shift[i])
		i++;
	return i;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static unsigned share_missing(const struct buf_share *share, unsigned i)
{
	return share->kept[i] > share->held[i] ? share->kept[i] - share->held[i] : 0;
}

void buf_pool_join(struct buf_pool *pool, struct buf_share *share)
{
	*share = (struct buf_share){0};
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++) {
		list_init(&share->waiters[i]);
		list_init(&share->turns[i]);
	}
	list_push_back(&pool->shares, &share->node);
}

void buf_pool_leave(struct buf_pool *pool, struct buf_share *share)
{
	buf_pool_keep(pool, share, 0);
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++) {
		CHECK(share->held[i] == 0 && list_empty(&share->waiters[i]));
		list_remove(&share->turns[i]);
	}
	list_remove(&share->node);
}

void buf_pool_keep(struct buf_pool *pool, struct buf_share *share, unsigned parts)
{
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++) {
		struct buf_class *class = &pool->classes[i];

		class->missing -= share_missing(share, i);
		share->kept[i] = parts > 0 ? class->count / BUF_KEPT_PART / parts : 0;
		class->missing += share_missing(share, i);
	}
}

/* A share that holds nothing of a class may always take one buffer, so that no share waits
 * forever. */
static inline bool share_may_take(const struct buf_class *class, const struct buf_share *share,
				  unsigned i)
{
	if (class->free_count > class->missing && !share->may_not_borrow)
		return true;
	return class->free_count > 0 && (share->held[i] < share->kept[i] || share->held[i] == 0);
}

static struct buf buf_class_pop(struct buf_pool *pool, struct buf_share *share, unsigned i)
{
	struct buf_class *class = &pool->classes[i];
	uint32_t index = class->free_stack[--class->free_count];

	if (share->held[i]++ < share->kept[i])
		class->missing--;
	buf_pool_count(pool, 1);
	return (struct buf){
		.addr = class->base + ((size_t)index << buf_class_shift[i]),
		.kind = BUF_POOL,
		.key = i,
	};
}

struct buf buf_pool_get(struct buf_pool *pool, struct buf_share *share, size_t len_bytes)
{
	for (unsigned i = buf_class_for(len_bytes); i < BUF_POOL_CLASSES; i++) {
		if (share_may_take(&pool->classes[i], share, i))
			return buf_class_pop(pool, share, i);
	}
	return (struct buf){0};
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* The share with waiters of class w that gets the next buffer of class i, or NULL. */
static struct buf_share *pool_next_share(struct buf_pool *pool, unsigned i, unsigned w)
{
	struct buf_share *next = NULL;

	list_for_each_safe(node, &pool->classes[w].turns) {
		struct buf_share *share = list_entry(node, struct buf_share, turns[w]);

		/* Remove a share whose waiters were all cancelled. */
		if (list_empty(&share->waiters[w]))
			list_remove(&share->turns[w]);
		else if (share->held[i] < share->kept[i] || share->held[i] == 0)
			return share;
		else if (!next && share_may_take(&pool->classes[i], share, i))
			next = share;
	}
	return next;
}

static void share_grant(struct buf_pool *pool, struct buf_share *share, unsigned i, unsigned w)
{
	struct buf_waiter *waiter =
		list_entry(list_pop_front(&share->waiters[w]), struct buf_waiter, node);

	/* To the end of the queue. */
	list_remove(&share->turns[w]);
	if (!list_empty(&share->waiters[w]))
		list_push_back(&pool->classes[w].turns, &share->turns[w]);
	waiter->granted(waiter, buf_class_pop(pool, share, i));
}

/* Serves one waiter. False: no waiter can be served. */
static bool pool_serve_one(struct buf_pool *pool)
{
	for (unsigned i = BUF_POOL_CLASSES; i-- > 0;) {
		for (unsigned w = i + 1; w-- > 0 && pool->classes[i].free_count > 0;) {
			struct buf_share *share = pool_next_share(pool, i, w);

			if (!share)
				continue;
			share_grant(pool, share, i, w);
			return true;
		}
	}
	return false;
}

static inline bool pool_has_turns(const struct buf_pool *pool)
{
	return !list_empty(&pool->classes[0].turns) || !list_empty(&pool->classes[1].turns) ||
	       !list_empty(&pool->classes[2].turns);
}

void buf_pool_serve(struct buf_pool *pool)
{
	if (pool->granting || !pool_has_turns(pool))
		return;
	pool->granting = true;
	while (pool_serve_one(pool)) {
	}
	pool->granting = false;
}

void buf_pool_wait(struct buf_pool *pool, struct buf_share *share, struct buf_waiter *waiter,
		   size_t len_bytes)
{
	unsigned i = buf_class_for(len_bytes);

	/* At least one class must be able to serve, otherwise the wait would never end. */
	CHECK(pool->classes[i].count + (i < 1 ? pool->classes[1].count : 0) +
		      (i < 2 ? pool->classes[2].count : 0) >
	      0);
	waiter->len_bytes = len_bytes;
	list_push_back(&share->waiters[i], &waiter->node);
	if (!list_linked(&share->turns[i]))
		list_push_back(&pool->classes[i].turns, &share->turns[i]);
	buf_pool_serve(pool);
}

void buf_pool_wait_cancel(struct buf_waiter *waiter)
{
	/* A zeroed waiter has never waited. */
	if (waiter->node.next)
		list_remove(&waiter->node);
}

void buf_pool_put(struct buf_pool *pool, struct buf_share *share, struct buf buf)
{
	unsigned i = buf.key;
	struct buf_class *class = &pool->classes[i];
	size_t offset = (uintptr_t)buf.addr - (uintptr_t) class->base;

	CHECK(buf.kind == BUF_POOL && i < BUF_POOL_CLASSES && offset < class->map_bytes);
	CHECK((offset & (((size_t)1 << buf_class_shift[i]) - 1)) == 0 &&
	      class->free_count < class->count && share->held[i] > 0);
	class->free_stack[class->free_count++] = (uint32_t)(offset >> buf_class_shift[i]);
	if (--share->held[i] < share->kept[i])
		class->missing++;
	buf_pool_count(pool, -1);
	if (pool_has_turns(pool))
		buf_pool_serve(pool);
}

void buf_pool_get_regions(const struct buf_pool *pool, struct iovec regions[BUF_POOL_CLASSES])
{
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++)
		regions[i] = (struct iovec){.iov_base = pool->classes[i].base,
					    .iov_len = pool->classes[i].map_bytes};
}

unsigned buf_pool_in_use(const struct buf_pool *pool)
{
	return atomic_load_explicit(&pool->in_use, memory_order_relaxed);
}
