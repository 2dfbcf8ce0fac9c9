/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft completion SHELL`: a completion script made from the same tables that read the options, so
 * that an option can be completed as soon as it can be typed. The scripts know commands, the words
 * of `weft ctl`, options, the values of those that have a fixed set, and which ones take a path.
 * Main thread.
 */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

/* ---- words from the tables ------------------------------------------------------------------- */

static void commands_print(void)
{
	for (const struct cli_command *command = cli_commands(); command->name; command++)
		printf("%s ", command->name);
	printf("help");
}

static void options_print(const struct cli_command *command)
{
	if (!command->options)
		return;
	for (const struct option *o = command->options->longs; o->name; o++)
		printf("%s--%s", o == command->options->longs ? "" : " ", o->name);
}

/* Rows of `weft ctl` repeat their noun; each is printed once. */
static void nouns_print(void)
{
	unsigned count;
	const struct ctl_command *commands = ctl_commands(&count);

	for (unsigned i = 0; i < count; i++)
		if (i == 0 || strcmp(commands[i].noun, commands[i - 1].noun) != 0)
			printf("%s%s", i == 0 ? "" : " ", commands[i].noun);
}

static bool noun_has_verbs(const struct ctl_command *commands, unsigned count, const char *noun)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(commands[i].noun, noun) == 0 && commands[i].verb)
			return true;
	return false;
}

static void verbs_print(const struct ctl_command *commands, unsigned count, const char *noun)
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
static void nouns_with_verbs(void (*print)(const struct ctl_command *commands, unsigned count,
					   const char *noun))
{
	unsigned count;
	const struct ctl_command *commands = ctl_commands(&count);

	for (unsigned i = 0; i < count; i++)
		if ((i == 0 || strcmp(commands[i].noun, commands[i - 1].noun) != 0) &&
		    noun_has_verbs(commands, count, commands[i].noun))
			print(commands, count, commands[i].noun);
}

/* Calls print for each option name that has a fixed set of values or takes a path, once. */
static void values_each(void (*print)(const char *option, const char *words))
{
	const struct cli_value *value;

	for (size_t i = 0; (value = cli_value_at(i)) != NULL; i++)
		print(value->option, value->words);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_value_print(const char *option, const char *words)
{
	if (words)
		printf("\t--%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", option,
		       words);
	else
		printf("\t--%s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", option);
}

static void bash_noun_print(const struct ctl_command *commands, unsigned count, const char *noun)
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
	       "\tcase $prev in\n");
	values_each(bash_value_print);
	printf("\tesac\n"
	       "\tif [ \"$COMP_CWORD\" -eq 1 ] || { [ \"$COMP_CWORD\" -eq 2 ] && [ \"$prev\" = "
	       "help ]; }; "
	       "then\n\t\twords='");
	commands_print();
	printf("'\n\telif [ \"${cur#-}\" != \"$cur\" ]; then\n\t\tcase ${COMP_WORDS[1]} in\n");
	for (const struct cli_command *command = cli_commands(); command->name; command++) {
		printf("\t\t%s) words='", command->name);
		options_print(command);
		printf("' ;;\n");
	}
	printf("\t\tesac\n\telif [ \"$COMP_CWORD\" -eq 2 ] && [ \"$prev\" = ctl ]; "
	       "then\n\t\twords='");
	nouns_print();
	printf("'\n\telif [ \"$COMP_CWORD\" -eq 2 ] && [ \"$prev\" = completion ]; then\n"
	       "\t\twords='bash zsh fish'\n"
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

static void zsh_value_print(const char *option, const char *words)
{
	if (words)
		printf("\t--%s) compadd -- %s; return ;;\n", option, words);
	else
		printf("\t--%s) _files; return ;;\n", option);
}

static void zsh_noun_print(const struct ctl_command *commands, unsigned count, const char *noun)
{
	printf("\t\t'ctl %s') compadd -- ", noun);
	verbs_print(commands, count, noun);
	printf("; return ;;\n");
}

static void zsh_print(void)
{
	printf("#compdef weft\n# Completions of weft for zsh; made by `weft completion zsh`.\n"
	       "_weft() {\n"
	       "\tcase $words[CURRENT-1] in\n");
	values_each(zsh_value_print);
	printf("\tesac\n"
	       "\tif (( CURRENT == 2 )) || [[ CURRENT -eq 3 && $words[2] == help ]]; then\n"
	       "\t\tlocal -a commands=(\n");
	for (const struct cli_command *command = cli_commands(); command->name; command++)
		printf("\t\t\t'%s:%s'\n", command->name, command->summary);
	printf("\t\t\t'help:explain a command'\n\t\t)\n"
	       "\t\t_describe command commands\n\t\treturn\n\tfi\n"
	       "\tif [[ $words[CURRENT] == -* ]]; then\n\t\tcase $words[2] in\n");
	for (const struct cli_command *command = cli_commands(); command->name; command++) {
		printf("\t\t%s) compadd -- ", command->name);
		options_print(command);
		printf("; return ;;\n");
	}
	printf("\t\tesac\n\tfi\n"
	       "\tif (( CURRENT == 3 )); then\n\t\tcase $words[2] in\n\t\tctl) compadd -- ");
	nouns_print();
	printf("; return ;;\n\t\tcompletion) compadd -- bash zsh fish; return ;;\n\t\tesac\n\tfi\n"
	       "\tif (( CURRENT == 4 )); then\n\t\tcase \"$words[2] $words[3]\" in\n");
	nouns_with_verbs(zsh_noun_print);
	printf("\t\tesac\n\tfi\n\t_files\n}\n"
	       "if [[ $funcstack[1] == _weft ]]; then _weft \"$@\"; else compdef _weft weft; fi\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_option_print(const char *command, const struct option *option)
{
	const struct cli_value *value = cli_value_find(option->name);

	printf("complete -c weft -n '__fish_seen_subcommand_from %s' -l %s", command, option->name);
	if (option->val > ' ' && option->val < 127)
		printf(" -s %c", option->val);
	if (option->has_arg == required_argument && value && value->words)
		printf(" -x -a '%s'", value->words);
	else if (option->has_arg == required_argument && value)
		printf(" -r -F");
	else if (option->has_arg == required_argument)
		printf(" -x");
	printf("\n");
}

static void fish_noun_print(const struct ctl_command *commands, unsigned count, const char *noun)
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
	for (const struct cli_command *command = cli_commands(); command->name; command++) {
		printf("complete -c weft -f -n __fish_use_subcommand -a %s -d '%s'\n",
		       command->name, command->summary);
		for (const struct option *o = command->options ? command->options->longs : NULL;
		     o && o->name; o++)
			fish_option_print(command->name, o);
	}
	printf("complete -c weft -f -n __fish_use_subcommand -a help -d 'explain a command'\n"
	       "complete -c weft -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh "
	       "fish'\n"
	       "complete -c weft -f -n '__fish_seen_subcommand_from ctl' -a '");
	nouns_print();
	printf("'\n");
	nouns_with_verbs(fish_noun_print);
}

/* ---- the command ----------------------------------------------------------------------------- */

static const char completion_help[] =
	"Usage: weft completion bash|zsh|fish\n"
	"\n"
	"Prints the completions of a shell. `make install` puts them where the shells look; for\n"
	"this terminal alone:\n"
	"\n"
	"  bash:  eval \"$(weft completion bash)\"\n"
	"  zsh:   eval \"$(weft completion zsh)\"\n"
	"  fish:  weft completion fish | source\n";

int cmd_completion(int argc, char **argv)
{
	static const char shells[] = "bash zsh fish";
	char meant[8];

	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(completion_help, stdout);
		return CLI_OK;
	}
	if (argc != 2)
		return cli_usage_error("completion", "name one shell: bash, zsh or fish");
	ctl_options_fill();
	if (strcmp(argv[1], "bash") == 0)
		bash_print();
	else if (strcmp(argv[1], "zsh") == 0)
		zsh_print();
	else if (strcmp(argv[1], "fish") == 0)
		fish_print();
	else if (cli_suggest_word(argv[1], shells, meant, sizeof(meant)))
		return cli_usage_error("completion",
				       "unknown shell \"%s\" (bash, zsh, fish); did you mean %s?",
				       argv[1], meant);
	else
		return cli_usage_error("completion", "unknown shell \"%s\" (bash, zsh, fish)",
				       argv[1]);
	return CLI_OK;
}
