/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API for the administrator of a target: problems, their acknowledgement, and the audit of
 * changes.
 *
 * Control reactor only. Media errors are counted since the start of the process. An acknowledgement
 * notes how many were seen per namespace, so that a new error is a problem again. A medium that
 * fails all future I/O (a file that was cut short) stays a problem until it is restored, a full
 * medium until writes succeed again, and a state store that cannot be written until a write
 * succeeds.
 */
#include "api/api_call.h"
#include "base/clock.h"
#include "cluster/peers.h"
#include "ns/ns_live.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#define AUDIT_LIMIT_DEFAULT 100

struct health {
	json_t *problems;
	bool is_ok;
};

static void health_add(struct health *health, bool is_error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void health_add(struct health *health, bool is_error, const char *format, ...)
{
	char text[1024];
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
			    const struct ns *ns, struct peers *peers)
{
	struct ns_live *live = ns_backing_live(ns->backing);
	uint64_t errors = ns_live_media_errors(live) - ns_live_acknowledged(live);
	uint64_t full = ns_live_look_space(live, clock_monotonic_ns());
	struct peers_problem of_peers;
	struct media_error problem;

	if (errors > 0)
		health_add(health, true,
			   "%s, namespace %u: %llu commands failed with errors of the medium, %s; "
			   "see the log and check the medium, then `weft ctl health --acknowledge`",
			   subsystem->nqn, ns->nsid, (unsigned long long)errors, ns->media->spec);
	if (full > 0)
		health_add(health, true,
			   "%s, namespace %u (%s): %llu commands failed for lack of space; free "
			   "space where the medium is stored",
			   subsystem->nqn, ns->nsid, ns->media->spec, (unsigned long long)full);
	if (media_problem(ns->media, &problem))
		health_add(health, true, "%s, namespace %u (%s): %s", subsystem->nqn, ns->nsid,
			   ns->media->spec, problem.text);
	if (media_is_another(ns->media))
		health_add(
			health, false,
			"%s, namespace %u (%s): the file is not the one that was served last under "
			"this name, but a copy or another file; check that it holds the right data",
			subsystem->nqn, ns->nsid, ns->media->spec);
	if (peers && peers_problem(peers, ns, &of_peers))
		health_add(health, of_peers.is_error, "%s, namespace %u (%s): %s", subsystem->nqn,
			   ns->nsid, ns->media->spec, of_peers.text);
	if (ns->is_formatting)
		health_add(health, false, "%s, namespace %u: is being formatted", subsystem->nqn,
			   ns->nsid);
}

void api_health_get(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	struct health health = {.problems = json_array(), .is_ok = snapshot != NULL};
	struct daemon_facts facts;
	struct store_error problem;

	daemon_get_facts(call->api->daemon, &facts);
	if (!snapshot)
		health_add(&health, true, "the target has not started yet");
	for (unsigned i = 0; snapshot && i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++)
			health_judge_ns(&health, subsystem, &subsystem->namespaces[n], facts.peers);
	}
	if (store_is_gone(daemon_store(call->api->daemon)))
		health_add(&health, true,
			   "the state store was deleted, moved or replaced while it is in use: "
			   "changes are refused; save the configuration with `weft ctl export`, "
			   "stop the target, then restore the state folder or start with the saved "
			   "configuration");
	else if (store_problem(daemon_store(call->api->daemon), &problem))
		health_add(&health, true, "%s", problem.text);
	for (unsigned i = 0; snapshot && i < snapshot->port_count; i++) {
		struct net_addr bound;

		if (target_port_addr(daemon_target(call->api->daemon), snapshot->ports[i].id,
				     &bound) < 0)
			health_add(&health, true, "port %u does not listen", snapshot->ports[i].id);
	}
	api_answer_status(call, health.is_ok ? 200 : 503,
			  json_pack("{s:b, s:o}", "ok", health.is_ok, "problems", health.problems));
}

void api_health_acknowledge(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	uint64_t acknowledged = 0;

	for (unsigned i = 0; snapshot && i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++) {
			struct ns_live *live = ns_backing_live(subsystem->namespaces[n].backing);
			uint64_t errors = ns_live_media_errors(live);

			acknowledged += errors - ns_live_acknowledged(live);
			ns_live_acknowledge(live, errors);
		}
	}
	api_answer(call, json_pack("{s:I}", "acknowledged", (json_int_t)acknowledged));
}

/* ---- audit ----------------------------------------------------------------------------------- */

static void audit_json_add(void *arg, const struct store_audit *audit)
{
	json_array_append_new(arg, json_pack("{s:f, s:I, s:s, s:o}", "time_s",
					     (double)audit->time_ms / 1000, "generation",
					     (json_int_t)audit->generation, "origin", audit->origin,
					     "diff", api_diff_json(audit->diff)));
}

void api_audit_get(struct api_call *call)
{
	json_t *list = json_array();
	int res = store_list_audit(daemon_store(call->api->daemon),
				   call->limit ? call->limit : AUDIT_LIMIT_DEFAULT, audit_json_add,
				   list);

	if (res < 0) {
		json_decref(list);
		api_fail(call, 500, "the state store cannot be read: %s", strerror(-res));
		return;
	}
	api_answer(call, json_pack("{s:o}", "audit", list));
}
