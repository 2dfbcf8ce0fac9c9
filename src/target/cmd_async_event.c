/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events of a controller: held requests, pending events, and the events that a new
 * snapshot raises. Runs on the controller's reactor. NVMe Base 2.1, sections 5.1.2 (requests) and
 * 5.1.25.1.5 (configuration).
 *
 * An event is one bit, so that a burst makes one report. A reported event is masked until the host
 * has read the log page of the event; what happens in between is reported afterwards. An event that
 * the host has not enabled stays pending until the host enables it. The shutdown event is
 * immediate: it has no log page, is never masked, and is lost when no request is held.
 */
#include "ns/reservation.h"
#include "target/ana_index.h"
#include "target/command.h"
#include "target/delta.h"
#include "target/local.h"
#include "target/reservation_command.h"

#include <string.h>

struct event_kind {
	enum ctrl_event event;
	uint32_t mask; /* its bit in feature 0Bh; 0: feature 0Bh cannot disable it */
	bool is_io;    /* applies to I/O controllers */
	bool is_discovery;
	struct async_event report;
};

static const struct event_kind event_kinds[] = {
	{CTRL_EVENT_NS_ATTRIBUTE,
	 ASYNC_MASK_NS_ATTRIBUTE,
	 true,
	 false,
	 {ASYNC_TYPE_NOTICE, ASYNC_NOTICE_NS_ATTRIBUTE, LOG_CHANGED_NS}},
	{CTRL_EVENT_ANA_CHANGE,
	 ASYNC_MASK_ANA_CHANGE,
	 true,
	 false,
	 {ASYNC_TYPE_NOTICE, ASYNC_NOTICE_ANA_CHANGE, LOG_ANA}},
	{CTRL_EVENT_DISCOVERY_CHANGE,
	 ASYNC_MASK_DISCOVERY_CHANGE,
	 false,
	 true,
	 {ASYNC_TYPE_NOTICE, ASYNC_NOTICE_DISCOVERY_CHANGE, LOG_DISCOVERY}},
	{CTRL_EVENT_RESERVATION,
	 0,
	 true,
	 false,
	 {ASYNC_TYPE_IO, ASYNC_IO_RESERVATION, LOG_RESERVATION}},
	{CTRL_EVENT_TEMPERATURE,
	 ASYNC_MASK_SMART_TEMPERATURE,
	 true,
	 false,
	 {ASYNC_TYPE_SMART, ASYNC_SMART_TEMPERATURE, LOG_SMART}},
	{CTRL_EVENT_CTRL_RESET,
	 ASYNC_MASK_CTRL_RESET,
	 true,
	 false,
	 {ASYNC_TYPE_NOTICE, ASYNC_NOTICE_CTRL_RESET, LOG_CTRL_RESET}},
	{CTRL_EVENT_LOST_HOST,
	 ASYNC_MASK_LOST_HOST,
	 true,
	 false,
	 {ASYNC_TYPE_NOTICE, ASYNC_NOTICE_LOST_HOST, LOG_LOST_HOST}},
	{CTRL_EVENT_SHUTDOWN,
	 ASYNC_MASK_SHUTDOWN,
	 true,
	 false,
	 {ASYNC_TYPE_IMMEDIATE, ASYNC_IMMEDIATE_SHUTDOWN, 0}},
};

static bool event_kind_applies(const struct event_kind *kind, const struct ctrl *ctrl)
{
	return ctrl->type == CTRL_TYPE_DISCOVERY ? kind->is_discovery : kind->is_io;
}

void ctrl_events_init(struct ctrl *ctrl)
{
	memset(ctrl->aer_slots, 0, sizeof(ctrl->aer_slots));
	ctrl->aer_count = 0;
	ctrl_events_reset(ctrl);
}

void ctrl_events_reset(struct ctrl *ctrl)
{
	/* Complete requests that arrived while the controller was being reset. */
	if (ctrl->aer_count > 0)
		ctrl_events_flush(ctrl, NVME_SC_ABORT_SQ_DELETION);
	ctrl->event_mask = 0;
	ctrl->events = 0;
	ctrl->events_reported = 0;
	ctrl->changed_count = 0;
	ctrl->has_changed_overflow = false;
	ctrl->lost_count = 0;
	ctrl_notices_reset(ctrl);
	if (ctrl->subsystem && ctrl->port)
		ctrl->ana_count_base =
			ctrl->subsystem->ana_change_count + ctrl->port->ana_change_count;
	ctrl_features_reset(ctrl);
	ctrl_event_page_release(ctrl);
}

/* All SMART warnings are supported on I/O controllers, but only the temperature warning is ever
 * raised. */
uint32_t ctrl_events_supported(const struct ctrl *ctrl)
{
	uint32_t mask = ctrl->type == CTRL_TYPE_IO ? ASYNC_MASK_SMART : 0;

	for (unsigned i = 0; i < ARRAY_LEN(event_kinds); i++)
		if (event_kind_applies(&event_kinds[i], ctrl))
			mask |= event_kinds[i].mask;
	return mask;
}

/* ---- held requests -------------------------------------------------------------------------- */

/* Removes a held request from the array. The others keep their order. */
static struct slot *aer_take(struct ctrl *ctrl, uint32_t index)
{
	struct slot *slot = ctrl->aer_slots[index];

	ctrl->aer_count--;
	memmove(&ctrl->aer_slots[index], &ctrl->aer_slots[index + 1],
		(ctrl->aer_count - index) * sizeof(ctrl->aer_slots[0]));
	ctrl->aer_slots[ctrl->aer_count] = NULL;
	return slot;
}

void async_event_cancel(struct slot *slot)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t index = 0;

	while (index < ctrl->aer_count && ctrl->aer_slots[index] != slot)
		index++;
	CHECK(index < ctrl->aer_count);
	slot_complete(aer_take(ctrl, index), NVME_SC_ABORT_REQUESTED);
}

static void async_event_execute(struct slot *slot)
{
	struct ctrl *ctrl = slot->queue->ctrl;

	if (ctrl->aer_count == CTRL_AER_MAX) {
		slot_complete(slot, nvme_status_dnr(NVME_SC_AER_LIMIT));
		return;
	}
	slot_leave_snapshot(slot);
	slot->wait = SLOT_WAIT_EVENT;
	ctrl->aer_slots[ctrl->aer_count++] = slot;
	ctrl_events_report(ctrl);
}

nvme_status async_event_prepare(struct slot *slot)
{
	slot->execute = async_event_execute;
	return NVME_SC_SUCCESS;
}

void ctrl_events_flush(struct ctrl *ctrl, nvme_status status)
{
	CHECK_OWNER(ctrl);
	while (ctrl->aer_count > 0)
		slot_complete(aer_take(ctrl, 0), status);
}

/* ---- events --------------------------------------------------------------------------------- */

void ctrl_events_report(struct ctrl *ctrl)
{
	for (unsigned i = 0; i < ARRAY_LEN(event_kinds) && ctrl->aer_count > 0; i++) {
		const struct event_kind *kind = &event_kinds[i];
		struct slot *slot;

		if ((ctrl->events & ~ctrl->events_reported & kind->event) == 0 ||
		    (kind->mask != 0 && (ctrl->event_mask & kind->mask) == 0))
			continue;
		ctrl->events &= ~(uint32_t)kind->event;
		if (kind->report.type != ASYNC_TYPE_IMMEDIATE)
			ctrl->events_reported |= kind->event;
		slot = aer_take(ctrl, 0);
		slot->result = async_event_encode(&kind->report);
		slot_complete(slot, NVME_SC_SUCCESS);
	}
	ctrl->events &= ~(uint32_t)CTRL_EVENT_SHUTDOWN;
}

void ctrl_event_raise(struct ctrl *ctrl, enum ctrl_event event)
{
	CHECK_OWNER(ctrl);
	for (unsigned i = 0; i < ARRAY_LEN(event_kinds); i++)
		if (event_kinds[i].event == event && event_kind_applies(&event_kinds[i], ctrl))
			ctrl->events |= event;
	ctrl_events_report(ctrl);
}

/*
 * A read from the start of the page has returned everything that was pending. A read of a later
 * part has not: events since the read of the first part stay pending, and so does the list of
 * changed namespaces.
 */
void ctrl_event_clear(struct ctrl *ctrl, uint8_t log_id, bool is_from_start)
{
	CHECK_OWNER(ctrl);
	for (unsigned i = 0; i < ARRAY_LEN(event_kinds); i++) {
		const struct event_kind *kind = &event_kinds[i];

		if (kind->report.type == ASYNC_TYPE_IMMEDIATE || kind->report.log_id != log_id)
			continue;
		ctrl->events_reported &= ~(uint32_t)kind->event;
		if (is_from_start)
			ctrl->events &= ~(uint32_t)kind->event;
	}
	if (log_id == LOG_CHANGED_NS && (ctrl->events & CTRL_EVENT_NS_ATTRIBUTE) == 0) {
		ctrl->changed_count = 0;
		ctrl->has_changed_overflow = false;
	}
	/* The notice that the host has read is removed. More notices are queued: the event is
	 * pending again. */
	if (log_id == LOG_RESERVATION && ctrl_notice_pop(ctrl))
		ctrl->events |= CTRL_EVENT_RESERVATION;
	ctrl_events_report(ctrl);
}

/* Keeps the list ascending, with each NSID once, as the log page requires. */
void ctrl_event_note_changed_ns(struct ctrl *ctrl, uint32_t nsid)
{
	uint32_t at = ctrl->changed_count;

	CHECK_OWNER(ctrl);
	/* After an overflow the page reports the overflow and no NSIDs. */
	if (ctrl->has_changed_overflow)
		return;
	while (at > 0 && ctrl->changed_nsids[at - 1] > nsid)
		at--;
	if (at > 0 && ctrl->changed_nsids[at - 1] == nsid)
		return;
	if (ctrl->changed_count == LOG_CHANGED_NS_MAX) {
		ctrl->has_changed_overflow = true;
		return;
	}
	memmove(&ctrl->changed_nsids[at + 1], &ctrl->changed_nsids[at],
		(ctrl->changed_count - at) * sizeof(ctrl->changed_nsids[0]));
	ctrl->changed_nsids[at] = nsid;
	ctrl->changed_count++;
}

/* ---- what a new snapshot changes ------------------------------------------------------------ */

/* A host is notified of namespaces that it sees or saw. For the host, a namespace that is now
 * hidden from it is removed. */
static uint32_t events_of_namespaces(struct ctrl *ctrl, const struct subsystem_delta *delta)
{
	uint32_t events = 0;

	for (unsigned i = 0; i < delta->change_count; i++) {
		const struct ns_change *change = &delta->changes[i];
		bool was_seen =
			change->was && ns_mask_has(change->was->mask, ctrl->host_index_before);
		bool is_seen = change->is && ns_mask_has(change->is->mask, ctrl->host_index);

		if (was_seen != is_seen ||
		    (is_seen && (change->has_attributes || change->has_group))) {
			ctrl_event_note_changed_ns(ctrl,
						   (is_seen ? change->is : change->was)->nsid);
			events |= CTRL_EVENT_NS_ATTRIBUTE;
		}
		if (was_seen && is_seen && change->has_group)
			events |= CTRL_EVENT_ANA_CHANGE;
	}
	return events;
}

/* The event when the host sees a namespace of a group whose state has changed on this port, else
 * 0. */
static uint32_t events_of_groups(const struct ctrl *ctrl, const struct port_delta *delta)
{
	for (unsigned i = 0; i < delta->group_count; i++)
		if (ana_index_has(ctrl->subsystem, delta->groups[i], ctrl->host_index))
			return CTRL_EVENT_ANA_CHANGE;
	return 0;
}

void ctrl_events_of_swap(struct ctrl *ctrl, const struct delta *delta)
{
	uint32_t events = 0;

	CHECK_OWNER(ctrl);
	if (ctrl->type == CTRL_TYPE_IO) {
		if (ctrl->subsystem_delta)
			events |= events_of_namespaces(ctrl, ctrl->subsystem_delta);
		if (ctrl->port_delta && ctrl->subsystem)
			events |= events_of_groups(ctrl, ctrl->port_delta);
	} else if (delta->old->discovery_generation != delta->now->discovery_generation) {
		events = CTRL_EVENT_DISCOVERY_CHANGE;
	}
	if (events == 0)
		return;
	ctrl->events |= events;
	ctrl_events_report(ctrl);
}
