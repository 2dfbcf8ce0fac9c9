/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fabrics commands: Connect, Property Get, Property Set, Disconnect. NVMe Base 2.1, chapter 6.
 *
 * Connect checks here what the queue's reactor knows (names, port, host, sizes) and continues on
 * the controller's reactor (ctrl.c). Every refusal names the parameter at fault in DW0 of the
 * response.
 */
#include "base/log.h"
#include "target/command.h"
#include "target/local.h"

#include <string.h>

static void connect_refuse(struct slot *slot, const struct connect_reject *reject,
			   const struct connect_args *args)
{
	char peer[NET_ADDR_TEXT_BYTES];

	log_limited(LOG_LEVEL_WARN, "target", "%s: Connect to %s by %s refused: %s",
		    net_addr_format(&slot->queue->peer, peer), args->subsystem_nqn, args->host_nqn,
		    nvme_status_name(reject->status));
	slot->result = connect_reject_dw0(reject);
	slot->queue->state =
		slot->queue->state == QUEUE_CONNECTING ? QUEUE_NEW : slot->queue->state;
	/* Busy passes, so it has no DNR: a host that is told not to retry would never come back. */
	slot_complete(slot, nvme_status_same(reject->status, NVME_SC_CONNECT_BUSY)
				    ? NVME_SC_CONNECT_BUSY
				    : nvme_status_dnr(reject->status));
}

void connect_reject_at(struct connect_reject *reject, nvme_status status, uint16_t offset,
		       bool is_in_data)
{
	*reject = (struct connect_reject){
		.status = status, .parameter_offset = offset, .is_in_data = is_in_data};
}

static void connect_check_names(const struct queue *queue, const struct connect_args *args,
				struct connect_reject *reject)
{
	const struct subsystem *subsystem;

	if (strcmp(args->subsystem_nqn, NVME_DISCOVERY_NQN) == 0)
		return;
	subsystem = snapshot_find_subsystem(queue->local->snapshot, args->subsystem_nqn);
	if (!subsystem || !port_offers(queue->port, subsystem))
		connect_reject_at(reject, NVME_SC_CONNECT_INVALID_PARAM, CONNECT_DATA_SUBNQN, true);
	else if (!subsystem_allows_host(subsystem, args->host_nqn))
		connect_reject_at(reject, NVME_SC_CONNECT_INVALID_HOST, CONNECT_DATA_HOSTNQN, true);
}

static void connect_check(const struct queue *queue, const struct connect_args *args,
			  struct connect_reject *reject)
{
	const struct target_limits *limits = &queue->local->snapshot->limits;

	bool is_discovery = strcmp(args->subsystem_nqn, NVME_DISCOVERY_NQN) == 0;

	if (!queue->port || queue->local->is_stopping || (queue->is_spare && !is_discovery)) {
		connect_reject_at(reject, NVME_SC_CONNECT_BUSY, 0, false);
		return;
	}
	connect_check_names(queue, args, reject);
	if (!nvme_status_is_ok(reject->status))
		return;
	if (args->queue_size > limits->queue_size_max)
		connect_reject_at(reject, NVME_SC_CONNECT_INVALID_PARAM, CONNECT_SQE_SQSIZE, false);
	else if (args->qid > limits->io_queues_max)
		connect_reject_at(reject, NVME_SC_CONNECT_INVALID_PARAM, CONNECT_SQE_QID, false);
	else if (args->qid == 0 && args->cntlid != NVME_CNTLID_ANY)
		connect_reject_at(reject, NVME_SC_CONNECT_INVALID_PARAM, CONNECT_DATA_CNTLID, true);
	else if (args->qid == 0 && limits->kato_max_ms > 0 && args->kato_ms > limits->kato_max_ms)
		connect_reject_at(reject, NVME_SC_CONNECT_INVALID_PARAM, CONNECT_SQE_KATO, false);
}

static void connect_execute(struct slot *slot)
{
	struct queue *queue = slot->queue;
	struct connect_args args;
	struct connect_reject reject = {0};

	connect_decode(&slot->sqe, slot->data.addr, slot->data_bytes, &args, &reject);
	if (nvme_status_is_ok(reject.status))
		connect_check(queue, &args, &reject);
	if (nvme_status_is_ok(reject.status) && queue_alloc_slots(queue, args.queue_size) != 0)
		connect_reject_at(&reject, NVME_SC_CONNECT_BUSY, 0, false);
	if (!nvme_status_is_ok(reject.status)) {
		connect_refuse(slot, &reject, &args);
		return;
	}
	queue->state = QUEUE_CONNECTING;
	if (args.qid == 0 && !queue->is_admin) {
		queue->is_admin = true;
		atomic_fetch_add_explicit(&queue->local->admin_count, 1, memory_order_relaxed);
	}
	queue->qid = args.qid;
	queue->has_sq_flow_control = !args.wants_no_sq_flow_control;
	slot->wait = SLOT_WAIT_CONNECT;
	if (args.qid == 0)
		ctrl_create(slot, &args);
	else
		ctrl_attach(slot, &args);
}

/* Hosts that no subsystem allows can make up any number of names: at the discovery controller they
 * have one share together. */
static struct local_share *connect_share(struct local *local, const struct ctrl *ctrl)
{
	const char *owner = ctrl->host_nqn;

	if (ctrl->type == CTRL_TYPE_DISCOVERY && !snapshot_allows_host(local->snapshot, owner))
		owner = SHARE_OF_STRANGERS;
	return local_share_get(local, ctrl->subsystem_nqn, owner);
}

void connect_finish(struct slot *slot, struct ctrl *ctrl, const struct connect_reject *reject,
		    const struct connect_args *args)
{
	struct queue *queue = slot->queue;
	struct reactor_timer *deadline = &queue->deadline;

	if (!ctrl) {
		queue_discard_slots(queue);
		connect_refuse(slot, reject, args);
		return;
	}
	queue->ctrl = ctrl;
	/* Without memory for a share, the queue stays among the strangers. */
	queue->share = connect_share(queue->local, ctrl);
	if (queue->share)
		queue->turn_host = &queue->share->turn;
	if (queue->state == QUEUE_CONNECTING) {
		queue->state = QUEUE_LIVE;
		reactor_timer_cancel(deadline);
		queue_rebind(queue, queue->local->snapshot);
	}
	slot->result = ctrl->cntlid;
	slot_complete(slot, NVME_SC_SUCCESS);
	/* The configuration may have changed during the Connect. Close the queue here: the
	 * controller's message to close it may come after the change has been reported as
	 * applied. */
	if (!queue_has_place(queue))
		queue_close(queue, "the configuration no longer allows the connection");
}

static nvme_status connect_prepare(struct slot *slot)
{
	if (slot->queue->state != QUEUE_NEW)
		return nvme_status_dnr(NVME_SC_CMD_SEQUENCE);
	slot->execute = connect_execute;
	return command_expect_data(slot, DATA_TO_CTRL, NVMF_CONNECT_DATA_BYTES);
}

/* ---- properties ----------------------------------------------------------------------------- */

static void property_get_execute(struct slot *slot)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	struct property_cmd cmd;
	nvme_status status = property_decode(&slot->sqe, &cmd);

	if (!nvme_status_is_ok(status)) {
		slot_complete(slot, command_refuse(slot, status, SQE_BYTE_CDW10));
		return;
	}
	if (cmd.is_8_bytes != (cmd.offset == PROPERTY_CAP)) {
		slot_complete(slot, command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10));
		return;
	}
	switch (cmd.offset) {
	case PROPERTY_CAP:
		slot->result = ctrl_cap(ctrl);
		break;
	case PROPERTY_VS:
		slot->result = NVME_VERSION_BASE;
		break;
	case PROPERTY_CC:
		slot->result = ctrl->cc;
		break;
	case PROPERTY_CSTS:
		slot->result = ctrl->csts;
		break;
	case PROPERTY_CRTO:
		slot->result = ctrl_crto(ctrl);
		break;
	default:
		slot_complete(slot, command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11));
		return;
	}
	slot_complete(slot, NVME_SC_SUCCESS);
}

static void property_set_execute(struct slot *slot)
{
	struct property_cmd cmd;
	nvme_status status = property_decode(&slot->sqe, &cmd);

	if (!nvme_status_is_ok(status)) {
		slot_complete(slot, command_refuse(slot, status, SQE_BYTE_CDW10));
	} else if (cmd.offset != PROPERTY_CC || cmd.is_8_bytes) {
		/* NSSR is not offered (CAP.NSSRS is 0). All other properties are read only. */
		slot_complete(slot, command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11));
	} else {
		ctrl_set_cc(slot->queue->ctrl, (uint32_t)cmd.value);
		slot_complete(slot, NVME_SC_SUCCESS);
	}
}

/* ---- Disconnect ----------------------------------------------------------------------------- */

static void disconnect_execute(struct slot *slot)
{
	struct queue *queue = slot->queue;
	nvme_status status = disconnect_decode(&slot->sqe);

	/* Close the queue first, so that the response is the last thing that the queue sends. */
	if (nvme_status_is_ok(status))
		queue_close(queue, "the host sent Disconnect");
	slot_complete(slot, nvme_status_is_ok(status) ? status : nvme_status_dnr(status));
}

nvme_status fabrics_prepare(struct slot *slot)
{
	struct queue *queue = slot->queue;
	uint8_t type = fabrics_type(&slot->sqe);

	if (type == NVMF_CONNECT)
		return connect_prepare(slot);
	if (queue->state != QUEUE_LIVE || !queue->ctrl)
		return nvme_status_dnr(NVME_SC_CMD_SEQUENCE);
	if (type == NVMF_PROPERTY_GET && queue->qid == 0)
		slot->execute = property_get_execute;
	else if (type == NVMF_PROPERTY_SET && queue->qid == 0)
		slot->execute = property_set_execute;
	else if (type == NVMF_DISCONNECT && queue->qid != 0)
		slot->execute = disconnect_execute;
	else if (type == NVMF_DISCONNECT)
		return nvme_status_dnr(NVME_SC_INVALID_QUEUE_TYPE);
	else {
		slot->error_byte = offsetof(struct nvme_sqe, nsid);
		return nvme_status_dnr(type == NVMF_PROPERTY_GET || type == NVMF_PROPERTY_SET
					       ? NVME_SC_INVALID_FIELD
					       : NVME_SC_INVALID_OPCODE);
	}
	return command_expect_data(slot, DATA_NONE, 0);
}
