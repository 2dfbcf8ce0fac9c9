/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NBD transmission: decodes and checks requests, encodes simple replies. Pure; no thread of its
 * own. NBD doc/proto.md, "Transmission phase": requests of 28 bytes. Structured replies are in
 * nbd_chunk.c.
 *
 * Reads may begin and end anywhere. Requests that write must be aligned to the advertised block
 * size. Others are refused, because reading and rewriting whole blocks could undo a write of
 * another connection.
 */
#include "attach/nbd_be.h"
#include "attach/nbd_proto.h"

#include <errno.h>

#define REQUEST_MAGIC 0x25609513u
#define REPLY_MAGIC   0x67446698u

int nbd_request_decode(const uint8_t bytes[NBD_REQUEST_BYTES], struct nbd_request *ret_request)
{
	if (nbd_get_u32(bytes) != REQUEST_MAGIC)
		return -EPROTO;
	ret_request->flags = nbd_get_u16(bytes + 4);
	ret_request->command = nbd_get_u16(bytes + 6);
	ret_request->cookie = nbd_get_u64(bytes + 8);
	ret_request->offset = nbd_get_u64(bytes + 16);
	ret_request->length = nbd_get_u32(bytes + 24);
	return 0;
}

/* The protocol requires that FUA is accepted for every command. */
static uint16_t flags_known(uint16_t command, const struct nbd_terms *terms)
{
	switch (command) {
	case NBD_CMD_WRITE_ZEROES:
		return NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE;
	case NBD_CMD_READ:
		return NBD_CMD_FLAG_FUA | (terms->is_structured ? NBD_CMD_FLAG_DF : 0);
	case NBD_CMD_BLOCK_STATUS:
		return NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_REQ_ONE;
	default:
		return NBD_CMD_FLAG_FUA;
	}
}

static bool request_fits(const struct nbd_request *request, const struct nbd_export *export)
{
	return request->offset <= export->size_bytes &&
	       request->length <= export->size_bytes - request->offset;
}

static bool request_is_aligned(const struct nbd_request *request, const struct nbd_export *export)
{
	return request->offset % export->block_bytes == 0 &&
	       request->length % export->block_bytes == 0;
}

static enum nbd_error change_check(const struct nbd_request *request,
				   const struct nbd_export *export)
{
	if (export->is_read_only)
		return NBD_EPERM;
	if (!request_fits(request, export))
		return request->command == NBD_CMD_TRIM ? NBD_EINVAL : NBD_ENOSPC;
	if (!request_is_aligned(request, export))
		return NBD_EINVAL;
	/* The length is limited only for a command with data. */
	return request->command == NBD_CMD_WRITE && request->length > NBD_LENGTH_MAX ? NBD_EINVAL
										     : NBD_OK;
}

enum nbd_error nbd_request_check(const struct nbd_request *request, const struct nbd_export *export,
				 const struct nbd_terms *terms)
{
	if (request->flags & ~flags_known(request->command, terms))
		return NBD_EINVAL;
	switch (request->command) {
	case NBD_CMD_READ:
		return request->length == 0 || request->length > NBD_LENGTH_MAX ||
				       !request_fits(request, export)
			       ? NBD_EINVAL
			       : NBD_OK;
	case NBD_CMD_WRITE:
	case NBD_CMD_TRIM:
	case NBD_CMD_WRITE_ZEROES:
		return request->length == 0 ? NBD_EINVAL : change_check(request, export);
	case NBD_CMD_BLOCK_STATUS:
		return !terms->has_allocation || request->length == 0 ||
				       !request_fits(request, export)
			       ? NBD_EINVAL
			       : NBD_OK;
	case NBD_CMD_FLUSH:
	case NBD_CMD_DISC:
		return NBD_OK;
	default:
		return NBD_EINVAL;
	}
}

void nbd_reply_encode(uint8_t bytes[NBD_REPLY_BYTES], uint64_t cookie, enum nbd_error error)
{
	nbd_put_u32(bytes, REPLY_MAGIC);
	nbd_put_u32(bytes + 4, error);
	nbd_put_u64(bytes + 8, cookie);
}

enum nbd_error nbd_error_from_errno(int res)
{
	switch (res) {
	case 0:
		return NBD_OK;
	case -EROFS:
	case -EPERM:
	case -EACCES:
		return NBD_EPERM;
	case -ENOMEM:
		return NBD_ENOMEM;
	case -EINVAL:
		return NBD_EINVAL;
	case -ENOSPC:
		return NBD_ENOSPC;
	case -EOPNOTSUPP:
		return NBD_ENOTSUP;
	/* The connection is about to be closed, because the size or block size has changed. */
	case -ESTALE:
		return NBD_ESHUTDOWN;
	default:
		return NBD_EIO;
	}
}
