/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loss marks of namespaces whose media have lost writes, and the notices of them. See loss.h.
 *
 * A slot travels to the control reactor, where a new mark is drawn and kept, and back to be
 * answered. The slot is not stopped on its way when its host is gone, because the mark is for all
 * hosts. When another slot has already drawn the mark, nothing is drawn again. The notice goes to
 * the registry, and from there to each controller of the subsystem.
 */
#include "target/loss.h"

#include "base/log.h"
#include "target/local.h"

#include <stdlib.h>
#include <string.h>

/* Reports that hosts must read a namespace again. On its way to the registry, then to one
 * controller. */
struct loss_notice {
	struct reactor_msg msg;
	struct target *target;
	struct ctrl *ctrl;
	char subsystem_nqn[NVME_NQN_BYTES];
	uint32_t nsid;
};

bool loss_is_news(const struct ns *ns)
{
	uint64_t loss = media_loss(ns->media);

	return loss != 0 && loss != ns_live_loss_noted(ns_backing_live(ns->backing));
}

bool loss_is_missed(const struct slot *slot)
{
	const struct ns *ns = slot->ns;
	uint64_t mark;

	return media_loss(ns->media) != slot->loss || loss_is_news(ns) ||
	       (flush_mark_decode(&slot->sqe, &mark) &&
		mark != ns_live_loss_mark(ns_backing_live(ns->backing)));
}

/* ---- notices --------------------------------------------------------------------------------- */

static struct loss_notice *notice_create(const struct loss_notice *from)
{
	struct loss_notice *notice = malloc(sizeof(*notice));

	if (notice)
		*notice = *from;
	else
		log_limited(
			LOG_LEVEL_WARN, "target",
			"%s: out of memory: hosts are not notified of lost writes of namespace %u",
			from->subsystem_nqn, from->nsid);
	return notice;
}

static void notice_at_ctrl(struct reactor_msg *msg)
{
	struct loss_notice *notice = container_of(msg, struct loss_notice, msg);
	struct ctrl *ctrl = notice->ctrl;

	if (ctrl->state == CTRL_LIVE && ctrl_find_ns(ctrl, notice->nsid)) {
		ctrl_event_note_changed_ns(ctrl, notice->nsid);
		ctrl_event_raise(ctrl, CTRL_EVENT_NS_ATTRIBUTE);
	}
	free(notice);
}

/* A registered controller cannot be freed before it has handled this message: to leave, it waits
 * for a later message from the registry. */
static void notice_on_registry(struct reactor_msg *msg)
{
	struct loss_notice *notice = container_of(msg, struct loss_notice, msg);
	const struct target *target = notice->target;
	uint32_t seen = 0;

	for (uint32_t id = 0; id <= NVME_CNTLID_MAX && seen < target->ctrl_count; id++) {
		struct ctrl *ctrl = target->ctrls[id];
		struct loss_notice *copy;

		if (!ctrl)
			continue;
		seen++;
		if (ctrl->type != CTRL_TYPE_IO ||
		    strcmp(ctrl->subsystem_nqn, notice->subsystem_nqn) != 0)
			continue;
		copy = notice_create(notice);
		if (!copy)
			continue;
		copy->ctrl = ctrl;
		reactor_post(ctrl->reactor, &copy->msg, notice_at_ctrl);
	}
	free(notice);
}

static void notice_send(struct target *target, const char *subsystem_nqn, uint32_t nsid)
{
	struct loss_notice from = {.target = target, .nsid = nsid};
	struct loss_notice *notice;

	memcpy(from.subsystem_nqn, subsystem_nqn, sizeof(from.subsystem_nqn));
	notice = notice_create(&from);
	if (notice)
		reactor_post(target_registry(target)->reactor, &notice->msg, notice_on_registry);
}

void target_tell_loss(struct target *target, const struct ns_live *live)
{
	const struct snapshot *snapshot = target_snapshot(target);

	for (unsigned s = 0; snapshot && s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			const struct ns *ns = &subsystem->namespaces[i];

			if (ns_backing_live(ns->backing) == live)
				notice_send(target, subsystem->nqn, ns->nsid);
		}
	}
}

/* ---- marks ----------------------------------------------------------------------------------- */

static int mark_draw(struct target *target, const struct ns *ns)
{
	int res = ns_live_note_loss(ns_backing_live(ns->backing), media_loss(ns->media),
				    &target->keeper);

	if (res != 0)
		log_limited(LOG_LEVEL_ERROR, "target",
			    "%s: cannot save that writes were lost: %s; after a restart, hosts "
			    "that have not flushed by then are not notified",
			    ns->media->spec, strerror(-res));
	if (target->cluster.note_loss)
		target->cluster.note_loss(target->cluster.arg);
	return res;
}

static void ns_note(struct target *target, const struct ctrl *of, const struct ns *ns)
{
	if (!loss_is_news(ns))
		return;
	(void)mark_draw(target, ns);
	notice_send(target, of->subsystem_nqn,
		    ns->nsid); /* the NQN of a controller never changes */
}

static void slot_note(struct slot *slot)
{
	struct target *target = slot->queue->local->target;
	const struct ctrl *ctrl = slot->queue->ctrl;

	if (slot->ns)
		ns_note(target, ctrl, slot->ns);
	for (unsigned i = 0; !slot->ns && i < slot->steps.subsystem->ns_count; i++)
		ns_note(target, ctrl, &slot->steps.subsystem->namespaces[i]);
}

void loss_answer(struct slot *slot, nvme_status status)
{
	slot->status = status;
	slot_visit(slot, slot->queue->local->target->control, slot_note, NULL);
}

static void note_is_home(struct reactor_msg *msg)
{
	struct loss_note *note = container_of(msg, struct loss_note, msg);

	note->done(note);
}

static void note_arrived(struct reactor_msg *msg)
{
	struct loss_note *note = container_of(msg, struct loss_note, msg);

	ns_note(note->ctrl->target, note->ctrl, note->ns);
	reactor_post(note->ctrl->reactor, &note->msg, note_is_home);
}

void loss_note(struct loss_note *note)
{
	reactor_post(note->ctrl->target->control, &note->msg, note_arrived);
}

int loss_at_end(struct target *target, const struct ns *ns)
{
	bool has_nothing = media_is_lost(ns->media) && target->was_flushed &&
			   !ns_live_has_written(ns_backing_live(ns->backing));

	return has_nothing ? 0 : mark_draw(target, ns);
}
