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
	/* Changes nothing: sent again at once; the late copy does no harm. */
	RESEND_AT_ONCE,
	/* Has the same effect when it runs twice in a row, but must not run again behind something
	 * newer: sent again when the first copy cannot run any more. */
	RESEND_FENCED,
	/* A second run may have another outcome than the first (fused pairs, reservations, a Copy
	 * onto its own source): the caller is told that the outcome is not known, and not before
	 * the first copy cannot run any more. */
	RESEND_NEVER,
};

/* A command of an I/O queue, as far as its entry tells: Copy is RESEND_NEVER here. */
enum resend_rule resend_rule_of(const struct nvme_sqe *sqe);
/* A command of the admin queue: its opcodes mean other things. */
enum resend_rule resend_rule_of_admin(const struct nvme_sqe *sqe);
/* A Copy whose ranges the caller has too, as they go to the controller: RESEND_FENCED when no block
 * that it writes is one that it reads. ranges: of the number of bytes that the entry asks for. */
enum resend_rule resend_rule_of_copy(const struct nvme_sqe *sqe, const uint8_t *ranges,
				     size_t ranges_bytes);
const char *resend_rule_name(enum resend_rule rule);
/* Why, in one line, for reports and documentation; never NULL. */
const char *resend_reason_of(const struct nvme_sqe *sqe);

#endif
