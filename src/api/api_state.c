/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The read-only figures of the REST API: state, connections, other members of the cluster, and the
 * API's own description.
 *
 * Control reactor only. Figures of reactors are read while the reactors run. Each is true, but they
 * are not of one instant.
 */
#include "api/api_call.h"
#include "base/clock.h"
#include "cluster/peers.h"
#include "config/json_whole.h"

#include <stdlib.h>
#include <string.h>

static json_t *reactors_json(const struct daemon_facts *facts)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < facts->reactor_count; i++) {
		struct reactor_stats stats;

		reactor_get_stats(facts->reactors[i], &stats);
		json_array_append_new(
			list,
			json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "index", (int)i,
				  "run_ns", (json_int_t)stats.run_ns, "busy_ns",
				  (json_int_t)stats.busy_ns, "spin_ns", (json_int_t)stats.spin_ns,
				  "turns", (json_int_t)stats.turns, "sleeps",
				  (json_int_t)stats.sleeps, "posts", (json_int_t)stats.posts,
				  "stalls", (json_int_t)stats.stalls));
	}
	return list;
}

static json_t *target_json(const struct target *target)
{
	struct target_stats stats;

	target_get_stats(target, &stats);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "connections",
			 (json_int_t)stats.connections, "controllers", (json_int_t)stats.ctrls,
			 "connections_refused", (json_int_t)stats.connections_refused, "commands",
			 (json_int_t)stats.commands, "protocol_errors",
			 (json_int_t)stats.protocol_errors, "keep_alive_expiries",
			 (json_int_t)stats.keep_alive_expiries, "buffers_in_use",
			 (json_int_t)stats.buffers_in_use);
}

static json_t *counts_json(const struct config *config)
{
	unsigned subsystems = 0, namespaces = 0;

	for (unsigned i = 0; config && i < config->subsystem_count; i++) {
		if (config->subsystems[i].is_implied)
			continue;
		subsystems++;
		namespaces += config->subsystems[i].ns_count;
	}
	return json_pack("{s:i, s:i, s:i}", "subsystems", (int)subsystems, "namespaces",
			 (int)namespaces, "ports", config ? (int)config->port_count : 0);
}

void api_state_get(struct api_call *call)
{
	struct daemon *daemon = call->api->daemon;
	struct daemon_facts facts;
	char id[UUID_TEXT_BYTES];
	uint64_t uptime_ns = reactor_clock_ns(daemon_control(daemon)) - call->api->started_ns;

	daemon_get_facts(daemon, &facts);
	api_answer(call,
		   json_pack("{s:s, s:s, s:I, s:f, s:I, s:I, s:s, s:o, s:o, s:o}", "version",
			     WEFT_VERSION, "id", uuid_format(&facts.id, id), "generation",
			     (json_int_t)daemon_generation(daemon), "uptime_s",
			     (double)uptime_ns / NS_PER_S, "starts", (json_int_t)facts.starts,
			     "unsafe_shutdowns", (json_int_t)facts.unsafe_shutdowns, "state_dir",
			     facts.state_dir, "counts", counts_json(daemon_config(daemon)),
			     "reactors", reactors_json(&facts), "target",
			     target_json(daemon_target(daemon))));
}

/* ---- connections ---------------------------------------------------------------------------- */

static json_t *ctrl_json(const struct ctrl_info *info)
{
	char host_id[UUID_TEXT_BYTES], peer[NET_ADDR_TEXT_BYTES];

	return json_pack("{s:i, s:i, s:b, s:s, s:s, s:s, s:s, s:I, s:I, s:f}", "cntlid",
			 (int)info->cntlid, "port", (int)info->port_id, "discovery",
			 info->is_discovery, "subsystem", info->subsystem_nqn, "host",
			 info->host_nqn, "host_id", uuid_format(&info->host_id, host_id), "peer",
			 net_addr_format(&info->peer, peer), "kato_ms", (json_int_t)info->kato_ms,
			 "io_queues", (json_int_t)info->io_queue_count, "connected_s",
			 (double)info->connected_ns / NS_PER_S);
}

static void connections_listed(void *arg, struct ctrl_info *taken_infos, unsigned count)
{
	struct api_call *call = arg;
	json_t *list = taken_infos ? json_array() : NULL;

	for (unsigned i = 0; list && i < count; i++)
		json_array_append_new(list, ctrl_json(&taken_infos[i]));
	free(taken_infos);
	api_answer(call, list ? json_pack("{s:o}", "connections", list) : NULL);
}

void api_connections_get(struct api_call *call)
{
	struct daemon_facts facts;

	daemon_get_facts(call->api->daemon, &facts);
	target_list_ctrls(facts.target, connections_listed, call);
}

/* ---- peers ------------------------------------------------------------------------------------
 */

static json_t *peer_json(const struct peer_info *info)
{
	return json_pack("{s:s, s:b, s:b, s:b, s:I, s:[i, i], s:I, s:I, s:I, s:s}", "name",
			 info->name, "up", info->is_up, "fenced", info->is_fenced, "can_fence",
			 info->can_fence, "pid", (json_int_t)info->pid, "cntlids",
			 (int)info->cntlid_first, (int)info->cntlid_last, "resets_asked",
			 (json_int_t)info->resets_asked, "resets_served",
			 (json_int_t)info->resets_served, "fences", (json_int_t)info->fences,
			 "last_error", info->last_error);
}

static void peers_listed(void *arg, const struct peer_info *infos, unsigned count)
{
	struct api_call *call = arg;
	const struct config *config = daemon_config(call->api->daemon);
	json_t *list = json_array();

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(list, peer_json(&infos[i]));
	api_answer(call, json_pack("{s:s, s:o}", "name",
				   config && config->cluster ? config->cluster->peers.name : "",
				   "peers", list));
}

void api_peers_get(struct api_call *call)
{
	struct daemon_facts facts;

	daemon_get_facts(call->api->daemon, &facts);
	if (facts.peers)
		peers_list(facts.peers, peers_listed, call);
	else
		peers_listed(call, NULL, 0);
}

void api_openapi_get(struct api_call *call)
{
	api_answer(call, json_whole_load(api_openapi_json, strlen(api_openapi_json), 0, NULL));
}
