/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes allocations of the code under test fail when a fuzzer asks for it. Included once by a
 * program that is linked with --wrap of malloc, calloc, realloc and strdup
 * (tests/fuzz/meson.build). The simulator's memory and the fuzzer's own never fail: this file
 * defines sim_alloc in place of the simulator's. One thread.
 */
#ifndef WEFT_TESTS_FUZZ_ALLOC_H
#define WEFT_TESTS_FUZZ_ALLOC_H

#include "sim.h"

#include "base/check.h"

#include <stdlib.h>

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t count, size_t len_bytes);
void *__real_realloc(void *memory, size_t len_bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t count, size_t len_bytes);
void *__wrap_realloc(void *memory, size_t len_bytes);
char *__wrap_strdup(const char *text);

/* The Nth allocation from now on fails; 0: none does. */
static unsigned alloc_fails_in;

static bool alloc_fails(void)
{
	return alloc_fails_in > 0 && --alloc_fails_in == 0;
}

void *__wrap_malloc(size_t len_bytes)
{
	return alloc_fails() ? NULL : __real_malloc(len_bytes);
}

void *__wrap_calloc(size_t count, size_t len_bytes)
{
	return alloc_fails() ? NULL : __real_calloc(count, len_bytes);
}

void *__wrap_realloc(void *memory, size_t len_bytes)
{
	return alloc_fails() ? NULL : __real_realloc(memory, len_bytes);
}

char *__wrap_strdup(const char *text)
{
	return alloc_fails() ? NULL : __real_strdup(text);
}

void *sim_alloc(size_t len_bytes)
{
	void *memory = __real_calloc(1, len_bytes);

	CHECK(memory != NULL);
	return memory;
}

void *sim_realloc(void *memory, size_t len_bytes)
{
	memory = __real_realloc(memory, len_bytes);
	CHECK(memory != NULL);
	return memory;
}

#endif
