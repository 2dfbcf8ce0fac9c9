/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks marked bad: marking, healing and searching against a plain model, limits, the kept form
 * and damaged kept values, and the recall of kept marks at a start, with a keeper in memory. One
 * thread; no reactor runs.
 */
#include "tap.h"

#include "base/prng.h"
#include "ns/bad_blocks.h"
#include "ns/ns_live.h"
#include "target/target.h"

#include <errno.h>
#include <stdlib.h>

#define MODEL_BLOCKS 200

static struct bad_blocks *bad_of(const struct bad_range *ranges, unsigned count)
{
	struct bad_blocks *bad = bad_blocks_create();

	for (unsigned i = 0; i < count; i++)
		EXPECT_EQ(0, bad_blocks_mark(bad, ranges[i].first_sector,
					     ranges[i].end_sector - ranges[i].first_sector));
	return bad;
}

static void expect_range(const struct bad_blocks *bad, unsigned index, uint64_t first, uint64_t end)
{
	EXPECT_EQ(first, bad_blocks_range(bad, index).first_sector);
	EXPECT_EQ(end, bad_blocks_range(bad, index).end_sector);
}

static void ranges_that_touch_become_one(void)
{
	static const struct bad_range ranges[] = {{10, 12}, {20, 22}, {12, 20}, {0, 1}, {30, 31}};
	struct bad_blocks *bad = bad_of(ranges, 5);

	EXPECT_EQ(3, bad_blocks_count(bad));
	expect_range(bad, 0, 0, 1);
	expect_range(bad, 1, 10, 22);
	expect_range(bad, 2, 30, 31);
	EXPECT_EQ(0, bad_blocks_mark(bad, 0, 40));
	EXPECT_EQ(1, bad_blocks_count(bad));
	expect_range(bad, 0, 0, 40);
	bad_blocks_destroy(bad);
}

static void healing_splits_and_cuts(void)
{
	static const struct bad_range ranges[] = {{10, 20}, {30, 40}, {50, 60}};
	struct bad_blocks *bad = bad_of(ranges, 3);

	EXPECT_EQ(0, bad_blocks_heal(bad, 20, 10)); /* only the gap between two marks */
	EXPECT_EQ(3, bad_blocks_count(bad));
	EXPECT_EQ(0, bad_blocks_heal(bad, 14, 2));
	EXPECT_EQ(4, bad_blocks_count(bad));
	expect_range(bad, 0, 10, 14);
	expect_range(bad, 1, 16, 20);
	EXPECT_EQ(0, bad_blocks_heal(bad, 18, 40));
	EXPECT_EQ(3, bad_blocks_count(bad));
	expect_range(bad, 1, 16, 18);
	expect_range(bad, 2, 58, 60);
	EXPECT_EQ(0, bad_blocks_heal(bad, 0, 1000));
	EXPECT_EQ(0, bad_blocks_count(bad));
	bad_blocks_destroy(bad);
}

static void the_last_block_of_all_can_be_bad(void)
{
	struct bad_blocks *bad = bad_blocks_create();
	struct bad_view *view;
	uint64_t at;

	EXPECT_EQ(0, bad_blocks_mark(bad, UINT64_MAX - 1, 1));
	view = bad_view_create(bad);
	EXPECT(bad_view_find(view, UINT64_MAX - 2, 2, &at));
	EXPECT_EQ(UINT64_MAX - 1, at);
	EXPECT(!bad_view_find(view, UINT64_MAX - 3, 2, &at));
	EXPECT(!bad_view_find(view, UINT64_MAX - 1, 0, &at));
	EXPECT(!bad_view_find(NULL, 0, 100, &at));
	bad_view_free(view);
	bad_blocks_destroy(bad);
}

/* The operator may change the block size: marks keep their bytes. */
static void marks_have_no_block_size(void)
{
	const struct ns small = {.block_shift = 9}, large = {.block_shift = 12};
	struct bad_range range = bad_range_of(small.block_shift, 105, 2);
	struct bad_blocks *bad = bad_of(&range, 1);
	struct bad_view *view = bad_view_create(bad);
	uint64_t at;

	EXPECT(bad_view_find_block(view, small.block_shift, 0, 200, &at) && at == 105);
	EXPECT(!bad_view_find_block(view, small.block_shift, 107, 93, &at));
	EXPECT(bad_view_find_block(view, large.block_shift, 0, 25, &at) && at == 13);
	EXPECT(bad_view_find_block(view, large.block_shift, 13, 1, &at) && at == 13);
	EXPECT(!bad_view_find_block(view, large.block_shift, 0, 13, &at));
	EXPECT(!bad_view_find_block(view, large.block_shift, 14, 200, &at));
	EXPECT(!bad_view_find_block(NULL, large.block_shift, 0, 200, &at));
	bad_view_free(view);
	range = bad_range_of(large.block_shift, 13, 1);
	EXPECT_EQ(0,
		  bad_blocks_heal(bad, range.first_sector, range.end_sector - range.first_sector));
	EXPECT_EQ(0, bad_blocks_count(bad));
	bad_blocks_destroy(bad);
}

/* Compares the view and its ranges with one flag per block. */
static void check_model(const struct bad_blocks *bad, const bool *model)
{
	struct bad_view *view = bad_blocks_count(bad) > 0 ? bad_view_create(bad) : NULL;
	uint64_t marked = 0, counted = 0;

	for (unsigned i = 0; i < bad_blocks_count(bad); i++) {
		struct bad_range range = bad_blocks_range(bad, i);

		EXPECT(i == 0 || range.first_sector > bad_blocks_range(bad, i - 1).end_sector);
		counted += range.end_sector - range.first_sector;
	}
	for (unsigned first = 0; first < MODEL_BLOCKS; first++) {
		uint64_t at = 0;
		unsigned want = first;

		marked += model[first];
		while (want < MODEL_BLOCKS && !model[want])
			want++;
		EXPECT_EQ(want < MODEL_BLOCKS,
			  bad_view_find(view, first, MODEL_BLOCKS - first, &at));
		EXPECT(want == MODEL_BLOCKS || at == want);
		EXPECT_EQ(model[first], bad_view_find(view, first, 1, &at));
	}
	EXPECT_EQ(marked, counted);
	bad_view_free(view);
}

static void any_order_gives_what_a_flag_per_block_would(void)
{
	struct bad_blocks *bad = bad_blocks_create();
	bool model[MODEL_BLOCKS] = {0};
	struct prng prng;

	prng_seed(&prng, 4);
	for (unsigned i = 0; i < 600; i++) {
		uint64_t first = prng_below(&prng, MODEL_BLOCKS);
		uint64_t count = 1 + prng_below(&prng, MODEL_BLOCKS - first) / (1 + i % 9);
		bool is_mark = prng_below(&prng, 2) == 0;

		EXPECT_EQ(0, is_mark ? bad_blocks_mark(bad, first, count)
				     : bad_blocks_heal(bad, first, count));
		memset(model + first, is_mark, count);
		check_model(bad, model);
		if (tap_case_failed)
			break;
	}
	bad_blocks_destroy(bad);
}

static void too_many_ranges_change_nothing(void)
{
	struct bad_blocks *bad = bad_blocks_create();

	for (uint64_t i = 0; i < BAD_BLOCKS_RANGES_MAX; i++)
		EXPECT_EQ(0, bad_blocks_mark(bad, i * 100, 10));
	EXPECT_EQ(-ENOSPC, bad_blocks_mark(bad, 50, 1));
	EXPECT_EQ(BAD_BLOCKS_RANGES_MAX, bad_blocks_count(bad));
	EXPECT_EQ(0, bad_blocks_mark(bad, 10, 1)); /* touches a range that exists */
	EXPECT_EQ(BAD_BLOCKS_RANGES_MAX, bad_blocks_count(bad));
	EXPECT_EQ(0, bad_blocks_heal(bad, 2, 1)); /* healing must never fail */
	EXPECT_EQ(BAD_BLOCKS_RANGES_MAX + 1, bad_blocks_count(bad));
	bad_blocks_destroy(bad);
}

static void what_is_kept_comes_back(void)
{
	static const struct bad_range ranges[] = {{1, 2}, {7, 9}, {1ull << 40, (1ull << 40) + 5}};
	struct bad_blocks *bad = bad_of(ranges, 3), *back, *copy = bad_blocks_copy(bad);
	size_t bytes;
	uint8_t *value = bad_blocks_encode(bad, &bytes);

	EXPECT_EQ(8 + 3 * 16, bytes);
	EXPECT_EQ(0, bad_blocks_decode(value, bytes, &back));
	EXPECT_EQ(3, bad_blocks_count(back));
	for (unsigned i = 0; i < 3; i++) {
		expect_range(back, i, ranges[i].first_sector, ranges[i].end_sector);
		expect_range(copy, i, ranges[i].first_sector, ranges[i].end_sector);
	}
	bad_blocks_destroy(back);
	bad_blocks_destroy(copy);
	bad_blocks_destroy(bad);
	free(value);
	EXPECT_EQ(0, bad_blocks_count(NULL));
}

static void what_was_damaged_is_refused(void)
{
	static const struct bad_range ranges[] = {{1, 2}, {7, 9}};
	struct bad_blocks *bad = bad_of(ranges, 2), *back = NULL;
	size_t bytes;
	uint8_t *value = bad_blocks_encode(bad, &bytes);

	EXPECT_EQ(-EPROTO, bad_blocks_decode(value, 0, &back));
	EXPECT_EQ(-EPROTO, bad_blocks_decode(value, bytes - 1, &back));
	value[7] = 1; /* an older version: blocks of an unknown size */
	EXPECT_EQ(-EPROTO, bad_blocks_decode(value, bytes, &back));
	value[7] = 9;
	EXPECT_EQ(-EPROTO, bad_blocks_decode(value, bytes, &back));
	value[7] = 2;
	value[0] = 3; /* one range more than the value holds */
	EXPECT_EQ(-EPROTO, bad_blocks_decode(value, bytes, &back));
	value[0] = 2;
	value[8 + 8] = 1; /* empty range: first equals end */
	EXPECT_EQ(-EPROTO, bad_blocks_decode(value, bytes, &back));
	value[8 + 8] = 7; /* touches the next range */
	EXPECT_EQ(-EPROTO, bad_blocks_decode(value, bytes, &back));
	value[8 + 8] = 6;
	EXPECT_EQ(0, bad_blocks_decode(value, bytes, &back));
	bad_blocks_destroy(back);
	bad_blocks_destroy(bad);
	free(value);
}

/* ---- a keeper in memory --------------------------------------------------------------------- */

struct kept {
	char key[64];
	uint8_t *value;
	size_t bytes;
};

static int kept_recall(void *arg, const char *kind, const char *key, void **ret_value,
		       size_t *ret_bytes)
{
	const struct kept *kept = arg;

	if (strcmp(kind, "bad-blocks") != 0 || strcmp(key, kept->key) != 0)
		return -ENOENT;
	*ret_value = malloc(kept->bytes);
	memcpy(*ret_value, kept->value, kept->bytes);
	*ret_bytes = kept->bytes;
	return 0;
}

static void marks_are_in_force_after_a_start(void)
{
	static const struct bad_range ranges[] = {{5, 8}};
	struct uuid uuid = {{1, 2, 3}}, other = {{9}};
	struct bad_blocks *bad = bad_of(ranges, 1);
	struct kept kept = {0};
	struct keeper keeper = {.recall = kept_recall, .arg = &kept};
	struct ns_live *live;
	uint64_t at;

	uuid_format(&uuid, kept.key);
	kept.value = bad_blocks_encode(bad, &kept.bytes);
	EXPECT_EQ(0, ns_live_create(3, &live));
	EXPECT_EQ(0, ns_live_recall(live, &uuid, &keeper));
	for (unsigned i = 0; i < 3; i++) {
		const struct ns_view *view = ns_live_locals(live)[i].view;

		EXPECT(view && bad_view_find(view->bad, 0, 6, &at) && at == 5);
		EXPECT(view && !bad_view_find(view->bad, 8, 100, &at));
	}
	EXPECT_EQ(1, bad_blocks_count(ns_live_bad_blocks(live)));
	ns_live_put(live);
	EXPECT_EQ(0, ns_live_create(3, &live));
	EXPECT_EQ(0, ns_live_recall(live, &other, &keeper));
	EXPECT(!ns_live_locals(live)[0].view);
	ns_live_put(live);
	kept.value[7] = 77;
	EXPECT_EQ(0, ns_live_create(1, &live));
	EXPECT_EQ(-EPROTO, ns_live_recall(live, &uuid, &keeper));
	ns_live_put(live);
	free(kept.value);
	bad_blocks_destroy(bad);
}

/* Marks made after the healer's look stay, unless healed by others since. */
static void later_marks_stay(void)
{
	struct bad_blocks *bad = bad_blocks_create();
	struct bad_view *view;
	uint64_t stamp;

	EXPECT_EQ(0, bad_blocks_mark(bad, 10, 10));
	view = bad_view_create(bad);
	stamp = bad_view_stamp(view);
	bad_view_free(view);
	EXPECT_EQ(0, bad_blocks_mark(bad, 12, 4)); /* again: 12 to 15 are newer than the stamp */
	EXPECT_EQ(0, bad_blocks_heal(bad, 13, 1));
	EXPECT_EQ(0, bad_blocks_mark(bad, 30, 2)); /* another place */
	EXPECT_EQ(0, bad_blocks_heal_seen(bad, 11, 100, stamp));
	EXPECT_EQ(4, bad_blocks_count(bad));
	expect_range(bad, 0, 10, 11);
	expect_range(bad, 1, 12, 13);
	expect_range(bad, 2, 14, 16);
	expect_range(bad, 3, 30, 32);
	/* More changes than are remembered: the healer must look again. */
	for (unsigned i = 0; i < BAD_BLOCKS_RECENT; i++)
		EXPECT_EQ(0, bad_blocks_mark(bad, 1000, 1));
	EXPECT_EQ(-EAGAIN, bad_blocks_heal_seen(bad, 11, 100, stamp));
	EXPECT_EQ(0, bad_blocks_heal_seen(bad, 0, 2000, stamp + 2 + BAD_BLOCKS_RECENT));
	EXPECT_EQ(0, bad_blocks_count(bad));
	bad_blocks_destroy(bad);
}

int main(void)
{
	TAP_RUN(ranges_that_touch_become_one);
	TAP_RUN(healing_splits_and_cuts);
	TAP_RUN(the_last_block_of_all_can_be_bad);
	TAP_RUN(marks_have_no_block_size);
	TAP_RUN(any_order_gives_what_a_flag_per_block_would);
	TAP_RUN(later_marks_stay);
	TAP_RUN(too_many_ranges_change_nothing);
	TAP_RUN(what_is_kept_comes_back);
	TAP_RUN(what_was_damaged_is_refused);
	TAP_RUN(marks_are_in_force_after_a_start);
	return tap_end();
}
