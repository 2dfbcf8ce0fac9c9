/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft ctl` history and rollback: lists the generations that the state store keeps, shows one and
 * what a rollback to it would change, and rolls back. Main thread.
 */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line of a change's diff, and the number of further lines. */
static const char *summary_of(const json_t *entry, char *text, size_t text_bytes)
{
	const json_t *diff = json_object_get(entry, "diff");
	size_t count = json_array_size(diff);
	const char *first = json_string_value(json_array_get(diff, 0));

	if (count > 1)
		snprintf(text, text_bytes, "%s (and %zu more)", first, count - 1);
	else
		snprintf(text, text_bytes, "%s", first ? first : "-");
	return text;
}

static int history_list(struct ctl *ctl)
{
	static const char *const titles[] = {">GENERATION", "WHEN", "WHO", "WHAT", NULL};
	json_t *answer = ctl_get(ctl, ctl_path("/history", NULL, NULL, NULL));
	struct ctl_table table;
	json_t *entry;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "history"), i, entry)
		{
			char number[32], stamp[32], origin[256], summary[1024];

			ctl_table_row(&table,
				      (const char *const[]){
					      ctl_text(entry, "generation", number, sizeof(number)),
					      ctl_time(entry, "time_s", stamp, sizeof(stamp)),
					      ctl_text(entry, "origin", origin, sizeof(origin)),
					      summary_of(entry, summary, sizeof(summary))});
		}
		ctl_table_end(&table, "no generation is saved");
	}
	json_decref(answer);
	return CLI_OK;
}

static void lines_print(const json_t *lines)
{
	for (size_t i = 0; i < json_array_size(lines); i++)
		printf("    %s\n", cli_shown_json(json_array_get(lines, i)));
}

/* Prints what a rollback would change, or why it is not possible, from a dry run. */
static int rollback_foresee(struct ctl *ctl)
{
	char *path = ctl_path("/history/*/rollback?dry_run=true", ctl->words[0], NULL, NULL);
	const struct http_question question = {.method = "POST", .path = path};
	const json_t *diff;
	json_t *answer;
	int status, res = ctl_ask(ctl, &question, &status, &answer);

	free(path);
	if (res < 0)
		return res;
	diff = json_object_get(answer, "diff");
	if (status >= 300) {
		printf("a rollback to this generation is not possible:\n");
		lines_print(json_object_get(answer, "errors"));
	} else if (json_array_size(diff) == 0) {
		printf("a rollback to this generation would change nothing\n");
	} else {
		printf("a rollback to this generation would change:\n");
		lines_print(diff);
	}
	json_decref(answer);
	return 0;
}

static int history_show(struct ctl *ctl)
{
	json_t *answer = ctl_get(ctl, ctl_path("/history/*", ctl->words[0], NULL, NULL));
	int res = 0;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		char stamp[32], origin[256];
		bool is_current = json_is_true(json_object_get(answer, "current"));

		printf("generation %llu%s, %s, by %s\n",
		       (unsigned long long)ctl_number(answer, "generation"),
		       is_current ? " (in force)" : "",
		       ctl_time(answer, "time_s", stamp, sizeof(stamp)),
		       ctl_text(answer, "origin", origin, sizeof(origin)));
		lines_print(json_object_get(answer, "diff"));
		if (!is_current)
			res = rollback_foresee(ctl);
	}
	json_decref(answer);
	return res < 0 ? CLI_FAILED : CLI_OK;
}

/* 0 or, after a message, -1. */
static int generation_check(const struct ctl *ctl)
{
	uint64_t number = 0;

	if (text_parse_u64(ctl->words[0], INT64_MAX, &number) == 0 && number > 0)
		return 0;
	cli_usage_error("ctl",
			"\"%s\" must be a generation: a number that `weft ctl history` lists",
			ctl->words[0]);
	return -1;
}

int ctl_history(struct ctl *ctl)
{
	if (ctl->word_count == 0)
		return history_list(ctl);
	return generation_check(ctl) < 0 ? CLI_USAGE : history_show(ctl);
}

int ctl_rollback(struct ctl *ctl)
{
	if (generation_check(ctl) < 0)
		return CLI_USAGE;
	return ctl_print_change(
		ctl, ctl_send(ctl, "POST",
			      ctl_path("/history/*/rollback", ctl->words[0], NULL, NULL), NULL));
}
