/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent Event (0Dh). A controller reads a private copy of its subsystem's event log.
 * Establishing a context makes the copy; releasing the context, or a reset, frees the copy. The
 * parts of a long log that a host reads one by one are therefore consistent. NVMe Base 2.1, section
 * 5.1.12.1.14.
 *
 * Runs on the controller's reactor, except the copy, which is made on the control reactor.
 */
#include "ns/event_log.h"
#include "ns/health.h"
#include "target/command.h"
#include "target/local.h"
#include "target/log.h"

#include "base/text.h"

#include <stdlib.h>

/* The `other` of a slot that is sent to the control reactor and back. The slot keeps its snapshot
 * in use, and thereby `subsystem`. */
struct copy_request {
	const struct subsystem *subsystem;
	struct event_log_header header;
	uint8_t *page; /* NULL: out of memory */
	size_t page_bytes;
};

void ctrl_event_page_release(struct ctrl *ctrl)
{
	free(ctrl->event_page);
	ctrl->event_page = NULL;
	ctrl->event_page_bytes = 0;
}

static void page_read(struct slot *slot, const struct log_cmd *cmd)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	bool is_header = (cmd->specific & EVENT_LOG_ACTION_MASK) == EVENT_LOG_ESTABLISH_HEADER;
	size_t bytes = is_header ? EVENT_LOG_HEADER_BYTES : ctrl->event_page_bytes;
	struct log_window window = {slot->data.addr, cmd->offset, slot->data_bytes};

	log_window_put(&window, 0, ctrl->event_page, (uint32_t)bytes);
	log_finish(slot, cmd, bytes);
}

/* Answers with the header of the context that existed before. The command does not change the
 * context. */
static void header_read(struct slot *slot, const struct log_cmd *cmd)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	struct log_window window = {slot->data.addr, cmd->offset, slot->data_bytes};
	uint8_t bytes[EVENT_LOG_HEADER_BYTES];
	struct event_log_header header;
	int res = event_log_header_decode(ctrl->event_page, &header);

	CHECK(res == 0);
	header.has_context = true;
	header.port_id = ctrl->port_id;
	event_log_header_encode(&header, bytes);
	log_window_put(&window, 0, bytes, sizeof(bytes));
	log_finish(slot, cmd, sizeof(bytes));
}

static void copy_home(struct slot *slot)
{
	struct copy_request *request = slot->other;
	struct ctrl *ctrl = slot->queue->ctrl;
	struct log_cmd cmd;

	log_cmd_decode(&slot->sqe, &cmd);
	/* Another command may have established a context in the meantime. */
	if (!nvme_status_is_ok(slot->status)) {
		free(request->page);
		slot_complete(slot, slot->status);
	} else if (ctrl->event_page) {
		free(request->page);
		log_event_execute(slot, &cmd);
	} else if (!request->page) {
		slot_complete(slot, NVME_SC_INTERNAL);
	} else {
		ctrl->event_page = request->page;
		ctrl->event_page_bytes = request->page_bytes;
		page_read(slot, &cmd);
	}
	free(request);
}

static void copy_here(struct slot *slot)
{
	struct copy_request *request = slot->other;
	struct subsystem_live *live = request->subsystem->live;
	struct log_smart smart = {0};

	subsystem_live_smart(live, &smart);
	request->header.power_on_hours = smart.power_on_hours;
	request->page =
		event_log_page(subsystem_live_events(live), &request->header, &request->page_bytes);
	control_work_answer(slot, NVME_SC_SUCCESS);
}

static void establish(struct slot *slot)
{
	static const struct control_read read = {.serve = copy_here, .home = copy_home};
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct subsystem *subsystem =
		snapshot_find_subsystem(slot->snapshot, ctrl->subsystem_nqn);
	struct copy_request *request = calloc(1, sizeof(*request));

	if (!request || !subsystem) {
		free(request);
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	slot->other = request;
	request->subsystem = subsystem;
	request->header.power_cycles = ctrl->target->power_cycles;
	text_copy(request->header.serial, sizeof(request->header.serial), subsystem->serial);
	text_copy(request->header.model, sizeof(request->header.model), subsystem->model);
	text_copy(request->header.subsystem_nqn, sizeof(request->header.subsystem_nqn),
		  subsystem->nqn);
	if (subsystem->live) {
		control_work_read(slot, &read);
		return;
	}
	/* A subsystem without live state has no event log: answer with an empty log. */
	request->page = event_log_page_empty(&request->header, &request->page_bytes);
	slot->status = NVME_SC_SUCCESS;
	copy_home(slot);
}

void log_event_execute(struct slot *slot, const struct log_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	unsigned action = cmd->specific & EVENT_LOG_ACTION_MASK;
	bool has_context = ctrl->event_page != NULL;

	switch (action) {
	case EVENT_LOG_READ:
	case EVENT_LOG_ESTABLISH:
		/* Establish requires that there is no context. Read requires that there is one. */
		if (has_context == (action == EVENT_LOG_ESTABLISH))
			slot_complete(slot,
				      command_refuse(slot, NVME_SC_CMD_SEQUENCE, SQE_BYTE_LOG_LSP));
		else if (has_context)
			page_read(slot, cmd);
		else
			establish(slot);
		break;
	case EVENT_LOG_ESTABLISH_HEADER:
		/* RCI in the header reports whether there was a context. */
		if (has_context)
			header_read(slot, cmd);
		else
			establish(slot);
		break;
	default:
		ctrl_event_page_release(ctrl);
		slot_complete(slot, NVME_SC_SUCCESS);
	}
}
