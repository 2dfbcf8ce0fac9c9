/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses --profile and --set into struct host_timeouts. Main thread. --profile may come after --set
 * on the command line, so both are applied at the end.
 */
#include "cli/timeout_args.h"

#include "cli/cli.h"

#include <string.h>

void timeout_args_init(struct timeout_options *options, const char *command)
{
	memset(options, 0, sizeof(*options));
	options->command = command;
}

int timeout_profile_take(void *to, const struct cli_given *given)
{
	struct timeout_options *options = to;

	return host_profile_parse(given->value, &options->profile) == 0 ? 0
									: cli_words_error(given);
}

int timeout_set_take(void *to, const struct cli_given *given)
{
	return timeout_args_set(to, given->value);
}

const struct cli_option timeout_arg_options[] = {
	{"profile", 0, "PROFILE", "{words}; see explain-timeouts", CLI_PROFILES,
	 .take = timeout_profile_take},
	{"set", 0, "NAME=VALUE", "change one time-out; repeatable", .take = timeout_set_take},
	{NULL},
};

int timeout_args_set(struct timeout_options *options, const char *assignment)
{
	if (options->set_count == TIMEOUT_ARGS_SETS_MAX) {
		cli_usage_error(options->command, "--set was given more than %u times",
				TIMEOUT_ARGS_SETS_MAX);
		return -1;
	}
	options->sets[options->set_count++] = assignment;
	return 0;
}

int timeout_args_finish(const struct timeout_options *options, struct host_timeouts *ret_timeouts)
{
	char error[512];
	int res = 0;

	host_timeouts_fill(ret_timeouts, options->profile);
	for (unsigned i = 0; res == 0 && i < options->set_count; i++)
		res = host_timeouts_set(ret_timeouts, options->sets[i], error, sizeof(error));
	if (res == 0)
		res = host_timeouts_check(ret_timeouts, error, sizeof(error));
	if (res == 0)
		return 0;
	cli_usage_error(options->command, "%s", error);
	return -1;
}
