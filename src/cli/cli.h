/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sub-commands of the program `weft`, and what they share. Each lives in cmd_NAME.c (with
 * NAME_*.c beside it when it is large) and is listed in the one table in main.c.
 *
 * Exit statuses: 0 done, 1 failed, 2 wrong usage.
 */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
};

struct cli_options;

struct cli_command {
	const char *name;
	const char *summary;
	const struct cli_options *options; /* for completions; NULL: no options */
	/* argv[0] is "weft NAME". Returns the exit status. */
	int (*fn)(int argc, char **argv);
};

/* The table, in the order of `weft --help`; ends with a name of NULL. */
const struct cli_command *cli_commands(void);

int cmd_serve(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_discover(int argc, char **argv);
int cmd_identify(int argc, char **argv);
int cmd_explain_timeouts(int argc, char **argv);
int cmd_list_subsys(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_copy(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_completion(int argc, char **argv);

extern const struct cli_options serve_cli_options;
extern const struct cli_options ctl_cli_options;
extern const struct cli_options perf_cli_options;
extern const struct cli_options connect_query_cli_options; /* discover, identify */
extern const struct cli_options list_subsys_cli_options;
extern const struct cli_options explain_timeouts_cli_options;
extern const struct cli_options attach_cli_options;
extern const struct cli_options copy_cli_options;
extern const struct cli_options info_cli_options;

/* tool_error (base/tool_error.h), then where help is to be had. Returns CLI_USAGE. */
int cli_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* After cli_getopt answered '?', which printed its own line. Returns CLI_USAGE. */
int cli_usage_hint(const char *command);

#endif
