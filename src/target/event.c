/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events of a controller: held requests, pending events, and what a new snapshot
 * changes for its host. On the controller's reactor. NVMe Base 2.1, sections 5.1.2 (requests) and
 * 5.1.25.1.5 (configuration).
 *
 * An event is one bit, so that a burst is one report. Once reported it is masked until the host
 * has read the log page that it names; what happens meanwhile is reported afterwards. An event
 * that the host has not enabled stays pending and is reported when it is. The shutdown event is
 * immediate: it names no page, is never masked, and is lost when no request is held.
 */
#include "target/command.h"
#include "target/local.h"

#include <string.h>

struct event_kind {
	enum ctrl_event event;
	uint32_t mask; /* its bit in feature 0Bh */
	bool is_io;    /* I/O controllers know it */
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
	/* Requests that came while the controller was on its way down. */
	if (ctrl->aer_count > 0)
		ctrl_events_flush(ctrl, NVME_SC_ABORT_SQ_DELETION);
	ctrl->event_mask = 0;
	ctrl->events = 0;
	ctrl->events_reported = 0;
	ctrl->changed_count = 0;
	ctrl->has_changed_overflow = false;
	ctrl->io_queues_granted = ctrl->io_queues_max;
	memset(ctrl->host_behavior, 0, sizeof(ctrl->host_behavior));
}

/* SMART warnings belong to every I/O controller; this one never has any. */
uint32_t ctrl_events_supported(const struct ctrl *ctrl)
{
	uint32_t mask = ctrl->type == CTRL_TYPE_IO ? ASYNC_MASK_SMART : 0;

	for (unsigned i = 0; i < ARRAY_LEN(event_kinds); i++)
		if (event_kind_applies(&event_kinds[i], ctrl))
			mask |= event_kinds[i].mask;
	return mask;
}

/* ---- held requests --------------------------------------------------------------------------- */

/* Takes a held request out of the line; the others keep their order. */
static struct slot *aer_take(struct ctrl *ctrl, uint32_t index)
{
	struct slot *slot = ctrl->aer_slots[index];

	ctrl->aer_count--;
	memmove(&ctrl->aer_slots[index], &ctrl->aer_slots[index + 1],
		(ctrl->aer_count - index) * sizeof(ctrl->aer_slots[0]));
	ctrl->aer_slots[ctrl->aer_count] = NULL;
	return slot;
}

/* A held request may wait for ever: it must not keep a snapshot from going. */
static void aer_drop_snapshot(struct slot *slot)
{
	struct local *local = slot->queue->local;
	struct snapshot *snapshot = slot->snapshot;

	if (!snapshot)
		return;
	slot->snapshot = NULL;
	CHECK(snapshot->inflight[local->index].count > 0);
	if (--snapshot->inflight[local->index].count == 0 && snapshot != local->snapshot)
		local_snapshot_idle(snapshot);
}

static void async_event_execute(struct slot *slot)
{
	struct ctrl *ctrl = slot->queue->ctrl;

	if (ctrl->aer_count == CTRL_AER_MAX) {
		slot_complete(slot, nvme_status_dnr(NVME_SC_AER_LIMIT));
		return;
	}
	aer_drop_snapshot(slot);
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

bool ctrl_event_abort(struct ctrl *ctrl, uint16_t cid)
{
	CHECK_OWNER(ctrl);
	for (uint32_t i = 0; i < ctrl->aer_count; i++) {
		if (le16_get(ctrl->aer_slots[i]->sqe.cid) == cid) {
			slot_complete(aer_take(ctrl, i), NVME_SC_ABORT_REQUESTED);
			return true;
		}
	}
	return false;
}

/* ---- events ---------------------------------------------------------------------------------- */

void ctrl_events_report(struct ctrl *ctrl)
{
	for (unsigned i = 0; i < ARRAY_LEN(event_kinds) && ctrl->aer_count > 0; i++) {
		const struct event_kind *kind = &event_kinds[i];
		struct slot *slot;

		if ((ctrl->events & ~ctrl->events_reported & kind->event) == 0 ||
		    (ctrl->event_mask & kind->mask) == 0)
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
 * A read from the start of the page has seen all that was pending. A later part has not: what came
 * up since the first part was read stays pending, and the list of changed namespaces with it.
 */
void ctrl_event_clear(struct ctrl *ctrl, uint8_t log_id, bool is_from_start)
{
	CHECK_OWNER(ctrl);
	for (unsigned i = 0; i < ARRAY_LEN(event_kinds); i++) {
		const struct event_kind *kind = &event_kinds[i];

		if (kind->report.type != ASYNC_TYPE_NOTICE || kind->report.log_id != log_id)
			continue;
		ctrl->events_reported &= ~(uint32_t)kind->event;
		if (is_from_start)
			ctrl->events &= ~(uint32_t)kind->event;
	}
	if (log_id == LOG_CHANGED_NS && (ctrl->events & CTRL_EVENT_NS_ATTRIBUTE) == 0) {
		ctrl->changed_count = 0;
		ctrl->has_changed_overflow = false;
	}
	ctrl_events_report(ctrl);
}

/* The list is kept in ascending order, each NSID once, as the log page wants it. */
void ctrl_event_note_changed_ns(struct ctrl *ctrl, uint32_t nsid)
{
	uint32_t at = ctrl->changed_count;

	CHECK_OWNER(ctrl);
	/* The page then tells nothing but that. */
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

/* ---- what a new snapshot changes --------------------------------------------------------------
 */

static bool ns_attributes_differ(const struct ns *a, const struct ns *b)
{
	return a->block_count != b->block_count || a->block_shift != b->block_shift ||
	       a->store != b->store || a->is_read_only != b->is_read_only ||
	       !uuid_equal(&a->uuid, &b->uuid) || memcmp(a->nguid, b->nguid, sizeof(a->nguid)) != 0;
}

/* Where the two ports come from decides which states the host sees; either may be gone. */
static bool ns_ana_differs(const struct ns *a, const struct port *a_port, const struct ns *b,
			   const struct port *b_port)
{
	if (a->ana_group != b->ana_group)
		return true;
	return a_port && b_port &&
	       port_ana_state(a_port, a->ana_group) != port_ana_state(b_port, b->ana_group);
}

/* Walks both lists, which are in ascending order of NSID, side by side. */
static uint32_t events_of_namespaces(struct ctrl *ctrl, const struct snapshot *old,
				     const struct snapshot *now)
{
	const struct subsystem *a = snapshot_find_subsystem(old, ctrl->subsystem_nqn);
	const struct subsystem *b = snapshot_find_subsystem(now, ctrl->subsystem_nqn);
	const struct port *a_port = snapshot_find_port(old, ctrl->port_id);
	const struct port *b_port = snapshot_find_port(now, ctrl->port_id);
	unsigned a_count = a ? a->ns_count : 0, b_count = b ? b->ns_count : 0;
	unsigned i = 0, k = 0;
	uint32_t events = 0;

	while (i < a_count || k < b_count) {
		const struct ns *was = i < a_count ? &a->namespaces[i] : NULL;
		const struct ns *is = k < b_count ? &b->namespaces[k] : NULL;
		bool is_same = was && is && was->nsid == is->nsid;
		bool is_removed = !is_same && was && (!is || was->nsid < is->nsid);

		i += is_same || is_removed;
		k += is_same || !is_removed;
		if (!is_same || ns_attributes_differ(was, is)) {
			ctrl_event_note_changed_ns(ctrl, is_removed ? was->nsid : is->nsid);
			events |= CTRL_EVENT_NS_ATTRIBUTE;
		}
		if (is_same && ns_ana_differs(was, a_port, is, b_port))
			events |= CTRL_EVENT_ANA_CHANGE;
	}
	return events;
}

void ctrl_events_compare(struct ctrl *ctrl, const struct snapshot *old, const struct snapshot *now)
{
	uint32_t events = 0;

	CHECK_OWNER(ctrl);
	if (!old || !now)
		return;
	if (ctrl->type == CTRL_TYPE_IO)
		events = events_of_namespaces(ctrl, old, now);
	else if (old->discovery_generation != now->discovery_generation)
		events = CTRL_EVENT_DISCOVERY_CHANGE;
	if (events == 0)
		return;
	ctrl->events |= events;
	ctrl_events_report(ctrl);
}
