/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVM command set I/O commands as plain values. NVM Command Set 1.0, section 3.2.
 */
#ifndef WEFT_WIRE_IO_CMD_H
#define WEFT_WIRE_IO_CMD_H

#include "wire/nvme.h"

#include <stdbool.h>

#define NVME_IO_FUA          (1u << 30) /* CDW12 of what reads, writes and copies */
#define NVME_DSM_RANGES_MAX  256
#define NVME_DSM_RANGE_BYTES 16

/* Read, Write, Compare, Write Zeroes. */
struct io_cmd {
	uint64_t first_block;
	uint32_t block_count; /* 1 to 65536 */
	bool is_fua;
	bool is_limited_retry;
	bool wants_deallocate;  /* Write Zeroes: DEAC */
	uint8_t prinfo;         /* 4 bits; of no meaning on a namespace without protection */
	uint8_t directive_type; /* of commands that write */
	uint8_t extension_type; /* CETYPE: such as a key per I/O */
};

void io_cmd_decode(const struct nvme_sqe *sqe, struct io_cmd *ret_cmd);
/* Fills opcode, NSID and CDW10 to CDW12; CID and SGL are the caller's. */
void io_cmd_encode(struct nvme_sqe *sqe, uint8_t opcode, uint32_t nsid, const struct io_cmd *cmd);

/*
 * A Flush to a controller that reports marks of lost writes (wire/identify.h) says which one its
 * host knows, in CDW13 to CDW15, which are reserved: a tag, then the mark. Other controllers get
 * zeroes there.
 */
void flush_mark_encode(struct nvme_sqe *sqe, uint64_t mark);
/* False: the host does not say. */
bool flush_mark_decode(const struct nvme_sqe *sqe, uint64_t *ret_mark);

struct dsm_cmd {
	uint32_t range_count; /* 1 to 256 */
	bool is_deallocate;
};

struct dsm_range {
	uint64_t first_block;
	uint32_t block_count; /* may be 0 */
	uint32_t attributes;
};

void dsm_cmd_decode(const struct nvme_sqe *sqe, struct dsm_cmd *ret_cmd);
void dsm_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct dsm_cmd *cmd);
/* `bytes` has room for NVME_DSM_RANGE_BYTES at index. */
struct dsm_range dsm_range_decode(const uint8_t *bytes, uint32_t index);
void dsm_range_encode(uint8_t *bytes, uint32_t index, const struct dsm_range *range);

#endif
