/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `--help` of a sub-command, from its rows: the option on the left, its help on the right, wrapped
 * for a terminal of 80 columns. Main thread.
 */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#define HELP_BYTES  1024
#define TERM_BYTES  160
#define TEXT_COLUMN 28
#define WIDTH       80
#define WORDS_MARK  "{words}"

/* "numa, round-robin or latency" */
static void words_join(const char *words, char *text, size_t text_bytes)
{
	const char *last = strrchr(words, ' ');
	size_t used = 0;

	for (const char *c = words; *c && used < text_bytes; c++)
		used += (size_t)snprintf(text + used, text_bytes - used, "%.*s%s", *c != ' ', c,
					 *c != ' ' ? "" : (c == last ? " or " : ", "));
}

void cli_help_text(const struct cli_option *option, char *text, size_t text_bytes)
{
	const char *mark = strstr(option->help, WORDS_MARK);
	char words[256] = "";

	if (!mark) {
		text_copy(text, text_bytes, option->help);
		return;
	}
	words_join(option->words, words, sizeof(words));
	snprintf(text, text_bytes, "%.*s%s%s", (int)(mark - option->help), option->help, words,
		 mark + strlen(WORDS_MARK));
}

/* "  -n, --nqn NQN" */
static void term_make(const struct cli_option *option, char *term, size_t term_bytes)
{
	char letter[8] = "    ", value[TERM_BYTES / 2] = "";
	bool is_words = option->argument && strcmp(option->argument, WORDS_MARK) == 0;

	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	if (option->argument)
		snprintf(value, sizeof(value), option->is_value_optional ? "[=%s]" : " %s",
			 is_words ? option->words : option->argument);
	for (char *c = value + 1; is_words && *c; c++)
		*c = *c == ' ' ? '|' : *c;
	snprintf(term, term_bytes, "  %s--%s%s", letter, option->name, value);
}

/* Prints the text from `column` on; further lines begin at TEXT_COLUMN. Newlines in the text are
 * kept. */
static void text_wrap(const char *text, unsigned column)
{
	while (*text) {
		unsigned len = (unsigned)strcspn(text, " \n");

		if (column > TEXT_COLUMN && column + 1 + len > WIDTH) {
			printf("\n%*s", TEXT_COLUMN, "");
			column = TEXT_COLUMN;
		} else if (column > TEXT_COLUMN) {
			putchar(' ');
			column++;
		}
		printf("%.*s", (int)len, text);
		column += len;
		text += len;
		if (*text == '\n') {
			printf("\n%*s", TEXT_COLUMN, "");
			column = TEXT_COLUMN;
		}
		text += *text != 0;
	}
	putchar('\n');
}

void cli_help_option_print(const struct cli_option *option)
{
	char term[TERM_BYTES], text[HELP_BYTES];
	unsigned len;

	term_make(option, term, sizeof(term));
	cli_help_text(option, text, sizeof(text));
	len = (unsigned)strlen(term);
	if (len < TEXT_COLUMN)
		printf("%-*s", TEXT_COLUMN, term);
	else
		printf("%s\n%*s", term, TEXT_COLUMN, "");
	text_wrap(text, TEXT_COLUMN);
}

void cli_help_usage_print(const struct cli_command *command)
{
	const char *before = "Usage:";

	for (const char *line = command->usage; *line;) {
		size_t len = strcspn(line, "\n");

		printf("%s weft %s %.*s\n", before, command->name, (int)len, line);
		before = "      ";
		line += len + (line[len] == '\n');
	}
}

void cli_help_print(const struct cli_command *command)
{
	const struct cli_group *group, *before = NULL;
	const struct cli_option *option;

	cli_help_usage_print(command);
	printf("\n%s\n", command->about);
	for (unsigned i = 0; (option = cli_option_at(command, i, &group)) != NULL; i++) {
		if (!option->help || group->is_hidden)
			continue;
		if (group != before && group->heading)
			printf("%s%s:\n", before ? "\n" : "", group->heading);
		before = group;
		cli_help_option_print(option);
	}
	if (command->print_more)
		command->print_more();
	if (command->notes)
		printf("\n%s", command->notes);
}
