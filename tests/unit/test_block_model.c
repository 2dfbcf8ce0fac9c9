/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model that judges the torture test: it finds a lost write, a late write, and a block of two
 * writes. A failed write may be there or not, until a read has shown which.
 */
#include "../torture/block_model.h"
#include "tap.h"

#include <stdlib.h>

#define BLOCKS 16

static struct block_model model;
static uint8_t disk[BLOCKS * MODEL_BLOCK_BYTES]; /* judged against the model */
static char text[200];

static uint8_t *at(uint32_t block)
{
	return disk + (size_t)block * MODEL_BLOCK_BYTES;
}

static void begin_anew(void)
{
	free(model.blocks);
	memset(disk, 0, sizeof(disk));
	text[0] = '\0';
	EXPECT_EQ(0, block_model_init(&model, BLOCKS));
}

/* A write that reaches the disk and is acknowledged. */
static void write_well(uint32_t first, uint32_t count)
{
	uint64_t generation = block_model_stamp(&model, first, count, at(first));

	block_model_wrote(&model, first, count, generation, true, true);
}

/* A failed write. Its data go to `ret_data`, the disk is unchanged. */
static void write_badly(uint32_t block, bool may_have_run, uint8_t *ret_data)
{
	uint64_t generation = block_model_stamp(&model, block, 1, ret_data);

	block_model_wrote(&model, block, 1, generation, false, may_have_run);
}

static enum model_verdict judge(uint32_t first, uint32_t count)
{
	return block_model_judge(&model, first, count, at(first), text, sizeof(text));
}

static void right_is_what_was_acknowledged_last(void)
{
	begin_anew();
	EXPECT_EQ(MODEL_RIGHT, judge(0, BLOCKS)); /* zeroes before the first write */
	write_well(3, 4);
	EXPECT_EQ(MODEL_RIGHT, judge(0, BLOCKS));
	write_well(5, 1);
	EXPECT_EQ(MODEL_RIGHT, judge(0, BLOCKS));
	EXPECT_STR("", text);
}

static void lost_write_is_found(void)
{
	begin_anew();
	write_well(2, 3);
	memset(at(3), 0, MODEL_BLOCK_BYTES);
	EXPECT_EQ(MODEL_STALE, judge(2, 3));
	EXPECT_STR("block 3: stale or lost: generation 0, acknowledged was 1", text);
	EXPECT_EQ(MODEL_RIGHT, judge(2, 1));
	/* A finding does not change the model. */
	EXPECT_EQ(MODEL_STALE, judge(3, 1));
}

static void late_copy_of_an_older_write_is_found(void)
{
	uint8_t older[MODEL_BLOCK_BYTES];

	begin_anew();
	write_well(7, 1);
	memcpy(older, at(7), sizeof(older));
	write_well(7, 1);
	EXPECT_EQ(MODEL_RIGHT, judge(7, 1));
	memcpy(at(7), older, sizeof(older));
	EXPECT_EQ(MODEL_STALE, judge(7, 1));
	EXPECT_STR("block 7: stale or lost: generation 1, acknowledged was 2", text);
}

static void block_of_two_writes_is_torn(void)
{
	uint8_t older[MODEL_BLOCK_BYTES];

	begin_anew();
	write_well(4, 1);
	memcpy(older, at(4), sizeof(older));
	write_well(4, 1);
	memcpy(at(4) + 512, older + 512, 512);
	EXPECT_EQ(MODEL_TORN, judge(4, 1));
	EXPECT_STR("block 4: torn: generation 2, acknowledged was 2", text);
	/* Also when only the last sector is of another write. */
	write_well(4, 1);
	memcpy(at(4) + MODEL_BLOCK_BYTES - 512, older, 512);
	EXPECT_EQ(MODEL_TORN, judge(4, 1));
}

static void data_of_another_block_is_torn(void)
{
	begin_anew();
	write_well(0, 2);
	memcpy(at(1), at(0), MODEL_BLOCK_BYTES);
	EXPECT_EQ(MODEL_RIGHT, judge(0, 1));
	EXPECT_EQ(MODEL_TORN, judge(1, 1));
	/* A stamp with a wrong checksum is no stamp. */
	write_well(1, 1);
	for (unsigned sector = 0; sector < MODEL_BLOCK_BYTES; sector += 512)
		at(1)[sector + 16] ^= 1;
	EXPECT_EQ(MODEL_TORN, judge(1, 1));
}

static void failed_write_may_be_there_or_not(void)
{
	uint8_t failed[MODEL_BLOCK_BYTES] = {0};

	begin_anew();
	write_well(6, 1);
	write_badly(6, true, failed);
	memcpy(at(6), failed, sizeof(failed));
	EXPECT_EQ(MODEL_RIGHT, judge(6, 1));

	begin_anew();
	write_well(6, 1);
	write_badly(6, true, failed);
	EXPECT_EQ(MODEL_RIGHT, judge(6, 1));
}

static void what_was_seen_of_a_failed_write_is_known(void)
{
	uint8_t acknowledged[MODEL_BLOCK_BYTES];
	uint8_t failed[MODEL_BLOCK_BYTES] = {0};

	/* The failed write was read: the older block must not be read again. */
	begin_anew();
	write_well(6, 1);
	memcpy(acknowledged, at(6), sizeof(acknowledged));
	write_badly(6, true, failed);
	memcpy(at(6), failed, sizeof(failed));
	EXPECT_EQ(MODEL_RIGHT, judge(6, 1));
	memcpy(at(6), acknowledged, sizeof(acknowledged));
	EXPECT_EQ(MODEL_STALE, judge(6, 1));

	/* The older block was read: the failed write must not appear afterwards. */
	begin_anew();
	write_well(6, 1);
	write_badly(6, true, failed);
	EXPECT_EQ(MODEL_RIGHT, judge(6, 1));
	memcpy(at(6), failed, sizeof(failed));
	EXPECT_EQ(MODEL_STALE, judge(6, 1));
}

static void later_success_ends_the_doubt(void)
{
	uint8_t failed[MODEL_BLOCK_BYTES] = {0};

	begin_anew();
	write_badly(9, true, failed);
	write_well(9, 1);
	EXPECT_EQ(MODEL_RIGHT, judge(9, 1));
	memcpy(at(9), failed, sizeof(failed));
	EXPECT_EQ(MODEL_STALE, judge(9, 1));
}

static void write_that_cannot_have_run_is_not_there(void)
{
	uint8_t failed[MODEL_BLOCK_BYTES] = {0};

	begin_anew();
	write_badly(9, false, failed);
	EXPECT_EQ(MODEL_RIGHT, judge(9, 1));
	memcpy(at(9), failed, sizeof(failed));
	EXPECT_EQ(MODEL_STALE, judge(9, 1));
}

static void each_of_several_failed_writes_may_be_there(void)
{
	static uint8_t failed[MODEL_MAYBE_MAX][MODEL_BLOCK_BYTES];

	for (unsigned landed = 0; landed < MODEL_MAYBE_MAX; landed++) {
		begin_anew();
		write_well(1, 1);
		for (unsigned i = 0; i < MODEL_MAYBE_MAX; i++)
			write_badly(1, true, failed[i]);
		memcpy(at(1), failed[landed], MODEL_BLOCK_BYTES);
		EXPECT_EQ(MODEL_RIGHT, judge(1, 1));
	}
}

static void more_failures_than_can_be_kept_forgive_any_of_them(void)
{
	static uint8_t failed[MODEL_MAYBE_MAX + 3][MODEL_BLOCK_BYTES];

	begin_anew();
	write_well(1, 1);
	for (unsigned i = 0; i < MODEL_MAYBE_MAX + 3; i++)
		write_badly(1, true, failed[i]);
	memcpy(at(1), failed[MODEL_MAYBE_MAX + 2], MODEL_BLOCK_BYTES);
	EXPECT_EQ(MODEL_RIGHT, judge(1, 1));
	/* Values that were read or acknowledged are still known. */
	memcpy(at(1), failed[0], MODEL_BLOCK_BYTES);
	EXPECT_EQ(MODEL_STALE, judge(1, 1));
	for (unsigned i = 0; i < MODEL_MAYBE_MAX + 3; i++)
		write_badly(1, true, failed[i]);
	write_well(1, 1);
	EXPECT_EQ(MODEL_RIGHT, judge(1, 1));
	memcpy(at(1), failed[0], MODEL_BLOCK_BYTES);
	EXPECT_EQ(MODEL_STALE, judge(1, 1));
}

static void zeroes_are_a_write_of_generation_0(void)
{
	begin_anew();
	write_well(2, 1);
	block_model_wrote(&model, 2, 1, 0, true, true);
	EXPECT_EQ(MODEL_STALE, judge(2, 1));
	memset(at(2), 0, MODEL_BLOCK_BYTES);
	EXPECT_EQ(MODEL_RIGHT, judge(2, 1));
}

static void busy_blocks_are_not_picked(void)
{
	struct prng prng;
	uint32_t first = 0;
	uint32_t count;

	begin_anew();
	prng_seed(&prng, 1);
	block_model_begin(&model, 0, 5);
	block_model_begin(&model, 7, BLOCKS - 7);
	for (unsigned i = 0; i < 100; i++) {
		count = block_model_pick(&model, &prng, 4, &first);
		EXPECT(count == 0 || (first >= 5 && first + count <= 7));
	}
	block_model_begin(&model, 5, 2);
	EXPECT_EQ(0, block_model_pick(&model, &prng, 4, &first));
	block_model_end(&model, 11, 1);
	count = 0;
	for (unsigned i = 0; i < 100 && count == 0; i++)
		count = block_model_pick(&model, &prng, 4, &first);
	EXPECT_EQ(1, count);
	EXPECT_EQ(11, first);
}

int main(void)
{
	TAP_RUN(right_is_what_was_acknowledged_last);
	TAP_RUN(lost_write_is_found);
	TAP_RUN(late_copy_of_an_older_write_is_found);
	TAP_RUN(block_of_two_writes_is_torn);
	TAP_RUN(data_of_another_block_is_torn);
	TAP_RUN(failed_write_may_be_there_or_not);
	TAP_RUN(what_was_seen_of_a_failed_write_is_known);
	TAP_RUN(later_success_ends_the_doubt);
	TAP_RUN(write_that_cannot_have_run_is_not_there);
	TAP_RUN(each_of_several_failed_writes_may_be_there);
	TAP_RUN(more_failures_than_can_be_kept_forgive_any_of_them);
	TAP_RUN(zeroes_are_a_write_of_generation_0);
	TAP_RUN(busy_blocks_are_not_picked);
	block_model_destroy(&model);
	return tap_end();
}
