/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per feature: what Get and Set Features need to know of a feature. The table is in
 * cmd_feature.c. The functions are in feature_*.c, one file per group. All run on the controller's
 * reactor.
 *
 * cmd_feature.c makes the checks that follow from the row (selection, saving, NSID, size of the
 * data) before it calls get or set. get and set check only the values. NVMe Base 2.1, sections
 * 5.1.11 and 5.1.25.
 */
#ifndef WEFT_TARGET_FEATURE_H
#define WEFT_TARGET_FEATURE_H

#include "target/command.h"

enum feature_scope {
	FEATURE_OF_CTRL, /* Set takes NSID 0 or FFFFFFFFh; Get ignores NSID */
	FEATURE_OF_NS,   /* one namespace that the host sees, in slot->ns */
	/* As FEATURE_OF_NS. Set with NSID FFFFFFFFh changes all namespaces; slot->ns is then
	 * NULL. */
	FEATURE_OF_NS_OR_ALL,
};

struct feature {
	uint8_t id;
	enum feature_scope scope;
	bool is_discovery;  /* discovery controllers have this feature too */
	uint8_t capability; /* enum feature_capability */
	uint32_t get_bytes;
	uint32_t set_bytes;
	/* Completes the command, possibly later. cmd->select is current, default or saved. */
	void (*get)(struct slot *slot, const struct feature_cmd *cmd);
	/* Completes the command, possibly later. The data of the host is in slot->data. */
	void (*set)(struct slot *slot, const struct feature_cmd *cmd);
};

/* Completes the command with success and `result` in DW0. */
static inline void feature_answer(struct slot *slot, uint32_t result)
{
	slot->result = result;
	slot_complete(slot, NVME_SC_SUCCESS);
}

/* Completes the command with `status` and DNR. error_byte is the byte of the command at fault. */
static inline void feature_refuse(struct slot *slot, nvme_status status, uint16_t error_byte)
{
	slot_complete(slot, command_refuse(slot, status, error_byte));
}

#define FEATURE_TIMESTAMP_BYTES  8
#define FEATURE_HOST_ID_BYTES    16
#define FEATURE_HOST_ID_EXTENDED 1u /* EXHID: 16 bytes, the only size over fabrics */

/* The row at `index` of the table, or NULL beyond its end. */
const struct feature *feature_row(unsigned index);
/* The feature, or NULL when this controller does not have the feature or its host may not see
 * it. */
const struct feature *feature_find(const struct ctrl *ctrl, uint8_t id);
/* The namespace of the command's NSID in the slot's snapshot, or NULL when the host sees no such
 * namespace. */
const struct ns *feature_find_ns(const struct slot *slot);
typedef void feature_fn(struct slot *slot, const struct feature_cmd *cmd);

/* feature_ctrl.c */
feature_fn feature_arbitration_get, feature_arbitration_set;
feature_fn feature_power_get, feature_power_set;
feature_fn feature_cache_get, feature_cache_set;
feature_fn feature_queue_count_get, feature_queue_count_set;
feature_fn feature_coalescing_get, feature_coalescing_set;
feature_fn feature_vector_get, feature_vector_set;
feature_fn feature_atomicity_get, feature_atomicity_set;
feature_fn feature_async_event_get, feature_async_event_set;
feature_fn feature_keep_alive_get, feature_keep_alive_set;
/* feature_host.c */
feature_fn feature_temperature_get, feature_temperature_set;
feature_fn feature_timestamp_get, feature_timestamp_set;
feature_fn feature_behavior_get, feature_behavior_set;
feature_fn feature_host_id_get, feature_host_id_set;
/* feature_ns.c */
feature_fn feature_error_recovery_get, feature_error_recovery_set;
feature_fn feature_label_get, feature_label_set;
feature_fn feature_write_protect_get, feature_write_protect_set;
/* feature_reservation.c */
feature_fn feature_notice_mask_get, feature_notice_mask_set;
feature_fn feature_persistence_get, feature_persistence_set;

#endif
