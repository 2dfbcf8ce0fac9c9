/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read, Write, Compare, Write Zeroes and Dataset Management between submission entries and plain
 * values. Pure; any thread. NVM Command Set 1.1, section 3.3. The zero-based NLB and NR become
 * counts here and nowhere else.
 */
#include "wire/io_cmd.h"

#include "base/check.h"
#include "wire/field.h"

#define FLUSH_MARK_TAG 0x74666577u /* "weft" */
#define DSM_AD         (1u << 2)

void io_cmd_encode(struct nvme_sqe *sqe, uint8_t opcode, uint32_t nsid, const struct io_cmd *cmd)
{
	uint32_t cdw12;

	CHECK(cmd->block_count >= 1 && cmd->block_count <= IO_NLB_MASK + 1);
	cdw12 = (cmd->block_count - 1) | (cmd->directive_type & 0xfu) << IO_DTYPE_SHIFT |
		(cmd->prinfo & 0xfu) << IO_PRINFO_SHIFT |
		(cmd->extension_type & 0xfu) << IO_CETYPE_SHIFT;
	if (cmd->is_fua)
		cdw12 |= NVME_IO_FUA;
	if (cmd->is_limited_retry)
		cdw12 |= NVME_IO_LR;
	if (cmd->wants_deallocate)
		cdw12 |= IO_DEAC;
	sqe->opcode = opcode;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of((uint32_t)cmd->first_block);
	sqe->cdw11 = le32_of((uint32_t)(cmd->first_block >> 32));
	sqe->cdw12 = le32_of(cdw12);
}

void flush_mark_encode(struct nvme_sqe *sqe, uint64_t mark)
{
	sqe->cdw13 = le32_of(FLUSH_MARK_TAG);
	sqe->cdw14 = le32_of((uint32_t)mark);
	sqe->cdw15 = le32_of((uint32_t)(mark >> 32));
}

bool flush_mark_decode(const struct nvme_sqe *sqe, uint64_t *ret_mark)
{
	*ret_mark = le32_get(sqe->cdw14) | (uint64_t)le32_get(sqe->cdw15) << 32;
	return le32_get(sqe->cdw13) == FLUSH_MARK_TAG;
}

void dsm_cmd_decode(const struct nvme_sqe *sqe, struct dsm_cmd *ret_cmd)
{
	ret_cmd->range_count = (le32_get(sqe->cdw10) & 0xff) + 1;
	ret_cmd->is_deallocate = (le32_get(sqe->cdw11) & DSM_AD) != 0;
}

void dsm_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct dsm_cmd *cmd)
{
	CHECK(cmd->range_count >= 1 && cmd->range_count <= NVME_DSM_RANGES_MAX);
	sqe->opcode = NVME_IO_DATASET_MANAGEMENT;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of(cmd->range_count - 1);
	sqe->cdw11 = le32_of(cmd->is_deallocate ? DSM_AD : 0);
}

struct dsm_range dsm_range_decode(const uint8_t *bytes, uint32_t index)
{
	const uint8_t *at = bytes + (size_t)index * NVME_DSM_RANGE_BYTES;

	return (struct dsm_range){
		.attributes = field_get32(at, 0),
		.block_count = field_get32(at, 4),
		.first_block = field_get64(at, 8),
	};
}

void dsm_range_encode(uint8_t *bytes, uint32_t index, const struct dsm_range *range)
{
	uint8_t *at = bytes + (size_t)index * NVME_DSM_RANGE_BYTES;

	field_put32(at, 0, range->attributes);
	field_put32(at, 4, range->block_count);
	field_put64(at, 8, range->first_block);
}
