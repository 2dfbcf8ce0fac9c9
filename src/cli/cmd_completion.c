/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft completion SHELL`: prints a completion script made from the same tables that parse the
 * options, so that completions always match the options. The scripts know commands, their first
 * words, options, the values of options with a fixed set, and which options take a path. Main
 * thread.
 */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/suggest.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 1024

typedef void (*option_fn)(const struct cli_command *command, const struct cli_option *option);

/* ---- words from the tables ------------------------------------------------------------------- */

static void commands_print(void)
{
	for (const struct cli_command *const *command = cli_commands(); *command; command++)
		printf("%s ", (*command)->name);
	printf("help");
}

static void options_print(const struct cli_command *command)
{
	const struct cli_option *option;
	const struct cli_group *group;

	for (unsigned i = 0; (option = cli_option_at(command, i, &group)) != NULL; i++)
		printf("%s--%s", i == 0 ? "" : " ", option->name);
}

/* Calls print for each option of each command. */
static void options_each(option_fn print)
{
	const struct cli_option *option;
	const struct cli_group *group;

	for (const struct cli_command *const *command = cli_commands(); *command; command++)
		for (unsigned i = 0; (option = cli_option_at(*command, i, &group)) != NULL; i++)
			print(*command, option);
}

/* Rows of `weft ctl` repeat their noun; prints each noun once. */
static void nouns_print(void)
{
	unsigned count;
	const struct ctl_subcommand *commands = ctl_subcommands(&count);

	for (unsigned i = 0; i < count; i++)
		if (i == 0 || strcmp(commands[i].noun, commands[i - 1].noun) != 0)
			printf("%s%s", i == 0 ? "" : " ", commands[i].noun);
}

static bool noun_has_verbs(const struct ctl_subcommand *commands, unsigned count, const char *noun)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(commands[i].noun, noun) == 0 && commands[i].verb)
			return true;
	return false;
}

static void verbs_print(const struct ctl_subcommand *commands, unsigned count, const char *noun)
{
	const char *separator = "";

	for (unsigned i = 0; i < count; i++) {
		if (strcmp(commands[i].noun, noun) != 0 || !commands[i].verb)
			continue;
		printf("%s%s", separator, commands[i].verb);
		separator = " ";
	}
}

/* Calls print(noun) for each noun that is followed by a verb. */
static void nouns_with_verbs(void (*print)(const struct ctl_subcommand *commands, unsigned count,
					   const char *noun))
{
	unsigned count;
	const struct ctl_subcommand *commands = ctl_subcommands(&count);

	for (unsigned i = 0; i < count; i++)
		if ((i == 0 || strcmp(commands[i].noun, commands[i - 1].noun) != 0) &&
		    noun_has_verbs(commands, count, commands[i].noun))
			print(commands, count, commands[i].noun);
}

/* "'perf --policy'|'perf -p'": the pattern of a command and the option before the cursor. */
static void pattern_print(const struct cli_command *command, const struct cli_option *option)
{
	printf("\t'%s --%s'", command->name, option->name);
	if (option->letter)
		printf("|'%s -%c'", command->name, option->letter);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_value_print(const struct cli_command *command, const struct cli_option *option)
{
	if (!option->words && !option->is_path)
		return;
	pattern_print(command, option);
	if (option->words)
		printf(") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", option->words);
	else
		printf(") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n");
}

static void bash_noun_print(const struct ctl_subcommand *commands, unsigned count, const char *noun)
{
	printf("\t\t'ctl %s') words='", noun);
	verbs_print(commands, count, noun);
	printf("' ;;\n");
}

static void bash_print(void)
{
	printf("# Completions of weft for bash; made by `weft completion bash`.\n"
	       "_weft() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
	       "\tCOMPREPLY=()\n"
	       "\tcase \"${COMP_WORDS[1]} $prev\" in\n");
	options_each(bash_value_print);
	printf("\tesac\n"
	       "\tif [ \"$COMP_CWORD\" -eq 1 ] || { [ \"$COMP_CWORD\" -eq 2 ] && [ \"$prev\" = "
	       "help ]; }; "
	       "then\n\t\twords='");
	commands_print();
	printf("'\n\telif [ \"${cur#-}\" != \"$cur\" ]; then\n\t\tcase ${COMP_WORDS[1]} in\n");
	for (const struct cli_command *const *command = cli_commands(); *command; command++) {
		printf("\t\t%s) words='", (*command)->name);
		options_print(*command);
		printf("' ;;\n");
	}
	printf("\t\tesac\n\telif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
	       "\t\tcase $prev in\n\t\tctl) words='");
	nouns_print();
	printf("' ;;\n");
	for (const struct cli_command *const *command = cli_commands(); *command; command++)
		if ((*command)->words)
			printf("\t\t%s) words='%s' ;;\n", (*command)->name, (*command)->words);
	printf("\t\tesac\n"
	       "\telif [ \"$COMP_CWORD\" -eq 3 ]; then\n"
	       "\t\tcase \"${COMP_WORDS[1]} $prev\" in\n");
	nouns_with_verbs(bash_noun_print);
	printf("\t\tesac\n\tfi\n"
	       "\tif [ -n \"$words\" ]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	       "\telse\n"
	       "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
	       "\tfi\n}\n"
	       "complete -o filenames -F _weft weft\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

static void zsh_value_print(const struct cli_command *command, const struct cli_option *option)
{
	if (!option->words && !option->is_path)
		return;
	pattern_print(command, option);
	if (option->words)
		printf(") compadd -- %s; return ;;\n", option->words);
	else
		printf(") _files; return ;;\n");
}

static void zsh_noun_print(const struct ctl_subcommand *commands, unsigned count, const char *noun)
{
	printf("\t\t'ctl %s') compadd -- ", noun);
	verbs_print(commands, count, noun);
	printf("; return ;;\n");
}

static void zsh_print(void)
{
	printf("#compdef weft\n# Completions of weft for zsh; made by `weft completion zsh`.\n"
	       "_weft() {\n"
	       "\tcase \"$words[2] $words[CURRENT-1]\" in\n");
	options_each(zsh_value_print);
	printf("\tesac\n"
	       "\tif (( CURRENT == 2 )) || [[ CURRENT -eq 3 && $words[2] == help ]]; then\n"
	       "\t\tlocal -a commands=(\n");
	for (const struct cli_command *const *command = cli_commands(); *command; command++)
		printf("\t\t\t'%s:%s'\n", (*command)->name, (*command)->summary);
	printf("\t\t\t'help:explain a command'\n\t\t)\n"
	       "\t\t_describe command commands\n\t\treturn\n\tfi\n"
	       "\tif [[ $words[CURRENT] == -* ]]; then\n\t\tcase $words[2] in\n");
	for (const struct cli_command *const *command = cli_commands(); *command; command++) {
		printf("\t\t%s) compadd -- ", (*command)->name);
		options_print(*command);
		printf("; return ;;\n");
	}
	printf("\t\tesac\n\tfi\n"
	       "\tif (( CURRENT == 3 )); then\n\t\tcase $words[2] in\n\t\tctl) compadd -- ");
	nouns_print();
	printf("; return ;;\n");
	for (const struct cli_command *const *command = cli_commands(); *command; command++)
		if ((*command)->words)
			printf("\t\t%s) compadd -- %s; return ;;\n", (*command)->name,
			       (*command)->words);
	printf("\t\tesac\n\tfi\n"
	       "\tif (( CURRENT == 4 )); then\n\t\tcase \"$words[2] $words[3]\" in\n");
	nouns_with_verbs(zsh_noun_print);
	printf("\t\tesac\n\tfi\n\t_files\n}\n"
	       "if [[ $funcstack[1] == _weft ]]; then _weft \"$@\"; else compdef _weft weft; fi\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

/* Prints what the option does, in single quotes and on one line. */
static void fish_description_print(const struct cli_option *option)
{
	char text[TEXT_BYTES];

	if (!option->help)
		return;
	cli_help_text(option, text, sizeof(text));
	printf(" -d '");
	for (const char *c = text; *c; c++) {
		if (*c == '\'' || *c == '\\')
			putchar('\\');
		putchar(*c == '\n' ? ' ' : *c);
	}
	printf("'");
}

static void fish_name_print(const struct cli_command *command, const struct cli_option *option)
{
	printf("complete -c weft -n '__fish_seen_subcommand_from %s' -l %s", command->name,
	       option->name);
	if (option->letter)
		printf(" -s %c", option->letter);
	if (option->argument && !option->is_value_optional)
		printf(option->is_path ? " -r -F" : " -x");
}

static void fish_option_print(const struct cli_command *command, const struct cli_option *option)
{
	/* Words are on a line of their own: otherwise fish shows the option's description for each
	 * word. */
	if (option->words) {
		fish_name_print(command, option);
		printf(" -a '%s'\n", option->words);
	}
	fish_name_print(command, option);
	fish_description_print(option);
	printf("\n");
}

static void fish_noun_print(const struct ctl_subcommand *commands, unsigned count, const char *noun)
{
	printf("complete -c weft -f -n '__fish_seen_subcommand_from ctl; and "
	       "__fish_seen_subcommand_from %s' -a '",
	       noun);
	verbs_print(commands, count, noun);
	printf("'\n");
}

static void fish_print(void)
{
	printf("# Completions of weft for fish; made by `weft completion fish`.\n");
	for (const struct cli_command *const *command = cli_commands(); *command; command++) {
		printf("complete -c weft -f -n __fish_use_subcommand -a %s -d '%s'\n",
		       (*command)->name, (*command)->summary);
		if ((*command)->words)
			printf("complete -c weft -f -n '__fish_seen_subcommand_from %s' -a '%s'\n",
			       (*command)->name, (*command)->words);
	}
	options_each(fish_option_print);
	printf("complete -c weft -f -n __fish_use_subcommand -a help -d 'explain a command'\n"
	       "complete -c weft -f -n '__fish_seen_subcommand_from ctl' -a '");
	nouns_print();
	printf("'\n");
	nouns_with_verbs(fish_noun_print);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int cmd_completion(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = {{"bash", bash_print}, {"zsh", zsh_print}, {"fish", fish_print}};
	char meant[CLI_WORD_BYTES];
	int res;

	if (!cli_parse(&completion_command, argc, argv, NULL, &res))
		return res;
	if (argc - optind != 1)
		return cli_usage_error("completion", "name one shell: bash, zsh or fish");
	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		if (strcmp(argv[optind], shells[i].name) == 0) {
			shells[i].print();
			return CLI_OK;
		}
	}
	if (cli_suggest_word(argv[optind], completion_command.words, meant, sizeof(meant)))
		return cli_usage_error("completion",
				       "unknown shell \"%s\" (bash, zsh, fish); did you mean %s?",
				       argv[optind], meant);
	return cli_usage_error("completion", "unknown shell \"%s\" (bash, zsh, fish)",
			       argv[optind]);
}

const struct cli_command completion_command = {
	.name = "completion",
	.summary = "print the completions of a shell: bash, zsh or fish",
	.usage = "bash|zsh|fish",
	.about = "Prints the completion script of a shell. `make install` installs the scripts of\n"
		 "all shells; for this terminal alone:\n"
		 "\n"
		 "  bash:  eval \"$(weft completion bash)\"\n"
		 "  zsh:   eval \"$(weft completion zsh)\"\n"
		 "  fish:  weft completion fish | source\n",
	.takes_words = true,
	.words = "bash zsh fish",
	.fn = cmd_completion,
};
