/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of bad blocks: marking, healing, searching, and the encoding in which they are kept. See
 * bad_blocks.h.
 *
 * Pure except for memory. struct bad_blocks belongs to the control reactor; a view is immutable and
 * may be read anywhere. Every change builds a new array, so a change that fails changes nothing.
 */
#include "ns/bad_blocks.h"

#include "base/check.h"
#include "base/le.h"
#include "base/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_VERSION     2 /* version 1 counted blocks of unknown size */
#define KEPT_HEAD_BYTES  8
#define KEPT_RANGE_BYTES 16

struct bad_blocks {
	struct bad_range *ranges; /* ascending, with gaps between them */
	unsigned count;
	uint64_t stamp;                             /* number of marks so far */
	struct bad_range recent[BAD_BLOCKS_RECENT]; /* the latest marks, by stamp */
};

struct bad_view {
	uint64_t stamp;
	unsigned count;
	struct bad_range ranges[];
};

/* ---- struct bad_blocks ---------------------------------------------------------------------- */

struct bad_blocks *bad_blocks_create(void)
{
	return calloc(1, sizeof(struct bad_blocks));
}

static struct bad_range *ranges_alloc(unsigned count)
{
	return malloc((count > 0 ? count : 1) * sizeof(struct bad_range));
}

struct bad_blocks *bad_blocks_copy(const struct bad_blocks *bad)
{
	struct bad_blocks *copy = bad_blocks_create();

	if (!copy || !bad)
		return copy;
	copy->stamp = bad->stamp;
	memcpy(copy->recent, bad->recent, sizeof(copy->recent));
	if (bad->count == 0)
		return copy;
	copy->ranges = ranges_alloc(bad->count);
	if (!copy->ranges) {
		free(copy);
		return NULL;
	}
	memcpy(copy->ranges, bad->ranges, bad->count * sizeof(*bad->ranges));
	copy->count = bad->count;
	return copy;
}

void bad_blocks_destroy(struct bad_blocks *bad)
{
	if (!bad)
		return;
	free(bad->ranges);
	free(bad);
}

unsigned bad_blocks_count(const struct bad_blocks *bad)
{
	return bad ? bad->count : 0;
}

struct bad_range bad_blocks_range(const struct bad_blocks *bad, unsigned index)
{
	CHECK(index < bad->count);
	return bad->ranges[index];
}

/* Index of the first range that ends after this sector. */
static unsigned ranges_find(const struct bad_range *ranges, unsigned count, uint64_t sector)
{
	return SORTED_PLACE(i, count, ranges[i].end_sector <= sector);
}

/* Replaces ranges [from, to) by the `count` ranges of `with`. 0 or -ENOMEM. */
static int ranges_replace(struct bad_blocks *bad, unsigned from, unsigned to,
			  const struct bad_range *with, unsigned count)
{
	unsigned now = bad->count - (to - from) + count;
	struct bad_range *ranges = ranges_alloc(now);

	if (!ranges)
		return -ENOMEM;
	if (from > 0)
		memcpy(ranges, bad->ranges, from * sizeof(*ranges));
	if (count > 0)
		memcpy(ranges + from, with, count * sizeof(*ranges));
	if (bad->count > to)
		memcpy(ranges + from + count, bad->ranges + to,
		       (bad->count - to) * sizeof(*ranges));
	free(bad->ranges);
	bad->ranges = ranges;
	bad->count = now;
	return 0;
}

static int ranges_mark(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count,
		       unsigned ranges_max)
{
	struct bad_range range = {first_sector, first_sector + sector_count};
	/* Ranges that touch the new one are merged into it. */
	unsigned from =
		ranges_find(bad->ranges, bad->count, first_sector > 0 ? first_sector - 1 : 0);
	unsigned to = from;

	CHECK(sector_count > 0 && range.end_sector > first_sector);
	while (to < bad->count && bad->ranges[to].first_sector <= range.end_sector)
		to++;
	if (to > from) {
		if (bad->ranges[from].first_sector < range.first_sector)
			range.first_sector = bad->ranges[from].first_sector;
		if (bad->ranges[to - 1].end_sector > range.end_sector)
			range.end_sector = bad->ranges[to - 1].end_sector;
	} else if (bad->count >= ranges_max) {
		return -ENOSPC;
	}
	return ranges_replace(bad, from, to, &range, 1);
}

int bad_blocks_mark(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count)
{
	int res = ranges_mark(bad, first_sector, sector_count, BAD_BLOCKS_RANGES_MAX);

	if (res == 0) {
		bad->stamp++;
		bad->recent[bad->stamp % BAD_BLOCKS_RECENT] =
			(struct bad_range){first_sector, first_sector + sector_count};
	}
	return res;
}

int bad_blocks_heal(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count)
{
	uint64_t end_sector = first_sector + sector_count;
	unsigned from = ranges_find(bad->ranges, bad->count, first_sector);
	unsigned to = from;
	struct bad_range left[2];
	unsigned count = 0;

	CHECK(sector_count > 0 && end_sector > first_sector);
	while (to < bad->count && bad->ranges[to].first_sector < end_sector)
		to++;
	if (to == from)
		return 0;
	if (bad->ranges[from].first_sector < first_sector)
		left[count++] = (struct bad_range){bad->ranges[from].first_sector, first_sector};
	if (bad->ranges[to - 1].end_sector > end_sector)
		left[count++] = (struct bad_range){end_sector, bad->ranges[to - 1].end_sector};
	if (count > to - from && bad->count >= BAD_BLOCKS_RANGES_MAX_SPLIT)
		return -ENOSPC;
	return ranges_replace(bad, from, to, left, count);
}

/* Adds to `late` the bad sectors that are in both the mark and the range. */
static int late_add(struct bad_blocks *late, const struct bad_blocks *bad, struct bad_range range,
		    const struct bad_range *mark)
{
	unsigned i;
	int res = 0;

	if (mark->first_sector > range.first_sector)
		range.first_sector = mark->first_sector;
	if (mark->end_sector < range.end_sector)
		range.end_sector = mark->end_sector;
	i = ranges_find(bad->ranges, bad->count, range.first_sector);
	for (; res == 0 && i < bad->count && bad->ranges[i].first_sector < range.end_sector; i++) {
		struct bad_range part = bad->ranges[i];

		if (part.first_sector < range.first_sector)
			part.first_sector = range.first_sector;
		if (part.end_sector > range.end_sector)
			part.end_sector = range.end_sector;
		if (part.end_sector > part.first_sector)
			res = ranges_mark(late, part.first_sector,
					  part.end_sector - part.first_sector,
					  BAD_BLOCKS_RANGES_MAX_SPLIT);
	}
	return res;
}

int bad_blocks_heal_seen(struct bad_blocks *bad, uint64_t first_sector, uint64_t sector_count,
			 uint64_t stamp)
{
	struct bad_range range = {first_sector, first_sector + sector_count};
	struct bad_blocks *late;
	int res = 0;

	if (bad->stamp == stamp)
		return bad_blocks_heal(bad, first_sector, sector_count);
	if (bad->stamp - stamp > BAD_BLOCKS_RECENT)
		return -EAGAIN;
	late = bad_blocks_create();
	if (!late)
		return -ENOMEM;
	while (res == 0 && stamp++ < bad->stamp)
		res = late_add(late, bad, range, &bad->recent[stamp % BAD_BLOCKS_RECENT]);
	if (res == 0)
		res = bad_blocks_heal(bad, first_sector, sector_count);
	for (unsigned i = 0; res == 0 && i < late->count; i++)
		res = ranges_mark(bad, late->ranges[i].first_sector,
				  late->ranges[i].end_sector - late->ranges[i].first_sector,
				  BAD_BLOCKS_RANGES_MAX_SPLIT);
	bad_blocks_destroy(late);
	return res;
}

/* ---- encoding: version, number of ranges, then first and end sector of each ----------------- */

static void put64(uint8_t *bytes, uint64_t value)
{
	le64 raw = le64_of(value);

	memcpy(bytes, &raw, sizeof(raw));
}

static uint64_t get64(const uint8_t *bytes)
{
	le64 raw;

	memcpy(&raw, bytes, sizeof(raw));
	return le64_get(raw);
}

uint8_t *bad_blocks_encode(const struct bad_blocks *bad, size_t *ret_bytes)
{
	size_t len_bytes = KEPT_HEAD_BYTES + (size_t)bad->count * KEPT_RANGE_BYTES;
	uint8_t *bytes = malloc(len_bytes);

	if (!bytes)
		return NULL;
	put64(bytes, (uint64_t)KEPT_VERSION << 56 | bad->count);
	for (unsigned i = 0; i < bad->count; i++) {
		uint8_t *at = bytes + KEPT_HEAD_BYTES + (size_t)i * KEPT_RANGE_BYTES;

		put64(at, bad->ranges[i].first_sector);
		put64(at + 8, bad->ranges[i].end_sector);
	}
	*ret_bytes = len_bytes;
	return bytes;
}

int bad_blocks_decode(const uint8_t *bytes, size_t len_bytes, struct bad_blocks **ret_bad)
{
	struct bad_blocks *bad;
	uint64_t count, before = 0;

	if (len_bytes < KEPT_HEAD_BYTES || get64(bytes) >> 56 != KEPT_VERSION)
		return -EPROTO;
	count = get64(bytes) & ~(0xffull << 56);
	if (count > BAD_BLOCKS_RANGES_MAX_SPLIT ||
	    len_bytes != KEPT_HEAD_BYTES + count * KEPT_RANGE_BYTES)
		return -EPROTO;
	bad = bad_blocks_create();
	if (bad)
		bad->ranges = ranges_alloc((unsigned)count);
	if (!bad || !bad->ranges) {
		bad_blocks_destroy(bad);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *at = bytes + KEPT_HEAD_BYTES + i * KEPT_RANGE_BYTES;
		struct bad_range range = {get64(at), get64(at + 8)};

		if (range.end_sector <= range.first_sector ||
		    (i > 0 && range.first_sector <= before)) {
			bad_blocks_destroy(bad);
			return -EPROTO;
		}
		before = range.end_sector;
		bad->ranges[bad->count++] = range;
	}
	*ret_bad = bad;
	return 0;
}

/* ---- the view ------------------------------------------------------------------------------- */

struct bad_view *bad_view_create(const struct bad_blocks *bad)
{
	struct bad_view *view =
		malloc(sizeof(*view) + (size_t)bad->count * sizeof(view->ranges[0]));

	CHECK(bad->count > 0);
	if (!view)
		return NULL;
	view->stamp = bad->stamp;
	view->count = bad->count;
	memcpy(view->ranges, bad->ranges, bad->count * sizeof(view->ranges[0]));
	return view;
}

void bad_view_free(struct bad_view *view)
{
	free(view);
}

uint64_t bad_view_stamp(const struct bad_view *view)
{
	return view->stamp;
}

bool bad_view_find(const struct bad_view *view, uint64_t first_sector, uint64_t sector_count,
		   uint64_t *ret_bad_sector)
{
	unsigned at;

	if (!view || sector_count == 0)
		return false;
	at = ranges_find(view->ranges, view->count, first_sector);
	if (at == view->count || view->ranges[at].first_sector >= first_sector + sector_count)
		return false;
	*ret_bad_sector = view->ranges[at].first_sector > first_sector
				  ? view->ranges[at].first_sector
				  : first_sector;
	return true;
}

bool bad_view_find_block(const struct bad_view *view, uint32_t block_shift, uint64_t first_block,
			 uint64_t block_count, uint64_t *ret_bad_block)
{
	struct bad_range range = bad_range_of(block_shift, first_block, block_count);
	uint64_t sector;

	if (!bad_view_find(view, range.first_sector, range.end_sector - range.first_sector,
			   &sector))
		return false;
	*ret_bad_block = sector >> (block_shift - BAD_SECTOR_SHIFT);
	return true;
}
