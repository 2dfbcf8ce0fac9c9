/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft explain-timeouts`: prints, for a profile with changed values, what happens when a path is
 * lost and how long I/O waits at most, on one page or as JSON. Main thread; opens no connection.
 */
#include "base/check.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/timeout_args.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define PAGE_BYTES 16384

static json_t *values_to_json(const struct host_timeouts *timeouts)
{
	json_t *values = json_object();

	for (unsigned i = 0; i < host_timeout_field_count; i++) {
		const struct host_timeout_field *field = &host_timeout_fields[i];
		uint32_t value;

		memcpy(&value, (const char *)timeouts + field->offset, sizeof(value));
		json_object_set_new(values, field->name, json_integer(value));
	}
	return values;
}

static json_t *faults_to_json(const struct host_timeouts *timeouts)
{
	struct host_fault faults[HOST_FAULTS_MAX];
	unsigned count = host_timeouts_faults(timeouts, faults);
	json_t *array = json_array();

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(
			array,
			json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "fault", faults[i].name,
				  "title", faults[i].title, "found_by", faults[i].found_by,
				  "found_ms", (json_int_t)faults[i].found_ms, "read_ms",
				  (json_int_t)faults[i].read_ms, "write_with_reset_ms",
				  (json_int_t)faults[i].write_reset_ms, "write_by_time_ms",
				  (json_int_t)faults[i].write_time_ms));
	return array;
}

static int json_print(const struct host_timeouts *timeouts, const char *profile)
{
	json_t *root = json_pack("{s:s, s:o, s:o}", "profile", profile, "values",
				 values_to_json(timeouts), "faults", faults_to_json(timeouts));
	int res = cli_json_print(root) != 0 ? CLI_FAILED : CLI_OK;

	if (res != CLI_OK)
		tool_error("explain-timeouts", "out of memory");
	json_decref(root);
	return res;
}

/* ---- the command ---------------------------------------------------------------------------- */

struct explain_args {
	struct timeout_options timeouts;
	bool is_json;
};

static int cmd_explain_timeouts(int argc, char **argv)
{
	static char page[PAGE_BYTES];
	struct explain_args args = {0};
	struct host_timeouts timeouts;
	int res;

	timeout_args_init(&args.timeouts, "explain-timeouts");
	if (!cli_parse(&explain_timeouts_command, argc, argv, &args, &res))
		return res;
	if (optind < argc && host_profile_parse(argv[optind], &args.timeouts.profile) != 0)
		return cli_word_error("explain-timeouts", "PROFILE", CLI_PROFILES, argv[optind]);
	if (optind + 1 < argc)
		return cli_usage_error("explain-timeouts", "unexpected argument \"%s\"",
				       argv[optind + 1]);
	if (timeout_args_finish(&args.timeouts, &timeouts) != 0)
		return CLI_USAGE;
	if (args.is_json)
		return json_print(&timeouts, host_profile_name(args.timeouts.profile));
	host_timeouts_explain(&timeouts, host_profile_name(args.timeouts.profile), page,
			      sizeof(page));
	fputs(page, stdout);
	return CLI_OK;
}

static void values_print(void)
{
	printf("\nValues:\n");
	for (unsigned i = 0; i < host_timeout_field_count; i++)
		printf("  %-14s %s\n", host_timeout_fields[i].name, host_timeout_fields[i].help);
}

static const struct cli_option options[] = {
	{"set", 's', "NAME=VALUE", "change one value; 500ms, 5s, 2m; repeatable",
	 .take = timeout_set_take},
	CLI_OUTPUT_FORMAT(struct explain_args, is_json),
	{NULL},
};

static const struct cli_group groups[] = {{.options = options}};

const struct cli_command explain_timeouts_command = {
	.name = "explain-timeouts",
	.summary = "what happens when a path is lost, and when",
	.usage = "[PROFILE] [OPTION]...",
	.about = "Shows what happens when a path is lost, and when. PROFILE: default, training\n"
		 "(fail over fast) or database (conservative).\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.takes_words = true,
	.words = CLI_PROFILES,
	.print_more = values_print,
	.notes = "Example:\n"
		 "  weft explain-timeouts training --set keep-alive=2s --set silence=200ms\n",
	.fn = cmd_explain_timeouts,
};
