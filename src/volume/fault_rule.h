/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rule of a fault medium as text and as numbers; what the rules mean is told in fault.c.
 * Pure: no counters, no I/O. Control thread.
 */
#ifndef WEFT_VOLUME_FAULT_RULE_H
#define WEFT_VOLUME_FAULT_RULE_H

#include "media/media.h"

#include <stdint.h>

enum fault_action {
	FAULT_FAIL,
	FAULT_DELAY,
	FAULT_STUCK,
	FAULT_TEAR,
	FAULT_SPLIT,
	FAULT_CORRUPT,
	FAULT_LOSE,
};

/* A rule as written. The counters of a running one are in fault.c. */
struct fault_rule_text {
	enum fault_action action;
	uint32_t kinds;        /* bit 1 << enum media_kind */
	bool only_fua;         /* op=fua: writes that must be stable at once */
	uint64_t after;        /* matching operations that pass first */
	uint64_t count;        /* how often it acts; UINT64_MAX: always */
	uint64_t every;        /* 1: each */
	uint32_t prob_percent; /* 100: surely */
	uint64_t seed;
	int error; /* -errno */
	uint32_t delay_ms;
};

/* `text` is one rule, "KIND[:OPTION=VALUE…]", and is cut into pieces. 0 or -EINVAL. */
int fault_rule_parse(char *text, struct fault_rule_text *ret_rule, struct media_error *ret_error);

#endif
