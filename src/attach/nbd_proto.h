/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NBD protocol as a server speaks it, without a socket: the fixed newstyle handshake, requests
 * and replies, simple and structured, and the context base:allocation (the NBD project's
 * doc/proto.md). Pure: bytes in, bytes and decisions out. All numbers on the wire are big-endian.
 * TLS is declined.
 */
#ifndef WEFT_ATTACH_NBD_PROTO_H
#define WEFT_ATTACH_NBD_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NBD_GREETING_BYTES    18
#define NBD_REQUEST_BYTES     28
#define NBD_REPLY_BYTES       16
#define NBD_CHUNK_BYTES       20 /* header of a structured reply */
#define NBD_HEADER_MAX_BYTES  (NBD_CHUNK_BYTES + 12)
#define NBD_EXTENT_BYTES      8    /* of a block status */
#define NBD_NAME_BYTES        256  /* of our export, with its end; the protocol allows 4096 */
#define NBD_OPTION_BODY_BYTES 8192 /* what is longer is skipped and refused */
#define NBD_LENGTH_MAX        (32u << 20) /* what a client may assume without being told */

enum nbd_command {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
};

enum nbd_command_flags {
	NBD_CMD_FLAG_FUA = 1 << 0,
	NBD_CMD_FLAG_NO_HOLE = 1 << 1,
	NBD_CMD_FLAG_DF = 1 << 2,
	NBD_CMD_FLAG_REQ_ONE = 1 << 3,
};

#define NBD_CONTEXT_ALLOCATION 1 /* the identifier of base:allocation, as we number it */

/* Of base:allocation. */
enum nbd_state {
	NBD_STATE_HOLE = 1 << 0,
	NBD_STATE_ZERO = 1 << 1,
};

/* Of a reply; the numbers are the protocol's, whatever errno has here. */
enum nbd_error {
	NBD_OK = 0,
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

/* What a client is told; it does not change while it is connected. */
struct nbd_export {
	char name[NBD_NAME_BYTES];
	char description[NBD_NAME_BYTES];
	uint64_t size_bytes;
	uint32_t block_bytes; /* the least that can be written */
	bool is_read_only;
};

/* What client and server have agreed on. */
struct nbd_terms {
	bool is_structured; /* reads and block status are answered with chunks */
	bool has_allocation;
};

struct nbd_request {
	uint16_t flags;
	uint16_t command; /* enum nbd_command, or any other number */
	uint64_t cookie;
	uint64_t offset;
	uint32_t length;
};

/* ---- handshake ------------------------------------------------------------------------------ */

/* The longest answer to one option: LIST, or GO with all informations, each with its header. */
#define NBD_ANSWER_BYTES 2048

enum nbd_phase {
	NBD_PHASE_FLAGS,  /* the client's answer to the greeting */
	NBD_PHASE_OPTION, /* haggling */
	NBD_PHASE_REQUEST,
	NBD_PHASE_ENDED, /* the client has said good-bye, or cannot be talked to */
};

struct nbd_handshake {
	const struct nbd_export *export;
	enum nbd_phase phase;
	bool has_no_zeroes;
	struct nbd_terms terms;
	uint64_t skip_bytes; /* of an option that is too long */
	uint32_t skip_option;
	/* What is to be sent after the last nbd_handshake_take. */
	size_t answer_bytes;
	uint8_t answer[NBD_ANSWER_BYTES];
};

/* The greeting is the first answer. */
void nbd_handshake_init(struct nbd_handshake *handshake, const struct nbd_export *export);
/*
 * Takes one message from what the client has sent: how many bytes of it were used, 0 when it is not
 * all there yet, or -EPROTO when the client cannot be talked to. The answer must be sent before the
 * next call. Not after the phase is NBD_PHASE_REQUEST or NBD_PHASE_ENDED.
 */
int nbd_handshake_take(struct nbd_handshake *handshake, const uint8_t *bytes, size_t len_bytes);

/* ---- transmission --------------------------------------------------------------------------- */

/* -EPROTO: no request begins here. */
int nbd_request_decode(const uint8_t bytes[NBD_REQUEST_BYTES], struct nbd_request *ret_request);
/* Whether it can be carried out; a write that cannot still has its data behind it. */
enum nbd_error nbd_request_check(const struct nbd_request *request, const struct nbd_export *export,
				 const struct nbd_terms *terms);
void nbd_reply_encode(uint8_t bytes[NBD_REPLY_BYTES], uint64_t cookie, enum nbd_error error);
/* Headers of structured replies; how long each is. Data and extents follow. */
size_t nbd_chunk_data(uint8_t bytes[NBD_HEADER_MAX_BYTES], const struct nbd_request *request);
size_t nbd_chunk_hole(uint8_t bytes[NBD_HEADER_MAX_BYTES], const struct nbd_request *request);
size_t nbd_chunk_error(uint8_t bytes[NBD_HEADER_MAX_BYTES], uint64_t cookie, enum nbd_error error);
size_t nbd_chunk_status(uint8_t bytes[NBD_HEADER_MAX_BYTES], uint64_t cookie,
			unsigned extent_count);
/*
 * Extents of a block status into `to`, at most one more than twice as many as the list has
 * descriptors; returns how many. list: an LBA Status Descriptor List about the request's range;
 * NULL: nothing is known, and all is data.
 */
unsigned nbd_status_fill(const struct nbd_request *request, uint32_t block_bytes,
			 const uint8_t *list, size_t list_bytes, uint8_t *to);
void nbd_extent_encode(uint8_t bytes[NBD_EXTENT_BYTES], uint32_t length, uint32_t state);
/* For the result of a request of libweft. */
enum nbd_error nbd_error_from_errno(int res);

#endif
