/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program `weft`: finds the sub-command in the table and calls it. Runs on the main thread;
 * what threads a sub-command starts is its own business.
 */
#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct cli_command commands[] = {
	{"serve", "export namespaces over NVMe/TCP", cmd_serve},
	{"ctl", "show and change a running target", cmd_ctl},
	{"perf", "measure or verify a namespace: IOPS, bandwidth, latency", cmd_perf},
	{"discover", "ask a discovery service what it offers", cmd_discover},
	{"identify", "show a controller and its namespaces", cmd_identify},
	{"list-subsys", "show a subsystem and the states of its paths", cmd_list_subsys},
	{"explain-timeouts", "what happens when a path is lost, and when", cmd_explain_timeouts},
	{"attach", "make a namespace a disk of this machine, by NBD or ublk", cmd_attach},
	{"copy", "copy a file to a namespace, or back, or one to another", cmd_copy},
	{"info", "show what this machine and this build can do", cmd_info},
};

__attribute__((format(printf, 2, 0))) static void error_print(const char *command,
							      const char *format, va_list args)
{
	fprintf(stderr, "weft %s: ", command);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void cli_error(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error_print(command, format, args);
	va_end(args);
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
	error_print(command, format, args);
	va_end(args);
	return cli_usage_hint(command);
}

static void usage_print(FILE *to)
{
	fprintf(to,
		"weft %s: NVMe over Fabrics in user space\n\nUsage: weft COMMAND [OPTION]...\n\n",
		WEFT_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(to, "  %-16s %s\n", commands[i].name, commands[i].summary);
	fprintf(to,
		"\n`weft COMMAND --help` explains a command, `weft --version` names this one.\n");
}

int main(int argc, char **argv)
{
	static char full_name[32];
	const char *name = argc > 1 ? argv[1] : "--help";

	if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
		printf("weft %s\n", WEFT_VERSION);
		return CLI_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(name, commands[i].name) != 0)
			continue;
		/* For the messages of getopt_long. */
		snprintf(full_name, sizeof(full_name), "weft %s", name);
		argv[1] = full_name;
		return commands[i].fn(argc - 1, argv + 1);
	}
	if (argc > 1 &&
	    (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)) {
		usage_print(stdout);
		return CLI_OK;
	}
	if (argc > 1)
		fprintf(stderr, "weft: there is no command \"%s\"\n\n", name);
	usage_print(stderr);
	return CLI_USAGE;
}
