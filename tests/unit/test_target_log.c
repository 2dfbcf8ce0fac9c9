/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error log as a page: entries newest first, and the fields of each. Pure; no reactor runs. The
 * ANA log has a test of its own.
 */
#include "tap.h"

#include "base/check.h"
#include "base/le.h"
#include "target/command.h"
#include "target/log.h"

#include <stdlib.h>

static void error_log_is_newest_first(void)
{
	struct queue queue = {.qid = 3};
	struct slot slot = {.queue = &queue, .error_byte = 0xffff};
	struct ctrl *ctrl = calloc(1, sizeof(*ctrl));
	uint8_t page[CTRL_ERROR_LOG_ENTRIES * LOG_ERROR_ENTRY_BYTES] = {0};
	struct log_window window = {page, 0, sizeof(page)};
	struct log_error_entry entry;

	EXPECT_EQ(0, ctrl_error_log_init(ctrl));
	EXPECT_EQ(sizeof(page), log_error_write(ctrl, &window));
	log_error_decode(page, &entry);
	EXPECT_EQ(0, entry.error_count);
	for (uint16_t i = 1; i <= CTRL_ERROR_LOG_ENTRIES + 5; i++) {
		slot.sqe.cid = le16_of(i);
		slot.sqe.nsid = le32_of(i + 100u);
		slot.status = NVME_SC_LBA_RANGE;
		slot.error_byte = 40;
		ctrl_error_log_add(ctrl, &slot);
	}
	EXPECT_EQ(CTRL_ERROR_LOG_ENTRIES + 5, ctrl->error_count);
	log_error_write(ctrl, &window);
	for (unsigned i = 0; i < CTRL_ERROR_LOG_ENTRIES; i++) {
		log_error_decode(page + i * LOG_ERROR_ENTRY_BYTES, &entry);
		EXPECT_EQ(CTRL_ERROR_LOG_ENTRIES + 5 - i, entry.error_count);
		EXPECT_EQ(entry.error_count, entry.cid);
		EXPECT_EQ(entry.error_count + 100, entry.nsid);
		EXPECT_EQ(3, entry.sqid);
		EXPECT_EQ(40, entry.parameter_byte);
		EXPECT(nvme_status_same(NVME_SC_LBA_RANGE, entry.status));
	}
	ctrl_error_log_free(ctrl);
	free(ctrl);
}

int main(void)
{
	TAP_RUN(error_log_is_newest_first);
	return tap_end();
}
