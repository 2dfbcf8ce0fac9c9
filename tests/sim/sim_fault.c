/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network faults that tests request by address: cuts, partitions, limits, half-closes, stalls and
 * one break at a given byte. Without an address they apply to every TCP connection. AF_UNIX
 * sockets, which stay inside a machine, are affected only through their own address. One thread.
 */
#include "sim_internal.h"

#include <stdlib.h>

/* `server`: the address that a test gave; NULL: all TCP connections. */
static bool end_is_meant(const struct sim_end *end, const struct net_addr *server)
{
	return server ? sim_addr_same(&end->server, server) : !end->is_local;
}

void sim_net_set_faults(struct sim *sim, const struct sim_faults *faults)
{
	sim->options.faults = *faults;
	if (sim->options.faults.stall_max_us == 0)
		sim->options.faults.stall_max_us = 100000;
}

unsigned sim_net_cut(struct sim *sim, const struct net_addr *server)
{
	unsigned count = 0;

	for (size_t i = 0; i < sim->end_count; i++) {
		struct sim_end *end = sim->ends[i];

		if (!end || !end->peer || end->is_closed || end->error ||
		    !end_is_meant(end, server))
			continue;
		sim_end_reset_both(end);
		count++;
	}
	return count;
}

unsigned sim_net_half_close(struct sim *sim, const struct net_addr *server, bool to_server)
{
	unsigned count = 0;

	for (size_t i = 0; i < sim->end_count; i++) {
		struct sim_end *end = sim->ends[i];

		if (!end || !end->peer || end->is_server == to_server || end->is_closed ||
		    end->is_fin_sent || end->error || !end_is_meant(end, server))
			continue;
		sim_trace(sim, "net: %d sends nothing any more", end->fd);
		sim_end_send_fin(end);
		count++;
	}
	return count;
}

/* ---- partitions ----------------------------------------------------------------------------- */

bool sim_net_is_held(const struct sim *sim, const struct net_addr *server,
		     enum sim_direction direction)
{
	list_for_each(node, &sim->partitions) {
		struct sim_partition *partition = list_entry(node, struct sim_partition, node);

		if (partition->is_cut[direction] &&
		    (partition->is_all ? !sim_addr_is_unix(server)
				       : sim_addr_same(&partition->server, server)))
			return true;
	}
	return false;
}

bool sim_net_is_partitioned(const struct sim *sim, const struct net_addr *server)
{
	return sim_net_is_held(sim, server, SIM_TO_CLIENT) ||
	       sim_net_is_held(sim, server, SIM_TO_SERVER);
}

static void partition_begin(struct sim *sim, const struct net_addr *server, const bool ways[2])
{
	struct sim_partition *partition = sim_alloc(sizeof(*partition));

	partition->is_all = server == NULL;
	if (server)
		partition->server = *server;
	partition->is_cut[SIM_TO_CLIENT] = ways[SIM_TO_CLIENT];
	partition->is_cut[SIM_TO_SERVER] = ways[SIM_TO_SERVER];
	list_push_back(&sim->partitions, &partition->node);
}

static void partition_heal(struct sim *sim, const struct net_addr *server, const bool ways[2])
{
	list_for_each_safe(node, &sim->partitions) {
		struct sim_partition *partition = list_entry(node, struct sim_partition, node);

		if (server && !partition->is_all && !sim_addr_same(&partition->server, server))
			continue;
		for (unsigned way = 0; way < 2; way++)
			partition->is_cut[way] = partition->is_cut[way] && !ways[way];
		if (partition->is_cut[SIM_TO_CLIENT] || partition->is_cut[SIM_TO_SERVER])
			continue;
		list_remove(node);
		free(partition);
	}
}

static void partition_set(struct sim *sim, const struct net_addr *server, const bool ways[2],
			  bool is_cut)
{
	if (is_cut)
		partition_begin(sim, server, ways);
	else
		partition_heal(sim, server, ways);
	for (size_t i = 0; i < sim->end_count; i++) {
		struct sim_end *end = sim->ends[i];

		if (!end)
			continue;
		if (sim_net_is_held(sim, &end->server,
				    end->is_server ? SIM_TO_SERVER : SIM_TO_CLIENT))
			sim_event_cancel(&end->deliver_event);
		else
			sim_end_deliver_schedule(end);
	}
}

void sim_net_partition(struct sim *sim, const struct net_addr *server, bool is_cut)
{
	static const bool both[2] = {true, true};

	sim_trace(sim, "net: partition %s", is_cut ? "begins" : "heals");
	partition_set(sim, server, both, is_cut);
}

void sim_net_partition_one_way(struct sim *sim, const struct net_addr *server, bool to_server,
			       bool is_cut)
{
	bool ways[2] = {!to_server, to_server};

	sim_trace(sim, "net: partition %s the server %s", to_server ? "to" : "from",
		  is_cut ? "begins" : "heals");
	partition_set(sim, server, ways, is_cut);
}

/* ---- limits --------------------------------------------------------------------------------- */

void sim_net_limit(struct sim *sim, const struct net_addr *server, uint64_t bytes_per_s)
{
	struct sim_limit *limit;

	list_for_each_safe(node, &sim->limits) {
		limit = list_entry(node, struct sim_limit, node);
		if (server && (limit->is_all || !sim_addr_same(&limit->server, server)))
			continue;
		list_remove(node);
		free(limit);
	}
	if (bytes_per_s == 0 && list_empty(&sim->limits))
		return;
	limit = sim_alloc(sizeof(*limit));
	limit->is_all = server == NULL;
	if (server)
		limit->server = *server;
	limit->bytes_per_s = bytes_per_s;
	list_push_front(&sim->limits, &limit->node);
}

uint64_t sim_net_limit_of(const struct sim *sim, const struct sim_end *end)
{
	list_for_each(node, &sim->limits) {
		struct sim_limit *limit = list_entry(node, struct sim_limit, node);

		if (end_is_meant(end, limit->is_all ? NULL : &limit->server))
			return limit->bytes_per_s;
	}
	return 0;
}

/* ---- the break ------------------------------------------------------------------------------ */

/* True: the pending break counts the bytes that this end sends. */
static bool break_counts(const struct sim_end *end)
{
	const struct sim *sim = end->sim;

	return sim->break_left_bytes > 0 && end->is_server == sim->net_break.is_by_server &&
	       !end->is_local;
}

static void break_happen(struct sim_end *end)
{
	struct sim *sim = end->sim;

	sim_trace(sim, "net: %d breaks", end->fd);
	switch (sim->net_break.kind) {
	case SIM_NET_RESET:
		sim_end_send_reset(end);
		break;
	case SIM_NET_HALF_CLOSE:
		sim_end_send_fin(end);
		break;
	case SIM_NET_STALL:
		end->stalled_until_ns = sim->now_ns + sim->net_break.stall_us * NS_PER_US;
		end->peer->stalled_until_ns = end->stalled_until_ns;
		break;
	}
}

size_t sim_net_break_allows(const struct sim_end *end, size_t len_bytes)
{
	uint64_t left_bytes = end->sim->break_left_bytes;

	return break_counts(end) && len_bytes > left_bytes ? left_bytes : len_bytes;
}

void sim_net_break_count(struct sim_end *end, size_t len_bytes)
{
	if (!break_counts(end))
		return;
	end->sim->break_left_bytes -= len_bytes;
	if (end->sim->break_left_bytes == 0)
		break_happen(end);
}

void sim_net_set_break(struct sim *sim, const struct sim_net_break *net_break)
{
	sim->net_break = *net_break;
	sim->break_left_bytes = net_break->after_bytes;
}

bool sim_net_has_break(const struct sim *sim)
{
	return sim->break_left_bytes > 0;
}

void sim_net_set_tap(struct sim *sim, sim_net_tap_fn fn, void *arg)
{
	sim->tap = fn;
	sim->tap_arg = arg;
}
