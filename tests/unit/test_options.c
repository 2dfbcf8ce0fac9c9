/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a sub-command from a table: every kind of row, by name, letter and abbreviation;
 * groups that fill in a part of the target struct; invalid values; which rows exist. One thread.
 */
#include "base/check.h"
#include "cli/cli.h"
#include "tap.h"

#include <getopt.h>

struct part {
	const char *text;
	uint16_t port;
};

struct told {
	bool is_on;
	bool is_clear;
	bool is_json;
	uint32_t count;
	uint64_t seed;
	uint64_t bytes;
	uint64_t time_ms;
	char taken[32];
	bool was_without_value;
	struct part part;
	unsigned noted;
};

static int word_take(void *to, const struct cli_given *given)
{
	struct told *told = to;

	snprintf(told->taken, sizeof(told->taken), "%s", given->value ? given->value : "");
	told->was_without_value = given->value == NULL;
	return strcmp(told->taken, "green") == 0 ? cli_words_error(given) : 0;
}

static void option_note(void *to, const struct cli_option *given)
{
	struct told *told = to;

	told->noted++;
}

static const struct cli_option own_options[] = {
	{"on", 'x', NULL, "a switch", CLI_SWITCH(struct told, is_on)},
	{"no-clear", 0, NULL, "a switch that takes away", CLI_CLEAR(struct told, is_clear)},
	{"count", 'c', "N", "a number", CLI_U32(struct told, count, 2, 9)},
	{"seed", 0, "N", "a large number", CLI_U64(struct told, seed, 0, UINT64_MAX)},
	{"bytes", 0, "SIZE", "a size", CLI_SIZE(struct told, bytes)},
	{"time", 0, "TIME", "a duration", CLI_DURATION(struct told, time_ms, 1)},
	{"colour", 0, "WORD", "{words}", "red blue", .take = word_take},
	{"maybe", 0, "N", "with a value or without", .is_value_optional = true, .take = word_take},
	CLI_OUTPUT_FORMAT(struct told, is_json),
	{NULL},
};

static const struct cli_option part_options[] = {
	{"text", 't', "TEXT", "a text", CLI_TEXT(struct part, text)},
	{"port", 0, "PORT", "a port", CLI_U16(struct part, port, 1, UINT16_MAX)},
	{NULL},
};

static const struct cli_group groups[] = {
	{.options = own_options},
	{.options = part_options, .offset = offsetof(struct told, part)},
};

static const struct cli_command command = {
	.name = "test",
	.usage = "[OPTION]...",
	.about = "For the test.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.note = option_note,
};

/* Returns CLI_OK to continue, or the exit status. The parsed options are in *ret_told. */
static int parse(struct told *ret_told, const char *const *words)
{
	char *argv[16] = {(char *)"test"};
	int argc = 1, res;

	for (; words[argc - 1] != NULL; argc++)
		argv[argc] = (char *)words[argc - 1];
	*ret_told = (struct told){.is_clear = true};
	optind = 0;
	return cli_parse(&command, argc, argv, ret_told, &res) ? CLI_OK : res;
}

#define PARSE(told, ...) parse(told, (const char *const[]){__VA_ARGS__, NULL})

static void every_kind_goes_to_its_field(void)
{
	struct told told;

	EXPECT_EQ(CLI_OK, PARSE(&told, "--on", "--no-clear", "--count", "9", "--seed",
				"18446744073709551615", "--bytes=4k", "--time", "1.5s"));
	EXPECT(told.is_on && !told.is_clear && !told.is_json);
	EXPECT_EQ(9, told.count);
	EXPECT_EQ(UINT64_MAX, told.seed);
	EXPECT_EQ(4096, told.bytes);
	EXPECT_EQ(1500, told.time_ms);
	EXPECT_EQ(6, told.noted);
	EXPECT_EQ(CLI_OK,
		  PARSE(&told, "-o", "json", "--colour", "blue", "-t", "some", "--port", "65535"));
	EXPECT(told.is_json && told.is_clear);
	EXPECT_STR("blue", told.taken);
	EXPECT_STR("some", told.part.text);
	EXPECT_EQ(65535, told.part.port);
}

static void letters_and_abbreviations_are_the_same_option(void)
{
	struct told told;

	EXPECT_EQ(CLI_OK, PARSE(&told, "-xc3"));
	EXPECT(told.is_on);
	EXPECT_EQ(3, told.count);
	EXPECT_EQ(CLI_OK, PARSE(&told, "--see", "5"));
	EXPECT_EQ(5, told.seed);
}

static void an_optional_value_is_behind_an_equals_sign(void)
{
	struct told told;

	EXPECT_EQ(CLI_OK, PARSE(&told, "--maybe"));
	EXPECT(told.was_without_value);
	EXPECT_EQ(CLI_OK, PARSE(&told, "--maybe=7"));
	EXPECT_STR("7", told.taken);
}

static void what_is_wrong_ends_it(void)
{
	static const char *const rows[][4] = {
		{"--count", "1"}, {"--count", "10"},     {"--count", "two"},
		{"--port", "0"},  {"--port", "65536"},   {"--bytes", "much"},
		{"--time", "0"},  {"--time", "soon"},    {"--time", "999999999h"},
		{"-o", "xml"},    {"--colour", "green"}, {"--count"},
		{"--on=1"},       {"--unknown"},         {"-Z"},
		{"a word"},
	};
	struct told told;

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		EXPECT_EQ(CLI_USAGE, parse(&told, rows[i]));
}

static void rows_come_one_after_the_other_and_help_last(void)
{
	const struct cli_group *group;
	unsigned count = ARRAY_LEN(own_options) - 1 + ARRAY_LEN(part_options) - 1;

	EXPECT_STR("on", cli_option_at(&command, 0, &group)->name);
	EXPECT(group == &groups[0]);
	EXPECT_STR("port", cli_option_at(&command, count - 1, &group)->name);
	EXPECT(group == &groups[1]);
	EXPECT_STR("help", cli_option_at(&command, count, &group)->name);
	EXPECT(cli_option_at(&command, count + 1, &group) == NULL);
}

static void help_lists_the_words(void)
{
	char text[64];

	cli_help_text(&own_options[6], text, sizeof(text));
	EXPECT_STR("red or blue", text);
	cli_help_text(&(const struct cli_option){.help = "{words} (a)", .words = "a b c"}, text,
		      sizeof(text));
	EXPECT_STR("a, b or c (a)", text);
}

int main(void)
{
	TAP_RUN(every_kind_goes_to_its_field);
	TAP_RUN(letters_and_abbreviations_are_the_same_option);
	TAP_RUN(an_optional_value_is_behind_an_equals_sign);
	TAP_RUN(what_is_wrong_ends_it);
	TAP_RUN(rows_come_one_after_the_other_and_help_last);
	TAP_RUN(help_lists_the_words);
	return tap_end();
}
