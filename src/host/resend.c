/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of idempotence: one table for the commands of I/O queues, one for the admin queue, with
 * the reason in each row. A command that is missing from the tables is never sent twice: an unknown
 * command is not assumed to be harmless.
 *
 * Any thread; pure. NVMe Base 2.1, section 9.6 (communication loss): a host must not retry a
 * command that is not idempotent, and must not send a command that changes data again before the
 * first copy cannot run any more.
 *
 * RESEND_AT_ONCE relies on commands in flight having no order: a block that a second host writes
 * meanwhile may or may not be seen, as if the command had been slower.
 */
#include "host/resend.h"

#include "base/check.h"
#include "wire/copy.h"
#include "wire/log_page.h"
#include "wire/reservation.h"

struct resend_row {
	uint8_t opcode;
	enum resend_rule rule;
	const char *reason;
};

static const struct resend_row resend_io_rows[] = {
	/*
	 * Flush changes no block. The second copy runs later, so it covers everything that the
	 * first copy had to cover and more. A late first copy only makes data durable earlier. By
	 * the specification's wording Flush covers what "the controller" has completed before.
	 * Controllers of one subsystem that reach the same namespace share its write cache, which
	 * Linux multipath relies on too. A subsystem with a separate volatile cache for each
	 * controller loses data on every failover, and a host cannot prevent that. A cache that was
	 * lost with the target's power is detected: host/loss.h.
	 */
	{NVME_IO_FLUSH, RESEND_AT_ONCE, "changes no block; a later flush covers more, not less"},
	{NVME_IO_WRITE, RESEND_FENCED, "a late copy would overwrite newer data"},
	{NVME_IO_READ, RESEND_AT_ONCE, "changes nothing"},
	{NVME_IO_WRITE_UNCORRECTABLE, RESEND_FENCED, "a late copy would mark newer data as bad"},
	{NVME_IO_COMPARE, RESEND_AT_ONCE, "changes nothing; by itself it is a read"},
	{NVME_IO_WRITE_ZEROES, RESEND_FENCED, "a late copy would overwrite newer data"},
	{NVME_IO_DATASET_MANAGEMENT, RESEND_FENCED, "a late copy would deallocate newer data"},
	{NVME_IO_VERIFY, RESEND_AT_ONCE, "changes nothing"},
	{NVME_IO_RESERVATION_REGISTER, RESEND_NEVER,
	 "the second run finds the key that the first has changed"},
	{NVME_IO_RESERVATION_REPORT, RESEND_AT_ONCE, "changes nothing"},
	{NVME_IO_RESERVATION_ACQUIRE, RESEND_NEVER,
	 "another host may have taken it over in between; a preempt would hit that host"},
	{NVME_IO_RESERVATION_RELEASE, RESEND_NEVER,
	 "the second run may release what was acquired again in between"},
	{NVME_IO_CANCEL, RESEND_NEVER, "names commands of the lost queue"},
	{NVME_IO_COPY, RESEND_NEVER, "may write a block that it reads: the second run differs"},
};

static const struct resend_row resend_admin_rows[] = {
	{NVME_ADMIN_GET_LOG_PAGE, RESEND_AT_ONCE, "changes nothing"},
	{NVME_ADMIN_IDENTIFY, RESEND_AT_ONCE, "changes nothing"},
	{NVME_ADMIN_ABORT, RESEND_NEVER, "names a command of the lost controller"},
	{NVME_ADMIN_SET_FEATURES, RESEND_NEVER,
	 "most features belong to one controller; the caller sets them on the new one"},
	{NVME_ADMIN_GET_FEATURES, RESEND_AT_ONCE, "changes nothing"},
	{NVME_ADMIN_ASYNC_EVENT, RESEND_NEVER, "waits for an event of the lost controller"},
	{NVME_ADMIN_NS_MANAGEMENT, RESEND_NEVER, "the second run creates a second namespace"},
	{NVME_ADMIN_NS_ATTACHMENT, RESEND_NEVER, "the second run fails where the first succeeded"},
	{NVME_ADMIN_KEEP_ALIVE, RESEND_NEVER, "keeps the lost controller alive and no other"},
	{NVME_ADMIN_CTRL_RESET, RESEND_AT_ONCE,
	 "names one life of a controller: the second run finds it ended, which is success"},
	{NVME_OPCODE_FABRICS, RESEND_NEVER, "belongs to its connection"},
	{NVME_ADMIN_FORMAT_NVM, RESEND_NEVER, "a late copy would erase newer data"},
	{NVME_ADMIN_GET_LBA_STATUS, RESEND_AT_ONCE, "changes nothing"},
};

static const struct resend_row resend_unknown = {
	.rule = RESEND_NEVER,
	.reason = "unknown command: a second run may do harm",
};
static const struct resend_row resend_fused = {
	.rule = RESEND_NEVER,
	.reason = "the second run compares with what the first has written",
};
static const struct resend_row resend_consumed = {
	.rule = RESEND_NEVER,
	.reason = "reading takes entries out of the log: the first answer may hold them",
};

static const struct resend_row *resend_row_find(const struct resend_row *rows, size_t row_count,
						uint8_t opcode)
{
	for (size_t i = 0; i < row_count; i++)
		if (rows[i].opcode == opcode)
			return &rows[i];
	return &resend_unknown;
}

static const struct resend_row *resend_io_row(const struct nvme_sqe *sqe)
{
	if (sqe->flags & NVME_SQE_FUSE_MASK)
		return &resend_fused;
	return resend_row_find(resend_io_rows, ARRAY_LEN(resend_io_rows), sqe->opcode);
}

/* Logs that are emptied by reading: Base 2.1, section 5.1.12 (reservation notifications, the
 * context of persistent events), and the log of resets with its bit "remove completed". */
static bool resend_log_is_consumed(const struct nvme_sqe *sqe)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);
	uint8_t lsp = cdw10 >> 8 & 0x7f;

	switch (cdw10 & 0xff) {
	case LOG_RESERVATION:
		return true;
	case LOG_PERSISTENT_EVENT:
	case LOG_CTRL_RESET:
		return lsp != 0;
	default:
		return false;
	}
}

enum resend_rule resend_rule_of(const struct nvme_sqe *sqe)
{
	return resend_io_row(sqe)->rule;
}

enum resend_rule resend_rule_of_admin(const struct nvme_sqe *sqe)
{
	if (sqe->flags & NVME_SQE_FUSE_MASK)
		return resend_fused.rule;
	if (sqe->opcode == NVME_ADMIN_GET_LOG_PAGE && resend_log_is_consumed(sqe))
		return resend_consumed.rule;
	return resend_row_find(resend_admin_rows, ARRAY_LEN(resend_admin_rows), sqe->opcode)->rule;
}

enum resend_rule resend_rule_of_copy(const struct nvme_sqe *sqe, const uint8_t *ranges,
				     size_t ranges_bytes)
{
	uint32_t nsid = le32_get(sqe->nsid);
	struct copy_cmd cmd;
	uint64_t block_count = 0;

	copy_cmd_decode(sqe, &cmd);
	if (sqe->opcode != NVME_IO_COPY || (sqe->flags & NVME_SQE_FUSE_MASK) ||
	    (cmd.format != COPY_FORMAT_ONE_NS && cmd.format != COPY_FORMAT_ANY_NS) ||
	    ranges_bytes < (size_t)cmd.range_count * NVME_COPY_RANGE_BYTES)
		return RESEND_NEVER;
	for (uint32_t i = 0; i < cmd.range_count; i++)
		block_count += copy_range_decode(ranges, i, cmd.format).block_count;
	for (uint32_t i = 0; i < cmd.range_count; i++) {
		struct copy_range range = copy_range_decode(ranges, i, cmd.format);

		if (cmd.format == COPY_FORMAT_ANY_NS && range.nsid != nsid)
			continue;
		/* Compare differences, not sums, which could wrap around. */
		if (range.first_block >= cmd.first_block
			    ? range.first_block - cmd.first_block < block_count
			    : cmd.first_block - range.first_block < range.block_count)
			return RESEND_NEVER;
	}
	return RESEND_FENCED;
}

const char *resend_rule_name(enum resend_rule rule)
{
	switch (rule) {
	case RESEND_AT_ONCE:
		return "at once";
	case RESEND_FENCED:
		return "fenced";
	case RESEND_NEVER:
		return "never";
	}
	return "unknown";
}

const char *resend_reason_of(const struct nvme_sqe *sqe)
{
	return resend_io_row(sqe)->reason;
}
