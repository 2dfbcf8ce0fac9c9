/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NBD protocol of `weft attach`: handshake and requests as bytes (the NBD project's
 * doc/proto.md). tests/lib/test_attach.py tests a live server.
 */
#include "attach/nbd_be.h"
#include "attach/nbd_proto.h"
#include "tap.h"
#include "wire/lba_status.h"

#include <errno.h>

#define MIB (1ull << 20)

static const struct nbd_terms plain;
static const struct nbd_export disk = {
	.name = "disk",
	.description = "a disk",
	.size_bytes = 64 * MIB,
	.block_bytes = 4096,
};
static const struct nbd_export read_only_disk = {
	.name = "", .size_bytes = MIB, .block_bytes = 512, .is_read_only = true};

/* ---- handshake ------------------------------------------------------------------------------ */

static size_t option_make(uint8_t *bytes, uint32_t option, const void *body, uint32_t len_bytes)
{
	memcpy(bytes, "IHAVEOPT", 8);
	nbd_put_u32(bytes + 8, option);
	nbd_put_u32(bytes + 12, len_bytes);
	memcpy(bytes + 16, body, len_bytes);
	return 16 + len_bytes;
}

static void handshake_begin(struct nbd_handshake *handshake, const struct nbd_export *export)
{
	nbd_handshake_init(handshake, export);
	EXPECT_EQ(4, nbd_handshake_take(handshake, (const uint8_t *)"\0\0\0\3", 4));
	EXPECT_EQ(NBD_PHASE_OPTION, handshake->phase);
	EXPECT_EQ(0, handshake->answer_bytes);
}

/* Sends one option. Returns the type of the first reply. */
static uint32_t option_send(struct nbd_handshake *handshake, uint32_t option, const void *body,
			    uint32_t len_bytes)
{
	uint8_t bytes[16 + 512];
	size_t all = option_make(bytes, option, body, len_bytes);

	EXPECT_EQ(all, nbd_handshake_take(handshake, bytes, all));
	EXPECT(handshake->answer_bytes >= 20);
	EXPECT_EQ(0x0003e889045565a9, nbd_get_u64(handshake->answer));
	EXPECT_EQ(option, nbd_get_u32(handshake->answer + 8));
	return nbd_get_u32(handshake->answer + 12);
}

static void greets(void)
{
	struct nbd_handshake handshake;

	nbd_handshake_init(&handshake, &disk);
	EXPECT_EQ(NBD_GREETING_BYTES, handshake.answer_bytes);
	EXPECT(memcmp(handshake.answer, "NBDMAGICIHAVEOPT\0\3", NBD_GREETING_BYTES) == 0);
	EXPECT_EQ(0, nbd_handshake_take(&handshake, (const uint8_t *)"\0\0\0", 3));
	EXPECT_EQ(-EPROTO, nbd_handshake_take(&handshake, (const uint8_t *)"\0\0\0\4", 4));
	EXPECT_EQ(NBD_PHASE_ENDED, handshake.phase);
}

static void lists_its_export(void)
{
	struct nbd_handshake handshake;

	handshake_begin(&handshake, &disk);
	EXPECT_EQ(2, option_send(&handshake, 3, "", 0));
	EXPECT_EQ(20 + 8 + 20, handshake.answer_bytes);
	EXPECT(memcmp(handshake.answer + 20, "\0\0\0\4disk", 8) == 0);
	EXPECT_EQ(1, nbd_get_u32(handshake.answer + 28 + 12));
	EXPECT_EQ(0x80000003, option_send(&handshake, 3, "x", 1));
}

static void goes(void)
{
	struct nbd_handshake handshake;
	const uint8_t *at = handshake.answer;

	handshake_begin(&handshake, &disk);
	EXPECT_EQ(3, option_send(&handshake, 6, "\0\0\0\4disk\0\0", 10));
	EXPECT_EQ(NBD_PHASE_OPTION, handshake.phase);
	EXPECT_EQ(3, option_send(&handshake, 7, "\0\0\0\4disk\0\2\0\1\0\2", 14));
	EXPECT_EQ(NBD_PHASE_REQUEST, handshake.phase);
	/* NBD_INFO_EXPORT: size; all flags but rotational and those of structured replies. */
	EXPECT_EQ(0, nbd_get_u16(at + 20));
	EXPECT_EQ(64 * MIB, nbd_get_u64(at + 22));
	EXPECT_EQ(0x16d, nbd_get_u16(at + 30));
	/* NBD_INFO_BLOCK_SIZE */
	EXPECT_EQ(3, nbd_get_u16(at + 52));
	EXPECT_EQ(4096, nbd_get_u32(at + 54));
	EXPECT_EQ(4096, nbd_get_u32(at + 58));
	EXPECT_EQ(32 * MIB, nbd_get_u32(at + 62));
	/* NBD_INFO_NAME and NBD_INFO_DESCRIPTION, then NBD_REP_ACK. */
	EXPECT(memcmp(at + 86, "\0\1disk", 6) == 0);
	EXPECT(memcmp(at + 112, "\0\2a disk", 8) == 0);
	EXPECT_EQ(1, nbd_get_u32(at + 120 + 12));
	EXPECT_EQ(140, handshake.answer_bytes);
}

static void goes_read_only(void)
{
	struct nbd_handshake handshake;

	handshake_begin(&handshake, &read_only_disk);
	EXPECT_EQ(3, option_send(&handshake, 7, "\0\0\0\0\0\0", 6));
	EXPECT_EQ(0x10f, nbd_get_u16(handshake.answer + 30));
	/* The preferred size is a page, although blocks are smaller. */
	EXPECT_EQ(512, nbd_get_u32(handshake.answer + 54));
	EXPECT_EQ(4096, nbd_get_u32(handshake.answer + 58));
}

static void refuses_options(void)
{
	struct nbd_handshake handshake;

	handshake_begin(&handshake, &disk);
	EXPECT_EQ(0x80000001, option_send(&handshake, 5, "", 0));
	EXPECT_EQ(0x80000003, option_send(&handshake, 8, "x", 1));
	EXPECT_EQ(0x80000003, option_send(&handshake, 9, "\0\0\0\0\0\0\0\0", 8));
	EXPECT_EQ(0x80000001, option_send(&handshake, 0xffffffff, "abc", 3));
	EXPECT_EQ(0x80000006, option_send(&handshake, 7, "\0\0\0\3dis\0\0", 9));
	EXPECT_EQ(0x80000006, option_send(&handshake, 7, "\0\0\0\0\0\0", 6));
	EXPECT_EQ(0x80000003, option_send(&handshake, 7, "", 0));
	EXPECT_EQ(0x80000003, option_send(&handshake, 7, "\0\0\0\4disk\0", 9));
	EXPECT_EQ(0x80000003, option_send(&handshake, 7, "\0\0\0\4disk\0\1", 10));
	EXPECT_EQ(0x80000003, option_send(&handshake, 7, "\0\0\0\4disk\0\0x", 11));
	EXPECT_EQ(0x80000003, option_send(&handshake, 6, "\xff\xff\xff\xff\0\0", 6));
	EXPECT_EQ(NBD_PHASE_OPTION, handshake.phase);
	EXPECT_EQ(1, option_send(&handshake, 2, "", 0));
	EXPECT_EQ(NBD_PHASE_ENDED, handshake.phase);
}

static void takes_the_old_option(void)
{
	struct nbd_handshake handshake;
	uint8_t bytes[64];
	size_t all = option_make(bytes, 1, "disk", 4);

	nbd_handshake_init(&handshake, &disk);
	EXPECT_EQ(4, nbd_handshake_take(&handshake, (const uint8_t *)"\0\0\0\1", 4));
	EXPECT_EQ(all, nbd_handshake_take(&handshake, bytes, sizeof(bytes)));
	EXPECT_EQ(NBD_PHASE_REQUEST, handshake.phase);
	EXPECT_EQ(10 + 124, handshake.answer_bytes);
	EXPECT_EQ(64 * MIB, nbd_get_u64(handshake.answer));
	handshake_begin(&handshake, &disk);
	EXPECT_EQ(all, nbd_handshake_take(&handshake, bytes, sizeof(bytes)));
	EXPECT_EQ(10, handshake.answer_bytes);
	handshake_begin(&handshake, &disk);
	all = option_make(bytes, 1, "tape", 4);
	EXPECT_EQ(-EPROTO, nbd_handshake_take(&handshake, bytes, all));
}

static void skips_what_is_too_long(void)
{
	static uint8_t bytes[65536];
	struct nbd_handshake handshake;
	uint64_t left = 1000000;

	handshake_begin(&handshake, &disk);
	option_make(bytes, 9, "", 0);
	nbd_put_u32(bytes + 12, (uint32_t)left);
	EXPECT_EQ(16, nbd_handshake_take(&handshake, bytes, sizeof(bytes)));
	while (left > 0) {
		int used = nbd_handshake_take(&handshake, bytes, sizeof(bytes));

		EXPECT(used > 0 && (uint64_t)used <= left);
		if (used <= 0 || (uint64_t)used > left)
			return;
		left -= (uint64_t)used;
		EXPECT_EQ(left == 0 ? 20 : 0, handshake.answer_bytes);
	}
	EXPECT_EQ(0x80000009, nbd_get_u32(handshake.answer + 12));
	EXPECT_EQ(2, option_send(&handshake, 3, "", 0));
}

static void waits_for_all_of_it(void)
{
	struct nbd_handshake handshake;
	uint8_t bytes[64];
	size_t all = option_make(bytes, 7, "\0\0\0\4disk\0\0", 10);

	handshake_begin(&handshake, &disk);
	for (size_t part = 0; part < all; part++) {
		EXPECT_EQ(0, nbd_handshake_take(&handshake, bytes, part));
		EXPECT_EQ(0, handshake.answer_bytes);
	}
	EXPECT_EQ(all, nbd_handshake_take(&handshake, bytes, all));
	handshake_begin(&handshake, &disk);
	bytes[0] = 'X';
	EXPECT_EQ(-EPROTO, nbd_handshake_take(&handshake, bytes, all));
}

/* ---- requests ------------------------------------------------------------------------------- */

static void decodes_a_request(void)
{
	static const uint8_t bytes[] = "\x25\x60\x95\x13\0\1\0\6\1\2\3\4\5\6\7\x8"
				       "\0\0\0\1\0\0\x10\0\0\0\x20\0";
	struct nbd_request request;
	uint8_t wrong[NBD_REQUEST_BYTES];

	EXPECT_EQ(0, nbd_request_decode(bytes, &request));
	EXPECT_EQ(NBD_CMD_FLAG_FUA, request.flags);
	EXPECT_EQ(NBD_CMD_WRITE_ZEROES, request.command);
	EXPECT_EQ(0x0102030405060708, request.cookie);
	EXPECT_EQ(0x100001000, request.offset);
	EXPECT_EQ(0x2000, request.length);
	memcpy(wrong, bytes, sizeof(wrong));
	wrong[3]++;
	EXPECT_EQ(-EPROTO, nbd_request_decode(wrong, &request));
}

static void encodes_a_reply(void)
{
	uint8_t bytes[NBD_REPLY_BYTES];

	nbd_reply_encode(bytes, 0x0102030405060708, NBD_ENOSPC);
	EXPECT(memcmp(bytes, "\x67\x44\x66\x98\0\0\0\x1c\1\2\3\4\5\6\7\x8", sizeof(bytes)) == 0);
}

static void judges_requests(void)
{
	static const struct {
		enum nbd_error want;
		struct nbd_request request; /* flags, command, cookie, offset, length */
	} rows[] = {
		{NBD_OK, {0, NBD_CMD_READ, 1, 0, 1}},
		{NBD_OK, {NBD_CMD_FLAG_FUA, NBD_CMD_READ, 1, 64 * MIB - 1, 1}},
		{NBD_EINVAL, {0, NBD_CMD_READ, 1, 64 * MIB, 1}},
		{NBD_EINVAL, {0, NBD_CMD_READ, 1, UINT64_MAX, UINT32_MAX}},
		{NBD_EINVAL, {0, NBD_CMD_READ, 1, 0, 0}},
		{NBD_OK, {0, NBD_CMD_READ, 1, 0, 32 * MIB}},
		{NBD_EINVAL, {0, NBD_CMD_READ, 1, 0, 32 * MIB + 1}},
		{NBD_EINVAL, {NBD_CMD_FLAG_NO_HOLE, NBD_CMD_READ, 1, 0, 1}},
		{NBD_OK, {NBD_CMD_FLAG_FUA, NBD_CMD_WRITE, 1, 4096, 4096}},
		{NBD_EINVAL, {0, NBD_CMD_WRITE, 1, 4095, 4096}},
		{NBD_EINVAL, {0, NBD_CMD_WRITE, 1, 4096, 4095}},
		{NBD_ENOSPC, {0, NBD_CMD_WRITE, 1, 64 * MIB, 4096}},
		{NBD_EINVAL, {0, NBD_CMD_WRITE, 1, 0, 32 * MIB + 4096}},
		{NBD_OK, {3, NBD_CMD_WRITE_ZEROES, 1, 0, 64 * MIB}},
		{NBD_EINVAL, {4, NBD_CMD_WRITE_ZEROES, 1, 0, 4096}},
		{NBD_ENOSPC, {0, NBD_CMD_WRITE_ZEROES, 1, 4096, 64 * MIB}},
		{NBD_OK, {0, NBD_CMD_TRIM, 1, 0, 64 * MIB}},
		{NBD_EINVAL, {0, NBD_CMD_TRIM, 1, 4096, 64 * MIB}},
		{NBD_OK, {0, NBD_CMD_FLUSH, 1, 0, 0}},
		{NBD_OK, {0, NBD_CMD_DISC, 1, 0, 0}},
		{NBD_EINVAL, {0, 5, 1, 0, 4096}},
		{NBD_EINVAL, {0, 0xffff, 1, 0, 4096}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		EXPECT_EQ(rows[i].want, nbd_request_check(&rows[i].request, &disk, &plain));
}

static void refuses_writes_to_read_only(void)
{
	static const uint16_t commands[] = {NBD_CMD_WRITE, NBD_CMD_TRIM, NBD_CMD_WRITE_ZEROES};
	struct nbd_request request = {.length = 512};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		request.command = commands[i];
		EXPECT_EQ(NBD_EPERM, nbd_request_check(&request, &read_only_disk, &plain));
	}
	request.command = NBD_CMD_READ;
	EXPECT_EQ(NBD_OK, nbd_request_check(&request, &read_only_disk, &plain));
}

static void translates_errors(void)
{
	EXPECT_EQ(NBD_OK, nbd_error_from_errno(0));
	EXPECT_EQ(NBD_EPERM, nbd_error_from_errno(-EROFS));
	EXPECT_EQ(NBD_ENOSPC, nbd_error_from_errno(-ENOSPC));
	EXPECT_EQ(NBD_EINVAL, nbd_error_from_errno(-EINVAL));
	EXPECT_EQ(NBD_ENOTSUP, nbd_error_from_errno(-EOPNOTSUPP));
	EXPECT_EQ(NBD_EIO, nbd_error_from_errno(-ENODATA));
	EXPECT_EQ(NBD_EIO, nbd_error_from_errno(-ENOTCONN));
}

/* A list of runs of 4 KiB blocks, and the extents reported for a request. */
static void tells_holes_only_where_the_list_does(void)
{
	const struct lba_status_run runs[] = {{2, 1}, {3, 2}, {10, 5}};
	struct nbd_request asked = {.offset = 4096, .length = 16 * 4096};
	uint8_t list[LBA_STATUS_HEADER_BYTES + 3 * LBA_STATUS_DESCRIPTOR_BYTES];
	uint8_t told[7 * NBD_EXTENT_BYTES];
	struct lba_status_list head = {.count = 3, .end = LBA_STATUS_DONE};
	static const uint32_t want[] = {4096, 3,        3 * 4096, 0,        5 * 4096,
					3,    5 * 4096, 0,        2 * 4096, 3};

	for (uint32_t i = 0; i < 3; i++)
		lba_status_run_encode(list, i, &runs[i]);
	lba_status_list_encode(list, &head);
	EXPECT_EQ(5, nbd_status_fill(&asked, 4096, list, sizeof(list), told));
	for (unsigned i = 0; i < 10; i++)
		EXPECT_EQ(want[i], nbd_get_u32(told + 4 * i));
	/* A list that ends early covers only the blocks up to its end. */
	head.end = LBA_STATUS_FULL;
	lba_status_list_encode(list, &head);
	EXPECT_EQ(4, nbd_status_fill(&asked, 4096, list, sizeof(list), told));
	head.count = 0;
	lba_status_list_encode(list, &head);
	EXPECT_EQ(1, nbd_status_fill(&asked, 4096, list, sizeof(list), told));
	EXPECT_EQ(16 * 4096, nbd_get_u32(told));
	EXPECT_EQ(0, nbd_get_u32(told + 4));
	/* Without a list, and with one out of order, everything is data. */
	EXPECT_EQ(1, nbd_status_fill(&asked, 4096, NULL, 0, told));
	EXPECT_EQ(0, nbd_get_u32(told + 4));
	head = (struct lba_status_list){.count = 3, .end = LBA_STATUS_DONE};
	lba_status_list_encode(list, &head);
	lba_status_run_encode(list, 2, &(struct lba_status_run){1, 1});
	EXPECT_EQ(1, nbd_status_fill(&asked, 4096, list, sizeof(list), told));
	EXPECT_EQ(0, nbd_get_u32(told + 4));
	/* A count beyond the list is cut, and the blocks after the last run are unknown. */
	lba_status_run_encode(list, 2, &runs[2]);
	head.count = UINT32_MAX;
	lba_status_list_encode(list, &head);
	EXPECT_EQ(4, nbd_status_fill(&asked, 4096, list, sizeof(list), told));
	asked.flags = NBD_CMD_FLAG_REQ_ONE;
	EXPECT_EQ(1, nbd_status_fill(&asked, 4096, list, sizeof(list), told));
	EXPECT_EQ(4096, nbd_get_u32(told));
}

/* Figure "LBA Status Descriptor Entry": NLB is zero-based, STAS marks allocated blocks. */
static void descriptor_has_the_bits_of_the_specification(void)
{
	static const uint8_t one[] = {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0};
	static const uint8_t most[] = {0, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 2, 0, 0};
	uint8_t list[LBA_STATUS_HEADER_BYTES + 2 * LBA_STATUS_DESCRIPTOR_BYTES];

	lba_status_run_encode(list, 0, &(struct lba_status_run){2, 1});
	lba_status_run_encode(list, 1,
			      &(struct lba_status_run){UINT64_C(1) << 32, LBA_STATUS_RUN_MAX});
	EXPECT(memcmp(list + LBA_STATUS_HEADER_BYTES, one, sizeof(one)) == 0);
	EXPECT(memcmp(list + LBA_STATUS_HEADER_BYTES + sizeof(one), most, sizeof(most)) == 0);
	EXPECT_EQ(1, lba_status_run_decode(list, 0).block_count);
	EXPECT_EQ(LBA_STATUS_RUN_MAX, lba_status_run_decode(list, 1).block_count);
}

static void status_command_has_the_bits_of_the_specification(void)
{
	const struct lba_status_cmd cmd = {0x1122334455667788, 4096, 0xabcd, LBA_STATUS_ALLOCATED};
	struct lba_status_cmd got;
	struct nvme_sqe sqe;

	lba_status_cmd_encode(&sqe, 7, &cmd);
	EXPECT_EQ(0x86, sqe.opcode);
	EXPECT_EQ(1023, le32_get(sqe.cdw12));
	EXPECT_EQ(0x0200abcd, le32_get(sqe.cdw13));
	lba_status_cmd_decode(&sqe, &got);
	EXPECT_EQ(cmd.first_block, got.first_block);
	EXPECT_EQ(4096, got.len_bytes);
	EXPECT_EQ(0xabcd, got.block_count);
	EXPECT_EQ(2, got.action);
}

int main(void)
{
	TAP_RUN(greets);
	TAP_RUN(lists_its_export);
	TAP_RUN(goes);
	TAP_RUN(goes_read_only);
	TAP_RUN(refuses_options);
	TAP_RUN(takes_the_old_option);
	TAP_RUN(skips_what_is_too_long);
	TAP_RUN(waits_for_all_of_it);
	TAP_RUN(decodes_a_request);
	TAP_RUN(encodes_a_reply);
	TAP_RUN(judges_requests);
	TAP_RUN(refuses_writes_to_read_only);
	TAP_RUN(translates_errors);
	TAP_RUN(tells_holes_only_where_the_list_does);
	TAP_RUN(descriptor_has_the_bits_of_the_specification);
	TAP_RUN(status_command_has_the_bits_of_the_specification);
	return tap_end();
}
