/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker of the torture test: what each block may hold. Pure.
 *
 * Every write stamps its blocks with a new generation. An idle block holds the generation of the
 * last acknowledged write or, after a later write without success, that one or the later one. Any
 * other generation in a read is a lost write (an acknowledged generation is missing) or a stale one
 * (an older write was executed after it). At most one command is in flight for a block.
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
	uint64_t maybe[MODEL_MAYBE_MAX]; /* later ones that may be on the medium */
	unsigned maybe_count;
	bool is_unknown; /* too many to keep: any used generation is accepted */
	bool is_busy;
};

struct block_model {
	struct model_block *blocks;
	uint32_t block_count;
	uint64_t next_generation;
};

enum model_verdict {
	MODEL_RIGHT,
	MODEL_STALE, /* an older generation, or one never written there */
	MODEL_TORN,  /* several generations in a block, or another block's stamp */
};

/* 0 or -ENOMEM. */
int block_model_init(struct block_model *model, uint32_t block_count);
void block_model_destroy(struct block_model *model);

/* Picks up to `count_max` idle blocks in a row at random; 0: none was found. */
uint32_t block_model_pick(const struct block_model *model, struct prng *prng, uint32_t count_max,
			  uint32_t *ret_first);
void block_model_begin(struct block_model *model, uint32_t first, uint32_t count);

/* Stamps `count` blocks of data with a new generation and returns it. A generation is never 0,
 * which stands for Write Zeroes. */
uint64_t block_model_stamp(struct block_model *model, uint32_t first, uint32_t count,
			   uint8_t *data);
/* The write has ended. may_have_run: a failed write may be on the medium all the same. */
void block_model_wrote(struct block_model *model, uint32_t first, uint32_t count,
		       uint64_t generation, bool is_ok, bool may_have_run);
/* The read has succeeded: judges each block; a "maybe" generation that was read is certain from
 * then on. */
enum model_verdict block_model_judge(struct block_model *model, uint32_t first, uint32_t count,
				     const uint8_t *data, char *text, unsigned text_bytes);
/* The command on these blocks has ended. */
void block_model_end(struct block_model *model, uint32_t first, uint32_t count);

#endif
