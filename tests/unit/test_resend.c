/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for sending commands again: every opcode of both queues has a rule, and only commands
 * known to be harmless are sent twice.
 */
#include "host/resend.h"
#include "tap.h"
#include "wire/copy.h"
#include "wire/log_page.h"
#include "wire/reservation.h"

static enum resend_rule io_rule(uint8_t opcode)
{
	struct nvme_sqe sqe = {.opcode = opcode};

	return resend_rule_of(&sqe);
}

static enum resend_rule admin_rule(uint8_t opcode)
{
	struct nvme_sqe sqe = {.opcode = opcode};

	return resend_rule_of_admin(&sqe);
}

static void io_commands_have_their_rule(void)
{
	static const uint8_t at_once[] = {NVME_IO_READ, NVME_IO_COMPARE, NVME_IO_VERIFY,
					  NVME_IO_FLUSH, NVME_IO_RESERVATION_REPORT};
	static const uint8_t fenced[] = {NVME_IO_WRITE, NVME_IO_WRITE_ZEROES,
					 NVME_IO_DATASET_MANAGEMENT, NVME_IO_WRITE_UNCORRECTABLE};
	unsigned counts[3] = {0};

	for (size_t i = 0; i < sizeof(at_once); i++)
		EXPECT_EQ(RESEND_AT_ONCE, io_rule(at_once[i]));
	for (size_t i = 0; i < sizeof(fenced); i++)
		EXPECT_EQ(RESEND_FENCED, io_rule(fenced[i]));
	/* All other opcodes, known or unknown, are never sent twice. */
	for (unsigned opcode = 0; opcode < 256; opcode++)
		counts[io_rule((uint8_t)opcode)]++;
	EXPECT_EQ(sizeof(at_once), counts[RESEND_AT_ONCE]);
	EXPECT_EQ(sizeof(fenced), counts[RESEND_FENCED]);
}

static void admin_commands_have_their_rule(void)
{
	static const uint8_t at_once[] = {NVME_ADMIN_IDENTIFY, NVME_ADMIN_GET_LOG_PAGE,
					  NVME_ADMIN_GET_FEATURES, NVME_ADMIN_CTRL_RESET,
					  NVME_ADMIN_GET_LBA_STATUS};
	unsigned counts[3] = {0};

	for (size_t i = 0; i < sizeof(at_once); i++)
		EXPECT_EQ(RESEND_AT_ONCE, admin_rule(at_once[i]));
	for (unsigned opcode = 0; opcode < 256; opcode++)
		counts[admin_rule((uint8_t)opcode)]++;
	EXPECT_EQ(sizeof(at_once), counts[RESEND_AT_ONCE]);
	EXPECT_EQ(0, counts[RESEND_FENCED]);
}

static void fused_commands_are_never_sent_twice(void)
{
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		for (uint8_t fuse = 1; fuse <= NVME_SQE_FUSE_MASK; fuse++) {
			struct nvme_sqe sqe = {.opcode = (uint8_t)opcode,
					       .flags = fuse | NVME_SQE_PSDT_SGL};

			EXPECT_EQ(RESEND_NEVER, resend_rule_of(&sqe));
			EXPECT_EQ(RESEND_NEVER, resend_rule_of_admin(&sqe));
		}
	}
}

static void logs_that_are_emptied_are_read_once(void)
{
	static const struct {
		uint32_t cdw10;
		enum resend_rule rule;
	} cases[] = {
		{LOG_ANA, RESEND_AT_ONCE},
		{LOG_SMART, RESEND_AT_ONCE},
		{LOG_CTRL_RESET, RESEND_AT_ONCE},
		{LOG_CTRL_RESET | 1 << 8, RESEND_NEVER},
		{LOG_PERSISTENT_EVENT, RESEND_AT_ONCE},
		{LOG_PERSISTENT_EVENT | 2 << 8, RESEND_NEVER},
		{LOG_RESERVATION, RESEND_NEVER},
		/* RAE and the number of dwords are not part of LSP. */
		{LOG_CTRL_RESET | 0xffff8000u, RESEND_AT_ONCE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvme_sqe sqe = {.opcode = NVME_ADMIN_GET_LOG_PAGE,
				       .cdw10 = le32_of(cases[i].cdw10)};

		EXPECT_EQ(cases[i].rule, resend_rule_of_admin(&sqe));
	}
}

/* The rule for a Copy within namespace 1 of up to two ranges to block `to`. */
static enum resend_rule copy_rule(uint64_t to, uint8_t format, const struct copy_range *ranges,
				  uint32_t range_count)
{
	uint8_t bytes[2 * NVME_COPY_RANGE_BYTES] = {0};
	struct copy_cmd cmd = {.first_block = to, .range_count = range_count, .format = format};
	struct nvme_sqe sqe = {0};

	for (uint32_t i = 0; i < range_count; i++)
		copy_range_encode(bytes, i, format, &ranges[i]);
	copy_cmd_encode(&sqe, 1, &cmd);
	EXPECT_EQ(RESEND_NEVER, resend_rule_of(&sqe));
	EXPECT_EQ(RESEND_NEVER, resend_rule_of_copy(&sqe, bytes, range_count * 32 - 1));
	return resend_rule_of_copy(&sqe, bytes, (size_t)range_count * NVME_COPY_RANGE_BYTES);
}

static void copy_onto_its_source_is_never_sent_twice(void)
{
	struct copy_range range = {.first_block = 100, .block_count = 10};
	struct copy_range two[2] = {{.first_block = 100, .block_count = 10},
				    {.first_block = 200, .block_count = 5}};

	EXPECT_EQ(RESEND_FENCED, copy_rule(110, COPY_FORMAT_ONE_NS, &range, 1));
	EXPECT_EQ(RESEND_NEVER, copy_rule(109, COPY_FORMAT_ONE_NS, &range, 1));
	EXPECT_EQ(RESEND_NEVER, copy_rule(100, COPY_FORMAT_ONE_NS, &range, 1));
	EXPECT_EQ(RESEND_NEVER, copy_rule(91, COPY_FORMAT_ONE_NS, &range, 1));
	EXPECT_EQ(RESEND_FENCED, copy_rule(90, COPY_FORMAT_ONE_NS, &range, 1));
	/* The second range is written behind the first. */
	EXPECT_EQ(RESEND_NEVER, copy_rule(186, COPY_FORMAT_ONE_NS, two, 2));
	EXPECT_EQ(RESEND_FENCED, copy_rule(185, COPY_FORMAT_ONE_NS, two, 2));
	EXPECT_EQ(RESEND_NEVER, copy_rule(86, COPY_FORMAT_ONE_NS, two, 2));
	EXPECT_EQ(RESEND_FENCED, copy_rule(85, COPY_FORMAT_ONE_NS, two, 2));
	/* Ends of ranges do not wrap. */
	EXPECT_EQ(RESEND_FENCED, copy_rule(UINT64_MAX - 1, COPY_FORMAT_ONE_NS, &range, 1));
	range.first_block = UINT64_MAX - 1;
	EXPECT_EQ(RESEND_NEVER, copy_rule(UINT64_MAX, COPY_FORMAT_ONE_NS, &range, 1));
	EXPECT_EQ(RESEND_FENCED, copy_rule(0, COPY_FORMAT_ONE_NS, &range, 1));
}

static void copy_between_namespaces_may_be_sent_twice(void)
{
	struct copy_range range = {.nsid = 2, .first_block = 100, .block_count = 10};

	EXPECT_EQ(RESEND_FENCED, copy_rule(100, COPY_FORMAT_ANY_NS, &range, 1));
	range.nsid = 1;
	EXPECT_EQ(RESEND_NEVER, copy_rule(100, COPY_FORMAT_ANY_NS, &range, 1));
	/* A format that the rule cannot read. */
	EXPECT_EQ(RESEND_NEVER, copy_rule(500, 1, &range, 1));
}

static void only_a_copy_is_judged_as_one(void)
{
	struct nvme_sqe sqe = {.opcode = NVME_IO_WRITE};
	uint8_t bytes[NVME_COPY_RANGE_BYTES] = {0};

	EXPECT_EQ(RESEND_NEVER, resend_rule_of_copy(&sqe, bytes, sizeof(bytes)));
	sqe.opcode = NVME_IO_COPY;
	sqe.flags = 1;
	EXPECT_EQ(RESEND_NEVER, resend_rule_of_copy(&sqe, bytes, sizeof(bytes)));
}

static void everything_has_a_name_and_a_reason(void)
{
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		struct nvme_sqe sqe = {.opcode = (uint8_t)opcode};

		EXPECT(resend_reason_of(&sqe)[0] != 0);
	}
	EXPECT_STR("at once", resend_rule_name(RESEND_AT_ONCE));
	EXPECT_STR("fenced", resend_rule_name(RESEND_FENCED));
	EXPECT_STR("never", resend_rule_name(RESEND_NEVER));
	EXPECT_STR("unknown", resend_rule_name((enum resend_rule)9));
}

int main(void)
{
	TAP_RUN(io_commands_have_their_rule);
	TAP_RUN(admin_commands_have_their_rule);
	TAP_RUN(fused_commands_are_never_sent_twice);
	TAP_RUN(logs_that_are_emptied_are_read_once);
	TAP_RUN(copy_onto_its_source_is_never_sent_twice);
	TAP_RUN(copy_between_namespaces_may_be_sent_twice);
	TAP_RUN(only_a_copy_is_judged_as_one);
	TAP_RUN(everything_has_a_name_and_a_reason);
	return tap_end();
}
