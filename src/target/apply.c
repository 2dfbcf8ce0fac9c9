/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The swap of configurations. The control reactor works out what differs (delta.c); the registry
 * opens new listeners; every reactor then points its queues and controllers into the new snapshot,
 * all in one callback, and after that tells its hosts what changed, a slice at a time, so that I/O
 * goes on meanwhile; the registry closes listeners no longer named; the control reactor hears the
 * result. All without a lock and without stopping a queue.
 *
 * An old snapshot is freed when no command on any reactor uses it. Who asked for it then hears that
 * nothing runs under that configuration, or an older one, any more.
 */
#include "base/clock.h"
#include "target/delta.h"
#include "target/health.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>

/* Eight callbacks, which are counted together, should not hold a reactor for 1 ms. */
#define SWAP_SLICE_NS    (100 * NS_PER_US)
#define SWAP_SLICE_CTRLS 64

/* One target_apply; the control reactor's, but for what the steps fill in. */
struct apply {
	struct reactor_msg msg;
	struct target *target;
	struct snapshot *snapshot;
	struct snapshot *old; /* held by each reactor until it has told its hosts */
	struct delta *delta;  /* NULL for the first one */
	atomic_uint swaps_missing;
	void (*applied)(void *arg, int res, const char *error);
	void (*drained)(void *arg); /* NULL: nobody asks */
	void *arg;
	int res;
	uint64_t old_generation;
	struct list node; /* in target->drains, after `applied` */
	char error[192];
	struct bound_ports bound; /* filled by the registry */
};

/* ---- snapshots go -----------------------------------------------------------------------------
 */

/* Calls those who wait for snapshots that are all gone. They may apply the next one. */
static void drains_fire(struct target *target)
{
	while (!list_empty(&target->drains)) {
		struct apply *apply = list_entry(target->drains.next, struct apply, node);
		const struct snapshot *oldest;

		if (!list_empty(&target->retired)) {
			oldest = list_entry(target->retired.next, struct snapshot, node);
			if (oldest->generation <= apply->old_generation)
				return;
		}
		list_remove(&apply->node);
		apply->drained(apply->arg);
		free(apply);
	}
}

static void snapshot_free_here(struct reactor_msg *msg)
{
	struct snapshot *snapshot = container_of(msg, struct snapshot, free_msg);
	struct target *target = snapshot->target;

	list_remove(&snapshot->node);
	snapshot_destroy(snapshot);
	drains_fire(target);
}

void local_snapshot_idle(struct snapshot *snapshot)
{
	if (atomic_fetch_sub(&snapshot->acks_missing, 1) == 1)
		reactor_post(snapshot->target->control, &snapshot->free_msg, snapshot_free_here);
}

static void local_leave_snapshot(struct local *local, struct snapshot *snapshot)
{
	CHECK(snapshot->inflight[local->index].count > 0);
	if (--snapshot->inflight[local->index].count == 0 && snapshot != local->snapshot)
		local_snapshot_idle(snapshot);
}

void slot_leave_snapshot(struct slot *slot)
{
	struct snapshot *snapshot = slot->snapshot;

	CHECK_OWNER(slot->queue);
	slot->snapshot = NULL;
	slot->ns = NULL;
	if (snapshot)
		local_leave_snapshot(slot->queue->local, snapshot);
}

void applies_destroy(struct target *target)
{
	struct list *node;

	while ((node = list_pop_front(&target->drains)))
		free(list_entry(node, struct apply, node));
	CHECK(list_empty(&target->retired));
}

/* ---- the end of an apply ----------------------------------------------------------------------
 */

static void apply_failed(struct apply *apply)
{
	apply->target->apply = NULL;
	snapshot_destroy(apply->snapshot);
	delta_destroy(apply->delta);
	apply->applied(apply->arg, apply->res, apply->error);
	free(apply);
}

static void apply_finished(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);
	struct target *target = apply->target;

	target->apply = NULL;
	target->bound = apply->bound;
	delta_destroy(apply->delta);
	health_adopt(apply->snapshot);
	if (!apply->drained) {
		apply->applied(apply->arg, 0, apply->error);
		free(apply);
		return;
	}
	/* In line first: `applied` may begin the next change, which waits for more than this one.
	 * Nothing fires from inside it: snapshots go by a message. */
	list_push_back(&target->drains, &apply->node);
	apply->applied(apply->arg, 0, apply->error);
	drains_fire(target);
}

static void apply_close_unused(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);

	apply->target->ctrls_max = apply->snapshot->limits.ctrls_max;
	ports_close_unused(apply->target, apply->snapshot, &apply->bound);
	reactor_post(apply->target->control, &apply->msg, apply_finished);
}

/* ---- on each reactor --------------------------------------------------------------------------
 */

/* The next queue is closed, or the next controller hears what changed. False: that was all. */
static bool swap_next(struct local *local, const struct delta *delta)
{
	struct list *node = list_pop_front(&local->swap_queues);

	if (node) {
		queue_close(list_entry(node, struct queue, swap_node),
			    "it has no place in the configuration any more");
		return true;
	}
	node = list_pop_front(&local->swap_ctrls);
	if (node)
		ctrl_tell(list_entry(node, struct ctrl, swap_node), delta);
	return node != NULL;
}

/* Some of them; then the reactor does something else for a turn. */
static void swap_go_on(struct reactor_msg *msg)
{
	struct local *local = container_of(msg, struct local, swap_msg);
	struct apply *apply = local->target->apply;
	uint64_t end_ns = reactor_clock_ns(local->reactor) + SWAP_SLICE_NS;

	for (unsigned i = 0; swap_next(local, apply->delta); i++) {
		if (i == SWAP_SLICE_CTRLS || reactor_clock_ns(local->reactor) > end_ns) {
			reactor_post(local->reactor, &local->swap_msg, swap_go_on);
			return;
		}
	}
	if (apply->old)
		local_leave_snapshot(local, apply->old);
	if (atomic_fetch_sub(&apply->swaps_missing, 1) == 1)
		reactor_post(target_registry(apply->target)->reactor, &apply->msg,
			     apply_close_unused);
}

static void swap_here(struct reactor_msg *msg)
{
	struct local *local = container_of(msg, struct local, swap_msg);
	struct apply *apply = local->target->apply;

	CHECK(local->snapshot == apply->old);
	local->snapshot = apply->snapshot;
	if (apply->old) {
		/* The delta refers to it. */
		apply->old->inflight[local->index].count++;
		list_for_each(node, &local->queues) {
			struct queue *queue = list_entry(node, struct queue, node);

			if (!queue_swap(queue, apply->delta))
				list_push_back(&local->swap_queues, &queue->swap_node);
		}
		list_for_each(node, &local->ctrls) {
			struct ctrl *ctrl = list_entry(node, struct ctrl, node);

			ctrl_swap(ctrl, apply->delta);
			list_push_back(&local->swap_ctrls, &ctrl->swap_node);
		}
	}
	swap_go_on(msg);
}

/* ---- the way there ----------------------------------------------------------------------------
 */

/* Back on the control reactor: the listeners stand, or the change is off. From here on nothing
 * can fail. */
static void apply_ports_opened(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);
	struct target *target = apply->target;

	if (apply->res != 0) {
		apply_failed(apply);
		return;
	}
	atomic_store(&apply->snapshot->acks_missing, target->local_count);
	atomic_store(&apply->swaps_missing, target->local_count);
	if (apply->old)
		list_push_back(&target->retired, &apply->old->node);
	target->snapshot = apply->snapshot;
	for (unsigned i = 0; i < target->local_count; i++)
		reactor_post(target->locals[i].reactor, &target->locals[i].swap_msg, swap_here);
}

static void apply_open_ports(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);

	apply->res = ports_open(apply->target, apply->snapshot, apply->error, sizeof(apply->error));
	reactor_post(apply->target->control, &apply->msg, apply_ports_opened);
}

/* Before anybody reads or writes them. */
static void apply_guard_media(struct target *target, struct snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned j = 0; j < subsystem->ns_count; j++) {
			const struct ns *ns = &subsystem->namespaces[j];

			/* Only once: reactors may use a medium that an older snapshot has too. */
			if (ns->mapped && ns->media->guard != target->guard)
				ns->media->guard = target->guard;
		}
	}
}

void target_apply_and_drain(struct target *target, struct snapshot *taken_snapshot,
			    void (*applied)(void *arg, int res, const char *error),
			    void (*drained)(void *arg), void *arg)
{
	struct apply *apply = calloc(1, sizeof(*apply));

	CHECK(!target->apply);
	CHECK(taken_snapshot->port_count <= TARGET_PORTS_MAX);
	/* Before the delta, which marks what is new with it. */
	taken_snapshot->generation = target->next_generation + 1;
	taken_snapshot->inflight = cache_line_alloc(target->local_count * sizeof(struct inflight));
	if (!apply || !taken_snapshot->inflight ||
	    delta_prepare(target->snapshot, taken_snapshot, &apply->delta) != 0) {
		free(apply);
		snapshot_destroy(taken_snapshot);
		applied(arg, -ENOMEM, "out of memory");
		return;
	}
	apply_guard_media(target, taken_snapshot);
	taken_snapshot->target = target;
	target->next_generation++;
	apply->target = target;
	apply->snapshot = taken_snapshot;
	apply->old = target->snapshot;
	apply->old_generation = apply->old ? apply->old->generation : 0;
	apply->applied = applied;
	apply->drained = drained;
	apply->arg = arg;
	target->apply = apply;
	reactor_post(target_registry(target)->reactor, &apply->msg, apply_open_ports);
}

void target_apply(struct target *target, struct snapshot *taken_snapshot,
		  void (*applied)(void *arg, int res, const char *error), void *arg)
{
	target_apply_and_drain(target, taken_snapshot, applied, NULL, arg);
}
