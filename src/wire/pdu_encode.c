/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes PDU headers, their digests and the padding up to the data. Pure; any thread. NVMe/TCP 1.1,
 * section 3.6. The caller guarantees sizes, which are checked with CHECK. The sender computes data
 * digests, because the data is not here.
 */
#include "base/check.h"
#include "base/crc32c.h"
#include "wire/pdu.h"

#include <string.h>

static uint8_t align_encode(uint32_t data_align_bytes)
{
	CHECK(data_align_bytes >= 4 && data_align_bytes <= 128 && data_align_bytes % 4 == 0);
	return (uint8_t)(data_align_bytes / 4 - 1);
}

static uint8_t digests_encode(bool header, bool data)
{
	return (uint8_t)((header ? 1 : 0) | (data ? 2 : 0));
}

static size_t encode_ic(uint8_t *hdr, struct nvme_tcp_ic ic, enum nvme_tcp_pdu_type type)
{
	ic.ch.type = (uint8_t)type;
	ic.ch.hlen = NVME_TCP_IC_BYTES;
	ic.ch.plen = le32_of(NVME_TCP_IC_BYTES);
	memcpy(hdr, &ic, sizeof(ic));
	return sizeof(ic);
}

size_t pdu_encode_ic_req(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], uint32_t data_align_bytes,
			 bool wants_header_digest, bool wants_data_digest, uint32_t max_r2t)
{
	struct nvme_tcp_ic ic = {
		.pda = align_encode(data_align_bytes),
		.dgst = digests_encode(wants_header_digest, wants_data_digest),
		.limit = le32_of(max_r2t - 1),
	};

	CHECK(max_r2t >= 1);
	return encode_ic(hdr, ic, NVME_TCP_PDU_IC_REQ);
}

size_t pdu_encode_ic_resp(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], uint32_t data_align_bytes,
			  bool has_header_digest, bool has_data_digest, uint32_t max_data_bytes)
{
	struct nvme_tcp_ic ic = {
		.pda = align_encode(data_align_bytes),
		.dgst = digests_encode(has_header_digest, has_data_digest),
		.limit = le32_of(max_data_bytes),
	};

	CHECK(max_data_bytes >= NVME_TCP_MIN_MAXH2CDATA && max_data_bytes % 4 == 0);
	return encode_ic(hdr, ic, NVME_TCP_PDU_IC_RESP);
}

/* Fills the common header at hdr, and the header digest and padding; the rest of the header is
 * already written. Returns the offset of the data. */
static size_t seal(uint8_t *hdr, uint8_t flags, uint8_t hlen, const struct pdu_encoding *encoding,
		   uint32_t data_bytes)
{
	uint32_t align = encoding->data_align_bytes;
	uint32_t header_end = hlen, data_offset, plen;
	struct nvme_tcp_common_hdr ch = {.type = hdr[0], .hlen = hlen};

	if (encoding->has_header_digest) {
		flags |= NVME_TCP_FLAG_HDGST;
		header_end += NVME_TCP_DIGEST_BYTES;
	}
	data_offset = plen = header_end;
	if (data_bytes > 0) {
		CHECK(align >= 4 && align <= 128 && align % 4 == 0);
		CHECK(data_bytes <= UINT32_MAX - NVME_TCP_HDR_MAX_BYTES - NVME_TCP_DIGEST_BYTES);
		data_offset = (header_end + align - 1) / align * align;
		plen = data_offset + data_bytes;
		ch.pdo = (uint8_t)data_offset;
		if (encoding->has_data_digest) {
			flags |= NVME_TCP_FLAG_DDGST;
			plen += NVME_TCP_DIGEST_BYTES;
		}
	}
	ch.flags = flags;
	ch.plen = le32_of(plen);
	memcpy(hdr, &ch, sizeof(ch));
	if (encoding->has_header_digest) {
		le32 digest = le32_of(crc32c(hdr, hlen));

		memcpy(hdr + hlen, &digest, sizeof(digest));
	}
	memset(hdr + header_end, 0, data_offset - header_end);
	return data_offset;
}

size_t pdu_encode_cmd(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
		      const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	hdr[0] = NVME_TCP_PDU_CAPSULE_CMD;
	memcpy(hdr + NVME_TCP_COMMON_HDR_BYTES, sqe, sizeof(*sqe));
	return seal(hdr, 0, NVME_TCP_CMD_HDR_BYTES, encoding, data_bytes);
}

size_t pdu_encode_resp(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
		       const struct nvme_cqe *cqe)
{
	hdr[0] = NVME_TCP_PDU_CAPSULE_RESP;
	memcpy(hdr + NVME_TCP_COMMON_HDR_BYTES, cqe, sizeof(*cqe));
	return seal(hdr, 0, NVME_TCP_RESP_HDR_BYTES, encoding, 0);
}

static void put_data(uint8_t *hdr, enum nvme_tcp_pdu_type type, const struct pdu_data_args *args)
{
	struct nvme_tcp_data data = {
		.ch.type = (uint8_t)type,
		.cccid = le16_of(args->cccid),
		.ttag = le16_of(args->ttag),
		.offset = le32_of(args->offset),
		.length = le32_of(args->data_bytes),
	};

	CHECK(args->data_bytes > 0);
	memcpy(hdr, &data, sizeof(data));
}

size_t pdu_encode_h2c_data(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
			   const struct pdu_data_args *args)
{
	put_data(hdr, NVME_TCP_PDU_H2C_DATA, args);
	return seal(hdr, args->is_last ? NVME_TCP_FLAG_LAST_PDU : 0, NVME_TCP_DATA_HDR_BYTES,
		    encoding, args->data_bytes);
}

size_t pdu_encode_c2h_data(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
			   const struct pdu_data_args *args)
{
	uint8_t flags = args->is_last ? NVME_TCP_FLAG_LAST_PDU : 0;

	CHECK(args->is_last || !args->is_success);
	if (args->is_success)
		flags |= NVME_TCP_FLAG_SUCCESS;
	put_data(hdr, NVME_TCP_PDU_C2H_DATA, args);
	return seal(hdr, flags, NVME_TCP_DATA_HDR_BYTES, encoding, args->data_bytes);
}

size_t pdu_encode_r2t(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
		      const struct pdu_data_args *args)
{
	put_data(hdr, NVME_TCP_PDU_R2T, args);
	return seal(hdr, 0, NVME_TCP_DATA_HDR_BYTES, encoding, 0);
}

/* FEI has a meaning for three fatal error statuses only; for all others it is reserved, so zero. */
static uint32_t fei_on_wire(struct pdu_error error)
{
	switch (error.fes) {
	case NVME_TCP_FES_INVALID_HEADER_FIELD:
	case NVME_TCP_FES_HDGST:
	case NVME_TCP_FES_UNSUPPORTED_PARAM:
		return error.fei;
	default:
		return 0;
	}
}

size_t pdu_encode_term(uint8_t buf[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES],
		       enum pdu_role sender, struct pdu_error error, const uint8_t *offending,
		       size_t offending_bytes)
{
	size_t echo_bytes = offending_bytes < NVME_TCP_TERM_DATA_MAX_BYTES
				    ? offending_bytes
				    : NVME_TCP_TERM_DATA_MAX_BYTES;
	size_t plen = NVME_TCP_TERM_HDR_BYTES + echo_bytes;
	struct nvme_tcp_term term = {
		.ch.type = sender == PDU_ROLE_TARGET ? NVME_TCP_PDU_C2H_TERM_REQ
						     : NVME_TCP_PDU_H2C_TERM_REQ,
		.ch.hlen = NVME_TCP_TERM_HDR_BYTES,
		.ch.plen = le32_of((uint32_t)plen),
		.fes = le16_of(error.fes),
		.fei = le32_of(fei_on_wire(error)),
	};

	memcpy(buf, &term, sizeof(term));
	if (echo_bytes > 0)
		memcpy(buf + sizeof(term), offending, echo_bytes);
	return plen;
}
