/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features 82h Reservation Notification Mask and 83h Reservation Persistence. NVMe Base 2.1,
 * sections 5.1.25.1.28 and 5.1.25.1.29.
 *
 * A mask belongs to one controller and one namespace. The controller's reactor owns the masks.
 * Persistence belongs to the namespace, like its reservation. Set Features is a reservation
 * command: it waits for its host's turn and shares a commit with others (target/cmd_reservation.c).
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

static void persistence_home(struct slot *slot)
{
	slot_complete(slot, slot->status);
}

static void persistence_read(struct slot *slot)
{
	const struct reservation *reservation =
		ns_live_reservation(ns_backing_live(slot->ns->backing));

	slot->result = reservation && reservation->persists ? PERSISTENCE_PTPL : 0;
	control_work_answer(slot, NVME_SC_SUCCESS);
}

void feature_persistence_get(struct slot *slot, const struct feature_cmd *cmd)
{
	static const struct control_read read = {
		.serve = persistence_read,
		.home = persistence_home,
	};

	if (cmd->select == FEATURE_DEFAULT)
		feature_answer(slot, 0);
	else
		control_work_read(slot, &read);
}

bool persistence_wanted(const struct slot *slot)
{
	return (le32_get(slot->sqe.cdw11) & PERSISTENCE_PTPL) != 0;
}

struct ns_live *persistence_next(const struct slot *slot, uint32_t *ret_index)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct subsystem *subsystem =
		snapshot_find_subsystem(slot->snapshot, ctrl->subsystem_nqn);
	uint32_t host_index = snapshot_host_index(slot->snapshot, ctrl->host_nqn);

	for (uint32_t i = slot->steps.index; subsystem && i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];
		struct ns_live *live = ns_backing_live(ns->backing);
		const struct reservation *now = ns_live_reservation(live);

		if ((now && now->persists) == persistence_wanted(slot) ||
		    !ns_mask_has(ns->mask, host_index))
			continue;
		*ret_index = i;
		return live;
	}
	return NULL;
}

void persistence_note(const struct slot *slot)
{
	event_log_note_feature(slot->queue->local->target, slot->queue->ctrl->subsystem_nqn,
			       FEATURE_RESERVATION_PERSISTENCE, le32_get(slot->sqe.cdw11));
}

void feature_persistence_set(struct slot *slot, const struct feature_cmd *cmd)
{
	slot->steps.index = 0;
	control_work_submit(&slot->queue->local->target->reservation_work, slot);
}
