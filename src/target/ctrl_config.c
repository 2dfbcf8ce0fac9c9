/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller's place in the configuration: its port, its subsystem, and the right of its host to
 * connect. Found when the controller is created, and carried over by each swap. A controller that
 * loses its place ends. Runs on the controller's reactor. NVMe Base 2.1, section 3.1.
 */
#include "target/delta.h"
#include "target/local.h"

const struct ns *ctrl_find_ns(const struct ctrl *ctrl, uint32_t nsid)
{
	const struct ns *ns = ctrl->subsystem ? subsystem_find_ns(ctrl->subsystem, nsid) : NULL;

	return ns && ns_mask_has(ns->mask, ctrl->host_index) ? ns : NULL;
}

uint64_t ctrl_ana_change_count(const struct ctrl *ctrl)
{
	return ctrl->subsystem->ana_change_count + ctrl->port->ana_change_count -
	       ctrl->ana_count_base;
}

/* Ends a controller that has lost its place in the configuration. */
static void ctrl_judge(struct ctrl *ctrl, bool have_hosts_changed)
{
	if (!ctrl->port)
		ctrl_end(ctrl, "its port was removed");
	else if (ctrl->type != CTRL_TYPE_IO)
		return;
	else if (!ctrl->subsystem)
		ctrl_end(ctrl, "its subsystem was removed");
	else if (!port_offers(ctrl->port, ctrl->subsystem))
		ctrl_end(ctrl, "its port no longer offers the subsystem");
	else if (have_hosts_changed && !subsystem_allows_host(ctrl->subsystem, ctrl->host_nqn))
		ctrl_end(ctrl, "the host is no longer allowed");
}

void ctrl_bind(struct ctrl *ctrl, const struct snapshot *snapshot)
{
	ctrl->born_generation = snapshot->generation;
	ctrl->port = snapshot_find_port(snapshot, ctrl->port_id);
	if (ctrl->type == CTRL_TYPE_IO)
		ctrl->subsystem = snapshot_find_subsystem(snapshot, ctrl->subsystem_nqn);
	ctrl->host_index = snapshot_host_index(snapshot, ctrl->host_nqn);
	ctrl->rights = ctrl->subsystem ? subsystem_rights_of(ctrl->subsystem, ctrl->host_nqn) : 0;
	if (ctrl->subsystem && ctrl->port)
		ctrl->ana_count_base =
			ctrl->subsystem->ana_change_count + ctrl->port->ana_change_count;
	ctrl_judge(ctrl, true);
}

void ctrl_swap(struct ctrl *ctrl, const struct delta *delta)
{
	CHECK_OWNER(ctrl);
	ctrl->subsystem_delta = ctrl->subsystem ? &delta->subsystems[ctrl->subsystem->index] : NULL;
	ctrl->subsystem = ctrl->subsystem_delta ? ctrl->subsystem_delta->is : NULL;
	ctrl->port_delta = ctrl->port ? &delta->ports[ctrl->port - delta->old->ports] : NULL;
	ctrl->port = ctrl->port_delta ? ctrl->port_delta->is : NULL;
	ctrl->host_index_before = ctrl->host_index;
	ctrl->host_index = delta_host_index(delta, ctrl->host_index, ctrl->host_nqn);
	ctrl->rights = ctrl->subsystem ? subsystem_rights_of(ctrl->subsystem, ctrl->host_nqn) : 0;
}

void ctrl_tell(struct ctrl *ctrl, const struct delta *delta)
{
	CHECK_OWNER(ctrl);
	if (ctrl->state != CTRL_LIVE)
		return;
	ctrl_judge(ctrl, ctrl->subsystem_delta && ctrl->subsystem_delta->has_hosts);
	if (ctrl->state != CTRL_LIVE)
		return;
	ctrl_idle_limit_changed(ctrl);
	ctrl_events_of_swap(ctrl, delta);
}
