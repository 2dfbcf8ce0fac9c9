/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeroed memory that costs nothing until touched, and nothing once freed.
 *
 * For tables that are sized for the worst case and used at their beginning, such as the slots of a
 * queue. calloc is as cheap only for fresh memory: calloc clears a recycled block, and so touches
 * all of it, and the heap does not give memory back. Any thread.
 */
#ifndef WEFT_BASE_LAZY_MEM_H
#define WEFT_BASE_LAZY_MEM_H

#include <stddef.h>

/* NULL when out of memory. Aligned for any type. */
void *lazy_mem_get(size_t len_bytes);
/* len_bytes is the length passed to lazy_mem_get. mem may be NULL. */
void lazy_mem_put(void *mem, size_t len_bytes);

#endif
