/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds of block ranges, with waiting. See range_guard.h for the idea.
 *
 * Runs on any reactor. A word whose BLOCK_GUARD_WAITERS bit is set is taken only under the lock of
 * its bucket, for the hold that has waited longest. The last hold to drop the word sees the bit,
 * hands the word over and posts to the new holder's reactor, which continues with the next granule.
 * Without waiters no lock is taken.
 */
#include "reactor/range_guard.h"

#include "base/block_guard.h"
#include "base/cache_line.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 64
#define GATE    RANGE_GUARD_WORDS /* the word of the gate, behind those of the granules */

struct bucket {
	/* A spin lock in the format of a table's word, always exclusive. Held for a few
	 * instructions. */
	atomic_uint lock;
	struct list waiting; /* holds that wait for a word of this bucket, oldest first */
};

struct range_table {
	_Alignas(CACHE_LINE_BYTES) atomic_uint words[RANGE_GUARD_WORDS + 1];
	struct bucket buckets[BUCKETS];
};

struct range_guard {
	atomic_uint refs;
	/* NULL until the first command needs the table, and then always the same. */
	struct range_table *_Atomic table;
};

/* The common table of guards that got no memory for their own: their commands may wait for each
 * other's media. */
static struct range_table spare_table;
static pthread_once_t spare_once = PTHREAD_ONCE_INIT;

static void table_init(struct range_table *table)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		list_init(&table->buckets[i].waiting);
}

static void spare_init(void)
{
	table_init(&spare_table);
}

/* Several reactors may come here at the same time. The first one to set the table wins. */
static __attribute__((noinline)) struct range_table *guard_make_table(struct range_guard *guard)
{
	struct range_table *made = cache_line_alloc(sizeof(*made)), *found = NULL;

	if (made) {
		table_init(made);
	} else {
		pthread_once(&spare_once, spare_init);
		made = &spare_table;
	}
	if (atomic_compare_exchange_strong(&guard->table, &found, made))
		return made;
	if (made != &spare_table)
		free(made);
	return found;
}

static inline struct range_table *guard_table(struct range_guard *guard)
{
	struct range_table *table = atomic_load_explicit(&guard->table, memory_order_acquire);

	return table ? table : guard_make_table(guard);
}

struct range_guard *range_guard_create(void)
{
	struct range_guard *guard = calloc(1, sizeof(*guard));

	if (guard)
		atomic_init(&guard->refs, 1);
	return guard;
}

struct range_guard *range_guard_get(struct range_guard *guard)
{
	atomic_fetch_add(&guard->refs, 1);
	return guard;
}

bool range_guard_put(struct range_guard *guard)
{
	struct range_table *table;

	if (atomic_fetch_sub(&guard->refs, 1) != 1)
		return false;
	table = atomic_load(&guard->table);
	if (table && table != &spare_table) {
		for (unsigned i = 0; i < BUCKETS; i++)
			CHECK(list_empty(&table->buckets[i].waiting));
		free(table);
	}
	free(guard);
	return true;
}

/* ---- one word ------------------------------------------------------------------------------ */

/* The word of the nth granule. Words are taken in ascending order, also when the range wraps. */
static uint32_t hold_word(const struct range_hold *hold, uint32_t nth)
{
	return nth < hold->wrapped ? nth : hold->first + nth - hold->wrapped;
}

static struct bucket *bucket_of(struct range_table *table, uint32_t word)
{
	return &table->buckets[word % BUCKETS];
}

/* Takes the word if its holders allow it, whether or not other holds wait for the word. */
static bool word_try(atomic_uint *word, bool is_exclusive)
{
	unsigned now = atomic_load_explicit(word, memory_order_relaxed);
	unsigned next;

	do {
		if (is_exclusive ? (now & ~BLOCK_GUARD_WAITERS) != 0
				 : (now & BLOCK_GUARD_EXCLUSIVE) != 0)
			return false;
		next = is_exclusive ? now | BLOCK_GUARD_EXCLUSIVE : now + 1;
	} while (!atomic_compare_exchange_weak_explicit(word, &now, next, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

static void hold_go_on(struct reactor_msg *msg);

_Static_assert((RANGE_GUARD_MAX_BYTES >> BLOCK_GUARD_SHIFT) + 1 <= RANGE_GUARD_WORDS,
	       "a range uses no word twice");

/* Gives the word to the waiting holds that can have it now, in order of arrival. The caller holds
 * the lock of the bucket. */
static void bucket_hand_over(struct range_table *table, struct bucket *bucket, uint32_t index)
{
	atomic_uint *word = &table->words[index];
	bool has_waiters = false;

	list_for_each_safe(node, &bucket->waiting) {
		struct range_hold *hold = list_entry(node, struct range_hold, node);

		if (hold->awaited != index)
			continue;
		if (!word_try(word, hold->is_exclusive)) {
			has_waiters = true;
			break;
		}
		list_remove(&hold->node);
		hold->taken++;
		reactor_post(hold->reactor, &hold->msg, hold_go_on);
	}
	if (!has_waiters)
		atomic_fetch_and_explicit(word, ~BLOCK_GUARD_WAITERS, memory_order_relaxed);
}

/*
 * Queues the hold for the word. Returns false when the word turned out to be free and was taken.
 * Once the WAITERS bit is set, no hold can overtake this one. The last hold to drop the word must
 * first take the bucket's lock, which this function holds.
 */
static bool word_wait(struct range_hold *hold, uint32_t index)
{
	struct bucket *bucket = bucket_of(hold->table, index);
	atomic_uint *word = &hold->table->words[index];
	unsigned now;

	hold->awaited = index;
	block_guard_spin_exclusive(&bucket->lock);
	now = atomic_load_explicit(word, memory_order_relaxed);
	for (;;) {
		unsigned busy =
			hold->is_exclusive ? ~0u : BLOCK_GUARD_EXCLUSIVE | BLOCK_GUARD_WAITERS;
		bool is_free = (now & busy) == 0;
		unsigned next = !is_free             ? now | BLOCK_GUARD_WAITERS
				: hold->is_exclusive ? BLOCK_GUARD_EXCLUSIVE
						     : now + 1;

		if (!atomic_compare_exchange_weak_explicit(word, &now, next, memory_order_acquire,
							   memory_order_relaxed))
			continue;
		if (!is_free)
			list_push_back(&bucket->waiting, &hold->node);
		block_guard_release_exclusive(&bucket->lock);
		return !is_free;
	}
}

static void word_drop(struct range_table *table, uint32_t index, bool is_exclusive)
{
	atomic_uint *word = &table->words[index];
	struct bucket *bucket;

	if (is_exclusive ? !block_guard_release_exclusive(word) : !block_guard_release_shared(word))
		return;
	bucket = bucket_of(table, index);
	block_guard_spin_exclusive(&bucket->lock);
	bucket_hand_over(table, bucket, index);
	block_guard_release_exclusive(&bucket->lock);
}

bool range_guard_try_gate(struct range_guard *guard)
{
	return block_guard_try_shared(&guard_table(guard)->words[GATE]);
}

void range_guard_drop_gate(struct range_guard *guard)
{
	word_drop(guard_table(guard), GATE, false);
}

/* ---- holds --------------------------------------------------------------------------------- */

/* Takes the remaining granules. Returns true when all are taken. Returns false when the hold waits;
 * another reactor may then already be changing the hold. */
static inline bool hold_take_rest(struct range_hold *hold)
{
	while (hold->taken < hold->count) {
		uint32_t index = hold_word(hold, hold->taken);
		atomic_uint *word = &hold->table->words[index];

		if (!(hold->is_exclusive ? block_guard_try_exclusive(word)
					 : block_guard_try_shared(word)) &&
		    word_wait(hold, index))
			return false;
		hold->taken++;
	}
	hold->state = RANGE_HOLD_HELD;
	return true;
}

static inline void hold_drop_taken(struct range_hold *hold)
{
	for (uint32_t i = 0; i < hold->taken; i++)
		word_drop(hold->table, hold_word(hold, i), hold->is_exclusive);
	hold->state = RANGE_HOLD_NONE;
}

/* On the holder's reactor: another reactor has handed over one more granule. */
static void hold_go_on(struct reactor_msg *msg)
{
	struct range_hold *hold = container_of(msg, struct range_hold, msg);

	if (hold->is_cancelled)
		hold_drop_taken(hold);
	else if (!hold_take_rest(hold))
		return;
	hold->granted(hold);
}

/* The caller has set the words of the hold. */
static inline bool hold_begin(struct range_hold *hold, struct range_guard *guard)
{
	CHECK(hold->state == RANGE_HOLD_NONE);
	hold->table = guard_table(guard);
	hold->taken = 0;
	hold->is_cancelled = false;
	hold->reactor = reactor_current();
	/* Set before the hold is on a list: from then on other reactors may hand a word to the
	 * hold. */
	hold->state = RANGE_HOLD_WAITING;
	return hold_take_rest(hold);
}

bool range_hold_take(struct range_hold *hold, struct range_guard *guard, uint64_t offset,
		     uint64_t len_bytes)
{
	uint64_t first = offset >> BLOCK_GUARD_SHIFT;
	uint64_t last = (offset + len_bytes - 1) >> BLOCK_GUARD_SHIFT;
	uint32_t end;

	CHECK(len_bytes > 0 && len_bytes <= RANGE_GUARD_MAX_BYTES);
	hold->first = (uint32_t)(first % RANGE_GUARD_WORDS);
	hold->count = (uint32_t)(last - first + 1);
	end = hold->first + hold->count;
	hold->wrapped = end > RANGE_GUARD_WORDS ? (uint16_t)(end - RANGE_GUARD_WORDS) : 0;
	return hold_begin(hold, guard);
}

bool range_hold_take_gate(struct range_hold *hold, struct range_guard *guard)
{
	hold->first = GATE;
	hold->count = 1;
	hold->wrapped = 0;
	return hold_begin(hold, guard);
}

bool range_hold_cancel(struct range_hold *hold)
{
	struct bucket *bucket = bucket_of(hold->table, hold->awaited);
	bool was_waiting;

	CHECK(hold->state == RANGE_HOLD_WAITING);
	block_guard_spin_exclusive(&bucket->lock);
	was_waiting = list_linked(&hold->node);
	if (was_waiting) {
		list_remove(&hold->node);
		/* Holds behind this one may have waited only for this one. */
		bucket_hand_over(hold->table, bucket, hold->awaited);
	}
	block_guard_release_exclusive(&bucket->lock);
	if (was_waiting)
		hold_drop_taken(hold);
	else
		hold->is_cancelled = true;
	return was_waiting;
}

void range_hold_drop(struct range_hold *hold)
{
	if (hold->state == RANGE_HOLD_HELD)
		hold_drop_taken(hold);
}
