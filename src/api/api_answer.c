/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How calls of the REST API end: answers, errors, and changes of the desired state. A change is an
 * edit for daemon_change, and is answered when it is applied to every reactor and kept.
 *
 * Control reactor only. Errors are problem details (RFC 9457): one line for people, then every
 * problem found with its place and remedy.
 */
#include "api/api_call.h"
#include "base/json_text.h"
#include "base/log.h"
#include "config/json_whole.h"
#include "daemon/manage.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL_TEXT_BYTES 1024

void api_call_free(struct api_call *call)
{
	json_decref(call->body);
	json_decref(call->extra);
	free(call->location);
	manage_file_release(call->file);
	free(call->file);
	free(call);
}

static void call_end(struct api_call *call, struct http_answer *answer)
{
	http_request_answer(call->request, answer);
	api_call_free(call);
}

static void answer_json(struct api_call *call, struct http_answer *answer, json_t *taken_json)
{
	char *bare = taken_json ? json_whole_text(taken_json, JSON_TEXT_FLAGS) : NULL;
	char *text = NULL;

	json_decref(taken_json);
	if (!bare || json_whole_losses() != call->json_losses || asprintf(&text, "%s\n", bare) < 0)
		text = NULL;
	free(bare);
	if (!text) {
		free(answer->taken_location);
		*answer = (struct http_answer){
			.status = 503,
			.is_problem = true,
			.taken_body = http_problem_text(503, "the target is out of memory"),
		};
	} else {
		answer->taken_body = text;
	}
	answer->body_bytes = answer->taken_body ? strlen(answer->taken_body) : 0;
	call_end(call, answer);
}

void api_answer_status(struct api_call *call, int status, json_t *taken_json)
{
	struct http_answer answer = {
		.status = status,
		.generation = daemon_generation(call->api->daemon),
	};

	answer_json(call, &answer, taken_json);
}

void api_answer(struct api_call *call, json_t *taken_json)
{
	api_answer_status(call, 200, taken_json);
}

/* A string that is not UTF-8 (a path may have any bytes) is not repeated in the answer. */
static json_t *text_json(const char *text)
{
	json_t *json = json_string(text);

	return json ? json : json_string("the error text is not valid UTF-8 and cannot be shown");
}

void api_fail_errors(struct api_call *call, int status, const char *error,
		     const struct config_errors *errors)
{
	unsigned kept = errors->count < CONFIG_ERRORS_MAX ? errors->count : CONFIG_ERRORS_MAX;
	struct http_answer answer = {.status = status, .is_problem = true};
	json_t *list = json_array();
	json_t *root;

	for (unsigned i = 0; i < kept; i++)
		json_array_append_new(list, text_json(errors->texts[i]));
	if (errors->count > kept) {
		char more[64];

		snprintf(more, sizeof(more), "and %u more", errors->count - kept);
		json_array_append_new(list, json_string(more));
	}
	if (kept == 0)
		json_array_append_new(list, text_json(error));
	/* RFC 9457, section 3.1. "error" repeats "detail" for clients of former versions. */
	root = json_pack("{s:s, s:s, s:i, s:o, s:o, s:o}", "type", "about:blank", "title",
			 http_status_title(status), "status", status, "detail",
			 text_json(kept > 0 ? errors->texts[0] : error), "error",
			 text_json(kept > 0 ? errors->texts[0] : error), "errors", list);
	answer_json(call, &answer, root);
}

void api_fail(struct api_call *call, int status, const char *format, ...)
{
	static const struct config_errors none;
	char text[FAIL_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	api_fail_errors(call, status, text, &none);
}

/* ---- changes -------------------------------------------------------------------------------- */

/* The status for a refused edit, or for a change that could not be checked, applied or kept. */
static int change_status(const struct api_call *call, int res)
{
	switch (-res) {
	case ESTALE:
		return 412;
	case ESHUTDOWN:
	case ENOMEM:
		return 503;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return 507;
	case EIO:
	case EROFS:
	case ENOLINK: /* the state store was deleted, moved or replaced */
	case ENOTRECOVERABLE:
		return 500;
	case EINVAL:
		return 400;
	case ENOENT:
		/* A missing file of a medium is a conflict, because the thing in the path of the
		 * call exists. */
		return call->has_edited ? 409 : 404;
	default:
		/* Exists already, or in use: media, addresses, names. */
		return 409;
	}
}

json_t *api_diff_json(const char *diff)
{
	json_t *list = json_array();

	while (diff && *diff) {
		size_t len = strcspn(diff, "\n");

		if (len > 0)
			json_array_append_new(list, json_stringn(diff, len));
		diff += len + (diff[len] == '\n');
	}
	return list;
}

static void change_fail(struct api_call *call, const struct change_result *result)
{
	char text[128];

	if (result->res == -ESTALE && result->errors.count == 0) {
		api_fail(call, 412,
			 "the configuration is at generation %llu, not %llu: read the "
			 "configuration again, then repeat the change",
			 (unsigned long long)daemon_generation(call->api->daemon),
			 (unsigned long long)call->expected_generation);
		return;
	}
	if (result->res == -ESHUTDOWN)
		snprintf(text, sizeof(text), "the target is stopping");
	else
		snprintf(text, sizeof(text), "%s", strerror(-result->res));
	api_fail_errors(call, change_status(call, result->res), text, &result->errors);
}

void api_change_done(void *arg_call, struct change_result *result)
{
	struct api_call *call = arg_call;
	struct http_answer answer = {.status = 200, .generation = result->generation};
	json_t *root;

	if (result->res < 0) {
		change_fail(call, result);
		return;
	}
	if (answer.generation == 0)
		answer.generation = daemon_generation(call->api->daemon);
	root = json_pack("{s:I, s:b, s:o}", "generation", (json_int_t)answer.generation, "applied",
			 !call->is_dry_run, "diff", api_diff_json(result->diff));
	if (root && call->extra)
		json_object_update(root, call->extra);
	if (root && call->note[0])
		json_object_set_new(root, "notes", json_pack("[s]", call->note));
	if (call->location) {
		if (root)
			json_object_set_new(root, "location", json_string(call->location));
		answer.status = call->is_dry_run ? 200 : 201;
		if (!call->is_dry_run) {
			answer.taken_location = call->location;
			call->location = NULL;
		}
	}
	answer_json(call, &answer, root);
}

static int change_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct api_call *call = arg;
	int res = call->edit(call, document, errors);

	call->has_edited = res == 0;
	return res;
}

static void change_ended(void *arg_call, const struct change_result *result)
{
	struct api_call *call = arg_call;

	if (result->res == 0 && call->changed && !call->is_dry_run)
		call->changed(call);
}

void api_change(struct api_call *call,
		int (*edit)(struct api_call *call, json_t *document, struct config_errors *errors))
{
	struct change change = {
		.edit = change_edit,
		.done = api_change_done,
		.ended = change_ended,
		.arg = call,
		.origin = call->origin[0] ? call->origin : "rest",
		.expected_generation = call->expected_generation,
		.is_dry_run = call->is_dry_run,
		.is_forced = call->is_forced,
	};

	call->edit = edit;
	daemon_change(call->api->daemon, &change);
}

void api_made(struct api_call *call, const char *format, ...)
{
	char *path = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&path, format, args) < 0)
		path = NULL;
	va_end(args);
	free(call->location);
	call->location = NULL;
	if (path && asprintf(&call->location, "/v1%s", path) < 0)
		call->location = NULL;
	free(path);
}
