/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of `weft ctl` to the target: one request, its answer as JSON, errors as messages for
 * people, and the output that all changes share. Main thread.
 */
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ctl_path(const char *format, const char *first, const char *second, const char *third)
{
	const char *names[3] = {first, second, third};
	unsigned used = 0;
	char *path = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&path, &bytes);

	if (!to)
		return NULL;
	fputs("/v1", to);
	for (; *format; format++) {
		char *part;

		if (*format != '*') {
			fputc(*format, to);
			continue;
		}
		part = text_path_part(names[used++]);
		fputs(part ? part : "", to);
		free(part);
	}
	fclose(to);
	return path;
}

static void unreachable_explain(const struct ctl *ctl, int res, const char *error)
{
	if (res != -ECONNREFUSED && res != -ENOENT)
		tool_error("ctl", "%s: %s", ctl->place, error);
	else if (ctl->client.socket_path == ctl->socket_path)
		tool_error("ctl",
			   "no target answers at %s: is `weft serve` running with --state %.*s?",
			   ctl->place, (int)(strrchr(ctl->place, '/') - ctl->place), ctl->place);
	else
		tool_error("ctl", "no target answers at %s: is `weft serve` running with %s?",
			   ctl->place,
			   ctl->client.socket_path ? "--api-socket of this path"
						   : "--api-listen of this address");
}

int ctl_ask(struct ctl *ctl, const struct http_question *question, int *ret_status,
	    json_t **ret_answer)
{
	char error[HTTP_CLIENT_ERROR_BYTES];
	struct http_reply reply;
	int res = http_client_ask(&ctl->client, question, &reply, error);

	if (res < 0) {
		unreachable_explain(ctl, res, error);
		return -1;
	}
	*ret_status = reply.status;
	*ret_answer = json_loadb(reply.body, reply.body_bytes, 0, NULL);
	free(reply.body);
	if (*ret_answer)
		return 0;
	tool_error("ctl", "%s: the answer, of status %d, is not JSON: is this a weft target?",
		   ctl->place, reply.status);
	return -1;
}

static void problem_print(const struct ctl *ctl, int status, const json_t *answer)
{
	const json_t *errors = json_object_get(answer, "errors");
	size_t count = json_array_size(errors);

	if (ctl_print_json(ctl, answer))
		fflush(stdout);
	if (status == 401)
		tool_error("ctl", "%s: give the token of --api-token-file with --token-file FILE",
			   ctl->place);
	else if (count == 0)
		tool_error("ctl", "%s: status %d", ctl->place, status);
	for (size_t i = 0; status != 401 && i < count; i++)
		ctl_problem_print(ctl, json_string_value(json_array_get(errors, i)));
}

static json_t *ask_good(struct ctl *ctl, const struct http_question *question)
{
	json_t *answer;
	int status;

	if (ctl_ask(ctl, question, &status, &answer) < 0)
		return NULL;
	if (status < 300)
		return answer;
	problem_print(ctl, status, answer);
	json_decref(answer);
	return NULL;
}

json_t *ctl_get(struct ctl *ctl, char *taken_path)
{
	const struct http_question question = {.method = "GET", .path = taken_path};
	json_t *answer = ask_good(ctl, &question);

	free(taken_path);
	return answer;
}

json_t *ctl_send(struct ctl *ctl, const char *method, char *taken_path, const json_t *body)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	char *path = NULL;
	struct http_question question = {
		.method = method, .body = text, .generation = ctl->generation};
	json_t *answer = NULL;

	if (asprintf(&path, "%s%s%s", taken_path,
		     !ctl->is_dry_run          ? ""
		     : strchr(taken_path, '?') ? "&"
					       : "?",
		     ctl->is_dry_run ? "dry_run=true" : "") >= 0) {
		question.path = path;
		answer = ask_good(ctl, &question);
		free(path);
	}
	free(taken_path);
	free(text);
	return answer;
}

bool ctl_print_json(const struct ctl *ctl, const json_t *answer)
{
	if (!ctl->is_json)
		return false;
	cli_json_print(answer);
	return true;
}

/* The diff already names what was added. The NSID or port ID that the target chose is worth a
 * line. */
static void done_print(const json_t *answer, uint64_t generation)
{
	if (json_object_get(answer, "nsid"))
		printf("Added namespace %llu", (unsigned long long)ctl_number(answer, "nsid"));
	else if (json_object_get(answer, "id"))
		printf("Added port %llu", (unsigned long long)ctl_number(answer, "id"));
	else
		printf("Done");
	printf(" (generation %llu).\n", (unsigned long long)generation);
}

int ctl_print_change(struct ctl *ctl, json_t *taken_answer)
{
	const json_t *diff = json_object_get(taken_answer, "diff");
	uint64_t generation = ctl_number(taken_answer, "generation");

	if (!taken_answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, taken_answer)) {
		const json_t *notes = json_object_get(taken_answer, "notes");

		for (size_t i = 0; i < json_array_size(notes); i++)
			printf("note: %s\n", cli_shown_json(json_array_get(notes, i)));
		for (size_t i = 0; i < json_array_size(diff); i++)
			printf("%s\n", cli_shown_json(json_array_get(diff, i)));
		if (json_array_size(diff) == 0)
			printf("Nothing to change (generation %llu).\n",
			       (unsigned long long)generation);
		else if (ctl->is_dry_run)
			printf("Dry run: nothing was changed (generation %llu).\n",
			       (unsigned long long)generation);
		else
			done_print(taken_answer, generation);
	}
	json_decref(taken_answer);
	return CLI_OK;
}
