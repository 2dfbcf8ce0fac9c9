/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights of hosts (enum host_right of target.h) as commands see them. Runs on the controller's
 * reactor.
 *
 * Identify and the effects logs hide a command or feature from a host that lacks its right. Such a
 * command is refused with the status of something the controller does not have: Invalid Command
 * Opcode for a command, Invalid Field or Feature Identifier Not Changeable for a feature.
 */
#ifndef WEFT_TARGET_HOST_RIGHTS_H
#define WEFT_TARGET_HOST_RIGHTS_H

#include "target/ctrl.h"

/* False too for discovery controllers, and when target_config.manage is NULL. */
bool ctrl_has_right(const struct ctrl *ctrl, uint32_t right);
/* As ctrl_has_right, for a command that arrived. Logs a refusal, with the `weft ctl` command that
 * gives the right. */
bool ctrl_may(const struct ctrl *ctrl, uint32_t right);
/* "write-protect", "format", "label", "namespaces": the name of one right. */
const char *host_right_name(uint32_t right);
/* The right with this name, or 0 when the name is unknown. */
uint32_t host_right_parse(const char *name);

#endif
