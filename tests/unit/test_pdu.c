/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe/TCP PDUs: every type decodes; decode(encode(x)) is x for all alignments and digests; every
 * violation of a header has a row with the fatal error status and information sent to the peer; no
 * truncated header is judged or read past its end. NVMe/TCP 1.1, sections 3.3 and 3.6. One thread.
 */
#include "base/check.h"
#include "base/crc32c.h"
#include "tap.h"
#include "wire/pdu.h"

#include <stdlib.h>

static struct pdu_state state_of(enum pdu_role role, bool hdgst, bool ddgst)
{
	return (struct pdu_state){
		.role = role,
		.is_initialized = true,
		.has_header_digest = hdgst,
		.has_data_digest = ddgst,
		.data_align_bytes = 4,
		.in_capsule_max_bytes = 8192,
		.data_max_bytes = role == PDU_ROLE_TARGET ? 65536 : UINT32_MAX,
	};
}

/* Decodes a heap copy of exactly len bytes, so that ASan sees a read past its end. */
static enum pdu_verdict decode_exact(const uint8_t *bytes, size_t len,
				     const struct pdu_state *state, struct pdu *pdu,
				     struct pdu_error *error)
{
	uint8_t *copy = malloc(len != 0 ? len : 1);
	enum pdu_verdict verdict;

	CHECK(copy != NULL);
	memcpy(copy, bytes, len);
	verdict = pdu_decode(copy, len, state, pdu, error);
	free(copy);
	return verdict;
}

static struct nvme_sqe some_sqe(void)
{
	struct nvme_sqe sqe;
	uint8_t *bytes = (uint8_t *)&sqe;

	for (size_t i = 0; i < sizeof(sqe); i++)
		bytes[i] = (uint8_t)(i + 1);
	return sqe;
}

/* Makes a valid PDU of the type, with 512 bytes of data where the type has data. */
static size_t make_pdu(enum nvme_tcp_pdu_type type, const struct pdu_encoding *encoding,
		       uint8_t *hdr)
{
	const struct nvme_sqe sqe = some_sqe();
	const struct nvme_cqe cqe = {.dw0 = le32_of(0x12345678), .cid = le16_of(7)};
	const struct pdu_data_args data = {0x1234, 0x5678, 4096, 512, true, false};
	const struct pdu_error error = {NVME_TCP_FES_INVALID_HEADER_FIELD, 2, "x"};

	switch (type) {
	case NVME_TCP_PDU_IC_REQ:
		return pdu_encode_ic_req(hdr, 4, true, true, 16);
	case NVME_TCP_PDU_IC_RESP:
		return pdu_encode_ic_resp(hdr, 4, true, true, 131072);
	case NVME_TCP_PDU_H2C_TERM_REQ:
		return pdu_encode_term(hdr, PDU_ROLE_HOST, error, (const uint8_t *)"abcdefgh", 8);
	case NVME_TCP_PDU_C2H_TERM_REQ:
		return pdu_encode_term(hdr, PDU_ROLE_TARGET, error, (const uint8_t *)"abcdefgh", 8);
	case NVME_TCP_PDU_CAPSULE_CMD:
		return pdu_encode_cmd(hdr, encoding, &sqe, 512);
	case NVME_TCP_PDU_CAPSULE_RESP:
		return pdu_encode_resp(hdr, encoding, &cqe);
	case NVME_TCP_PDU_H2C_DATA:
		return pdu_encode_h2c_data(hdr, encoding, &data);
	case NVME_TCP_PDU_C2H_DATA:
		return pdu_encode_c2h_data(hdr, encoding, &data);
	case NVME_TCP_PDU_R2T:
		return pdu_encode_r2t(hdr, encoding, &data);
	}
	return 0;
}

static enum pdu_role receiver_of(enum nvme_tcp_pdu_type type)
{
	switch (type) {
	case NVME_TCP_PDU_IC_REQ:
	case NVME_TCP_PDU_H2C_TERM_REQ:
	case NVME_TCP_PDU_CAPSULE_CMD:
	case NVME_TCP_PDU_H2C_DATA:
		return PDU_ROLE_TARGET;
	default:
		return PDU_ROLE_HOST;
	}
}

static bool is_ic(enum nvme_tcp_pdu_type type)
{
	return type == NVME_TCP_PDU_IC_REQ || type == NVME_TCP_PDU_IC_RESP;
}

static const enum nvme_tcp_pdu_type all_types[] = {
	NVME_TCP_PDU_IC_REQ,       NVME_TCP_PDU_IC_RESP,     NVME_TCP_PDU_H2C_TERM_REQ,
	NVME_TCP_PDU_C2H_TERM_REQ, NVME_TCP_PDU_CAPSULE_CMD, NVME_TCP_PDU_CAPSULE_RESP,
	NVME_TCP_PDU_H2C_DATA,     NVME_TCP_PDU_C2H_DATA,    NVME_TCP_PDU_R2T,
};

/* ---- bytes against the specification -------------------------------------------------------- */

static void ic_req_has_the_bytes_of_the_specification(void)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	const uint8_t start[] = {0x00, 0, 128, 0, 128, 0, 0, 0, 0, 0, 3, 0x01, 15, 0, 0, 0};

	EXPECT_EQ(128, pdu_encode_ic_req(hdr, 16, true, false, 16));
	EXPECT(memcmp(start, hdr, sizeof(start)) == 0);
	for (size_t i = sizeof(start); i < 128; i++)
		EXPECT_EQ(0, hdr[i]);
}

static void c2h_data_has_the_bytes_of_the_specification(void)
{
	const struct pdu_encoding encoding = {true, true, 32};
	const struct pdu_data_args args = {0x0102, 0, 0x1000, 0x200, true, true};
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	/* PLEN = 32 (PDO) + 512 + 4 (digest) = 0x224 */
	const uint8_t want[] = {0x07, 0x0f, 24, 32, 0x24, 2, 0, 0, 2, 1, 0, 0,
				0,    0x10, 0,  0,  0,    2, 0, 0, 0, 0, 0, 0};
	uint32_t digest;

	EXPECT_EQ(32, pdu_encode_c2h_data(hdr, &encoding, &args));
	EXPECT(memcmp(want, hdr, sizeof(want)) == 0);
	digest = crc32c(want, sizeof(want));
	EXPECT_EQ(digest & 0xff, hdr[24]);
	EXPECT_EQ(digest >> 24, hdr[27]);
	EXPECT_EQ(0, hdr[28] | hdr[29] | hdr[30] | hdr[31]);
}

static void command_without_data_has_no_data_offset(void)
{
	const struct pdu_encoding encoding = {true, true, 64};
	const struct nvme_sqe sqe = some_sqe();
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];

	EXPECT_EQ(76, pdu_encode_cmd(hdr, &encoding, &sqe, 0));
	EXPECT_EQ(NVME_TCP_FLAG_HDGST, hdr[1]);
	EXPECT_EQ(0, hdr[3]);
	EXPECT_EQ(76, hdr[4]);
	EXPECT(memcmp(&sqe, hdr + 8, 64) == 0);
}

static void termination_echoes_the_header_and_reserves_the_information(void)
{
	uint8_t buf[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES], echo[200];
	struct pdu_error error = {NVME_TCP_FES_INVALID_HEADER_FIELD, 0x01020304, "x"};

	memset(echo, 0x5a, sizeof(echo));
	EXPECT_EQ(152, pdu_encode_term(buf, PDU_ROLE_TARGET, error, echo, sizeof(echo)));
	EXPECT_EQ(0x03, buf[0]);
	EXPECT_EQ(152, buf[4]);
	EXPECT_EQ(1, buf[8]);
	EXPECT_EQ(4, buf[10]);
	EXPECT_EQ(1, buf[13]);
	EXPECT_EQ(0x5a, buf[151]);
	error.fes = NVME_TCP_FES_DATA_OUT_OF_RANGE;
	EXPECT_EQ(24, pdu_encode_term(buf, PDU_ROLE_HOST, error, NULL, 0));
	EXPECT_EQ(0x02, buf[0]);
	EXPECT_EQ(4, buf[8]);
	EXPECT_EQ(0, buf[10] | buf[11] | buf[12] | buf[13]);
}

/* ---- round trips ---------------------------------------------------------------------------- */

static void expect_body(const struct pdu *pdu)
{
	const struct nvme_sqe sqe = some_sqe();

	switch (pdu->type) {
	case NVME_TCP_PDU_CAPSULE_CMD:
		EXPECT(memcmp(&sqe, &pdu->u.sqe, sizeof(sqe)) == 0);
		break;
	case NVME_TCP_PDU_CAPSULE_RESP:
		EXPECT_EQ(0x12345678, le32_get(pdu->u.cqe.dw0));
		EXPECT_EQ(7, le16_get(pdu->u.cqe.cid));
		break;
	case NVME_TCP_PDU_H2C_DATA:
	case NVME_TCP_PDU_C2H_DATA:
	case NVME_TCP_PDU_R2T:
		EXPECT_EQ(0x1234, pdu->u.data.cccid);
		EXPECT_EQ(0x5678, pdu->u.data.ttag);
		EXPECT_EQ(4096, pdu->u.data.offset);
		EXPECT_EQ(512, pdu->u.data.length);
		break;
	default:
		EXPECT_EQ(1, pdu->u.term.fes);
		EXPECT_EQ(2, pdu->u.term.fei);
		EXPECT_EQ(8, pdu->data_bytes);
		EXPECT_EQ(24, pdu->data_offset);
		break;
	}
}

static void round_trip(enum nvme_tcp_pdu_type type, const struct pdu_encoding *encoding)
{
	bool has_data = type == NVME_TCP_PDU_CAPSULE_CMD || type == NVME_TCP_PDU_H2C_DATA ||
			type == NVME_TCP_PDU_C2H_DATA;
	struct pdu_state state =
		state_of(receiver_of(type), encoding->has_header_digest, encoding->has_data_digest);
	uint8_t hdr[256];
	struct pdu_error error;
	struct pdu pdu;
	size_t len;

	memset(hdr, 0xee, sizeof(hdr));
	state.data_align_bytes = encoding->data_align_bytes;
	len = make_pdu(type, encoding, hdr);
	EXPECT(len <= NVME_TCP_HDR_MAX_BYTES);
	EXPECT_EQ(0xee, hdr[len]);
	EXPECT_EQ(PDU_DECODED, decode_exact(hdr, len, &state, &pdu, &error));
	EXPECT(!pdu_is_error(error));
	EXPECT_EQ(type, pdu.type);
	EXPECT_EQ(hdr[2], pdu.header_bytes);
	if (has_data) {
		EXPECT_EQ(len, pdu.data_offset);
		EXPECT_EQ(0, pdu.data_offset % encoding->data_align_bytes);
		EXPECT_EQ(512, pdu.data_bytes);
		EXPECT_EQ(encoding->has_data_digest, pdu.has_data_digest);
		EXPECT_EQ(type != NVME_TCP_PDU_CAPSULE_CMD, pdu.is_last);
	} else if (type == NVME_TCP_PDU_CAPSULE_RESP || type == NVME_TCP_PDU_R2T) {
		EXPECT_EQ(len, pdu.data_offset);
		EXPECT_EQ(0, pdu.data_bytes);
		EXPECT(!pdu.has_data_digest);
	}
	expect_body(&pdu);
}

static void decode_of_encode_is_identity(void)
{
	for (uint32_t align = 4; align <= 128; align += 4) {
		for (int digests = 0; digests < 4; digests++) {
			struct pdu_encoding encoding = {digests & 1, digests & 2, align};

			for (size_t i = 2; i < ARRAY_LEN(all_types); i++)
				round_trip(all_types[i], &encoding);
		}
	}
}

static void ic_round_trips(void)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	struct pdu_state state = {.role = PDU_ROLE_TARGET};
	struct pdu_error error;
	struct pdu pdu;

	for (uint32_t align = 4; align <= 128; align += 4) {
		size_t len = pdu_encode_ic_req(hdr, align, align % 8 == 0, align % 16 == 0, align);

		state.role = PDU_ROLE_TARGET;
		EXPECT_EQ(PDU_DECODED, decode_exact(hdr, len, &state, &pdu, &error));
		EXPECT_EQ(align, pdu.u.ic.data_align_bytes);
		EXPECT_EQ(align % 8 == 0, pdu.u.ic.wants_header_digest);
		EXPECT_EQ(align % 16 == 0, pdu.u.ic.wants_data_digest);
		EXPECT_EQ(align, pdu.u.ic.max_r2t);
		EXPECT_EQ(128, pdu.data_offset);

		len = pdu_encode_ic_resp(hdr, align, false, true, 4096 + align);
		state.role = PDU_ROLE_HOST;
		EXPECT_EQ(PDU_DECODED, decode_exact(hdr, len, &state, &pdu, &error));
		EXPECT_EQ(align, pdu.u.ic.data_align_bytes);
		EXPECT_EQ(4096 + align, pdu.u.ic.max_data_bytes);
		EXPECT(!pdu.u.ic.wants_header_digest);
		EXPECT(pdu.u.ic.wants_data_digest);
	}
	/* The largest zero-based count must saturate, not wrap to 0. */
	pdu_encode_ic_req(hdr, 4, false, false, 1);
	memset(hdr + 12, 0xff, 4);
	state.role = PDU_ROLE_TARGET;
	EXPECT_EQ(PDU_DECODED, decode_exact(hdr, 128, &state, &pdu, &error));
	EXPECT_EQ(UINT32_MAX, pdu.u.ic.max_r2t);
}

static void truncated_headers_need_more(void)
{
	uint8_t hdr[256];
	struct pdu_error error;
	struct pdu pdu;

	for (size_t i = 0; i < ARRAY_LEN(all_types); i++) {
		for (int hdgst = 0; hdgst < 2; hdgst++) {
			struct pdu_encoding encoding = {hdgst, true, 4};
			struct pdu_state state = state_of(receiver_of(all_types[i]), hdgst, true);
			bool has_digest = hdgst && all_types[i] >= NVME_TCP_PDU_CAPSULE_CMD;
			size_t needed;

			state.is_initialized = !is_ic(all_types[i]);
			make_pdu(all_types[i], &encoding, hdr);
			needed = hdr[2] + (has_digest ? 4u : 0u);
			for (size_t len = 0; len < needed; len++)
				EXPECT_EQ(PDU_NEED_MORE,
					  decode_exact(hdr, len, &state, &pdu, &error));
			EXPECT_EQ(PDU_DECODED, decode_exact(hdr, needed, &state, &pdu, &error));
		}
	}
}

/* ---- violations ----------------------------------------------------------------------------- */

enum row_flags {
	ROW_BEFORE_IC = 1 << 0,
	ROW_HDGST = 1 << 1,
	ROW_DDGST = 1 << 2,
	ROW_ALIGN_16 = 1 << 3,   /* this side requested 16 bytes */
	ROW_WRONG_ROLE = 1 << 4, /* the receiver is the side that sends this type */
	ROW_NO_DATA = 1 << 6,    /* a command without in-capsule data */
};

/* A valid PDU with one field changed: `bytes` bytes at `offset`. fes 0: still valid. */
struct row {
	const char *name;
	enum nvme_tcp_pdu_type type;
	unsigned flags;
	struct {
		uint8_t offset, bytes;
		uint32_t value;
	} patch[3];
	uint16_t fes;
	uint32_t fei;
};

#define REQ  NVME_TCP_PDU_IC_REQ
#define RSP  NVME_TCP_PDU_IC_RESP
#define CMD  NVME_TCP_PDU_CAPSULE_CMD
#define CQE  NVME_TCP_PDU_CAPSULE_RESP
#define H2C  NVME_TCP_PDU_H2C_DATA
#define C2H  NVME_TCP_PDU_C2H_DATA
#define R2T  NVME_TCP_PDU_R2T
#define HTRM NVME_TCP_PDU_H2C_TERM_REQ
#define CTRM NVME_TCP_PDU_C2H_TERM_REQ

/* clang-format off */
static const struct row rows[] = {
	/* PDU type */
	{"type 08h is reserved", CMD, 0, {{0, 1, 0x08}}, 1, 0},
	{"type 0Ah is unknown", CMD, 0, {{0, 1, 0x0a}}, 1, 0},
	{"type FFh is unknown", CMD, 0, {{0, 1, 0xff}}, 1, 0},
	{"unknown before initialization", REQ, ROW_BEFORE_IC, {{0, 1, 0x44}}, 1, 0},
	{"command to a host", CMD, ROW_WRONG_ROLE, {{0}}, 1, 0},
	{"H2CData to a host", H2C, ROW_WRONG_ROLE, {{0}}, 1, 0},
	{"H2CTermReq to a host", HTRM, ROW_WRONG_ROLE, {{0}}, 1, 0},
	{"ICReq to a host", REQ, ROW_WRONG_ROLE | ROW_BEFORE_IC, {{0}}, 1, 0},
	{"response to a target", CQE, ROW_WRONG_ROLE, {{0}}, 1, 0},
	{"C2HData to a target", C2H, ROW_WRONG_ROLE, {{0}}, 1, 0},
	{"R2T to a target", R2T, ROW_WRONG_ROLE, {{0}}, 1, 0},
	{"C2HTermReq to a target", CTRM, ROW_WRONG_ROLE, {{0}}, 1, 0},
	{"ICResp to a target", RSP, ROW_WRONG_ROLE | ROW_BEFORE_IC, {{0}}, 1, 0},
	/* phase */
	{"command before ICReq", CMD, ROW_BEFORE_IC, {{0}}, 2, 0},
	{"H2CData before ICReq", H2C, ROW_BEFORE_IC, {{0}}, 2, 0},
	{"response before ICResp", CQE, ROW_BEFORE_IC, {{0}}, 2, 0},
	{"R2T before ICResp", R2T, ROW_BEFORE_IC, {{0}}, 2, 0},
	{"C2HData before ICResp", C2H, ROW_BEFORE_IC, {{0}}, 2, 0},
	{"second ICReq", REQ, 0, {{0}}, 2, 0},
	{"second ICResp", RSP, 0, {{0}}, 2, 0},
	{"H2CTermReq before ICReq is legal", HTRM, ROW_BEFORE_IC, {{0}}, 0, 0},
	{"C2HTermReq before ICResp is legal", CTRM, ROW_BEFORE_IC, {{0}}, 0, 0},
	/* HLEN */
	{"ICReq HLEN", REQ, ROW_BEFORE_IC, {{2, 1, 127}}, 1, 2},
	{"ICResp HLEN", RSP, ROW_BEFORE_IC, {{2, 1, 24}}, 1, 2},
	{"command HLEN short", CMD, 0, {{2, 1, 71}}, 1, 2},
	{"command HLEN long", CMD, 0, {{2, 1, 76}}, 1, 2},
	{"command HLEN 0", CMD, 0, {{2, 1, 0}}, 1, 2},
	{"response HLEN", CQE, 0, {{2, 1, 72}}, 1, 2},
	{"H2CData HLEN", H2C, 0, {{2, 1, 72}}, 1, 2},
	{"C2HData HLEN", C2H, 0, {{2, 1, 20}}, 1, 2},
	{"R2T HLEN", R2T, 0, {{2, 1, 28}}, 1, 2},
	{"TermReq HLEN", HTRM, 0, {{2, 1, 23}}, 1, 2},
	/* flags */
	{"reserved flags are ignored", CMD, 0, {{1, 1, 0xf0}}, 0, 0},
	{"ICReq with a digest flag", REQ, ROW_BEFORE_IC, {{1, 1, 1}}, 1, 1},
	{"command without agreed HDGST", CMD, ROW_HDGST, {{1, 1, 0}}, 1, 1},
	{"command with HDGST not agreed", CMD, 0, {{1, 1, 1}}, 1, 1},
	{"response with HDGST not agreed", CQE, 0, {{1, 1, 1}}, 1, 1},
	{"R2T without agreed HDGST", R2T, ROW_HDGST, {{1, 1, 0}}, 1, 1},
	{"command data without agreed DDGST", CMD, ROW_DDGST, {{1, 1, 0}}, 1, 1},
	{"command with DDGST not agreed", CMD, 0, {{1, 1, 2}}, 1, 1},
	{"DDGST on a command without data", CMD, ROW_DDGST | ROW_NO_DATA, {{1, 1, 2}}, 1, 1},
	{"H2CData without agreed DDGST", H2C, ROW_DDGST, {{1, 1, 4}}, 1, 1},
	{"C2HData with DDGST not agreed", C2H, 0, {{1, 1, 6}}, 1, 1},
	{"DDGST on a response", CQE, ROW_DDGST, {{1, 1, 2}}, 1, 1},
	{"DDGST on an R2T", R2T, ROW_DDGST, {{1, 1, 2}}, 1, 1},
	{"LAST on a command", CMD, 0, {{1, 1, 4}}, 1, 1},
	{"SUCCESS on a response", CQE, 0, {{1, 1, 8}}, 1, 1},
	{"LAST on an R2T", R2T, 0, {{1, 1, 4}}, 1, 1},
	{"SUCCESS on H2CData", H2C, 0, {{1, 1, 12}}, 1, 1},
	{"SUCCESS without LAST", C2H, 0, {{1, 1, 8}}, 1, 1},
	{"SUCCESS with LAST is legal", C2H, 0, {{1, 1, 12}}, 0, 0},
	/* PLEN */
	{"ICReq PLEN", REQ, ROW_BEFORE_IC, {{4, 4, 132}}, 1, 4},
	{"ICReq PLEN short", REQ, ROW_BEFORE_IC, {{4, 4, 24}}, 1, 4},
	{"ICResp PLEN", RSP, ROW_BEFORE_IC, {{4, 4, 256}}, 1, 4},
	{"command PLEN below HLEN", CMD, 0, {{4, 4, 71}}, 1, 4},
	{"command PLEN 0", CMD, 0, {{4, 4, 0}}, 1, 4},
	{"command PLEN without room for HDGST", CMD, ROW_HDGST | ROW_NO_DATA, {{4, 4, 72}}, 1, 4},
	{"response PLEN with data", CQE, 0, {{4, 4, 28}}, 1, 4},
	{"response PLEN short", CQE, 0, {{4, 4, 20}}, 1, 4},
	{"R2T PLEN with data", R2T, ROW_HDGST, {{4, 4, 32}}, 1, 4},
	{"H2CData PLEN without data", H2C, 0, {{4, 4, 24}}, 1, 4},
	{"C2HData PLEN below header", C2H, 0, {{4, 4, 8}}, 1, 4},
	{"in-capsule data at the limit", CMD, 0, {{4, 4, 72 + 8192}}, 0, 0},
	{"in-capsule data over the limit", CMD, 0, {{4, 4, 72 + 8193}}, 1, 4},
	{"in-capsule data of 4 GiB", CMD, 0, {{4, 4, UINT32_MAX}}, 1, 4},
	{"padding but no data", CMD, ROW_NO_DATA, {{3, 1, 80}, {4, 4, 80}}, 1, 4},
	{"digest but no data", CMD, ROW_DDGST, {{4, 4, 76}}, 1, 4},
	{"TermReq PLEN short", HTRM, 0, {{4, 4, 23}}, 1, 4},
	{"TermReq PLEN 24", CTRM, 0, {{4, 4, 24}}, 0, 0},
	{"TermReq PLEN 152", CTRM, 0, {{4, 4, 152}}, 0, 0},
	{"TermReq PLEN 153", CTRM, 0, {{4, 4, 153}}, 1, 4},
	/* PDO */
	{"PDO 0 with data", CMD, 0, {{3, 1, 0}}, 1, 3},
	{"PDO inside the header", CMD, 0, {{3, 1, 68}}, 1, 3},
	{"PDO inside the digest", H2C, ROW_HDGST, {{3, 1, 24}}, 1, 3},
	{"PDO not in dwords", CMD, 0, {{3, 1, 74}}, 1, 3},
	{"PDO not aligned as asked", CMD, ROW_ALIGN_16, {{3, 1, 72}}, 1, 3},
	{"PDO after the end", C2H, 0, {{3, 1, 200}, {4, 4, 100}}, 1, 3},
	{"PDO in the data digest", H2C, ROW_DDGST, {{3, 1, 100}, {4, 4, 102}}, 1, 3},
	{"PLEN below the data digest", H2C, ROW_DDGST, {{4, 4, 24}}, 1, 3},
	{"PDO of a command without data", CMD, ROW_NO_DATA, {{3, 1, 80}}, 1, 3},
	{"PDO at the end of a command without data", CMD, ROW_NO_DATA, {{3, 1, 72}}, 0, 0},
	{"reserved PDO of a response", CQE, 0, {{3, 1, 24}}, 0, 0},
	/* header digest: FEI is the received digest */
	{"command digest", CMD, ROW_HDGST, {{72, 4, 0xdeadbeef}}, 3, 0xdeadbeef},
	{"response digest", CQE, ROW_HDGST, {{24, 4, 0x01020304}}, 3, 0x01020304},
	{"H2CData digest", H2C, ROW_HDGST, {{24, 4, 0}}, 3, 0},
	{"C2HData digest", C2H, ROW_HDGST | ROW_DDGST, {{24, 4, 1}}, 3, 1},
	{"R2T digest", R2T, ROW_HDGST, {{24, 4, 5}}, 3, 5},
	{"digest before length", H2C, ROW_HDGST, {{16, 4, 9}, {24, 4, 7}}, 3, 7},
	/* initialization parameters */
	{"ICReq PFV", REQ, ROW_BEFORE_IC, {{8, 2, 1}}, 6, 8},
	{"ICResp PFV", RSP, ROW_BEFORE_IC, {{8, 2, 0x100}}, 6, 8},
	{"HPDA 31", REQ, ROW_BEFORE_IC, {{10, 1, 31}}, 0, 0},
	{"HPDA 32", REQ, ROW_BEFORE_IC, {{10, 1, 32}}, 1, 10},
	{"CPDA 255", RSP, ROW_BEFORE_IC, {{10, 1, 255}}, 1, 10},
	{"reserved digest bits", REQ, ROW_BEFORE_IC, {{11, 1, 0xff}}, 0, 0},
	{"MAXH2CDATA 4096", RSP, ROW_BEFORE_IC, {{12, 4, 4096}}, 0, 0},
	{"MAXH2CDATA 4092", RSP, ROW_BEFORE_IC, {{12, 4, 4092}}, 1, 12},
	{"MAXH2CDATA not in dwords", RSP, ROW_BEFORE_IC, {{12, 4, 4098}}, 1, 12},
	{"MAXH2CDATA 0", RSP, ROW_BEFORE_IC, {{12, 4, 0}}, 1, 12},
	/* data PDUs */
	{"H2CData DATAL against PLEN", H2C, 0, {{16, 4, 508}}, 1, 16},
	{"C2HData DATAL against PLEN", C2H, ROW_DDGST, {{16, 4, 516}}, 1, 16},
	{"H2CData at MAXH2CDATA", H2C, 0, {{16, 4, 65536}, {4, 4, 65560}}, 0, 0},
	{"H2CData over MAXH2CDATA", H2C, 0, {{16, 4, 65540}, {4, 4, 65564}}, 5, 16},
	{"C2HData has no limit", C2H, 0, {{16, 4, 0x10000000}, {4, 4, 0x10000018}}, 0, 0},
	{"R2T of nothing", R2T, 0, {{16, 4, 0}}, 1, 16},
};
/* clang-format on */

static size_t row_bytes(const struct row *row, uint8_t *hdr)
{
	struct pdu_encoding encoding = {(row->flags & ROW_HDGST) != 0,
					(row->flags & ROW_DDGST) != 0, 4};
	const struct nvme_sqe sqe = some_sqe();
	size_t len = row->flags & ROW_NO_DATA ? pdu_encode_cmd(hdr, &encoding, &sqe, 0)
					      : make_pdu(row->type, &encoding, hdr);
	uint8_t hlen = hdr[2];
	bool touches_digest = false;

	for (size_t i = 0; i < ARRAY_LEN(row->patch); i++) {
		le32 value = le32_of(row->patch[i].value);

		memcpy(hdr + row->patch[i].offset, &value, row->patch[i].bytes);
		if (row->patch[i].bytes != 0 && row->patch[i].offset >= hlen)
			touches_digest = true;
	}
	if (encoding.has_header_digest && !touches_digest) {
		le32 digest = le32_of(crc32c(hdr, hlen));

		memcpy(hdr + hlen, &digest, sizeof(digest));
	}
	return len;
}

static void every_violation_has_its_error(void)
{
	uint8_t hdr[256];
	struct pdu_error error;
	struct pdu pdu;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		enum pdu_role role = receiver_of(row->type);
		struct pdu_state state;
		enum pdu_verdict verdict;
		size_t len = row_bytes(row, hdr);

		if (row->flags & ROW_WRONG_ROLE)
			role = role == PDU_ROLE_TARGET ? PDU_ROLE_HOST : PDU_ROLE_TARGET;
		state = state_of(role, row->flags & ROW_HDGST, row->flags & ROW_DDGST);
		state.is_initialized = (row->flags & ROW_BEFORE_IC) == 0;
		if (row->flags & ROW_ALIGN_16)
			state.data_align_bytes = 16;
		verdict = decode_exact(hdr, len, &state, &pdu, &error);
		if (verdict != (row->fes != 0 ? PDU_VIOLATION : PDU_DECODED) ||
		    error.fes != row->fes || error.fei != row->fei) {
			printf("# row \"%s\": verdict %d fes %u fei 0x%x (%s)\n", row->name,
			       verdict, error.fes, error.fei, error.what ? error.what : "-");
			tap_case_failed = true;
		}
		EXPECT((verdict == PDU_VIOLATION) == (error.what != NULL));
	}
}

static void a_wrong_common_header_is_told_after_8_bytes(void)
{
	const struct pdu_state state = state_of(PDU_ROLE_TARGET, true, false);
	const struct pdu_encoding encoding = {false, false, 4};
	const struct nvme_sqe sqe = some_sqe();
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	struct pdu_error error;
	struct pdu pdu;

	pdu_encode_cmd(hdr, &encoding, &sqe, 0);
	EXPECT_EQ(PDU_VIOLATION, decode_exact(hdr, 8, &state, &pdu, &error));
	EXPECT_EQ(1, error.fei);
}

static void a_glance_at_a_command(void)
{
	const struct pdu_encoding encoding = {false, true, 4};
	struct nvme_sqe sqe = some_sqe();
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	uint32_t nsid = 0;

	sqe.nsid = le32_of(0x01020304);
	pdu_encode_cmd(hdr, &encoding, &sqe, 512);
	EXPECT_EQ(NVME_TCP_CMD_HDR_BYTES + 512 + 4, pdu_peek_cmd(hdr, sizeof(hdr), &nsid));
	EXPECT_EQ(0x01020304, nsid);
	EXPECT_EQ(NVME_TCP_CMD_HDR_BYTES + 512 + 4,
		  pdu_peek_cmd(hdr, NVME_TCP_CMD_HDR_BYTES, &nsid));
	for (size_t len = 0; len < NVME_TCP_CMD_HDR_BYTES; len++)
		EXPECT_EQ(0, pdu_peek_cmd(hdr, len, &nsid));
	/* A length that would point back into the same header. */
	memset(hdr + 4, 0, 4);
	EXPECT_EQ(0, pdu_peek_cmd(hdr, sizeof(hdr), &nsid));
	hdr[4] = NVME_TCP_CMD_HDR_BYTES;
	EXPECT_EQ(NVME_TCP_CMD_HDR_BYTES, pdu_peek_cmd(hdr, sizeof(hdr), &nsid));
	hdr[0] = NVME_TCP_PDU_H2C_DATA;
	EXPECT_EQ(0, pdu_peek_cmd(hdr, sizeof(hdr), &nsid));
}

static void names_are_never_null(void)
{
	EXPECT_STR("R2T", pdu_type_name(NVME_TCP_PDU_R2T));
	EXPECT_STR("ICReq", pdu_type_name(NVME_TCP_PDU_IC_REQ));
	EXPECT_STR("unknown PDU", pdu_type_name((enum nvme_tcp_pdu_type)8));
}

int main(void)
{
	TAP_RUN(ic_req_has_the_bytes_of_the_specification);
	TAP_RUN(c2h_data_has_the_bytes_of_the_specification);
	TAP_RUN(command_without_data_has_no_data_offset);
	TAP_RUN(termination_echoes_the_header_and_reserves_the_information);
	TAP_RUN(decode_of_encode_is_identity);
	TAP_RUN(ic_round_trips);
	TAP_RUN(truncated_headers_need_more);
	TAP_RUN(every_violation_has_its_error);
	TAP_RUN(a_wrong_common_header_is_told_after_8_bytes);
	TAP_RUN(a_glance_at_a_command);
	TAP_RUN(names_are_never_null);
	return tap_end();
}
