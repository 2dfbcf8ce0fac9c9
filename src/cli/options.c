/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the options of a sub-command by its table, and reports errors: an unknown option, a
 * missing value, a value for an option that takes none, an invalid value. Main thread.
 */
#include "cli/options.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/suggest.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX     96
#define LONG_BASE       256 /* plus the row's index: larger than any letter */
#define DURATION_MAX_MS (UINT64_MAX / NS_PER_MS / 4) /* sums in nanoseconds do not overflow */

static const struct cli_option help_option = {"help", 'h', NULL, "show this help"};

/* Arguments for getopt_long, made from the rows. */
struct table {
	const struct cli_option *rows[OPTIONS_MAX];
	size_t offsets[OPTIONS_MAX];
	unsigned count;
	struct option longs[OPTIONS_MAX + 1];
	char shorts[3 * OPTIONS_MAX + 2];
};

const struct cli_option *cli_group_options(const struct cli_group *group)
{
	return group->make ? group->make() : group->options;
}

const struct cli_option *cli_option_at(const struct cli_command *command, unsigned index,
				       const struct cli_group **ret_group)
{
	static const struct cli_group last;

	for (unsigned g = 0; g < command->group_count; g++) {
		const struct cli_group *group = &command->groups[g];

		for (const struct cli_option *option = cli_group_options(group); option->name;
		     option++) {
			*ret_group = group;
			if (index-- == 0)
				return option;
		}
	}
	*ret_group = &last;
	return index == 0 && !command->has_own_help ? &help_option : NULL;
}

static int argument_mode(const struct cli_option *option)
{
	if (!option->argument)
		return no_argument;
	return option->is_value_optional ? optional_argument : required_argument;
}

static void table_make(struct table *table, const struct cli_command *command)
{
	const struct cli_option *option;
	const struct cli_group *group;
	char *shorts = table->shorts;

	memset(table, 0, sizeof(*table));
	/* Makes getopt_long silent, and lets it return ':' for a missing value and '?' for an
	 * unknown option. */
	*shorts++ = ':';
	while ((option = cli_option_at(command, table->count, &group)) != NULL) {
		unsigned i = table->count++;

		CHECK(table->count <= OPTIONS_MAX);
		table->rows[i] = option;
		table->offsets[i] = group->offset;
		table->longs[i] = (struct option){option->name, argument_mode(option), NULL,
						  LONG_BASE + (int)i};
		if (option->letter) {
			*shorts++ = option->letter;
			for (int colons = argument_mode(option); colons > 0; colons--)
				*shorts++ = ':';
		}
	}
}

/* The index of the row for a value that getopt_long returned; -1: none. */
static int table_find(const struct table *table, int value)
{
	if (value >= LONG_BASE)
		return value - LONG_BASE;
	for (unsigned i = 0; i < table->count; i++)
		if (value != 0 && table->rows[i]->letter == value)
			return (int)i;
	return -1;
}

/* ---- errors -------------------------------------------------------------------------------- */

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

static const char *name_at(const void *context, size_t index)
{
	const struct table *table = context;

	return table->longs[index].name;
}

static void unknown_print(const struct table *table, const char *command, const char *word)
{
	char name[CLI_WORD_BYTES];
	const char *meant;
	size_t len;

	if (strncmp(word, "--", 2) != 0) {
		tool_error(command, "unknown option \"-%c\"", optopt);
		return;
	}
	len = strcspn(word + 2, "=");
	text_copy(name, len + 1 < sizeof(name) ? len + 1 : sizeof(name), word + 2);
	meant = cli_suggest(name, name_at, table);
	if (meant)
		tool_error(command, "unknown option \"--%s\"; did you mean --%s?", name, meant);
	else
		tool_error(command, "unknown option \"--%s\"", name);
}

/* Prints the error after getopt_long returned ':' or '?'. */
static void mistake_print(const struct table *table, const char *command, int answer,
			  const char *word)
{
	int known = table_find(table, optopt);

	if (known >= 0 && answer == ':')
		tool_error(command, "--%s needs a value", table->longs[known].name);
	else if (known >= 0 && strncmp(word, "--", 2) == 0)
		tool_error(command, "--%s takes no value", table->longs[known].name);
	else
		unknown_print(table, command, word);
}

int cli_given_error(const struct cli_given *given, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	cli_usage_error(given->command, "--%s %s", given->option->name, text);
	return -1;
}

int cli_word_error(const char *command, const char *what, const char *words, const char *given)
{
	char list[256], meant[CLI_WORD_BYTES];
	size_t used = 0;

	for (const char *c = words; *c && used + 3 < sizeof(list); c++) {
		if (*c == ' ')
			list[used++] = ',';
		list[used++] = *c;
	}
	list[used] = 0;
	if (cli_suggest_word(given, words, meant, sizeof(meant)))
		return cli_usage_error(command, "%s: \"%s\" is not one of %s; did you mean %s?",
				       what, given, list, meant);
	return cli_usage_error(command, "%s: \"%s\" is not one of %s", what, given, list);
}

int cli_words_error(const struct cli_given *given)
{
	char what[CLI_WORD_BYTES + 2];

	snprintf(what, sizeof(what), "--%s", given->option->name);
	cli_word_error(given->command, what, given->option->words, given->value);
	return -1;
}

/* ---- values --------------------------------------------------------------------------------- */

int cli_given_number(const struct cli_given *given, uint64_t min, uint64_t max,
		     uint64_t *ret_number)
{
	if (text_parse_u64(given->value, max, ret_number) == 0 && *ret_number >= min)
		return 0;
	return cli_given_error(given, "must be a number from %llu to %llu, not \"%s\"",
			       (unsigned long long)min, (unsigned long long)max, given->value);
}

static int number_take(void *field, const struct cli_given *given)
{
	const struct cli_option *option = given->option;
	uint64_t number = 0;
	int res = cli_given_number(given, option->min, option->max, &number);

	if (option->kind == CLI_KIND_U16)
		*(uint16_t *)field = (uint16_t)number;
	else if (option->kind == CLI_KIND_U32)
		*(uint32_t *)field = (uint32_t)number;
	else
		*(uint64_t *)field = number;
	return res;
}

static int size_take(uint64_t *field, const struct cli_given *given)
{
	if (text_parse_size(given->value, field) == 0 && *field <= given->option->max)
		return 0;
	return cli_given_error(given, "must be a size such as 4k or 256M, not \"%s\"",
			       given->value);
}

static int duration_take(uint64_t *field, const struct cli_given *given)
{
	if (text_parse_duration_ms(given->value, field) == 0 && *field < DURATION_MAX_MS &&
	    *field >= given->option->min)
		return 0;
	return cli_given_error(given, "must be a duration such as 10s, 1.5s or 500ms, not \"%s\"",
			       given->value);
}

static int format_take(bool *field, const struct cli_given *given)
{
	*field = strcmp(given->value, "json") == 0;
	return *field || strcmp(given->value, "normal") == 0 ? 0 : cli_words_error(given);
}

int cli_option_take(void *to, const struct cli_given *given)
{
	const struct cli_option *option = given->option;
	void *field = (char *)to + option->offset;

	switch (option->kind) {
	case CLI_KIND_SWITCH:
		*(bool *)field = true;
		return 0;
	case CLI_KIND_CLEAR:
		*(bool *)field = false;
		return 0;
	case CLI_KIND_TEXT:
		*(const char **)field = given->value;
		return 0;
	case CLI_KIND_U16:
	case CLI_KIND_U32:
	case CLI_KIND_U64:
		return number_take(field, given);
	case CLI_KIND_SIZE:
		return size_take(field, given);
	case CLI_KIND_DURATION:
		return duration_take(field, given);
	case CLI_KIND_FORMAT:
		return format_take(field, given);
	default:
		return option->take(to, given);
	}
}

/* ---- parsing ------------------------------------------------------------------------------- */

bool cli_parse(const struct cli_command *command, int argc, char **argv, void *to, int *ret_exit)
{
	struct table table;
	int c;

	table_make(&table, command);
	*ret_exit = CLI_USAGE;
	opterr = 0;
	while ((c = getopt_long(argc, argv, table.shorts, table.longs, NULL)) != -1) {
		int i = table_find(&table, c);
		struct cli_given given = {.command = command->name, .value = optarg};

		if (c == ':' || c == '?') {
			mistake_print(&table, command->name, c, argv[optind - 1]);
			cli_usage_hint(command->name);
			return false;
		}
		given.option = table.rows[i];
		if (given.option == &help_option) {
			cli_help_print(command);
			*ret_exit = CLI_OK;
			return false;
		}
		if (command->note)
			command->note(to, given.option);
		if (cli_option_take((char *)to + table.offsets[i], &given) != 0)
			return false;
	}
	if (optind < argc && !command->takes_words) {
		cli_usage_error(command->name, "unexpected argument \"%s\"", argv[optind]);
		return false;
	}
	*ret_exit = CLI_OK;
	return true;
}
