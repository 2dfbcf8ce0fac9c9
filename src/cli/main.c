/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program `weft`: finds the sub-command in the table and calls it. Runs on the main thread;
 * what threads a sub-command starts is its own business.
 */
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_WORDS_MAX 4

static const struct cli_command commands[] = {
	{"serve", "export namespaces over NVMe/TCP", &serve_cli_options, cmd_serve},
	{"ctl", "show and change a running target", &ctl_cli_options, cmd_ctl},
	{"perf", "measure or verify a namespace: IOPS, bandwidth, latency", &perf_cli_options,
	 cmd_perf},
	{"discover", "ask a discovery service what it offers", &connect_query_cli_options,
	 cmd_discover},
	{"identify", "show a controller and its namespaces", &connect_query_cli_options,
	 cmd_identify},
	{"list-subsys", "show a subsystem and the states of its paths", &list_subsys_cli_options,
	 cmd_list_subsys},
	{"explain-timeouts", "what happens when a path is lost, and when",
	 &explain_timeouts_cli_options, cmd_explain_timeouts},
	{"attach", "make a namespace a disk of this machine, by NBD or ublk", &attach_cli_options,
	 cmd_attach},
	{"copy", "copy a file to a namespace, or back, or one to another", &copy_cli_options,
	 cmd_copy},
	{"info", "show what this machine and this build can do", &info_cli_options, cmd_info},
	{"completion", "print the completions of a shell: bash, zsh or fish", NULL, cmd_completion},
	{NULL, NULL, NULL, NULL},
};

const struct cli_command *cli_commands(void)
{
	return commands;
}

int cli_usage_hint(const char *command)
{
	fprintf(stderr, "Try `weft %s --help`.\n", command);
	return CLI_USAGE;
}

int cli_usage_error(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tool_verror(command, format, args);
	va_end(args);
	return cli_usage_hint(command);
}

static void usage_print(FILE *to)
{
	fprintf(to,
		"weft %s: NVMe over Fabrics in user space\n\nUsage: weft COMMAND [OPTION]...\n\n",
		WEFT_VERSION);
	for (const struct cli_command *command = commands; command->name; command++)
		fprintf(to, "  %-16s %s\n", command->name, command->summary);
	fprintf(to,
		"\n`weft help COMMAND` explains a command, `weft --version` prints the version.\n");
}

static const char *name_at(const void *context, size_t index)
{
	const struct cli_command *table = context;

	return table[index].name;
}

static int unknown_command(const char *name)
{
	const char *meant = cli_suggest(name, name_at, commands);

	if (meant) {
		fprintf(stderr, "weft: unknown command \"%s\"; did you mean %s?\n", cli_shown(name),
			meant);
		fprintf(stderr, "Try `weft --help`.\n");
		return CLI_USAGE;
	}
	fprintf(stderr, "weft: unknown command \"%s\"\n\n", cli_shown(name));
	usage_print(stderr);
	return CLI_USAGE;
}

static int command_run(int argc, char **argv)
{
	for (const struct cli_command *command = commands; command->name; command++)
		if (strcmp(argv[0], command->name) == 0)
			return command->fn(argc, argv);
	return unknown_command(argv[0]);
}

/* `weft help ctl namespace` is `weft ctl namespace --help`. */
static int help_run(int argc, char **argv)
{
	static char help_option[] = "--help";
	char *words[HELP_WORDS_MAX + 2] = {0};
	int count = argc < HELP_WORDS_MAX ? argc : HELP_WORDS_MAX;

	if (argc == 0) {
		usage_print(stdout);
		return CLI_OK;
	}
	memcpy(words, argv, (size_t)count * sizeof(words[0]));
	words[count] = help_option;
	return command_run(count + 1, words);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	if (!name) {
		usage_print(stderr);
		return CLI_USAGE;
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
		printf("weft %s\n", WEFT_VERSION);
		return CLI_OK;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return help_run(argc - 2, argv + 2);
	return command_run(argc - 1, argv + 1);
}
