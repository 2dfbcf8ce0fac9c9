/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program `weft`: finds the sub-command in the table and calls it on the main thread. A
 * sub-command may start its own threads.
 */
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

#define HELP_WORDS_MAX 4

static const struct cli_command *const commands[] = {
	&serve_command,
	&ctl_command,
	&perf_command,
	&discover_command,
	&identify_command,
	&list_subsys_command,
	&explain_timeouts_command,
	&attach_command,
	&copy_command,
	&info_command,
	&completion_command,
	NULL,
};

const struct cli_command *const *cli_commands(void)
{
	return commands;
}

static void usage_print(FILE *to)
{
	fprintf(to,
		"weft %s: NVMe over Fabrics in user space\n\nUsage: weft COMMAND [OPTION]...\n\n",
		WEFT_VERSION);
	for (const struct cli_command *const *command = commands; *command; command++)
		fprintf(to, "  %-16s %s\n", (*command)->name, (*command)->summary);
	fprintf(to,
		"\n`weft help COMMAND` explains a command, `weft --version` prints the version.\n");
}

static const char *name_at(const void *context, size_t index)
{
	return commands[index] ? commands[index]->name : NULL;
}

static int unknown_command(const char *name)
{
	const char *meant = cli_suggest(name, name_at, NULL);

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
	for (const struct cli_command *const *command = commands; *command; command++)
		if (strcmp(argv[0], (*command)->name) == 0)
			return (*command)->fn(argc, argv);
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
