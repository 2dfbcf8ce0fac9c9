/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features in which a host describes itself and what it wants: temperature thresholds (04h), the
 * time (0Eh), its behaviour (16h), its identifier (81h). Runs on the controller's reactor. NVMe
 * Base 2.1, sections 5.1.25.1.3, 5.1.25.1.7, 5.1.25.1.14 and 5.1.25.1.27.
 *
 * The only temperature is the composite temperature, a constant. A threshold that the constant
 * crosses still raises a warning. The host identifier comes with Connect and cannot be set. A
 * change of the time is added to the subsystem's event log on the control reactor; the command does
 * not wait for that.
 */
#include "ns/event_log.h"
#include "ns/health.h"
#include "target/feature.h"
#include "target/local.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- 04h Temperature Threshold ------------------------------------------------------------- */

static uint32_t *threshold_of(struct ctrl_features *features, uint8_t kind)
{
	return kind == TEMPERATURE_OVER ? &features->temperature_over_k
					: &features->temperature_under_k;
}

void feature_temperature_get(struct slot *slot, const struct feature_cmd *cmd)
{
	struct temperature_cmd wanted = feature_temperature_decode(cmd->cdw11);
	uint32_t by_default = wanted.kind == TEMPERATURE_OVER ? CTRL_WARN_TEMPERATURE_K : 0;

	if (wanted.sensor != TEMPERATURE_COMPOSITE || wanted.kind > TEMPERATURE_UNDER)
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11 + 2);
	else
		feature_answer(slot,
			       cmd->select == FEATURE_CURRENT
				       ? *threshold_of(&slot->queue->ctrl->features, wanted.kind)
				       : by_default);
}

void feature_temperature_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct temperature_cmd wanted = feature_temperature_decode(cmd->cdw11);
	struct ctrl *ctrl = slot->queue->ctrl;
	bool had_warning = ctrl_has_temperature_warning(ctrl);

	if ((wanted.sensor != TEMPERATURE_COMPOSITE && wanted.sensor != TEMPERATURE_ALL_SENSORS) ||
	    wanted.kind > TEMPERATURE_UNDER) {
		feature_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW11 + 2);
		return;
	}
	*threshold_of(&ctrl->features, wanted.kind) = wanted.kelvin;
	feature_answer(slot, 0);
	if (ctrl_has_temperature_warning(ctrl) && !had_warning)
		ctrl_event_raise(ctrl, CTRL_EVENT_TEMPERATURE);
}

bool ctrl_has_temperature_warning(const struct ctrl *ctrl)
{
	return HEALTH_TEMPERATURE_K >= ctrl->features.temperature_over_k ||
	       HEALTH_TEMPERATURE_K <= ctrl->features.temperature_under_k;
}

/* ---- 0Eh Timestamp ------------------------------------------------------------------------- */

static struct timestamp timestamp_of(const struct ctrl *ctrl, bool is_current)
{
	const struct ctrl_features *features = &ctrl->features;
	uint64_t since_ns = reactor_now_ns(ctrl->reactor) - features->timestamp_at_ns;

	if (!is_current)
		return (struct timestamp){0};
	return (struct timestamp){
		.ms = features->timestamp_ms + since_ns / NS_PER_MS,
		.is_set = features->is_timestamp_set,
	};
}

void feature_timestamp_get(struct slot *slot, const struct feature_cmd *cmd)
{
	struct timestamp now = timestamp_of(slot->queue->ctrl, cmd->select == FEATURE_CURRENT);

	timestamp_encode(&now, slot->data.addr);
	feature_answer(slot, 0);
}

/*
 * The event of a controller, which travels to the control reactor. One at a time: the events of
 * changes that come meanwhile are left out, so that a host cannot fill the control reactor's queue.
 * Owned by the controller, and by the control reactor while the event travels. Holds a reference to
 * the live state that owns the log meanwhile, so that the log outlasts the message.
 */
struct timestamp_note {
	struct reactor_msg msg;
	atomic_uint refs;
	atomic_bool is_under_way;
	struct subsystem_live *live;
	struct event_place place;
	uint8_t data[EVENT_TIMESTAMP_CHANGE_BYTES];
};

static void timestamp_note_put(struct timestamp_note *note)
{
	if (note && atomic_fetch_sub(&note->refs, 1) == 1)
		free(note);
}

void ctrl_timestamp_note_release(struct ctrl *ctrl)
{
	timestamp_note_put(ctrl->timestamp_note);
	ctrl->timestamp_note = NULL;
}

/* NULL: out of memory, or the event is still under way. */
static struct timestamp_note *timestamp_note_take(struct ctrl *ctrl)
{
	struct timestamp_note *note = ctrl->timestamp_note;

	if (!note) {
		note = calloc(1, sizeof(*note));
		if (!note)
			return NULL;
		atomic_init(&note->refs, 1);
		ctrl->timestamp_note = note;
	}
	if (atomic_exchange(&note->is_under_way, true))
		return NULL;
	atomic_fetch_add(&note->refs, 1);
	return note;
}

static void timestamp_note_here(struct reactor_msg *msg)
{
	struct timestamp_note *note = container_of(msg, struct timestamp_note, msg);

	event_log_add(subsystem_live_events(note->live), EVENT_TIMESTAMP, &note->place, note->data,
		      sizeof(note->data));
	subsystem_live_put(note->live);
	atomic_store(&note->is_under_way, false);
	timestamp_note_put(note);
}

/* When out of memory, the change is left out of the event log. */
static void timestamp_note_send(struct ctrl *ctrl)
{
	struct timestamp previous = timestamp_of(ctrl, true);
	uint64_t up_ns = reactor_now_ns(ctrl->reactor) - ctrl->features.reset_at_ns;
	struct timestamp_note *note;

	if (!ctrl->subsystem || !ctrl->subsystem->live)
		return;
	note = timestamp_note_take(ctrl);
	if (!note)
		return;
	note->live = subsystem_live_get(ctrl->subsystem->live);
	note->place = (struct event_place){.cntlid = ctrl->cntlid, .port_id = ctrl->port_id};
	event_timestamp_encode(&previous, up_ns / NS_PER_MS, note->data);
	reactor_post(ctrl->target->control, &note->msg, timestamp_note_here);
}

void feature_timestamp_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	struct timestamp wanted;

	timestamp_note_send(ctrl);
	timestamp_decode(slot->data.addr, &wanted);
	ctrl->features.timestamp_ms = wanted.ms;
	ctrl->features.timestamp_at_ns = reactor_now_ns(ctrl->reactor);
	ctrl->features.is_timestamp_set = true;
	feature_answer(slot, 0);
}

/* ---- 16h Host Behavior Support --------------------------------------------------------------- */

void feature_behavior_get(struct slot *slot, const struct feature_cmd *cmd)
{
	if (cmd->select == FEATURE_CURRENT)
		memcpy(slot->data.addr, slot->queue->ctrl->host_behavior, HOST_BEHAVIOR_BYTES);
	feature_answer(slot, 0);
}

/* A switch must be 0 or 1. A copy descriptor format that the target does not support cannot be
 * enabled. */
static bool behavior_is_valid(const uint8_t *data)
{
	unsigned formats = data[HOST_BEHAVIOR_CDFE] | data[HOST_BEHAVIOR_CDFE + 1] << 8;

	for (unsigned i = HOST_BEHAVIOR_ACRE; i <= HOST_BEHAVIOR_HDISNS; i++)
		if (data[i] > 1)
			return false;
	return (formats & ~TARGET_COPY_FORMATS) == 0;
}

void feature_behavior_set(struct slot *slot, const struct feature_cmd *cmd)
{
	struct ctrl *ctrl = slot->queue->ctrl;

	if (!behavior_is_valid(slot->data.addr)) {
		slot_complete(slot, nvme_status_dnr(NVME_SC_INVALID_FIELD));
		return;
	}
	memcpy(ctrl->host_behavior, slot->data.addr, HOST_BEHAVIOR_BYTES);
	ctrl_note_host_behavior(ctrl);
	feature_answer(slot, 0);
}

/* ---- 81h Host Identifier --------------------------------------------------------------------- */

void feature_host_id_get(struct slot *slot, const struct feature_cmd *cmd)
{
	if (cmd->select == FEATURE_CURRENT)
		memcpy(slot->data.addr, slot->queue->ctrl->host_id.bytes, FEATURE_HOST_ID_BYTES);
	feature_answer(slot, 0);
}

void feature_host_id_set(struct slot *slot, const struct feature_cmd *cmd)
{
	feature_refuse(slot, NVME_SC_CMD_SEQUENCE, SQE_BYTE_CDW10);
}
