/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data buffers of one reactor in three size classes, each one mapping that costs no memory until
 * its pages are touched.
 *
 * Runs on the owning reactor's thread. Free buffers are a stack of indices beside the mapping (the
 * buffer used last is the warmest, and a free one is never touched). A buffer that comes back goes
 * to the first waiter of its own class, then to one of a smaller class; so a free buffer of a
 * class implies that nobody waits for that class or a smaller one.
 */
#include "reactor/buf_pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static const size_t buf_class_bytes[BUF_POOL_CLASSES] = {8 * 1024, 128 * 1024, BUF_POOL_MAX_BYTES};

struct buf_class {
	uint8_t *base; /* NULL when the class has no buffers */
	size_t map_bytes;
	unsigned count;
	unsigned free_count;
	uint32_t *free_stack;
	struct list waiters;
};

struct buf_pool {
	struct buf_class classes[BUF_POOL_CLASSES];
	atomic_uint in_use; /* one writer; read by anyone */
	bool granting;      /* a put inside a granted callback leaves the work to the outer put */
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
	/* The lowest address on top: a lightly used pool stays in few pages. */
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
		list_init(&pool->classes[i].waiters);
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++) {
		int res = buf_class_open(&pool->classes[i], buf_class_bytes[i], counts[i]);

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
	while (len_bytes > buf_class_bytes[i])
		i++;
	return i;
}

static void *buf_class_pop(struct buf_pool *pool, unsigned i)
{
	struct buf_class *class = &pool->classes[i];
	uint32_t index = class->free_stack[--class->free_count];

	buf_pool_count(pool, 1);
	return class->base + (size_t)index * buf_class_bytes[i];
}

void *buf_pool_get(struct buf_pool *pool, size_t len_bytes)
{
	for (unsigned i = buf_class_for(len_bytes); i < BUF_POOL_CLASSES; i++) {
		if (pool->classes[i].free_count > 0)
			return buf_class_pop(pool, i);
	}
	return NULL;
}

/* Hands free buffers to waiters until one of the two has run out. */
static void buf_pool_serve(struct buf_pool *pool)
{
	bool is_served = true;

	if (pool->granting)
		return;
	pool->granting = true;
	while (is_served) {
		is_served = false;
		for (unsigned i = BUF_POOL_CLASSES; i-- > 0 && !is_served;) {
			for (unsigned w = i + 1; w-- > 0 && !is_served;) {
				struct buf_waiter *waiter;

				if (pool->classes[i].free_count == 0 ||
				    list_empty(&pool->classes[w].waiters))
					continue;
				waiter = list_entry(list_pop_front(&pool->classes[w].waiters),
						    struct buf_waiter, node);
				waiter->granted(waiter, buf_class_pop(pool, i));
				is_served = true;
			}
		}
	}
	pool->granting = false;
}

void buf_pool_wait(struct buf_pool *pool, struct buf_waiter *waiter, size_t len_bytes)
{
	unsigned i = buf_class_for(len_bytes);

	/* Some class must be able to serve, or the wait would have no end. */
	CHECK(pool->classes[i].count + (i < 1 ? pool->classes[1].count : 0) +
		      (i < 2 ? pool->classes[2].count : 0) >
	      0);
	waiter->len_bytes = len_bytes;
	list_push_back(&pool->classes[i].waiters, &waiter->node);
	buf_pool_serve(pool);
}

void buf_pool_wait_cancel(struct buf_waiter *waiter)
{
	/* A zeroed waiter has never waited. */
	if (waiter->node.next)
		list_remove(&waiter->node);
}

void buf_pool_put(struct buf_pool *pool, void *buf)
{
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++) {
		struct buf_class *class = &pool->classes[i];
		size_t offset = (uintptr_t)buf - (uintptr_t) class->base;

		if (!class->base || (uintptr_t)buf < (uintptr_t) class->base ||
		    offset >= class->map_bytes)
			continue;
		CHECK(offset % buf_class_bytes[i] == 0 && class->free_count < class->count);
		class->free_stack[class->free_count++] = (uint32_t)(offset / buf_class_bytes[i]);
		buf_pool_count(pool, -1);
		buf_pool_serve(pool);
		return;
	}
	CHECK(!"buffer of another pool");
}

unsigned buf_pool_in_use(const struct buf_pool *pool)
{
	return atomic_load_explicit(&pool->in_use, memory_order_relaxed);
}
