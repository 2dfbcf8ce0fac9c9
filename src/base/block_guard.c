/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spinning on words of the guard, and memory that is guarded by address. See block_guard.h.
 *
 * Any thread. A holder is inside one copy or one system call that does not block, so a waiter spins
 * only a few times. After that, the waiter yields the CPU, because the holder may have been
 * preempted. A waiting writer sets a bit in the word; readers that come later wait for that writer.
 */
#include "base/block_guard.h"

#include "base/cache_line.h"

#include <sched.h>
#include <string.h>

#define SPINS_BEFORE_YIELD 128

struct block_guard *block_guard_create(void)
{
	return cache_line_alloc(sizeof(struct block_guard));
}

static void spin_pause(unsigned *count)
{
	if (++*count % SPINS_BEFORE_YIELD == 0) {
		sched_yield();
		return;
	}
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void block_guard_spin_shared(atomic_uint *word)
{
	unsigned count = 0;

	while (!block_guard_try_shared(word))
		spin_pause(&count);
}

void block_guard_spin_exclusive(atomic_uint *word)
{
	unsigned count = 0;

	for (;;) {
		unsigned now = atomic_load_explicit(word, memory_order_relaxed);

		if ((now & ~BLOCK_GUARD_WAITERS) == 0) {
			if (atomic_compare_exchange_weak_explicit(word, &now, BLOCK_GUARD_EXCLUSIVE,
								  memory_order_acquire,
								  memory_order_relaxed))
				return;
		} else if (!(now & BLOCK_GUARD_WAITERS)) {
			atomic_compare_exchange_weak_explicit(word, &now, now | BLOCK_GUARD_WAITERS,
							      memory_order_relaxed,
							      memory_order_relaxed);
		}
		spin_pause(&count);
	}
}

/* ---- memory, by address -------------------------------------------------------------------- */

/* Bytes from addr to the end of its granule, at most len_bytes. */
static size_t granule_rest(const void *addr, size_t len_bytes)
{
	size_t rest = BLOCK_GUARD_BYTES - ((uintptr_t)addr & (BLOCK_GUARD_BYTES - 1));

	return rest < len_bytes ? rest : len_bytes;
}

size_t block_guard_take_shared(struct block_guard *guard, const void *addr, size_t len_bytes,
			       bool may_spin)
{
	const uint8_t *at = addr;
	size_t done = 0;

	while (done < len_bytes) {
		atomic_uint *word = block_guard_word_at(guard, at + done);

		if (!block_guard_try_shared(word)) {
			if (done > 0 || !may_spin)
				break;
			block_guard_spin_shared(word);
		}
		done += granule_rest(at + done, len_bytes - done);
	}
	return done;
}

size_t block_guard_take_exclusive(struct block_guard *guard, const void *addr, size_t len_bytes)
{
	const uint8_t *at = addr;
	size_t done = 0;

	while (done < len_bytes) {
		atomic_uint *word = block_guard_word_at(guard, at + done);

		if (!block_guard_try_exclusive(word)) {
			if (done > 0)
				break;
			block_guard_spin_exclusive(word);
		}
		done += granule_rest(at + done, len_bytes - done);
	}
	return done;
}

void block_guard_drop_shared(struct block_guard *guard, const void *addr, size_t len_bytes)
{
	const uint8_t *at = addr;

	for (size_t done = 0; done < len_bytes; done += granule_rest(at + done, len_bytes - done))
		block_guard_release_shared(block_guard_word_at(guard, at + done));
}

void block_guard_drop_exclusive(struct block_guard *guard, const void *addr, size_t len_bytes)
{
	const uint8_t *at = addr;

	for (size_t done = 0; done < len_bytes; done += granule_rest(at + done, len_bytes - done))
		block_guard_release_exclusive(block_guard_word_at(guard, at + done));
}

/* A walk over memory granule by granule; the current granule is held. */
struct walk {
	struct block_guard *guard;
	uint8_t *shared;
	size_t len_bytes;
	size_t at;   /* offset of the current granule in `shared` */
	size_t part; /* bytes of the current granule; 0: no granule is held yet */
};

/* Releases the current granule and takes the next one; false after the last granule. Inline, so
 * that is_exclusive is a constant: this is on the path of each read and write. */
static inline __attribute__((always_inline)) bool walk_next(struct walk *walk, bool is_exclusive)
{
	atomic_uint *word;

	if (walk->part > 0) {
		word = block_guard_word_at(walk->guard, walk->shared + walk->at);
		if (is_exclusive)
			block_guard_release_exclusive(word);
		else
			block_guard_release_shared(word);
		walk->at += walk->part;
	}
	if (walk->at >= walk->len_bytes)
		return false;
	walk->part = granule_rest(walk->shared + walk->at, walk->len_bytes - walk->at);
	word = block_guard_word_at(walk->guard, walk->shared + walk->at);
	if (is_exclusive)
		block_guard_spin_exclusive(word);
	else
		block_guard_spin_shared(word);
	return true;
}

void block_guard_copy_out_held(struct block_guard *guard, void *to, const void *shared,
			       size_t len_bytes)
{
	struct walk walk = {.guard = guard, .shared = (uint8_t *)shared, .len_bytes = len_bytes};

	while (walk_next(&walk, false))
		memcpy((uint8_t *)to + walk.at, walk.shared + walk.at, walk.part);
}

void block_guard_copy_in_held(struct block_guard *guard, void *shared, const void *from,
			      size_t len_bytes)
{
	struct walk walk = {.guard = guard, .shared = shared, .len_bytes = len_bytes};

	while (walk_next(&walk, true))
		memcpy(walk.shared + walk.at, (const uint8_t *)from + walk.at, walk.part);
}

void block_guard_zero(struct block_guard *guard, void *shared, size_t len_bytes)
{
	struct walk walk = {.guard = guard, .shared = shared, .len_bytes = len_bytes};

	if (!guard) {
		memset(shared, 0, len_bytes);
		return;
	}
	while (walk_next(&walk, true))
		memset(walk.shared + walk.at, 0, walk.part);
}

bool block_guard_is_equal(struct block_guard *guard, const void *shared, const void *with,
			  size_t len_bytes)
{
	struct walk walk = {.guard = guard, .shared = (uint8_t *)shared, .len_bytes = len_bytes};
	bool is_equal = true;

	if (!guard)
		return memcmp(shared, with, len_bytes) == 0;
	while (walk_next(&walk, false)) {
		is_equal = memcmp(walk.shared + walk.at, (const uint8_t *)with + walk.at,
				  walk.part) == 0;
		if (!is_equal)
			walk.len_bytes = walk.at + walk.part; /* ends the walk */
	}
	return is_equal;
}
