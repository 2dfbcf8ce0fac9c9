/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SMART / Health Information (02h): commands and bytes of the subsystem's namespaces, power cycles,
 * hours and errors. NVMe Base 2.1, section 5.1.12.1.3.
 *
 * Begins and ends on the controller's reactor. The sums are made on the control reactor, where the
 * counts of removed namespaces are kept. For a subsystem without live state the page has the sums
 * of the present namespaces. A program has no temperature and does not wear.
 */
#include "ns/health.h"
#include "target/command.h"
#include "target/health_note.h"
#include "target/log.h"

#include "base/clock.h"

#include <stdlib.h>

/* The `other` of a slot that is sent to the control reactor and back. The slot keeps its snapshot
 * in use, and thereby `live`. */
struct smart_request {
	struct subsystem_live *live;
	struct log_smart smart;
};

/* Adds the values of the controller, then completes the command. */
static void smart_finish(struct slot *slot, struct log_smart *smart)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	uint8_t page[LOG_SMART_BYTES];
	struct log_window window;
	struct log_cmd cmd;

	log_cmd_decode(&slot->sqe, &cmd);
	smart->error_log_entries = ctrl->error_count;
	if (ctrl_has_temperature_warning(ctrl))
		smart->critical_warning |= LOG_SMART_WARNING_TEMPERATURE;
	log_smart_encode(smart, page);
	window = (struct log_window){slot->data.addr, cmd.offset, slot->data_bytes};
	log_window_put(&window, 0, page, sizeof(page));
	log_finish(slot, &cmd, sizeof(page));
}

static void smart_home(struct slot *slot)
{
	struct smart_request *request = slot->other;

	if (nvme_status_is_ok(slot->status))
		smart_finish(slot, &request->smart);
	else
		slot_complete(slot, slot->status);
	free(request);
}

static void smart_sum(struct slot *slot)
{
	struct smart_request *request = slot->other;

	subsystem_live_smart(request->live, &request->smart);
	control_work_answer(slot, NVME_SC_SUCCESS);
}

void log_smart_execute(struct slot *slot, const struct log_cmd *cmd)
{
	static const struct control_read read = {.serve = smart_sum, .home = smart_home};
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct subsystem *subsystem =
		snapshot_find_subsystem(slot->snapshot, ctrl->subsystem_nqn);
	struct smart_request *request;
	struct log_smart smart;

	health_smart_init(&smart);
	smart.power_cycles = ctrl->target->power_cycles;
	smart.unsafe_shutdowns = ctrl->target->unsafe_shutdowns;
	if (!subsystem || !subsystem->live) {
		smart.power_on_hours = (reactor_now_ns(ctrl->reactor) - ctrl->target->started_ns) /
				       NS_PER_S / 3600;
		if (subsystem)
			health_sum_namespaces(subsystem, &smart);
		smart_finish(slot, &smart);
		return;
	}
	request = malloc(sizeof(*request));
	if (!request) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	request->live = subsystem->live;
	request->smart = smart;
	slot->other = request;
	control_work_read(slot, &read);
}
