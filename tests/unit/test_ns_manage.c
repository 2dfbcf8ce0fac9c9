/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespace Management, Namespace Attachment and Format NVM on the wire: the offsets and bits of
 * the specification, and that encoding and decoding agree. Pure.
 */
#include "tap.h"

#include "wire/lba_format.h"
#include "wire/ns_manage.h"

static void fields_are_where_the_specification_says(void)
{
	static uint8_t page[NVME_PAGE_BYTES];
	struct ns_create create;

	memset(page, 0, sizeof(page));
	page[1] = 2;     /* NSZE 512 */
	page[8] = 7;     /* NCAP */
	page[26] = 0x31; /* FLBAS: 1, metadata inline, upper bits 1 */
	page[29] = 3;    /* DPS */
	page[30] = 1;    /* NMIC */
	page[93] = 1;    /* ANAGRPID 256 */
	page[100] = 5;   /* NVMSETID */
	page[102] = 6;   /* ENDGID */
	ns_create_decode(page, &create);
	EXPECT_EQ(512, create.block_count);
	EXPECT_EQ(7, create.capacity);
	EXPECT_EQ(0x11, create.format);
	EXPECT(create.has_inline_meta);
	EXPECT_EQ(3, create.protection);
	EXPECT_EQ(1, create.sharing);
	EXPECT_EQ(256, create.ana_group);
	EXPECT_EQ(5, create.nvm_set);
	EXPECT_EQ(6, create.endurance_group);
	EXPECT(!create.has_more);
	page[391] = 1; /* LBSTM */
	ns_create_decode(page, &create);
	EXPECT(create.has_more);
	page[391] = 0;
	page[392] = 1; /* NPHNDLS */
	ns_create_decode(page, &create);
	EXPECT(create.has_more);
}

static void created_fields_come_back(void)
{
	static uint8_t page[NVME_PAGE_BYTES];
	struct ns_create out = {.block_count = UINT64_MAX,
				.capacity = 1,
				.format = 0x3f,
				.sharing = 1,
				.ana_group = UINT32_MAX,
				.nvm_set = 0xfffe,
				.endurance_group = 9},
			 in;

	ns_create_encode(&out, page);
	ns_create_decode(page, &in);
	EXPECT_EQ(out.block_count, in.block_count);
	EXPECT_EQ(out.capacity, in.capacity);
	EXPECT_EQ(out.format, in.format);
	EXPECT_EQ(out.sharing, in.sharing);
	EXPECT_EQ(out.ana_group, in.ana_group);
	EXPECT_EQ(out.nvm_set, in.nvm_set);
	EXPECT_EQ(out.endurance_group, in.endurance_group);
	EXPECT(!in.has_inline_meta && !in.has_more);
}

static void selections(void)
{
	struct ns_manage_cmd cmd = {.select = 5, .csi = 2}, back;
	struct nvme_sqe sqe = {0};

	ns_manage_cmd_encode(&sqe, &cmd);
	EXPECT_EQ(5, le32_get(sqe.cdw10));
	EXPECT_EQ(0x02000000, le32_get(sqe.cdw11));
	ns_manage_cmd_decode(&sqe, &back);
	EXPECT_EQ(5, back.select);
	EXPECT_EQ(2, back.csi);
}

static void ctrl_lists(void)
{
	static uint8_t page[NVME_PAGE_BYTES];
	static uint16_t ids[CTRL_LIST_MAX], back[CTRL_LIST_MAX];

	for (unsigned i = 0; i < CTRL_LIST_MAX; i++)
		ids[i] = (uint16_t)(i + 1);
	ctrl_list_encode(ids, CTRL_LIST_MAX, page);
	EXPECT_EQ(0xff, page[0]);
	EXPECT_EQ(0x07, page[1]);
	EXPECT_EQ(1, page[2]);
	EXPECT_EQ(CTRL_LIST_MAX, ctrl_list_decode(page, back));
	EXPECT(memcmp(ids, back, sizeof(ids)) == 0);
	ctrl_list_encode(ids, 0, page);
	EXPECT_EQ(0, ctrl_list_decode(page, back));
	page[1] = 0x08; /* 2048 do not fit */
	EXPECT_EQ(-1, ctrl_list_decode(page, back));
}

static void formats(void)
{
	static const struct format_cmd rows[] = {
		{.format = 1},
		{.format = 0x3f},
		{.has_inline_meta = true},
		{.protection = 7},
		{.has_protection_first = true},
		{.erase = FORMAT_ERASE_USER_DATA},
		{.erase = 7},
	};
	static const uint32_t cdw10[] = {0x1, 0x300f, 0x10, 0xe0, 0x100, 0x200, 0xe00};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nvme_sqe sqe = {0};
		struct format_cmd back;

		format_cmd_encode(&sqe, &rows[i]);
		EXPECT_EQ(cdw10[i], le32_get(sqe.cdw10));
		format_cmd_decode(&sqe, &back);
		EXPECT_EQ(rows[i].format, back.format);
		EXPECT_EQ(rows[i].has_inline_meta, back.has_inline_meta);
		EXPECT_EQ(rows[i].protection, back.protection);
		EXPECT_EQ(rows[i].has_protection_first, back.has_protection_first);
		EXPECT_EQ(rows[i].erase, back.erase);
	}
}

static void lba_formats(void)
{
	EXPECT_EQ(0, lba_format_find(512));
	EXPECT_EQ(1, lba_format_find(4096));
	EXPECT_EQ(LBA_FORMAT_COUNT, lba_format_find(520));
	EXPECT_EQ(9, lba_format_shift(0));
	EXPECT_EQ(12, lba_format_shift(1));
}

int main(void)
{
	TAP_RUN(fields_are_where_the_specification_says);
	TAP_RUN(created_fields_come_back);
	TAP_RUN(selections);
	TAP_RUN(ctrl_lists);
	TAP_RUN(formats);
	TAP_RUN(lba_formats);
	return tap_end();
}
