/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each block may hold: the checker of the torture test. Pure.
 *
 * Every write stamps its blocks with a generation that is never used twice. A block that nobody
 * writes holds the generation whose write was acknowledged last, or, when a later write ended
 * without success, that one or the later one. A read that returns anything else has found a write
 * that was lost (an acknowledged generation is not there) or a stale one (an older copy landed
 * behind it). At most one command is under way for a block.
 */
#ifndef WEFT_TORTURE_BLOCK_MODEL_H
#define WEFT_TORTURE_BLOCK_MODEL_H

#include "base/prng.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_BLOCK_BYTES 4096
#define MODEL_MAYBE_MAX   8

struct model_block {
	uint64_t generation;             /* of the last acknowledged write; 0: zeroes */
	uint64_t maybe[MODEL_MAYBE_MAX]; /* later ones that may be there */
	unsigned maybe_count;
	bool is_unknown; /* more than can be kept: any generation that was used is as good */
	bool is_busy;
};

struct block_model {
	struct model_block *blocks;
	uint32_t block_count;
	uint64_t next_generation;
};

enum model_verdict {
	MODEL_RIGHT,
	MODEL_STALE, /* an older generation, or one that nobody has written there */
	MODEL_TORN,  /* more than one in a block, or of another block */
};

/* 0 or -ENOMEM. */
int block_model_init(struct block_model *model, uint32_t block_count);
void block_model_destroy(struct block_model *model);

/* A run of up to `count_max` idle blocks at random; 0: none was found. */
uint32_t block_model_pick(const struct block_model *model, struct prng *prng, uint32_t count_max,
			  uint32_t *ret_first);
void block_model_begin(struct block_model *model, uint32_t first, uint32_t count);

/* Stamps `count` blocks of data with a new generation, which is returned, and is never 0: that is
 * the generation of Write Zeroes. */
uint64_t block_model_stamp(struct block_model *model, uint32_t first, uint32_t count,
			   uint8_t *data);
/* The write has ended. may_have_run: whether one that failed may be there all the same. */
void block_model_wrote(struct block_model *model, uint32_t first, uint32_t count,
		       uint64_t generation, bool is_ok, bool may_have_run);
/* The read has ended well: judges each block; what was seen of a "maybe" is known from then on. */
enum model_verdict block_model_judge(struct block_model *model, uint32_t first, uint32_t count,
				     const uint8_t *data, char *text, unsigned text_bytes);
/* The command on these blocks is over. */
void block_model_end(struct block_model *model, uint32_t first, uint32_t count);

#endif
