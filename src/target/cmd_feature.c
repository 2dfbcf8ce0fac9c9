/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Features and Set Features: one table, one row per feature. Runs on the controller's reactor.
 * NVMe Base 2.1, sections 5.1.11 and 5.1.25.
 *
 * Nothing is saved across resets, so that saved values are the defaults; no feature belongs to a
 * namespace. The write cache is the media's: it is always said to be on and cannot be turned off.
 * The host identifier comes with Connect and cannot be set.
 */
#include "target/command.h"
#include "target/local.h"

#include <string.h>

#define FEATURE_CACHE_ENABLED    1u
#define FEATURE_HOST_ID_EXTENDED 1u /* EXHID: 16 bytes, the only size over fabrics */
#define FEATURE_HOST_ID_BYTES    16
#define FEATURE_BEHAVIOR_BYTES   512
#define FEATURE_BEHAVIOR_FLAGS   3 /* bytes that are switches: ACRE, ETDAS, LBAFEE */
#define SQE_BYTE_FEATURE_SELECT  (SQE_BYTE_CDW10 + 1)
#define SQE_BYTE_FEATURE_SAVE    (SQE_BYTE_CDW10 + 3)

struct feature {
	uint8_t id;
	bool is_discovery; /* discovery controllers have it too */
	uint8_t capability;
	uint32_t get_bytes;
	uint32_t set_bytes;
	/* DW0 of Get, and its data when it has any. */
	uint32_t (*get)(const struct ctrl *ctrl, bool is_default, uint8_t *data);
	nvme_status (*set)(struct slot *slot, const struct feature_cmd *cmd);
};

/* ---- 06h Volatile Write Cache ---------------------------------------------------------------- */

static uint32_t cache_get(const struct ctrl *ctrl, bool is_default, uint8_t *data)
{
	return FEATURE_CACHE_ENABLED;
}

static nvme_status cache_set(struct slot *slot, const struct feature_cmd *cmd)
{
	if ((cmd->cdw11 & FEATURE_CACHE_ENABLED) == 0)
		return command_refuse(slot, NVME_SC_FEATURE_NOT_CHANGEABLE, SQE_BYTE_CDW11);
	return NVME_SC_SUCCESS;
}

/* ---- 07h Number of Queues -------------------------------------------------------------------- */

static uint32_t queue_count_get(const struct ctrl *ctrl, bool is_default, uint8_t *data)
{
	uint32_t count = is_default ? ctrl->io_queues_max : ctrl->io_queues_granted;

	return feature_queue_count_encode(count, count);
}

/* Over fabrics a queue is a pair, so that the smaller of the two numbers counts. */
static nvme_status queue_count_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t sq_count, cq_count, count;

	if (!nvme_status_is_ok(feature_queue_count_decode(cmd->cdw11, &sq_count, &cq_count)))
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
	if (ctrl->io_queue_count > 0)
		return command_refuse(slot, NVME_SC_CMD_SEQUENCE, SQE_BYTE_CDW10);
	count = sq_count < cq_count ? sq_count : cq_count;
	ctrl->io_queues_granted = count < ctrl->io_queues_max ? count : ctrl->io_queues_max;
	slot->result = feature_queue_count_encode(ctrl->io_queues_granted, ctrl->io_queues_granted);
	return NVME_SC_SUCCESS;
}

/* ---- 0Bh Asynchronous Event Configuration ---------------------------------------------------- */

static uint32_t async_event_get(const struct ctrl *ctrl, bool is_default, uint8_t *data)
{
	return is_default ? 0 : ctrl->event_mask;
}

/* Events that this controller does not know stay off; Get tells which are on. */
static nvme_status async_event_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;

	ctrl->event_mask = cmd->cdw11 & ctrl_events_supported(ctrl);
	ctrl_events_report(ctrl);
	return NVME_SC_SUCCESS;
}

/* ---- 0Fh Keep Alive Timer -------------------------------------------------------------------- */

static uint32_t keep_alive_get(const struct ctrl *ctrl, bool is_default, uint8_t *data)
{
	return is_default ? 0 : ctrl->kato_ms;
}

static nvme_status keep_alive_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t max_ms = ctrl->local->snapshot->limits.kato_max_ms;
	uint32_t steps = cmd->cdw11 / CTRL_KEEP_ALIVE_STEP_MS;

	if (max_ms != 0 && cmd->cdw11 > max_ms)
		return command_refuse(slot, NVME_SC_KEEP_ALIVE_INVALID, SQE_BYTE_CDW11);
	/* Rounded up, but for the last value that 32 bits hold. */
	if (cmd->cdw11 % CTRL_KEEP_ALIVE_STEP_MS != 0 &&
	    steps < UINT32_MAX / CTRL_KEEP_ALIVE_STEP_MS)
		steps++;
	ctrl->kato_ms = steps * CTRL_KEEP_ALIVE_STEP_MS;
	ctrl_keep_alive_start(ctrl);
	return NVME_SC_SUCCESS;
}

/* ---- 16h Host Behavior Support --------------------------------------------------------------- */

static uint32_t host_behavior_get(const struct ctrl *ctrl, bool is_default, uint8_t *data)
{
	if (is_default)
		memset(data, 0, FEATURE_BEHAVIOR_BYTES);
	else
		memcpy(data, ctrl->host_behavior, FEATURE_BEHAVIOR_BYTES);
	return 0;
}

static nvme_status host_behavior_set(struct slot *slot, const struct feature_cmd *cmd)
{
	for (unsigned i = 0; i < FEATURE_BEHAVIOR_FLAGS; i++)
		if (slot->data[i] > 1)
			return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	memcpy(slot->queue->ctrl->host_behavior, slot->data, FEATURE_BEHAVIOR_BYTES);
	return NVME_SC_SUCCESS;
}

/* ---- 81h Host Identifier --------------------------------------------------------------------- */

static uint32_t host_id_get(const struct ctrl *ctrl, bool is_default, uint8_t *data)
{
	if (is_default)
		memset(data, 0, FEATURE_HOST_ID_BYTES);
	else
		memcpy(data, ctrl->host_id.bytes, FEATURE_HOST_ID_BYTES);
	return 0;
}

static nvme_status host_id_set(struct slot *slot, const struct feature_cmd *cmd)
{
	return command_refuse(slot, NVME_SC_CMD_SEQUENCE, SQE_BYTE_CDW10);
}

/* ---- the commands ---------------------------------------------------------------------------- */

static const struct feature features[] = {
	{FEATURE_VOLATILE_CACHE, false, 0, 0, 0, cache_get, cache_set},
	{FEATURE_QUEUE_COUNT, false, FEATURE_CAN_CHANGE, 0, 0, queue_count_get, queue_count_set},
	{FEATURE_ASYNC_EVENT, true, FEATURE_CAN_CHANGE, 0, 0, async_event_get, async_event_set},
	{FEATURE_KEEP_ALIVE, true, FEATURE_CAN_CHANGE, 0, 0, keep_alive_get, keep_alive_set},
	{FEATURE_HOST_BEHAVIOR, false, FEATURE_CAN_CHANGE, FEATURE_BEHAVIOR_BYTES,
	 FEATURE_BEHAVIOR_BYTES, host_behavior_get, host_behavior_set},
	{FEATURE_HOST_ID, false, 0, FEATURE_HOST_ID_BYTES, 0, host_id_get, host_id_set},
};

static const struct feature *feature_find(const struct ctrl *ctrl, uint8_t id)
{
	for (unsigned i = 0; i < ARRAY_LEN(features); i++)
		if (features[i].id == id &&
		    (ctrl->type == CTRL_TYPE_IO || features[i].is_discovery))
			return &features[i];
	return NULL;
}

static void feature_get_execute(struct slot *slot)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct feature *feature;
	struct feature_cmd cmd;

	feature_cmd_decode(&slot->sqe, &cmd);
	feature = feature_find(ctrl, cmd.feature_id);
	if (cmd.select == FEATURE_SUPPORTED)
		slot->result = feature->capability;
	else
		slot->result = feature->get(ctrl, cmd.select != FEATURE_CURRENT, slot->data);
	slot_complete(slot, NVME_SC_SUCCESS);
}

nvme_status feature_get_prepare(struct slot *slot)
{
	const struct feature *feature;
	struct feature_cmd cmd;

	feature_cmd_decode(&slot->sqe, &cmd);
	feature = feature_find(slot->queue->ctrl, cmd.feature_id);
	if (!feature)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	if (cmd.select > FEATURE_SUPPORTED)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_FEATURE_SELECT);
	slot->execute = feature_get_execute;
	if (feature->get_bytes == 0 || cmd.select == FEATURE_SUPPORTED)
		return NVME_SC_SUCCESS;
	if (cmd.feature_id == FEATURE_HOST_ID && (cmd.cdw11 & FEATURE_HOST_ID_EXTENDED) == 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
	return command_expect_data(slot, DATA_TO_HOST, feature->get_bytes);
}

static void feature_set_execute(struct slot *slot)
{
	struct feature_cmd cmd;

	feature_cmd_decode(&slot->sqe, &cmd);
	slot_complete(slot, feature_find(slot->queue->ctrl, cmd.feature_id)->set(slot, &cmd));
}

nvme_status feature_set_prepare(struct slot *slot)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);
	const struct feature *feature;
	struct feature_cmd cmd;

	feature_cmd_decode(&slot->sqe, &cmd);
	feature = feature_find(slot->queue->ctrl, cmd.feature_id);
	if (!feature)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	if (cmd.is_save)
		return command_refuse(slot, NVME_SC_FEATURE_NOT_SAVEABLE, SQE_BYTE_FEATURE_SAVE);
	if (nsid != 0 && nsid != NVME_NSID_ALL)
		return command_refuse(slot, NVME_SC_FEATURE_NOT_NS_SPECIFIC, SQE_BYTE_NSID);
	slot->execute = feature_set_execute;
	if (feature->set_bytes == 0)
		return NVME_SC_SUCCESS;
	return command_expect_data(slot, DATA_TO_CTRL, feature->set_bytes);
}
