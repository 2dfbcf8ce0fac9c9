/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespace Management (create, delete) and Namespace Attachment (attach, detach). NVMe Base 2.1,
 * sections 5.1.20, 5.1.21 and 8.1.15; NVM Command Set 1.1, section 4.1.6.
 *
 * The controller's reactor judges what it can. Control makes the change (target/manage.h): the
 * change is made, kept and in force on every reactor before the command is answered. Controllers
 * are dynamic, so "attached to a controller" means visible to the host of that controller, through
 * all controllers of the host. The registry knows which hosts a list of controllers means: the
 * command first travels to the registry and back. The command leaves its snapshot while it waits,
 * so that the change does not wait for the command.
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
#include <string.h>

#define NMIC_SHARED 0x01
#define DPS_MASK    0x0f

/* A command under way: controller's reactor, for attach and detach the registry and back, then
 * control and back. */
struct ns_task {
	struct manage_request request;
	struct reactor_msg msg;
	struct slot *slot;
	struct target *target;
	nvme_status status; /* result of the registry */
	unsigned ctrl_count;
	uint16_t cntlids[CTRL_LIST_MAX];
};

static void task_end(struct ns_task *task, nvme_status status)
{
	struct slot *slot = task->slot;

	free(task->request.host_nqns);
	free(task->request.uuids);
	free(task);
	slot_complete(slot, status);
}

static void task_done(struct manage_request *request)
{
	struct ns_task *task = container_of(request, struct ns_task, request);

	if (nvme_status_is_ok(request->status) && request->kind == MANAGE_NS_CREATE)
		task->slot->result = request->result_nsid;
	task_end(task, request->status);
}

static struct ns_task *task_create(struct slot *slot, enum manage_kind kind)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	struct ns_task *task = calloc(1, sizeof(*task));

	if (!task)
		return NULL;
	task->slot = slot;
	task->target = ctrl->target;
	manage_request_init(&task->request, slot, kind);
	task->request.done = task_done;
	return task;
}

/* ---- create, delete ------------------------------------------------------------------------- */

static nvme_status create_judge(const struct ns_create *create)
{
	uint32_t shift;

	if (create->format >= LBA_FORMAT_COUNT || create->has_inline_meta ||
	    (create->protection & DPS_MASK) != 0)
		return nvme_status_dnr(NVME_SC_INVALID_FORMAT);
	if (create->block_count == 0 || create->capacity > create->block_count ||
	    (create->sharing & ~NMIC_SHARED) != 0 || create->nvm_set != 0 ||
	    create->endurance_group != 0 || create->has_more)
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	if (create->capacity < create->block_count)
		return nvme_status_dnr(NVME_SC_THIN_NOT_SUPPORTED);
	if (create->ana_group > TARGET_ANA_GROUP_LOST - 1)
		return nvme_status_dnr(NVME_SC_ANA_GROUP_INVALID);
	shift = lba_format_shift(create->format);
	if (create->block_count > (uint64_t)INT64_MAX >> shift)
		return nvme_status_dnr(NVME_SC_NS_INSUFFICIENT_CAPACITY);
	return NVME_SC_SUCCESS;
}

static void create_execute(struct slot *slot)
{
	struct ns_create create;
	struct ns_task *task;
	nvme_status status;

	ns_create_decode(slot->data.addr, &create);
	status = create_judge(&create);
	if (!nvme_status_is_ok(status)) {
		slot_complete(slot, status);
		return;
	}
	task = task_create(slot, MANAGE_NS_CREATE);
	if (!task) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	task->request.block_count = create.block_count;
	task->request.block_bytes = 1u << lba_format_shift(create.format);
	task->request.is_private = (create.sharing & NMIC_SHARED) == 0;
	task->request.ana_group = create.ana_group;
	slot_leave_snapshot(slot);
	manage_submit(&task->request);
}

/*
 * Whether the namespace of the command exists for this host, and no reservation forbids the
 * command. A namespace that only other hosts see does not exist for this host, as in Identify.
 */
static nvme_status ns_judge(struct slot *slot, uint32_t nsid, const struct ns **ret_ns)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct ns *ns = ctrl->subsystem ? subsystem_find_ns(ctrl->subsystem, nsid) : NULL;

	*ret_ns = ns;
	if (!ns || !ns_is_allocated_for(ns, ctrl->host_index))
		return command_refuse_nsid(slot, nsid);
	return reservation_check_admin(ctrl, ns, slot->sqe.opcode);
}

/* Judges one namespace, which this port must reach, or all namespaces that exist for the host. */
static nvme_status delete_judge(struct slot *slot, uint32_t nsid, struct uuid *ret_uuid)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct subsystem *subsystem = ctrl->subsystem;
	nvme_status status = NVME_SC_SUCCESS;
	const struct ns *ns;

	if (nsid != NVME_NSID_ALL) {
		status = ns_judge(slot, nsid, &ns);
		if (!nvme_status_is_ok(status))
			return status;
		*ret_uuid = ns->uuid;
		return ctrl->port ? port_ana_status(ctrl->port, ns->ana_group) : NVME_SC_INTERNAL;
	}
	for (unsigned i = 0; subsystem && i < subsystem->ns_count && nvme_status_is_ok(status);
	     i++) {
		ns = &subsystem->namespaces[i];
		if (ns_is_allocated_for(ns, ctrl->host_index))
			status = reservation_check_admin(ctrl, ns, slot->sqe.opcode);
	}
	return status;
}

/* Notes the namespaces that were judged. 0 or -ENOMEM. */
static int delete_note_judged(struct manage_request *request, const struct ctrl *ctrl)
{
	const struct subsystem *subsystem = ctrl->subsystem;
	unsigned count = subsystem ? subsystem->ns_count : 0;

	request->uuids = calloc(count + 1, sizeof(*request->uuids));
	if (!request->uuids)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		if (ns_is_allocated_for(&subsystem->namespaces[i], ctrl->host_index))
			request->uuids[request->uuid_count++] = subsystem->namespaces[i].uuid;
	}
	return 0;
}

static void delete_execute(struct slot *slot)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);
	struct uuid uuid = {{0}};
	nvme_status status = delete_judge(slot, nsid, &uuid);
	struct ns_task *task;

	if (!nvme_status_is_ok(status)) {
		slot_complete(slot, status);
		return;
	}
	task = task_create(slot, MANAGE_NS_DELETE);
	if (!task) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	task->request.uuid = uuid;
	if (nsid == NVME_NSID_ALL && delete_note_judged(&task->request, slot->queue->ctrl) != 0) {
		task_end(task, NVME_SC_INTERNAL);
		return;
	}
	slot_leave_snapshot(slot);
	manage_submit(&task->request);
}

nvme_status ns_management_prepare(struct slot *slot)
{
	struct ns_manage_cmd cmd;

	ns_manage_cmd_decode(&slot->sqe, &cmd);
	switch (cmd.select) {
	case NS_MANAGE_CREATE:
		if (le32_get(slot->sqe.nsid) != 0)
			return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_NSID);
		if (cmd.csi != NVME_CSI_NVM)
			return command_refuse(slot, NVME_SC_IO_SET_NOT_SUPPORTED,
					      SQE_BYTE_CDW11 + 3);
		slot->execute = create_execute;
		return command_expect_data(slot, DATA_TO_CTRL, NVME_PAGE_BYTES);
	case NS_MANAGE_DELETE:
		slot->execute = delete_execute;
		return NVME_SC_SUCCESS;
	default:
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	}
}

/* ---- attach, detach ------------------------------------------------------------------------- */

/* Back on the controller's reactor, with hosts instead of controllers. */
static void hosts_found(struct reactor_msg *msg)
{
	struct ns_task *task = container_of(msg, struct ns_task, msg);

	if (nvme_status_is_ok(task->status))
		manage_submit(&task->request);
	else
		manage_refuse_here(&task->request, task->status);
}

static bool host_is_listed(const struct manage_request *request, const char *host_nqn)
{
	for (unsigned i = 0; i < request->host_count; i++)
		if (strcmp(request->host_nqns[i], host_nqn) == 0)
			return true;
	return false;
}

/* Base 2.1, 8.1.1.7: a namespace is not attached where its group is in persistent loss. */
static bool registry_is_lost(struct target *target, const struct ns_task *task, uint16_t port_id)
{
	const struct snapshot *snapshot = target_registry(target)->snapshot;
	const struct subsystem *subsystem =
		snapshot_find_subsystem(snapshot, task->request.subsystem_nqn);
	const struct port *port = snapshot_find_port(snapshot, port_id);
	const struct ns *ns = subsystem ? subsystem_find_ns(subsystem, task->request.nsid) : NULL;

	return ns && port && port_ana_state(port, ns->ana_group) == ANA_PERSISTENT_LOSS;
}

/* The fields of a registered controller that are read here do not change. */
static nvme_status registry_find_host(struct ns_task *task, uint16_t cntlid)
{
	const struct ctrl *ctrl = cntlid <= NVME_CNTLID_MAX ? task->target->ctrls[cntlid] : NULL;
	struct manage_request *request = &task->request;

	if (!ctrl || ctrl->type != CTRL_TYPE_IO ||
	    strcmp(ctrl->subsystem_nqn, request->subsystem_nqn) != 0)
		return nvme_status_dnr(NVME_SC_CTRL_LIST_INVALID);
	if (request->kind == MANAGE_NS_ATTACH &&
	    registry_is_lost(task->target, task, ctrl->port_id))
		return nvme_status_dnr(NVME_SC_ANA_ATTACH_FAILED);
	if (!host_is_listed(request, ctrl->host_nqn))
		memcpy(request->host_nqns[request->host_count++], ctrl->host_nqn, NVME_NQN_BYTES);
	return NVME_SC_SUCCESS;
}

static void registry_find_hosts(struct reactor_msg *msg)
{
	struct ns_task *task = container_of(msg, struct ns_task, msg);

	for (unsigned i = 0; i < task->ctrl_count && nvme_status_is_ok(task->status); i++)
		task->status = registry_find_host(task, task->cntlids[i]);
	reactor_post(task->slot->queue->reactor, &task->msg, hosts_found);
}

/* Whether the identifiers are ascending, each once. */
static bool ctrl_list_is_ordered(const struct ns_task *task)
{
	for (unsigned i = 1; i < task->ctrl_count; i++)
		if (task->cntlids[i - 1] >= task->cntlids[i])
			return false;
	return true;
}

static void attachment_execute(struct slot *slot)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);
	struct ns_manage_cmd cmd;
	struct ns_task *task;
	const struct ns *ns;
	nvme_status status;
	int count;

	ns_manage_cmd_decode(&slot->sqe, &cmd);
	/* The ANA state is not checked: a namespace that this path cannot reach may be attached to
	 * others. */
	status = ns_judge(slot, nsid, &ns);
	if (!nvme_status_is_ok(status)) {
		slot_complete(slot, status);
		return;
	}
	task = task_create(slot, cmd.select == NS_ATTACH ? MANAGE_NS_ATTACH : MANAGE_NS_DETACH);
	if (!task) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	task->request.uuid = ns->uuid;
	count = ctrl_list_decode(slot->data.addr, task->cntlids);
	task->ctrl_count = count > 0 ? (unsigned)count : 0;
	if (count <= 0 || !ctrl_list_is_ordered(task)) {
		task_end(task, nvme_status_dnr(NVME_SC_CTRL_LIST_INVALID));
		return;
	}
	task->request.host_nqns = calloc((size_t)count, NVME_NQN_BYTES);
	if (!task->request.host_nqns) {
		task_end(task, NVME_SC_INTERNAL);
		return;
	}
	slot_leave_snapshot(slot);
	reactor_post(target_registry(task->target)->reactor, &task->msg, registry_find_hosts);
}

nvme_status ns_attachment_prepare(struct slot *slot)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);
	struct ns_manage_cmd cmd;

	ns_manage_cmd_decode(&slot->sqe, &cmd);
	if (cmd.select != NS_ATTACH && cmd.select != NS_DETACH)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	if (nsid == 0 || nsid == NVME_NSID_ALL)
		return command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
	slot->execute = attachment_execute;
	return command_expect_data(slot, DATA_TO_CTRL, NVME_PAGE_BYTES);
}
