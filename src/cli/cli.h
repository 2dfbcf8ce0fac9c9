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

struct cli_command {
	const char *name;
	const char *summary;
	/* argv[0] is "weft NAME". Returns the exit status. */
	int (*fn)(int argc, char **argv);
};

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

/* "weft perf: TEXT" on standard error. */
void cli_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, then where help is to be had. Returns CLI_USAGE. */
int cli_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* After getopt_long answered '?' or ':', which printed its own line. Returns CLI_USAGE. */
int cli_usage_hint(const char *command);

#endif
