/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Swaps configurations. The control reactor computes the delta (delta.c). The registry opens new
 * listeners. Each reactor points its queues and controllers into the new snapshot, all in one
 * callback, and then notifies its hosts of the changes in slices, so that I/O continues in between.
 * The registry closes the listeners that the new snapshot does not name. The control reactor
 * reports the result to the caller. No lock is taken and no queue stops.
 *
 * A barrier then reports when no command that the change concerns runs under a former
 * configuration. An old snapshot is freed when no command on any reactor uses it. Commands that
 * hold an old snapshot for long are released from it (judge_again.h).
 */
#include "base/clock.h"
#include "ns/health.h"
#include "target/barrier.h"
#include "target/delta.h"
#include "target/health_note.h"
#include "target/judge_again.h"
#include "target/local.h"
#include "target/reach.h"
#include "wire/reservation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Eight slices must take less than the 1 ms that a reactor counts as a stall. */
#define SWAP_SLICE_NS    (100 * NS_PER_US)
#define SWAP_SLICE_CTRLS 64
/* After this time, commands that hold a former snapshot are released from it where possible. */
#define RETIRE_AFTER_NS (5 * NS_PER_S)

/* One call of target_apply. The control reactor owns all fields, except those that the steps on
 * other reactors fill in. */
struct apply {
	struct reactor_msg msg;
	struct target *target;
	struct snapshot *snapshot;
	struct snapshot *old; /* held by each reactor until the hosts of the reactor are notified */
	struct delta *delta;  /* NULL for the first snapshot */
	atomic_uint swaps_missing;
	void (*applied)(void *arg, int res, const char *error);
	void (*drained)(void *arg, int res); /* NULL: the caller does not wait for the drain */
	void *arg;
	int res;
	uint64_t old_generation;
	struct barrier *barrier; /* calls `drained`; NULL without `drained` */
	/* The change has two steps, and `scope` names its commands. Otherwise the barrier waits for
	 * the commands from which the change takes a right. */
	bool has_scope;
	struct target_scope scope;
	struct uuid *uuids; /* owned; scope.uuids points here */
	/* Namespaces of which the change takes a right from some host; sorted, owned. */
	struct uuid *taken;
	unsigned taken_count;
	bool has_lost_places; /* hosts may have lost the right to connect: their queues close */
	char error[192];
	struct bound_ports bound; /* filled by the registry */
};

/* ---- freeing snapshots ---------------------------------------------------------------------- */

static void snapshot_free_here(struct reactor_msg *msg)
{
	struct snapshot *snapshot = container_of(msg, struct snapshot, free_msg);

	list_remove(&snapshot->node);
	snapshot_destroy(snapshot);
}

void local_snapshot_idle(struct snapshot *snapshot)
{
	if (atomic_fetch_sub(&snapshot->acks_missing, 1) == 1)
		reactor_post(snapshot->target->control, &snapshot->free_msg, snapshot_free_here);
}

void local_leave_snapshot(struct local *local, struct snapshot *snapshot)
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

static void retire_timer_arm(struct target *target)
{
	if (!target->retire_timer.armed && atomic_load(&target->retires_missing) == 0 &&
	    !target->shutdown.is_running)
		reactor_timer_arm(&target->retire_timer,
				  reactor_now_ns(target->control) + RETIRE_AFTER_NS);
}

/* Snapshots that are still listed have running commands. Check them again later. */
static void retire_looked(struct reactor_msg *msg)
{
	struct target *target = container_of(msg, struct target, retire_msg);

	if (!list_empty(&target->retired))
		retire_timer_arm(target);
}

static void retire_here(struct reactor_msg *msg)
{
	struct local *local = container_of(msg, struct local, retire_msg);
	struct target *target = local->target;

	local_leave_retired(local);
	if (atomic_fetch_sub(&target->retires_missing, 1) == 1)
		reactor_post(target->control, &target->retire_msg, retire_looked);
}

/* The messages sent here reach every reactor, and the last answer reaches the control reactor,
 * before the target ends: the messages of a shutdown take the same way, behind them. */
static void on_retire_timer(struct reactor_timer *timer)
{
	struct target *target = container_of(timer, struct target, retire_timer);

	if (list_empty(&target->retired))
		return;
	atomic_store(&target->retires_missing, target->local_count);
	for (unsigned i = 0; i < target->local_count; i++)
		reactor_post(target->locals[i].reactor, &target->locals[i].retire_msg, retire_here);
}

void applies_init(struct target *target)
{
	list_init(&target->retired);
	reactor_timer_init(target->control, &target->retire_timer, on_retire_timer);
}

void applies_stop(struct target *target)
{
	reactor_timer_cancel(&target->retire_timer);
}

/* ---- what a change concerns ----------------------------------------------------------------- */

static bool scope_has_ns(const struct ns *ns, const void *arg)
{
	const struct apply *apply = arg;

	for (unsigned i = 0; i < apply->scope.uuid_count; i++) {
		if (uuid_equal(&ns->uuid, &apply->uuids[i]))
			return true;
	}
	return apply->scope.ana_group != 0 && ns->ana_group == apply->scope.ana_group;
}

static bool opcode_leaves_media_alone(uint8_t opcode)
{
	return opcode == NVME_OPCODE_FABRICS || opcode == NVME_IO_CANCEL ||
	       opcode == NVME_IO_RESERVATION_REGISTER || opcode == NVME_IO_RESERVATION_REPORT ||
	       opcode == NVME_IO_RESERVATION_ACQUIRE || opcode == NVME_IO_RESERVATION_RELEASE;
}

static bool scope_touches(const struct slot *slot, const void *arg)
{
	const struct apply *apply = arg;
	bool is_flush_all = slot->sqe.opcode == NVME_IO_FLUSH && !slot->ns;

	/* A refused command reaches no medium. A command that must be judged again does not begin
	 * under a former configuration. */
	if (!slot->snapshot || slot->snapshot->generation > apply->old_generation ||
	    !nvme_status_is_ok(slot->early_status) || slot->must_judge_again ||
	    opcode_leaves_media_alone(slot->sqe.opcode))
		return false;
	if (apply->scope.ana_group != 0 && slot->queue->port_id != apply->scope.port_id)
		return false;
	/* A Flush of all namespaces ignores ANA states. */
	if (is_flush_all && apply->scope.uuid_count == 0)
		return false;
	return slot_reaches(slot, scope_has_ns, apply);
}

/* ---- rights that a change takes -------------------------------------------------------------- */

static int compare_uuids(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct uuid));
}

static bool taken_has_ns(const struct ns *ns, const void *arg)
{
	const struct apply *apply = arg;

	return bsearch(&ns->uuid, apply->taken, apply->taken_count, sizeof(*apply->taken),
		       compare_uuids) != NULL;
}

/*
 * Commands that wait have not begun, and are judged again before they begin (judge_again.h). A
 * command that executes is judged again before its next piece (reach.h), so it ends with the piece
 * that a medium works on now. Flush only makes durable what was written before.
 */
static bool taken_touches(const struct slot *slot, const void *arg)
{
	const struct apply *apply = arg;

	if (slot->state != SLOT_EXECUTING || slot->is_fused_ready || !slot->snapshot ||
	    slot->snapshot->generation > apply->old_generation ||
	    !nvme_status_is_ok(slot->early_status) || slot->sqe.opcode == NVME_IO_FLUSH ||
	    opcode_leaves_media_alone(slot->sqe.opcode))
		return false;
	if (slot->queue->state != QUEUE_LIVE)
		return apply->has_lost_places;
	return slot_reaches(slot, taken_has_ns, apply) &&
	       !nvme_status_is_ok(slot_check_rights(slot));
}

/* Nobody reads or writes a removed namespace, so the removal waits for no command. */
static bool change_takes_right(const struct ns_change *change)
{
	return change->was && change->is &&
	       (change->has_visibility || (change->is->is_read_only && !change->was->is_read_only));
}

static void taken_add(struct apply *apply, const struct subsystem_delta *subsystem)
{
	apply->has_lost_places |= subsystem->is && subsystem->has_hosts;
	for (unsigned i = 0; i < subsystem->change_count; i++)
		if (change_takes_right(&subsystem->changes[i]))
			apply->taken[apply->taken_count++] = subsystem->changes[i].was->uuid;
}

/* Without a delta, no command has begun. 0 or -ENOMEM. */
static int apply_collect_taken(struct apply *apply)
{
	const struct delta *delta = apply->delta;
	unsigned count = 0;

	if (!delta || !apply->barrier || apply->has_scope)
		return 0;
	for (unsigned i = 0; i < delta->subsystem_count; i++)
		count += delta->subsystems[i].change_count;
	apply->taken = calloc(count + 1, sizeof(*apply->taken));
	if (!apply->taken)
		return -ENOMEM;
	for (unsigned i = 0; i < delta->subsystem_count; i++)
		taken_add(apply, &delta->subsystems[i]);
	qsort(apply->taken, apply->taken_count, sizeof(*apply->taken), compare_uuids);
	return 0;
}

/* False: the change takes no right, and no command has to be waited for. */
static bool apply_must_drain(const struct apply *apply)
{
	return apply->has_scope || apply->taken_count > 0 || apply->has_lost_places;
}

/* ---- the end of an apply -------------------------------------------------------------------- */

static void apply_free(struct apply *apply)
{
	if (!apply)
		return;
	barrier_free(apply->barrier);
	free(apply->uuids);
	free(apply->taken);
	free(apply);
}

static void apply_failed(struct apply *apply)
{
	apply->target->apply = NULL;
	snapshot_destroy(apply->snapshot);
	delta_destroy(apply->delta);
	apply->applied(apply->arg, apply->res, apply->error);
	apply_free(apply);
}

static void apply_drained(void *arg, int res)
{
	struct apply *apply = arg;

	apply->drained(apply->arg, res);
	apply_free(apply);
}

static void apply_finished(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);
	struct barrier *barrier = apply->barrier;
	struct target *target = apply->target;

	target->apply = NULL;
	target->bound = apply->bound;
	delta_destroy(apply->delta);
	health_adopt(apply->snapshot);
	apply->applied(apply->arg, 0, apply->error);
	if (barrier && apply_must_drain(apply)) {
		apply->barrier = NULL;
		barrier_start(barrier, apply_drained, apply);
	} else if (barrier) {
		apply_drained(apply, 0);
	} else {
		apply_free(apply);
	}
}

static void apply_close_unused(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);

	apply->target->ctrls_max = apply->snapshot->limits.ctrls_max;
	ports_close_unused(apply->target, apply->snapshot, &apply->bound);
	reactor_post(apply->target->control, &apply->msg, apply_finished);
}

/* ---- on each reactor ------------------------------------------------------------------------ */

/* Closes the next queue that has lost its place, or else notifies the next controller of the
 * changes. False: nothing is left to do. */
static bool swap_next(struct local *local, const struct delta *delta)
{
	struct list *node = list_pop_front(&local->swap_queues);

	if (node) {
		queue_close(list_entry(node, struct queue, swap_node),
			    "the configuration no longer allows the connection");
		return true;
	}
	node = list_pop_front(&local->swap_ctrls);
	if (node)
		ctrl_tell(list_entry(node, struct ctrl, swap_node), delta);
	return node != NULL;
}

/* Runs one slice, then lets the reactor do other work for a turn. */
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
	local->rules++;
	if (apply->barrier && apply->has_scope)
		barrier_mark(apply->barrier, local);
	if (apply->old) {
		/* Keep the old snapshot until the hosts are notified: the delta points into it. */
		apply->old->inflight[local->index].count++;
		list_for_each(node, &local->queues) {
			struct queue *queue = list_entry(node, struct queue, node);

			bool has_place = queue_swap(queue, apply->delta);

			if (!has_place)
				list_push_back(&local->swap_queues, &queue->swap_node);
			queue_cut_off_outdated(queue, has_place);
		}
		list_for_each(node, &local->ctrls) {
			struct ctrl *ctrl = list_entry(node, struct ctrl, node);

			ctrl_swap(ctrl, apply->delta);
			list_push_back(&local->swap_ctrls, &ctrl->swap_node);
		}
	}
	swap_go_on(msg);
}

/* ---- the steps of an apply ------------------------------------------------------------------ */

/* Back on the control reactor. Either the listeners are open, or the change has failed. From here
 * on nothing can fail. */
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
	if (apply->old) {
		list_push_back(&target->retired, &apply->old->node);
		retire_timer_arm(target);
	}
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

/* Sets the guard of mapped media before any command reads or writes them. */
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

/* Prepares everything that `drained` needs. 0 or -ENOMEM. */
static int apply_prepare_drain(struct apply *apply, const struct target_scope *scope)
{
	const struct barrier_scope touched = {
		.touches = scope ? scope_touches : taken_touches,
		.arg = apply,
	};

	apply->barrier = barrier_create(apply->target, &touched);
	if (!scope)
		return apply->barrier ? 0 : -ENOMEM;
	apply->has_scope = true;
	apply->uuids = calloc(scope->uuid_count + 1, sizeof(*apply->uuids));
	if (!apply->barrier || !apply->uuids)
		return -ENOMEM;
	if (scope->uuid_count > 0)
		memcpy(apply->uuids, scope->uuids, scope->uuid_count * sizeof(*apply->uuids));
	apply->scope = *scope;
	apply->scope.uuids = apply->uuids;
	return 0;
}

void target_apply_and_drain(struct target *target, struct snapshot *taken_snapshot,
			    const struct target_scope *scope,
			    void (*applied)(void *arg, int res, const char *error),
			    void (*drained)(void *arg, int res), void *arg)
{
	struct apply *apply = calloc(1, sizeof(*apply));

	CHECK(!target->apply);
	CHECK(taken_snapshot->port_count <= TARGET_PORTS_MAX);
	if (apply)
		apply->target = target;
	/* Set before delta_prepare, which stamps new and changed namespaces with this
	 * generation. */
	taken_snapshot->generation = target->next_generation + 1;
	taken_snapshot->inflight = cache_line_alloc(target->local_count * sizeof(struct inflight));
	if (!apply || !taken_snapshot->inflight ||
	    (drained && apply_prepare_drain(apply, scope) != 0) ||
	    delta_prepare(target->snapshot, taken_snapshot, &apply->delta) != 0 ||
	    apply_collect_taken(apply) != 0) {
		if (apply)
			delta_destroy(apply->delta);
		apply_free(apply);
		snapshot_destroy(taken_snapshot);
		applied(arg, -ENOMEM, "out of memory");
		return;
	}
	apply_guard_media(target, taken_snapshot);
	taken_snapshot->target = target;
	target->next_generation++;
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
	target_apply_and_drain(target, taken_snapshot, NULL, applied, NULL, arg);
}
