/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the handler of a command by queue, controller type and opcode, after the checks that hold
 * for all commands: the state of queue and controller, and the SGL. NVMe Base 2.1, sections 3.1.3,
 * 3.4, 4.3.
 *
 * Nothing is executed here, and handlers judge their own fields. Runs on the queue's reactor.
 */
#include "target/command.h"
#include "target/host_rights.h"
#include "target/local.h"

static nvme_status admin_prepare(struct slot *slot)
{
	switch (slot->sqe.opcode) {
	case NVME_ADMIN_IDENTIFY:
		return identify_prepare(slot);
	case NVME_ADMIN_GET_LOG_PAGE:
		return log_prepare(slot);
	case NVME_ADMIN_GET_FEATURES:
		return feature_get_prepare(slot);
	case NVME_ADMIN_SET_FEATURES:
		return feature_set_prepare(slot);
	case NVME_ADMIN_ASYNC_EVENT:
		return async_event_prepare(slot);
	case NVME_ADMIN_KEEP_ALIVE:
		return keep_alive_prepare(slot);
	case NVME_ADMIN_ABORT:
		if (slot->queue->ctrl->type == CTRL_TYPE_IO)
			return abort_prepare(slot);
		break;
	case NVME_ADMIN_CTRL_RESET:
		if (slot->queue->ctrl->type == CTRL_TYPE_IO)
			return ctrl_reset_prepare(slot);
		break;
	case NVME_ADMIN_NS_MANAGEMENT:
		if (ctrl_may(slot->queue->ctrl, HOST_RIGHT_NAMESPACES))
			return ns_management_prepare(slot);
		break;
	case NVME_ADMIN_NS_ATTACHMENT:
		if (ctrl_may(slot->queue->ctrl, HOST_RIGHT_NAMESPACES))
			return ns_attachment_prepare(slot);
		break;
	case NVME_ADMIN_FORMAT_NVM:
		if (ctrl_may(slot->queue->ctrl, HOST_RIGHT_FORMAT))
			return format_prepare(slot);
		break;
	case NVME_ADMIN_GET_LBA_STATUS:
		if (slot->queue->ctrl->type == CTRL_TYPE_IO)
			return lba_status_prepare(slot);
		break;
	default:
		break;
	}
	slot->error_byte = offsetof(struct nvme_sqe, opcode);
	return nvme_status_dnr(NVME_SC_INVALID_OPCODE);
}

nvme_status command_prepare_alone(struct slot *slot)
{
	struct queue *queue = slot->queue;
	nvme_status status = sgl_decode(&slot->sqe, slot->capsule_bytes, &slot->sgl);

	if (!nvme_status_is_ok(status)) {
		slot->error_byte = offsetof(struct nvme_sqe, sgl);
		return nvme_status_dnr(status);
	}
	/* IOCCSZ limits the data in an I/O capsule. */
	if (queue->qid != 0 && slot->capsule_bytes > slot->snapshot->limits.in_capsule_bytes) {
		slot->error_byte = offsetof(struct nvme_sqe, sgl.length);
		return nvme_status_dnr(NVME_SC_SGL_INVALID_DATA_LEN);
	}
	if (slot->sqe.opcode == NVME_OPCODE_FABRICS)
		return fabrics_prepare(slot);
	if (queue->state != QUEUE_LIVE || !queue->ctrl)
		return nvme_status_dnr(NVME_SC_CMD_SEQUENCE);
	if (queue->qid != 0)
		return io_prepare(slot);
	/* Base 2.1, 3.5: before CSTS.RDY only Fabrics commands are processed. */
	if (!ctrl_is_ready(queue->ctrl))
		return nvme_status_dnr(NVME_SC_CMD_SEQUENCE);
	return admin_prepare(slot);
}
