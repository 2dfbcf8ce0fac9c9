/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of the fault medium, and the rules in its spec (media_spec.own). Control thread. */
#ifndef WEFT_VOLUME_FAULT_H
#define WEFT_VOLUME_FAULT_H

#include "media/driver.h"
#include "volume/fault_rule.h"

#define FAULT_RULES_MAX 16

struct fault_rules {
	unsigned count;
	struct fault_rule_text rules[FAULT_RULES_MAX];
};

extern const struct media_driver fault_driver;

#endif
