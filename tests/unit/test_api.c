/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of routes against the OpenAPI document that is built into the program: every route is
 * described with its parameters and body, and everything described has a route. Also: every
 * reference in the document resolves, and error responses are named.
 */
#include "api/api.h"
#include "tap.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

static json_t *document;

static json_t *operation_of(const struct api_route *route)
{
	char method[16] = "";

	for (size_t i = 0; route->method[i] && i + 1 < sizeof(method); i++)
		method[i] = (char)tolower((unsigned char)route->method[i]);
	return json_object_get(json_object_get(json_object_get(document, "paths"), route->pattern),
			       method);
}

/* Resolves {"$ref": "#/components/…"}. */
static const json_t *follow(const json_t *value)
{
	const char *at = json_string_value(json_object_get(value, "$ref"));
	const json_t *found = document;

	if (!at)
		return value;
	if (strncmp(at, "#/", 2) != 0)
		return NULL;
	for (at += 2; found && *at;) {
		size_t len = strcspn(at, "/");
		char key[64];

		snprintf(key, sizeof(key), "%.*s", (int)len, at);
		found = json_object_get(found, key);
		at += len + (at[len] == '/');
	}
	return found;
}

static bool has_parameter(const json_t *operation, const char *name, const char *where)
{
	const json_t *list = json_object_get(operation, "parameters");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *parameter = follow(json_array_get(list, i));
		const char *is = json_string_value(json_object_get(parameter, "name"));
		const char *in = json_string_value(json_object_get(parameter, "in"));

		if (is && in && strcmp(is, name) == 0 && strcmp(in, where) == 0)
			return true;
	}
	return false;
}

static unsigned path_parameters(const json_t *operation)
{
	const json_t *list = json_object_get(operation, "parameters");
	unsigned count = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *parameter = follow(json_array_get(list, i));
		const char *in = json_string_value(json_object_get(parameter, "in"));

		count += in && strcmp(in, "path") == 0;
	}
	return count;
}

static bool judge(bool is_good, const struct api_route *route, const char *what)
{
	if (!is_good)
		printf("# %s %s: %s\n", route->method, route->pattern, what);
	return is_good;
}

static bool has_parts(const struct api_route *route, const json_t *operation)
{
	bool names_all = true;
	unsigned count = 0;

	for (const char *at = strchr(route->pattern, '{'); at; at = strchr(at + 1, '{')) {
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "}"), at + 1);
		names_all &= has_parameter(operation, name, "path");
		count++;
	}
	return names_all && path_parameters(operation) == count;
}

static bool has_query(const struct api_route *route, const json_t *operation)
{
	bool is_change = (route->flags & API_CHANGE) != 0;

	return has_parameter(operation, "dry_run", "query") == is_change &&
	       has_parameter(operation, "If-Match", "header") == is_change &&
	       has_parameter(operation, "apply", "query") == ((route->flags & API_APPLY) != 0);
}

static bool has_statuses(const struct api_route *route, const json_t *operation)
{
	static const struct {
		unsigned flags; /* 0: every route */
		const char *statuses[5];
	} rules[] = {
		{0, {"200", "400", "401", "405", "503"}},
		{API_CHANGE, {"409", "412", "500", "507"}},
		{API_BODY, {"413", "415"}},
	};
	const json_t *responses = json_object_get(operation, "responses");
	bool has_all = !strchr(route->pattern, '{') || json_object_get(responses, "404");

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned s = 0; s < 5 && rules[i].statuses[s]; s++) {
			if ((rules[i].flags & route->flags) == rules[i].flags)
				has_all &= json_object_get(responses, rules[i].statuses[s]) != NULL;
		}
	}
	return has_all;
}

static void routes_are_described(void)
{
	const struct api_route *routes;
	size_t count;

	routes = api_routes(&count);
	EXPECT(count > 20);
	for (size_t i = 0; i < count; i++) {
		const struct api_route *route = &routes[i];
		const json_t *operation = operation_of(route);
		const char *summary = json_string_value(json_object_get(operation, "summary"));
		bool has_body = json_object_get(operation, "requestBody") != NULL;

		EXPECT(judge(operation != NULL, route, "is described"));
		EXPECT(judge(summary && strcmp(summary, route->summary) == 0, route, "summary"));
		EXPECT(judge(has_parts(route, operation), route, "parts of the path"));
		EXPECT(judge(has_query(route, operation), route, "query and If-Match"));
		EXPECT(judge(has_body == ((route->flags & API_BODY) != 0), route, "body"));
		EXPECT(judge(has_statuses(route, operation), route, "statuses"));
	}
}

static bool is_routed(const char *path, const char *method)
{
	const struct api_route *routes;
	size_t count;

	routes = api_routes(&count);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(routes[i].pattern, path) == 0 &&
		    strcasecmp(routes[i].method, method) == 0)
			return true;
	}
	return false;
}

static void what_is_described_is_routed(void)
{
	const char *path, *method;
	json_t *item, *operation;

	json_object_foreach(json_object_get(document, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			if (!is_routed(path, method))
				printf("# %s %s\n", method, path);
			EXPECT(is_routed(path, method));
		}
	}
}

static unsigned dangling(const json_t *value)
{
	unsigned count = 0;
	const char *key;
	json_t *below;
	size_t i;

	if (json_is_object(value)) {
		if (json_object_get(value, "$ref") && !follow(value)) {
			printf("# %s\n", json_string_value(json_object_get(value, "$ref")));
			count++;
		}
		json_object_foreach((json_t *)value, key, below) count += dangling(below);
	}
	json_array_foreach((json_t *)value, i, below) count += dangling(below);
	return count;
}

static void operations_have_names(void)
{
	const char *path, *method;
	json_t *item, *operation;
	json_t *seen = json_object();
	bool is_unique = true;

	json_object_foreach(json_object_get(document, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			const char *id =
				json_string_value(json_object_get(operation, "operationId"));

			is_unique &= id && !json_object_get(seen, id);
			if (id)
				json_object_set_new(seen, id, json_true());
		}
	}
	EXPECT(is_unique);
	json_decref(seen);
}

static void references_lead_somewhere(void)
{
	EXPECT_EQ(0, dangling(document));
}

static void document_is_json(void)
{
	json_error_t error;

	document = json_loads(api_openapi_json, JSON_REJECT_DUPLICATES, &error);
	EXPECT(document != NULL);
}

int main(void)
{
	TAP_RUN(document_is_json);
	TAP_RUN(routes_are_described);
	TAP_RUN(what_is_described_is_routed);
	TAP_RUN(references_lead_somewhere);
	TAP_RUN(operations_have_names);
	json_decref(document);
	return tap_end();
}
