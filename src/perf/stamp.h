/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --verify writes into every logical block, and how it judges what it reads back. Pure.
 */
#ifndef WEFT_PERF_STAMP_H
#define WEFT_PERF_STAMP_H

#include <stddef.h>
#include <stdint.h>

#define PERF_GENERATION_ANY UINT32_MAX

struct perf_stamp_args {
	uint64_t seed;
	uint64_t first_block;
	uint32_t block_bytes;
	uint32_t block_count;
	uint32_t generation; /* PERF_GENERATION_ANY: not judged, nor is the seed */
};

/* Stamps all blocks of the buffer; what lies behind a stamp is left and covered by its CRC. */
void perf_stamp_write(uint8_t *data, const struct perf_stamp_args *args);
/* How many blocks are wrong; the first is described in `text` (when it was empty). */
uint32_t perf_stamp_check(const uint8_t *data, const struct perf_stamp_args *args, char *text,
			  size_t text_bytes);

#endif
