/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the raw ceiling: as many as NVMe/TCP transfers for the same work, with only the
 * fields that a server needs to find the block. A request is as long as a command capsule (72
 * bytes, then the data of a write), an answer as long as a C2HData header or a response capsule (24
 * bytes, then the data of a read). Both ends run on one machine, so fields are in its byte order.
 */
#ifndef WEFT_BENCH_ECHO_WIRE_H
#define WEFT_BENCH_ECHO_WIRE_H

#include <stdint.h>

#define ECHO_MAGIC        0x6f686365u
#define ECHO_DEPTH_MAX    1024          /* requests in flight per connection */
#define ECHO_IO_MAX_BYTES (1024 * 1024) /* data of one request */
#define ECHO_BULK_BYTES   (256 * 1024)  /* one receive */

enum echo_op {
	ECHO_READ = 1,
	ECHO_WRITE = 2,
};

struct echo_request {
	uint32_t magic;
	uint32_t op;
	uint32_t tag; /* comes back in the answer */
	uint32_t len_bytes;
	uint64_t offset;
	uint8_t rest[48];
};

struct echo_response {
	uint32_t magic;
	uint32_t op;
	uint32_t tag;
	uint32_t len_bytes; /* of the request; a read's data follows */
	uint64_t offset;
};

_Static_assert(sizeof(struct echo_request) == 72, "a command capsule");
_Static_assert(sizeof(struct echo_response) == 24, "a C2HData header, a response capsule");

/*
 * The contents of the memory, for --verify: initially the byte of its own offset, its inverse after
 * a verifying client wrote.
 */
static inline uint8_t echo_pattern(uint64_t offset)
{
	return (uint8_t)((offset & ~7ull) >> ((offset & 7) * 8));
}

static inline uint8_t echo_pattern_written(uint64_t offset)
{
	return echo_pattern(offset) ^ 0xff;
}

#endif
