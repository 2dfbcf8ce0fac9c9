/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that Identify gives as a power of two of pages (MDTS, VSL, WZSL, WUSL); for use in wire/
 * only. The page size is CAP.MPSMIN, which is 4 KiB on every fabrics controller.
 */
#ifndef WEFT_WIRE_PAGE_SHIFT_H
#define WEFT_WIRE_PAGE_SHIFT_H

#include "wire/nvme.h"

/*
 * MDTS and similar limits: the largest power of two of pages that does not exceed `bytes`. On the
 * wire 0 means no limit, so a limit of one page (2^0) cannot be encoded: the smallest limit is two
 * pages.
 */
static inline uint8_t page_shift_encode(uint32_t bytes)
{
	uint8_t shift = 1;

	if (bytes == 0)
		return 0;
	while (shift < 19 && (uint64_t)NVME_PAGE_BYTES << (shift + 1) <= bytes)
		shift++;
	return shift;
}

/* A limit that does not fit into 32 bits of bytes is returned as 0, no limit. */
static inline uint32_t page_shift_decode(uint8_t shift)
{
	return shift == 0 || shift > 19 ? 0 : (uint32_t)NVME_PAGE_BYTES << shift;
}

#endif
