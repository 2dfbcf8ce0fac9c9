/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that a host has marked bad by Write Uncorrectable: sorted, merged ranges of a namespace.
 * NVM Command Set 1.1, section 3.3.7.
 *
 * struct bad_blocks is authoritative and belongs to the control reactor (one per struct ns_live).
 * struct bad_view is an immutable copy in a struct ns_view, which reactors search. Reading a bad
 * block fails. A write heals the block: once the data is on the medium, the mark is removed, the
 * change is kept and published, and then the write is answered. A mark made after the write began
 * stays, because it may belong to a later command.
 *
 * Marks count sectors of 512 bytes, in memory and as kept, whatever the block size: the operator
 * may change `block=` and change it back, and the marks stay with their bytes. A block is bad when
 * one of its sectors is.
 */
#ifndef WEFT_NS_BAD_BLOCKS_H
#define WEFT_NS_BAD_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BAD_BLOCKS_RANGES_MAX       4096  /* limit for marking */
#define BAD_BLOCKS_RANGES_MAX_SPLIT 65536 /* limit for healing, which may split ranges */
#define BAD_BLOCKS_RECENT           64 /* number of latest marks that are remembered one by one */

struct bad_blocks;
struct bad_view;

#define BAD_SECTOR_SHIFT 9

struct bad_range {
	uint64_t first_sector;
	uint64_t end_sector; /* exclusive */
};

/* Converts blocks of 2^block_shift bytes to sectors. */
static inline struct bad_range bad_range_of(uint32_t block_shift, uint64_t first_block,
					    uint64_t block_count)
{
	unsigned shift = block_shift - BAD_SECTOR_SHIFT;

	return (struct bad_range){first_block << shift, (first_block + block_count) << shift};
}

/* ---- struct bad_blocks: control reactor ----------------------------------------------------- */

/* Creates an empty set. NULL: out of memory. */
struct bad_blocks *bad_blocks_create(void);
/* Copies `bad`; NULL: an empty set. NULL: out of memory. */
struct bad_blocks *bad_blocks_copy(const struct bad_blocks *bad);
void bad_blocks_destroy(struct bad_blocks *bad);         /* NULL is allowed */
unsigned bad_blocks_count(const struct bad_blocks *bad); /* number of ranges; `bad` NULL: 0 */
struct bad_range bad_blocks_range(const struct bad_blocks *bad, unsigned index);
/* Marks or heals sectors; sector_count above 0. 0, -ENOSPC (too many ranges) or -ENOMEM. An error
 * changes nothing. */
int bad_blocks_mark(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count);
int bad_blocks_heal(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count);
/*
 * Heals only marks up to this stamp of a view; later marks stay. -EAGAIN: too many later marks to
 * distinguish. An error may leave the range partly changed, so call this on a copy.
 */
int bad_blocks_heal_seen(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count,
			 uint64_t stamp);

/* Encodes for the keeper. The caller frees the result. NULL: out of memory. */
uint8_t *bad_blocks_encode(const struct bad_blocks *bad, size_t *ret_bytes);
/* 0, -EPROTO (invalid) or -ENOMEM. */
int bad_blocks_decode(const uint8_t *bytes, size_t len_bytes, struct bad_blocks **ret_bad);

/* ---- the view: any reactor ------------------------------------------------------------------ */

/* Copies `bad`, which must have at least one range. NULL: out of memory. */
struct bad_view *bad_view_create(const struct bad_blocks *bad);
void bad_view_free(struct bad_view *view); /* NULL is allowed */
/* Number of marks made before the view was created. */
uint64_t bad_view_stamp(const struct bad_view *view);
/* Whether a sector of the range is bad; fills in the first one. `view` NULL: no sector is bad. */
bool bad_view_find(const struct bad_view *view, uint64_t first_sector, uint64_t sector_count,
		   uint64_t *ret_bad_sector);
/* As bad_view_find, with the range and the result in blocks of 2^block_shift bytes. */
bool bad_view_find_block(const struct bad_view *view, uint32_t block_shift, uint64_t first_block,
			 uint64_t block_count, uint64_t *ret_bad_block);

#endif
