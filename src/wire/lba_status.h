/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get LBA Status as plain values: which blocks of a range are allocated (ATYPE 02h). NVM Command
 * Set 1.1, section 4.2.1. Counts are not zero-based here; on the wire NLB and MNDW are.
 */
#ifndef WEFT_WIRE_LBA_STATUS_H
#define WEFT_WIRE_LBA_STATUS_H

#include "wire/nvme.h"

#include <stdbool.h>

#define LBA_STATUS_HEADER_BYTES     8
#define LBA_STATUS_DESCRIPTOR_BYTES 16
#define LBA_STATUS_RANGE_MAX        0xffff /* RL; for a longer range use 0, to the end */
#define LBA_STATUS_ALLOCATED        0x02   /* ATYPE */
#define LBA_STATUS_RUN_MAX          (UINT64_C(1) << 32) /* blocks of one descriptor */

struct lba_status_cmd {
	uint64_t first_block; /* SLBA */
	uint64_t len_bytes;   /* of MNDW dwords */
	uint32_t block_count; /* RL; 0: to the end of the namespace */
	uint8_t action;       /* ATYPE */
};

enum lba_status_end {
	LBA_STATUS_FULL = 1, /* CMPC: the buffer has no room for more */
	LBA_STATUS_DONE = 2, /* the whole range was examined */
};

struct lba_status_list {
	uint32_t count; /* NLSD */
	uint8_t end;    /* enum lba_status_end */
};

struct lba_status_run {
	uint64_t first_block; /* DSLBA */
	uint64_t block_count; /* NLB; 1 to LBA_STATUS_RUN_MAX */
};

void lba_status_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct lba_status_cmd *cmd);
void lba_status_cmd_decode(const struct nvme_sqe *sqe, struct lba_status_cmd *ret_cmd);
void lba_status_list_encode(uint8_t *bytes, const struct lba_status_list *list);
/* Decodes the header of a list of len_bytes, which must hold at least the header. Returns at most
 * as many descriptors as fit. A list that claims more descriptors does not cover the whole range,
 * so its end becomes LBA_STATUS_FULL. */
void lba_status_list_decode(const uint8_t *bytes, size_t len_bytes,
			    struct lba_status_list *ret_list);
void lba_status_run_encode(uint8_t *bytes, uint32_t index, const struct lba_status_run *run);
struct lba_status_run lba_status_run_decode(const uint8_t *bytes, uint32_t index);

#endif
