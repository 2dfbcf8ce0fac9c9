/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Features and Set Features: the table of features, and the checks that follow from its rows.
 * feature_*.c implement the features. Runs on the controller's reactor. NVMe Base 2.1, sections
 * 5.1.11 and 5.1.25.
 *
 * Features of a controller are not saved, because controllers are dynamic: their saved values are
 * the defaults. Features of a namespace (1Fh, 83h, 84h) are part of the target's kept state: their
 * current and saved values are the same.
 */
#include "target/feature.h"
#include "target/host_rights.h"
#include "target/local.h"

#include <string.h>

/* SEL is bits 10:8 of CDW10, SV bit 31 of CDW10. */
#define SQE_AT_SELECT SQE_AT(SQE_BYTE_CDW10 + 1, 0)
#define SQE_AT_SAVE   SQE_AT(SQE_BYTE_CDW10 + 3, 7)

#define CHANGES FEATURE_CAN_CHANGE
#define OF_NS   FEATURE_PER_NS
#define KEPT    (FEATURE_CAN_SAVE | FEATURE_PER_NS | FEATURE_CAN_CHANGE)

static const struct feature features[] = {
	{FEATURE_ARBITRATION, FEATURE_OF_CTRL, false, CHANGES, 0, 0, feature_arbitration_get,
	 feature_arbitration_set},
	{FEATURE_POWER, FEATURE_OF_CTRL, false, CHANGES, 0, 0, feature_power_get,
	 feature_power_set},
	{FEATURE_TEMPERATURE, FEATURE_OF_CTRL, false, CHANGES, 0, 0, feature_temperature_get,
	 feature_temperature_set},
	{FEATURE_ERROR_RECOVERY, FEATURE_OF_NS_OR_ALL, false, OF_NS, 0, 0,
	 feature_error_recovery_get, feature_error_recovery_set},
	{FEATURE_VOLATILE_CACHE, FEATURE_OF_CTRL, false, 0, 0, 0, feature_cache_get,
	 feature_cache_set},
	{FEATURE_QUEUE_COUNT, FEATURE_OF_CTRL, false, CHANGES, 0, 0, feature_queue_count_get,
	 feature_queue_count_set},
	{FEATURE_COALESCING, FEATURE_OF_CTRL, false, CHANGES, 0, 0, feature_coalescing_get,
	 feature_coalescing_set},
	{FEATURE_VECTOR, FEATURE_OF_CTRL, false, 0, 0, 0, feature_vector_get, feature_vector_set},
	{FEATURE_ATOMICITY, FEATURE_OF_CTRL, false, CHANGES, 0, 0, feature_atomicity_get,
	 feature_atomicity_set},
	{FEATURE_ASYNC_EVENT, FEATURE_OF_CTRL, true, CHANGES, 0, 0, feature_async_event_get,
	 feature_async_event_set},
	{FEATURE_TIMESTAMP, FEATURE_OF_CTRL, false, CHANGES, FEATURE_TIMESTAMP_BYTES,
	 FEATURE_TIMESTAMP_BYTES, feature_timestamp_get, feature_timestamp_set},
	{FEATURE_KEEP_ALIVE, FEATURE_OF_CTRL, true, CHANGES, 0, 0, feature_keep_alive_get,
	 feature_keep_alive_set},
	{FEATURE_HOST_BEHAVIOR, FEATURE_OF_CTRL, false, CHANGES, HOST_BEHAVIOR_BYTES,
	 HOST_BEHAVIOR_BYTES, feature_behavior_get, feature_behavior_set},
	{FEATURE_NS_LABEL, FEATURE_OF_NS, false, KEPT, TARGET_NS_LABEL_BYTES, TARGET_NS_LABEL_BYTES,
	 feature_label_get, feature_label_set},
	{FEATURE_HOST_ID, FEATURE_OF_CTRL, false, 0, FEATURE_HOST_ID_BYTES, 0, feature_host_id_get,
	 feature_host_id_set},
	{FEATURE_RESERVATION_MASK, FEATURE_OF_NS_OR_ALL, false, OF_NS | CHANGES, 0, 0,
	 feature_notice_mask_get, feature_notice_mask_set},
	{FEATURE_RESERVATION_PERSISTENCE, FEATURE_OF_NS_OR_ALL, false, KEPT, 0, 0,
	 feature_persistence_get, feature_persistence_set},
	{FEATURE_WRITE_PROTECT, FEATURE_OF_NS, false, KEPT, 0, 0, feature_write_protect_get,
	 feature_write_protect_set},
};

const struct feature *feature_row(unsigned index)
{
	return index < ARRAY_LEN(features) ? &features[index] : NULL;
}

/* The right that Set Features needs for this feature, or 0. */
static uint32_t feature_right(uint8_t id)
{
	switch (id) {
	case FEATURE_NS_LABEL:
		return HOST_RIGHT_LABEL;
	case FEATURE_WRITE_PROTECT:
		return HOST_RIGHT_WRITE_PROTECT;
	default:
		return 0;
	}
}

static bool feature_lacks_right(const struct ctrl *ctrl, uint8_t id)
{
	return feature_right(id) != 0 && !ctrl_has_right(ctrl, feature_right(id));
}

/* Write protection is hidden from a host without the right, as NWPC reports to that host. No field
 * of Identify reports labels, and every host may read them. */
static bool feature_is_hidden(const struct ctrl *ctrl, uint8_t id)
{
	return id == FEATURE_WRITE_PROTECT && feature_lacks_right(ctrl, id);
}

/* Ignores the host's rights, which may change while a command waits for its data. */
static const struct feature *feature_find_any(const struct ctrl *ctrl, uint8_t id)
{
	for (unsigned i = 0; i < ARRAY_LEN(features); i++)
		if (features[i].id == id &&
		    (ctrl->type == CTRL_TYPE_IO || features[i].is_discovery))
			return &features[i];
	return NULL;
}

const struct feature *feature_find(const struct ctrl *ctrl, uint8_t id)
{
	return feature_is_hidden(ctrl, id) ? NULL : feature_find_any(ctrl, id);
}

/* Decodes the command. Returns the feature that the command names, or NULL. */
static const struct feature *feature_of(const struct slot *slot, struct feature_cmd *ret_cmd)
{
	feature_cmd_decode(&slot->sqe, ret_cmd);
	return feature_find_any(slot->queue->ctrl, ret_cmd->feature_id);
}

/* An NSID that exists but is hidden from this host counts as inactive. */
static nvme_status feature_check_nsid(struct slot *slot, const struct feature *feature, bool is_set)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);

	if (feature->scope == FEATURE_OF_CTRL) {
		if (!is_set || nsid == 0 || nsid == NVME_NSID_ALL)
			return NVME_SC_SUCCESS;
		return command_refuse(slot,
				      nsid > TARGET_NSID_MAX ? NVME_SC_INVALID_NS
							     : NVME_SC_FEATURE_NOT_NS_SPECIFIC,
				      SQE_BYTE_NSID);
	}
	if (nsid == NVME_NSID_ALL && feature->scope == FEATURE_OF_NS_OR_ALL && is_set)
		return NVME_SC_SUCCESS;
	if (nsid == 0 || nsid > TARGET_NSID_MAX)
		return command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
	slot->ns = feature_find_ns(slot);
	if (!slot->ns)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_NSID);
	if (is_set) {
		nvme_status status = ctrl_judge_identity(slot->queue->ctrl, slot->ns);

		if (!nvme_status_is_ok(status))
			return status;
	}
	/* Base 2.1, 8.1.1: where a namespace is inaccessible, so are its features. */
	return slot->queue->port ? port_ana_status(slot->queue->port, slot->ns->ana_group)
				 : NVME_SC_SUCCESS;
}

const struct ns *feature_find_ns(const struct slot *slot)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct subsystem *subsystem =
		snapshot_find_subsystem(slot->snapshot, ctrl->subsystem_nqn);
	const struct ns *ns =
		subsystem ? subsystem_find_ns(subsystem, le32_get(slot->sqe.nsid)) : NULL;

	if (!ns || !ns_mask_has(ns->mask, snapshot_host_index(slot->snapshot, ctrl->host_nqn)))
		return NULL;
	return ns;
}

/* ---- Get Features --------------------------------------------------------------------------- */

static void feature_get_execute(struct slot *slot)
{
	struct feature_cmd cmd;
	const struct feature *feature = feature_of(slot, &cmd);

	if (cmd.select == FEATURE_SUPPORTED) {
		feature_answer(slot, feature_lacks_right(slot->queue->ctrl, feature->id)
					     ? feature->capability & ~FEATURE_CAN_CHANGE
					     : feature->capability);
		return;
	}
	if (slot->data_bytes > 0)
		memset(slot->data.addr, 0, slot->data_bytes);
	feature->get(slot, &cmd);
}

nvme_status feature_get_prepare(struct slot *slot)
{
	struct feature_cmd cmd;
	const struct feature *feature = feature_of(slot, &cmd);
	nvme_status status;

	if (!feature || feature_is_hidden(slot->queue->ctrl, feature->id))
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	if (cmd.select > FEATURE_SUPPORTED)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_AT_SELECT);
	slot->execute = feature_get_execute;
	/* The capabilities of a feature are the same for all namespaces. */
	if (cmd.select == FEATURE_SUPPORTED)
		return NVME_SC_SUCCESS;
	status = feature_check_nsid(slot, feature, false);
	if (!nvme_status_is_ok(status))
		return status;
	if (cmd.feature_id == FEATURE_HOST_ID && (cmd.cdw11 & FEATURE_HOST_ID_EXTENDED) == 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
	return feature->get_bytes == 0
		       ? NVME_SC_SUCCESS
		       : command_expect_data(slot, DATA_TO_HOST, feature->get_bytes);
}

/* ---- Set Features --------------------------------------------------------------------------- */

static void feature_set_execute(struct slot *slot)
{
	struct feature_cmd cmd;

	feature_of(slot, &cmd)->set(slot, &cmd);
}

nvme_status feature_set_prepare(struct slot *slot)
{
	struct feature_cmd cmd;
	const struct feature *feature = feature_of(slot, &cmd);
	nvme_status status;

	if (!feature)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	if (feature_right(feature->id) != 0 &&
	    !ctrl_may(slot->queue->ctrl, feature_right(feature->id)))
		return command_refuse(slot,
				      feature_is_hidden(slot->queue->ctrl, feature->id)
					      ? NVME_SC_INVALID_FIELD
					      : NVME_SC_FEATURE_NOT_CHANGEABLE,
				      SQE_BYTE_CDW10);
	if (cmd.is_save && (feature->capability & FEATURE_CAN_SAVE) == 0)
		return command_refuse(slot, NVME_SC_FEATURE_NOT_SAVEABLE, SQE_AT_SAVE);
	status = feature_check_nsid(slot, feature, true);
	if (!nvme_status_is_ok(status))
		return status;
	slot->execute = feature_set_execute;
	return feature->set_bytes == 0
		       ? NVME_SC_SUCCESS
		       : command_expect_data(slot, DATA_TO_CTRL, feature->set_bytes);
}
