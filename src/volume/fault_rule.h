/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rule of a fault medium, as a string and parsed. fault.c explains the rules. Pure: no
 * counters, no I/O. Control thread.
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
	FAULT_LATE, /* acts on the opening, and on no operation */
};

#define FAULT_KIND_OPEN (1u << 31) /* beside the bits of enum media_kind: the opening */

/* A parsed rule. The counters of a rule in use are in fault.c. */
struct fault_rule_text {
	enum fault_action action;
	uint32_t kinds;        /* bit 1 << enum media_kind, or FAULT_KIND_OPEN */
	bool only_fua;         /* op=fua: only writes and zeroes that must be durable at once */
	uint64_t after;        /* this number of matching operations passes first */
	uint64_t count;        /* how often the rule acts; UINT64_MAX: no limit */
	uint64_t every;        /* acts on each Nth; 1: on all */
	uint32_t prob_percent; /* 100: always */
	uint64_t seed;
	int error; /* -errno; 0 (late): none */
	uint32_t delay_ms;
};

/* Parses one rule, "KIND[:OPTION=VALUE...]", and modifies `text`. 0 or -EINVAL. */
int fault_rule_parse(char *text, struct fault_rule_text *ret_rule, struct media_error *ret_error);

#endif
