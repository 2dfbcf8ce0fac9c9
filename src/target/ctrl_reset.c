/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a controller for its host, which has lost it. See ctrl_reset.h. Base 2.3 (TP8028).
 *
 * The registry finds the controller. The controller's reactor ends the controller and cancels its
 * commands. The request then waits at the registry until the controller has quiesced: all its
 * queues are closing and none of their commands runs or will (ctrl.c). The request does not wait
 * for connections, whose other end may be dead. Functions named registry_* run on the first
 * reactor.
 *
 * A controller that is not found has ended before, or belonged to a process before this one. For a
 * file that members of a cluster share, this process holds the lock of its predecessor, so no write
 * of the predecessor can arrive any more (media/member_lock.c). That does not hold if the
 * predecessor had another file.
 */
#include "target/ctrl_reset.h"

#include "target/local.h"

#include <string.h>

static void reset_answer(struct reactor_msg *msg)
{
	struct ctrl_reset *reset = container_of(msg, struct ctrl_reset, msg);

	reset->done(reset, reset->result);
}

static void registry_finish(struct ctrl_reset *reset, enum ctrl_reset_result result)
{
	reset->result = result;
	reset->ctrl = NULL;
	reactor_post(reset->reactor, &reset->msg, reset_answer);
}

/* NULL: nothing is left of the instance that could reach a medium. */
static struct ctrl *registry_find(const struct ctrl_reset *reset)
{
	struct ctrl *ctrl =
		reset->cntlid <= NVME_CNTLID_MAX ? reset->target->ctrls[reset->cntlid] : NULL;

	if (!ctrl || ctrl->is_quiesced_known || ctrl->uniquifier != reset->uniquifier ||
	    ctrl->random_number != reset->random_number)
		return NULL;
	return ctrl;
}

static void registry_wait(struct reactor_msg *msg)
{
	struct ctrl_reset *reset = container_of(msg, struct ctrl_reset, msg);

	if (registry_find(reset))
		list_push_back(&reset->target->resets, &reset->node);
	else
		registry_finish(reset, CTRL_RESET_DONE);
}

void registry_on_quiesced(struct ctrl *ctrl)
{
	ctrl->is_quiesced_known = true;
	if (ctrl->resets_waiting == 0)
		return;
	list_for_each_safe(node, &ctrl->target->resets) {
		struct ctrl_reset *reset = list_entry(node, struct ctrl_reset, node);

		if (reset->ctrl != ctrl)
			continue;
		list_remove(&reset->node);
		registry_finish(reset, CTRL_RESET_DONE);
	}
}

/* On the controller's reactor. The controller still exists: it is freed only after an answer of the
 * registry, which comes after this message. */
static void reset_at_ctrl(struct reactor_msg *msg)
{
	struct ctrl_reset *reset = container_of(msg, struct ctrl_reset, msg);
	struct ctrl *ctrl = reset->ctrl;

	ctrl_end(ctrl, "its host asked for a reset through another controller");
	ctrl_cancel_io_queues(ctrl);
	ctrl_cancel_flushes(ctrl);
	if (ctrl->admin)
		queue_cancel_all(ctrl->admin);
	reactor_post(target_registry(reset->target)->reactor, &reset->msg, registry_wait);
}

static bool is_of_asker(const struct ctrl *ctrl, const struct ctrl_reset *reset)
{
	return ctrl->type == CTRL_TYPE_IO &&
	       strcmp(ctrl->subsystem_nqn, reset->subsystem_nqn) == 0 &&
	       strcmp(ctrl->host_nqn, reset->host_nqn) == 0 &&
	       uuid_equal(&ctrl->host_id, &reset->host_id);
}

/* Whether the last writes of a process before this one may still be under way to a file that other
 * members serve: the file is lost here, or its name now means another file. This process does not
 * have the lock of that file. */
static bool registry_is_unsure(const struct ctrl_reset *reset)
{
	const struct subsystem *subsystem = snapshot_find_subsystem(
		target_registry(reset->target)->snapshot, reset->subsystem_nqn);

	if (!subsystem || target_is_own_cirn(reset->target, reset->random_number))
		return false;
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];

		if (ns->is_clustered &&
		    (media_is_lost(ns->media) || (ns->is_withheld && media_is_another(ns->media))))
			return true;
	}
	return false;
}

static void registry_reset(struct reactor_msg *msg)
{
	struct ctrl_reset *reset = container_of(msg, struct ctrl_reset, msg);
	struct ctrl *ctrl = registry_find(reset);

	if (!ctrl) {
		registry_finish(reset,
				registry_is_unsure(reset) ? CTRL_RESET_FAILED : CTRL_RESET_DONE);
	} else if (!is_of_asker(ctrl, reset)) {
		registry_finish(reset, CTRL_RESET_FORBIDDEN);
	} else if (reset->is_exclusive && ctrl->resets_waiting > 0) {
		registry_finish(reset, CTRL_RESET_BUSY);
	} else {
		ctrl->resets_waiting++;
		reset->ctrl = ctrl;
		reactor_post(ctrl->reactor, &reset->msg, reset_at_ctrl);
	}
}

void target_ctrl_reset(struct target *target, struct ctrl_reset *reset)
{
	reset->target = target;
	reset->ctrl = NULL;
	list_init(&reset->node);
	reactor_post(target_registry(target)->reactor, &reset->msg, registry_reset);
}
