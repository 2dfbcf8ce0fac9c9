/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe/TCP PDUs, pure: bytes and connection state in, a validated struct pdu or a struct pdu_error
 * out. No socket, clock or allocator. NVMe/TCP Transport 1.1, sections 3.3 to 3.6.
 *
 * pdu_decode checks a header by itself and against the phase of the connection. The pdu_check_*
 * functions check data PDUs against the transfer that they claim to belong to. These functions are
 * the only place that decides what is a violation; tcp/ is the only place that acts on a violation.
 */
#ifndef WEFT_WIRE_PDU_H
#define WEFT_WIRE_PDU_H

#include "wire/nvme_tcp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A protocol violation; fes 0 means none. `what` is for the log. For FES 4 and 5, fei also names
 * the offending field, for the log only: pdu_encode_term clears fei for these, because the
 * specification reserves it.
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
	PDU_ROLE_TARGET, /* we are the target, and receive from hosts */
	PDU_ROLE_HOST,   /* we are the host, and receive from controllers */
};

/* The state of a connection that the check of the next header needs. Units are bytes; nothing is
 * zero-based. */
struct pdu_state {
	enum pdu_role role;
	bool is_initialized; /* ICReq and ICResp have been exchanged */
	bool has_header_digest;
	bool has_data_digest;
	uint32_t data_align_bytes;     /* alignment that we require of the peer's data: 4..128 */
	uint32_t in_capsule_max_bytes; /* target: most data a command capsule may carry */
	uint32_t data_max_bytes;       /* target: MAXH2CDATA that we announced; host: UINT32_MAX */
};

struct pdu {
	enum nvme_tcp_pdu_type type;
	uint32_t header_bytes; /* HLEN, without digest */
	/* Where the data begins (PDO); without data, where the next PDU begins (header +
	 * digest). */
	uint32_t data_offset;
	uint32_t data_bytes;  /* payload, without digest */
	bool has_data_digest; /* a digest follows the data */
	bool is_last;         /* data PDUs: LAST_PDU */
	bool is_success;      /* C2HData: SUCCESS, no response capsule follows */
	union {
		struct {
			uint16_t format_version;
			/* Alignment that the peer requires of our data. */
			uint32_t data_align_bytes;
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
	PDU_NEED_MORE, /* more bytes needed for the header and its digest */
	PDU_DECODED,
	PDU_VIOLATION,
};

/*
 * Checks the header at buf. On PDU_DECODED, *ret_pdu is filled; only header and digest are sure to
 * be in buf, not the padding up to data_offset. On PDU_VIOLATION, *ret_error has the reason. Reads
 * at most len_bytes and at most 132 bytes.
 */
enum pdu_verdict pdu_decode(const uint8_t *buf, size_t len_bytes, const struct pdu_state *state,
			    struct pdu *ret_pdu, struct pdu_error *ret_error);

/*
 * Looks at what may be the header of a command capsule, for callers that want to prefetch the
 * memory that the command will need. Checks nothing. Returns the PDU length that the header claims,
 * at least the length of the header, and sets *ret_nsid. Returns 0 when buf holds no command
 * capsule or an incomplete header.
 */
size_t pdu_peek_cmd(const uint8_t *buf, size_t len_bytes, uint32_t *ret_nsid);

/* One direction of one command's data, as requested by an R2T (target) or a command (host). */
struct pdu_transfer {
	bool is_open; /* data is expected */
	uint16_t cccid;
	uint32_t next_offset; /* offset of the next byte in the command's data */
	uint32_t end_offset;  /* one past the last byte requested */
};

/* Target: checks an H2CData against the R2T that its TTAG names. transfer is NULL when the tag is
 * unknown. */
struct pdu_error pdu_check_h2c_data(const struct pdu *pdu, const struct pdu_transfer *transfer);
/* Host: checks a C2HData against the read that its CCCID names. transfer is NULL when the CCCID is
 * unknown. */
struct pdu_error pdu_check_c2h_data(const struct pdu *pdu, const struct pdu_transfer *transfer);
/* Host: checks an R2T against the write that its CCCID names, and against the number of open
 * R2Ts. */
struct pdu_error pdu_check_r2t(const struct pdu *pdu, const struct pdu_transfer *transfer,
			       uint32_t open_r2ts, uint32_t max_r2t);

/* What the encoder must know about the connection: what was agreed in the IC exchange. */
struct pdu_encoding {
	bool has_header_digest;
	bool has_data_digest;
	uint32_t data_align_bytes; /* alignment that the peer requires: 4..128 */
};

/*
 * Encoders write the header, its digest and the padding up to the data into hdr (at most 144 bytes)
 * and return the number of bytes written. The caller sends these bytes, then data_bytes of data,
 * then the data digest if the PDU has data and the connection has data digests.
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
	uint32_t data_bytes; /* R2T: the requested length */
	bool is_last;
	bool is_success;
};

size_t pdu_encode_h2c_data(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
			   const struct pdu_data_args *args);
size_t pdu_encode_c2h_data(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
			   const struct pdu_data_args *args);
size_t pdu_encode_r2t(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], const struct pdu_encoding *encoding,
		      const struct pdu_data_args *args);
/* A TermReq has no digests; its data is `offending` (up to 128 bytes). Returns the length of header
 * and data together. buf has room for 24 + 128 bytes. */
size_t pdu_encode_term(uint8_t buf[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES],
		       enum pdu_role sender, struct pdu_error error, const uint8_t *offending,
		       size_t offending_bytes);

const char *pdu_type_name(enum nvme_tcp_pdu_type type);

#endif
