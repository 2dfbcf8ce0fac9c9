/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap memory in whole cache lines, aligned and zeroed.
 *
 * Lengths are rounded up, so that the next heap block begins in another line. Returns NULL for a
 * length that cannot be rounded up. Any thread.
 */
#include "base/cache_line.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *cache_line_alloc(size_t len_bytes)
{
	void *mem;

	if (len_bytes > SIZE_MAX - CACHE_LINE_BYTES)
		return NULL;
	len_bytes = (len_bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
	mem = aligned_alloc(CACHE_LINE_BYTES, len_bytes);
	if (mem)
		memset(mem, 0, len_bytes);
	return mem;
}
