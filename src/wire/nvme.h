/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe submission and completion entries, opcodes and identifiers. NVMe Base 2.1, chapters 3 to 5.
 * Field names are the specification's. The functions of the other headers in this folder decode
 * zero-based numbers to counts; users never see a zero-based number.
 */
#ifndef WEFT_WIRE_NVME_H
#define WEFT_WIRE_NVME_H

#include "base/le.h"
#include "wire/status.h"

#include <stdint.h>

#define NVME_NSID_ALL       0xffffffffu
#define NVME_NQN_BYTES      224 /* with the terminating zero: 223 characters at most */
#define NVME_PAGE_BYTES     4096
#define NVME_CNTLID_ANY     0xffff
#define NVME_CNTLID_MAX     0xffef
#define NVME_SERIAL_BYTES   20
#define NVME_MODEL_BYTES    40
#define NVME_FIRMWARE_BYTES 8

#define NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

enum nvme_admin_opcode {
	NVME_ADMIN_DELETE_SQ = 0x00,
	NVME_ADMIN_CREATE_SQ = 0x01,
	NVME_ADMIN_GET_LOG_PAGE = 0x02,
	NVME_ADMIN_DELETE_CQ = 0x04,
	NVME_ADMIN_CREATE_CQ = 0x05,
	NVME_ADMIN_IDENTIFY = 0x06,
	NVME_ADMIN_ABORT = 0x08,
	NVME_ADMIN_SET_FEATURES = 0x09,
	NVME_ADMIN_GET_FEATURES = 0x0a,
	NVME_ADMIN_ASYNC_EVENT = 0x0c,
	NVME_ADMIN_NS_MANAGEMENT = 0x0d,
	NVME_ADMIN_NS_ATTACHMENT = 0x15,
	NVME_ADMIN_KEEP_ALIVE = 0x18,
	NVME_ADMIN_CTRL_RESET = 0x38, /* Cross-Controller Reset */
	NVME_OPCODE_FABRICS = 0x7f,
	NVME_ADMIN_FORMAT_NVM = 0x80,
	NVME_ADMIN_GET_LBA_STATUS = 0x86,
};

enum nvme_io_opcode {
	NVME_IO_FLUSH = 0x00,
	NVME_IO_WRITE = 0x01,
	NVME_IO_READ = 0x02,
	NVME_IO_WRITE_UNCORRECTABLE = 0x04,
	NVME_IO_COMPARE = 0x05,
	NVME_IO_WRITE_ZEROES = 0x08,
	NVME_IO_DATASET_MANAGEMENT = 0x09,
	NVME_IO_VERIFY = 0x0c,
	NVME_IO_CANCEL = 0x18,
	NVME_IO_COPY = 0x19,
};

enum nvme_fabrics_type {
	NVMF_PROPERTY_SET = 0x00,
	NVMF_CONNECT = 0x01,
	NVMF_PROPERTY_GET = 0x04,
	NVMF_AUTH_SEND = 0x05,
	NVMF_AUTH_RECV = 0x06,
	NVMF_DISCONNECT = 0x08,
};

/* One SGL descriptor; the type and sub type are in the last byte. */
struct nvme_sgl_desc {
	le64 addr;
	le32 length;
	uint8_t rsvd[3];
	uint8_t type;
};

struct nvme_sqe {
	uint8_t opcode;
	uint8_t flags; /* FUSE in 1:0, PSDT in 7:6 */
	le16 cid;
	le32 nsid; /* Fabrics commands: FCTYPE in the first byte */
	le32 cdw2;
	le32 cdw3;
	le64 mptr;
	struct nvme_sgl_desc sgl;
	le32 cdw10;
	le32 cdw11;
	le32 cdw12;
	le32 cdw13;
	le32 cdw14;
	le32 cdw15;
};

struct nvme_cqe {
	le32 dw0;
	le32 dw1;
	le16 sqhd;
	le16 sqid;
	le16 cid;
	le16 status; /* status field shifted left by one; the phase tag is 0 over fabrics */
};

_Static_assert(sizeof(struct nvme_sqe) == 64, "submission entry");
_Static_assert(sizeof(struct nvme_cqe) == 16, "completion entry");

#define NVME_SQE_FUSE_MASK 0x03
#define NVME_SQE_PSDT_MASK 0xc0
#define NVME_SQE_PSDT_SGL  0x40 /* the only value allowed over fabrics */

static inline le16 nvme_status_encode(nvme_status status)
{
	return le16_of((uint16_t)(status.value << 1));
}

static inline nvme_status nvme_status_decode(le16 field)
{
	return (nvme_status){(uint16_t)(le16_get(field) >> 1)};
}

static inline uint64_t nvme_cqe_result(const struct nvme_cqe *cqe)
{
	return le32_get(cqe->dw0) | (uint64_t)le32_get(cqe->dw1) << 32;
}

/* For example "Read" or "Identify"; never NULL. */
const char *nvme_admin_opcode_name(uint8_t opcode);
const char *nvme_io_opcode_name(uint8_t opcode);

#endif
