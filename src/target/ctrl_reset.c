/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a controller for its host, which has lost it. See ctrl_reset.h. Base 2.3 (TP8028).
 *
 * A request goes to the registry, which finds the controller, to the controller's reactor, which
 * ends it and cancels its commands, and back to the registry, where it waits until the controller
 * has quiesced: all its queues are closing and none of their commands runs or will (ctrl.c). That
 * does not wait for connections, whose other end may be dead. Functions named registry_* run on
 * the first reactor.
 *
 * A controller that is not found ended before, or was of a process before this one. Of a file that
 * members of a cluster share, this process holds the lock of its predecessor, so nothing of that
 * one can come any more (media/member_lock.c); unless the predecessor had another file.
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

/* NULL: there is nothing left of the instance that could reach a medium. */
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

/* On the controller's reactor. It is there: it cannot leave the registry before the registry has
 * answered it, which comes after this. */
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

/* The last writes of a process before this one may still be under way to a file that others serve:
 * it is lost here, or its name has become another file's. Its lock is not ours to ask. */
static bool registry_is_unsure(const struct ctrl_reset *reset)
{
	const struct subsystem *subsystem = snapshot_find_subsystem(
		target_registry(reset->target)->snapshot, reset->subsystem_nqn);

	if (!subsystem || target_is_own_cirn(reset->target, reset->random_number))
		return false;
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];

		if (ns->is_clustered &&
		    (media_is_lost(ns->media) || (ns->is_held && media_is_another(ns->media))))
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
