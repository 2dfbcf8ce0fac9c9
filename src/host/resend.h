/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be done with a command whose path was lost before its answer came: the rules of
 * idempotence, one row for each command. Pure.
 */
#ifndef WEFT_HOST_RESEND_H
#define WEFT_HOST_RESEND_H

#include "wire/nvme.h"

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

enum resend_rule resend_rule_of(const struct nvme_sqe *sqe);
const char *resend_rule_name(enum resend_rule rule);

#endif
