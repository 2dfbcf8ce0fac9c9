/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error information log (01h) of a controller: a ring of the last CTRL_ERROR_LOG_ENTRIES
 * commands that failed, read newest first. NVMe Base 2.1, section 5.1.12.1.2.
 *
 * Owned by the controller's reactor. A command that failed on another reactor travels to the
 * controller's reactor in its slot. The slot does not change until the entry is made.
 */
#include "target/command.h"
#include "target/log.h"

#include <errno.h>
#include <stdlib.h>

#define ERROR_NO_PLACE 0xffff

int ctrl_error_log_init(struct ctrl *ctrl)
{
	ctrl->error_log = calloc(CTRL_ERROR_LOG_ENTRIES, sizeof(*ctrl->error_log));
	ctrl->error_count = 0;
	return ctrl->error_log ? 0 : -ENOMEM;
}

void ctrl_error_log_free(struct ctrl *ctrl)
{
	free(ctrl->error_log);
	ctrl->error_log = NULL;
}

void ctrl_error_log_add(struct ctrl *ctrl, const struct slot *slot)
{
	CHECK_OWNER(ctrl);
	struct log_error_entry *entry =
		&ctrl->error_log[ctrl->error_count++ % CTRL_ERROR_LOG_ENTRIES];
	bool is_fabrics = slot->sqe.opcode == NVME_OPCODE_FABRICS;
	bool has_place = slot->error_byte != ERROR_NO_PLACE;

	*entry = (struct log_error_entry){
		.error_count = ctrl->error_count,
		.sqid = slot->queue->qid,
		.cid = le16_get(slot->sqe.cid),
		.status = slot->status,
		.parameter_byte = has_place ? slot->error_byte & 0xff : ERROR_NO_PLACE,
		.parameter_bit = has_place ? (uint8_t)(slot->error_byte >> 8) : 0,
		/* slot->io_cmd belongs to this command only when the namespace was found. */
		.lba = slot->queue->qid != 0 && slot->ns ? slot->io_cmd.first_block : 0,
		/* A Fabrics command has its type in the bytes of the NSID. */
		.nsid = is_fabrics ? 0 : le32_get(slot->sqe.nsid),
		.transport = nvme_status_same(slot->status, NVME_SC_TRANSIENT_TRANSPORT)
				     ? slot->queue->transport->trtype
				     : 0,
		.csi = NVME_CSI_NVM,
		.opcode = slot->sqe.opcode,
	};
}

uint64_t log_error_write(const struct ctrl *ctrl, const struct log_window *window)
{
	uint64_t used = ctrl->error_count < CTRL_ERROR_LOG_ENTRIES ? ctrl->error_count
								   : CTRL_ERROR_LOG_ENTRIES;

	for (uint64_t i = 0; i < used; i++) {
		uint64_t index = (ctrl->error_count - 1 - i) % CTRL_ERROR_LOG_ENTRIES;
		uint8_t bytes[LOG_ERROR_ENTRY_BYTES];

		log_error_encode(&ctrl->error_log[index], bytes);
		log_window_put(window, i * LOG_ERROR_ENTRY_BYTES, bytes, sizeof(bytes));
	}
	return (uint64_t)CTRL_ERROR_LOG_ENTRIES * LOG_ERROR_ENTRY_BYTES;
}
