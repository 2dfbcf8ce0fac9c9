/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a cache counts as lost; see loss.h. Pure but for the atomics of a namespace.
 *
 * A target that is not clustered is one process: a controller with another boot means that every
 * former boot has ended. Members of a cluster have a boot for each machine: a member's boot has
 * ended when one of the member's addresses reports another boot. Controllers of the former boot may
 * still count as live then. Either they are dead and the loss is not detected yet, or the address
 * has moved to another member. What they acknowledge from then on is judged when the last of them
 * ends.
 *
 * Reporting a loss that did not happen costs a failed flush. Missing a loss costs data. So a cache
 * counts as lost when the evidence is weak, for example when it must make room for another cache.
 */
#include "host/loss.h"

#include <string.h>

_Static_assert(LOSS_CACHES == sizeof(LOSS_CACHE_BITS) * 8, "a bit for each cache");

void loss_raise(_Atomic uint64_t *number, uint64_t to)
{
	uint64_t now = atomic_load_explicit(number, memory_order_relaxed);

	while (now < to && !atomic_compare_exchange_weak_explicit(
				   number, &now, to, memory_order_acq_rel, memory_order_relaxed))
		;
}

bool loss_flush_end(struct loss_ns *ns, uint64_t flush, uint64_t failed, uint64_t *told)
{
	uint64_t losses = atomic_load_explicit(&ns->losses, memory_order_acquire);

	loss_raise(&ns->flushed, flush);
	if (losses <= *told)
		return true;
	*told = losses;
	loss_raise(&ns->told, losses);
	return failed >= atomic_load_explicit(&ns->lost, memory_order_acquire);
}

bool loss_ns_judge(struct loss_ns *ns, LOSS_CACHE_BITS lost)
{
	uint64_t flushed = atomic_load_explicit(&ns->flushed, memory_order_acquire);
	bool is_lost = false;

	for (; lost != 0; lost &= lost - 1) {
		unsigned cache = (unsigned)__builtin_ctz(lost);

		uint64_t acked = atomic_exchange(&ns->acked[cache], 0);

		if (acked > flushed) {
			loss_raise(&ns->lost, acked);
			is_lost = true;
		}
	}
	if (is_lost)
		atomic_fetch_add_explicit(&ns->losses, 1, memory_order_acq_rel);
	return is_lost;
}

void loss_acked_late(struct loss_ns *ns)
{
	loss_raise(&ns->lost, atomic_load_explicit(&ns->begun, memory_order_acquire) + 1);
	atomic_fetch_add_explicit(&ns->losses, 1, memory_order_acq_rel);
}

void loss_repeat(struct loss_ns *ns, uint64_t told_before)
{
	uint64_t now = atomic_load_explicit(&ns->untold, memory_order_relaxed);

	while ((now == 0 || now > told_before + 1) &&
	       !atomic_compare_exchange_weak_explicit(&ns->untold, &now, told_before + 1,
						      memory_order_acq_rel, memory_order_relaxed))
		;
}

uint64_t loss_told(const struct loss_ns *ns, uint64_t *ret_untold)
{
	uint64_t told = atomic_load_explicit(&ns->told, memory_order_acquire);

	*ret_untold = atomic_load_explicit(&ns->untold, memory_order_acquire);
	return *ret_untold != 0 && *ret_untold - 1 < told ? *ret_untold - 1 : told;
}

void loss_told_late(struct loss_ns *ns, uint64_t untold)
{
	if (untold != 0)
		atomic_compare_exchange_strong(&ns->untold, &untold, 0);
}

static struct loss_source *source_find(const struct loss_ns *ns, uint64_t source)
{
	unsigned count = atomic_load_explicit(&ns->source_count, memory_order_acquire);

	for (unsigned i = 0; i < count; i++) {
		if (atomic_load_explicit(&ns->sources[i].source, memory_order_acquire) == source)
			return (struct loss_source *)&ns->sources[i];
	}
	return NULL;
}

bool loss_ns_mark(const struct loss_ns *ns, uint64_t source, uint64_t *ret_mark)
{
	const struct loss_source *entry = source_find(ns, source);

	if (entry != NULL)
		*ret_mark = atomic_load_explicit(&entry->mark, memory_order_acquire);
	return entry != NULL;
}

/* All caches are judged because they share one medium: the cache of a write does not matter. The
 * mark is stored only after it was judged, because a flush may send the stored mark. */
bool loss_ns_see(struct loss_ns *ns, uint64_t source, uint64_t mark)
{
	const LOSS_CACHE_BITS all = ~(LOSS_CACHE_BITS)0;
	struct loss_source *entry = source_find(ns, source);
	unsigned count = atomic_load_explicit(&ns->source_count, memory_order_relaxed);
	bool is_full = count == LOSS_SOURCES;
	bool is_lost;

	if (entry != NULL) {
		if (atomic_load_explicit(&entry->mark, memory_order_relaxed) == mark)
			return false;
		atomic_fetch_add(&ns->seen, 1);
		is_lost = loss_ns_judge(ns, all);
		atomic_store_explicit(&entry->mark, mark, memory_order_release);
		return is_lost;
	}
	/* The source that is evicted can report no comparable mark afterwards, so treat its writes
	 * as lost now. */
	if (is_full)
		atomic_fetch_add(&ns->seen, 1);
	is_lost = is_full && loss_ns_judge(ns, all);
	entry = &ns->sources[is_full ? ns->source_next++ % LOSS_SOURCES : count];
	atomic_store_explicit(&entry->mark, mark, memory_order_release);
	atomic_store_explicit(&entry->source, source, memory_order_release);
	if (!is_full)
		atomic_store_explicit(&ns->source_count, count + 1, memory_order_release);
	return is_lost;
}

static bool boot_is_reported(const struct ctrl_identity *identity)
{
	static const uint8_t none[IDENTIFY_BOOT_BYTES];

	return identity->has_volatile_cache && memcmp(identity->boot, none, sizeof(none)) != 0;
}

/* The cache of the boot, or LOSS_UNKNOWN. */
static unsigned cache_find(const struct loss_book *book, const uint8_t *boot)
{
	for (unsigned i = 1; i < LOSS_CACHES; i++) {
		if (book->caches[i].is_used &&
		    memcmp(book->caches[i].boot, boot, IDENTIFY_BOOT_BYTES) == 0)
			return i;
	}
	return LOSS_UNKNOWN;
}

/* Reports the cache as lost. Without live controllers the entry becomes free for another boot. */
static LOSS_CACHE_BITS cache_end(struct loss_book *book, unsigned cache)
{
	if (book->caches[cache].live == 0) {
		book->caches[cache].is_used = false;
		for (unsigned i = 0; i < LOSS_ADDRS_MAX; i++) {
			if (book->at[i] == cache)
				book->at[i] = LOSS_UNKNOWN;
		}
	}
	return (LOSS_CACHE_BITS)1 << cache;
}

/* Finds an entry for a new boot. LOSS_UNKNOWN: every entry has live controllers. */
static unsigned cache_room(struct loss_book *book, LOSS_CACHE_BITS *lost)
{
	for (unsigned i = 1; i < LOSS_CACHES; i++) {
		if (!book->caches[i].is_used)
			return i;
	}
	for (unsigned i = 1; i < LOSS_CACHES; i++) {
		if (book->caches[i].live == 0) {
			*lost |= cache_end(book, i);
			return i;
		}
	}
	return LOSS_UNKNOWN;
}

static unsigned cache_get(struct loss_book *book, const struct ctrl_identity *identity,
			  LOSS_CACHE_BITS *lost)
{
	unsigned cache = cache_find(book, identity->boot);

	if (cache != LOSS_UNKNOWN)
		return cache;
	cache = cache_room(book, lost);
	if (cache == LOSS_UNKNOWN)
		return cache;
	book->caches[cache] = (struct loss_cache){.is_used = true};
	memcpy(book->caches[cache].boot, identity->boot, IDENTIFY_BOOT_BYTES);
	return cache;
}

/* The target is one process and has another boot now: all other boots have ended. */
static LOSS_CACHE_BITS others_end(struct loss_book *book, unsigned cache)
{
	LOSS_CACHE_BITS lost = 0;

	for (unsigned i = 1; i < LOSS_CACHES; i++) {
		const struct loss_cache *other = &book->caches[i];

		if (i != cache && other->is_used && !other->is_clustered && other->live == 0)
			lost |= cache_end(book, i);
	}
	return lost;
}

unsigned loss_enter(struct loss_book *book, unsigned addr, const struct ctrl_identity *identity,
		    LOSS_CACHE_BITS *ret_lost)
{
	unsigned former, cache;

	*ret_lost = 0;
	/* A target that does not report boots: losses cannot be detected. */
	if (!boot_is_reported(identity))
		return LOSS_UNKNOWN;
	cache = cache_get(book, identity, ret_lost);
	if (cache == LOSS_UNKNOWN)
		return cache;
	former = book->at[addr]; /* read after cache_get, which may have evicted it */
	book->caches[cache].is_clustered = identity->is_clustered;
	book->caches[cache].is_superseded = false; /* the boot has not ended after all */
	book->caches[cache].live++;
	if (former != LOSS_UNKNOWN && former != cache) {
		book->caches[former].is_superseded = true;
		*ret_lost |= cache_end(book, former);
	}
	if (!identity->is_clustered)
		*ret_lost |= others_end(book, cache);
	book->at[addr] = (uint8_t)cache;
	return cache;
}

LOSS_CACHE_BITS loss_leave(struct loss_book *book, unsigned cache)
{
	if (cache == LOSS_UNKNOWN || --book->caches[cache].live > 0 ||
	    !book->caches[cache].is_superseded)
		return 0;
	return cache_end(book, cache);
}

void loss_addr_forget(struct loss_book *book, unsigned addr)
{
	book->at[addr] = LOSS_UNKNOWN;
}
