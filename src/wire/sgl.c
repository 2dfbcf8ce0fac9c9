/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one SGL descriptor of a command capsule, as the host encodes it. The target's decoder is in
 * sgl.h. Pure; any thread. NVMe Base 2.1, section 4.3.2; NVMe/TCP 1.1, section 3.4.
 */
#include "wire/sgl.h"

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
