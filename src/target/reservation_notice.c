/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservation notifications: which controllers get them, the log page of each controller (80h) and
 * its masks (feature 82h). NVMe Base 2.1, sections 8.1.22.2, 5.1.12.1.31 and 5.1.25.1.28.
 *
 * The control reactor knows the hosts. The registry knows the controllers of each host and posts to
 * each controller. On the controller's reactor, a notification that is not masked becomes a page in
 * a first-in-first-out line, and an asynchronous event. When the line is full the oldest page is
 * discarded: the host sees the gap in the count.
 */
#include "base/log.h"
#include "base/sorted.h"
#include "ns/reservation.h"
#include "target/local.h"
#include "target/log.h"
#include "target/reservation_command.h"

#include <errno.h>
#include <stdlib.h>

#define NOTICE_PAGES_MAX 256

struct notice_page {
	uint32_t nsid;
	uint8_t type;
};

/* For the namespace with this UUID. Another namespace that gets the NSID has no mask. */
struct notice_mask {
	uint32_t nsid;
	uint8_t mask;
	struct uuid uuid;
};

/* One notification on its way to one controller. */
struct notice_msg {
	struct reactor_msg msg;
	struct ctrl *ctrl;
	uint32_t nsid;
	struct uuid uuid;
	enum reservation_notice_type type;
};

/* Belongs to a controller. Allocated at the first need. */
struct notices {
	uint64_t count; /* pages made so far */
	uint32_t first;
	uint32_t page_count;
	struct notice_page pages[NOTICE_PAGES_MAX]; /* a ring */
	struct notice_mask *masks;                  /* ascending NSID */
	uint32_t mask_count;
};

static struct notices *ctrl_notices(struct ctrl *ctrl)
{
	if (!ctrl->notices)
		ctrl->notices = calloc(1, sizeof(*ctrl->notices));
	return ctrl->notices;
}

void ctrl_notices_reset(struct ctrl *ctrl)
{
	if (!ctrl->notices)
		return;
	free(ctrl->notices->masks);
	free(ctrl->notices);
	ctrl->notices = NULL;
}

/* ---- masks ----------------------------------------------------------------------------------- */

static uint32_t mask_place(const struct notices *notices, uint32_t nsid)
{
	return SORTED_PLACE(i, notices->mask_count, notices->masks[i].nsid < nsid);
}

static uint32_t mask_find(const struct ctrl *ctrl, uint32_t nsid, const struct uuid *uuid)
{
	const struct notices *notices = ctrl->notices;
	uint32_t place;

	if (!notices)
		return 0;
	place = mask_place(notices, nsid);
	if (place == notices->mask_count || notices->masks[place].nsid != nsid ||
	    !uuid_equal(&notices->masks[place].uuid, uuid))
		return 0;
	return notices->masks[place].mask;
}

uint32_t ctrl_notice_mask(const struct ctrl *ctrl, const struct ns *ns)
{
	return mask_find(ctrl, ns->nsid, &ns->uuid);
}

static struct notice_mask mask_of(const struct ns *ns, uint32_t mask)
{
	return (struct notice_mask){.nsid = ns->nsid, .mask = (uint8_t)mask, .uuid = ns->uuid};
}

int ctrl_notice_mask_set(struct ctrl *ctrl, const struct ns *ns, uint32_t mask)
{
	struct notices *notices = ctrl_notices(ctrl);
	struct notice_mask *masks;
	uint32_t place;

	if (!notices)
		return -ENOMEM;
	place = mask_place(notices, ns->nsid);
	if (place < notices->mask_count && notices->masks[place].nsid == ns->nsid) {
		notices->masks[place] = mask_of(ns, mask);
		return 0;
	}
	if (mask == 0)
		return 0;
	masks = realloc(notices->masks, (notices->mask_count + 1) * sizeof(*masks));
	if (!masks)
		return -ENOMEM;
	notices->masks = masks;
	memmove(&masks[place + 1], &masks[place], (notices->mask_count - place) * sizeof(*masks));
	masks[place] = mask_of(ns, mask);
	notices->mask_count++;
	return 0;
}

int ctrl_notice_mask_set_all(struct ctrl *ctrl, uint32_t mask)
{
	const struct subsystem *subsystem = ctrl->subsystem;
	struct notices *notices = ctrl_notices(ctrl);
	struct notice_mask *masks;
	uint32_t count = 0;

	if (!notices || !subsystem)
		return notices ? 0 : -ENOMEM;
	masks = calloc(subsystem->ns_count + 1, sizeof(*masks));
	if (!masks)
		return -ENOMEM;
	for (unsigned i = 0; mask != 0 && i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];

		if (ns_mask_has(ns->mask, ctrl->host_index))
			masks[count++] = mask_of(ns, mask);
	}
	free(notices->masks);
	notices->masks = masks;
	notices->mask_count = count;
	return 0;
}

/* ---- log page 80h ---------------------------------------------------------------------------- */

uint64_t log_reservation_write(const struct ctrl *ctrl, const struct log_window *window)
{
	const struct notices *notices = ctrl->notices;
	struct log_reservation log = {0};
	uint8_t page[LOG_RESERVATION_BYTES];

	if (notices && notices->page_count > 0) {
		const struct notice_page *first = &notices->pages[notices->first];
		uint32_t others = notices->page_count - 1;

		log.count = notices->count - others;
		log.type = first->type;
		log.nsid = first->nsid;
		log.available = (uint8_t)(others < UINT8_MAX ? others : UINT8_MAX);
	}
	log_reservation_encode(&log, page);
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
}

bool ctrl_notice_pop(struct ctrl *ctrl)
{
	struct notices *notices = ctrl->notices;

	if (!notices || notices->page_count == 0)
		return false;
	notices->first = (notices->first + 1) % NOTICE_PAGES_MAX;
	notices->page_count--;
	return notices->page_count > 0;
}

static void ctrl_notice_add(struct ctrl *ctrl, const struct notice_msg *notice)
{
	struct notices *notices;
	uint32_t place;

	if ((mask_find(ctrl, notice->nsid, &notice->uuid) & NOTICE_MASK(notice->type)) != 0)
		return;
	notices = ctrl_notices(ctrl);
	if (!notices)
		return;
	if (notices->page_count == NOTICE_PAGES_MAX)
		ctrl_notice_pop(ctrl);
	place = (notices->first + notices->page_count) % NOTICE_PAGES_MAX;
	notices->pages[place] = (struct notice_page){
		.nsid = notice->nsid,
		.type = (uint8_t)notice->type,
	};
	notices->page_count++;
	notices->count++;
	ctrl_event_raise(ctrl, CTRL_EVENT_RESERVATION);
}

/* ---- from the control reactor to the controllers --------------------------------------------- */

/* The notices about one namespace of one subsystem, on their way to the registry. */
struct notice_batch {
	struct reactor_msg msg;
	struct target *target;
	char subsystem_nqn[NVME_NQN_BYTES];
	uint32_t nsid;
	struct uuid uuid;
	unsigned count;
	struct reservation_notice notices[]; /* ascending host_id */
};

static int notice_order(const void *a, const void *b)
{
	const struct reservation_notice *x = a, *y = b;

	return memcmp(x->host_id.bytes, y->host_id.bytes, sizeof(x->host_id.bytes));
}

const struct reservation_notice *reservation_notice_find(const struct reservation_notice *notices,
							 unsigned count, const struct uuid *host_id)
{
	struct reservation_notice key = {.host_id = *host_id};

	return bsearch(&key, notices, count, sizeof(*notices), notice_order);
}

static void notice_at_ctrl(struct reactor_msg *msg)
{
	struct notice_msg *notice = container_of(msg, struct notice_msg, msg);

	if (notice->ctrl->state == CTRL_LIVE)
		ctrl_notice_add(notice->ctrl, notice);
	free(notice);
}

/* A registered controller cannot be freed before it has handled this message: to leave, it waits
 * for a later message from the registry. */
static void notice_post(struct ctrl *ctrl, const struct notice_batch *batch,
			enum reservation_notice_type type)
{
	struct notice_msg *notice = malloc(sizeof(*notice));

	if (!notice) {
		log_limited(LOG_LEVEL_WARN, "target",
			    "controller %u: a reservation notification was lost: out of memory",
			    ctrl->cntlid);
		return;
	}
	notice->ctrl = ctrl;
	notice->nsid = batch->nsid;
	notice->uuid = batch->uuid;
	notice->type = type;
	reactor_post(ctrl->reactor, &notice->msg, notice_at_ctrl);
}

static void notice_batch_on_registry(struct reactor_msg *msg)
{
	struct notice_batch *batch = container_of(msg, struct notice_batch, msg);
	const struct target *target = batch->target;
	uint32_t seen = 0;

	for (uint32_t id = 0; id <= NVME_CNTLID_MAX && seen < target->ctrl_count; id++) {
		struct ctrl *ctrl = target->ctrls[id];
		const struct reservation_notice *notice;

		if (!ctrl)
			continue;
		seen++;
		if (strcmp(ctrl->subsystem_nqn, batch->subsystem_nqn) != 0)
			continue;
		notice = reservation_notice_find(batch->notices, batch->count, &ctrl->host_id);
		if (notice)
			notice_post(ctrl, batch, notice->type);
	}
	free(batch);
}

static void notify_ns(struct target *target, const struct subsystem *subsystem, const struct ns *ns,
		      const struct reservation_outcome *outcome)
{
	size_t bytes = outcome->notice_count * sizeof(outcome->notices[0]);
	struct notice_batch *batch = malloc(sizeof(*batch) + bytes);

	if (!batch) {
		log_limited(LOG_LEVEL_WARN, "target",
			    "%s: reservation notifications were lost: out of memory",
			    subsystem->nqn);
		return;
	}
	batch->target = target;
	memcpy(batch->subsystem_nqn, subsystem->nqn, sizeof(batch->subsystem_nqn));
	batch->nsid = ns->nsid;
	batch->uuid = ns->uuid;
	batch->count = outcome->notice_count;
	memcpy(batch->notices, outcome->notices, bytes);
	reactor_post(target_registry(target)->reactor, &batch->msg, notice_batch_on_registry);
}

void reservation_notify(struct target *target, struct ns_live *live,
			struct reservation_outcome *outcome)
{
	const struct snapshot *snapshot = target->snapshot;

	if (outcome->notice_count == 0 || !snapshot)
		return;
	qsort(outcome->notices, outcome->notice_count, sizeof(outcome->notices[0]), notice_order);
	for (unsigned i = 0; i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned k = 0; k < subsystem->ns_count; k++)
			if (subsystem->namespaces[k].locals == ns_live_locals(live))
				notify_ns(target, subsystem, &subsystem->namespaces[k], outcome);
	}
}
