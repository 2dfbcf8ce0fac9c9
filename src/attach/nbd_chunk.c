/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NBD structured replies: every reply is one chunk, which is also the last one. Pure; no thread of
 * its own. NBD doc/proto.md, "Structured reply chunk message" and "Metadata querying".
 *
 * A read is answered with one chunk, data or hole. The flag DF asks for exactly that, so DF changes
 * nothing. base:allocation is the only context.
 */
#include "attach/nbd_be.h"
#include "attach/nbd_proto.h"

#define CHUNK_MAGIC 0x668e33efu
#define FLAG_DONE   (1 << 0)

enum chunk_type {
	CHUNK_OFFSET_DATA = 1,
	CHUNK_OFFSET_HOLE = 2,
	CHUNK_BLOCK_STATUS = 5,
	CHUNK_ERROR = (1 << 15) + 1,
};

static void chunk_encode(uint8_t *bytes, enum chunk_type type, uint64_t cookie, uint32_t length)
{
	nbd_put_u32(bytes, CHUNK_MAGIC);
	nbd_put_u16(bytes + 4, FLAG_DONE);
	nbd_put_u16(bytes + 6, (uint16_t)type);
	nbd_put_u64(bytes + 8, cookie);
	nbd_put_u32(bytes + 16, length);
}

size_t nbd_chunk_data(uint8_t bytes[NBD_HEADER_MAX_BYTES], const struct nbd_request *request)
{
	chunk_encode(bytes, CHUNK_OFFSET_DATA, request->cookie, 8 + request->length);
	nbd_put_u64(bytes + NBD_CHUNK_BYTES, request->offset);
	return NBD_CHUNK_BYTES + 8;
}

size_t nbd_chunk_hole(uint8_t bytes[NBD_HEADER_MAX_BYTES], const struct nbd_request *request)
{
	chunk_encode(bytes, CHUNK_OFFSET_HOLE, request->cookie, 12);
	nbd_put_u64(bytes + NBD_CHUNK_BYTES, request->offset);
	nbd_put_u32(bytes + NBD_CHUNK_BYTES + 8, request->length);
	return NBD_CHUNK_BYTES + 12;
}

size_t nbd_chunk_error(uint8_t bytes[NBD_HEADER_MAX_BYTES], uint64_t cookie, enum nbd_error error)
{
	chunk_encode(bytes, CHUNK_ERROR, cookie, 6);
	nbd_put_u32(bytes + NBD_CHUNK_BYTES, error);
	nbd_put_u16(bytes + NBD_CHUNK_BYTES + 4, 0);
	return NBD_CHUNK_BYTES + 6;
}

size_t nbd_chunk_status(uint8_t bytes[NBD_HEADER_MAX_BYTES], uint64_t cookie, unsigned extent_count)
{
	chunk_encode(bytes, CHUNK_BLOCK_STATUS, cookie, 4 + extent_count * NBD_EXTENT_BYTES);
	nbd_put_u32(bytes + NBD_CHUNK_BYTES, NBD_CONTEXT_ALLOCATION);
	return NBD_CHUNK_BYTES + 4;
}

void nbd_extent_encode(uint8_t bytes[NBD_EXTENT_BYTES], uint32_t length, uint32_t state)
{
	nbd_put_u32(bytes, length);
	nbd_put_u32(bytes + 4, state);
}
