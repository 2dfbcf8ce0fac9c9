/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe/TCP PDU layouts as they are on the wire. NVMe/TCP Transport 1.1, section 3.6. Only wire/
 * uses these; all other code uses struct pdu (wire/pdu.h).
 */
#ifndef WEFT_WIRE_NVME_TCP_H
#define WEFT_WIRE_NVME_TCP_H

#include "base/le.h"
#include "wire/nvme.h"

enum nvme_tcp_pdu_type {
	NVME_TCP_PDU_IC_REQ = 0x00,
	NVME_TCP_PDU_IC_RESP = 0x01,
	NVME_TCP_PDU_H2C_TERM_REQ = 0x02,
	NVME_TCP_PDU_C2H_TERM_REQ = 0x03,
	NVME_TCP_PDU_CAPSULE_CMD = 0x04,
	NVME_TCP_PDU_CAPSULE_RESP = 0x05,
	NVME_TCP_PDU_H2C_DATA = 0x06,
	NVME_TCP_PDU_C2H_DATA = 0x07,
	NVME_TCP_PDU_R2T = 0x09,
};

enum nvme_tcp_flags {
	NVME_TCP_FLAG_HDGST = 1 << 0,
	NVME_TCP_FLAG_DDGST = 1 << 1,
	NVME_TCP_FLAG_LAST_PDU = 1 << 2,
	NVME_TCP_FLAG_SUCCESS = 1 << 3, /* C2HData only */
};

/* Fatal Error Status of a TermReq. */
enum nvme_tcp_fes {
	NVME_TCP_FES_NONE = 0x00,
	NVME_TCP_FES_INVALID_HEADER_FIELD = 0x01, /* FEI: offset of the field */
	NVME_TCP_FES_PDU_SEQUENCE = 0x02,
	NVME_TCP_FES_HDGST = 0x03, /* FEI: the digest received */
	NVME_TCP_FES_DATA_OUT_OF_RANGE = 0x04,
	NVME_TCP_FES_R2T_LIMIT_EXCEEDED = 0x05, /* for the host: data transfer limit exceeded */
	NVME_TCP_FES_UNSUPPORTED_PARAM = 0x06,  /* FEI: offset of the field */
};

#define NVME_TCP_DIGEST_BYTES        4
#define NVME_TCP_COMMON_HDR_BYTES    8
#define NVME_TCP_IC_BYTES            128
#define NVME_TCP_CMD_HDR_BYTES       72
#define NVME_TCP_RESP_HDR_BYTES      24
#define NVME_TCP_DATA_HDR_BYTES      24
#define NVME_TCP_TERM_HDR_BYTES      24
#define NVME_TCP_TERM_DATA_MAX_BYTES 128 /* offending header echoed in a TermReq */
/* Header, digest and padding: the data of a CapsuleCmd with header digest at CPDA 17 (72 bytes)
 * begins at byte 144. */
#define NVME_TCP_HDR_MAX_BYTES  144
#define NVME_TCP_MIN_MAXH2CDATA 4096
#define NVME_TCP_DEFAULT_PORT   4420
#define NVME_TCP_DISCOVERY_PORT 8009

struct nvme_tcp_common_hdr {
	uint8_t type;
	uint8_t flags;
	uint8_t hlen;
	uint8_t pdo;
	le32 plen;
};

/* ICReq and ICResp share a layout: pfv, then alignment, digests, and a limit. */
struct nvme_tcp_ic {
	struct nvme_tcp_common_hdr ch;
	le16 pfv;
	uint8_t pda;  /* HPDA in a request, CPDA in a response: dwords, zero-based */
	uint8_t dgst; /* bit 0 header, bit 1 data */
	le32 limit;   /* MAXR2T (zero-based) in a request, MAXH2CDATA in a response */
	uint8_t rsvd[112];
};

struct nvme_tcp_cmd {
	struct nvme_tcp_common_hdr ch;
	struct nvme_sqe sqe;
};

struct nvme_tcp_resp {
	struct nvme_tcp_common_hdr ch;
	struct nvme_cqe cqe;
};

/* H2CData, C2HData and R2T share a layout. */
struct nvme_tcp_data {
	struct nvme_tcp_common_hdr ch;
	le16 cccid;
	le16 ttag;
	le32 offset;
	le32 length;
	uint8_t rsvd[4];
};

struct nvme_tcp_term {
	struct nvme_tcp_common_hdr ch;
	le16 fes;
	le32 fei;
	uint8_t rsvd[10];
};

_Static_assert(sizeof(struct nvme_tcp_common_hdr) == NVME_TCP_COMMON_HDR_BYTES, "common header");
_Static_assert(sizeof(struct nvme_tcp_ic) == NVME_TCP_IC_BYTES, "ICReq, ICResp");
_Static_assert(sizeof(struct nvme_tcp_cmd) == NVME_TCP_CMD_HDR_BYTES, "CapsuleCmd");
_Static_assert(sizeof(struct nvme_tcp_resp) == NVME_TCP_RESP_HDR_BYTES, "CapsuleResp");
_Static_assert(sizeof(struct nvme_tcp_data) == NVME_TCP_DATA_HDR_BYTES, "H2CData, C2HData, R2T");
_Static_assert(sizeof(struct nvme_tcp_term) == NVME_TCP_TERM_HDR_BYTES, "TermReq");

#endif
