/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the REST API tells of a running target and does not change: state, health, connections, and
 * the API's own description.
 *
 * Control reactor only. Figures of reactors are read while they run: each is true, but they are not
 * of one instant.
 */
#include "base/clock.h"
#include "control/api_call.h"
#include "target/ns_live.h"

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

/* ---- health --------------------------------------------------------------------------------- */

struct health {
	json_t *problems;
	bool is_ok;
};

static void health_add(struct health *health, bool is_error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void health_add(struct health *health, bool is_error, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	health->is_ok &= !is_error;
	json_array_append_new(
		health->problems,
		json_pack("{s:s, s:s}", "severity", is_error ? "error" : "warning", "text", text));
}

static void health_judge_ns(struct health *health, const struct subsystem *subsystem,
			    const struct ns *ns)
{
	unsigned long errors = 0;

	for (unsigned i = 0; i < ns_live_local_count(ns_store_live(ns->store)); i++)
		errors += atomic_load_explicit(&ns->locals[i].media_errors, memory_order_relaxed);
	if (errors > 0)
		health_add(health, true,
			   "%s, namespace %u: %lu commands failed because of its medium, %s; see "
			   "the log and the medium",
			   subsystem->nqn, ns->nsid, errors, ns->media->spec);
	if (ns->is_formatting)
		health_add(health, false, "%s, namespace %u: is being formatted", subsystem->nqn,
			   ns->nsid);
}

void api_health_get(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	struct health health = {.problems = json_array(), .is_ok = snapshot != NULL};

	if (!snapshot)
		health_add(&health, true, "the target has not started yet");
	for (unsigned i = 0; snapshot && i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++)
			health_judge_ns(&health, subsystem, &subsystem->namespaces[n]);
	}
	for (unsigned i = 0; snapshot && i < snapshot->port_count; i++) {
		struct net_addr bound;

		if (target_port_addr(daemon_target(call->api->daemon), snapshot->ports[i].id,
				     &bound) < 0)
			health_add(&health, true, "port %u does not listen", snapshot->ports[i].id);
	}
	api_answer_status(call, health.is_ok ? 200 : 503,
			  json_pack("{s:b, s:o}", "ok", health.is_ok, "problems", health.problems));
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

void api_openapi_get(struct api_call *call)
{
	api_answer(call, json_loads(api_openapi_json, 0, NULL));
}
