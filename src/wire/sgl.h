/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one SGL descriptor of a command over fabrics. NVMe Base 2.1, section 4.3.2; NVMe/TCP 1.1,
 * section 3.4. TCP knows two: data in the capsule at an offset, and data moved by the transport
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

struct sgl {
	enum sgl_kind kind;
	uint32_t len_bytes;
	uint32_t offset_bytes; /* in the capsule's data */
};

/*
 * capsule_data_bytes is what the capsule carried. Rejects, each with its status: PSDT other than
 * SGL, unknown types and sub types, in-capsule ranges outside the data that came.
 */
nvme_status sgl_decode(const struct nvme_sqe *sqe, uint32_t capsule_data_bytes,
		       struct sgl *ret_sgl);

void sgl_encode_none(struct nvme_sqe *sqe);
void sgl_encode_in_capsule(struct nvme_sqe *sqe, uint32_t len_bytes);
void sgl_encode_transport(struct nvme_sqe *sqe, uint32_t len_bytes);

#endif
