/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in whole cache lines: the heap's, aligned and cleared.
 *
 * Lengths are rounded up, so that what follows it in the heap begins another line; a length that
 * cannot be rounded up is refused like one that does not fit. Any thread.
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
