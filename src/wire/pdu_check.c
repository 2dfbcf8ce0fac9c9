/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks data PDUs against the transfer that they claim to belong to. Pure; any thread. NVMe/TCP
 * 1.1, sections 3.3.2 (data transfer) and 3.6.2.6 to 3.6.2.8 (H2CData, C2HData, R2T).
 *
 * Data of one command must come in order and without gaps, and in dwords except at its end.
 * LAST_PDU must be set exactly on the PDU that completes the R2T (H2CData) or the command
 * (C2HData). A receiver with weaker checks could take a gap for data.
 */
#include "wire/pdu.h"

enum data_field {
	FIELD_FLAGS = 1,
	FIELD_CCCID = 8,
	FIELD_TTAG = 10,
	FIELD_OFFSET = 12,
	FIELD_LENGTH = 16,
};

static struct pdu_error bad_field(enum data_field field, const char *what)
{
	return (struct pdu_error){NVME_TCP_FES_INVALID_HEADER_FIELD, field, what};
}

static struct pdu_error out_of_range(enum data_field field, const char *what)
{
	return (struct pdu_error){NVME_TCP_FES_DATA_OUT_OF_RANGE, field, what};
}

/* The range that the PDU names must follow the bytes already transferred and end within the
 * transfer. */
static struct pdu_error check_range(const struct pdu *pdu, const struct pdu_transfer *transfer)
{
	uint32_t left = transfer->end_offset - transfer->next_offset;

	if (pdu->u.data.offset != transfer->next_offset)
		return out_of_range(FIELD_OFFSET, "data offset out of order");
	if (pdu->u.data.length > left)
		return out_of_range(FIELD_LENGTH, "data beyond the end of the transfer");
	if (pdu->u.data.length % 4 != 0 && pdu->u.data.length != left)
		return bad_field(FIELD_LENGTH, "data length not in dwords");
	return PDU_OK;
}

static struct pdu_error check_data(const struct pdu *pdu, const struct pdu_transfer *transfer)
{
	struct pdu_error error = check_range(pdu, transfer);
	bool completes;

	if (pdu_is_error(error))
		return error;
	completes = pdu->u.data.length == transfer->end_offset - transfer->next_offset;
	if (pdu->is_last && !completes)
		return bad_field(FIELD_FLAGS, "last data before the end of the transfer");
	if (!pdu->is_last && completes)
		return bad_field(FIELD_FLAGS, "end of the transfer not marked as last");
	return PDU_OK;
}

struct pdu_error pdu_check_h2c_data(const struct pdu *pdu, const struct pdu_transfer *transfer)
{
	if (transfer == NULL || !transfer->is_open)
		return bad_field(FIELD_TTAG, "transfer tag without an open R2T");
	if (pdu->u.data.cccid != transfer->cccid)
		return bad_field(FIELD_CCCID, "transfer tag of another command");
	return check_data(pdu, transfer);
}

struct pdu_error pdu_check_c2h_data(const struct pdu *pdu, const struct pdu_transfer *transfer)
{
	if (transfer == NULL || !transfer->is_open || pdu->u.data.cccid != transfer->cccid)
		return bad_field(FIELD_CCCID, "data for a command that expects none");
	return check_data(pdu, transfer);
}

struct pdu_error pdu_check_r2t(const struct pdu *pdu, const struct pdu_transfer *transfer,
			       uint32_t open_r2ts, uint32_t max_r2t)
{
	if (transfer == NULL || !transfer->is_open || pdu->u.data.cccid != transfer->cccid)
		return bad_field(FIELD_CCCID, "R2T for a command that has no data to send");
	if (open_r2ts >= max_r2t)
		return (struct pdu_error){NVME_TCP_FES_R2T_LIMIT_EXCEEDED, 0,
					  "more R2Ts than MAXR2T"};
	return check_range(pdu, transfer);
}
