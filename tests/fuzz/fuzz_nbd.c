/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the parser of NBD clients' bytes, from the handshake to requests. The first byte of the
 * input chooses the export, the second how many bytes arrive at a time: the result must not depend
 * on the second. An accepted request must be within the export.
 *
 * The bytes after an accepted block status request are also the controller's answer to it, a list
 * of allocated blocks, true or not. No block of this list may be reported as a hole.
 */
#include "attach/nbd_be.h"
#include "attach/nbd_proto.h"
#include "base/check.h"
#include "wire/lba_status.h"

#include <string.h>

#define LIST_RUNS_MAX 16

static const struct nbd_export exports[] = {
	{.name = "", .description = "d", .size_bytes = 1 << 20, .block_bytes = 512},
	{.name = "disk", .size_bytes = 64 << 20, .block_bytes = 4096, .is_read_only = true},
	{.name = "", .size_bytes = UINT64_MAX - 4095, .block_bytes = 4096},
	{.name = "", .size_bytes = 0, .block_bytes = 512},
};

/* The bytes from `at` on were reported as a hole: no descriptor of the list may cover them. */
static void hole_judge(uint64_t at, uint64_t length, uint32_t block_bytes, const uint8_t *list,
		       size_t list_bytes)
{
	struct lba_status_list head;

	lba_status_list_decode(list, list_bytes, &head);
	for (uint32_t i = 0; i < head.count; i++) {
		struct lba_status_run run = lba_status_run_decode(list, i);
		uint64_t first = at / block_bytes, last = (at + length - 1) / block_bytes;

		CHECK(run.block_count >= 1 && run.block_count <= LBA_STATUS_RUN_MAX);
		CHECK(last < run.first_block ||
		      (first > run.first_block && first - run.first_block >= run.block_count));
	}
}

static void status_judge(const struct nbd_request *request, const struct nbd_export *export,
			 const uint8_t *list, size_t list_bytes)
{
	static uint8_t told[(2 * LIST_RUNS_MAX + 1) * NBD_EXTENT_BYTES];
	const size_t most_bytes =
		LBA_STATUS_HEADER_BYTES + LIST_RUNS_MAX * LBA_STATUS_DESCRIPTOR_BYTES;
	uint64_t at = request->offset, end = request->offset + request->length;
	unsigned count;

	if (list_bytes < LBA_STATUS_HEADER_BYTES)
		return;
	if (list_bytes > most_bytes)
		list_bytes = most_bytes;
	count = nbd_status_fill(request, export->block_bytes, list, list_bytes, told);
	CHECK(count >= 1 && count <= 2 * LIST_RUNS_MAX + 1);
	for (unsigned i = 0; i < count; i++) {
		uint32_t length = nbd_get_u32(told + i * NBD_EXTENT_BYTES);
		uint32_t state = nbd_get_u32(told + i * NBD_EXTENT_BYTES + 4);

		CHECK(length > 0 && length <= end - at);
		if (state != 0)
			hole_judge(at, length, export->block_bytes, list, list_bytes);
		at += length;
	}
}

/* after: the bytes that follow the request. */
static void request_judge(const struct nbd_request *request, const struct nbd_export *export,
			  const uint8_t *after, size_t after_bytes)
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
	if (request->command == NBD_CMD_BLOCK_STATUS)
		status_judge(request, export, after, after_bytes);
}

static void requests_take(const uint8_t *data, size_t size, const struct nbd_export *export)
{
	while (size >= NBD_REQUEST_BYTES) {
		uint8_t reply[NBD_REPLY_BYTES];
		struct nbd_request request;

		if (nbd_request_decode(data, &request) != 0)
			return;
		request_judge(&request, export, data + NBD_REQUEST_BYTES, size - NBD_REQUEST_BYTES);
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
