/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O commands, opcode and status names: bits as in NVM Command Set 1.1, section 3.3, and round
 * trips. One thread.
 */
#include "tap.h"
#include "wire/io_cmd.h"

static void write_has_the_bits_of_the_specification(void)
{
	const struct io_cmd cmd = {0x1122334455667788, 0x10000, true, true, true, 0xa, 0x5};
	struct io_cmd got;
	struct nvme_sqe sqe = {.cid = le16_of(0x99), .cdw13 = le32_of(7)};
	uint8_t raw[64];

	io_cmd_encode(&sqe, NVME_IO_WRITE, 0x01020304, &cmd);
	memcpy(raw, &sqe, sizeof(raw));
	EXPECT_EQ(1, raw[0]);
	EXPECT_EQ(0x99, raw[2]);
	EXPECT_EQ(0x04, raw[4]);
	EXPECT_EQ(0x88, raw[40]);
	EXPECT_EQ(0x11, raw[47]);
	/* LR 31, FUA 30, PRINFO 29:26 = 1010b, DEAC 25, DTYPE 23:20 = 5, NLB = 65535 */
	EXPECT_EQ(0xea50ffff, le32_get(sqe.cdw12));
	EXPECT_EQ(7, le32_get(sqe.cdw13));
	io_cmd_decode(&sqe, &got);
	EXPECT_EQ(cmd.first_block, got.first_block);
	EXPECT_EQ(65536, got.block_count);
	EXPECT(got.is_fua && got.is_limited_retry && got.wants_deallocate);
	EXPECT_EQ(0xa, got.prinfo);
	EXPECT_EQ(5, got.directive_type);
}

static void one_block_is_zero_on_the_wire(void)
{
	const struct io_cmd cmd = {.block_count = 1};
	struct io_cmd got;
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, NVME_IO_READ, 1, &cmd);
	EXPECT_EQ(0, le32_get(sqe.cdw12));
	io_cmd_decode(&sqe, &got);
	EXPECT_EQ(1, got.block_count);
	EXPECT(!got.is_fua && !got.is_limited_retry && !got.wants_deallocate);
}

static void dataset_management_round_trips(void)
{
	struct dsm_cmd cmd = {256, true}, got;
	const struct dsm_range range = {0x1122334455667788, 0x99aabbcc, 0x01020304};
	struct dsm_range back;
	struct nvme_sqe sqe = {0};
	uint8_t bytes[2 * NVME_DSM_RANGE_BYTES] = {0};

	dsm_cmd_encode(&sqe, 3, &cmd);
	EXPECT_EQ(9, sqe.opcode);
	EXPECT_EQ(255, le32_get(sqe.cdw10));
	EXPECT_EQ(4, le32_get(sqe.cdw11));
	dsm_cmd_decode(&sqe, &got);
	EXPECT_EQ(256, got.range_count);
	EXPECT(got.is_deallocate);
	dsm_range_encode(bytes, 1, &range);
	EXPECT_EQ(0, bytes[0]);
	EXPECT_EQ(0x04, bytes[16]);
	EXPECT_EQ(0xcc, bytes[20]);
	EXPECT_EQ(0x88, bytes[24]);
	back = dsm_range_decode(bytes, 1);
	EXPECT_EQ(range.first_block, back.first_block);
	EXPECT_EQ(range.block_count, back.block_count);
	EXPECT_EQ(range.attributes, back.attributes);
}

static void status_travels_without_the_phase(void)
{
	nvme_status status = nvme_status_dnr(NVME_SC_CONNECT_INVALID_PARAM);

	EXPECT_EQ(0x8304, le16_get(nvme_status_encode(status)));
	EXPECT_EQ(status.value, nvme_status_decode(le16_of(0x8305)).value);
	EXPECT(!nvme_status_is_ok(status));
	EXPECT(nvme_status_is_ok((nvme_status){NVME_STATUS_M}));
}

static void names_are_never_null(void)
{
	EXPECT_STR("Invalid Field in Command",
		   nvme_status_name(nvme_status_dnr(NVME_SC_INVALID_FIELD)));
	EXPECT_STR("Asymmetric Access Inaccessible", nvme_status_name(NVME_SC_ANA_INACCESSIBLE));
	EXPECT_STR("Identify", nvme_admin_opcode_name(0x06));
	EXPECT_STR("Fabrics", nvme_admin_opcode_name(0x7f));
	EXPECT_STR("Write Zeroes", nvme_io_opcode_name(0x08));
	for (unsigned i = 0; i < 256; i++) {
		EXPECT(nvme_admin_opcode_name((uint8_t)i) != NULL);
		EXPECT(nvme_io_opcode_name((uint8_t)i) != NULL);
	}
	for (unsigned i = 0; i < 0x8000; i++)
		EXPECT(nvme_status_name((nvme_status){(uint16_t)i}) != NULL);
}

static void flush_tells_a_mark(void)
{
	struct nvme_sqe sqe = {0};
	uint64_t mark;

	EXPECT(!flush_mark_decode(&sqe, &mark));
	flush_mark_encode(&sqe, 0x1122334455667788);
	EXPECT(flush_mark_decode(&sqe, &mark));
	EXPECT_EQ(0x1122334455667788, mark);
	EXPECT_EQ(0x55667788, le32_get(sqe.cdw14));
	/* A namespace that has never lost writes has mark 0. */
	flush_mark_encode(&sqe, 0);
	EXPECT(flush_mark_decode(&sqe, &mark));
	EXPECT_EQ(0, mark);
}

int main(void)
{
	TAP_RUN(write_has_the_bits_of_the_specification);
	TAP_RUN(one_block_is_zero_on_the_wire);
	TAP_RUN(dataset_management_round_trips);
	TAP_RUN(status_travels_without_the_phase);
	TAP_RUN(names_are_never_null);
	TAP_RUN(flush_tells_a_mark);
	return tap_end();
}
