/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target as a whole: its reactors' halves (struct local), the swap of snapshots, shutdown.
 *
 * Swap: the registry opens new listeners; every reactor then points its queues and controllers into
 * the new snapshot and tells hosts what changed; the registry closes listeners no longer named; the
 * control reactor hears the result. The old snapshot is freed when no command on any reactor uses
 * it. All without a lock and without stopping a queue.
 */
#include "base/clock.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One target_apply under way; the control reactor's, but for what the steps fill in. */
struct apply {
	struct reactor_msg msg;
	struct target *target;
	struct snapshot *snapshot;
	struct snapshot *old;
	atomic_uint swaps_missing;
	void (*applied)(void *arg, int res, const char *error);
	void *arg;
	int res;
	char error[192];
	struct bound_ports bound; /* filled by the registry */
};

/* ---- create, destroy
 * ----------------------------------------------------------------------------- */

static int local_init(struct local *local, struct target *target, unsigned index,
		      const struct target_config *config)
{
	/* Touched only when used: 48 MiB, 48 MiB and 24 MiB of address space. */
	static const unsigned default_counts[BUF_POOL_CLASSES] = {6144, 384, 24};
	bool has_counts = config->buf_counts[0] && config->buf_counts[1] && config->buf_counts[2];

	local->reactor = config->reactors[index];
	local->target = target;
	local->index = index;
	list_init(&local->queues);
	list_init(&local->ctrls);
	return buf_pool_create(has_counts ? config->buf_counts : default_counts, &local->buffers);
}

int target_create(const struct target_config *config, struct target **ret_target)
{
	struct target *target = calloc(1, sizeof(*target));

	if (!target)
		return -ENOMEM;
	target->control = config->control;
	target->discovery_log = config->discovery_log;
	target->power_cycles = config->power_cycles;
	target->unsafe_shutdowns = config->unsafe_shutdowns;
	target->keeper = config->keeper;
	target->manage = config->manage;
	target->manage_arg = config->manage_arg;
	target->started_ns = reactor_clock_ns(config->control);
	target->next_cntlid = 1;
	list_init(&target->listeners);
	list_init(&target->peers);
	target->ctrls = calloc(NVME_CNTLID_MAX + 1, sizeof(struct ctrl *));
	target->locals = cache_line_alloc(config->reactor_count * sizeof(*target->locals));
	if (!target->ctrls || !target->locals) {
		target_destroy(target);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < config->reactor_count; i++) {
		int res = local_init(&target->locals[i], target, i, config);

		if (res != 0) {
			target_destroy(target);
			return res;
		}
		target->local_count++;
	}
	*ret_target = target;
	return 0;
}

void target_destroy(struct target *target)
{
	for (unsigned i = 0; i < target->local_count; i++) {
		CHECK(list_empty(&target->locals[i].queues));
		buf_pool_destroy(target->locals[i].buffers);
	}
	snapshot_destroy(target->snapshot);
	free(target->locals);
	free(target->ctrls);
	free(target);
}

/* ---- the swap
 * ----------------------------------------------------------------------------------------- */

static void snapshot_free_here(struct reactor_msg *msg)
{
	snapshot_destroy(container_of(msg, struct snapshot, free_msg));
}

void local_snapshot_idle(struct snapshot *snapshot)
{
	if (atomic_fetch_sub(&snapshot->acks_missing, 1) == 1)
		reactor_post(snapshot->target->control, &snapshot->free_msg, snapshot_free_here);
}

static void apply_finished(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);
	struct target *target = apply->target;

	target->apply = NULL;
	if (apply->res == 0) {
		target->snapshot = apply->snapshot;
		target->bound = apply->bound;
	} else {
		snapshot_destroy(apply->snapshot);
	}
	apply->applied(apply->arg, apply->res, apply->error);
	free(apply);
}

static void apply_close_unused(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);

	apply->target->ctrls_max = apply->snapshot->limits.ctrls_max;
	ports_close_unused(apply->target, apply->snapshot, &apply->bound);
	reactor_post(apply->target->control, &apply->msg, apply_finished);
}

static void local_swap(struct local *local, struct snapshot *snapshot)
{
	struct snapshot *old = local->snapshot;

	local->snapshot = snapshot;
	list_for_each(node, &local->queues)
		queue_rebind(list_entry(node, struct queue, node), snapshot);
	list_for_each_safe(node, &local->ctrls)
		ctrl_rebind(list_entry(node, struct ctrl, node), old, snapshot);
	if (old && old->inflight[local->index].count == 0)
		local_snapshot_idle(old);
}

static void swap_here(struct reactor_msg *msg)
{
	struct local *local = container_of(msg, struct local, swap_msg);
	struct apply *apply = local->target->apply;

	local_swap(local, apply->snapshot);
	if (atomic_fetch_sub(&apply->swaps_missing, 1) == 1)
		reactor_post(target_registry(apply->target)->reactor, &apply->msg,
			     apply_close_unused);
}

/* Back on the control reactor: the listeners stand, or the change is off. From here on nothing
 * can fail. */
static void apply_ports_opened(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);
	struct target *target = apply->target;

	if (apply->res != 0) {
		apply_finished(msg);
		return;
	}
	atomic_store(&apply->snapshot->acks_missing, target->local_count);
	atomic_store(&apply->swaps_missing, target->local_count);
	for (unsigned i = 0; i < target->local_count; i++)
		reactor_post(target->locals[i].reactor, &target->locals[i].swap_msg, swap_here);
}

static void apply_open_ports(struct reactor_msg *msg)
{
	struct apply *apply = container_of(msg, struct apply, msg);

	apply->res = ports_open(apply->target, apply->snapshot, apply->error, sizeof(apply->error));
	reactor_post(apply->target->control, &apply->msg, apply_ports_opened);
}

void target_apply(struct target *target, struct snapshot *taken_snapshot,
		  void (*applied)(void *arg, int res, const char *error), void *arg)
{
	struct apply *apply = calloc(1, sizeof(*apply));

	CHECK(!target->apply);
	CHECK(taken_snapshot->port_count <= TARGET_PORTS_MAX);
	taken_snapshot->inflight = cache_line_alloc(target->local_count * sizeof(struct inflight));
	if (!apply || !taken_snapshot->inflight || shutdown_prepare(taken_snapshot) != 0) {
		free(apply);
		snapshot_destroy(taken_snapshot);
		applied(arg, -ENOMEM, "out of memory");
		return;
	}
	taken_snapshot->target = target;
	taken_snapshot->generation = ++target->next_generation;
	/* Base 2.1, 5.1.12.1.13: rises whenever the ANA log may have changed, like GENCTR. */
	taken_snapshot->ana_change_count =
		target->snapshot ? target->snapshot->ana_change_count + 1 : 0;
	apply->target = target;
	apply->snapshot = taken_snapshot;
	apply->applied = applied;
	apply->arg = arg;
	target->apply = apply;
	reactor_post(target_registry(target)->reactor, &apply->msg, apply_open_ports);
}

const struct snapshot *target_snapshot(const struct target *target)
{
	return target->snapshot;
}

int target_port_addr(const struct target *target, uint16_t port_id, struct net_addr *ret_addr)
{
	const struct bound_ports *bound = &target->bound;

	for (unsigned i = 0; i < bound->count; i++) {
		if (bound->ids[i] == port_id) {
			*ret_addr = bound->addrs[i];
			return 0;
		}
	}
	return -ENOENT;
}

void target_get_stats(const struct target *target, struct target_stats *ret_stats)
{
	*ret_stats = (struct target_stats){
		.connections = atomic_load(&target->connections_now),
		.ctrls = atomic_load(&target->ctrls_now),
		.connections_refused = atomic_load(&target->connections_refused),
		.protocol_errors = atomic_load(&target->protocol_errors),
		.keep_alive_expiries = atomic_load(&target->keep_alive_expiries),
	};
	for (unsigned i = 0; i < target->local_count; i++) {
		ret_stats->commands += atomic_load(&target->locals[i].commands);
		ret_stats->buffers_in_use += buf_pool_in_use(target->locals[i].buffers);
	}
}
