/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Nth allocation fails: the linker sends every malloc, calloc, realloc, aligned_alloc, strdup,
 * free, mmap and munmap of a program through alloc_wrap.c (see the link arguments in meson.build).
 * What was allocated and not freed when a run is over is a leak, found without a sanitizer. One
 * thread.
 */
#ifndef WEFT_TESTS_ALLOC_WRAP_H
#define WEFT_TESTS_ALLOC_WRAP_H

#include <stdbool.h>

/* From here on allocations are counted, and the nth one fails; 0: none does. */
void alloc_wrap_begin(unsigned n);
/* Counts anew from here on: the nth one fails; 0: none does. What was allocated stays known. */
void alloc_wrap_fail(unsigned n);
bool alloc_wrap_has_failed(void);
/* Counts no more. Returns how much is left of what was allocated since, and says so. */
unsigned alloc_wrap_end(const char *label);

#endif
