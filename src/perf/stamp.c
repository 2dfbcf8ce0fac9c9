/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stamps of `weft perf --verify`. Pure; any thread. Each logical block begins with its own number,
 * the generation of the write, the seed of the run, and a CRC32C over the whole block. So an old,
 * torn, damaged or misplaced block is detected.
 */
#include "perf/stamp.h"

#include "base/crc32c.h"
#include "base/le.h"

#include <stdbool.h>
#include <stdio.h>

#define STAMP_MAGIC 0x74667720706d6174ull

struct perf_stamp {
	le64 magic;
	le64 block;
	le64 seed;
	le32 generation;
	le32 crc; /* of the block with crc set to 0 */
};

static uint32_t block_crc(const uint8_t *block, uint32_t block_bytes)
{
	static const uint8_t zero[4];
	const size_t at = offsetof(struct perf_stamp, crc);
	uint32_t crc = crc32c_update(CRC32C_START, block, at);

	crc = crc32c_update(crc, zero, sizeof(zero));
	crc = crc32c_update(crc, block + at + sizeof(zero), block_bytes - at - sizeof(zero));
	return crc32c_finish(crc);
}

void perf_stamp_write(uint8_t *data, const struct perf_stamp_args *args)
{
	for (uint32_t i = 0; i < args->block_count; i++) {
		uint8_t *block = data + (size_t)i * args->block_bytes;
		struct perf_stamp stamp = {
			.magic = le64_of(STAMP_MAGIC),
			.block = le64_of(args->first_block + i),
			.seed = le64_of(args->seed),
			.generation = le32_of(args->generation),
		};

		memcpy(block, &stamp, sizeof(stamp));
		stamp.crc = le32_of(block_crc(block, args->block_bytes));
		memcpy(block, &stamp, sizeof(stamp));
	}
}

/* What is wrong with one block, or NULL. */
static const char *block_problem(const uint8_t *block, uint64_t number,
				 const struct perf_stamp_args *args, struct perf_stamp *stamp)
{
	memcpy(stamp, block, sizeof(*stamp));
	if (le64_get(stamp->magic) != STAMP_MAGIC)
		return "has no stamp: was it written with --verify?";
	if (le32_get(stamp->crc) != block_crc(block, args->block_bytes))
		return "is damaged or torn (CRC)";
	if (le64_get(stamp->block) != number)
		return "holds the data of another block";
	if (args->generation == PERF_GENERATION_ANY)
		return NULL;
	if (le64_get(stamp->seed) != args->seed)
		return "holds data of an earlier run";
	if (le32_get(stamp->generation) != args->generation)
		return "does not hold the last acknowledged generation";
	return NULL;
}

uint32_t perf_stamp_check(const uint8_t *data, const struct perf_stamp_args *args, char *text,
			  size_t text_bytes)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < args->block_count; i++) {
		uint64_t number = args->first_block + i;
		struct perf_stamp stamp;
		const char *problem =
			block_problem(data + (size_t)i * args->block_bytes, number, args, &stamp);

		if (problem == NULL)
			continue;
		wrong++;
		if (text[0] != '\0')
			continue;
		if (le64_get(stamp.magic) == STAMP_MAGIC)
			snprintf(text, text_bytes, "block %lu %s (found block %lu, generation %u)",
				 (unsigned long)number, problem,
				 (unsigned long)le64_get(stamp.block), le32_get(stamp.generation));
		else
			snprintf(text, text_bytes, "block %lu %s", (unsigned long)number, problem);
	}
	return wrong;
}
