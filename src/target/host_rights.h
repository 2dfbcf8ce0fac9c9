/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights of hosts (enum host_right of target.h) as commands see them. A host that lacks a right is
 * not told of the command or feature behind it (Identify, effects logs), and is refused with the
 * status of what the controller does not have: Invalid Command Opcode for a command, Invalid Field
 * or Feature Identifier Not Changeable for a feature. Controller's reactor.
 */
#ifndef WEFT_TARGET_HOST_RIGHTS_H
#define WEFT_TARGET_HOST_RIGHTS_H

#include "target/ctrl.h"

/* False too for discovery controllers, and where nothing carries changes to control. */
bool ctrl_has_right(const struct ctrl *ctrl, uint32_t right);
/* The same for a command that arrived: a refusal is logged, with the command that gives the right.
 */
bool ctrl_may(const struct ctrl *ctrl, uint32_t right);
/* "write-protect", "format", "label", "namespaces": the name of one right. */
const char *host_right_name(uint32_t right);
/* The right of that name, or 0. */
uint32_t host_right_parse(const char *name);

#endif
