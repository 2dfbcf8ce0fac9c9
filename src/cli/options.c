/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of a sub-command and says what is wrong with them: an unknown one, one that
 * lacks its value, one that takes none. The nearest name is the one with the fewest letters added,
 * left out, replaced or swapped. Main thread.
 */
#include "cli/options.h"

#include "base/check.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"

#include <string.h>

#define WORD_BYTES_MAX 48

static const struct cli_value values[] = {
	{"transport", "tcp"},
	{"output-format", "normal json"},
	{"policy", "numa round-robin queue-depth latency"},
	{"profile", "default training database"},
	{"log-level", "error warn info debug"},
	{"rw", "read write randread randwrite rw randrw"},
	{"zero-copy", "off auto on"},
	{"write-protect", "none protected until-power-cycle permanent"},
	{"config", NULL},
	{"state", NULL},
	{"socket", NULL},
	{"token-file", NULL},
	{"api-socket", NULL},
	{"api-token-file", NULL},
	{"nbd", NULL},
	{"resume", NULL},
};

const struct cli_value *cli_value_find(const char *option)
{
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		if (strcmp(values[i].option, option) == 0)
			return &values[i];
	return NULL;
}

const struct cli_value *cli_value_at(size_t index)
{
	return index < ARRAY_LEN(values) ? &values[index] : NULL;
}

int cli_value_error(const char *command, const char *option, const char *given)
{
	const struct cli_value *value = cli_value_find(option);
	char list[256], meant[WORD_BYTES_MAX];
	size_t used = 0;

	CHECK(value && value->words);
	for (const char *c = value->words; *c && used + 3 < sizeof(list); c++) {
		if (*c == ' ')
			list[used++] = ',';
		list[used++] = *c;
	}
	list[used] = 0;
	if (cli_suggest_word(given, value->words, meant, sizeof(meant)))
		return cli_usage_error(command, "--%s: \"%s\" is not one of %s; did you mean %s?",
				       option, given, list, meant);
	return cli_usage_error(command, "--%s: \"%s\" is not one of %s", option, given, list);
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/* Damerau-Levenshtein, neighbours swapped once; words that are too long are far from each other. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_BYTES_MAX + 1];
	size_t a_len = strlen(a), b_len = strlen(b);

	if (a_len > WORD_BYTES_MAX || b_len > WORD_BYTES_MAX)
		return WORD_BYTES_MAX;
	for (unsigned j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= a_len; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3];
		unsigned *above_that = rows[(i + 1) % 3];

		row[0] = i;
		for (unsigned j = 1; j <= b_len; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1,
				      above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    above_that[j - 2] + 1 < row[j])
				row[j] = above_that[j - 2] + 1;
		}
	}
	return rows[a_len % 3][b_len];
}

const char *cli_suggest(const char *word, const char *(*at)(const void *context, size_t index),
			const void *context)
{
	size_t word_len = strlen(word);
	unsigned best = word_len < 6 ? 1 : (unsigned)word_len / 3; /* mistakes forgiven */
	const char *found = NULL, *candidate;

	for (size_t i = 0; (candidate = at(context, i)) != NULL; i++) {
		unsigned far = distance(word, candidate);

		/* The beginning of a word is meant as that word. */
		if (word_len >= 2 && strncmp(word, candidate, word_len) == 0)
			far = far > 0;
		if (far < best || (far == best && found == NULL)) {
			best = far;
			found = candidate;
		}
	}
	return found;
}

struct word_list {
	char (*words)[WORD_BYTES_MAX];
	size_t count;
};

static const char *word_at(const void *context, size_t index)
{
	const struct word_list *list = context;

	return index < list->count ? list->words[index] : NULL;
}

const char *cli_suggest_word(const char *word, const char *words, char *text, size_t text_bytes)
{
	char copies[16][WORD_BYTES_MAX];
	struct word_list list = {.words = copies};
	const char *found;

	while (*words && list.count < ARRAY_LEN(copies)) {
		size_t len = strcspn(words, " ");
		size_t room = len < WORD_BYTES_MAX ? len + 1 : WORD_BYTES_MAX;

		text_copy(copies[list.count++], room, words);
		words += len + (words[len] == ' ');
	}
	found = cli_suggest(word, word_at, &list);
	if (found == NULL)
		return NULL;
	text_copy(text, text_bytes, found);
	return text;
}

static const char *option_at(const void *context, size_t index)
{
	const struct option *longs = context;

	return longs[index].name;
}

/* The long option of this key, for messages about a short one. */
static const struct option *option_of(const struct cli_options *options, int key)
{
	for (const struct option *o = options->longs; o->name; o++)
		if (o->val == key)
			return o;
	return NULL;
}

static void unknown_print(const char *command, const struct option *longs, const char *word)
{
	char name[WORD_BYTES_MAX];
	const char *meant;
	size_t len;

	if (strncmp(word, "--", 2) != 0) {
		tool_error(command, "unknown option \"-%c\"", optopt);
		return;
	}
	len = strcspn(word + 2, "=");
	text_copy(name, len + 1 < sizeof(name) ? len + 1 : sizeof(name), word + 2);
	meant = cli_suggest(name, option_at, longs);
	if (meant)
		tool_error(command, "unknown option \"--%s\"; did you mean --%s?", name, meant);
	else
		tool_error(command, "unknown option \"--%s\"", name);
}

int cli_getopt(const char *command, const struct cli_options *options, int argc, char **argv)
{
	char shorts[64];
	const struct option *known;
	int c;

	/* A leading ':' makes getopt_long silent and tells a missing value from an unknown option.
	 */
	shorts[0] = ':';
	CHECK(text_copy(shorts + 1, sizeof(shorts) - 1, options->shorts) < sizeof(shorts) - 1);
	opterr = 0;
	c = getopt_long(argc, argv, shorts, options->longs, NULL);
	if (c != ':' && c != '?')
		return c;
	known = optopt != 0 ? option_of(options, optopt) : NULL;
	if (known && c == ':')
		tool_error(command, "--%s needs a value", known->name);
	else if (known && strncmp(argv[optind - 1], "--", 2) == 0)
		tool_error(command, "--%s takes no value", known->name);
	else
		unknown_print(command, options->longs, argv[optind - 1]);
	return '?';
}
