/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements alloc_wrap.h. The simulator's memory is not counted: this file defines its two
 * functions too. mmap is mmap64 as meson compiles it. One thread.
 */
#include "alloc_wrap.h"

#include "sim.h"

#include "base/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LIVE_MAX 4096

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t count, size_t len_bytes);
void *__real_realloc(void *memory, size_t len_bytes);
void *__real_aligned_alloc(size_t align_bytes, size_t len_bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__real_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t len_bytes);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t count, size_t len_bytes);
void *__wrap_realloc(void *memory, size_t len_bytes);
void *__wrap_aligned_alloc(size_t align_bytes, size_t len_bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
void *__wrap_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t len_bytes);

static bool is_counting;
static unsigned alloc_count;
static unsigned fail_at;
static bool has_failed;
static void *live[LIVE_MAX];
static unsigned live_count;
static int mapped_count;

/* ---- the simulator's memory ----------------------------------------------------------------- */

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

/* ---- all other memory ----------------------------------------------------------------------- */

static bool must_fail(void)
{
	if (!is_counting || ++alloc_count != fail_at)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

static void *keep(void *memory)
{
	if (is_counting && memory) {
		CHECK(live_count < LIVE_MAX);
		live[live_count++] = memory;
	}
	return memory;
}

static void forget(const void *memory)
{
	/* Search from the youngest: most allocations are freed soon. */
	for (unsigned i = live_count; memory && i-- > 0;) {
		if (live[i] == memory) {
			live[i] = live[--live_count];
			return;
		}
	}
}

void *__wrap_malloc(size_t len_bytes)
{
	return must_fail() ? NULL : keep(__real_malloc(len_bytes));
}

void *__wrap_calloc(size_t count, size_t len_bytes)
{
	return must_fail() ? NULL : keep(__real_calloc(count, len_bytes));
}

void *__wrap_realloc(void *memory, size_t len_bytes)
{
	if (must_fail())
		return NULL;
	forget(memory);
	return keep(__real_realloc(memory, len_bytes));
}

void *__wrap_aligned_alloc(size_t align_bytes, size_t len_bytes)
{
	return must_fail() ? NULL : keep(__real_aligned_alloc(align_bytes, len_bytes));
}

char *__wrap_strdup(const char *text)
{
	return must_fail() ? NULL : keep(__real_strdup(text));
}

void __wrap_free(void *memory)
{
	forget(memory);
	__real_free(memory);
}

void *__wrap_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset)
{
	if (must_fail())
		return MAP_FAILED;
	mapped_count += is_counting;
	return __real_mmap64(at, len_bytes, prot, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t len_bytes)
{
	mapped_count -= is_counting;
	return __real_munmap(at, len_bytes);
}

/* ---- what tests call ------------------------------------------------------------------------ */

void alloc_wrap_begin(unsigned n)
{
	is_counting = true;
	has_failed = false;
	alloc_wrap_fail(n);
}

void alloc_wrap_fail(unsigned n)
{
	alloc_count = 0;
	fail_at = n;
}

bool alloc_wrap_has_failed(void)
{
	return has_failed;
}

unsigned alloc_wrap_end(const char *label)
{
	unsigned left = live_count + (unsigned)(mapped_count < 0 ? -mapped_count : mapped_count);

	is_counting = false;
	if (left > 0)
		printf("# %s: %u allocations and %d mappings are left\n", label, live_count,
		       mapped_count);
	live_count = 0;
	mapped_count = 0;
	return left;
}
