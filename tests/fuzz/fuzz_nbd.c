/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what an NBD client sends, from its first byte to its requests. The first byte of the
 * input chooses the export; the second, how many bytes come at a time, for what is parsed may not
 * depend on that. A request that is accepted lies within the export.
 */
#include "base/check.h"
#include "cli/nbd_proto.h"

#include <string.h>

static const struct nbd_export exports[] = {
	{.name = "", .description = "d", .size_bytes = 1 << 20, .block_bytes = 512},
	{.name = "disk", .size_bytes = 64 << 20, .block_bytes = 4096, .is_read_only = true},
	{.name = "", .size_bytes = UINT64_MAX - 4095, .block_bytes = 4096},
	{.name = "", .size_bytes = 0, .block_bytes = 512},
};

static void request_judge(const struct nbd_request *request, const struct nbd_export *export)
{
	static const struct nbd_terms terms = {.is_structured = true, .has_allocation = true};
	bool writes = request->command == NBD_CMD_WRITE || request->command == NBD_CMD_TRIM ||
		      request->command == NBD_CMD_WRITE_ZEROES;

	if (nbd_request_check(request, export, &terms) != NBD_OK ||
	    request->command == NBD_CMD_FLUSH || request->command == NBD_CMD_DISC)
		return;
	CHECK(request->length > 0 && request->offset < export->size_bytes &&
	      request->length <= export->size_bytes - request->offset);
	CHECK(writes || request->command == NBD_CMD_READ ||
	      request->command == NBD_CMD_BLOCK_STATUS);
	CHECK(!writes || (!export->is_read_only && request->offset % export->block_bytes == 0 &&
			  request->length % export->block_bytes == 0));
	CHECK(request->length <= NBD_LENGTH_MAX || request->command == NBD_CMD_TRIM ||
	      request->command == NBD_CMD_WRITE_ZEROES || request->command == NBD_CMD_BLOCK_STATUS);
}

static void requests_take(const uint8_t *data, size_t size, const struct nbd_export *export)
{
	while (size >= NBD_REQUEST_BYTES) {
		uint8_t reply[NBD_REPLY_BYTES];
		struct nbd_request request;

		if (nbd_request_decode(data, &request) != 0)
			return;
		request_judge(&request, export);
		nbd_reply_encode(reply, request.cookie, NBD_EIO);
		CHECK(memcmp(reply + 8, data + 8, 8) == 0);
		data += NBD_REQUEST_BYTES;
		size -= NBD_REQUEST_BYTES;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct nbd_export *export;
	struct nbd_handshake handshake;
	size_t most, seen = 0;

	if (size < 2)
		return 0;
	export = &exports[data[0] % 4];
	most = data[1] + 1u;
	data += 2;
	size -= 2;
	nbd_handshake_init(&handshake, export);
	while (handshake.phase != NBD_PHASE_REQUEST && handshake.phase != NBD_PHASE_ENDED) {
		int used = nbd_handshake_take(&handshake, data, seen);

		CHECK(handshake.answer_bytes <= sizeof(handshake.answer));
		if (used < 0)
			return 0;
		CHECK((size_t)used <= seen);
		data += used;
		size -= (size_t)used;
		seen -= (size_t)used;
		if (used > 0)
			continue;
		if (seen == size)
			return 0;
		seen += most < size - seen ? most : size - seen;
	}
	if (handshake.phase == NBD_PHASE_REQUEST)
		requests_take(data, size, export);
	return 0;
}
