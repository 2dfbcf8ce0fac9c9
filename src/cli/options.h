/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every sub-command's options have in common: reading them with errors that suggest the option
 * that was meant, the words an option accepts, and the tables from which `weft completion` makes
 * the shells' completions.
 */
#ifndef WEFT_CLI_OPTIONS_H
#define WEFT_CLI_OPTIONS_H

#include <getopt.h>
#include <stddef.h>

struct cli_options {
	const char *shorts; /* as for getopt_long, without a leading ':' */
	const struct option *longs;
};

/*
 * getopt_long with messages of our own. -1 at the end; '?' after a message that names the option
 * and, where one is near, the option that was meant.
 */
int cli_getopt(const char *command, const struct cli_options *options, int argc, char **argv);

/* What follows an option of this name, in every sub-command that has it. */
struct cli_value {
	const char *option;
	const char *words; /* the values it accepts, separated by blanks; NULL: a path */
};

/* "--rw: "randred" is not one of read, write, ...; did you mean randread?" and where help is to be
 * had. The option is one whose words the table of values has. Returns CLI_USAGE. */
int cli_value_error(const char *command, const char *option, const char *given);

/* NULL: any text. */
const struct cli_value *cli_value_find(const char *option);
/* The table, row by row; NULL behind its end. */
const struct cli_value *cli_value_at(size_t index);

/*
 * The candidate nearest to `word`, or NULL when none is near enough to be meant. Candidates are
 * asked for by index until `at` answers NULL; equal ones may repeat.
 */
const char *cli_suggest(const char *word, const char *(*at)(const void *context, size_t index),
			const void *context);
/* The same for a list of words separated by blanks; copied to `text`. NULL: none. */
const char *cli_suggest_word(const char *word, const char *words, char *text, size_t text_bytes);

#endif
