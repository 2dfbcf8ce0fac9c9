/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft explain-timeouts`: prints, for a profile and what is changed in it, what happens when a
 * path is lost and how long I/O waits at most, on one page or as JSON. Main thread; connects to
 * nothing.
 */
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/timeout_args.h"

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

static void help_print(void)
{
	printf("Usage: weft explain-timeouts [PROFILE] [OPTION]...\n\n"
	       "Shows what happens when a path is lost, and when. PROFILE: default, training "
	       "(fail\n"
	       "over fast) or database (conservative).\n\n"
	       "  -s, --set NAME=VALUE      change one value; 500ms, 5s, 2m; may be repeated\n"
	       "  -o, --output-format FMT   normal or json (normal)\n"
	       "  -h, --help                this text\n\n"
	       "Values:\n");
	for (unsigned i = 0; i < host_timeout_field_count; i++)
		printf("  %-14s %s\n", host_timeout_fields[i].name, host_timeout_fields[i].help);
	printf("\nExample:\n"
	       "  weft explain-timeouts training --set keep-alive=2s --set silence=200ms\n");
}

/* One flag: 0 to go on, else the exit status plus one. */
static int option_take(struct timeout_options *options, int c, bool *ret_is_json)
{
	switch (c) {
	case 's':
		return timeout_args_set(options, optarg) == 0 ? 0 : CLI_USAGE + 1;
	case 'o':
		*ret_is_json = strcmp(optarg, "json") == 0;
		if (*ret_is_json || strcmp(optarg, "normal") == 0)
			return 0;
		return cli_value_error("explain-timeouts", "output-format", optarg) + 1;
	case 'h':
		help_print();
		return CLI_OK + 1;
	default:
		return cli_usage_hint("explain-timeouts") + 1;
	}
}

static const struct option long_options[] = {
	{"set", required_argument, NULL, 's'},
	{"output-format", required_argument, NULL, 'o'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

const struct cli_options explain_timeouts_cli_options = {"s:o:h", long_options};

int cmd_explain_timeouts(int argc, char **argv)
{
	static char page[PAGE_BYTES];
	struct timeout_options options;
	struct host_timeouts timeouts;
	bool is_json = false;
	int c, end = 0;

	timeout_args_init(&options, "explain-timeouts");
	while (end == 0 && (c = cli_getopt("explain-timeouts", &explain_timeouts_cli_options, argc,
					   argv)) != -1)
		end = option_take(&options, c, &is_json);
	if (end != 0)
		return end - 1;
	if (optind < argc && timeout_args_profile(&options, argv[optind++]) != 0)
		return CLI_USAGE;
	if (optind < argc)
		return cli_usage_error("explain-timeouts", "unexpected argument \"%s\"",
				       argv[optind]);
	if (timeout_args_finish(&options, &timeouts) != 0)
		return CLI_USAGE;
	if (is_json)
		return json_print(&timeouts, host_profile_name(options.profile));
	host_timeouts_explain(&timeouts, host_profile_name(options.profile), page, sizeof(page));
	fputs(page, stdout);
	return CLI_OK;
}
