/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the command families. The prepare function of a family judges the command, sets
 * slot->direction, slot->data_bytes and slot->execute, and returns success, or returns the status
 * of the refusal. Execute functions end with slot_complete. All run on the queue's reactor, so
 * admin commands run on the controller's reactor.
 */
#ifndef WEFT_TARGET_COMMAND_H
#define WEFT_TARGET_COMMAND_H

#include "target/ctrl.h"
#include "target/queue.h"
#include "target/slot.h"

/* dispatch.c: selects the family by queue and opcode. Also called for each command of a fused pair:
 * target/fused.h. */
nvme_status command_prepare_alone(struct slot *slot);

/* For data commands over fabrics: the SGL must describe exactly `bytes`. */
static inline nvme_status command_expect_data(struct slot *slot, enum data_direction direction,
					      uint32_t bytes)
{
	if (slot->sgl.len_bytes != bytes) {
		slot->error_byte = offsetof(struct nvme_sqe, sgl.length);
		return nvme_status_dnr(NVME_SC_SGL_INVALID_DATA_LEN);
	}
	/* Data from the host must arrive as its SGL describes. A capsule cannot carry data to the
	 * host. */
	if ((slot->sgl.kind == SGL_IN_CAPSULE && direction == DATA_TO_HOST) ||
	    (slot->sgl.kind == SGL_TRANSPORT && slot->capsule_bytes > 0)) {
		slot->error_byte = offsetof(struct nvme_sqe, sgl.type);
		return nvme_status_dnr(NVME_SC_SGL_INVALID_TYPE);
	}
	slot->direction = bytes > 0 ? direction : DATA_NONE;
	slot->data_bytes = bytes;
	return NVME_SC_SUCCESS;
}

/* Bytes of the submission entry that a refusal may name. */
enum sqe_byte {
	SQE_BYTE_NSID = 4,
	SQE_BYTE_CDW10 = 40,
	SQE_BYTE_LOG_LSP = 41, /* bits 14:8 of CDW10 */
	SQE_BYTE_CDW11 = 44,
	SQE_BYTE_CDW12 = 48,
	SQE_BYTE_CDW13 = 52,
	SQE_BYTE_CDW14 = 56,
};

/* A place in the submission entry that is less than a byte: byte in bits 7:0, bit in bits 10:8. */
#define SQE_AT(byte, bit) ((uint16_t)((byte) | (bit) << 8))

/* Refuses with DNR, because a retry cannot succeed. Notes the place at fault. */
static inline nvme_status command_refuse(struct slot *slot, nvme_status status, uint16_t error_byte)
{
	slot->error_byte = error_byte;
	return nvme_status_dnr(status);
}

/* Base 2.1, 3.2.1.5: refuses an NSID without a namespace. NSIDs up to NN are inactive, others
 * invalid. */
static inline nvme_status command_refuse_nsid(struct slot *slot, uint32_t nsid)
{
	bool is_inactive = nsid >= 1 && nsid <= TARGET_NSID_MAX;

	return command_refuse(slot, is_inactive ? NVME_SC_INVALID_FIELD : NVME_SC_INVALID_NS,
			      SQE_BYTE_NSID);
}

nvme_status fabrics_prepare(struct slot *slot); /* cmd_fabrics.c */
/* cmd_fabrics.c: answers a Connect. Success when ctrl is not NULL. */
void connect_finish(struct slot *slot, struct ctrl *ctrl, const struct connect_reject *reject,
		    const struct connect_args *args);
void connect_reject_at(struct connect_reject *reject, nvme_status status, uint16_t offset,
		       bool is_in_data);
nvme_status io_prepare(struct slot *slot);    /* cmd_io.c */
nvme_status abort_prepare(struct slot *slot); /* cmd_abort.c */
/* cmd_cancel.c: a command that a Cancel waits for has ended. On the reactor of their queue. */
void cancel_on_victim_end(struct slot *canceller, bool is_aborted);
nvme_status keep_alive_prepare(struct slot *slot); /* cmd_keep_alive.c */
nvme_status identify_prepare(struct slot *slot);   /* cmd_identify.c */
/* Finds the controllers for CNS 12h (slot->ns is the namespace) or 13h (slot->ns is NULL). Returns
 * their number. On the registry's reactor. */
uint32_t identify_ctrls_find(const struct slot *slot, uint16_t cntlids[IDENTIFY_CTRL_LIST_MAX]);
nvme_status log_prepare(struct slot *slot);           /* cmd_log.c */
nvme_status feature_get_prepare(struct slot *slot);   /* cmd_feature.c */
nvme_status feature_set_prepare(struct slot *slot);   /* cmd_feature.c */
nvme_status async_event_prepare(struct slot *slot);   /* cmd_async_event.c */
nvme_status ctrl_reset_prepare(struct slot *slot);    /* cmd_ctrl_reset.c */
nvme_status ns_management_prepare(struct slot *slot); /* cmd_ns_manage.c */
nvme_status ns_attachment_prepare(struct slot *slot); /* cmd_ns_manage.c */
nvme_status format_prepare(struct slot *slot);        /* cmd_format.c */
nvme_status lba_status_prepare(struct slot *slot);    /* cmd_lba_status.c */

/* For slot_wait.c. */
void async_event_cancel(struct slot *slot); /* cmd_async_event.c */
void ctrl_reset_cancel(struct slot *slot);  /* cmd_ctrl_reset.c */

/* What this controller reports about itself. Used by Identify and by the checks that must agree. */
void ctrl_identity_fill(const struct ctrl *ctrl, struct ctrl_identity *ret_identity);
/* Supported opcodes. Used by the effects log only. */
void command_effects(const struct ctrl *ctrl, struct log_effects *ret_effects);

#endif
