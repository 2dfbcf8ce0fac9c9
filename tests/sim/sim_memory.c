/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of simulated processes: an allocation made in a process' turn belongs to the process, is
 * freed with it, and sometimes fails. For programs linked with this file and with
 * sim_memory_link_args (meson.build); in other programs, memory outlives its process.
 *
 * A table maps addresses to owners. Addresses decide nothing else, so that runs repeat. Allocations
 * outside of processes are not tracked. realloc keeps the owner. One thread.
 */
#include "sim_internal.h"

#include "base/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t count, size_t len_bytes);
void *__real_realloc(void *memory, size_t len_bytes);
void *__real_aligned_alloc(size_t align_bytes, size_t len_bytes);
void __real_free(void *memory);
void *__real_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t len_bytes);
int __real_vasprintf(char **ret_text, const char *format, va_list args);

void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t count, size_t len_bytes);
void *__wrap_realloc(void *memory, size_t len_bytes);
void *__wrap_reallocarray(void *memory, size_t count, size_t len_bytes);
void *__wrap_aligned_alloc(size_t align_bytes, size_t len_bytes);
int __wrap_posix_memalign(void **ret_memory, size_t align_bytes, size_t len_bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len_bytes);
int __wrap_asprintf(char **ret_text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
int __wrap___asprintf_chk(char **ret_text, int flag, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int __wrap___vasprintf_chk(char **ret_text, int flag, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));
void __wrap_free(void *memory);
void *__wrap_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t len_bytes);

/* jansson's, if linked: JSON documents are memory of a process too. */
extern void json_set_alloc_funcs(void *(*malloc_fn)(size_t), void (*free_fn)(void *))
	__attribute__((weak));

/* ---- the simulator's own -------------------------------------------------------------------- */

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

/* ---- blocks, by address --------------------------------------------------------------------- */

struct sim_block {
	struct list node; /* process->allocations, or the spare list */
	void *memory;
	size_t map_bytes; /* of a mapping; 0: not a mapping */
	struct sim_process *process;
};

#define TABLE_ROOM_FIRST 4096
#define SPARE_ADDED      256

/* Open addressing; removal fills the hole from the entries behind it. */
static struct sim_block **table;
static size_t table_room; /* a power of two */
static size_t table_count;
static struct list spare = {&spare, &spare};

static size_t table_slot(const void *memory)
{
	return (size_t)(((uint64_t)(uintptr_t)memory >> 4) * 0x9e3779b97f4a7c15ull >> 20) &
	       (table_room - 1);
}

static size_t table_find(const void *memory)
{
	size_t at = table_slot(memory);

	while (table[at] && table[at]->memory != memory)
		at = (at + 1) & (table_room - 1);
	return at;
}

static void table_grow(void)
{
	struct sim_block **before = table;
	size_t room_before = table_room;

	table_room = table_room ? table_room * 2 : TABLE_ROOM_FIRST;
	table = sim_alloc(table_room * sizeof(struct sim_block *));
	for (size_t i = 0; i < room_before; i++) {
		if (before[i])
			table[table_find(before[i]->memory)] = before[i];
	}
	__real_free(before);
}

static void table_remove(size_t at)
{
	size_t hole = at;

	table_count--;
	for (size_t i = (at + 1) & (table_room - 1); table[i]; i = (i + 1) & (table_room - 1)) {
		size_t home = table_slot(table[i]->memory);

		/* Entries whose home lies behind the hole stay. */
		if (((i - home) & (table_room - 1)) < ((i - hole) & (table_room - 1)))
			continue;
		table[hole] = table[i];
		hole = i;
	}
	table[hole] = NULL;
}

static struct sim_block *block_new(void)
{
	if (list_empty(&spare)) {
		/* Never freed. */
		struct sim_block *blocks = sim_alloc(SPARE_ADDED * sizeof(*blocks));

		for (unsigned i = 0; i < SPARE_ADDED; i++)
			list_push_back(&spare, &blocks[i].node);
	}
	return list_entry(list_pop_front(&spare), struct sim_block, node);
}

static void *block_keep(struct sim_process *process, void *memory, size_t map_bytes)
{
	struct sim_block *block;

	if (!memory || !process)
		return memory;
	if (table_count * 2 >= table_room)
		table_grow();
	block = block_new();
	block->memory = memory;
	block->map_bytes = map_bytes;
	block->process = process;
	list_push_back(&process->allocations, &block->node);
	process->allocation_count++;
	table_count++;
	table[table_find(memory)] = block;
	return memory;
}

/* Returns the owner, NULL: none. */
static struct sim_process *block_forget(const void *memory)
{
	struct sim_process *process;
	struct sim_block *block;
	size_t at;

	if (!memory || table_count == 0)
		return NULL;
	at = table_find(memory);
	block = table[at];
	if (!block)
		return NULL;
	process = block->process;
	table_remove(at);
	process->allocation_count--;
	list_remove(&block->node);
	list_push_front(&spare, &block->node);
	return process;
}

void sim_memory_init(void)
{
	if (json_set_alloc_funcs)
		json_set_alloc_funcs(__wrap_malloc, __wrap_free);
}

void sim_memory_bury(struct sim_process *process)
{
	while (!list_empty(&process->allocations)) {
		struct sim_block *block =
			list_entry(process->allocations.next, struct sim_block, node);
		void *memory = block->memory;
		size_t map_bytes = block->map_bytes;

		block_forget(memory);
		if (map_bytes > 0)
			__real_munmap(memory, map_bytes);
		else
			__real_free(memory);
	}
}

/* ---- what the code under test calls --------------------------------------------------------- */

/* Control reactors end the process when an allocation fails, and code outside of turns cannot
 * report it: never refused there. */
static bool is_refused(struct sim_process *process)
{
	const struct reactor *reactor = reactor_current();

	if (!process || process->refuse_one_in == 0 || !reactor ||
	    reactor->index >= SIM_CONTROL_INDEX || process->is_dying ||
	    !prng_one_in(&process->refuse_prng, process->refuse_one_in))
		return false;
	process->refused++;
	sim_trace(process->sim, "process %s: memory is refused", process->name);
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t len_bytes)
{
	struct sim_process *process = sim_process_current();

	return is_refused(process) ? NULL : block_keep(process, __real_malloc(len_bytes), 0);
}

void *__wrap_calloc(size_t count, size_t len_bytes)
{
	struct sim_process *process = sim_process_current();

	return is_refused(process) ? NULL : block_keep(process, __real_calloc(count, len_bytes), 0);
}

void *__wrap_realloc(void *memory, size_t len_bytes)
{
	struct sim_process *process = sim_process_current();
	void *grown;

	if (is_refused(process))
		return NULL;
	/* Before the old address can be allocated again. */
	if (memory)
		process = block_forget(memory);
	grown = __real_realloc(memory, len_bytes);
	if (!grown && len_bytes > 0)
		block_keep(process, memory, 0);
	return block_keep(process, grown, 0);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t len_bytes)
{
	size_t total;

	if (__builtin_mul_overflow(count, len_bytes, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return __wrap_realloc(memory, total);
}

void *__wrap_aligned_alloc(size_t align_bytes, size_t len_bytes)
{
	struct sim_process *process = sim_process_current();

	if (is_refused(process))
		return NULL;
	return block_keep(process, __real_aligned_alloc(align_bytes, len_bytes), 0);
}

int __wrap_posix_memalign(void **ret_memory, size_t align_bytes, size_t len_bytes)
{
	*ret_memory = __wrap_aligned_alloc(align_bytes, (len_bytes + align_bytes - 1) /
								align_bytes * align_bytes);
	return *ret_memory ? 0 : ENOMEM;
}

static char *text_keep(const char *text, size_t len)
{
	char *copy = __wrap_malloc(len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = 0;
	return copy;
}

char *__wrap_strndup(const char *text, size_t len_bytes)
{
	return text_keep(text, strnlen(text, len_bytes));
}

char *__wrap_strdup(const char *text)
{
	return text_keep(text, strlen(text));
}

int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
{
	struct sim_process *process = sim_process_current();
	int len;

	if (is_refused(process))
		return -1;
	len = __real_vasprintf(ret_text, format, args);
	if (len >= 0)
		block_keep(process, *ret_text, 0);
	return len;
}

int __wrap_asprintf(char **ret_text, const char *format, ...)
{
	va_list args;
	int len;

	va_start(args, format);
	len = __wrap_vasprintf(ret_text, format, args);
	va_end(args);
	return len;
}

int __wrap___vasprintf_chk(char **ret_text, int flag, const char *format, va_list args)
{
	return __wrap_vasprintf(ret_text, format, args);
}

int __wrap___asprintf_chk(char **ret_text, int flag, const char *format, ...)
{
	va_list args;
	int len;

	va_start(args, format);
	len = __wrap_vasprintf(ret_text, format, args);
	va_end(args);
	return len;
}

void __wrap_free(void *memory)
{
	block_forget(memory);
	__real_free(memory);
}

void *__wrap_mmap64(void *at, size_t len_bytes, int prot, int flags, int fd, off_t offset)
{
	struct sim_process *process = sim_process_current();
	void *memory;

	if (is_refused(process))
		return MAP_FAILED;
	memory = __real_mmap64(at, len_bytes, prot, flags, fd, offset);
	/* MAP_FIXED mappings lie inside a mapping that is tracked already. */
	if (memory != MAP_FAILED && !(flags & MAP_FIXED))
		block_keep(process, memory, len_bytes);
	return memory;
}

/* Whole mappings only: no caller unmaps a part. */
int __wrap_munmap(void *at, size_t len_bytes)
{
	block_forget(at);
	return __real_munmap(at, len_bytes);
}
