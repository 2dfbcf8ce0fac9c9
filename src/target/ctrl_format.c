/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which formats of namespaces a controller's host has seen. Written on the controller's reactor by
 * Identify, read by I/O queues on any reactor.
 *
 * A namespace's block size may change while hosts use it. Until a host reads Identify again, its
 * LBAs mean other bytes than it believes. A read or write betrays itself, because its data has the
 * wrong length; Dataset Management, Write Zeroes and their like would erase the wrong blocks and
 * report success. They are answered with Namespace Not Ready, without DNR, until this controller
 * has read the namespace's page (CNS 00h) since the change. The notice of the change
 * (NVMe Base 2.1, section 5.1.2.1) makes hosts do that.
 *
 * Only namespaces that changed since the controller connected are in the table: the others are told
 * apart by their generation alone. Readers never lock: entries are single words, and a table that
 * was outgrown stays until the controller is freed.
 */
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>

#define FORMAT_TABLE_MIN 16 /* entries */

struct format_table {
	struct format_table *older;
	uint32_t room; /* a power of two */
	uint32_t count;
	/* NSID in the upper half, low bits of the generation in the lower; 0: free. */
	_Atomic uint64_t words[];
};

static uint64_t word_of(const struct ns *ns)
{
	return (uint64_t)ns->nsid << 32 | (uint32_t)ns->format_generation;
}

/* The entry of the NSID, or the free one where it belongs: a table is never full. */
static _Atomic uint64_t *table_place(struct format_table *table, uint32_t nsid)
{
	uint32_t at = (nsid * 2654435761u) & (table->room - 1);

	for (;; at = (at + 1) & (table->room - 1)) {
		uint64_t word = atomic_load_explicit(&table->words[at], memory_order_relaxed);

		if (word == 0 || word >> 32 == nsid)
			return &table->words[at];
	}
}

static struct format_table *table_create(uint32_t room)
{
	struct format_table *table = calloc(1, sizeof(*table) + room * sizeof(table->words[0]));

	if (table)
		table->room = room;
	return table;
}

/* At most half of a table is used. NULL: out of memory. */
static struct format_table *table_grow(struct format_table *table)
{
	struct format_table *larger;

	if (table && table->count < table->room / 2)
		return table;
	larger = table_create(table ? table->room * 2 : FORMAT_TABLE_MIN);
	if (!larger)
		return NULL;
	larger->older = table;
	for (uint32_t i = 0; table && i < table->room; i++) {
		uint64_t word = atomic_load_explicit(&table->words[i], memory_order_relaxed);

		if (word != 0)
			atomic_store_explicit(table_place(larger, (uint32_t)(word >> 32)), word,
					      memory_order_relaxed);
	}
	larger->count = table ? table->count : 0;
	return larger;
}

int ctrl_format_note(struct ctrl *ctrl, const struct ns *ns)
{
	struct format_table *table;
	_Atomic uint64_t *place;

	CHECK_OWNER(ctrl);
	/* Reactors swap one after the other. The reactor of an I/O queue may still have the
	 * snapshot before the one that the controller was born under, not an older one. */
	if (ns->format_generation < ctrl->born_generation)
		return 0;
	table = table_grow(atomic_load_explicit(&ctrl->formats, memory_order_relaxed));
	if (!table)
		return -ENOMEM;
	place = table_place(table, ns->nsid);
	table->count += atomic_load_explicit(place, memory_order_relaxed) == 0;
	atomic_store_explicit(place, word_of(ns), memory_order_relaxed);
	atomic_store_explicit(&ctrl->formats, table, memory_order_release);
	return 0;
}

bool ctrl_format_is_noted(const struct ctrl *ctrl, const struct ns *ns)
{
	struct format_table *table = atomic_load_explicit(&ctrl->formats, memory_order_acquire);
	uint64_t word = 0;

	if (table)
		word = atomic_load_explicit(table_place(table, ns->nsid), memory_order_relaxed);
	/* The host may have seen a newer format than this reactor has. */
	return word != 0 ? word == word_of(ns) : ns->format_generation <= ctrl->born_generation;
}

void ctrl_formats_free(struct ctrl *ctrl)
{
	struct format_table *table = atomic_load_explicit(&ctrl->formats, memory_order_relaxed);

	while (table) {
		struct format_table *older = table->older;

		free(table);
		table = older;
	}
}
