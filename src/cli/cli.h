/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sub-commands of the program `weft`, and what they share. Each is described by a struct
 * cli_command in cmd_NAME.c (with NAME_*.c beside it when it is large), which the one table in
 * main.c lists. What a sub-command does, when it is more than a conversation, is a folder of its
 * own.
 *
 * Exit statuses: 0 done, 1 failed, 2 wrong usage.
 */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include "cli/options.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
};

struct cli_command {
	const char *name;
	const char *summary; /* in `weft --help` */
	const char *usage;   /* what follows "weft NAME": a line for each way to call it */
	const char *about;   /* whole lines */
	const struct cli_group *groups;
	unsigned group_count;
	bool has_own_help; /* --help is one of its rows: it depends on the words */
	bool takes_words;  /* beside options */
	const char *words; /* what the first one may be, separated by blanks; NULL: anything */
	void (*note)(void *to, const struct cli_option *given); /* of every option; NULL: nobody */
	void (*print_more)(void); /* help that is behind the options; NULL: none */
	const char *notes;        /* whole lines behind that: exit status, examples; NULL: none */
	/* argv[0] is "weft NAME". Returns the exit status. */
	int (*fn)(int argc, char **argv);
};

/* The table, in the order of `weft --help`; ends with NULL. */
const struct cli_command *const *cli_commands(void);

extern const struct cli_command serve_command;
extern const struct cli_command ctl_command;
extern const struct cli_command perf_command;
extern const struct cli_command discover_command;
extern const struct cli_command identify_command;
extern const struct cli_command list_subsys_command;
extern const struct cli_command explain_timeouts_command;
extern const struct cli_command attach_command;
extern const struct cli_command copy_command;
extern const struct cli_command info_command;
extern const struct cli_command completion_command;

/* tool_error (base/tool_error.h), then where help is to be had. Returns CLI_USAGE. */
int cli_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Where help is to be had. Returns CLI_USAGE. */
int cli_usage_hint(const char *command);

#endif
