/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API: the table of routes, routing, and the checks that all routes share (media type,
 * JSON, query, If-Match). The handlers of the routes are in the other files api_*.c. api_answer.c
 * makes the answers.
 *
 * Control reactor only. Everything in a request is untrusted and never reaches a CHECK.
 */
#include "api/api_call.h"
#include "base/log.h"
#include "base/text.h"
#include "config/json_whole.h"
#include "store/store.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUBSYSTEM  "/v1/subsystems/{nqn}"
#define NS         SUBSYSTEM "/namespaces/{nsid}"
#define PORT       "/v1/ports/{id}"
#define GENERATION "/v1/history/{generation}"

#define API_LIMIT_MAX STORE_AUDIT_MAX

static const struct api_route routes[] = {
	{"GET", "/v1/state", api_state_get, "Version, generation, reactors and counters", 0},
	{"GET", "/v1/health", api_health_get, "ok, or a list of problems", 0},
	{"POST", "/v1/health/acknowledge", api_health_acknowledge,
	 "Stop reporting the media errors so far", 0},
	{"GET", "/v1/audit", api_audit_get, "Changes of the desired state, newest first",
	 API_LIMIT},
	{"GET", "/v1/history", api_history_get, "Saved generations of the document", 0},
	{"GET", GENERATION, api_generation_get, "One generation, with its document", 0},
	{"POST", GENERATION "/rollback", api_rollback_post,
	 "Make the document of an earlier generation the next generation", API_CHANGE},
	{"GET", "/v1/config", api_config_get, "The document of desired state", 0},
	{"PUT", "/v1/config", api_config_put, "Apply a document, all or nothing",
	 API_BODY | API_CHANGE},
	{"POST", "/v1/config/import", api_config_import, "Translate a document of nvmetcli",
	 API_BODY | API_CHANGE | API_APPLY},
	{"GET", "/v1/subsystems", api_subsystems_get, "All subsystems", 0},
	{"POST", "/v1/subsystems", api_subsystems_post, "Add a subsystem", API_BODY | API_CHANGE},
	{"GET", SUBSYSTEM, api_subsystem_get, "One subsystem", 0},
	{"PATCH", SUBSYSTEM, api_subsystem_patch, "Change fields of a subsystem",
	 API_BODY | API_CHANGE},
	{"DELETE", SUBSYSTEM, api_subsystem_delete, "Remove a subsystem", API_CHANGE},
	{"GET", SUBSYSTEM "/namespaces", api_namespaces_get, "Namespaces of a subsystem", 0},
	{"POST", SUBSYSTEM "/namespaces", api_namespaces_post, "Add a namespace",
	 API_BODY | API_CHANGE},
	{"GET", NS, api_ns_get, "One namespace, with its counters", 0},
	{"PATCH", NS, api_ns_patch, "Change fields or the size of a namespace",
	 API_BODY | API_CHANGE},
	{"DELETE", NS, api_ns_delete, "Remove a namespace", API_CHANGE | API_DATA},
	{"DELETE", NS "/reservation", api_reservation_delete,
	 "Clear the reservation and all registrations of a namespace", 0},
	{"GET", SUBSYSTEM "/hosts", api_hosts_get, "Hosts that may connect", 0},
	{"POST", SUBSYSTEM "/hosts", api_hosts_post, "Allow a host", API_BODY | API_CHANGE},
	{"DELETE", SUBSYSTEM "/hosts/{host}", api_host_delete, "Stop allowing a host", API_CHANGE},
	{"GET", "/v1/ports", api_ports_get, "All ports", 0},
	{"POST", "/v1/ports", api_ports_post, "Add a port", API_BODY | API_CHANGE},
	{"GET", PORT, api_port_get, "One port", 0},
	{"PATCH", PORT, api_port_patch, "Change fields of a port", API_BODY | API_CHANGE},
	{"DELETE", PORT, api_port_delete, "Remove a port", API_CHANGE},
	{"GET", PORT "/ana", api_ana_get, "ANA groups and their states on a port", 0},
	{"PUT", PORT "/ana/{group}", api_ana_put, "Move an ANA group to a state",
	 API_BODY | API_CHANGE},
	{"GET", "/v1/connections", api_connections_get, "Controllers that hosts are connected to",
	 0},
	{"GET", "/v1/peers", api_peers_get, "Other members of the cluster", 0},
	{"GET", "/v1/reservations", api_reservations_get, "Namespaces with registered hosts", 0},
	{"GET", "/v1/removed", api_removed_get, "Removed namespaces and their kept state", 0},
	{"DELETE", "/v1/removed/{uuid}", api_removed_delete,
	 "Drop a removed namespace and its kept state", 0},
	{"GET", "/v1/openapi.json", api_openapi_get, "This API, as an OpenAPI document", 0},
};

const struct api_route *api_routes(size_t *ret_count)
{
	*ret_count = ARRAY_LEN(routes);
	return routes;
}

/* ---- routing -------------------------------------------------------------------------------- */

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 0, or -EINVAL for a wrong escape, a 0 byte, an empty string, or one that is too long. */
static int part_decode(const char *from, size_t len_bytes, char *to, size_t to_bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < len_bytes; i++) {
		int c = (unsigned char)from[i];

		if (c == '%') {
			int high = i + 2 < len_bytes ? hex_value(from[i + 1]) : -1;
			int low = high >= 0 ? hex_value(from[i + 2]) : -1;

			if (low < 0)
				return -EINVAL;
			c = high << 4 | low;
			i += 2;
		}
		if (c == 0 || n + 1 >= to_bytes)
			return -EINVAL;
		to[n++] = (char)c;
	}
	to[n] = 0;
	return n > 0 ? 0 : -EINVAL;
}

/* True when the path has the parts of the pattern. The parts in braces are decoded into params. */
static bool route_matches(const struct api_route *route, const char *path, struct api_call *call)
{
	const char *pattern = route->pattern;
	unsigned param = 0;

	while (*pattern == '/' && *path == '/') {
		size_t want = strcspn(++pattern, "/"), got = strcspn(++path, "/");

		if (*pattern == '{') {
			if (part_decode(path, got, call->params[param++], API_PARAM_BYTES) < 0)
				return false;
		} else if (want != got || strncmp(pattern, path, want) != 0) {
			return false;
		}
		pattern += want;
		path += got;
	}
	return *pattern == 0 && *path == 0;
}

static void allow_add(char *allow, size_t allow_bytes, const char *method)
{
	size_t used = strlen(allow);

	snprintf(allow + used, allow_bytes - used, "%s%s", used > 0 ? ", " : "", method);
}

/* Returns the route, or NULL: then `allow` has the methods of the path, if any. */
static const struct api_route *route_find(struct api_call *call, char *allow, size_t allow_bytes)
{
	const char *method = call->request->method;

	if (strcmp(method, "HEAD") == 0)
		method = "GET";
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!route_matches(&routes[i], call->request->path, call))
			continue;
		if (strcmp(routes[i].method, method) == 0)
			return &routes[i];
		allow_add(allow, allow_bytes, routes[i].method);
	}
	return NULL;
}

static void route_missing(struct api_call *call, const char *allow)
{
	struct http_answer answer = {.status = 405, .is_problem = true};
	char *text = NULL;

	if (allow[0] == 0) {
		api_fail(call, 404, "unknown path; GET /v1/openapi.json describes the API");
		return;
	}
	if (asprintf(&text, "method not allowed for this path; allowed: %s", allow) >= 0)
		answer.taken_body = http_problem_text(answer.status, text);
	free(text);
	answer.taken_allow = strdup(allow);
	answer.body_bytes = answer.taken_body ? strlen(answer.taken_body) : 0;
	http_request_answer(call->request, &answer);
	api_call_free(call);
}

/* ---- what all routes check ------------------------------------------------------------------ */

static bool flag_parse(const char *value, bool *ret_flag)
{
	if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
		*ret_flag = true;
	else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
		*ret_flag = false;
	else
		return false;
	return true;
}

/* Returns the flag that the key names; NULL: the route does not have this flag. */
static bool *query_flag(struct api_call *call, const char *key)
{
	unsigned flags = call->route->flags;

	if ((flags & API_CHANGE) && strcmp(key, "dry_run") == 0)
		return &call->is_dry_run;
	if ((flags & API_APPLY) && strcmp(key, "apply") == 0)
		return &call->is_apply;
	if ((flags & API_DATA) && strcmp(key, "delete_data") == 0)
		return &call->deletes_data;
	return NULL;
}

static const char *query_known(unsigned flags)
{
	if (flags & API_APPLY)
		return "; known keys: dry_run, apply";
	if (flags & API_DATA)
		return "; known keys: dry_run, delete_data";
	if (flags & API_LIMIT)
		return "; known key: limit";
	return flags & API_CHANGE ? "; known key: dry_run" : "";
}

/* Takes one KEY=VALUE. 0, or -EINVAL after the call was answered. */
static int query_item(struct api_call *call, const char *key, const char *value)
{
	unsigned flags = call->route->flags;
	bool *flag = query_flag(call, key);
	uint64_t number = 0;

	if ((flags & API_LIMIT) && strcmp(key, "limit") == 0) {
		if (value && text_parse_u64(value, API_LIMIT_MAX, &number) == 0 && number > 0) {
			call->limit = (uint32_t)number;
			return 0;
		}
		api_fail(call, 400, "query: limit must be a number from 1 to %d", API_LIMIT_MAX);
	} else if (!flag) {
		api_fail(call, 400, "unknown key in the query%s", query_known(flags));
	} else if (!value || !flag_parse(value, flag)) {
		api_fail(call, 400, "query: %s must be true or false", key);
	} else {
		return 0;
	}
	return -EINVAL;
}

/* 0, or -EINVAL after the call was answered. */
static int query_take(struct api_call *call)
{
	char *next = call->request->query;

	while (next && *next) {
		char *item = next;
		char *value;

		next = strchr(item, '&');
		if (next)
			*next++ = 0;
		value = strchr(item, '=');
		if (value)
			*value++ = 0;
		if (query_item(call, item, value) < 0)
			return -EINVAL;
	}
	return 0;
}

/* If-Match: "GENERATION" as in an ETag, or the bare number; "*" is any generation. 0, or -EINVAL
 * after the call was answered. */
static int if_match_take(struct api_call *call)
{
	const char *text = call->request->if_match;
	const char *end;
	char digits[24];
	size_t len;

	if (!text || !(call->route->flags & API_CHANGE) || strcmp(text, "*") == 0)
		return 0;
	end = *text == '"' ? "\"" : "";
	text += *text == '"';
	len = strspn(text, "0123456789");
	if (len > 0 && len < sizeof(digits) && strcmp(text + len, end) == 0) {
		memcpy(digits, text, len);
		digits[len] = 0;
		if (text_parse_u64(digits, UINT64_MAX, &call->expected_generation) == 0 &&
		    call->expected_generation > 0)
			return 0;
	}
	api_fail(call, 400, "If-Match: must be a generation number, as in the ETag of an answer");
	return -EINVAL;
}

static bool media_type_is_json(const char *type)
{
	static const char *const good[] = {"application/json", "application/merge-patch+json"};
	size_t len;

	if (!type)
		return true;
	len = strcspn(type, "; \t");
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		if (strlen(good[i]) == len && strncasecmp(type, good[i], len) == 0)
			return true;
	}
	return false;
}

static int body_take(struct api_call *call)
{
	const struct http_request *request = call->request;
	json_error_t error;

	if (!(call->route->flags & API_BODY))
		return 0;
	if (!media_type_is_json(request->content_type)) {
		api_fail(call, 415, "the body must be JSON: send Content-Type: application/json");
		return -EINVAL;
	}
	call->body = json_whole_load(request->body ? request->body : "", request->body_bytes,
				     JSON_REJECT_DUPLICATES, &error);
	if (!call->body && json_whole_errno(&error) == -ENOMEM) {
		api_fail(call, 503, "the target is out of memory");
		return -ENOMEM;
	}
	if (!call->body) {
		api_fail(call, 400, "the body is not JSON: line %d, column %d: %s", error.line,
			 error.column, error.text);
		return -EINVAL;
	}
	if (!json_is_object(call->body)) {
		api_fail(call, 400, "the body must be a JSON object");
		return -EINVAL;
	}
	return 0;
}

/* Takes the last number in the path: NSID, port or ANA group. 0, or -EINVAL after the call was
 * answered. */
static int number_take(struct api_call *call)
{
	const char *pattern = call->route->pattern;
	unsigned param = 0;
	uint64_t number;

	for (const char *at = strchr(pattern, '{'); at; at = strchr(at + 1, '{'), param++) {
		if (strncmp(at, "{nsid}", 6) != 0 && strncmp(at, "{id}", 4) != 0 &&
		    strncmp(at, "{group}", 7) != 0)
			continue;
		if (text_parse_u64(call->params[param], UINT32_MAX, &number) < 0) {
			api_fail(call, 404, "%.*s in the path must be a number",
				 (int)strcspn(at + 1, "}"), at + 1);
			return -EINVAL;
		}
		call->number = (uint32_t)number;
	}
	return 0;
}

static void api_handle(void *arg, struct http_request *request)
{
	struct api_call *call = calloc(1, sizeof(*call));
	struct http_answer answer = {.status = 503, .is_problem = true};
	char allow[64] = "";

	if (!call) {
		answer.taken_body = http_problem_text(503, "the target is out of memory");
		answer.body_bytes = answer.taken_body ? strlen(answer.taken_body) : 0;
		http_request_answer(request, &answer);
		return;
	}
	call->api = arg;
	call->request = request;
	call->json_losses = json_whole_losses();
	call->route = route_find(call, allow, sizeof(allow));
	if (!call->route)
		route_missing(call, allow);
	else if (query_take(call) == 0 && if_match_take(call) == 0 && number_take(call) == 0 &&
		 body_take(call) == 0)
		call->route->handle(call);
}

/* ---- start and end -------------------------------------------------------------------------- */

/* Fills `path`; empty: no Unix socket. 0 or -ENAMETOOLONG. */
static int socket_choose(const struct api_options *options, const char *state_dir, char *path,
			 size_t path_bytes)
{
	int n;

	if (options->socket_path) {
		n = snprintf(path, path_bytes, "%s", options->socket_path);
		if (strcmp(options->socket_path, "none") == 0)
			path[0] = 0;
	} else {
		n = snprintf(path, path_bytes, "%s/%s", state_dir, API_SOCKET_NAME);
	}
	return n < (int)path_bytes ? 0 : -ENAMETOOLONG;
}

static void api_log_places(const struct api *api, const struct http_options *options)
{
	char text[NET_ADDR_TEXT_BYTES];

	if (options->socket_path)
		log_info("control", "the REST API answers on %s", options->socket_path);
	if (options->has_tcp)
		log_info("control", "the REST API answers on http://%s",
			 net_addr_format(http_server_tcp_addr(api->server), text));
}

static int api_start(struct daemon *daemon, const struct api_options *options, struct api **ret_api)
{
	struct api *api = calloc(1, sizeof(*api));
	struct daemon_facts facts;
	struct http_options http = {.has_tcp = options->has_tcp,
				    .tcp = options->tcp,
				    .token_path = options->token_path,
				    .handle = api_handle,
				    .arg = api};
	char path[PATH_MAX + 16];
	struct http_error error;
	int res;

	*ret_api = NULL;
	if (!api)
		return -ENOMEM;
	daemon_get_facts(daemon, &facts);
	api->daemon = daemon;
	http.control = daemon_control(daemon);
	api->started_ns = reactor_clock_ns(http.control);
	res = socket_choose(options, facts.state_dir, path, sizeof(path));
	http.socket_path = res == 0 && path[0] ? path : NULL;
	if (res < 0)
		snprintf(error.text, sizeof(error.text), "the path of the socket is too long");
	else if (http.socket_path || http.has_tcp)
		res = http_server_start(&http, &api->server, &error);
	if (res < 0 && !options->socket_path) {
		log_warn("control", "the REST API and weft ctl cannot use the Unix socket: %s",
			 error.text);
		http.socket_path = NULL;
		res = http.has_tcp ? http_server_start(&http, &api->server, &error) : 0;
	}
	if (res < 0)
		log_error("control", "cannot start the REST API: %s", error.text);
	if (!api->server) {
		free(api);
		return res;
	}
	api_log_places(api, &http);
	*ret_api = api;
	return 0;
}

static void server_stopped(void *arg)
{
	struct api *api = arg;

	api->server = NULL;
	api->stopped(api->stopped_arg);
}

static void api_stop(struct api *api, void (*stopped)(void *arg), void *arg)
{
	api->is_stopping = true;
	api->stopped = stopped;
	api->stopped_arg = arg;
	http_server_stop(api->server, server_stopped, api);
}

static void api_destroy(struct api *api)
{
	free(api);
}

const struct daemon_api api_functions = {
	.start = api_start,
	.stop = api_stop,
	.destroy = api_destroy,
};
