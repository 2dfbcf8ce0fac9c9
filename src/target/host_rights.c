/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights of hosts: their names, which host has which, and the log line for a host that lacks one.
 * See host_rights.h. The rights of a controller's host are looked up when the configuration is
 * swapped (ctrl_config.c), so that a check costs one bit.
 *
 * Runs on the controller's reactor. The functions for names may be called from any thread.
 */
#include "target/host_rights.h"

#include "base/log.h"
#include "base/sorted.h"
#include "target/host_share.h"
#include "target/local.h"

#include <stdio.h>
#include <string.h>

#define RIGHTS_TEXT_BYTES 64 /* fits all names, joined */

static const struct {
	enum host_right right;
	const char *name;
} right_names[] = {
	{HOST_RIGHT_WRITE_PROTECT, "write-protect"},
	{HOST_RIGHT_FORMAT, "format"},
	{HOST_RIGHT_LABEL, "label"},
	{HOST_RIGHT_NAMESPACES, "namespaces"},
};

const char *host_right_name(uint32_t right)
{
	for (unsigned i = 0; i < ARRAY_LEN(right_names); i++)
		if (right_names[i].right == right)
			return right_names[i].name;
	return "unknown";
}

uint32_t host_right_parse(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(right_names); i++)
		if (strcmp(right_names[i].name, name) == 0)
			return right_names[i].right;
	return 0;
}

uint32_t subsystem_rights_of(const struct subsystem *subsystem, const char *host_nqn)
{
	const struct host_rights *rights = subsystem->host_rights;
	unsigned count = subsystem->host_rights_count;
	unsigned at = SORTED_PLACE(i, count, strcmp(rights[i].host_nqn, host_nqn) < 0);
	bool is_listed = at < count && strcmp(rights[at].host_nqn, host_nqn) == 0;

	return subsystem->rights_of_all | (is_listed ? rights[at].rights : 0);
}

bool ctrl_has_right(const struct ctrl *ctrl, uint32_t right)
{
	return ctrl->type == CTRL_TYPE_IO && ctrl->target->manage && (ctrl->rights & right) != 0;
}

/* Joins the names of `rights`, as in "format,label". An empty string when there are none. */
static const char *rights_join(uint32_t rights, char *text, size_t text_bytes)
{
	size_t used = 0;

	text[0] = 0;
	for (unsigned i = 0; i < ARRAY_LEN(right_names); i++)
		if (rights & right_names[i].right)
			used += (size_t)snprintf(text + used, text_bytes - used, "%s%s",
						 used == 0 ? "" : ",", right_names[i].name);
	return text;
}

bool ctrl_may(const struct ctrl *ctrl, uint32_t right)
{
	char wanted[RIGHTS_TEXT_BYTES];

	if (ctrl_has_right(ctrl, right))
		return true;
	if (ctrl->type == CTRL_TYPE_IO && ctrl->target->manage)
		log_of_peer(&ctrl->share_of_addr->lines, LOG_LEVEL_WARN, "target",
			    "controller %u: host %s has no right to \"%s\" in %s: refused; "
			    "`weft ctl host rights %s %s %s` gives the right",
			    ctrl->cntlid, ctrl->host_nqn, host_right_name(right),
			    ctrl->subsystem_nqn, ctrl->subsystem_nqn, ctrl->host_nqn,
			    rights_join(ctrl->rights | right, wanted, sizeof(wanted)));
	return false;
}
