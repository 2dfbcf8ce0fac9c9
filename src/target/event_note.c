/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the events of management commands to the persistent event log. See event_note.h.
 *
 * Runs on the control reactor. The event log belongs to the subsystem in the snapshot in force.
 * Events of a subsystem without live state (nothing of the subsystem is kept) are dropped.
 */
#include "target/event_note.h"

#include "base/log.h"
#include "ns/event_log.h"
#include "ns/health.h"
#include "target/local.h"
#include "target/manage.h"
#include "wire/feature.h"
#include "wire/lba_format.h"

#include <string.h>

static struct subsystem_live *live_of(struct target *target, const char *subsystem_nqn)
{
	const struct snapshot *snapshot = target_snapshot(target);
	const struct subsystem *subsystem =
		snapshot ? snapshot_find_subsystem(snapshot, subsystem_nqn) : NULL;

	return subsystem ? subsystem->live : NULL;
}

static struct subsystem_live *request_live(struct target *target,
					   const struct manage_request *request)
{
	return live_of(target, request->subsystem_nqn);
}

/* The change itself was kept before its event. The command therefore does not fail when the event
 * cannot be kept: subsystem_live_keep tries the event again within a minute. */
static void events_keep(struct target *target, struct subsystem_live *live)
{
	if (subsystem_live_keep_events(live, &target->keeper) != 0)
		log_limited(LOG_LEVEL_WARN, "target", "%s: cannot save an event yet",
			    subsystem_live_nqn(live));
}

static void note_change_ns(struct event_log *log, const struct manage_request *request)
{
	bool is_delete = request->kind == MANAGE_NS_DELETE;
	struct event_change_ns change = {
		.is_delete = is_delete,
		.nsid = is_delete ? request->nsid : request->result_nsid,
	};
	uint8_t bytes[EVENT_CHANGE_NS_BYTES];

	if (!is_delete) {
		change.block_count = request->block_count;
		change.format = (uint8_t)lba_format_find(request->block_bytes);
		change.is_shared = !request->is_private;
		change.ana_group_id = request->ana_group;
	}
	event_change_ns_encode(&change, bytes);
	event_log_add(log, EVENT_CHANGE_NS, NULL, bytes, sizeof(bytes));
}

/* The event holds CDW10 and CDW11 of the command, rebuilt from the request. The label follows as
 * data. */
static void note_set_feature(struct event_log *log, const struct manage_request *request)
{
	bool is_label = request->kind == MANAGE_NS_LABEL;
	uint16_t data_bytes = is_label ? TARGET_NS_LABEL_BYTES : 0;
	uint8_t bytes[EVENT_SET_FEATURE_BYTES + TARGET_NS_LABEL_BYTES] = {0};
	uint32_t dwords[EVENT_SET_FEATURE_DWORDS] = {0};

	dwords[0] = is_label ? FEATURE_NS_LABEL : FEATURE_WRITE_PROTECT;
	dwords[1] = is_label ? 0 : request->write_protect;
	event_set_feature_encode(dwords, data_bytes, bytes);
	if (is_label)
		memcpy(bytes + EVENT_SET_FEATURE_BYTES, request->label,
		       strnlen(request->label, TARGET_NS_LABEL_BYTES));
	event_log_add(log, EVENT_SET_FEATURE, NULL, bytes, EVENT_SET_FEATURE_BYTES + data_bytes);
}

void event_log_note_begin(struct target *target, const struct manage_request *request)
{
	struct subsystem_live *live = request_live(target, request);
	uint8_t bytes[EVENT_FORMAT_BYTES];

	if (!live || request->kind != MANAGE_FORMAT)
		return;
	event_format_start_encode(request->nsid, 0,
				  lba_format_find(request->block_bytes) |
					  (request->erases ? EVENT_FORMAT_ERASES : 0),
				  bytes);
	event_log_add(subsystem_live_events(live), EVENT_FORMAT_START, NULL, bytes, sizeof(bytes));
}

void event_log_note_end(struct target *target, const struct manage_request *request)
{
	struct subsystem_live *live = request_live(target, request);
	uint8_t bytes[EVENT_FORMAT_BYTES];
	struct event_log *log;

	if (!live || (!nvme_status_is_ok(request->status) && request->kind != MANAGE_FORMAT))
		return;
	log = subsystem_live_events(live);
	switch (request->kind) {
	case MANAGE_NS_CREATE:
	case MANAGE_NS_DELETE:
		note_change_ns(log, request);
		break;
	case MANAGE_FORMAT:
		event_format_end_encode(request->nsid, request->status, bytes);
		event_log_add(log, EVENT_FORMAT_END, NULL, bytes, sizeof(bytes));
		break;
	case MANAGE_WRITE_PROTECT:
	case MANAGE_NS_LABEL:
		note_set_feature(log, request);
		break;
	case MANAGE_NS_ATTACH:
	case MANAGE_NS_DETACH:
		return;
	}
	events_keep(target, live);
}

void event_log_note_feature(struct target *target, const char *subsystem_nqn, uint8_t feature_id,
			    uint32_t value)
{
	const uint32_t dwords[EVENT_SET_FEATURE_DWORDS] = {feature_id, value};
	struct subsystem_live *live = live_of(target, subsystem_nqn);
	uint8_t bytes[EVENT_SET_FEATURE_BYTES];

	if (!live)
		return;
	event_set_feature_encode(dwords, 0, bytes);
	event_log_add(subsystem_live_events(live), EVENT_SET_FEATURE, NULL, bytes, sizeof(bytes));
}
