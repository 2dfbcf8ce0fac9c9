/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the NVMe/TCP PDU decoder, which gets bytes from every peer that can connect. Input: 4
 * bytes of connection state (flags, alignment, limit of in-capsule data), then the PDU. Besides
 * memory errors it looks for contradictory verdicts: sizes that do not add up to PLEN, a decoded
 * PDU that does not survive encoding, a prefix judged differently from the whole. Half of the wrong
 * header digests are repaired, so that the fields behind them are decoded.
 */
#include "base/check.h"
#include "base/crc32c.h"
#include "wire/pdu.h"
#include "wire/sgl.h"

#include <string.h>

#define STATE_BYTES 4

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static struct pdu_state state_from(const uint8_t *input)
{
	return (struct pdu_state){
		.role = input[0] & 1 ? PDU_ROLE_HOST : PDU_ROLE_TARGET,
		.is_initialized = (input[0] & 2) != 0,
		.has_header_digest = (input[0] & 4) != 0,
		.has_data_digest = (input[0] & 8) != 0,
		.data_align_bytes = input[1] == 255 ? 0 : (input[1] % 32u + 1) * 4,
		.in_capsule_max_bytes = input[2] * 64u,
		.data_max_bytes = input[0] & 1 ? UINT32_MAX : 4096 + input[3] * 1024u,
	};
}

/* 0: the peer has not requested an alignment yet. */
static uint32_t align_of(const struct pdu_state *state)
{
	return state->data_align_bytes ? state->data_align_bytes : 4;
}

static uint32_t plen_of(const uint8_t *bytes)
{
	return bytes[4] | (uint32_t)bytes[5] << 8 | (uint32_t)bytes[6] << 16 |
	       (uint32_t)bytes[7] << 24;
}

static bool carries_digest(enum nvme_tcp_pdu_type type)
{
	return type >= NVME_TCP_PDU_CAPSULE_CMD;
}

static void check_sizes(const struct pdu *pdu, const struct pdu_state *state, const uint8_t *bytes)
{
	uint32_t header_end = pdu->header_bytes;

	if (carries_digest(pdu->type) && state->has_header_digest)
		header_end += NVME_TCP_DIGEST_BYTES;
	CHECK(pdu->data_offset >= header_end);
	CHECK(pdu->data_offset <= 255);
	CHECK(pdu->data_offset + (uint64_t)pdu->data_bytes + (pdu->has_data_digest ? 4 : 0) ==
	      plen_of(bytes));
	CHECK(!pdu->has_data_digest || (state->has_data_digest && pdu->data_bytes > 0));
	CHECK(!pdu->is_success || (pdu->is_last && pdu->type == NVME_TCP_PDU_C2H_DATA));
	if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD)
		CHECK(pdu->data_bytes <= state->in_capsule_max_bytes);
	if (pdu->type == NVME_TCP_PDU_H2C_DATA || pdu->type == NVME_TCP_PDU_C2H_DATA) {
		CHECK(pdu->data_bytes > 0 && pdu->data_bytes <= state->data_max_bytes);
		CHECK(pdu->data_offset % align_of(state) == 0);
	}
}

static size_t encode_again(const struct pdu *pdu, const struct pdu_state *state, uint8_t *hdr)
{
	const struct pdu_encoding encoding = {state->has_header_digest, state->has_data_digest,
					      align_of(state)};
	const struct pdu_data_args args = {pdu->u.data.cccid,  pdu->u.data.ttag, pdu->u.data.offset,
					   pdu->u.data.length, pdu->is_last,     pdu->is_success};
	const struct pdu_error error = {pdu->u.term.fes, pdu->u.term.fei, ""};

	switch (pdu->type) {
	case NVME_TCP_PDU_IC_REQ:
		return pdu_encode_ic_req(hdr, pdu->u.ic.data_align_bytes,
					 pdu->u.ic.wants_header_digest, pdu->u.ic.wants_data_digest,
					 pdu->u.ic.max_r2t);
	case NVME_TCP_PDU_IC_RESP:
		return pdu_encode_ic_resp(hdr, pdu->u.ic.data_align_bytes,
					  pdu->u.ic.wants_header_digest,
					  pdu->u.ic.wants_data_digest, pdu->u.ic.max_data_bytes);
	case NVME_TCP_PDU_CAPSULE_CMD:
		return pdu_encode_cmd(hdr, &encoding, &pdu->u.sqe, pdu->data_bytes);
	case NVME_TCP_PDU_CAPSULE_RESP:
		return pdu_encode_resp(hdr, &encoding, &pdu->u.cqe);
	case NVME_TCP_PDU_H2C_DATA:
		return pdu_encode_h2c_data(hdr, &encoding, &args);
	case NVME_TCP_PDU_C2H_DATA:
		return pdu_encode_c2h_data(hdr, &encoding, &args);
	case NVME_TCP_PDU_R2T:
		return pdu_encode_r2t(hdr, &encoding, &args);
	case NVME_TCP_PDU_H2C_TERM_REQ:
	case NVME_TCP_PDU_C2H_TERM_REQ:
		return pdu_encode_term(
			hdr, state->role == PDU_ROLE_HOST ? PDU_ROLE_TARGET : PDU_ROLE_HOST, error,
			NULL, 0);
	}
	CHECK(!"a decoded PDU has a known type");
	return 0;
}

static void check_round_trip(const struct pdu *pdu, const struct pdu_state *state)
{
	uint8_t hdr[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES];
	struct pdu_error error;
	struct pdu again;
	size_t len;

	/* The encoder refuses data whose length does not fit in PLEN. */
	if (pdu->data_bytes > UINT32_MAX - 256)
		return;
	len = encode_again(pdu, state, hdr);
	CHECK(len <= NVME_TCP_HDR_MAX_BYTES);
	CHECK(pdu_decode(hdr, len, state, &again, &error) == PDU_DECODED);
	CHECK(again.type == pdu->type && again.is_last == pdu->is_last &&
	      again.is_success == pdu->is_success);
	if (carries_digest(pdu->type)) {
		CHECK(again.data_bytes == pdu->data_bytes);
		CHECK(memcmp(&again.u, &pdu->u, sizeof(pdu->u)) == 0);
	}
}

static void check_against_transfer(const struct pdu *pdu, const uint8_t *input)
{
	const struct pdu_transfer transfer = {
		.is_open = input[3] != 255,
		.cccid = input[1] % 32,
		.next_offset = input[2] * 4u,
		.end_offset = input[2] * 4u + input[3] * 64u,
	};
	struct pdu_error error = PDU_OK;

	if (pdu->type == NVME_TCP_PDU_H2C_DATA)
		error = pdu_check_h2c_data(pdu, &transfer);
	else if (pdu->type == NVME_TCP_PDU_C2H_DATA)
		error = pdu_check_c2h_data(pdu, &transfer);
	else if (pdu->type == NVME_TCP_PDU_R2T)
		error = pdu_check_r2t(pdu, &transfer, input[0] >> 6, 2);
	else
		return;
	if (pdu_is_error(error))
		CHECK(error.what != NULL);
	else
		CHECK(pdu->u.data.offset == transfer.next_offset &&
		      (uint64_t)pdu->u.data.offset + pdu->u.data.length <= transfer.end_offset);
}

static void check_prefixes(const uint8_t *bytes, size_t size, const struct pdu_state *state,
			   enum pdu_verdict whole)
{
	struct pdu_error error;
	struct pdu pdu;

	/* A prefix is either undecided or judged as the whole; no PDU is decoded too early. */
	for (size_t len = 0; len < size; len++) {
		enum pdu_verdict verdict = pdu_decode(bytes, len, state, &pdu, &error);

		CHECK(verdict == PDU_NEED_MORE || verdict == whole);
		CHECK(pdu_is_error(error) == (verdict == PDU_VIOLATION));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	uint8_t bytes[160];
	struct pdu_state state;
	struct pdu_error error;
	enum pdu_verdict verdict;
	struct sgl sgl;
	struct pdu pdu;
	uint32_t peeked_nsid;
	size_t peeked_bytes;

	if (size < STATE_BYTES)
		return 0;
	state = state_from(input);
	size -= STATE_BYTES;
	if (size > sizeof(bytes))
		size = sizeof(bytes);
	memcpy(bytes, input + STATE_BYTES, size);
	/* Decode the input itself, not the copy, so that ASan sees a read past its end. */
	peeked_bytes = pdu_peek_cmd(input + STATE_BYTES, size, &peeked_nsid);
	verdict = pdu_decode(input + STATE_BYTES, size, &state, &pdu, &error);
	if (verdict == PDU_VIOLATION && error.fes == NVME_TCP_FES_HDGST && (input[0] & 16) == 0) {
		le32 digest = le32_of(crc32c(bytes, bytes[2]));

		memcpy(bytes + bytes[2], &digest, sizeof(digest));
		verdict = pdu_decode(bytes, size, &state, &pdu, &error);
		CHECK(error.fes != NVME_TCP_FES_HDGST);
	}
	CHECK(pdu_is_error(error) == (verdict == PDU_VIOLATION));
	check_prefixes(bytes, size, &state, verdict);
	if (verdict != PDU_DECODED)
		return 0;
	check_sizes(&pdu, &state, bytes);
	check_round_trip(&pdu, &state);
	check_against_transfer(&pdu, input);
	if (pdu.type == NVME_TCP_PDU_CAPSULE_CMD)
		CHECK(peeked_bytes >= pdu.data_offset + pdu.data_bytes &&
		      peeked_nsid == le32_get(pdu.u.sqe.nsid));
	else
		CHECK(peeked_bytes == 0);
	if (pdu.type == NVME_TCP_PDU_CAPSULE_CMD &&
	    nvme_status_is_ok(sgl_decode(&pdu.u.sqe, pdu.data_bytes, &sgl)) &&
	    sgl.kind == SGL_IN_CAPSULE)
		CHECK((uint64_t)sgl.offset_bytes + sgl.len_bytes <= pdu.data_bytes);
	return 0;
}
