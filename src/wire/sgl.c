/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one SGL descriptor of a command capsule: judged on the target, made on the host. Pure; any
 * thread. NVMe Base 2.1, section 4.3.2; NVMe/TCP 1.1, section 3.4.
 *
 * A length of zero means "no data" whatever the type says: hosts differ in the descriptor that
 * they put into commands without data.
 */
#include "wire/sgl.h"

enum sgl_type {
	SGL_TYPE_DATA_BLOCK_OFFSET = 0x01, /* data block, sub type offset */
	SGL_TYPE_SEGMENT = 0x2,            /* upper nibble */
	SGL_TYPE_LAST_SEGMENT = 0x3,       /* upper nibble */
	SGL_TYPE_TRANSPORT = 0x5a,         /* transport data block, sub type transport */
};

static nvme_status decode_in_capsule(uint64_t offset, uint32_t len_bytes,
				     uint32_t capsule_data_bytes, struct sgl *ret_sgl)
{
	if (offset > capsule_data_bytes)
		return nvme_status_dnr(NVME_SC_SGL_INVALID_OFFSET);
	if (len_bytes > capsule_data_bytes - offset)
		return nvme_status_dnr(NVME_SC_SGL_INVALID_DATA_LEN);
	*ret_sgl = (struct sgl){SGL_IN_CAPSULE, len_bytes, (uint32_t)offset};
	return NVME_SC_SUCCESS;
}

nvme_status sgl_decode(const struct nvme_sqe *sqe, uint32_t capsule_data_bytes, struct sgl *ret_sgl)
{
	uint32_t len_bytes = le32_get(sqe->sgl.length);
	uint8_t type = sqe->sgl.type;

	*ret_sgl = (struct sgl){SGL_NONE, 0, 0};
	if ((sqe->flags & NVME_SQE_PSDT_MASK) != NVME_SQE_PSDT_SGL)
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	if (len_bytes == 0)
		return NVME_SC_SUCCESS;
	if (type == SGL_TYPE_DATA_BLOCK_OFFSET)
		return decode_in_capsule(le64_get(sqe->sgl.addr), len_bytes, capsule_data_bytes,
					 ret_sgl);
	if (type == SGL_TYPE_TRANSPORT) {
		*ret_sgl = (struct sgl){SGL_TRANSPORT, len_bytes, 0};
		return NVME_SC_SUCCESS;
	}
	if (type >> 4 == SGL_TYPE_SEGMENT || type >> 4 == SGL_TYPE_LAST_SEGMENT)
		return nvme_status_dnr(NVME_SC_SGL_INVALID_SEGMENT);
	return nvme_status_dnr(NVME_SC_SGL_INVALID_TYPE);
}

static void sgl_put(struct nvme_sqe *sqe, uint8_t type, uint32_t len_bytes)
{
	sqe->flags = (uint8_t)((sqe->flags & ~NVME_SQE_PSDT_MASK) | NVME_SQE_PSDT_SGL);
	sqe->sgl = (struct nvme_sgl_desc){.length = le32_of(len_bytes), .type = type};
}

void sgl_encode_none(struct nvme_sqe *sqe)
{
	sgl_put(sqe, SGL_TYPE_TRANSPORT, 0);
}

void sgl_encode_in_capsule(struct nvme_sqe *sqe, uint32_t len_bytes)
{
	sgl_put(sqe, SGL_TYPE_DATA_BLOCK_OFFSET, len_bytes);
}

void sgl_encode_transport(struct nvme_sqe *sqe, uint32_t len_bytes)
{
	sgl_put(sqe, SGL_TYPE_TRANSPORT, len_bytes);
}
