/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that a host has marked bad with Write Uncorrectable: sorted, merged ranges of a namespace.
 * NVM Command Set 1.1, section 3.3.7.
 *
 * struct bad_blocks is the truth and belongs to the control reactor (struct ns_live has one per
 * namespace); struct bad_view is an immutable copy of it in a struct ns_view, which reactors
 * search. Reading a bad block fails; a write heals it: once the data is on the medium the mark is
 * taken away, kept, published, and only then the write is answered. A mark that was made after the
 * write had begun stays: who wrote meanwhile may have been followed by others.
 *
 * Marks count in sectors of 512 bytes, in memory and as kept, whatever the namespace's block size:
 * the operator may change `block=` and change it back, at run time or while no target runs, and
 * the marks stay with their bytes. A block is bad when one of its sectors is.
 */
#ifndef WEFT_NS_BAD_BLOCKS_H
#define WEFT_NS_BAD_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BAD_BLOCKS_RANGES_MAX       4096  /* that marking may make */
#define BAD_BLOCKS_RANGES_MAX_SPLIT 65536 /* that healing the middle of ranges may make */
#define BAD_BLOCKS_RECENT           64    /* marks that are told apart from those before them */

struct bad_blocks;
struct bad_view;

#define BAD_SECTOR_SHIFT 9

struct bad_range {
	uint64_t first_sector;
	uint64_t end_sector; /* exclusive */
};

/* The sectors of blocks of this size. */
static inline struct bad_range bad_range_of(uint32_t block_shift, uint64_t first_block,
					    uint64_t block_count)
{
	unsigned shift = block_shift - BAD_SECTOR_SHIFT;

	return (struct bad_range){first_block << shift, (first_block + block_count) << shift};
}

/* ---- the truth: control reactor ---------------------------------------------------------------
 */

/* Empty. NULL when out of memory. */
struct bad_blocks *bad_blocks_create(void);
/* A second one of the same content; `bad` NULL: empty. NULL when out of memory. */
struct bad_blocks *bad_blocks_copy(const struct bad_blocks *bad);
void bad_blocks_destroy(struct bad_blocks *bad);         /* NULL: nothing */
unsigned bad_blocks_count(const struct bad_blocks *bad); /* ranges; `bad` NULL: 0 */
struct bad_range bad_blocks_range(const struct bad_blocks *bad, unsigned index);
/* 0; -ENOSPC: too many ranges; -ENOMEM. On error nothing has changed. sector_count above 0. */
int bad_blocks_mark(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count);
int bad_blocks_heal(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count);
/*
 * The same for marks up to this stamp of a view; those made later stay. -EAGAIN: there were too
 * many to tell. On error the marks of the range may have changed: to be called on a copy.
 */
int bad_blocks_heal_seen(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count,
			 uint64_t stamp);

/* As it is kept. The caller frees it; NULL when out of memory. */
uint8_t *bad_blocks_encode(const struct bad_blocks *bad, size_t *ret_bytes);
/* 0; -EPROTO: makes no sense; -ENOMEM. */
int bad_blocks_decode(const uint8_t *bytes, size_t len_bytes, struct bad_blocks **ret_bad);

/* ---- the view: any reactor --------------------------------------------------------------------
 */

/* For at least one range. NULL when out of memory. */
struct bad_view *bad_view_create(const struct bad_blocks *bad);
void bad_view_free(struct bad_view *view); /* NULL: nothing */
/* How many marks there had been when it was made. */
uint64_t bad_view_stamp(const struct bad_view *view);
/* Whether a sector of the range is bad, and which is the first; `view` NULL: none is. */
bool bad_view_find(const struct bad_view *view, uint64_t first_sector, uint64_t sector_count,
		   uint64_t *ret_bad_sector);
/* The same in blocks of this size. */
bool bad_view_find_block(const struct bad_view *view, uint32_t block_shift, uint64_t first_block,
			 uint64_t block_count, uint64_t *ret_bad_block);

#endif
