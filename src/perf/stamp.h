/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --verify writes into every logical block, and the check of blocks read back. Pure.
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
	uint32_t generation; /* PERF_GENERATION_ANY: generation and seed are not checked */
};

/* Stamps all blocks of the buffer. Bytes after a stamp stay as they are; the CRC covers them. */
void perf_stamp_write(uint8_t *data, const struct perf_stamp_args *args);
/* Returns the number of wrong blocks. If `text` is empty, the first wrong block is described
 * there. */
uint32_t perf_stamp_check(const uint8_t *data, const struct perf_stamp_args *args, char *text,
			  size_t text_bytes);

#endif
