/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The LBA formats that a namespace may have, in the order in which Identify lists them and in which
 * Format NVM and Namespace Management name them. None has metadata.
 * NVM Command Set 1.1, section 4.1.5.1 (LBAF, FLBAS).
 */
#ifndef WEFT_WIRE_LBA_FORMAT_H
#define WEFT_WIRE_LBA_FORMAT_H

#include <stdint.h>

#define LBA_FORMAT_COUNT 2

/* log2 of the block size in bytes: 512, 4096. */
static inline uint8_t lba_format_shift(uint32_t index)
{
	return index == 0 ? 9 : 12;
}

/* LBA_FORMAT_COUNT when no format has this block size. */
static inline uint32_t lba_format_find(uint32_t block_bytes)
{
	uint32_t index = 0;

	while (index < LBA_FORMAT_COUNT && 1u << lba_format_shift(index) != block_bytes)
		index++;
	return index;
}

#endif
