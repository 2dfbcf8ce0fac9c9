/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazily touched memory: from mmap for more than HEAP_MAX_BYTES, from the heap for the
 * rest. With the address sanitizer always from the heap, which the sanitizer watches. Any thread.
 */
#include "base/lazy_mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAP_MAX_BYTES 8192

static bool is_of_heap(size_t len_bytes)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#else
	return len_bytes <= HEAP_MAX_BYTES;
#endif
}

void *lazy_mem_get(size_t len_bytes)
{
	void *mem;

	if (is_of_heap(len_bytes))
		return calloc(1, len_bytes);
	mem = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return NULL;
	/* Prevents a huge page, which would be touched as a whole. */
	(void)madvise(mem, len_bytes, MADV_NOHUGEPAGE);
	return mem;
}

void lazy_mem_put(void *mem, size_t len_bytes)
{
	if (!mem)
		return;
	if (is_of_heap(len_bytes))
		free(mem);
	else
		munmap(mem, len_bytes);
}
