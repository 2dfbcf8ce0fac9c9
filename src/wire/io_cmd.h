/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVM command set I/O commands as plain values. NVM Command Set 1.1, section 3.3.
 */
#ifndef WEFT_WIRE_IO_CMD_H
#define WEFT_WIRE_IO_CMD_H

#include "wire/nvme.h"

#include <stdbool.h>

#define NVME_IO_FUA          (1u << 30) /* CDW12 of commands that read, write or copy */
#define NVME_IO_LR           (1u << 31) /* CDW12: limited retry */
#define NVME_DSM_RANGES_MAX  256
#define NVME_DSM_RANGE_BYTES 16

/* Fields of CDW12. */
enum io_cdw12 {
	IO_NLB_MASK = 0xffff,
	IO_CETYPE_SHIFT = 16,
	IO_DTYPE_SHIFT = 20,
	IO_DEAC = 1 << 25,
	IO_PRINFO_SHIFT = 26,
};

/* Read, Write, Compare, Write Zeroes. */
struct io_cmd {
	uint64_t first_block;
	uint32_t block_count; /* 1 to 65536 */
	bool is_fua;
	bool is_limited_retry;
	bool wants_deallocate;  /* Write Zeroes: DEAC */
	uint8_t prinfo;         /* 4 bits; no meaning on a namespace without protection */
	uint8_t directive_type; /* of commands that write */
	uint8_t extension_type; /* CETYPE: for example a key per I/O */
};

static inline void io_cmd_decode(const struct nvme_sqe *sqe, struct io_cmd *ret_cmd)
{
	uint32_t cdw12 = le32_get(sqe->cdw12);

	*ret_cmd = (struct io_cmd){
		.first_block = le32_get(sqe->cdw10) | (uint64_t)le32_get(sqe->cdw11) << 32,
		.block_count = (cdw12 & IO_NLB_MASK) + 1,
		.is_fua = (cdw12 & NVME_IO_FUA) != 0,
		.is_limited_retry = (cdw12 & NVME_IO_LR) != 0,
		.wants_deallocate = (cdw12 & IO_DEAC) != 0,
		.prinfo = (uint8_t)(cdw12 >> IO_PRINFO_SHIFT & 0xf),
		.directive_type = (uint8_t)(cdw12 >> IO_DTYPE_SHIFT & 0xf),
		.extension_type = (uint8_t)(cdw12 >> IO_CETYPE_SHIFT & 0xf),
	};
}

/* Fills opcode, NSID and CDW10 to CDW12. The caller sets CID and SGL. */
void io_cmd_encode(struct nvme_sqe *sqe, uint8_t opcode, uint32_t nsid, const struct io_cmd *cmd);

/*
 * A Flush to a controller that reports marks of lost writes (wire/identify.h) carries the mark that
 * its host knows, in the reserved dwords CDW13 to CDW15: a tag, then the mark. For other
 * controllers these dwords are zero.
 */
void flush_mark_encode(struct nvme_sqe *sqe, uint64_t mark);
/* False: the command carries no mark. */
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
