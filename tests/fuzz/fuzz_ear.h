/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks what a fuzzing host receives from a target on one connection: every PDU must be whole and
 * well formed, whatever the host sent before. Collects R2Ts that are not answered yet. Included
 * once; one thread.
 */
#ifndef WEFT_TESTS_FUZZ_EAR_H
#define WEFT_TESTS_FUZZ_EAR_H

#include "base/check.h"
#include "wire/pdu.h"

#include <string.h>

#define EAR_R2TS 16

struct ear_r2t {
	uint16_t cccid;
	uint16_t ttag;
	uint32_t offset;
	uint32_t bytes;
};

struct ear {
	struct pdu_state state;
	uint32_t align_bytes; /* from the last ICReq */
	size_t skip_bytes;    /* payload left to ignore */
	size_t in_bytes;
	uint8_t in[NVME_TCP_HDR_MAX_BYTES + NVME_TCP_DIGEST_BYTES];
	unsigned r2t_count;
	struct ear_r2t r2ts[EAR_R2TS];
};

/* For a new connection. */
static inline void ear_reset(struct ear *ear)
{
	memset(ear, 0, sizeof(*ear));
	ear->align_bytes = 4;
	ear->state = (struct pdu_state){
		.role = PDU_ROLE_HOST, .data_align_bytes = 4, .data_max_bytes = UINT32_MAX};
}

static inline void ear_take(struct ear *ear, const struct pdu *pdu)
{
	if (pdu->type == NVME_TCP_PDU_IC_RESP) {
		ear->state.is_initialized = true;
		ear->state.has_header_digest = pdu->u.ic.wants_header_digest;
		ear->state.has_data_digest = pdu->u.ic.wants_data_digest;
		ear->state.data_align_bytes = ear->align_bytes;
	} else if (pdu->type == NVME_TCP_PDU_R2T && ear->r2t_count < EAR_R2TS) {
		ear->r2ts[ear->r2t_count++] =
			(struct ear_r2t){pdu->u.data.cccid, pdu->u.data.ttag, pdu->u.data.offset,
					 pdu->u.data.length};
	}
}

static inline void ear_hear(struct ear *ear, const uint8_t *bytes, size_t len_bytes)
{
	while (len_bytes > 0) {
		struct pdu_error error;
		enum pdu_verdict verdict;
		struct pdu pdu;

		if (ear->skip_bytes > 0) {
			size_t part = len_bytes < ear->skip_bytes ? len_bytes : ear->skip_bytes;

			ear->skip_bytes -= part;
			bytes += part;
			len_bytes -= part;
			continue;
		}
		ear->in[ear->in_bytes++] = *bytes++;
		len_bytes--;
		verdict = pdu_decode(ear->in, ear->in_bytes, &ear->state, &pdu, &error);
		CHECK(verdict != PDU_VIOLATION);
		if (verdict == PDU_NEED_MORE) {
			CHECK(ear->in_bytes < sizeof(ear->in));
			continue;
		}
		ear->skip_bytes = pdu.data_offset + pdu.data_bytes - ear->in_bytes +
				  (pdu.has_data_digest ? NVME_TCP_DIGEST_BYTES : 0);
		ear->in_bytes = 0;
		ear_take(ear, &pdu);
	}
}

/* Removes a pending R2T; false when there is none. */
static inline bool ear_pick(struct ear *ear, unsigned index, struct ear_r2t *ret_r2t)
{
	if (ear->r2t_count == 0)
		return false;
	index %= ear->r2t_count;
	*ret_r2t = ear->r2ts[index];
	ear->r2ts[index] = ear->r2ts[--ear->r2t_count];
	return true;
}

#endif
