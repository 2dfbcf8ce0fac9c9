/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the REST API without sockets: any requests, as the HTTP server passes them on, one after
 * another. Routes, escapes, queries, If-Match, JSON bodies and the handlers' edits of the document
 * are the real ones. This file replaces the daemon: a change is edited, checked and compared, and
 * becomes the state for the next request if all media are small and in memory. Checked: every
 * request gets exactly one answer, whose body is JSON.
 *
 * Input: lines of method, path with query, If-Match, Content-Type; then the body up to a byte 1Eh;
 * then the next request. One thread, no reactor runs.
 */
#include "api/api_call.h"
#include "base/check.h"
#include "base/log.h"
#include "daemon/ana_change.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "daemon/snapshot_build.h"
#include "ns/reservation.h"
#include "store/store.h"
#include "target/reservation_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char base_document[] =
	"{\"version\": 1, \"subsystems\": [{\"nqn\": \"nqn.2026-11.io.weft:a\", \"namespaces\": ["
	"{\"nsid\": 1, \"media\": \"mem:1M\", \"uuid\": \"00000000-0000-4000-8000-000000000001\"},"
	"{\"nsid\": 2, \"media\": \"mem:1M\", \"uuid\": \"00000000-0000-4000-8000-000000000002\","
	" \"ana_group\": 2}]},"
	"{\"nqn\": \"nqn.2026-11.io.weft:b\", \"hosts\": [\"nqn.2026-11.io.weft:host\"],"
	" \"namespaces\": []}],"
	"\"ports\": [{\"id\": 1, \"address\": \"127.0.0.1\", \"service\": \"4420\"}]}";

static struct config *base;
static struct snapshot *base_snapshot;
static struct media_registry *registry_now;
static uint64_t generation;
static void (*handle)(void *arg, struct http_request *request);
static void *handle_arg;
static unsigned answers;
/* Changes that a handler has submitted. They run after the handler has returned. */
static struct change waiting;
static struct ana_change waiting_ana;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* ---- the daemon ------------------------------------------------------------------------------ */

void daemon_change(struct daemon *daemon, const struct change *change)
{
	CHECK(!waiting.done);
	waiting = *change;
}

uint64_t daemon_generation(const struct daemon *daemon)
{
	return generation;
}

const struct config *daemon_config(const struct daemon *daemon)
{
	return base;
}

struct reactor *daemon_control(const struct daemon *daemon)
{
	return NULL;
}

const struct target *daemon_target(const struct daemon *daemon)
{
	return NULL;
}

struct store *daemon_store(const struct daemon *daemon)
{
	return NULL;
}

struct media_registry *daemon_registry(const struct daemon *daemon)
{
	return NULL;
}

void daemon_get_facts(const struct daemon *daemon, struct daemon_facts *ret_facts)
{
	*ret_facts = (struct daemon_facts){.state_dir = "none"};
}

int ana_change(struct daemon *daemon, const struct ana_change *change)
{
	CHECK(!waiting_ana.done);
	waiting_ana = *change;
	return 0;
}

bool media_registry_is_formatting(const struct media_registry *registry, const struct uuid *uuid)
{
	return false;
}

struct media *media_registry_find(const struct media_registry *registry, const struct uuid *uuid)
{
	return NULL;
}

bool store_is_gone(const struct store *store)
{
	return false;
}

bool store_problem(struct store *store, struct store_error *ret_error)
{
	return false;
}

int store_list_audit(struct store *store, unsigned count,
		     void (*each)(void *arg, const struct store_audit *audit), void *arg)
{
	return 0;
}

int store_list_history(struct store *store,
		       void (*each)(void *arg, const struct store_generation *generation),
		       void *arg)
{
	return 0;
}

int store_load_generation(struct store *store, uint64_t wanted, json_t **ret_document,
			  char **ret_folder, struct store_error *ret_error)
{
	*ret_error = (struct store_error){.text = "it is not kept"};
	return -ENOENT;
}

uint64_t reactor_clock_ns(const struct reactor *reactor)
{
	return 1;
}

/* ---- the target ------------------------------------------------------------------------------ */

const struct snapshot *target_snapshot(const struct target *target)
{
	return base_snapshot;
}

int target_port_addr(const struct target *target, uint16_t port_id, struct net_addr *ret_addr)
{
	return net_addr_parse("127.0.0.1:4420", 0, ret_addr);
}

void target_get_stats(const struct target *target, struct target_stats *ret_stats)
{
	*ret_stats = (struct target_stats){0};
}

void target_list_ctrls(struct target *target,
		       void (*done)(void *arg, struct ctrl_info *taken_infos, unsigned count),
		       void *arg)
{
	struct ctrl_info *infos = calloc(1, sizeof(*infos));

	CHECK(infos != NULL);
	done(arg, infos, 1);
}

void reservation_clear_by_admin(struct target *target, struct ns_live *live,
				void (*done)(void *arg, int res), void *arg)
{
	done(arg, 0);
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

int http_server_start(const struct http_options *options, struct http_server **ret_server,
		      struct http_error *ret_error)
{
	handle = options->handle;
	handle_arg = options->arg;
	*ret_server = (struct http_server *)&answers;
	return 0;
}

const struct net_addr *http_server_tcp_addr(const struct http_server *server)
{
	return NULL;
}

void http_server_stop(struct http_server *server, void (*stopped)(void *arg), void *arg)
{
}

char *http_problem_text(int status, const char *error)
{
	return strdup("{}");
}

void http_request_answer(struct http_request *request, struct http_answer *answer)
{
	json_t *body;

	answers++;
	CHECK(answer->status >= 200 && answer->status < 600);
	/* The health route answers 503 without being a problem document. */
	CHECK(!answer->is_problem || answer->status >= 400);
	if (answer->taken_body) {
		body = json_loadb(answer->taken_body, answer->body_bytes, JSON_DECODE_ANY, NULL);
		CHECK(body != NULL);
		json_decref(body);
	}
	free(answer->taken_body);
	free(answer->taken_location);
	free(answer->taken_allow);
}

/* ---- one request ----------------------------------------------------------------------------- */

/* Only media of 1 or 2 MiB in memory, few subsystems and ports, no cluster. */
static bool can_take(const struct config *config)
{
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		const struct config_subsystem *subsystem = &config->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++) {
			const char *media = subsystem->namespaces[n].media;

			if (strcmp(media, "mem:1M") != 0 && strcmp(media, "mem:2M") != 0)
				return false;
		}
	}
	return config->subsystem_count <= 8 && config->port_count <= 8 && !config->cluster;
}

/* The state after the daemon's start. */
static void state_begin(void)
{
	static struct config_errors errors;

	errors.count = 0;
	generation = 7;
	CHECK(config_load_text(base_document, strlen(base_document), &base, &errors) == 0);
	CHECK(config_identify(base, NULL, &errors) == 0);
	CHECK(media_registry_create(1, &registry_now) == 0);
	CHECK(snapshot_from_config(base, registry_now, 1, &base_snapshot, &errors) == 0);
	media_registry_commit(registry_now);
}

static void state_end(void)
{
	config_free(base);
	snapshot_destroy(base_snapshot);
	media_registry_destroy(registry_now);
}

static void state_take(struct config *taken_next)
{
	static struct config_errors errors;
	struct snapshot *snapshot;

	errors.count = 0;
	if (!can_take(taken_next) ||
	    snapshot_from_config(taken_next, registry_now, 1, &snapshot, &errors) != 0) {
		config_free(taken_next);
		return;
	}
	media_registry_commit(registry_now);
	config_free(base);
	snapshot_destroy(base_snapshot);
	base = taken_next;
	base_snapshot = snapshot;
	generation++;
}

/* The steps of daemon/change.c up to, and without, applying. */
static void change_run(void)
{
	static struct change_result result;
	struct change change = waiting;
	json_t *document = config_to_edit_json(base);
	struct config *next = NULL;

	waiting = (struct change){0};
	result = (struct change_result){.generation = generation + 1};
	CHECK(document != NULL);
	if (change.expected_generation && change.expected_generation != generation)
		result.res = -ESTALE;
	if (result.res == 0)
		result.res = change.edit(document, change.arg, &result.errors);
	if (result.res == 0)
		result.res = config_load_json(document, &next, &result.errors);
	if (result.res == 0)
		result.res = config_identify(next, base, &result.errors);
	if (result.res == 0)
		result.res = config_check_transition(base, next, &result.errors);
	if (result.res == 0)
		result.diff = config_diff(base, next);
	CHECK(result.res <= 0);
	change.done(change.arg, &result);
	free(result.diff);
	if (result.res == 0 && !change.is_dry_run)
		state_take(next);
	else
		config_free(next);
	json_decref(document);
}

static void ana_run(void)
{
	static struct change_result result;
	struct ana_change change = waiting_ana;

	waiting_ana = (struct ana_change){0};
	result = (struct change_result){.generation = 8};
	change.done(change.arg, &result);
}

/* The next line as an allocated string; NULL when it is empty. */
static char *line_take(const char **at, const char *end)
{
	const char *stop = memchr(*at, '\n', (size_t)(end - *at));
	char *line;

	if (!stop)
		stop = end;
	line = stop > *at ? strndup(*at, (size_t)(stop - *at)) : NULL;
	*at = stop < end ? stop + 1 : end;
	return line;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct api_options options = {.socket_path = "unused"};
	static struct api *api;

	log_set_level(LOG_LEVEL_OFF);
	CHECK(api_functions.start(NULL, &options, &api) == 0);
	state_begin();
	return 0;
}

static void request_run(const char *at, const char *end)
{
	struct http_request request = {.method = line_take(&at, end), .path = line_take(&at, end)};
	char *query = request.path ? strchr(request.path, '?') : NULL;

	if (query)
		*query++ = 0;
	request.query = query;
	request.if_match = line_take(&at, end);
	request.content_type = line_take(&at, end);
	request.body_bytes = (size_t)(end - at);
	/* As the HTTP server does: every byte, zeroes included, and a terminator. */
	request.body = calloc(1, request.body_bytes + 1);
	CHECK(request.body != NULL);
	memcpy(request.body, at, request.body_bytes);
	if (request.method && request.path) {
		answers = 0;
		handle(handle_arg, &request);
		if (waiting.done)
			change_run();
		if (waiting_ana.done)
			ana_run();
		CHECK(answers == 1);
	}
	free(request.method);
	free(request.path);
	free(request.if_match);
	free(request.content_type);
	free(request.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
	const char *at = (const char *)bytes, *end = at + len_bytes;

	for (unsigned requests = 0; at < end && requests < 16; requests++) {
		const char *stop = memchr(at, 0x1e, (size_t)(end - at));

		request_run(at, stop ? stop : end);
		at = stop ? stop + 1 : end;
	}
	/* Rebuild the state only if a request changed it. */
	if (generation != 7) {
		state_end();
		state_begin();
	}
	return 0;
}
