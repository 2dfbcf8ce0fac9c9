/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft ctl` status, health, audit, connections, peers, reservations and removed: the state of a
 * running target. Main thread.
 */
#include "base/check.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *duration_text(double seconds, char *text, size_t text_bytes)
{
	unsigned long s = (unsigned long)seconds;

	if (s >= 86400)
		snprintf(text, text_bytes, "%lud %luh", s / 86400, s / 3600 % 24);
	else if (s >= 3600)
		snprintf(text, text_bytes, "%luh %lum", s / 3600, s / 60 % 60);
	else if (s >= 60)
		snprintf(text, text_bytes, "%lum %lus", s / 60, s % 60);
	else
		snprintf(text, text_bytes, "%.1fs", seconds);
	return text;
}

static void reactors_print(const json_t *reactors)
{
	static const char *const titles[] = {"REACTOR", ">BUSY %", ">SPIN %",
					     ">TURNS",  ">STALLS", NULL};
	struct ctl_table table;
	json_t *reactor;
	size_t i;

	ctl_table_begin(&table, titles);
	json_array_foreach((json_t *)reactors, i, reactor)
	{
		double run = (double)ctl_number(reactor, "run_ns");
		char texts[5][32];
		const char *cells[5];

		if (run <= 0)
			run = 1;
		ctl_text(reactor, "index", texts[0], sizeof(texts[0]));
		snprintf(texts[1], sizeof(texts[1]), "%.1f",
			 100 * (double)ctl_number(reactor, "busy_ns") / run);
		snprintf(texts[2], sizeof(texts[2]), "%.1f",
			 100 * (double)ctl_number(reactor, "spin_ns") / run);
		ctl_text(reactor, "turns", texts[3], sizeof(texts[3]));
		ctl_text(reactor, "stalls", texts[4], sizeof(texts[4]));
		for (unsigned c = 0; c < ARRAY_LEN(cells); c++)
			cells[c] = texts[c];
		ctl_table_row(&table, cells);
	}
	ctl_table_end(&table, "no reactors");
}

int ctl_status(struct ctl *ctl)
{
	json_t *answer = ctl_get(ctl, ctl_path("/state", NULL, NULL, NULL));
	const json_t *counts = json_object_get(answer, "counts");
	const json_t *target = json_object_get(answer, "target");
	char up[32], text[64];

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		printf("version       %s\n", ctl_text(answer, "version", text, sizeof(text)));
		printf("id            %s\n", ctl_text(answer, "id", text, sizeof(text)));
		printf("generation    %s\n", ctl_text(answer, "generation", text, sizeof(text)));
		printf("up            %s\n",
		       duration_text(json_number_value(json_object_get(answer, "uptime_s")), up,
				     sizeof(up)));
		printf("subsystems    %llu\nnamespaces    %llu\nports         %llu\n",
		       (unsigned long long)ctl_number(counts, "subsystems"),
		       (unsigned long long)ctl_number(counts, "namespaces"),
		       (unsigned long long)ctl_number(counts, "ports"));
		printf("controllers   %llu\nconnections   %llu\ncommands      %llu\n",
		       (unsigned long long)ctl_number(target, "controllers"),
		       (unsigned long long)ctl_number(target, "connections"),
		       (unsigned long long)ctl_number(target, "commands"));
		reactors_print(json_object_get(answer, "reactors"));
	}
	json_decref(answer);
	return CLI_OK;
}

/* Acknowledges the errors so far, before ctl_health requests the health. 0 or, after a message,
 * -1. */
static int health_acknowledge(struct ctl *ctl)
{
	json_t *answer =
		ctl_send(ctl, "POST", ctl_path("/health/acknowledge", NULL, NULL, NULL), NULL);

	if (answer && !ctl->is_json)
		printf("acknowledged: %llu\n",
		       (unsigned long long)ctl_number(answer, "acknowledged"));
	if (!answer)
		return -1;
	json_decref(answer);
	return 0;
}

int ctl_health(struct ctl *ctl)
{
	const struct http_question question = {.method = "GET", .path = "/v1/health"};
	const json_t *problems;
	json_t *answer;
	bool is_ok;
	int status;

	if (ctl->acknowledges && health_acknowledge(ctl) < 0)
		return CLI_FAILED;
	if (ctl_ask(ctl, &question, &status, &answer) < 0)
		return CLI_FAILED;
	is_ok = status == 200;
	problems = json_object_get(answer, "problems");
	if (!ctl_print_json(ctl, answer)) {
		char severity[16], text[512];

		if (is_ok && json_array_size(problems) == 0)
			printf("ok\n");
		for (size_t i = 0; i < json_array_size(problems); i++) {
			const json_t *problem = json_array_get(problems, i);

			printf("%s: %s\n",
			       ctl_text(problem, "severity", severity, sizeof(severity)),
			       ctl_text(problem, "text", text, sizeof(text)));
		}
		if (!problems)
			tool_error("ctl", "%s", ctl_text(answer, "error", text, sizeof(text)));
	}
	json_decref(answer);
	return is_ok ? CLI_OK : CLI_FAILED;
}

static void audit_print(const json_t *entry)
{
	const json_t *diff = json_object_get(entry, "diff");
	char stamp[32], origin[256];

	printf("%s  generation %llu  %s\n", ctl_time(entry, "time_s", stamp, sizeof(stamp)),
	       (unsigned long long)ctl_number(entry, "generation"),
	       ctl_text(entry, "origin", origin, sizeof(origin)));
	for (size_t i = 0; i < json_array_size(diff); i++)
		printf("    %s\n", cli_shown_json(json_array_get(diff, i)));
}

int ctl_audit(struct ctl *ctl)
{
	char *path = NULL;
	json_t *answer, *entry;
	size_t i;

	if (asprintf(&path, "/v1/audit%s%s", ctl->word_count > 0 ? "?limit=" : "",
		     ctl->word_count > 0 ? ctl->words[0] : "") < 0)
		return CLI_FAILED;
	answer = ctl_get(ctl, path);
	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		json_array_foreach(json_object_get(answer, "audit"), i, entry) audit_print(entry);
	}
	json_decref(answer);
	return CLI_OK;
}

int ctl_connections(struct ctl *ctl)
{
	static const char *const titles[] = {"CNTLID",  "HOST",     "SUBSYSTEM", "PEER", ">PORT",
					     ">QUEUES", ">KATO ms", ">SINCE",    NULL};
	static const char *const keys[] = {"cntlid", "host",      "subsystem", "peer",
					   "port",   "io_queues", "kato_ms"};
	json_t *answer = ctl_get(ctl, ctl_path("/connections", NULL, NULL, NULL));
	struct ctl_table table;
	json_t *ctrl;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "connections"), i, ctrl)
		{
			char texts[ARRAY_LEN(keys)][256], since[32];
			const char *cells[ARRAY_LEN(keys) + 1];

			for (unsigned c = 0; c < ARRAY_LEN(keys); c++)
				cells[c] = ctl_text(ctrl, keys[c], texts[c], sizeof(texts[c]));
			cells[ARRAY_LEN(keys)] = duration_text(
				json_number_value(json_object_get(ctrl, "connected_s")), since,
				sizeof(since));
			ctl_table_row(&table, cells);
		}
		ctl_table_end(&table, "no host is connected");
	}
	json_decref(answer);
	return CLI_OK;
}

#define PEER_RANGE 5 /* the column of CNTLIDs */

int ctl_peers(struct ctl *ctl)
{
	static const char *const titles[] = {"PEER",    "UP",         "FENCED", "CAN FENCE",
					     ">PID",    "CNTLIDS",    ">ASKED", ">SERVED",
					     ">FENCES", "LAST ERROR", NULL};
	static const char *const keys[] = {"name",   "up",        "fenced",       "can_fence",
					   "pid",    "cntlids",   "resets_asked", "resets_served",
					   "fences", "last_error"};
	json_t *answer = ctl_get(ctl, ctl_path("/peers", NULL, NULL, NULL));
	struct ctl_table table;
	const json_t *range;
	json_t *peer;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "peers"), i, peer)
		{
			char texts[ARRAY_LEN(keys)][256];
			const char *cells[ARRAY_LEN(keys)];

			for (unsigned c = 0; c < ARRAY_LEN(keys); c++)
				cells[c] = ctl_text(peer, keys[c], texts[c], sizeof(texts[c]));
			range = json_object_get(peer, "cntlids");
			snprintf(texts[PEER_RANGE], sizeof(texts[PEER_RANGE]), "%lld-%lld",
				 (long long)json_integer_value(json_array_get(range, 0)),
				 (long long)json_integer_value(json_array_get(range, 1)));
			cells[PEER_RANGE] = texts[PEER_RANGE];
			ctl_table_row(&table, cells);
		}
		ctl_table_end(&table, "no other member: the target is not in a cluster");
	}
	json_decref(answer);
	return CLI_OK;
}

static void registrants_add(struct ctl_table *table, const json_t *reservation)
{
	const char *holder = json_string_value(json_object_get(reservation, "holder"));
	char nqn[256], nsid[16], type[48], host[64], key[32];
	json_t *registrant;
	size_t i;

	ctl_text(reservation, "subsystem", nqn, sizeof(nqn));
	ctl_text(reservation, "nsid", nsid, sizeof(nsid));
	ctl_text(reservation, "type", type, sizeof(type));
	json_array_foreach(json_object_get(reservation, "registrants"), i, registrant)
	{
		ctl_text(registrant, "host_id", host, sizeof(host));
		ctl_text(registrant, "key", key, sizeof(key));
		ctl_table_row(table, (const char *const[]){
					     nqn, nsid, type, host, key,
					     holder && strcmp(holder, host) == 0 ? "yes" : "no"});
	}
}

int ctl_reservations(struct ctl *ctl)
{
	static const char *const titles[] = {"SUBSYSTEM", ">NSID",  "TYPE", "HOST ID",
					     "KEY",       "HOLDER", NULL};
	json_t *answer = ctl_get(ctl, ctl_path("/reservations", NULL, NULL, NULL));
	struct ctl_table table;
	json_t *reservation;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "reservations"), i, reservation)
			registrants_add(&table, reservation);
		ctl_table_end(&table, "no host is registered");
	}
	json_decref(answer);
	return CLI_OK;
}

int ctl_removed(struct ctl *ctl)
{
	static const char *const titles[] = {"UUID", "REMOVED", "KEPT", "PATH", NULL};
	json_t *answer = ctl_get(ctl, ctl_path("/removed", NULL, NULL, NULL));
	char uuid[64], since[32], kept[64];
	struct ctl_table table;
	json_t *removed;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "removed"), i, removed)
		{
			time_t when = json_integer_value(json_object_get(removed, "removed_s"));
			struct tm parts;

			ctl_text(removed, "uuid", uuid, sizeof(uuid));
			strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ",
				 gmtime_r(&when, &parts));
			ctl_text(removed, "kept", kept, sizeof(kept));
			ctl_table_row(&table,
				      (const char *const[]){
					      uuid, since, kept,
					      json_string_value(json_object_get(removed, "path"))});
		}
		ctl_table_end(&table, "no removed namespace is known");
	}
	json_decref(answer);
	return CLI_OK;
}

int ctl_removed_drop(struct ctl *ctl)
{
	json_t *answer =
		ctl_send(ctl, "DELETE", ctl_path("/removed/*", ctl->words[0], NULL, NULL), NULL);

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer))
		printf("dropped\n");
	json_decref(answer);
	return CLI_OK;
}

int ctl_reservation_clear(struct ctl *ctl)
{
	json_t *answer = ctl_send(ctl, "DELETE",
				  ctl_path("/subsystems/*/namespaces/*/reservation", ctl->words[0],
					   ctl->words[1], NULL),
				  NULL);

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer))
		printf("cleared\n");
	json_decref(answer);
	return CLI_OK;
}
