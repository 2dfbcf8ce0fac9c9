/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be done with a command whose path was lost before its answer came: the rules of
 * idempotence, one row for each command. Pure.
 */
#ifndef WEFT_HOST_RESEND_H
#define WEFT_HOST_RESEND_H

#include "wire/nvme.h"

#include <stdbool.h>

enum resend_rule {
	/* Changes nothing: sent again at once. A late first copy does no harm. */
	RESEND_AT_ONCE,
	/* Has the same effect when it runs twice in a row, but must not run again after a newer
	 * command. Sent again when the first copy cannot run any more. */
	RESEND_FENCED,
	/* A second run may have another outcome than the first (fused pairs, reservations, a Copy
	 * onto its own source). The caller is told that the outcome is unknown, but only when the
	 * first copy cannot run any more. */
	RESEND_NEVER,
};

/* The rule for a command of an I/O queue, judged by its submission entry alone: Copy is
 * RESEND_NEVER here. */
enum resend_rule resend_rule_of(const struct nvme_sqe *sqe);
/* The rule for a command of the admin queue, whose opcodes have other meanings. */
enum resend_rule resend_rule_of_admin(const struct nvme_sqe *sqe);
/* The rule for a Copy whose ranges the caller has, encoded as the controller gets them:
 * RESEND_FENCED if the Copy writes no block that it reads. ranges_bytes: RESEND_NEVER if less than
 * the entry asks for. */
enum resend_rule resend_rule_of_copy(const struct nvme_sqe *sqe, const uint8_t *ranges,
				     size_t ranges_bytes);
const char *resend_rule_name(enum resend_rule rule);
/* The reason for the rule, in one line, for reports and documentation. Never NULL. */
const char *resend_reason_of(const struct nvme_sqe *sqe);

#endif
