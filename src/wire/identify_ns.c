/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify pages of a namespace: CNS 00h and 11h (NVM command set), 03h (identification
 * descriptors) and 08h. Pure; any thread. NVMe Base 2.1, section 5.1.13.2; NVM Command Set 1.1,
 * section 4.1.5.1.
 *
 * Only LBA formats without metadata are served, and accepted from other targets.
 */
#include "wire/field.h"
#include "wire/identify.h"
#include "wire/lba_format.h"

#include <errno.h>

enum id_ns_offset {
	ID_NS_NSZE = 0,
	ID_NS_NCAP = 8,
	ID_NS_NUSE = 16,
	ID_NS_NSFEAT = 24,
	ID_NS_NLBAF = 25,
	ID_NS_FLBAS = 26,
	ID_NS_NMIC = 30,
	ID_NS_RESCAP = 31,
	ID_NS_DLFEAT = 33,
	ID_NS_NAWUN = 34,
	ID_NS_NAWUPF = 36,
	ID_NS_NACWU = 38,
	ID_NS_NOIOB = 46,
	ID_NS_NVMCAP = 48,
	ID_NS_NPWG = 64,
	ID_NS_NPWA = 66,
	ID_NS_NPDG = 68,
	ID_NS_NPDA = 70,
	ID_NS_NOWS = 72,
	ID_NS_MSSRL = 74,
	ID_NS_MCL = 76,
	ID_NS_MSRC = 80,
	ID_NS_ANAGRPID = 92,
	ID_NS_NSATTR = 99,
	ID_NS_NGUID = 104,
	ID_NS_EUI64 = 120,
	ID_NS_LBAF = 128, /* 4 bytes each: MS, LBADS, RP */
	ID_NS_LOSS = 384, /* vendor specific: LOSS_TAG, the source and the mark */
};

enum id_independent_ns_offset {
	ID_INDEPENDENT_NS_NMIC = 1,
	ID_INDEPENDENT_NS_RESCAP = 2,
	ID_INDEPENDENT_NS_ANAGRPID = 4,
	ID_INDEPENDENT_NS_NSATTR = 8,
	ID_INDEPENDENT_NS_NSTAT = 14,
};

#define NSFEAT_THIN            (1u << 0)
#define NSFEAT_ATOMICS         (1u << 1)
#define NSFEAT_OPTPERF         (1u << 4)
#define NMIC_SHARED            (1u << 0)
#define NSATTR_WRITE_PROTECTED (1u << 0)
#define NSTAT_READY            (1u << 0)
#define DLFEAT_READ_MASK       0x07
#define DLFEAT_READS_ZERO      0x01
#define DLFEAT_WRITE_ZEROES    (1u << 3)
#define LBAF_BYTES             4
#define LOSS_TAG               0x317373306c746677ull /* "wftl0ss1": marks bytes written by weft */
#define LBADS_MIN              9
#define LBADS_MAX              31

enum ns_descriptor_type {
	NS_DESCRIPTOR_EUI64 = 1,
	NS_DESCRIPTOR_NGUID = 2,
	NS_DESCRIPTOR_UUID = 3,
	NS_DESCRIPTOR_CSI = 4,
};
#define NS_DESCRIPTOR_HEADER_BYTES 4

static uint16_t zero_based16(uint32_t count)
{
	if (count > 65536)
		return 0xffff;
	return count == 0 ? 0 : (uint16_t)(count - 1);
}

static uint16_t saturate16(uint32_t value)
{
	return value > 0xffff ? 0xffff : (uint16_t)value;
}

static void encode_hints(const struct ns_identity *identity, uint8_t *page)
{
	bool has_hints = identity->optimal_write_blocks != 0 ||
			 identity->write_granularity_blocks != 0 ||
			 identity->deallocate_granularity_blocks != 0;

	if (identity->atomic_write_blocks != 0) {
		page[ID_NS_NSFEAT] |= NSFEAT_ATOMICS;
		field_put16(page, ID_NS_NAWUN, zero_based16(identity->atomic_write_blocks));
		field_put16(page, ID_NS_NAWUPF, zero_based16(identity->atomic_power_fail_blocks));
		field_put16(page, ID_NS_NACWU, zero_based16(identity->atomic_compare_write_blocks));
	}
	/* Leave out a boundary that does not fit: a truncated value would be wrong. */
	if (identity->boundary_blocks <= UINT16_MAX)
		field_put16(page, ID_NS_NOIOB, (uint16_t)identity->boundary_blocks);
	if (identity->copy_range_blocks_max != 0) {
		field_put16(page, ID_NS_MSSRL, saturate16(identity->copy_range_blocks_max));
		field_put32(page, ID_NS_MCL, identity->copy_blocks_max);
		page[ID_NS_MSRC] =
			(uint8_t)(identity->copy_ranges_max > 256 ? 255
								  : identity->copy_ranges_max - 1);
	}
	/* OPTPERF makes all five fields valid: an unknown value is encoded as one block. */
	if (has_hints) {
		uint16_t write = zero_based16(identity->write_granularity_blocks);
		uint16_t deallocate = zero_based16(identity->deallocate_granularity_blocks);

		page[ID_NS_NSFEAT] |= NSFEAT_OPTPERF;
		field_put16(page, ID_NS_NPWG, write);
		field_put16(page, ID_NS_NPWA, write);
		field_put16(page, ID_NS_NPDG, deallocate);
		field_put16(page, ID_NS_NPDA, deallocate);
		field_put16(page, ID_NS_NOWS, zero_based16(identity->optimal_write_blocks));
	}
}

static void encode_loss(const struct ns_identity *identity, uint8_t *page)
{
	if (identity->loss_source == 0)
		return;
	field_put64(page, ID_NS_LOSS, LOSS_TAG);
	field_put64(page, ID_NS_LOSS + 8, identity->loss_source);
	field_put64(page, ID_NS_LOSS + 16, identity->loss_mark);
}

void identify_ns_encode(const struct ns_identity *identity, uint8_t page[NVME_PAGE_BYTES])
{
	uint32_t format = lba_format_find(identity->block_bytes);

	memset(page, 0, NVME_PAGE_BYTES);
	field_put64(page, ID_NS_NSZE, identity->block_count);
	field_put64(page, ID_NS_NCAP, identity->block_count);
	field_put64(page, ID_NS_NUSE, identity->blocks_used);
	page[ID_NS_NSFEAT] = identity->is_thin ? NSFEAT_THIN : 0;
	page[ID_NS_NMIC] = identity->is_shared ? NMIC_SHARED : 0;
	page[ID_NS_DLFEAT] =
		(uint8_t)((identity->reads_zero_after_dealloc ? DLFEAT_READS_ZERO : 0) |
			  (identity->has_write_zeroes_dealloc ? DLFEAT_WRITE_ZEROES : 0));
	page[ID_NS_NLBAF] = LBA_FORMAT_COUNT - 1;
	page[ID_NS_FLBAS] = (uint8_t)(format < LBA_FORMAT_COUNT ? format : 0);
	page[ID_NS_RESCAP] = identity->reservation_caps;
	field_put64(page, ID_NS_NVMCAP, identity->capacity_bytes);
	encode_hints(identity, page);
	field_put32(page, ID_NS_ANAGRPID, identity->ana_group_id);
	page[ID_NS_NSATTR] = identity->is_write_protected ? NSATTR_WRITE_PROTECTED : 0;
	memcpy(page + ID_NS_NGUID, identity->nguid, sizeof(identity->nguid));
	memcpy(page + ID_NS_EUI64, identity->eui64, sizeof(identity->eui64));
	for (size_t i = 0; i < LBA_FORMAT_COUNT; i++)
		page[ID_NS_LBAF + i * LBAF_BYTES + 2] = lba_format_shift((uint32_t)i);
	encode_loss(identity, page);
}

/* The shift (log2 of the block size) of the format in use, or -errno. */
static int decode_format(const uint8_t *page)
{
	uint8_t flbas = page[ID_NS_FLBAS], nlbaf = page[ID_NS_NLBAF];
	uint8_t index = flbas & 0xf;
	const uint8_t *format;

	/* Bits 6:5 extend the index only when the namespace has more than 16 formats. */
	if (nlbaf > 15)
		index = (uint8_t)(index | (flbas >> 5 & 3) << 4);
	if (nlbaf > 63 || index > nlbaf)
		return -EPROTO;
	format = page + ID_NS_LBAF + (size_t)index * LBAF_BYTES;
	if (format[2] < LBADS_MIN || format[2] > LBADS_MAX)
		return -EPROTO;
	if (field_get16(format, 0) != 0)
		return -EOPNOTSUPP;
	return format[2];
}

int identify_ns_decode(const uint8_t page[NVME_PAGE_BYTES], struct ns_identity *ret_identity)
{
	uint8_t nsfeat = page[ID_NS_NSFEAT], dlfeat = page[ID_NS_DLFEAT];
	int shift = decode_format(page);

	memset(ret_identity, 0, sizeof(*ret_identity));
	if (shift < 0)
		return shift;
	ret_identity->block_count = field_get64(page, ID_NS_NSZE);
	ret_identity->blocks_used = field_get64(page, ID_NS_NUSE);
	ret_identity->block_bytes = 1u << shift;
	if (ret_identity->block_count > UINT64_MAX >> shift)
		return -EPROTO;
	ret_identity->is_thin = (nsfeat & NSFEAT_THIN) != 0;
	ret_identity->is_shared = (page[ID_NS_NMIC] & NMIC_SHARED) != 0;
	ret_identity->is_write_protected = (page[ID_NS_NSATTR] & NSATTR_WRITE_PROTECTED) != 0;
	ret_identity->reads_zero_after_dealloc = (dlfeat & DLFEAT_READ_MASK) == DLFEAT_READS_ZERO;
	ret_identity->has_write_zeroes_dealloc = (dlfeat & DLFEAT_WRITE_ZEROES) != 0;
	ret_identity->ana_group_id = field_get32(page, ID_NS_ANAGRPID);
	if (nsfeat & NSFEAT_OPTPERF) {
		ret_identity->optimal_write_blocks = field_get16(page, ID_NS_NOWS) + 1u;
		ret_identity->write_granularity_blocks = field_get16(page, ID_NS_NPWG) + 1u;
		ret_identity->deallocate_granularity_blocks = field_get16(page, ID_NS_NPDG) + 1u;
	}
	if (nsfeat & NSFEAT_ATOMICS) {
		ret_identity->atomic_write_blocks = field_get16(page, ID_NS_NAWUN) + 1u;
		ret_identity->atomic_power_fail_blocks = field_get16(page, ID_NS_NAWUPF) + 1u;
		ret_identity->atomic_compare_write_blocks = field_get16(page, ID_NS_NACWU) + 1u;
	}
	ret_identity->reservation_caps = page[ID_NS_RESCAP];
	ret_identity->boundary_blocks = field_get16(page, ID_NS_NOIOB);
	ret_identity->capacity_bytes = field_get64(page, ID_NS_NVMCAP + 8) != 0
					       ? UINT64_MAX
					       : field_get64(page, ID_NS_NVMCAP);
	ret_identity->copy_range_blocks_max = field_get16(page, ID_NS_MSSRL);
	if (ret_identity->copy_range_blocks_max != 0) {
		ret_identity->copy_blocks_max = field_get32(page, ID_NS_MCL);
		ret_identity->copy_ranges_max = page[ID_NS_MSRC] + 1u;
	}
	memcpy(ret_identity->nguid, page + ID_NS_NGUID, sizeof(ret_identity->nguid));
	memcpy(ret_identity->eui64, page + ID_NS_EUI64, sizeof(ret_identity->eui64));
	if (field_get64(page, ID_NS_LOSS) == LOSS_TAG) {
		ret_identity->loss_source = field_get64(page, ID_NS_LOSS + 8);
		ret_identity->loss_mark = field_get64(page, ID_NS_LOSS + 16);
	}
	return 0;
}

void identify_ns_independent_encode(const struct ns_identity *identity,
				    uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	page[ID_INDEPENDENT_NS_NMIC] = identity->is_shared ? NMIC_SHARED : 0;
	field_put32(page, ID_INDEPENDENT_NS_ANAGRPID, identity->ana_group_id);
	page[ID_INDEPENDENT_NS_NSATTR] = identity->is_write_protected ? NSATTR_WRITE_PROTECTED : 0;
	page[ID_INDEPENDENT_NS_RESCAP] = identity->reservation_caps;
	page[ID_INDEPENDENT_NS_NSTAT] = identity->is_not_ready ? 0 : NSTAT_READY;
}

static bool is_zero(const uint8_t *bytes, size_t len_bytes)
{
	for (size_t i = 0; i < len_bytes; i++) {
		if (bytes[i] != 0)
			return false;
	}
	return true;
}

static size_t put_descriptor(uint8_t *page, size_t at, enum ns_descriptor_type type,
			     const uint8_t *value, uint8_t len_bytes)
{
	page[at] = (uint8_t)type;
	page[at + 1] = len_bytes;
	memcpy(page + at + NS_DESCRIPTOR_HEADER_BYTES, value, len_bytes);
	return at + NS_DESCRIPTOR_HEADER_BYTES + len_bytes;
}

void identify_ns_descriptors_encode(const struct ns_identity *identity,
				    uint8_t page[NVME_PAGE_BYTES])
{
	const uint8_t csi = NVME_CSI_NVM;
	size_t at = 0;

	memset(page, 0, NVME_PAGE_BYTES);
	if (!is_zero(identity->uuid.bytes, sizeof(identity->uuid.bytes)))
		at = put_descriptor(page, at, NS_DESCRIPTOR_UUID, identity->uuid.bytes, 16);
	if (!is_zero(identity->nguid, sizeof(identity->nguid)))
		at = put_descriptor(page, at, NS_DESCRIPTOR_NGUID, identity->nguid, 16);
	if (!is_zero(identity->eui64, sizeof(identity->eui64)))
		at = put_descriptor(page, at, NS_DESCRIPTOR_EUI64, identity->eui64, 8);
	put_descriptor(page, at, NS_DESCRIPTOR_CSI, &csi, 1);
}

int identify_ns_descriptors_decode(const uint8_t page[NVME_PAGE_BYTES],
				   struct ns_identity *ret_identity)
{
	size_t at = 0;

	/* The list ends at a length of zero or at the end of the page. */
	while (at + NS_DESCRIPTOR_HEADER_BYTES <= NVME_PAGE_BYTES && page[at + 1] != 0) {
		uint8_t len_bytes = page[at + 1];
		const uint8_t *value = page + at + NS_DESCRIPTOR_HEADER_BYTES;

		if (len_bytes > NVME_PAGE_BYTES - NS_DESCRIPTOR_HEADER_BYTES - at)
			return -EPROTO;
		if (page[at] == NS_DESCRIPTOR_UUID && len_bytes == 16)
			memcpy(ret_identity->uuid.bytes, value, 16);
		else if (page[at] == NS_DESCRIPTOR_NGUID && len_bytes == 16)
			memcpy(ret_identity->nguid, value, 16);
		else if (page[at] == NS_DESCRIPTOR_EUI64 && len_bytes == 8)
			memcpy(ret_identity->eui64, value, 8);
		else if (page[at] == NS_DESCRIPTOR_CSI && value[0] != NVME_CSI_NVM)
			return -EOPNOTSUPP;
		at += NS_DESCRIPTOR_HEADER_BYTES + len_bytes;
	}
	return 0;
}
