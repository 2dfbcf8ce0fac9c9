/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache lines. Data that two threads write must not share a line: each write takes the line from
 * the other thread, which costs about 0.1 us. Structures that each reactor writes for every command
 * begin and end at a line boundary. Any thread.
 */
#ifndef WEFT_BASE_CACHE_LINE_H
#define WEFT_BASE_CACHE_LINE_H

#include <stddef.h>

#define CACHE_LINE_BYTES 64

/* Zeroed memory that begins and ends at a line boundary. Freed with free(). NULL when out of
 * memory. */
void *cache_line_alloc(size_t len_bytes);

#endif
