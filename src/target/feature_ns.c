/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features of a namespace: error recovery (05h), admin label (1Fh), write protection (84h). Runs on
 * the controller's reactor. NVMe Base 2.1, sections 5.1.25.1.23 and 5.1.25.1.30; NVM Command Set
 * 1.1, section 4.1.3.3.
 *
 * Labels and write protection are part of the configuration. Set sends the change to the control
 * reactor (manage.h), which keeps the change. The command is answered when every reactor uses the
 * change and, for write protection, when no write that began before is left at the medium.
 *
 * Error recovery: the target reports an error of the medium at once, so there is no time to limit
 * (TLER 0). Blocks that were never written read as the medium returns them (no DULBE).
 */
#include "ns/reservation.h"
#include "target/feature.h"
#include "target/local.h"
#include "target/manage.h"
#include "target/reservation_command.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define ERROR_RECOVERY_TIME_MASK 0xffffu
#define ERROR_RECOVERY_DULBE     (1u << 16)
#define WRITE_PROTECT_MASK       7u

/* ---- 05h Error Recovery -------------------------------------------------------------------- */

void feature_error_recovery_get(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_answer(slot, 0);
}

void feature_error_recovery_set(struct slot *slot, const struct feature_cmd *cmd)
{
	if (cmd->cdw11 & ERROR_RECOVERY_DULBE)
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11 + 2);
	else if (cmd->cdw11 & ERROR_RECOVERY_TIME_MASK)
		feature_refuse(slot, NVME_SC_FEATURE_NOT_CHANGEABLE, SQE_BYTE_CDW11);
	else
		feature_answer(slot, 0);
}

/* ---- changes on the control reactor -------------------------------------------------------- */

struct ns_feature_change {
	struct manage_request request;
	struct slot *slot;
};

static void ns_feature_change_done(struct manage_request *request)
{
	struct ns_feature_change *change = container_of(request, struct ns_feature_change, request);
	struct slot *slot = change->slot;
	nvme_status status = request->status;

	free(change);
	slot_complete(slot, status);
}

/* When out of memory: completes the command and returns NULL. */
static struct manage_request *ns_feature_change_create(struct slot *slot, enum manage_kind kind)
{
	struct ns_feature_change *change = calloc(1, sizeof(*change));
	struct manage_request *request;

	if (!change) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return NULL;
	}
	change->slot = slot;
	request = &change->request;
	manage_request_init(request, slot, kind);
	request->uuid = slot->ns->uuid;
	request->done = ns_feature_change_done;
	return request;
}

/* The command waits long for the control reactor, and must not keep the former snapshot in use
 * meanwhile. */
static void ns_feature_change_submit(struct slot *slot, struct manage_request *request)
{
	slot->ns = NULL;
	slot_leave_snapshot(slot);
	manage_submit(request);
}

/* ---- 1Fh Namespace Admin Label ------------------------------------------------------------- */

void feature_label_get(struct slot *slot, const struct feature_cmd *cmd)
{
	if (cmd->select != FEATURE_DEFAULT && slot->ns->label)
		memcpy(slot->data.addr, slot->ns->label,
		       strnlen(slot->ns->label, TARGET_NS_LABEL_BYTES));
	feature_answer(slot, 0);
}

/* A label is valid UTF-8 up to the first zero byte, followed by zero bytes only. */
static bool label_is_valid(const uint8_t *data)
{
	char label[TARGET_NS_LABEL_BYTES + 1] = "";
	const char *text = label;
	size_t char_bytes;

	memcpy(label, data, TARGET_NS_LABEL_BYTES);
	for (size_t i = strlen(label); i < TARGET_NS_LABEL_BYTES; i++)
		if (data[i] != 0)
			return false;
	for (; *text != '\0'; text += char_bytes) {
		char_bytes = text_utf8_bytes(text);
		if (char_bytes == 0)
			return false;
	}
	return true;
}

void feature_label_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct manage_request *request;

	if (!label_is_valid(slot->data.addr)) {
		slot_complete(slot, nvme_status_dnr(NVME_SC_INVALID_FIELD));
		return;
	}
	request = ns_feature_change_create(slot, MANAGE_NS_LABEL);
	if (!request)
		return;
	memcpy(request->label, slot->data.addr, TARGET_NS_LABEL_BYTES);
	ns_feature_change_submit(slot, request);
}

/* ---- 84h Namespace Write Protection -------------------------------------------------------- */

void feature_write_protect_get(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_answer(slot, cmd->select == FEATURE_DEFAULT ? NS_WRITE_PROTECT_NONE
							    : slot->ns->write_protect);
}

void feature_write_protect_set(struct slot *slot, const struct feature_cmd *cmd)
{
	uint32_t wanted = cmd->cdw11 & WRITE_PROTECT_MASK;
	uint8_t now = slot->ns->write_protect;
	struct manage_request *request;
	nvme_status status;

	if (wanted > NS_WRITE_PROTECT_PERMANENT) {
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
		return;
	}
	/* Write protection would take away the write access that a reservation gives its holder. */
	status = reservation_check_admin(slot->queue->ctrl, slot->ns, slot->sqe.opcode);
	if (!nvme_status_is_ok(status)) {
		slot_complete(slot, status);
		return;
	}
	/* A host can undo neither state: until-power-cycle ends with a power cycle, permanent never
	 * ends. */
	if (wanted != now &&
	    (now == NS_WRITE_PROTECT_UNTIL_POWER_CYCLE || now == NS_WRITE_PROTECT_PERMANENT)) {
		feature_refuse(slot, NVME_SC_FEATURE_NOT_CHANGEABLE, SQE_BYTE_CDW11);
		return;
	}
	if (wanted == now) {
		feature_answer(slot, 0);
		return;
	}
	request = ns_feature_change_create(slot, MANAGE_WRITE_PROTECT);
	if (!request)
		return;
	request->write_protect = (enum ns_write_protect)wanted;
	ns_feature_change_submit(slot, request);
}
