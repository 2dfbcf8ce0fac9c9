/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features of a controller that are one number: arbitration (01h), power (02h), write cache (06h),
 * number of queues (07h), interrupts (08h, 09h), write atomicity (0Ah), events (0Bh), keep alive
 * (0Fh). Runs on the controller's reactor. NVMe Base 2.1, section 5.1.25.
 *
 * The write cache is the cache of the media: Get reports the cache as enabled, and Set cannot
 * disable the cache. There is one power state, and the only arbitration is round robin. Over
 * fabrics there are no interrupts: features 08h and 09h have no effect. Setting DN (0Ah) does not
 * change how atomic writes are.
 */
#include "target/feature.h"
#include "target/local.h"

#include <string.h>

#define CACHE_ENABLED         1u
#define ARBITRATION_DEFAULT   7u /* AB 111b: no limit to a burst */
#define ARBITRATION_RESERVED  0xf8u
#define POWER_STATE_MASK      0x1fu
#define POWER_WORKLOAD_SHIFT  5
#define POWER_WORKLOAD_MASK   7u
#define COALESCING_MASK       0xffffu
#define VECTOR_MASK           0xffffu
#define VECTOR_NOT_COALESCED  (1u << 16) /* CD */
#define ATOMICITY_NOT_NEEDED  1u         /* DN */
#define TEMPERATURE_DEFAULT_K CTRL_WARN_TEMPERATURE_K

static bool is_current(const struct feature_cmd *cmd)
{
	return cmd->select == FEATURE_CURRENT;
}

void ctrl_features_reset(struct ctrl *ctrl)
{
	ctrl->features = (struct ctrl_features){
		.arbitration = ARBITRATION_DEFAULT,
		.temperature_over_k = TEMPERATURE_DEFAULT_K,
		.reset_at_ns = ctrl->reactor ? reactor_now_ns(ctrl->reactor) : 0,
	};
	ctrl->features.timestamp_at_ns = ctrl->features.reset_at_ns;
	ctrl->io_queues_granted = ctrl->io_queues_max;
	memset(ctrl->host_behavior, 0, sizeof(ctrl->host_behavior));
	ctrl_note_host_behavior(ctrl);
}

/* ---- 01h Arbitration ----------------------------------------------------------------------- */

void feature_arbitration_get(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_answer(slot, is_current(cmd) ? slot->queue->ctrl->features.arbitration
					     : ARBITRATION_DEFAULT);
}

void feature_arbitration_set(struct slot *slot, const struct feature_cmd *cmd)
{
	slot->queue->ctrl->features.arbitration = cmd->cdw11 & ~ARBITRATION_RESERVED;
	feature_answer(slot, 0);
}

/* ---- 02h Power Management ------------------------------------------------------------------ */

void feature_power_get(struct slot *slot, const struct feature_cmd *cmd)
{
	uint32_t hint = is_current(cmd) ? slot->queue->ctrl->features.workload_hint : 0;

	feature_answer(slot, hint << POWER_WORKLOAD_SHIFT);
}

void feature_power_set(struct slot *slot, const struct feature_cmd *cmd)
{
	if ((cmd->cdw11 & POWER_STATE_MASK) != 0) {
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
		return;
	}
	slot->queue->ctrl->features.workload_hint =
		cmd->cdw11 >> POWER_WORKLOAD_SHIFT & POWER_WORKLOAD_MASK;
	feature_answer(slot, 0);
}

/* ---- 06h Volatile Write Cache ---------------------------------------------------------------- */

void feature_cache_get(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_answer(slot, CACHE_ENABLED);
}

void feature_cache_set(struct slot *slot, const struct feature_cmd *cmd)
{
	if ((cmd->cdw11 & CACHE_ENABLED) == 0)
		feature_refuse(slot, NVME_SC_FEATURE_NOT_CHANGEABLE, SQE_BYTE_CDW11);
	else
		feature_answer(slot, 0);
}

/* ---- 07h Number of Queues -------------------------------------------------------------------- */

void feature_queue_count_get(struct slot *slot, const struct feature_cmd *cmd)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t count = is_current(cmd) ? ctrl->io_queues_granted : ctrl->io_queues_max;

	feature_answer(slot, feature_queue_count_encode(count, count));
}

/* Over fabrics a queue is a pair, so the smaller of the two numbers counts. */
void feature_queue_count_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t sq_count, cq_count, count;

	if (!nvme_status_is_ok(feature_queue_count_decode(cmd->cdw11, &sq_count, &cq_count))) {
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
		return;
	}
	if (ctrl->io_queue_count > 0) {
		feature_refuse(slot, NVME_SC_CMD_SEQUENCE, SQE_BYTE_CDW10);
		return;
	}
	count = sq_count < cq_count ? sq_count : cq_count;
	ctrl->io_queues_granted = count < ctrl->io_queues_max ? count : ctrl->io_queues_max;
	feature_answer(
		slot, feature_queue_count_encode(ctrl->io_queues_granted, ctrl->io_queues_granted));
}

/* ---- 08h Interrupt Coalescing, 09h Interrupt Vector Configuration -------------------------- */

void feature_coalescing_get(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_answer(slot, is_current(cmd) ? slot->queue->ctrl->features.coalescing : 0);
}

void feature_coalescing_set(struct slot *slot, const struct feature_cmd *cmd)
{
	slot->queue->ctrl->features.coalescing = cmd->cdw11 & COALESCING_MASK;
	feature_answer(slot, 0);
}

/* Each queue has one vector. Vector 0 belongs to the admin queue. */
static bool vector_exists(const struct slot *slot, const struct feature_cmd *cmd)
{
	return (cmd->cdw11 & VECTOR_MASK) <= slot->queue->ctrl->io_queues_max;
}

void feature_vector_get(struct slot *slot, const struct feature_cmd *cmd)
{
	if (!vector_exists(slot, cmd))
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
	else
		feature_answer(slot, (cmd->cdw11 & VECTOR_MASK) | VECTOR_NOT_COALESCED);
}

void feature_vector_set(struct slot *slot, const struct feature_cmd *cmd)
{
	if (!vector_exists(slot, cmd))
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11);
	else if ((cmd->cdw11 & VECTOR_NOT_COALESCED) == 0)
		feature_refuse(slot, NVME_SC_FEATURE_NOT_CHANGEABLE, SQE_BYTE_CDW11 + 2);
	else
		feature_answer(slot, 0);
}

/* ---- 0Ah Write Atomicity Normal ------------------------------------------------------------ */

void feature_atomicity_get(struct slot *slot, const struct feature_cmd *cmd)
{
	bool is_waived = is_current(cmd) && slot->queue->ctrl->features.has_atomicity_waived;

	feature_answer(slot, is_waived ? ATOMICITY_NOT_NEEDED : 0);
}

void feature_atomicity_set(struct slot *slot, const struct feature_cmd *cmd)
{
	slot->queue->ctrl->features.has_atomicity_waived = (cmd->cdw11 & ATOMICITY_NOT_NEEDED) != 0;
	feature_answer(slot, 0);
}

/* ---- 0Bh Asynchronous Event Configuration ---------------------------------------------------- */

void feature_async_event_get(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_answer(slot, is_current(cmd) ? slot->queue->ctrl->event_mask : 0);
}

/* Unsupported events stay masked. Get reports the events that are enabled. */
void feature_async_event_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;

	ctrl->event_mask = cmd->cdw11 & ctrl_events_supported(ctrl);
	ctrl_events_report(ctrl);
	feature_answer(slot, 0);
}

/* ---- 0Fh Keep Alive Timer -------------------------------------------------------------------- */

void feature_keep_alive_get(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_answer(slot, is_current(cmd) ? slot->queue->ctrl->kato_ms : 0);
}

void feature_keep_alive_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t max_ms = ctrl->local->snapshot->limits.kato_max_ms;
	uint32_t steps = cmd->cdw11 / CTRL_KEEP_ALIVE_STEP_MS;

	if (max_ms != 0 && cmd->cdw11 > max_ms) {
		feature_refuse(slot, NVME_SC_KEEP_ALIVE_INVALID, SQE_BYTE_CDW11);
		return;
	}
	/* Round up, unless the result would not fit 32 bits. */
	if (cmd->cdw11 % CTRL_KEEP_ALIVE_STEP_MS != 0 &&
	    steps < UINT32_MAX / CTRL_KEEP_ALIVE_STEP_MS)
		steps++;
	ctrl->kato_ms = steps * CTRL_KEEP_ALIVE_STEP_MS;
	ctrl_keep_alive_start(ctrl);
	feature_answer(slot, 0);
}
