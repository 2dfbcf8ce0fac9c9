/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of `weft perf --verify` must tell good blocks from every kind of bad one: damaged,
 * torn, misplaced, stale, from another run, never written.
 */
#include "perf/stamp.h"
#include "tap.h"

#define BLOCK  512
#define BLOCKS 4

static uint8_t data[BLOCKS * BLOCK];
static char text[160];
static const struct perf_stamp_args args = {.seed = 9,
					    .first_block = 100,
					    .block_bytes = BLOCK,
					    .block_count = BLOCKS,
					    .generation = 3};

static uint32_t check_with(struct perf_stamp_args want)
{
	text[0] = '\0';
	return perf_stamp_check(data, &want, text, sizeof(text));
}

static void stamp(void)
{
	memset(data, 0x77, sizeof(data));
	perf_stamp_write(data, &args);
}

static void good_blocks_are_good(void)
{
	struct perf_stamp_args any = args;

	stamp();
	EXPECT_EQ(0, check_with(args));
	EXPECT_STR("", text);
	any.generation = PERF_GENERATION_ANY;
	any.seed = 1;
	EXPECT_EQ(0, check_with(any));
}

static void every_flipped_bit_is_found(void)
{
	stamp();
	for (size_t bit = 0; bit < sizeof(data) * 8; bit += 7) {
		data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		EXPECT_EQ(1, check_with(args));
		data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	EXPECT_EQ(0, check_with(args));
}

static void misplaced_blocks_are_found(void)
{
	struct perf_stamp_args other = args;

	stamp();
	other.first_block = 101;
	EXPECT_EQ(BLOCKS, check_with(other));
	EXPECT(strstr(text, "block 101") != NULL && strstr(text, "another block") != NULL);
}

static void stale_blocks_are_found(void)
{
	struct perf_stamp_args newer = args;

	stamp();
	newer.generation = 4;
	EXPECT_EQ(BLOCKS, check_with(newer));
	EXPECT(strstr(text, "generation") != NULL);
	newer = args;
	newer.seed = 10;
	EXPECT_EQ(BLOCKS, check_with(newer));
	EXPECT(strstr(text, "earlier run") != NULL);
}

static void torn_and_empty_blocks_are_found(void)
{
	uint8_t old[BLOCK];
	struct perf_stamp_args newer = args;

	stamp();
	memcpy(old, data, BLOCK);
	memset(data, 0x33, sizeof(data));
	newer.generation = 4;
	perf_stamp_write(data, &newer);
	memcpy(data + BLOCK / 2, old + BLOCK / 2, BLOCK / 2);
	EXPECT_EQ(1, check_with(newer));
	EXPECT(strstr(text, "torn") != NULL);
	memset(data, 0, sizeof(data));
	EXPECT_EQ(BLOCKS, check_with(args));
	EXPECT(strstr(text, "no stamp") != NULL);
}

int main(void)
{
	TAP_RUN(good_blocks_are_good);
	TAP_RUN(every_flipped_bit_is_found);
	TAP_RUN(misplaced_blocks_are_found);
	TAP_RUN(stale_blocks_are_found);
	TAP_RUN(torn_and_empty_blocks_are_found);
	return tap_end();
}
