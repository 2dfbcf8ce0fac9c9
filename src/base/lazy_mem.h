/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeroed memory that costs nothing until it is touched, and nothing once it is given back.
 *
 * For tables that are sized for the worst case and used at their beginning: the slots of a queue.
 * calloc gives the same for fresh memory only; a recycled block is cleared, and so touched, from
 * end to end, and a heap keeps what it once had. Any thread.
 */
#ifndef WEFT_BASE_LAZY_MEM_H
#define WEFT_BASE_LAZY_MEM_H

#include <stddef.h>

/* NULL when there is none. Aligned for any type. */
void *lazy_mem_get(size_t len_bytes);
/* len_bytes as it was asked for. NULL is harmless. */
void lazy_mem_put(void *mem, size_t len_bytes);

#endif
