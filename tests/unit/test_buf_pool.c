/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffer pool: classes, alignment, running out, the order of waiters, grants from inside grants.
 *
 * One thread, as on a reactor.
 */
#include "reactor/buf_pool.h"
#include "tap.h"

struct waiter {
	struct buf_waiter base;
	struct buf_pool *pool;
	void *buf;
	unsigned order;
	bool puts_back;
};

static unsigned grants;

static void on_granted(struct buf_waiter *base, void *buf)
{
	struct waiter *waiter = container_of(base, struct waiter, base);

	waiter->order = ++grants;
	waiter->buf = buf;
	if (waiter->puts_back)
		buf_pool_put(waiter->pool, buf);
}

static void classes_and_fallback(void)
{
	const unsigned counts[BUF_POOL_CLASSES] = {2, 1, 1};
	uint8_t *small[2], *middle, *large;
	struct buf_pool *pool;

	EXPECT_EQ(0, buf_pool_create(counts, &pool));
	small[0] = buf_pool_get(pool, 1);
	small[1] = buf_pool_get(pool, 8192);
	middle = buf_pool_get(pool, 100);
	large = buf_pool_get(pool, 8193);
	EXPECT(small[0] && small[1] && middle && large);
	EXPECT(!buf_pool_get(pool, 1) && !buf_pool_get(pool, BUF_POOL_MAX_BYTES));
	EXPECT_EQ(4, buf_pool_in_use(pool));
	EXPECT_EQ(0, ((uintptr_t)small[0] | (uintptr_t)small[1] | (uintptr_t)middle |
		      (uintptr_t)large) &
			     4095);
	memset(small[0], 1, 8192);
	memset(small[1], 2, 8192);
	memset(middle, 3, 128 * 1024);
	memset(large, 4, BUF_POOL_MAX_BYTES);
	EXPECT(small[0][8191] == 1 && small[1][0] == 2 && middle[128 * 1024 - 1] == 3);
	buf_pool_put(pool, middle);
	EXPECT(buf_pool_get(pool, 128 * 1024) == middle);
	buf_pool_put(pool, middle);
	buf_pool_put(pool, large);
	buf_pool_put(pool, small[1]);
	buf_pool_put(pool, small[0]);
	EXPECT_EQ(0, buf_pool_in_use(pool));
	buf_pool_destroy(pool);
}

static void waiters_in_order(void)
{
	const unsigned counts[BUF_POOL_CLASSES] = {1, 0, 1};
	struct waiter waiters[4] = {0};
	struct buf_pool *pool;
	void *small, *large;

	grants = 0;
	EXPECT_EQ(0, buf_pool_create(counts, &pool));
	small = buf_pool_get(pool, 10);
	large = buf_pool_get(pool, 10000);
	for (unsigned i = 0; i < 4; i++) {
		waiters[i].base.granted = on_granted;
		waiters[i].pool = pool;
		buf_pool_wait(pool, &waiters[i].base, i < 3 ? 10 : 1000000);
	}
	buf_pool_wait_cancel(&waiters[1].base);
	buf_pool_wait_cancel(&waiters[1].base);
	EXPECT_EQ(0, grants);
	buf_pool_put(pool, small);
	EXPECT_EQ(1, waiters[0].order);
	EXPECT(waiters[0].buf == small);
	/* Its own class first, then the smaller one. */
	buf_pool_put(pool, large);
	EXPECT_EQ(2, waiters[3].order);
	EXPECT_EQ(0, waiters[2].order);
	buf_pool_put(pool, large);
	EXPECT_EQ(3, waiters[2].order);
	EXPECT(waiters[2].buf == large && waiters[1].order == 0);
	buf_pool_put(pool, large);
	buf_pool_put(pool, small);
	EXPECT_EQ(0, buf_pool_in_use(pool));
	buf_pool_destroy(pool);
}

#define CHAIN 20000

static struct waiter chain[CHAIN];

static void a_long_chain_does_not_recurse(void)
{
	const unsigned counts[BUF_POOL_CLASSES] = {1, 0, 0};
	struct buf_pool *pool;
	void *buf;

	grants = 0;
	EXPECT_EQ(0, buf_pool_create(counts, &pool));
	buf = buf_pool_get(pool, 10);
	for (unsigned i = 0; i < CHAIN; i++) {
		chain[i] = (struct waiter){
			.base.granted = on_granted, .pool = pool, .puts_back = true};
		buf_pool_wait(pool, &chain[i].base, 10);
	}
	buf_pool_put(pool, buf);
	EXPECT_EQ(CHAIN, grants);
	for (unsigned i = 0; i < CHAIN; i++)
		EXPECT_EQ(i + 1, chain[i].order);
	EXPECT_EQ(0, buf_pool_in_use(pool));
	buf_pool_destroy(pool);
}

int main(void)
{
	TAP_RUN(classes_and_fallback);
	TAP_RUN(waiters_in_order);
	TAP_RUN(a_long_chain_does_not_recurse);
	return tap_end();
}
