/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sub-commands of the program `weft`, and what they share. Each sub-command is a struct
 * cli_command in cmd_NAME.c (with NAME_*.c when it is large). The one table in main.c lists all of
 * them. Work beyond options and output is in a folder of its own.
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
	const char *usage;   /* after "weft NAME": one line for each form of the call */
	const char *about;   /* complete lines */
	const struct cli_group *groups;
	unsigned group_count;
	bool has_own_help; /* --help is one of its options: the help depends on the words */
	bool takes_words;  /* accepts words besides options */
	const char *words; /* allowed first words, separated by blanks; NULL: any */
	/* Called for every given option; may be NULL. */
	void (*note)(void *to, const struct cli_option *given);
	void (*print_more)(void); /* prints help after the options; may be NULL */
	/* Complete lines after print_more: exit status, examples; may be NULL. */
	const char *notes;
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

/* Prints an error with tool_error (base/tool_error.h), then how to get help. Returns CLI_USAGE. */
int cli_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Prints how to get help. Returns CLI_USAGE. */
int cli_usage_hint(const char *command);

#endif
