/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server side of the NBD protocol without a socket: the fixed newstyle handshake, simple and
 * structured requests and replies, and the context base:allocation (the NBD project's
 * doc/proto.md). Pure: bytes in, bytes and decisions out. Numbers on the wire are big-endian. TLS
 * is declined.
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
#define NBD_EXTENT_BYTES      8   /* one extent of a block status */
#define NBD_NAME_BYTES        256 /* of our export, with the final zero; the protocol allows 4096 */
#define NBD_OPTION_BODY_BYTES 8192        /* a longer option is skipped and refused */
#define NBD_LENGTH_MAX        (32u << 20) /* the limit that a client may assume by default */

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

#define NBD_CONTEXT_ALLOCATION 1 /* our number for base:allocation */

/* States of base:allocation. */
enum nbd_state {
	NBD_STATE_HOLE = 1 << 0,
	NBD_STATE_ZERO = 1 << 1,
};

/* Error in a reply: numbers of the protocol, which may differ from errno. */
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

/* The export as sent to a client; constant while the client is connected. */
struct nbd_export {
	char name[NBD_NAME_BYTES];
	char description[NBD_NAME_BYTES];
	uint64_t size_bytes;
	uint32_t block_bytes; /* the smallest unit of a write */
	bool is_read_only;
};

/* What client and server have negotiated. */
struct nbd_terms {
	bool is_structured; /* replies to reads and block status are chunks */
	bool has_allocation;
};

struct nbd_request {
	uint16_t flags;
	uint16_t command; /* enum nbd_command, or an unknown number */
	uint64_t cookie;
	uint64_t offset;
	uint32_t length;
};

/* ---- handshake ------------------------------------------------------------------------------ */

/* The longest answer to one option: LIST, or GO with all information items, each with its
 * header. */
#define NBD_ANSWER_BYTES 2048

enum nbd_phase {
	NBD_PHASE_FLAGS,  /* waiting for the client's flags after the greeting */
	NBD_PHASE_OPTION, /* negotiating options */
	NBD_PHASE_REQUEST,
	NBD_PHASE_ENDED, /* the client aborted, or broke the protocol */
};

struct nbd_handshake {
	const struct nbd_export *export;
	enum nbd_phase phase;
	bool has_no_zeroes;
	struct nbd_terms terms;
	uint64_t skip_bytes; /* bytes left to skip of an option that is too long */
	uint32_t skip_option;
	/* The answer to send after the last nbd_handshake_take. */
	size_t answer_bytes;
	uint8_t answer[NBD_ANSWER_BYTES];
};

/* Also prepares the greeting, as the first answer. */
void nbd_handshake_init(struct nbd_handshake *handshake, const struct nbd_export *export);
/*
 * Takes one message. Returns the number of bytes used, 0 when the message is incomplete, or -EPROTO
 * when the client must be disconnected. Send the answer before the next call. Do not call in phase
 * NBD_PHASE_REQUEST or NBD_PHASE_ENDED.
 */
int nbd_handshake_take(struct nbd_handshake *handshake, const uint8_t *bytes, size_t len_bytes);

/* ---- transmission --------------------------------------------------------------------------- */

/* 0, or -EPROTO when `bytes` is not a request. */
int nbd_request_decode(const uint8_t bytes[NBD_REQUEST_BYTES], struct nbd_request *ret_request);
/* Whether the request can be executed. The data of a refused write still follows on the wire. */
enum nbd_error nbd_request_check(const struct nbd_request *request, const struct nbd_export *export,
				 const struct nbd_terms *terms);
void nbd_reply_encode(uint8_t bytes[NBD_REPLY_BYTES], uint64_t cookie, enum nbd_error error);
/* Encode headers of structured replies and return their length. Data and extents follow. */
size_t nbd_chunk_data(uint8_t bytes[NBD_HEADER_MAX_BYTES], const struct nbd_request *request);
size_t nbd_chunk_hole(uint8_t bytes[NBD_HEADER_MAX_BYTES], const struct nbd_request *request);
size_t nbd_chunk_error(uint8_t bytes[NBD_HEADER_MAX_BYTES], uint64_t cookie, enum nbd_error error);
size_t nbd_chunk_status(uint8_t bytes[NBD_HEADER_MAX_BYTES], uint64_t cookie,
			unsigned extent_count);
/*
 * Encodes the extents of a block status into `to` and returns their number: at most one more than
 * twice the descriptors in the list. list: an LBA Status Descriptor List for the request's range;
 * NULL: unknown, everything counts as data.
 */
unsigned nbd_status_fill(const struct nbd_request *request, uint32_t block_bytes,
			 const uint8_t *list, size_t list_bytes, uint8_t *to);
void nbd_extent_encode(uint8_t bytes[NBD_EXTENT_BYTES], uint32_t length, uint32_t state);
/* For the result of a libweft request. */
enum nbd_error nbd_error_from_errno(int res);

#endif
