/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that choose the time-outs of the host, the same for every sub-command that opens a
 * subsystem over several paths: --profile NAME and --set name=value.
 */
#ifndef WEFT_CLI_TIMEOUT_ARGS_H
#define WEFT_CLI_TIMEOUT_ARGS_H

#include "cli/options.h"
#include "host/timeouts.h"

#define TIMEOUT_ARGS_SETS_MAX 32

struct timeout_options {
	const char *command; /* name of the sub-command, for messages */
	enum host_profile profile;
	const char *sets[TIMEOUT_ARGS_SETS_MAX]; /* applied over the profile, in order */
	unsigned set_count;
};

void timeout_args_init(struct timeout_options *options, const char *command);
/* 0, or -1 after a message. */
int timeout_args_set(struct timeout_options *options, const char *assignment);
int timeout_args_finish(const struct timeout_options *options, struct host_timeouts *ret_timeouts);

/* --profile and --set, for a struct timeout_options. The functions are for tables with their own
 * rows for these options. */
extern const struct cli_option timeout_arg_options[];
int timeout_profile_take(void *to, const struct cli_given *given);
int timeout_set_take(void *to, const struct cli_given *given);

#endif
