/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe/TCP PDUs, pure: bytes and connection state in, a validated struct pdu or a struct
 * pdu_error out. No socket, clock or allocator. NVMe/TCP Transport 1.1, sections 3.3 to 3.6.
 *
 * pdu_decode judges a header by itself and by the phase of the connection; the pdu_check_*
 * functions judge data PDUs against the transfer they claim to belong to. Together they are the
 * only place that decides what is a violation; tcp/ is the only place that acts on it.
 */
#ifndef WEFT_WIRE_PDU_H
#define WEFT_WIRE_PDU_H

#include "wire/nvme_tcp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A protocol violation; fes 0 means none. `what` is for the log. fei names the offending field for
 * FES 4 and 5 too, for the log; pdu_encode_term clears it there, as the specification reserves it.
 */
struct pdu_error {
	uint16_t fes;
	uint32_t fei;
	const char *what;
};

#define PDU_OK ((struct pdu_error){0})

static inline bool pdu_is_error(struct pdu_error error)
{
	return error.fes != NVME_TCP_FES_NONE;
}

enum pdu_role {
	PDU_ROLE_TARGET, /* we receive what hosts send */
	PDU_ROLE_HOST,   /* we receive what controllers send */
};

/* What the judgement of the next header depends on. Units are bytes; nothing is zero-based. */
struct pdu_state {
	enum pdu_role role;
	bool is_initialized; /* ICReq and ICResp were exchanged */
	bool has_header_digest;
	bool has_data_digest;
	uint32_t data_align_bytes; /* alignment that we told the peer its data must have: 4..128 */
	uint32_t in_capsule_max_bytes; /* target: most data a command capsule may carry */
	uint32_t data_max_bytes;       /* target: MAXH2CDATA that we announced; host: UINT32_MAX */
};

struct pdu {
	enum nvme_tcp_pdu_type type;
	uint32_t header_bytes; /* HLEN, without digest */
	uint32_t data_offset;  /* PDO, or header + digest when there is no data: where the data or
				  the next PDU begins */
	uint32_t data_bytes;   /* payload, without digest */
	bool has_data_digest;  /* a digest follows the data */
	bool is_last;          /* data PDUs: LAST_PDU */
	bool is_success;       /* C2HData: SUCCESS, no response capsule follows */
	union {
		struct {
			uint16_t format_version;
			uint32_t data_align_bytes; /* alignment the peer wants for what we send */
			bool wants_header_digest;
			bool wants_data_digest;
			uint32_t max_r2t;        /* ICReq: count */
			uint32_t max_data_bytes; /* ICResp: MAXH2CDATA */
		} ic;
		struct nvme_sqe sqe;
		struct nvme_cqe cqe;
		struct {
			uint16_t cccid;
			uint16_t ttag;
			uint32_t offset;
			uint32_t length;
		} data; /* H2CData, C2HData, R2T */
		struct {
			uint16_t fes;
			uint32_t fei;
		} term;
	} u;
};

enum pdu_verdict {
	PDU_NEED_MORE, /* fewer bytes than the header (and its digest) need */
	PDU_DECODED,
	PDU_VIOLATION,
};

/*
 * Judges the header at buf. On PDU_DECODED, *ret_pdu is filled and the whole header, digest and
 * padding up to data_offset may still be incomplete (only header + digest are sure to be there).
 * On PDU_VIOLATION, *ret_error says why. Reads at most len_bytes and at most 132 bytes.
 */
enum pdu_verdict pdu_decode(const uint8_t *buf, size_t len_bytes, const struct pdu_state *state,
			    struct pdu *ret_pdu, struct pdu_error *ret_error);

/*
 * A glance at what may be the header of a command capsule, for those who want to fetch from memory
 * what it will need. Judges nothing. Returns the length that the PDU claims, at least that of its
 * header, with the NSID; 0 when it is no command or its header is not all there.
 */
size_t pdu_peek_cmd(const uint8_t *buf, size_t len_bytes, uint32_t *ret_nsid);

/* One direction of one command's data, as promised by an R2T (target) or a command (host). */
struct pdu_transfer {
	bool is_open; /* data is expected */
	uint16_t cccid;
	uint32_t next_offset; /* where the next byte belongs in the command's data */
	uint32_t end_offset;  /* one past the last byte promised */
};

/* Target: an H2CData against the R2T that its TTAG names; transfer NULL when the tag is unknown. */
struct pdu_error pdu_check_h2c_data(const struct pdu *pdu, const struct pdu_transfer *transfer);
/* Host: a C2HData against the read that its CCCID names; NULL when unknown. */
struct pdu_error pdu_check_c2h_data(const struct pdu *pdu, const struct pdu_transfer *transfer);
/* Host: an R2T against the write that its CCCID names, and the number of R2Ts already open. */
struct pdu_error pdu_check_r2t(const struct pdu *pdu, const struct pdu_transfer *transfer,
			       uint32_t open_r2ts, uint32_t max_r2t);

/* What the encoder must know of the connection; mirrors what the peer asked for at IC. */
struct pdu_encoding {
	bool has_header_digest;
	bool has_data_digest;
	uint32_t data_align_bytes; /* alignment the peer wants: 4..128 */
};

/*
 * Encoders write the header, its digest and the padding up to the data into hdr (at most 144
 * bytes) and return how many bytes that is; the caller sends these, then data_bytes of data, then
 * the data digest if there is data and the connection has data digests.
 */
size_t pdu_encode_ic_req(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], uint32_t data_align_bytes,
			 bool wants_header_digest, bool wants_data_digest, uint32_t max_r2t);
size_t pdu_encode_ic_resp(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], uint32_t data_align_bytes,
			  bool has_header_digest, bool has_data_digest, uint32_t max_data_bytes);
size_t pdu_encode_cmd(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
		      const struct nvme_sqe *sqe, uint32_t data_bytes);
size_t pdu_encode_resp(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
		       const struct nvme_cqe *cqe);

struct pdu_data_args {
	uint16_t cccid;
	uint16_t ttag;
	uint32_t offset;
	uint32_t data_bytes; /* R2T: the length asked for */
	bool is_last;
	bool is_success;
};

size_t pdu_encode_h2c_data(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
			   const struct pdu_data_args *args);
size_t pdu_encode_c2h_data(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
			   const struct pdu_data_args *args);
size_t pdu_encode_r2t(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
		      const struct pdu_data_args *args);
/* A TermReq never carries digests; `offending` (up to 128 bytes) is sent as its data. Returns the
 * length of header and data together; buf has room for 24 + 128. */
size_t pdu_encode_term(uint8_t buf[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES],
		       enum pdu_role sender, struct pdu_error error, const uint8_t *offending,
		       size_t offending_bytes);

const char *pdu_type_name(enum nvme_tcp_pdu_type type);

#endif
