/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of reader/writer locks, one word each, for granules of 4 KiB. Any thread.
 *
 * A granule is named by a 64-bit key. Consecutive keys use consecutive words, so that a range of up
 * to BLOCK_GUARD_WORDS keys never uses a word twice, and a long range touches few cache lines. Two
 * keys may share a word, which costs time but is always correct. Granules of memory are named by
 * their address (the functions with `addr`), others by an offset of the user's choice plus the
 * granule's number. The two kinds must not share a table: holds of memory last one copy or one
 * system call, and waiters spin for them.
 *
 * Rules against deadlock: a thread that spins holds nothing in the table. A thread takes a prefix
 * of its range: it spins for the first granule and takes the following ones as far as they are
 * free. The rest of the range is taken later.
 */
#ifndef WEFT_BASE_BLOCK_GUARD_H
#define WEFT_BASE_BLOCK_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BLOCK_GUARD_SHIFT 12
#define BLOCK_GUARD_BYTES (1u << BLOCK_GUARD_SHIFT)
#define BLOCK_GUARD_WORDS (1u << 16)

/* A word: the number of readers, a bit for a writer, a bit for waiters. New readers wait while the
 * waiters bit is set, so that writers do not starve. */
#define BLOCK_GUARD_EXCLUSIVE (1u << 31)
#define BLOCK_GUARD_WAITERS   (1u << 30)

struct block_guard {
	_Alignas(64) atomic_uint words[BLOCK_GUARD_WORDS];
};

/* Returns NULL when out of memory. Freed with free(). */
struct block_guard *block_guard_create(void);

static inline atomic_uint *block_guard_word(struct block_guard *guard, uint64_t key)
{
	return &guard->words[key % BLOCK_GUARD_WORDS];
}

static inline bool block_guard_try_shared(atomic_uint *word)
{
	unsigned now = atomic_load_explicit(word, memory_order_relaxed);

	do {
		if (now & (BLOCK_GUARD_EXCLUSIVE | BLOCK_GUARD_WAITERS))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(word, &now, now + 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

static inline bool block_guard_try_exclusive(atomic_uint *word)
{
	unsigned expected = 0;

	return atomic_compare_exchange_strong_explicit(word, &expected, BLOCK_GUARD_EXCLUSIVE,
						       memory_order_acquire, memory_order_relaxed);
}

/* Returns true when the word has no holder left and has a waiter. */
static inline bool block_guard_release_shared(atomic_uint *word)
{
	return atomic_fetch_sub_explicit(word, 1, memory_order_release) ==
	       (BLOCK_GUARD_WAITERS | 1);
}

static inline bool block_guard_release_exclusive(atomic_uint *word)
{
	return (atomic_fetch_and_explicit(word, ~BLOCK_GUARD_EXCLUSIVE, memory_order_release) &
		BLOCK_GUARD_WAITERS) != 0;
}

/* Spin until the word is taken. Only for tables whose holds are short. The caller holds nothing in
 * the table. */
void block_guard_spin_shared(atomic_uint *word);
void block_guard_spin_exclusive(atomic_uint *word);

/* ---- memory, by address -------------------------------------------------------------------- */

static inline atomic_uint *block_guard_word_at(struct block_guard *guard, const void *addr)
{
	return block_guard_word(guard, (uintptr_t)addr >> BLOCK_GUARD_SHIFT);
}

static inline void block_guard_prefetch(struct block_guard *guard, const void *addr)
{
	__builtin_prefetch(block_guard_word_at(guard, addr), 1);
}

/*
 * Takes memory from addr on. Returns the number of bytes taken: len_bytes, or fewer, up to the end
 * of a granule. Spins for the first granule, unless may_spin is false: then 0 is possible.
 */
size_t block_guard_take_shared(struct block_guard *guard, const void *addr, size_t len_bytes,
			       bool may_spin);
size_t block_guard_take_exclusive(struct block_guard *guard, const void *addr, size_t len_bytes);
/* Release; len_bytes is what the take returned. */
void block_guard_drop_shared(struct block_guard *guard, const void *addr, size_t len_bytes);
void block_guard_drop_exclusive(struct block_guard *guard, const void *addr, size_t len_bytes);

/* Copies with `shared` guarded granule by granule; the other memory is private. */
void block_guard_copy_out_held(struct block_guard *guard, void *to, const void *shared,
			       size_t len_bytes);
void block_guard_copy_in_held(struct block_guard *guard, void *shared, const void *from,
			      size_t len_bytes);

/* Same for the following four functions, where guard may be NULL: no other thread touches
 * `shared`. */
static inline void block_guard_copy_out(struct block_guard *guard, void *to, const void *shared,
					size_t len_bytes)
{
	if (guard)
		block_guard_copy_out_held(guard, to, shared, len_bytes);
	else
		memcpy(to, shared, len_bytes);
}

static inline void block_guard_copy_in(struct block_guard *guard, void *shared, const void *from,
				       size_t len_bytes)
{
	if (guard)
		block_guard_copy_in_held(guard, shared, from, len_bytes);
	else
		memcpy(shared, from, len_bytes);
}

void block_guard_zero(struct block_guard *guard, void *shared, size_t len_bytes);
bool block_guard_is_equal(struct block_guard *guard, const void *shared, const void *with,
			  size_t len_bytes);

#endif
