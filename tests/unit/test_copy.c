/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy, its source ranges and Cancel: bits as in NVM Command Set 1.1, section 3.3.2, and NVMe Base
 * 2.1, section 7.1, and round trips; the names of their opcodes and statuses. One thread.
 */
#include "tap.h"
#include "wire/copy.h"

static void copy_has_the_bits_of_the_specification(void)
{
	const struct copy_cmd cmd = {
		.first_block = 0x1122334455667788,
		.range_count = 128,
		.format = COPY_FORMAT_ANY_NS,
		.prinfo_read = 0xa,
		.prinfo_write = 0x5,
		.directive_type = 0x3,
		.checks_storage_tag = true,
		.is_fua = true,
		.is_limited_retry = true,
	};
	struct copy_cmd got;
	struct nvme_sqe sqe = {0};

	copy_cmd_encode(&sqe, 7, &cmd);
	EXPECT_EQ(0x19, sqe.opcode);
	EXPECT_EQ(7, le32_get(sqe.nsid));
	EXPECT_EQ(0x55667788, le32_get(sqe.cdw10));
	EXPECT_EQ(0x11223344, le32_get(sqe.cdw11));
	/* LR, FUA, PRINFOW 0101b, STCR, STCW, DTYPE 3, PRINFOR 1010b, format 2, NR 127 */
	EXPECT_EQ(0xd730a27f, le32_get(sqe.cdw12));
	copy_cmd_decode(&sqe, &got);
	EXPECT_EQ(cmd.first_block, got.first_block);
	EXPECT_EQ(128, got.range_count);
	EXPECT_EQ(2, got.format);
	EXPECT_EQ(0xa, got.prinfo_read);
	EXPECT_EQ(5, got.prinfo_write);
	EXPECT_EQ(3, got.directive_type);
	EXPECT(got.checks_storage_tag && got.is_fua && got.is_limited_retry);
	sqe.cdw12 = le32_of(1u << 24);
	copy_cmd_decode(&sqe, &got);
	EXPECT(got.checks_storage_tag && !got.is_fua && !got.is_limited_retry);
	EXPECT_EQ(1, got.range_count);
	sqe.cdw12 = le32_of(0xff);
	copy_cmd_decode(&sqe, &got);
	EXPECT_EQ(256, got.range_count);
}

static void ranges_of_format_0_name_no_namespace(void)
{
	const struct copy_range range = {9, 0x0102030405060708, 65536, true};
	uint8_t bytes[2 * NVME_COPY_RANGE_BYTES];
	struct copy_range got;

	memset(bytes, 0xff, sizeof(bytes));
	copy_range_encode(bytes, 1, COPY_FORMAT_ONE_NS, &range);
	EXPECT_EQ(0xff, bytes[31]);
	EXPECT_EQ(0, bytes[32]);
	EXPECT_EQ(8, bytes[32 + 8]);
	EXPECT_EQ(1, bytes[32 + 15]);
	EXPECT_EQ(0xff, bytes[32 + 16]);
	EXPECT_EQ(0xff, bytes[32 + 17]);
	EXPECT_EQ(0, bytes[32 + 23]);
	got = copy_range_decode(bytes, 1, COPY_FORMAT_ONE_NS);
	EXPECT_EQ(range.first_block, got.first_block);
	EXPECT_EQ(65536, got.block_count);
	EXPECT_EQ(0, got.nsid);
	EXPECT(!got.is_fast_only);
}

static void ranges_of_format_2_do(void)
{
	const struct copy_range range = {0x0a0b0c0d, 3, 1, true};
	uint8_t bytes[NVME_COPY_RANGE_BYTES];
	struct copy_range got;

	copy_range_encode(bytes, 0, COPY_FORMAT_ANY_NS, &range);
	EXPECT_EQ(0x0d, bytes[0]);
	EXPECT_EQ(0x0a, bytes[3]);
	EXPECT_EQ(0, bytes[16]);
	EXPECT_EQ(0x80, bytes[23]);
	got = copy_range_decode(bytes, 0, COPY_FORMAT_ANY_NS);
	EXPECT_EQ(0x0a0b0c0d, got.nsid);
	EXPECT_EQ(1, got.block_count);
	EXPECT(got.is_fast_only);
}

static void cancel_round_trips(void)
{
	const struct cancel_cmd cmd = {0x1234, 0xfeed, CANCEL_MANY};
	struct cancel_cmd got;
	struct nvme_sqe sqe = {0};

	cancel_cmd_encode(&sqe, NVME_NSID_ALL, &cmd);
	EXPECT_EQ(0x18, sqe.opcode);
	EXPECT_EQ(0xfeed1234, le32_get(sqe.cdw10));
	EXPECT_EQ(1, le32_get(sqe.cdw11));
	cancel_cmd_decode(&sqe, &got);
	EXPECT_EQ(0x1234, got.sqid);
	EXPECT_EQ(0xfeed, got.cid);
	EXPECT_EQ(CANCEL_MANY, got.action);
	EXPECT_EQ(0x00030002, cancel_result_encode(2, 3));
}

static void names_are_those_of_the_specification(void)
{
	EXPECT_STR("Verify", nvme_io_opcode_name(0x0c));
	EXPECT_STR("Cancel", nvme_io_opcode_name(0x18));
	EXPECT_STR("Copy", nvme_io_opcode_name(0x19));
	EXPECT_STR("Fast Copy Not Possible", nvme_status_name(NVME_STATUS(1, 0x86)));
	EXPECT_STR("Overlapping I/O Range", nvme_status_name(NVME_STATUS(1, 0x87)));
	/* The same numbers mean one status of Connect and another of an I/O command. */
	EXPECT_STR("Connect Restart Discovery", nvme_status_name(NVME_STATUS(1, 0x83)));
	EXPECT_STR("Command Size Limit Exceeded", nvme_io_status_name(NVME_STATUS(1, 0x83)));
	EXPECT_STR("Incompatible Namespace or Format", nvme_io_status_name(NVME_STATUS(1, 0x85)));
	EXPECT_STR("LBA Out of Range", nvme_io_status_name(NVME_STATUS(0, 0x80)));
}

int main(void)
{
	TAP_RUN(copy_has_the_bits_of_the_specification);
	TAP_RUN(ranges_of_format_0_name_no_namespace);
	TAP_RUN(ranges_of_format_2_do);
	TAP_RUN(cancel_round_trips);
	TAP_RUN(names_are_those_of_the_specification);
	return tap_end();
}
