/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks commands against the reservation of their namespace, using the view of their own reactor.
 * Takes no lock, allocates nothing and writes nothing. Runs on the command's reactor.
 */
#include "target/local.h"
#include "target/reservation_command.h"

nvme_status reservation_check(const struct slot *slot, const struct ns *ns, uint8_t opcode,
			      const struct ns_view *view)
{
	if (!view || !view->reservation)
		return NVME_SC_SUCCESS;
	/* ctrl->host_id never changes, so any reactor may read it. */
	return reservation_judge(view->reservation, &slot->queue->ctrl->host_id,
				 reservation_group_io(opcode));
}

nvme_status reservation_check_admin(const struct ctrl *ctrl, const struct ns *ns, uint8_t opcode)
{
	const struct ns_view *view = ns->locals[ctrl->local->index].view;

	return reservation_judge(view ? view->reservation : NULL, &ctrl->host_id,
				 reservation_group_admin(opcode));
}
