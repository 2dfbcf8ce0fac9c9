/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Copy command and its source range entries as plain values. NVM Command Set 1.1, section
 * 3.3.2: descriptor formats 0h (ranges of the command's namespace) and 2h (each range names its
 * namespace). Entries of both have 32 bytes. Users of this header refuse the formats with larger
 * tags.
 */
#ifndef WEFT_WIRE_COPY_H
#define WEFT_WIRE_COPY_H

#include "wire/nvme.h"

#include <stdbool.h>

#define NVME_COPY_RANGE_BYTES 32
#define NVME_COPY_RANGES_MAX  256 /* limit of the NR field */

enum copy_format {
	COPY_FORMAT_ONE_NS = 0, /* 0h */
	COPY_FORMAT_ANY_NS = 2, /* 2h */
};

struct copy_cmd {
	uint64_t first_block; /* SDLBA: destination of the ranges, one after another */
	uint32_t range_count; /* 1 to 256 */
	uint8_t format;       /* 4 bits: enum copy_format or an unknown value */
	uint8_t prinfo_read;  /* 4 bits */
	uint8_t prinfo_write; /* 4 bits */
	uint8_t directive_type;
	uint8_t extension_type;  /* CETYPE */
	bool checks_storage_tag; /* STCR or STCW */
	bool is_fua;
	bool is_limited_retry;
};

void copy_cmd_decode(const struct nvme_sqe *sqe, struct copy_cmd *ret_cmd);
/* Fills opcode, NSID and CDW10 to CDW12. The caller sets CID and SGL. */
void copy_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct copy_cmd *cmd);

struct copy_range {
	uint32_t nsid; /* format 2h; 0 in format 0h */
	uint64_t first_block;
	uint32_t block_count; /* 1 to 65536 */
	bool is_fast_only;    /* format 2h: FCO */
};

/* `bytes` has room for NVME_COPY_RANGE_BYTES at index. */
struct copy_range copy_range_decode(const uint8_t *bytes, uint32_t index, uint8_t format);
void copy_range_encode(uint8_t *bytes, uint32_t index, uint8_t format,
		       const struct copy_range *range);

/* Cancel, on an I/O queue. NVMe Base 2.1, section 7.1. */
enum cancel_action {
	CANCEL_ONE = 0,  /* the command that SQID and CID name */
	CANCEL_MANY = 1, /* all commands of the queue and namespace; CID is FFFFh */
};
#define CANCEL_CID_ALL 0xffff

struct cancel_cmd {
	uint16_t sqid;
	uint16_t cid;
	uint8_t action; /* 2 bits: enum cancel_action or an unknown value */
};

void cancel_cmd_decode(const struct nvme_sqe *sqe, struct cancel_cmd *ret_cmd);
void cancel_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct cancel_cmd *cmd);
/* Completion DW0: the number of commands aborted, and of those that may still be aborted. */
uint32_t cancel_result_encode(uint32_t aborted, uint32_t deferred);

#endif
