/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-Controller Reset on the wire: the command, its result and the logs 1Eh and 1Fh at the
 * offsets of NVMe Base 2.3 as plain numbers, round trips, and pages whose counts exceed their
 * content. One thread.
 */
#include "base/check.h"
#include "tap.h"
#include "wire/ctrl_reset.h"
#include "wire/feature.h"
#include "wire/log_page.h"

static uint64_t number_at(const uint8_t *page, size_t offset, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = bytes; i > 0; i--)
		value = value << 8 | page[offset + i - 1];
	return value;
}

static void command_has_the_fields_of_the_specification(void)
{
	const struct ctrl_reset_cmd cmd = {0xabcd, 0x7e, 0x1122334455667788};
	struct nvme_sqe sqe = {0};
	struct ctrl_reset_cmd got;

	ctrl_reset_cmd_encode(&sqe, &cmd);
	EXPECT_EQ(0x38, sqe.opcode);
	EXPECT_EQ(0x007eabcd, le32_get(sqe.cdw10));
	EXPECT_EQ(0, le32_get(sqe.cdw11));
	EXPECT_EQ(0x55667788, le32_get(sqe.cdw12));
	EXPECT_EQ(0x11223344, le32_get(sqe.cdw13));
	ctrl_reset_cmd_decode(&sqe, &got);
	EXPECT_EQ(cmd.cntlid, got.cntlid);
	EXPECT_EQ(cmd.uniquifier, got.uniquifier);
	EXPECT_EQ(cmd.random_number, got.random_number);
	EXPECT_STR("Cross-Controller Reset", nvme_admin_opcode_name(0x38));
}

static void result_is_bit_0(void)
{
	EXPECT_EQ(1, ctrl_reset_result_encode(true));
	EXPECT_EQ(0, ctrl_reset_result_encode(false));
	EXPECT(ctrl_reset_result_decode(0x80000001));
	EXPECT(!ctrl_reset_result_decode(0xfffffffe));
}

static void reset_log_has_the_offsets_of_the_specification(void)
{
	const struct log_ctrl_reset_entry entry = {
		.cntlid = 0x0102,
		.uniquifier = 0x03,
		.asked_cntlid = 0x0405,
		.state = LOG_CTRL_RESET_FAILED,
		.is_initiated = true,
	};
	struct log_ctrl_reset_entry got;
	uint8_t page[LOG_CTRL_RESET_HEADER_BYTES + 2 * LOG_CTRL_RESET_ENTRY_BYTES];

	EXPECT_EQ(4096, LOG_CTRL_RESET_BYTES);
	EXPECT_EQ(0x1e, LOG_CTRL_RESET);
	memset(page, 0xee, sizeof(page));
	log_ctrl_reset_header_encode(2, page);
	EXPECT_EQ(2, number_at(page, 0, 8));
	log_ctrl_reset_entry_encode(&entry, page + 16);
	EXPECT_EQ(0x0102, number_at(page, 16, 2));
	EXPECT_EQ(0x03, page[18]);
	EXPECT_EQ(0, page[19]);
	EXPECT_EQ(0x0405, number_at(page, 20, 2));
	EXPECT_EQ(2, page[22]);
	EXPECT_EQ(2, page[23]);
	EXPECT_EQ(2, log_ctrl_reset_count(page, sizeof(page)));
	log_ctrl_reset_entry_decode(page, 1, &got);
	EXPECT_EQ(0x0102, got.cntlid);
	EXPECT_EQ(0x03, got.uniquifier);
	EXPECT_EQ(0x0405, got.asked_cntlid);
	EXPECT_EQ(LOG_CTRL_RESET_FAILED, got.state);
	EXPECT(!got.is_validated);
	EXPECT(got.is_initiated);
}

static void lost_host_log_has_the_offsets_of_the_specification(void)
{
	const struct log_lost_host_entry entry = {0x0102, 0x03, 0x04};
	struct log_lost_host_entry got;
	uint8_t page[LOG_CTRL_RESET_HEADER_BYTES + LOG_CTRL_RESET_ENTRY_BYTES];

	EXPECT_EQ(0x1f, LOG_LOST_HOST);
	memset(page, 0xee, sizeof(page));
	log_ctrl_reset_header_encode(1, page);
	log_lost_host_entry_encode(&entry, page + 8);
	EXPECT_EQ(0x0000000004030102, number_at(page, 8, 8));
	log_lost_host_entry_decode(page, 0, &got);
	EXPECT_EQ(0x0102, got.cntlid);
	EXPECT_EQ(0x03, got.reason);
	EXPECT_EQ(0x04, got.uniquifier);
}

static void promises_beyond_the_page_are_not_believed(void)
{
	static const struct {
		uint16_t promised;
		size_t page_bytes;
		uint32_t count;
	} rows[] = {{0xffff, 4096, 511}, {511, 4096, 511}, {3, 31, 2}, {3, 32, 3},
		    {1, 8, 0},           {1, 7, 0},        {1, 0, 0},  {0, 4096, 0}};
	uint8_t page[4096] = {0};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		log_ctrl_reset_header_encode(rows[i].promised, page);
		EXPECT_EQ(rows[i].count, log_ctrl_reset_count(page, rows[i].page_bytes));
	}
}

static void statuses_and_notices_have_their_numbers(void)
{
	EXPECT_EQ(0x13f, NVME_SC_CTRL_RESET_IN_PROGRESS.value);
	EXPECT_EQ(0x140, NVME_SC_CTRL_RESET_LOG_FULL.value);
	EXPECT_EQ(0x141, NVME_SC_CTRL_RESET_LIMIT.value);
	EXPECT_STR("Controller Reset In Progress",
		   nvme_status_name(NVME_SC_CTRL_RESET_IN_PROGRESS));
	EXPECT_STR("Cross-Controller Reset Limit Exceeded",
		   nvme_status_name(nvme_status_dnr(NVME_SC_CTRL_RESET_LIMIT)));
	EXPECT_EQ(0xf4, ASYNC_NOTICE_CTRL_RESET);
	EXPECT_EQ(0xf5, ASYNC_NOTICE_LOST_HOST);
	EXPECT_EQ(0x00100000, ASYNC_MASK_CTRL_RESET);
	EXPECT_EQ(0x00200000, ASYNC_MASK_LOST_HOST);
}

int main(void)
{
	TAP_RUN(command_has_the_fields_of_the_specification);
	TAP_RUN(result_is_bit_0);
	TAP_RUN(reset_log_has_the_offsets_of_the_specification);
	TAP_RUN(lost_host_log_has_the_offsets_of_the_specification);
	TAP_RUN(promises_beyond_the_page_are_not_believed);
	TAP_RUN(statuses_and_notices_have_their_numbers);
	return tap_end();
}
