/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy, its source ranges, and Cancel between wire and plain values. Pure; any thread. NVM Command
 * Set 1.1, section 3.3.2; NVMe Base 2.1, section 7.1. The zero-based NR and NLB become counts here
 * and nowhere else.
 */
#include "wire/copy.h"

#include "base/check.h"
#include "wire/field.h"

#define COPY_NR_MASK       0xffu
#define COPY_FORMAT_SHIFT  8
#define COPY_PRINFOR_SHIFT 12
#define COPY_CETYPE_SHIFT  16
#define COPY_DTYPE_SHIFT   20
#define COPY_STCW          (1u << 24)
#define COPY_STCR          (1u << 25)
#define COPY_PRINFOW_SHIFT 26
#define COPY_FUA           (1u << 30)
#define COPY_LR            (1u << 31)

enum copy_range_offset {
	COPY_RANGE_SNSID = 0,
	COPY_RANGE_SLBA = 8,
	COPY_RANGE_NLB = 16,
	COPY_RANGE_SOPT = 22,
};
#define COPY_SOPT_FCO (1u << 15)

void copy_cmd_decode(const struct nvme_sqe *sqe, struct copy_cmd *ret_cmd)
{
	uint32_t cdw12 = le32_get(sqe->cdw12);

	*ret_cmd = (struct copy_cmd){
		.first_block = le32_get(sqe->cdw10) | (uint64_t)le32_get(sqe->cdw11) << 32,
		.range_count = (cdw12 & COPY_NR_MASK) + 1,
		.format = (uint8_t)(cdw12 >> COPY_FORMAT_SHIFT & 0xf),
		.prinfo_read = (uint8_t)(cdw12 >> COPY_PRINFOR_SHIFT & 0xf),
		.prinfo_write = (uint8_t)(cdw12 >> COPY_PRINFOW_SHIFT & 0xf),
		.directive_type = (uint8_t)(cdw12 >> COPY_DTYPE_SHIFT & 0xf),
		.extension_type = (uint8_t)(cdw12 >> COPY_CETYPE_SHIFT & 0xf),
		.checks_storage_tag = (cdw12 & (COPY_STCR | COPY_STCW)) != 0,
		.is_fua = (cdw12 & COPY_FUA) != 0,
		.is_limited_retry = (cdw12 & COPY_LR) != 0,
	};
}

void copy_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct copy_cmd *cmd)
{
	uint32_t cdw12;

	CHECK(cmd->range_count >= 1 && cmd->range_count <= NVME_COPY_RANGES_MAX);
	cdw12 = (cmd->range_count - 1) | (cmd->format & 0xfu) << COPY_FORMAT_SHIFT |
		(cmd->prinfo_read & 0xfu) << COPY_PRINFOR_SHIFT |
		(cmd->prinfo_write & 0xfu) << COPY_PRINFOW_SHIFT |
		(cmd->directive_type & 0xfu) << COPY_DTYPE_SHIFT |
		(cmd->extension_type & 0xfu) << COPY_CETYPE_SHIFT;
	if (cmd->checks_storage_tag)
		cdw12 |= COPY_STCR | COPY_STCW;
	if (cmd->is_fua)
		cdw12 |= COPY_FUA;
	if (cmd->is_limited_retry)
		cdw12 |= COPY_LR;
	sqe->opcode = NVME_IO_COPY;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of((uint32_t)cmd->first_block);
	sqe->cdw11 = le32_of((uint32_t)(cmd->first_block >> 32));
	sqe->cdw12 = le32_of(cdw12);
}

struct copy_range copy_range_decode(const uint8_t *bytes, uint32_t index, uint8_t format)
{
	const uint8_t *at = bytes + (size_t)index * NVME_COPY_RANGE_BYTES;
	struct copy_range range = {
		.first_block = field_get64(at, COPY_RANGE_SLBA),
		.block_count = field_get16(at, COPY_RANGE_NLB) + 1u,
	};

	if (format == COPY_FORMAT_ANY_NS) {
		range.nsid = field_get32(at, COPY_RANGE_SNSID);
		range.is_fast_only = (field_get16(at, COPY_RANGE_SOPT) & COPY_SOPT_FCO) != 0;
	}
	return range;
}

void copy_range_encode(uint8_t *bytes, uint32_t index, uint8_t format,
		       const struct copy_range *range)
{
	uint8_t *at = bytes + (size_t)index * NVME_COPY_RANGE_BYTES;

	CHECK(range->block_count >= 1 && range->block_count <= 65536);
	memset(at, 0, NVME_COPY_RANGE_BYTES);
	field_put64(at, COPY_RANGE_SLBA, range->first_block);
	field_put16(at, COPY_RANGE_NLB, (uint16_t)(range->block_count - 1));
	if (format == COPY_FORMAT_ANY_NS) {
		field_put32(at, COPY_RANGE_SNSID, range->nsid);
		field_put16(at, COPY_RANGE_SOPT, range->is_fast_only ? COPY_SOPT_FCO : 0);
	}
}

void cancel_cmd_decode(const struct nvme_sqe *sqe, struct cancel_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	*ret_cmd = (struct cancel_cmd){
		.sqid = (uint16_t)cdw10,
		.cid = (uint16_t)(cdw10 >> 16),
		.action = (uint8_t)(le32_get(sqe->cdw11) & 3),
	};
}

void cancel_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct cancel_cmd *cmd)
{
	sqe->opcode = NVME_IO_CANCEL;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of(cmd->sqid | (uint32_t)cmd->cid << 16);
	sqe->cdw11 = le32_of(cmd->action & 3u);
}

uint32_t cancel_result_encode(uint32_t aborted, uint32_t deferred)
{
	return (aborted & 0xffff) | (deferred & 0xffff) << 16;
}
