/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one SGL descriptor of a command over fabrics. NVMe Base 2.1, section 4.3.2; NVMe/TCP 1.1,
 * section 3.4. TCP has two kinds: data in the capsule at an offset, and data moved by the transport
 * (R2T or C2HData). RDMA will add keyed data blocks here, with address and key.
 */
#ifndef WEFT_WIRE_SGL_H
#define WEFT_WIRE_SGL_H

#include "wire/nvme.h"

enum sgl_kind {
	SGL_NONE,       /* no data: length 0 */
	SGL_IN_CAPSULE, /* the data is in the capsule at offset_bytes */
	SGL_TRANSPORT,  /* the transport moves len_bytes */
};

enum sgl_type {
	SGL_TYPE_DATA_BLOCK_OFFSET = 0x01, /* data block, sub type offset */
	SGL_TYPE_SEGMENT = 0x2,            /* upper nibble */
	SGL_TYPE_LAST_SEGMENT = 0x3,       /* upper nibble */
	SGL_TYPE_TRANSPORT = 0x5a,         /* transport data block, sub type transport */
};

struct sgl {
	enum sgl_kind kind;
	uint32_t len_bytes;
	uint32_t offset_bytes; /* in the capsule's data */
};

static inline nvme_status sgl_decode_in_capsule(uint64_t offset, uint32_t len_bytes,
						uint32_t capsule_data_bytes, struct sgl *ret_sgl)
{
	if (offset > capsule_data_bytes)
		return nvme_status_dnr(NVME_SC_SGL_INVALID_OFFSET);
	if (len_bytes > capsule_data_bytes - offset)
		return nvme_status_dnr(NVME_SC_SGL_INVALID_DATA_LEN);
	*ret_sgl = (struct sgl){SGL_IN_CAPSULE, len_bytes, (uint32_t)offset};
	return NVME_SC_SUCCESS;
}

/*
 * capsule_data_bytes is the length of the capsule's data. Rejects, each with its status: PSDT other
 * than SGL, unknown types and sub types, in-capsule ranges outside the received data. A length of
 * zero means no data, whatever the type: hosts differ in the descriptor of commands without data.
 */
static inline nvme_status sgl_decode(const struct nvme_sqe *sqe, uint32_t capsule_data_bytes,
				     struct sgl *ret_sgl)
{
	uint32_t len_bytes = le32_get(sqe->sgl.length);
	uint8_t type = sqe->sgl.type;

	*ret_sgl = (struct sgl){SGL_NONE, 0, 0};
	if ((sqe->flags & NVME_SQE_PSDT_MASK) != NVME_SQE_PSDT_SGL)
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	if (len_bytes == 0)
		return NVME_SC_SUCCESS;
	if (type == SGL_TYPE_DATA_BLOCK_OFFSET)
		return sgl_decode_in_capsule(le64_get(sqe->sgl.addr), len_bytes, capsule_data_bytes,
					     ret_sgl);
	if (type == SGL_TYPE_TRANSPORT) {
		*ret_sgl = (struct sgl){SGL_TRANSPORT, len_bytes, 0};
		return NVME_SC_SUCCESS;
	}
	if (type >> 4 == SGL_TYPE_SEGMENT || type >> 4 == SGL_TYPE_LAST_SEGMENT)
		return nvme_status_dnr(NVME_SC_SGL_INVALID_SEGMENT);
	return nvme_status_dnr(NVME_SC_SGL_INVALID_TYPE);
}

void sgl_encode_none(struct nvme_sqe *sqe);
void sgl_encode_in_capsule(struct nvme_sqe *sqe, uint32_t len_bytes);
void sgl_encode_transport(struct nvme_sqe *sqe, uint32_t len_bytes);

#endif
