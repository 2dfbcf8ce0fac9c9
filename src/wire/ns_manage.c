/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespace Management, Namespace Attachment and Format NVM: fields to values and back. Pure; any
 * thread. NVMe Base 2.1, sections 5.1.10, 5.1.20, 5.1.21; NVM Command Set 1.1, section 4.1.6.
 */
#include "wire/ns_manage.h"

#include "wire/field.h"

#define NS_MANAGE_SELECT_MASK 0x0fu
#define NS_MANAGE_CSI_SHIFT   24

/* As in Identify Namespace. */
enum ns_create_offset {
	NS_CREATE_NSZE = 0,
	NS_CREATE_NCAP = 8,
	NS_CREATE_FLBAS = 26,
	NS_CREATE_DPS = 29,
	NS_CREATE_NMIC = 30,
	NS_CREATE_ANAGRPID = 92,
	NS_CREATE_NVMSETID = 100,
	NS_CREATE_ENDGID = 102,
	NS_CREATE_LBSTM = 384,
	NS_CREATE_NPHNDLS = 392,
};

/* FLBAS: the index in bits 3:0 and, above 15, in bits 6:5. */
#define FLBAS_LOW_MASK    0x0fu
#define FLBAS_META_INLINE (1u << 4)
#define FLBAS_HIGH_SHIFT  5
#define FLBAS_HIGH_MASK   0x03u

enum format_bit {
	FORMAT_MSET = 1 << 4,
	FORMAT_PI_SHIFT = 5,
	FORMAT_PIL = 1 << 8,
	FORMAT_SES_SHIFT = 9,
	FORMAT_LBAFU_SHIFT = 12,
};

void ns_manage_cmd_decode(const struct nvme_sqe *sqe, struct ns_manage_cmd *ret_cmd)
{
	*ret_cmd = (struct ns_manage_cmd){
		.select = (uint8_t)(le32_get(sqe->cdw10) & NS_MANAGE_SELECT_MASK),
		.csi = (uint8_t)(le32_get(sqe->cdw11) >> NS_MANAGE_CSI_SHIFT),
	};
}

void ns_manage_cmd_encode(struct nvme_sqe *sqe, const struct ns_manage_cmd *cmd)
{
	sqe->cdw10 = le32_of(cmd->select & NS_MANAGE_SELECT_MASK);
	sqe->cdw11 = le32_of((uint32_t)cmd->csi << NS_MANAGE_CSI_SHIFT);
}

void ns_create_decode(const uint8_t page[NVME_PAGE_BYTES], struct ns_create *ret_create)
{
	uint8_t flbas = page[NS_CREATE_FLBAS];

	*ret_create = (struct ns_create){
		.block_count = field_get64(page, NS_CREATE_NSZE),
		.capacity = field_get64(page, NS_CREATE_NCAP),
		.format = (uint8_t)((flbas & FLBAS_LOW_MASK) |
				    (flbas >> FLBAS_HIGH_SHIFT & FLBAS_HIGH_MASK) << 4),
		.has_inline_meta = (flbas & FLBAS_META_INLINE) != 0,
		.protection = page[NS_CREATE_DPS],
		.sharing = page[NS_CREATE_NMIC],
		.ana_group = field_get32(page, NS_CREATE_ANAGRPID),
		.nvm_set = field_get16(page, NS_CREATE_NVMSETID),
		.endurance_group = field_get16(page, NS_CREATE_ENDGID),
		.has_more = field_get64(page, NS_CREATE_LBSTM) != 0 ||
			    field_get16(page, NS_CREATE_NPHNDLS) != 0,
	};
}

void ns_create_encode(const struct ns_create *create, uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	field_put64(page, NS_CREATE_NSZE, create->block_count);
	field_put64(page, NS_CREATE_NCAP, create->capacity);
	page[NS_CREATE_FLBAS] =
		(uint8_t)((create->format & FLBAS_LOW_MASK) |
			  (create->format >> 4 & FLBAS_HIGH_MASK) << FLBAS_HIGH_SHIFT |
			  (create->has_inline_meta ? FLBAS_META_INLINE : 0));
	page[NS_CREATE_DPS] = create->protection;
	page[NS_CREATE_NMIC] = create->sharing;
	field_put32(page, NS_CREATE_ANAGRPID, create->ana_group);
	field_put16(page, NS_CREATE_NVMSETID, create->nvm_set);
	field_put16(page, NS_CREATE_ENDGID, create->endurance_group);
	field_put64(page, NS_CREATE_LBSTM, create->has_more ? 1 : 0);
}

int ctrl_list_decode(const uint8_t page[NVME_PAGE_BYTES], uint16_t ret_ids[CTRL_LIST_MAX])
{
	uint16_t count = field_get16(page, 0);

	if (count > CTRL_LIST_MAX)
		return -1;
	for (unsigned i = 0; i < count; i++)
		ret_ids[i] = field_get16(page, sizeof(uint16_t) * (i + 1));
	return count;
}

void ctrl_list_encode(const uint16_t *ids, unsigned count, uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	field_put16(page, 0, (uint16_t)count);
	for (unsigned i = 0; i < count; i++)
		field_put16(page, sizeof(uint16_t) * (i + 1), ids[i]);
}

void format_cmd_decode(const struct nvme_sqe *sqe, struct format_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	*ret_cmd = (struct format_cmd){
		.format = (uint8_t)((cdw10 & 0x0f) | (cdw10 >> FORMAT_LBAFU_SHIFT & 0x03) << 4),
		.has_inline_meta = (cdw10 & FORMAT_MSET) != 0,
		.protection = cdw10 >> FORMAT_PI_SHIFT & 0x07,
		.has_protection_first = (cdw10 & FORMAT_PIL) != 0,
		.erase = cdw10 >> FORMAT_SES_SHIFT & 0x07,
	};
}

void format_cmd_encode(struct nvme_sqe *sqe, const struct format_cmd *cmd)
{
	sqe->cdw10 =
		le32_of((cmd->format & 0x0fu) | (uint32_t)(cmd->format >> 4) << FORMAT_LBAFU_SHIFT |
			(cmd->has_inline_meta ? FORMAT_MSET : 0) |
			(uint32_t)cmd->protection << FORMAT_PI_SHIFT |
			(cmd->has_protection_first ? FORMAT_PIL : 0) |
			(uint32_t)cmd->erase << FORMAT_SES_SHIFT);
}
