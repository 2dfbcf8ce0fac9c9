/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the header of the next PDU by itself and against the phase of the connection. Pure; any
 * thread. NVMe/TCP 1.1, sections 3.3 (fatal errors, digests) and 3.6 (PDU layouts).
 *
 * The common header is checked as soon as its 8 bytes have arrived, so that a peer that disagrees
 * about digests or lengths gets the error at once. The rest is checked after the header digest is
 * verified. Reserved bits and fields are ignored (Base 2.1, section 1.4.1), except the four defined
 * flags on types that do not define them: those flags contradict the PDU's length.
 */
#include "base/crc32c.h"
#include "wire/pdu.h"

#include <string.h>

/* Offsets of fields that an error may name. */
enum pdu_field {
	FIELD_TYPE = 0,
	FIELD_FLAGS = 1,
	FIELD_HLEN = 2,
	FIELD_PDO = 3,
	FIELD_PLEN = 4,
	FIELD_IC_PFV = 8,
	FIELD_IC_PDA = 10,
	FIELD_IC_LIMIT = 12,
	FIELD_DATAL = 16,
};

#define IC_PDA_MAX       31
#define IC_DIGEST_HEADER (1u << 0)
#define IC_DIGEST_DATA   (1u << 1)

enum data_rule {
	DATA_NEVER,
	DATA_MAYBE,  /* CapsuleCmd */
	DATA_ALWAYS, /* H2CData, C2HData */
	DATA_ECHO,   /* TermReq: the offending header, without PDO and digests */
};

struct pdu_rules {
	uint8_t header_bytes; /* 0: no such type */
	bool goes_to_target;
	bool goes_to_host;
	bool has_digests;
	uint8_t flags; /* the defined flags that this type may have */
	enum data_rule data;
};

#define FLAGS_DEFINED                                                                              \
	(NVME_TCP_FLAG_HDGST | NVME_TCP_FLAG_DDGST | NVME_TCP_FLAG_LAST_PDU | NVME_TCP_FLAG_SUCCESS)

static const struct pdu_rules rules_by_type[] = {
	[NVME_TCP_PDU_IC_REQ] = {NVME_TCP_IC_BYTES, true, false, false, 0, DATA_NEVER},
	[NVME_TCP_PDU_IC_RESP] = {NVME_TCP_IC_BYTES, false, true, false, 0, DATA_NEVER},
	/* Accept any flags of a peer that is terminating the connection. */
	[NVME_TCP_PDU_H2C_TERM_REQ] = {NVME_TCP_TERM_HDR_BYTES, true, false, false, FLAGS_DEFINED,
				       DATA_ECHO},
	[NVME_TCP_PDU_C2H_TERM_REQ] = {NVME_TCP_TERM_HDR_BYTES, false, true, false, FLAGS_DEFINED,
				       DATA_ECHO},
	[NVME_TCP_PDU_CAPSULE_CMD] = {NVME_TCP_CMD_HDR_BYTES, true, false, true,
				      NVME_TCP_FLAG_HDGST | NVME_TCP_FLAG_DDGST, DATA_MAYBE},
	[NVME_TCP_PDU_CAPSULE_RESP] = {NVME_TCP_RESP_HDR_BYTES, false, true, true,
				       NVME_TCP_FLAG_HDGST, DATA_NEVER},
	[NVME_TCP_PDU_H2C_DATA] = {NVME_TCP_DATA_HDR_BYTES, true, false, true,
				   FLAGS_DEFINED & ~NVME_TCP_FLAG_SUCCESS, DATA_ALWAYS},
	[NVME_TCP_PDU_C2H_DATA] = {NVME_TCP_DATA_HDR_BYTES, false, true, true, FLAGS_DEFINED,
				   DATA_ALWAYS},
	[NVME_TCP_PDU_R2T] = {NVME_TCP_DATA_HDR_BYTES, false, true, true, NVME_TCP_FLAG_HDGST,
			      DATA_NEVER},
};

static struct pdu_error bad_field(enum pdu_field field, const char *what)
{
	return (struct pdu_error){NVME_TCP_FES_INVALID_HEADER_FIELD, field, what};
}

static const struct pdu_rules *rules_find(uint8_t type, enum pdu_role role)
{
	const struct pdu_rules *rules;

	if (type >= sizeof(rules_by_type) / sizeof(rules_by_type[0]))
		return NULL;
	rules = &rules_by_type[type];
	if (rules->header_bytes == 0)
		return NULL;
	return (role == PDU_ROLE_TARGET ? rules->goes_to_target : rules->goes_to_host) ? rules
										       : NULL;
}

static struct pdu_error check_phase(uint8_t type, bool is_initialized)
{
	bool is_ic = type == NVME_TCP_PDU_IC_REQ || type == NVME_TCP_PDU_IC_RESP;
	bool is_term = type == NVME_TCP_PDU_H2C_TERM_REQ || type == NVME_TCP_PDU_C2H_TERM_REQ;

	if (is_initialized && is_ic)
		return (struct pdu_error){NVME_TCP_FES_PDU_SEQUENCE, 0, "second initialization"};
	if (!is_initialized && !is_ic && !is_term)
		return (struct pdu_error){NVME_TCP_FES_PDU_SEQUENCE, 0,
					  "PDU before initialization"};
	return PDU_OK;
}

/* Checks the flags against the type and against the agreed digests. */
static struct pdu_error check_flags(uint8_t flags, const struct pdu_rules *rules,
				    const struct pdu_state *state, bool has_data)
{
	if ((flags & FLAGS_DEFINED & ~rules->flags) != 0)
		return bad_field(FIELD_FLAGS, "flag that is not defined for the PDU type");
	if (!rules->has_digests)
		return PDU_OK;
	if (((flags & NVME_TCP_FLAG_HDGST) != 0) != state->has_header_digest)
		return bad_field(FIELD_FLAGS, "header digest flag differs from ICReq and ICResp");
	if (((flags & NVME_TCP_FLAG_DDGST) != 0) != (has_data && state->has_data_digest))
		return bad_field(FIELD_FLAGS, "data digest flag differs from ICReq and ICResp");
	if ((flags & NVME_TCP_FLAG_SUCCESS) != 0 && (flags & NVME_TCP_FLAG_LAST_PDU) == 0)
		return bad_field(FIELD_FLAGS, "success before the last data");
	return PDU_OK;
}

/* Checks where the data is; fills data_offset, data_bytes and has_data_digest. header_end includes
 * the header digest. */
static struct pdu_error check_data_place(const struct nvme_tcp_common_hdr *ch, uint32_t header_end,
					 const struct pdu_state *state, struct pdu *ret_pdu)
{
	uint32_t plen = le32_get(ch->plen);
	uint32_t digest_bytes = state->has_data_digest ? NVME_TCP_DIGEST_BYTES : 0;
	uint32_t align = state->data_align_bytes != 0 ? state->data_align_bytes : 4;

	if (ch->pdo < header_end)
		return bad_field(FIELD_PDO, "data begins inside the header");
	if (ch->pdo % 4 != 0 || ch->pdo % align != 0)
		return bad_field(FIELD_PDO, "data is not aligned");
	if (plen < digest_bytes || ch->pdo > plen - digest_bytes)
		return bad_field(FIELD_PDO, "data begins after the end of the PDU");
	ret_pdu->data_offset = ch->pdo;
	ret_pdu->data_bytes = plen - ch->pdo - digest_bytes;
	ret_pdu->has_data_digest = state->has_data_digest;
	if (ret_pdu->data_bytes == 0)
		return bad_field(FIELD_PLEN, "room for data but no data");
	return PDU_OK;
}

/* Checks PLEN and PDO. In-capsule data beyond the limit is an invalid PLEN. */
static struct pdu_error check_lengths(const struct nvme_tcp_common_hdr *ch,
				      const struct pdu_rules *rules, const struct pdu_state *state,
				      struct pdu *ret_pdu)
{
	uint32_t plen = le32_get(ch->plen);
	uint32_t header_end = ret_pdu->data_offset;
	struct pdu_error error;

	if (rules->data == DATA_ECHO) {
		ret_pdu->data_bytes = plen - header_end;
		if (ret_pdu->data_bytes > NVME_TCP_TERM_DATA_MAX_BYTES)
			return bad_field(FIELD_PLEN, "termination request too long");
		return PDU_OK;
	}
	if (rules->data == DATA_NEVER) {
		if (plen != header_end)
			return bad_field(FIELD_PLEN, "length of a PDU without data");
		return PDU_OK;
	}
	if (rules->data == DATA_MAYBE && plen == header_end) {
		if (ch->pdo != 0 && ch->pdo != header_end)
			return bad_field(FIELD_PDO, "data offset without data");
		return PDU_OK;
	}
	error = check_data_place(ch, header_end, state, ret_pdu);
	if (pdu_is_error(error))
		return error;
	if (rules->data == DATA_MAYBE && ret_pdu->data_bytes > state->in_capsule_max_bytes)
		return bad_field(FIELD_PLEN, "more in-capsule data than allowed");
	return PDU_OK;
}

static struct pdu_error check_common(const struct nvme_tcp_common_hdr *ch,
				     const struct pdu_state *state, struct pdu *ret_pdu)
{
	const struct pdu_rules *rules = rules_find(ch->type, state->role);
	struct pdu_error error;
	uint32_t header_end;
	bool has_data;

	if (rules == NULL)
		return bad_field(FIELD_TYPE, "PDU type unknown or not for this side");
	error = check_phase(ch->type, state->is_initialized);
	if (pdu_is_error(error))
		return error;
	if (ch->hlen != rules->header_bytes)
		return bad_field(FIELD_HLEN, "header length");
	header_end = ch->hlen;
	if (rules->has_digests && state->has_header_digest)
		header_end += NVME_TCP_DIGEST_BYTES;
	has_data = rules->data == DATA_ALWAYS ||
		   (rules->data == DATA_MAYBE && le32_get(ch->plen) > header_end);
	error = check_flags(ch->flags, rules, state, has_data);
	if (pdu_is_error(error))
		return error;
	if (le32_get(ch->plen) < header_end)
		return bad_field(FIELD_PLEN, "PDU shorter than its header");
	ret_pdu->type = (enum nvme_tcp_pdu_type)ch->type;
	ret_pdu->header_bytes = ch->hlen;
	ret_pdu->data_offset = header_end;
	if (rules->data == DATA_ALWAYS) {
		ret_pdu->is_last = (ch->flags & NVME_TCP_FLAG_LAST_PDU) != 0;
		ret_pdu->is_success = (ch->flags & NVME_TCP_FLAG_SUCCESS) != 0;
	}
	return check_lengths(ch, rules, state, ret_pdu);
}

static struct pdu_error check_header_digest(const uint8_t *buf, uint32_t header_bytes)
{
	le32 raw;

	memcpy(&raw, buf + header_bytes, sizeof(raw));
	if (le32_get(raw) != crc32c(buf, header_bytes))
		return (struct pdu_error){NVME_TCP_FES_HDGST, le32_get(raw), "header digest"};
	return PDU_OK;
}

static struct pdu_error decode_ic(const uint8_t *buf, struct pdu *ret_pdu)
{
	struct nvme_tcp_ic ic;
	uint32_t limit;

	memcpy(&ic, buf, sizeof(ic));
	limit = le32_get(ic.limit);
	if (le16_get(ic.pfv) != 0)
		return (struct pdu_error){NVME_TCP_FES_UNSUPPORTED_PARAM, FIELD_IC_PFV,
					  "PDU format version"};
	if (ic.pda > IC_PDA_MAX)
		return bad_field(FIELD_IC_PDA, "data alignment");
	ret_pdu->u.ic.format_version = 0;
	ret_pdu->u.ic.data_align_bytes = (ic.pda + 1u) * 4;
	ret_pdu->u.ic.wants_header_digest = (ic.dgst & IC_DIGEST_HEADER) != 0;
	ret_pdu->u.ic.wants_data_digest = (ic.dgst & IC_DIGEST_DATA) != 0;
	if (ret_pdu->type == NVME_TCP_PDU_IC_REQ) {
		ret_pdu->u.ic.max_r2t = limit == UINT32_MAX ? limit : limit + 1;
		return PDU_OK;
	}
	if (limit < NVME_TCP_MIN_MAXH2CDATA || limit % 4 != 0)
		return bad_field(FIELD_IC_LIMIT, "MAXH2CDATA below 4096 or not in dwords");
	ret_pdu->u.ic.max_data_bytes = limit;
	return PDU_OK;
}

static struct pdu_error decode_data(const uint8_t *buf, const struct pdu_state *state,
				    struct pdu *ret_pdu)
{
	struct nvme_tcp_data data;

	memcpy(&data, buf, sizeof(data));
	ret_pdu->u.data.cccid = le16_get(data.cccid);
	ret_pdu->u.data.ttag = le16_get(data.ttag);
	ret_pdu->u.data.offset = le32_get(data.offset);
	ret_pdu->u.data.length = le32_get(data.length);
	if (ret_pdu->type == NVME_TCP_PDU_R2T) {
		if (ret_pdu->u.data.length == 0)
			return bad_field(FIELD_DATAL, "R2T asks for nothing");
		return PDU_OK;
	}
	if (ret_pdu->u.data.length != ret_pdu->data_bytes)
		return bad_field(FIELD_DATAL, "data length against PDU length");
	if (ret_pdu->data_bytes > state->data_max_bytes)
		return (struct pdu_error){NVME_TCP_FES_R2T_LIMIT_EXCEEDED, FIELD_DATAL,
					  "more data in a PDU than MAXH2CDATA"};
	return PDU_OK;
}

static struct pdu_error decode_body(const uint8_t *buf, const struct pdu_state *state,
				    struct pdu *ret_pdu)
{
	struct nvme_tcp_term term;

	switch (ret_pdu->type) {
	case NVME_TCP_PDU_IC_REQ:
	case NVME_TCP_PDU_IC_RESP:
		return decode_ic(buf, ret_pdu);
	case NVME_TCP_PDU_H2C_TERM_REQ:
	case NVME_TCP_PDU_C2H_TERM_REQ:
		memcpy(&term, buf, sizeof(term));
		ret_pdu->u.term.fes = le16_get(term.fes);
		ret_pdu->u.term.fei = le32_get(term.fei);
		return PDU_OK;
	case NVME_TCP_PDU_CAPSULE_CMD:
		memcpy(&ret_pdu->u.sqe, buf + NVME_TCP_COMMON_HDR_BYTES, sizeof(ret_pdu->u.sqe));
		return PDU_OK;
	case NVME_TCP_PDU_CAPSULE_RESP:
		memcpy(&ret_pdu->u.cqe, buf + NVME_TCP_COMMON_HDR_BYTES, sizeof(ret_pdu->u.cqe));
		return PDU_OK;
	case NVME_TCP_PDU_H2C_DATA:
	case NVME_TCP_PDU_C2H_DATA:
	case NVME_TCP_PDU_R2T:
		return decode_data(buf, state, ret_pdu);
	}
	return bad_field(FIELD_TYPE, "PDU type unknown");
}

enum pdu_verdict pdu_decode(const uint8_t *buf, size_t len_bytes, const struct pdu_state *state,
			    struct pdu *ret_pdu, struct pdu_error *ret_error)
{
	struct nvme_tcp_common_hdr ch;
	bool has_digest;
	size_t needed;

	*ret_error = PDU_OK;
	if (len_bytes < sizeof(ch))
		return PDU_NEED_MORE;
	memcpy(&ch, buf, sizeof(ch));
	memset(ret_pdu, 0, sizeof(*ret_pdu));
	*ret_error = check_common(&ch, state, ret_pdu);
	if (pdu_is_error(*ret_error))
		return PDU_VIOLATION;
	has_digest = rules_by_type[ch.type].has_digests && state->has_header_digest;
	needed = ret_pdu->header_bytes + (has_digest ? NVME_TCP_DIGEST_BYTES : 0u);
	if (len_bytes < needed)
		return PDU_NEED_MORE;
	if (has_digest)
		*ret_error = check_header_digest(buf, ret_pdu->header_bytes);
	if (!pdu_is_error(*ret_error))
		*ret_error = decode_body(buf, state, ret_pdu);
	return pdu_is_error(*ret_error) ? PDU_VIOLATION : PDU_DECODED;
}

const char *pdu_type_name(enum nvme_tcp_pdu_type type)
{
	switch (type) {
	case NVME_TCP_PDU_IC_REQ:
		return "ICReq";
	case NVME_TCP_PDU_IC_RESP:
		return "ICResp";
	case NVME_TCP_PDU_H2C_TERM_REQ:
		return "H2CTermReq";
	case NVME_TCP_PDU_C2H_TERM_REQ:
		return "C2HTermReq";
	case NVME_TCP_PDU_CAPSULE_CMD:
		return "CapsuleCmd";
	case NVME_TCP_PDU_CAPSULE_RESP:
		return "CapsuleResp";
	case NVME_TCP_PDU_H2C_DATA:
		return "H2CData";
	case NVME_TCP_PDU_C2H_DATA:
		return "C2HData";
	case NVME_TCP_PDU_R2T:
		return "R2T";
	}
	return "unknown PDU";
}

size_t pdu_peek_cmd(const uint8_t *buf, size_t len_bytes, uint32_t *ret_nsid)
{
	struct nvme_tcp_cmd cmd;

	if (len_bytes < sizeof(cmd) || buf[0] != NVME_TCP_PDU_CAPSULE_CMD)
		return 0;
	memcpy(&cmd, buf, sizeof(cmd));
	*ret_nsid = le32_get(cmd.sqe.nsid);
	return le32_get(cmd.ch.plen) < sizeof(cmd) ? 0 : le32_get(cmd.ch.plen);
}
