/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the Nth allocation of a program fail: the linker sends every malloc, calloc, realloc,
 * aligned_alloc, strdup, free, mmap and munmap through alloc_wrap.c (see the link arguments in
 * meson.build). Memory that is not freed at the end of a run is a leak, found without a sanitizer.
 * One thread.
 */
#ifndef WEFT_TESTS_ALLOC_WRAP_H
#define WEFT_TESTS_ALLOC_WRAP_H

#include <stdbool.h>

/* Counts allocations from here on; the nth one fails (0: none). */
void alloc_wrap_begin(unsigned n);
/* Counts anew from here on; the nth one fails (0: none). Known allocations stay known. */
void alloc_wrap_fail(unsigned n);
bool alloc_wrap_has_failed(void);
/* Stops counting. Returns and prints the number of allocations that were not freed. */
unsigned alloc_wrap_end(const char *label);

#endif
