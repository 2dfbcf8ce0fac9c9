/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro: PDU headers through src/wire's functions, every type of an I/O command. The decoder's
 * input is the encoder's output, seen from the other side. One thread.
 */
#include "micro.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "wire/io_cmd.h"
#include "wire/pdu.h"
#include "wire/sgl.h"

#include <stdio.h>

#define IO_BYTES 4096

struct pdu_case {
	const char *name;
	enum nvme_tcp_pdu_type type;
	bool has_digests;
	enum pdu_role decoder;
	size_t header_bytes;
	uint8_t header[NVME_TCP_HDR_MAX_BYTES + 16];
};

static struct pdu_case cases[] = {
	{"CapsuleCmd", NVME_TCP_PDU_CAPSULE_CMD, false, PDU_ROLE_TARGET},
	{"CapsuleCmd, digests", NVME_TCP_PDU_CAPSULE_CMD, true, PDU_ROLE_TARGET},
	{"CapsuleResp", NVME_TCP_PDU_CAPSULE_RESP, false, PDU_ROLE_HOST},
	{"C2HData", NVME_TCP_PDU_C2H_DATA, false, PDU_ROLE_HOST},
	{"C2HData, digests", NVME_TCP_PDU_C2H_DATA, true, PDU_ROLE_HOST},
	{"H2CData", NVME_TCP_PDU_H2C_DATA, false, PDU_ROLE_TARGET},
	{"R2T", NVME_TCP_PDU_R2T, false, PDU_ROLE_HOST},
};

static size_t case_encode(struct pdu_case *pdu_case, const struct nvme_sqe *sqe,
			  const struct nvme_cqe *cqe, const struct pdu_data_args *args)
{
	struct pdu_encoding encoding = {.has_header_digest = pdu_case->has_digests,
					.has_data_digest = pdu_case->has_digests,
					.data_align_bytes = 4};

	switch (pdu_case->type) {
	case NVME_TCP_PDU_CAPSULE_CMD:
		return pdu_encode_cmd(pdu_case->header, &encoding, sqe, 0);
	case NVME_TCP_PDU_CAPSULE_RESP:
		return pdu_encode_resp(pdu_case->header, &encoding, cqe);
	case NVME_TCP_PDU_C2H_DATA:
		return pdu_encode_c2h_data(pdu_case->header, &encoding, args);
	case NVME_TCP_PDU_H2C_DATA:
		return pdu_encode_h2c_data(pdu_case->header, &encoding, args);
	default:
		return pdu_encode_r2t(pdu_case->header, &encoding, args);
	}
}

static uint64_t encode_run(void *arg, uint64_t count)
{
	struct pdu_case *pdu_case = arg;
	struct io_cmd cmd = {.first_block = 77, .block_count = 1};
	struct pdu_data_args args = {.data_bytes = IO_BYTES, .is_last = true};
	struct nvme_cqe cqe = {0};
	struct nvme_sqe sqe = {0};
	uint64_t start_ns;

	io_cmd_encode(&sqe, NVME_IO_READ, 1, &cmd);
	sgl_encode_transport(&sqe, IO_BYTES);
	start_ns = clock_thread_cpu_ns();
	for (uint64_t i = 0; i < count; i++) {
		sqe.cid = le16_of((uint16_t)i);
		cqe.cid = sqe.cid;
		args.cccid = (uint16_t)i;
		pdu_case->header_bytes = case_encode(pdu_case, &sqe, &cqe, &args);
		micro_keep(pdu_case->header);
	}
	return clock_thread_cpu_ns() - start_ns;
}

static uint64_t decode_run(void *arg, uint64_t count)
{
	struct pdu_case *pdu_case = arg;
	struct pdu_state state = {
		.role = pdu_case->decoder,
		.is_initialized = true,
		.has_header_digest = pdu_case->has_digests,
		.has_data_digest = pdu_case->has_digests,
		.data_align_bytes = 4,
		.in_capsule_max_bytes = 8192,
		.data_max_bytes = UINT32_MAX,
	};
	uint64_t start_ns = clock_thread_cpu_ns();

	for (uint64_t i = 0; i < count; i++) {
		struct pdu_error error;
		struct pdu pdu;

		micro_keep(pdu_case->header);
		CHECK(pdu_decode(pdu_case->header, pdu_case->header_bytes, &state, &pdu, &error) ==
		      PDU_DECODED);
		micro_keep(&pdu);
	}
	return clock_thread_cpu_ns() - start_ns;
}

void micro_pdu(struct micro *micro)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char name[64];
		struct micro_what what = {.group = "encode", .name = name};

		snprintf(name, sizeof(name), "%s", cases[i].name);
		micro_measure(micro, &what, encode_run, &cases[i]);
		what.group = "decode";
		micro_measure(micro, &what, decode_run, &cases[i]);
	}
}
