/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log pages that are written through a window: every window of the ANA page and of the error log
 * must be the same bytes as that part of the whole page. Pure; no reactor runs.
 */
#include "tap.h"

#include "base/check.h"
#include "base/le.h"
#include "target/command.h"
#include "target/log.h"

#include <stdlib.h>

#define PAGE_MAX   8192
#define SENTINEL   0xa5
#define NS_MAX     16
#define SMALL_STEP 4

static uint32_t get32(const uint8_t *bytes)
{
	le32 v;

	memcpy(v.bytes, bytes, sizeof(v));
	return le32_get(v);
}

static uint64_t write_ana(const struct subsystem *subsystem, const struct port *port,
			  bool is_groups_only, struct log_window window)
{
	return log_ana_write(subsystem, port, 0x1122334455667788ull, is_groups_only, &window);
}

/* Windows of every length at every offset, also past the end, against the whole page. */
static void check_all_windows(const struct subsystem *subsystem, const struct port *port,
			      bool is_groups_only)
{
	static uint8_t whole[PAGE_MAX], part[PAGE_MAX];
	uint64_t size;

	memset(whole, 0, sizeof(whole));
	size = write_ana(subsystem, port, is_groups_only,
			 (struct log_window){whole, 0, sizeof(whole)});
	EXPECT(size + 64 < sizeof(whole));
	for (uint32_t offset = 0; offset <= size + 8; offset += SMALL_STEP) {
		for (uint32_t len = SMALL_STEP; offset + len <= size + 64; len += SMALL_STEP) {
			memset(part, 0, len);
			memset(part + len, SENTINEL, 8);
			uint64_t again = write_ana(subsystem, port, is_groups_only,
						   (struct log_window){part, offset, len});
			bool is_same = memcmp(part, whole + offset, len) == 0;
			bool is_inside = part[len] == SENTINEL && part[len + 7] == SENTINEL;

			EXPECT_EQ(size, again);
			if (!is_same || !is_inside) {
				printf("# offset %u length %u\n", offset, len);
				EXPECT(is_same);
				EXPECT(is_inside);
				return;
			}
		}
	}
}

static struct ns namespaces[NS_MAX];

static struct subsystem build_subsystem(unsigned count, const uint32_t *groups)
{
	struct subsystem subsystem = {.nqn = "nqn.2026-11.io.weft:test",
				      .namespaces = namespaces,
				      .ns_count = count,
				      .ana_group_max = 1};

	CHECK(count <= NS_MAX);
	for (unsigned i = 0; i < count; i++) {
		namespaces[i] = (struct ns){.nsid = i * 3 + 1, .ana_group = groups[i]};
		if (groups[i] > subsystem.ana_group_max)
			subsystem.ana_group_max = groups[i];
	}
	return subsystem;
}

static struct ana_group_state states[] = {{2, ANA_INACCESSIBLE}, {9, ANA_NON_OPTIMIZED}};
static const struct port port = {.id = 1, .ana = states, .ana_count = 2};

static void ana_page_lists_groups_in_order(void)
{
	static const uint32_t groups[] = {9, 1, 2, 9, 1};
	struct subsystem subsystem = build_subsystem(5, groups);
	uint8_t page[256] = {0};
	struct log_window window = {page, 0, sizeof(page)};
	uint64_t size = log_ana_write(&subsystem, &port, 7, false, &window);

	EXPECT_EQ(16 + 3 * 32 + 5 * 4, size);
	EXPECT_EQ(7, get32(page));
	EXPECT_EQ(3, page[8]);
	/* group 1: optimized, NSIDs 4 and 13 */
	EXPECT_EQ(1, get32(page + 16));
	EXPECT_EQ(2, get32(page + 20));
	EXPECT_EQ(0, get32(page + 24));
	EXPECT_EQ(ANA_OPTIMIZED, page[16 + 16]);
	EXPECT_EQ(4, get32(page + 48));
	EXPECT_EQ(13, get32(page + 52));
	/* group 2: inaccessible, NSID 7 */
	EXPECT_EQ(2, get32(page + 56));
	EXPECT_EQ(1, get32(page + 60));
	EXPECT_EQ(ANA_INACCESSIBLE, page[56 + 16]);
	EXPECT_EQ(7, get32(page + 88));
	/* group 9: not optimized, NSIDs 1 and 10 */
	EXPECT_EQ(9, get32(page + 92));
	EXPECT_EQ(ANA_NON_OPTIMIZED, page[92 + 16]);
	EXPECT_EQ(1, get32(page + 124));
	EXPECT_EQ(10, get32(page + 128));
}

static void ana_page_without_nsids(void)
{
	static const uint32_t groups[] = {9, 1, 2, 9, 1};
	struct subsystem subsystem = build_subsystem(5, groups);
	uint8_t page[256] = {0};
	struct log_window window = {page, 0, sizeof(page)};

	EXPECT_EQ(16 + 3 * 32, log_ana_write(&subsystem, &port, 7, true, &window));
	EXPECT_EQ(3, page[8]);
	EXPECT_EQ(0, get32(page + 20));
	EXPECT_EQ(2, get32(page + 48));
	EXPECT_EQ(9, get32(page + 80));
}

static void ana_page_without_namespaces_has_group_1(void)
{
	struct subsystem subsystem = build_subsystem(0, NULL);
	uint8_t page[64] = {0};
	struct log_window window = {page, 0, sizeof(page)};

	EXPECT_EQ(16 + 32, log_ana_write(&subsystem, &port, 7, false, &window));
	EXPECT_EQ(1, page[8]);
	EXPECT_EQ(1, get32(page + 16));
	EXPECT_EQ(0, get32(page + 20));
	EXPECT_EQ(ANA_OPTIMIZED, page[32]);
}

static void ana_windows_are_parts_of_the_page(void)
{
	static const uint32_t groups[] = {1, 2, 9, 2, 1, 1, 128, 2, 3};
	struct subsystem subsystem = build_subsystem(9, groups);

	check_all_windows(&subsystem, &port, false);
	check_all_windows(&subsystem, &port, true);
	subsystem = build_subsystem(0, NULL);
	check_all_windows(&subsystem, &port, false);
}

static void ana_window_at_the_end_of_numbers(void)
{
	static const uint32_t groups[] = {1};
	struct subsystem subsystem = build_subsystem(1, groups);
	uint8_t part[16];
	struct log_window window = {part, UINT64_MAX - 7, sizeof(part)};

	memset(part, SENTINEL, sizeof(part));
	EXPECT_EQ(16 + 32 + 4, log_ana_write(&subsystem, &port, 7, false, &window));
	for (unsigned i = 0; i < sizeof(part); i++)
		EXPECT_EQ(SENTINEL, part[i]);
}

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
	TAP_RUN(ana_page_lists_groups_in_order);
	TAP_RUN(ana_page_without_nsids);
	TAP_RUN(ana_page_without_namespaces_has_group_1);
	TAP_RUN(ana_windows_are_parts_of_the_page);
	TAP_RUN(ana_window_at_the_end_of_numbers);
	TAP_RUN(error_log_is_newest_first);
	return tap_end();
}
