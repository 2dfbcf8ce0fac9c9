/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target as a whole: creation and destruction, the part per reactor (struct local), and
 * statistics. Runs on the control reactor, except the statistics. The swap of configurations is in
 * apply.c, the clean end in shutdown.c.
 */
#include "base/clock.h"
#include "ns/bad_blocks.h"
#include "ns/reservation.h"
#include "target/bad_blocks_command.h"
#include "target/host_share.h"
#include "target/local.h"
#include "target/manage.h"
#include "target/reservation_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- create, destroy ----------------------------------------------------------------------- */

static int local_init(struct local *local, struct target *target, unsigned index,
		      const struct target_config *config)
{
	/* Address space, used only when touched: 48 MiB, 48 MiB and 24 MiB. */
	static const unsigned default_counts[BUF_POOL_CLASSES] = {6144, 384, 24};
	bool has_counts = config->buf_counts[0] && config->buf_counts[1] && config->buf_counts[2];
	int res;

	local->reactor = config->reactors[index];
	local->target = target;
	local->index = index;
	list_init(&local->shares);
	list_init(&local->queues);
	list_init(&local->ctrls);
	list_init(&local->barriers);
	list_init(&local->swap_queues);
	list_init(&local->swap_ctrls);
	turn_init(&local->turn, local->reactor);
	turn_host_init(&local->turn_strangers);
	res = buf_pool_create(has_counts ? config->buf_counts : default_counts, &local->buffers);
	if (res == 0)
		buf_pool_join(local->buffers, &local->strangers);
	return res;
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
	manage_init(target);
	reservation_init(target);
	bad_blocks_init(target);
	control_reads_init(target);
	target->started_ns = reactor_clock_ns(config->control);
	target->cntlid_first = config->cntlid_first ? config->cntlid_first : 1;
	target->cntlid_last = config->cntlid_last ? config->cntlid_last : TARGET_CNTLID_MAX;
	target->next_cntlid = target->cntlid_first;
	target->cluster = config->peers;
	if (!target->cluster.reactor)
		target->cluster.reactor = config->control;
	prng_seed(&target->prng, config->random_seed);
	target->cirn_key = prng_next(&target->prng);
	memcpy(target->instance, config->instance, sizeof(target->instance));
	memcpy(target->boot, config->boot, sizeof(target->boot));
	target->loss_source = config->loss_source;
	target->was_flushed = config->was_flushed;
	list_init(&target->resets);
	applies_init(target);
	list_init(&target->listeners);
	list_init(&target->shares);
	list_init(&target->idle_shares);
	target->ctrls = calloc(NVME_CNTLID_MAX + 1, sizeof(struct ctrl *));
	target->uniquifiers = calloc(NVME_CNTLID_MAX + 1, sizeof(*target->uniquifiers));
	target->locals = cache_line_alloc(config->reactor_count * sizeof(*target->locals));
	if (config->reactor_count > 1)
		target->guard = block_guard_create();
	if (!target->ctrls || !target->uniquifiers || !target->locals ||
	    shutdown_prepare(target) != 0 || (config->reactor_count > 1 && !target->guard)) {
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
		turn_stop(&target->locals[i].turn);
		buf_pool_destroy(target->locals[i].buffers);
	}
	applies_stop(target);
	CHECK(list_empty(&target->retired));
	snapshot_destroy(target->snapshot);
	host_shares_destroy(target);
	shutdown_release(target);
	free(target->locals);
	free(target->ctrls);
	free(target->uniquifiers);
	free(target->guard);
	free(target);
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
