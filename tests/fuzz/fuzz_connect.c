/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what is decoded behind the PDU header before a peer is authenticated: on a target, the
 * Connect command and its data; on a host, the pages of a controller that it does not know yet.
 * Input: a byte that chooses, then the bytes, padded with zeros to the structure. Checked: accepted
 * names are well formed, accepted sizes are usable.
 */
#include "base/check.h"
#include "wire/fabrics.h"
#include "wire/identify.h"
#include "wire/log_page.h"
#include "wire/nqn.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void fuzz_connect(const uint8_t *input, size_t size)
{
	struct connect_reject reject;
	struct connect_args args;
	struct nvme_sqe sqe;

	if (size < sizeof(sqe))
		return;
	memcpy(&sqe, input, sizeof(sqe));
	connect_decode(&sqe, input + sizeof(sqe), size - sizeof(sqe), &args, &reject);
	CHECK(memchr(args.subsystem_nqn, 0, sizeof(args.subsystem_nqn)) != NULL);
	CHECK(memchr(args.host_nqn, 0, sizeof(args.host_nqn)) != NULL);
	if (!nvme_status_is_ok(reject.status))
		return;
	CHECK(args.queue_size >= 2 && args.queue_size <= 65536);
	CHECK(nqn_problem(args.subsystem_nqn) == NULL && nqn_problem(args.host_nqn) == NULL);
}

static void fuzz_identify(const uint8_t *page)
{
	struct ctrl_identity ctrl;
	struct ns_identity ns;
	uint32_t nsids[1024];

	if (identify_ctrl_decode(page, &ctrl) == 0)
		CHECK(ctrl.type == CTRL_TYPE_IO || ctrl.type == CTRL_TYPE_DISCOVERY);
	CHECK(memchr(ctrl.serial, 0, sizeof(ctrl.serial)) != NULL);
	if (identify_ns_decode(page, &ns) == 0)
		CHECK(ns.block_bytes >= 512 && ns.block_count <= UINT64_MAX / ns.block_bytes);
	(void)identify_ns_descriptors_decode(page, &ns);
	CHECK(identify_ns_list_decode(page, nsids) <= 1024);
}

static void fuzz_log(const uint8_t *page)
{
	struct discovery_header header;
	struct discovery_entry entry;
	struct log_error_entry error;
	struct log_smart smart;

	log_discovery_header_decode(page, &header);
	log_discovery_entry_decode(page, &entry);
	CHECK(memchr(entry.address, 0, sizeof(entry.address)) != NULL);
	CHECK(memchr(entry.service, 0, sizeof(entry.service)) != NULL);
	log_error_decode(page, &error);
	log_smart_decode(page, &smart);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	uint8_t page[NVME_PAGE_BYTES] = {0};

	if (size == 0)
		return 0;
	memcpy(page, input + 1, size - 1 < sizeof(page) ? size - 1 : sizeof(page));
	switch (input[0] % 3) {
	case 0:
		fuzz_connect(input + 1, size - 1);
		break;
	case 1:
		fuzz_identify(page);
		break;
	default:
		fuzz_log(page);
		break;
	}
	return 0;
}
