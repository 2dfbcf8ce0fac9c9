/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See block_model.h. A stamp is repeated in every 512 bytes of a block: block number, generation,
 * and the sum of both, so that a block with parts of several writes is recognized as torn.
 */
#include "block_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAMP_BYTES 512
#define PICK_TRIES  64

struct stamp {
	uint64_t block;
	uint64_t generation;
	uint64_t check;
};

int block_model_init(struct block_model *model, uint32_t block_count)
{
	model->blocks = calloc(block_count, sizeof(*model->blocks));
	model->block_count = block_count;
	model->next_generation = 1;
	return model->blocks ? 0 : -ENOMEM;
}

void block_model_destroy(struct block_model *model)
{
	free(model->blocks);
}

uint32_t block_model_pick(const struct block_model *model, struct prng *prng, uint32_t count_max,
			  uint32_t *ret_first)
{
	for (unsigned i = 0; i < PICK_TRIES; i++) {
		uint32_t first = (uint32_t)prng_below(prng, model->block_count);
		uint32_t wanted = 1 + (uint32_t)prng_below(prng, count_max);
		uint32_t count = 0;

		while (count < wanted && first + count < model->block_count &&
		       !model->blocks[first + count].is_busy)
			count++;
		if (count > 0) {
			*ret_first = first;
			return count;
		}
	}
	return 0;
}

void block_model_begin(struct block_model *model, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		model->blocks[i].is_busy = true;
}

void block_model_end(struct block_model *model, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		model->blocks[i].is_busy = false;
}

uint64_t block_model_stamp(struct block_model *model, uint32_t first, uint32_t count, uint8_t *data)
{
	uint64_t generation = model->next_generation++;

	for (uint32_t i = 0; i < count; i++) {
		struct stamp stamp = {first + i, generation, first + i + generation};

		for (uint32_t at = 0; at < MODEL_BLOCK_BYTES; at += STAMP_BYTES)
			memcpy(data + (size_t)i * MODEL_BLOCK_BYTES + at, &stamp, sizeof(stamp));
	}
	return generation;
}

void block_model_wrote(struct block_model *model, uint32_t first, uint32_t count,
		       uint64_t generation, bool is_ok, bool may_have_run)
{
	for (uint32_t i = first; i < first + count; i++) {
		struct model_block *block = &model->blocks[i];

		if (is_ok) {
			block->generation = generation;
			block->maybe_count = 0;
			block->is_unknown = false;
		} else if (may_have_run && block->maybe_count < MODEL_MAYBE_MAX) {
			block->maybe[block->maybe_count++] = generation;
		} else if (may_have_run) {
			block->is_unknown = true;
		}
	}
}

static bool block_may_hold(const struct model_block *block, uint64_t generation)
{
	if (generation == block->generation || block->is_unknown)
		return true;
	for (unsigned i = 0; i < block->maybe_count; i++) {
		if (block->maybe[i] == generation)
			return true;
	}
	return false;
}

static enum model_verdict judge_block(struct model_block *block, uint64_t number,
				      const uint8_t *data, uint64_t *ret_generation)
{
	struct stamp stamp;

	memcpy(&stamp, data, sizeof(stamp));
	*ret_generation = stamp.generation;
	for (uint32_t at = STAMP_BYTES; at < MODEL_BLOCK_BYTES; at += STAMP_BYTES) {
		if (memcmp(data, data + at, sizeof(stamp)) != 0)
			return MODEL_TORN;
	}
	if (stamp.generation != 0 &&
	    (stamp.block != number || stamp.check != number + stamp.generation))
		return MODEL_TORN;
	if (!block_may_hold(block, stamp.generation))
		return MODEL_STALE;
	block->generation = stamp.generation;
	block->maybe_count = 0;
	block->is_unknown = false;
	return MODEL_RIGHT;
}

enum model_verdict block_model_judge(struct block_model *model, uint32_t first, uint32_t count,
				     const uint8_t *data, char *text, unsigned text_bytes)
{
	for (uint32_t i = 0; i < count; i++) {
		struct model_block *block = &model->blocks[first + i];
		uint64_t known = block->generation;
		uint64_t got;
		enum model_verdict verdict =
			judge_block(block, first + i, data + (size_t)i * MODEL_BLOCK_BYTES, &got);

		if (verdict != MODEL_RIGHT) {
			snprintf(text, text_bytes,
				 "block %u: %s: generation %llu, acknowledged was %llu", first + i,
				 verdict == MODEL_TORN ? "torn" : "stale or lost",
				 (unsigned long long)got, (unsigned long long)known);
			return verdict;
		}
	}
	return MODEL_RIGHT;
}
