/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Format NVM: another block size, erased data, or both. NVMe Base 2.1, section 5.1.10.
 *
 * The controller's reactor judges the command for one namespace or, with NSID FFFFFFFFh, for all
 * namespaces that the host sees (FNA 0: a format is of the namespaces that the command names). One
 * refusal refuses the whole command. Control does the rest (target/manage.h): it marks the
 * namespaces, so that I/O gets Format in Progress, waits until running commands have ended, changes
 * the medium, and removes the mark. The command leaves its snapshot while it waits, so that the
 * change does not wait for the command.
 */
#include "ns/reservation.h"
#include "target/command.h"
#include "target/local.h"
#include "target/manage.h"
#include "target/reservation_command.h"
#include "wire/lba_format.h"
#include "wire/ns_manage.h"

#include <errno.h>
#include <stdlib.h>

struct format_task {
	struct manage_request request;
	struct slot *slot;
};

static void format_done(struct manage_request *request)
{
	struct format_task *task = container_of(request, struct format_task, request);
	nvme_status status = request->status;
	struct slot *slot = task->slot;

	free(request->uuids);
	free(task);
	slot_complete(slot, status);
}

static nvme_status format_judge(const struct ctrl *ctrl, const struct ns *ns)
{
	nvme_status status = ctrl_check_identity(ctrl, ctrl->subsystem, ns);

	if (nvme_status_is_ok(status))
		status = port_ana_status(ctrl->port, ns->ana_group);
	if (!nvme_status_is_ok(status))
		return status;
	if (ns->is_formatting)
		return NVME_SC_FORMAT_IN_PROGRESS;
	if (ns->is_read_only)
		return nvme_status_dnr(NVME_SC_NS_WRITE_PROTECTED);
	return reservation_check_admin(ctrl, ns, NVME_ADMIN_FORMAT_NVM);
}

/* Judges all namespaces that the host sees. *ret_count: their number. */
static nvme_status format_judge_all(const struct ctrl *ctrl, unsigned *ret_count)
{
	const struct subsystem *subsystem = ctrl->subsystem;

	*ret_count = 0;
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];
		nvme_status status;

		if (!ns_mask_has(ns->mask, ctrl->host_index))
			continue;
		++*ret_count;
		status = format_judge(ctrl, ns);
		if (!nvme_status_is_ok(status))
			return status;
	}
	return NVME_SC_SUCCESS;
}

static nvme_status format_judge_command(struct slot *slot, uint32_t nsid, unsigned *ret_count)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct ns *ns;

	*ret_count = 1;
	if (!ctrl->subsystem || !ctrl->port)
		return NVME_SC_INTERNAL;
	if (nsid == NVME_NSID_ALL)
		return format_judge_all(ctrl, ret_count);
	ns = ctrl_find_ns(ctrl, nsid);
	return ns ? format_judge(ctrl, ns) : command_refuse_nsid(slot, nsid);
}

/* Notes the namespaces that were judged. 0 or -ENOMEM. */
static int format_note_judged(struct manage_request *request, const struct ctrl *ctrl,
			      unsigned count)
{
	const struct subsystem *subsystem = ctrl->subsystem;

	if (request->nsid != NVME_NSID_ALL) {
		request->uuid = ctrl_find_ns(ctrl, request->nsid)->uuid;
		return 0;
	}
	request->uuids = calloc(count, sizeof(*request->uuids));
	if (!request->uuids)
		return -ENOMEM;
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		if (ns_mask_has(subsystem->namespaces[i].mask, ctrl->host_index))
			request->uuids[request->uuid_count++] = subsystem->namespaces[i].uuid;
	}
	return 0;
}

static void format_execute(struct slot *slot)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);
	struct format_task *task;
	struct format_cmd cmd;
	unsigned count;
	nvme_status status = format_judge_command(slot, nsid, &count);

	if (!nvme_status_is_ok(status) || count == 0) {
		slot_complete(slot, status);
		return;
	}
	task = calloc(1, sizeof(*task));
	if (!task) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	format_cmd_decode(&slot->sqe, &cmd);
	task->slot = slot;
	manage_request_init(&task->request, slot, MANAGE_FORMAT);
	task->request.done = format_done;
	if (format_note_judged(&task->request, slot->queue->ctrl, count) != 0) {
		manage_refuse_here(&task->request, NVME_SC_INTERNAL);
		return;
	}
	task->request.block_bytes = 1u << lba_format_shift(cmd.format);
	task->request.erases = cmd.erase == FORMAT_ERASE_USER_DATA;
	slot_leave_snapshot(slot);
	manage_submit(&task->request);
}

nvme_status format_prepare(struct slot *slot)
{
	struct format_cmd cmd;

	format_cmd_decode(&slot->sqe, &cmd);
	if (cmd.erase > FORMAT_ERASE_USER_DATA)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10 + 1);
	if (cmd.format >= LBA_FORMAT_COUNT || cmd.has_inline_meta || cmd.protection != 0 ||
	    cmd.has_protection_first)
		return command_refuse(slot, NVME_SC_INVALID_FORMAT, SQE_BYTE_CDW10);
	slot->execute = format_execute;
	return NVME_SC_SUCCESS;
}
