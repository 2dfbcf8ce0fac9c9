/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smaller pages of Identify: lists of namespaces (CNS 02h, 07h, 10h) and of controllers (12h,
 * 13h), namespace granularity (16h), command sets (1Ch), and the pages of the NVM command set (05h,
 * 06h). Pure; any thread. NVMe Base 2.1, section 5.1.13.2; NVM Command Set 1.1, sections 4.1.5.3
 * and 4.1.5.4.
 */
#include "wire/field.h"
#include "wire/identify.h"
#include "wire/page_shift.h"

#define NS_LIST_MAX (NVME_PAGE_BYTES / 4)

void identify_nvm_ns_encode(uint8_t page[NVME_PAGE_BYTES])
{
	/* No storage tags, no protection information: every field is zero. */
	memset(page, 0, NVME_PAGE_BYTES);
}

void identify_ns_list_encode(const uint32_t *nsids, uint32_t count, uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	for (uint32_t i = 0; i < count && i < NS_LIST_MAX; i++)
		field_put32(page, (size_t)i * 4, nsids[i]);
}

uint32_t identify_ns_list_decode(const uint8_t page[NVME_PAGE_BYTES], uint32_t nsids[1024])
{
	uint32_t count = 0;

	while (count < NS_LIST_MAX) {
		nsids[count] = field_get32(page, (size_t)count * 4);
		if (nsids[count] == 0)
			break;
		count++;
	}
	return count;
}

void identify_ctrl_list_encode(const uint16_t *cntlids, uint32_t count,
			       uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	if (count > IDENTIFY_CTRL_LIST_MAX)
		count = IDENTIFY_CTRL_LIST_MAX;
	field_put16(page, 0, (uint16_t)count);
	for (uint32_t i = 0; i < count; i++)
		field_put16(page, 2 + (size_t)i * 2, cntlids[i]);
}

uint32_t identify_ctrl_list_decode(const uint8_t page[NVME_PAGE_BYTES],
				   uint16_t cntlids[IDENTIFY_CTRL_LIST_MAX])
{
	uint32_t count = field_get16(page, 0);

	if (count > IDENTIFY_CTRL_LIST_MAX)
		count = IDENTIFY_CTRL_LIST_MAX;
	for (uint32_t i = 0; i < count; i++)
		cntlids[i] = field_get16(page, 2 + (size_t)i * 2);
	return count;
}

/* The attributes stay zero: one descriptor for all formats, and a zero-based number of
 * descriptors. */
#define GRANULARITY_DESCRIPTORS 32
#define GRANULARITY_SIZE        0
#define GRANULARITY_CAPACITY    8

void identify_ns_granularity_encode(uint64_t granularity_bytes, uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	field_put64(page, GRANULARITY_DESCRIPTORS + GRANULARITY_SIZE, granularity_bytes);
	field_put64(page, GRANULARITY_DESCRIPTORS + GRANULARITY_CAPACITY, granularity_bytes);
}

void identify_command_sets_encode(uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	field_put64(page, 0, 1ull << NVME_CSI_NVM);
}

/* ---- the NVM command set's limits (CNS 06h) -------------------------------------------------- */

enum id_nvm_ctrl_offset {
	ID_NVM_CTRL_VSL = 0,
	ID_NVM_CTRL_WZSL = 1,
	ID_NVM_CTRL_WUSL = 2,
	ID_NVM_CTRL_DMRL = 3,
	ID_NVM_CTRL_DMRSL = 4,
	ID_NVM_CTRL_DMSL = 8,
	ID_NVM_CTRL_AOCS = 18,
	ID_NVM_CTRL_VER = 20,
};

#define AOCS_ALLOCATED (1u << 0)

void identify_nvm_ctrl_encode(const struct nvm_ctrl_limits *limits, uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	page[ID_NVM_CTRL_VSL] = page_shift_encode(limits->verify_max_bytes);
	page[ID_NVM_CTRL_WZSL] = page_shift_encode(limits->write_zeroes_max_bytes);
	page[ID_NVM_CTRL_WUSL] = page_shift_encode(limits->uncorrectable_max_bytes);
	/* A command carries at most 256 ranges. 256 does not fit into the field, so it is encoded
	 * as no limit. */
	page[ID_NVM_CTRL_DMRL] = limits->dsm_ranges_max > 255 ? 0 : (uint8_t)limits->dsm_ranges_max;
	field_put32(page, ID_NVM_CTRL_DMRSL, limits->dsm_range_blocks_max);
	field_put64(page, ID_NVM_CTRL_DMSL, limits->dsm_blocks_max);
	field_put16(page, ID_NVM_CTRL_AOCS, limits->reports_allocated ? AOCS_ALLOCATED : 0);
	field_put32(page, ID_NVM_CTRL_VER, limits->version);
}

void identify_nvm_ctrl_decode(const uint8_t page[NVME_PAGE_BYTES],
			      struct nvm_ctrl_limits *ret_limits)
{
	*ret_limits = (struct nvm_ctrl_limits){
		.verify_max_bytes = page_shift_decode(page[ID_NVM_CTRL_VSL]),
		.write_zeroes_max_bytes = page_shift_decode(page[ID_NVM_CTRL_WZSL]),
		.uncorrectable_max_bytes = page_shift_decode(page[ID_NVM_CTRL_WUSL]),
		.dsm_ranges_max = page[ID_NVM_CTRL_DMRL],
		.dsm_range_blocks_max = field_get32(page, ID_NVM_CTRL_DMRSL),
		.dsm_blocks_max = field_get64(page, ID_NVM_CTRL_DMSL),
		.reports_allocated = (field_get16(page, ID_NVM_CTRL_AOCS) & AOCS_ALLOCATED) != 0,
		.version = field_get32(page, ID_NVM_CTRL_VER),
	};
}
