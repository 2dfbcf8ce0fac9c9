/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get LBA Status: the command and its list of descriptors. Pure; any thread. NVM Command Set 1.1,
 * section 4.2.1.
 */
#include "wire/lba_status.h"

#include "wire/field.h"

#include <string.h>

enum offset {
	LIST_NLSD = 0,
	LIST_CMPC = 4,
	RUN_DSLBA = 0,
	RUN_NLB = 8,
	RUN_STAS = 13,
};

/* STAS, LBA Range Status: one or more of the blocks are allocated. The only value for ATYPE 02h. */
#define LBARS_ALLOCATED 2

void lba_status_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct lba_status_cmd *cmd)
{
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = NVME_ADMIN_GET_LBA_STATUS;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of((uint32_t)cmd->first_block);
	sqe->cdw11 = le32_of((uint32_t)(cmd->first_block >> 32));
	sqe->cdw12 = le32_of((uint32_t)(cmd->len_bytes / 4 - 1));
	sqe->cdw13 = le32_of((uint32_t)cmd->action << 24 | (cmd->block_count & 0xffff));
}

void lba_status_cmd_decode(const struct nvme_sqe *sqe, struct lba_status_cmd *ret_cmd)
{
	uint32_t cdw13 = le32_get(sqe->cdw13);

	*ret_cmd = (struct lba_status_cmd){
		.first_block = (uint64_t)le32_get(sqe->cdw11) << 32 | le32_get(sqe->cdw10),
		.len_bytes = ((uint64_t)le32_get(sqe->cdw12) + 1) * 4,
		.block_count = cdw13 & 0xffff,
		.action = (uint8_t)(cdw13 >> 24),
	};
}

void lba_status_list_encode(uint8_t *bytes, const struct lba_status_list *list)
{
	memset(bytes, 0, LBA_STATUS_HEADER_BYTES);
	field_put32(bytes, LIST_NLSD, list->count);
	bytes[LIST_CMPC] = list->end;
}

void lba_status_list_decode(const uint8_t *bytes, size_t len_bytes,
			    struct lba_status_list *ret_list)
{
	size_t most = (len_bytes - LBA_STATUS_HEADER_BYTES) / LBA_STATUS_DESCRIPTOR_BYTES;

	ret_list->count = field_get32(bytes, LIST_NLSD);
	ret_list->end = bytes[LIST_CMPC];
	if (ret_list->count > most) {
		ret_list->count = (uint32_t)most;
		ret_list->end = LBA_STATUS_FULL;
	}
}

void lba_status_run_encode(uint8_t *bytes, uint32_t index, const struct lba_status_run *run)
{
	uint8_t *at = bytes + LBA_STATUS_HEADER_BYTES + (size_t)index * LBA_STATUS_DESCRIPTOR_BYTES;

	memset(at, 0, LBA_STATUS_DESCRIPTOR_BYTES);
	field_put64(at, RUN_DSLBA, run->first_block);
	field_put32(at, RUN_NLB, (uint32_t)(run->block_count - 1));
	at[RUN_STAS] = LBARS_ALLOCATED;
}

struct lba_status_run lba_status_run_decode(const uint8_t *bytes, uint32_t index)
{
	const uint8_t *at =
		bytes + LBA_STATUS_HEADER_BYTES + (size_t)index * LBA_STATUS_DESCRIPTOR_BYTES;

	return (struct lba_status_run){
		.first_block = field_get64(at, RUN_DSLBA),
		.block_count = (uint64_t)field_get32(at, RUN_NLB) + 1,
	};
}
