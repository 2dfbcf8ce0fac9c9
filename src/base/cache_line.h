/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache lines: what two threads write must not share one, or each write takes it from the other,
 * for about a tenth of a microsecond. Structures that each reactor writes for every command begin
 * and end with a line. Any thread.
 */
#ifndef WEFT_BASE_CACHE_LINE_H
#define WEFT_BASE_CACHE_LINE_H

#include <stddef.h>

#define CACHE_LINE_BYTES 64

/* Zeroed memory that begins and ends with a line, for free(); NULL when out of memory. */
void *cache_line_alloc(size_t len_bytes);

#endif
