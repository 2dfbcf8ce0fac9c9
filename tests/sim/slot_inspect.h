/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulator wants to know of a slot of the target, and nothing in src/ does. Read between
 * two events of the one simulated thread.
 */
#ifndef WEFT_TESTS_SIM_SLOT_INSPECT_H
#define WEFT_TESTS_SIM_SLOT_INSPECT_H

#include "target/slot.h"

/* True while an executing command waits for its range, for the gate, for a later turn or for its
 * medium.
 */
static inline bool slot_is_under_way(const struct slot *slot)
{
	return slot->state == SLOT_EXECUTING &&
	       (slot->wait == SLOT_WAIT_HOLD || slot->wait == SLOT_WAIT_BUDGET ||
		slot->wait == SLOT_WAIT_MEDIUM);
}

#endif
