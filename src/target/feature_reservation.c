/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features 82h Reservation Notification Mask and 83h Reservation Persistence. NVMe Base 2.1,
 * sections 5.1.25.1.28 and 5.1.25.1.29.
 *
 * A mask belongs to one controller and one namespace. The controller's reactor owns the masks.
 * Persistence belongs to the namespace, like its reservation: the command travels to the control
 * reactor, which keeps the new value before the command is answered. No check of I/O depends on
 * persistence, so the value is not published to other reactors.
 */
#include "ns/event_log.h"
#include "ns/reservation.h"
#include "target/event_note.h"
#include "target/feature.h"
#include "target/local.h"
#include "target/reservation_command.h"

#define PERSISTENCE_PTPL 1u

/* ---- 82h ------------------------------------------------------------------------------------- */

void feature_notice_mask_get(struct slot *slot, const struct feature_cmd *cmd)
{
	bool is_current = cmd->select == FEATURE_CURRENT;

	feature_answer(slot, is_current ? ctrl_notice_mask(slot->queue->ctrl, slot->ns) : 0);
}

void feature_notice_mask_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t mask = cmd->cdw11 & NOTICE_MASK_ALL;
	int res = slot->ns ? ctrl_notice_mask_set(ctrl, slot->ns, mask)
			   : ctrl_notice_mask_set_all(ctrl, mask);

	slot_complete(slot, res == 0 ? NVME_SC_SUCCESS : NVME_SC_INTERNAL);
}

/* ---- 83h ------------------------------------------------------------------------------------- */

static void persistence_home(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);

	slot_complete(slot, slot->status);
}

static void persistence_go_home(struct slot *slot)
{
	reactor_post(slot->queue->reactor, &slot->msg, persistence_home);
}

static void persistence_read(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);
	const struct reservation *reservation =
		ns_live_reservation(ns_backing_live(slot->ns->backing));

	slot->result = reservation && reservation->persists ? PERSISTENCE_PTPL : 0;
	slot->status = NVME_SC_SUCCESS;
	persistence_go_home(slot);
}

void feature_persistence_get(struct slot *slot, const struct feature_cmd *cmd)
{
	if (cmd->select == FEATURE_DEFAULT) {
		feature_answer(slot, 0);
		return;
	}
	reactor_post(slot->queue->local->target->control, &slot->msg, persistence_read);
}

/* Writes to all namespaces that the host sees. Stops at the first one that cannot be kept. */
static int persistence_write_all(const struct slot *slot, bool persists)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	struct target *target = slot->queue->local->target;
	const struct subsystem *subsystem =
		snapshot_find_subsystem(slot->snapshot, ctrl->subsystem_nqn);
	uint32_t host_index = snapshot_host_index(slot->snapshot, ctrl->host_nqn);
	int res = 0;

	for (unsigned i = 0; subsystem && i < subsystem->ns_count && res == 0; i++)
		if (ns_mask_has(subsystem->namespaces[i].mask, host_index))
			res = reservation_change_persist(
				target, ns_backing_live(subsystem->namespaces[i].backing),
				persists);
	return res;
}

static void persistence_write(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);
	bool persists = (le32_get(slot->sqe.cdw11) & PERSISTENCE_PTPL) != 0;
	int res;

	if (slot->ns)
		res = reservation_change_persist(slot->queue->local->target,
						 ns_backing_live(slot->ns->backing), persists);
	else
		res = persistence_write_all(slot, persists);
	if (res == 0)
		event_log_note_feature(slot->queue->local->target, slot->queue->ctrl->subsystem_nqn,
				       FEATURE_RESERVATION_PERSISTENCE, le32_get(slot->sqe.cdw11));
	slot->status = res == 0 ? NVME_SC_SUCCESS : NVME_SC_INTERNAL;
	persistence_go_home(slot);
}

void feature_persistence_set(struct slot *slot, const struct feature_cmd *cmd)
{
	reactor_post(slot->queue->local->target->control, &slot->msg, persistence_write);
}
