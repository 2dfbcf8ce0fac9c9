/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block status of an NBD export: converts the controller's list of allocated blocks to the extents
 * of a reply. Pure; no thread of its own. NBD doc/proto.md, "base:allocation"; NVM Command Set 1.1,
 * section 4.2.1.
 *
 * A hole is reported only where the controller has looked and listed nothing. If the list ends
 * early, so does the reply. With an invalid list everything is reported as data.
 */
#include "attach/nbd_proto.h"

#include "wire/lba_status.h"

struct extents {
	uint8_t *bytes;
	unsigned count;
	uint32_t length; /* of the last extent, which is not encoded yet */
	uint32_t state;
};

static void extents_put(struct extents *extents)
{
	if (extents->length > 0)
		nbd_extent_encode(extents->bytes + extents->count++ * NBD_EXTENT_BYTES,
				  extents->length, extents->state);
	extents->length = 0;
}

static void extents_add(struct extents *extents, uint64_t length, uint32_t state)
{
	if (length == 0)
		return;
	if (extents->state != state)
		extents_put(extents);
	extents->state = state;
	extents->length += (uint32_t)length;
}

/* Whether the runs are in ascending order and do not overlap. */
static bool list_is_good(const uint8_t *list, uint32_t count)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct lba_status_run run = lba_status_run_decode(list, i);

		if (run.first_block < end || run.block_count > UINT64_MAX - run.first_block)
			return false;
		end = run.first_block + run.block_count;
	}
	return true;
}

/* Byte offset of a block, at most `most`. */
static uint64_t byte_of(uint64_t block, uint32_t block_bytes, uint64_t most)
{
	return block > most / block_bytes ? most : block * block_bytes;
}

unsigned nbd_status_fill(const struct nbd_request *request, uint32_t block_bytes,
			 const uint8_t *list, size_t list_bytes, uint8_t *to)
{
	const uint32_t hole = NBD_STATE_HOLE | NBD_STATE_ZERO;
	uint64_t at = request->offset, end = request->offset + request->length;
	struct extents extents = {.bytes = to};
	struct lba_status_list head = {.end = LBA_STATUS_FULL};

	if (list != NULL)
		lba_status_list_decode(list, list_bytes, &head);
	if (list != NULL && list_is_good(list, head.count)) {
		for (uint32_t i = 0; i < head.count && at < end; i++) {
			struct lba_status_run run = lba_status_run_decode(list, i);
			uint64_t from = byte_of(run.first_block, block_bytes, end);
			uint64_t until =
				byte_of(run.first_block + run.block_count, block_bytes, end);

			if (until <= at)
				continue;
			if (from > at) {
				extents_add(&extents, from - at, hole);
				at = from;
			}
			extents_add(&extents, until - at, 0);
			at = until;
		}
		if (head.end == LBA_STATUS_DONE)
			extents_add(&extents, end - at, hole);
	}
	extents_put(&extents);
	if (extents.count == 0) {
		extents_add(&extents, request->length, 0);
		extents_put(&extents);
	}
	return request->flags & NBD_CMD_FLAG_REQ_ONE ? 1 : extents.count;
}
