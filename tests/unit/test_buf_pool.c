/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffer pool: classes, alignment, exhaustion, the order of waiters, grants from inside grants,
 * shares.
 * One thread, as on a reactor.
 */
#include "reactor/buf_pool.h"
#include "tap.h"

static struct buf_share one; /* for tests without several shares */

struct waiter {
	struct buf_waiter base;
	struct buf_pool *pool;
	struct buf_share *share;
	struct buf buf;
	unsigned order;
	bool puts_back;
};

static unsigned grants;

static void on_granted(struct buf_waiter *base, struct buf buf)
{
	struct waiter *waiter = container_of(base, struct waiter, base);

	waiter->order = ++grants;
	waiter->buf = buf;
	if (waiter->puts_back)
		buf_pool_put(waiter->pool, waiter->share, buf);
}

static void classes_and_fallback(void)
{
	const unsigned counts[BUF_POOL_CLASSES] = {2, 1, 1};
	struct buf small[2], middle, large;
	struct buf_pool *pool;

	EXPECT_EQ(0, buf_pool_create(counts, &pool));
	buf_pool_join(pool, &one);
	small[0] = buf_pool_get(pool, &one, 1);
	small[1] = buf_pool_get(pool, &one, 8192);
	middle = buf_pool_get(pool, &one, 100);
	large = buf_pool_get(pool, &one, 8193);
	EXPECT(small[0].addr && small[1].addr && middle.addr && large.addr);
	EXPECT_EQ(BUF_NONE, buf_pool_get(pool, &one, 1).kind);
	EXPECT_EQ(BUF_NONE, buf_pool_get(pool, &one, BUF_POOL_MAX_BYTES).kind);
	EXPECT_EQ(4, buf_pool_in_use(pool));
	EXPECT_EQ(0, ((uintptr_t)small[0].addr | (uintptr_t)small[1].addr | (uintptr_t)middle.addr |
		      (uintptr_t)large.addr) &
			     4095);
	memset(small[0].addr, 1, 8192);
	memset(small[1].addr, 2, 8192);
	memset(middle.addr, 3, 128 * 1024);
	memset(large.addr, 4, BUF_POOL_MAX_BYTES);
	EXPECT(small[0].addr[8191] == 1 && small[1].addr[0] == 2 &&
	       middle.addr[128 * 1024 - 1] == 3);
	buf_pool_put(pool, &one, middle);
	EXPECT(buf_pool_get(pool, &one, 128 * 1024).addr == middle.addr);
	buf_pool_put(pool, &one, middle);
	buf_pool_put(pool, &one, large);
	buf_pool_put(pool, &one, small[1]);
	buf_pool_put(pool, &one, small[0]);
	EXPECT_EQ(0, buf_pool_in_use(pool));
	buf_pool_destroy(pool);
}

/* For device registration: every buffer must be within the region that its key names. */
static void buffers_name_their_regions(void)
{
	const unsigned counts[BUF_POOL_CLASSES] = {3, 0, 2};
	static const size_t sizes[BUF_POOL_CLASSES] = {8192, 128 * 1024, BUF_POOL_MAX_BYTES};
	struct iovec regions[BUF_POOL_CLASSES];
	struct buf_pool *pool;
	struct buf bufs[5];

	EXPECT_EQ(0, buf_pool_create(counts, &pool));
	buf_pool_join(pool, &one);
	buf_pool_get_regions(pool, regions);
	for (unsigned i = 0; i < BUF_POOL_CLASSES; i++)
		EXPECT_EQ(sizes[i] * counts[i], regions[i].iov_len);
	for (unsigned i = 0; i < 5; i++) {
		size_t at;

		bufs[i] = buf_pool_get(pool, &one, 10);
		EXPECT_EQ(BUF_POOL, bufs[i].kind);
		EXPECT_EQ(i < 3 ? 0 : 2, bufs[i].key);
		at = (size_t)(bufs[i].addr - (uint8_t *)regions[bufs[i].key].iov_base);
		EXPECT(at + sizes[bufs[i].key] <= regions[bufs[i].key].iov_len);
	}
	for (unsigned i = 0; i < 5; i++)
		buf_pool_put(pool, &one, bufs[i]);
	buf_pool_destroy(pool);
}

static void waiters_in_order(void)
{
	const unsigned counts[BUF_POOL_CLASSES] = {1, 0, 1};
	struct waiter waiters[4] = {0};
	struct buf_pool *pool;
	struct buf small, large;

	grants = 0;
	EXPECT_EQ(0, buf_pool_create(counts, &pool));
	buf_pool_join(pool, &one);
	small = buf_pool_get(pool, &one, 10);
	large = buf_pool_get(pool, &one, 10000);
	for (unsigned i = 0; i < 4; i++) {
		waiters[i].base.granted = on_granted;
		waiters[i].pool = pool;
		waiters[i].share = &one;
		buf_pool_wait(pool, &one, &waiters[i].base, i < 3 ? 10 : 1000000);
	}
	buf_pool_wait_cancel(&waiters[1].base);
	buf_pool_wait_cancel(&waiters[1].base);
	EXPECT_EQ(0, grants);
	buf_pool_put(pool, &one, small);
	EXPECT_EQ(1, waiters[0].order);
	EXPECT(waiters[0].buf.addr == small.addr);
	/* Waiters of the buffer's own class first, then of the smaller one. */
	buf_pool_put(pool, &one, large);
	EXPECT_EQ(2, waiters[3].order);
	EXPECT_EQ(0, waiters[2].order);
	buf_pool_put(pool, &one, large);
	EXPECT_EQ(3, waiters[2].order);
	EXPECT(waiters[2].buf.addr == large.addr && waiters[1].order == 0);
	buf_pool_put(pool, &one, large);
	buf_pool_put(pool, &one, small);
	EXPECT_EQ(0, buf_pool_in_use(pool));
	buf_pool_destroy(pool);
}

#define CHAIN 20000

static struct waiter chain[CHAIN];

static void a_long_chain_does_not_recurse(void)
{
	const unsigned counts[BUF_POOL_CLASSES] = {1, 0, 0};
	struct buf_pool *pool;
	struct buf buf;

	grants = 0;
	EXPECT_EQ(0, buf_pool_create(counts, &pool));
	buf_pool_join(pool, &one);
	buf = buf_pool_get(pool, &one, 10);
	for (unsigned i = 0; i < CHAIN; i++) {
		chain[i] = (struct waiter){
			.base.granted = on_granted, .pool = pool, .share = &one, .puts_back = true};
		buf_pool_wait(pool, &one, &chain[i].base, 10);
	}
	buf_pool_put(pool, &one, buf);
	EXPECT_EQ(CHAIN, grants);
	for (unsigned i = 0; i < CHAIN; i++)
		EXPECT_EQ(i + 1, chain[i].order);
	EXPECT_EQ(0, buf_pool_in_use(pool));
	buf_pool_destroy(pool);
}

/* ---- shares ---------------------------------------------------------------------------------- */

#define SHARED 64 /* buffers, of which 8 are kept */

static struct buf taken[2][SHARED];

static unsigned take_all(struct buf_pool *pool, struct buf_share *share, struct buf *bufs)
{
	unsigned count = 0;

	while (count < SHARED && (bufs[count] = buf_pool_get(pool, share, 10)).addr)
		count++;
	return count;
}

static void put_all(struct buf_pool *pool, struct buf_share *share, struct buf *bufs,
		    unsigned count)
{
	while (count > 0)
		buf_pool_put(pool, share, bufs[--count]);
}

static void shares_open(struct buf_pool **ret_pool, struct buf_share shares[2])
{
	const unsigned counts[BUF_POOL_CLASSES] = {SHARED, 0, 0};

	EXPECT_EQ(0, buf_pool_create(counts, ret_pool));
	for (unsigned i = 0; i < 2; i++) {
		buf_pool_join(*ret_pool, &shares[i]);
		buf_pool_keep(*ret_pool, &shares[i], 2);
	}
}

static void shares_close(struct buf_pool *pool, struct buf_share shares[2])
{
	EXPECT_EQ(0, buf_pool_in_use(pool));
	for (unsigned i = 0; i < 2; i++)
		buf_pool_leave(pool, &shares[i]);
	buf_pool_destroy(pool);
}

/* One share takes nearly all buffers; another one still gets its minimum. */
static void a_share_has_its_minimum(void)
{
	struct buf_share shares[2];
	struct buf_pool *pool;
	unsigned first, second;

	shares_open(&pool, shares);
	first = take_all(pool, &shares[0], taken[0]);
	EXPECT_EQ(SHARED - SHARED / 16, first);
	second = take_all(pool, &shares[1], taken[1]);
	EXPECT_EQ(SHARED / 16, second);
	put_all(pool, &shares[0], taken[0], first);
	put_all(pool, &shares[1], taken[1], second);
	/* A share that may not borrow gets its minimum and no more. */
	shares[0].may_not_borrow = true;
	first = take_all(pool, &shares[0], taken[0]);
	EXPECT_EQ(SHARED / 16, first);
	put_all(pool, &shares[0], taken[0], first);
	/* A share with a minimum of 0 still gets one buffer. */
	buf_pool_keep(pool, &shares[0], 0);
	first = take_all(pool, &shares[0], taken[0]);
	EXPECT_EQ(1, first);
	put_all(pool, &shares[0], taken[0], first);
	shares_close(pool, shares);
}

/* Waiting shares are served in turn, and first when below their minimum. */
static void shares_wait_in_turn(void)
{
	struct waiter waiters[2][8] = {0};
	struct buf_share shares[2];
	struct buf_pool *pool;
	unsigned first;

	shares_open(&pool, shares);
	grants = 0;
	first = take_all(pool, &shares[0], taken[0]);
	put_all(pool, &shares[1], taken[1], 0);
	for (unsigned i = 0; i < 8; i++) {
		waiters[0][i] = (struct waiter){
			.base.granted = on_granted, .pool = pool, .share = &shares[0]};
		buf_pool_wait(pool, &shares[0], &waiters[0][i].base, 10);
	}
	EXPECT_EQ(0, grants);
	for (unsigned i = 0; i < 8; i++) {
		waiters[1][i] = (struct waiter){
			.base.granted = on_granted, .pool = pool, .share = &shares[1]};
		buf_pool_wait(pool, &shares[1], &waiters[1][i].base, 10);
	}
	/* The share below its minimum was served first. */
	EXPECT_EQ(4, grants);
	EXPECT(waiters[1][3].order == 4 && waiters[0][0].order == 0);
	/* From here on the shares take turns. */
	put_all(pool, &shares[0], &taken[0][first - 4], 4);
	EXPECT_EQ(8, grants);
	EXPECT(waiters[0][1].order > 0 && waiters[0][2].order == 0);
	EXPECT(waiters[1][5].order > 0 && waiters[1][6].order == 0);
	for (unsigned i = 0; i < 8; i++) {
		buf_pool_wait_cancel(&waiters[0][i].base);
		buf_pool_wait_cancel(&waiters[1][i].base);
	}
	put_all(pool, &shares[0], taken[0], first - 4);
	for (unsigned i = 0; i < 8; i++) {
		if (waiters[0][i].buf.addr)
			buf_pool_put(pool, &shares[0], waiters[0][i].buf);
		if (waiters[1][i].buf.addr)
			buf_pool_put(pool, &shares[1], waiters[1][i].buf);
	}
	shares_close(pool, shares);
}

int main(void)
{
	TAP_RUN(a_share_has_its_minimum);
	TAP_RUN(shares_wait_in_turn);
	TAP_RUN(classes_and_fallback);
	TAP_RUN(buffers_name_their_regions);
	TAP_RUN(waiters_in_order);
	TAP_RUN(a_long_chain_does_not_recurse);
	return tap_end();
}
