/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggests the word that the user meant: the word with the fewest letters added, left out, replaced
 * or swapped. Main thread.
 */
#include "cli/suggest.h"

#include "base/check.h"
#include "base/text.h"

#include <string.h>

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/* Damerau-Levenshtein distance; swapped neighbours count once. Words that are too long get a large
 * distance. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][CLI_WORD_BYTES + 1];
	size_t a_len = strlen(a), b_len = strlen(b);

	if (a_len > CLI_WORD_BYTES || b_len > CLI_WORD_BYTES)
		return CLI_WORD_BYTES;
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
	unsigned best = word_len < 6 ? 1 : (unsigned)word_len / 3; /* most typos allowed */
	const char *found = NULL, *candidate;

	for (size_t i = 0; (candidate = at(context, i)) != NULL; i++) {
		unsigned far = distance(word, candidate);

		/* The beginning of a candidate counts as at most one typo. */
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
	char (*words)[CLI_WORD_BYTES];
	size_t count;
};

static const char *word_at(const void *context, size_t index)
{
	const struct word_list *list = context;

	return index < list->count ? list->words[index] : NULL;
}

const char *cli_suggest_word(const char *word, const char *words, char *text, size_t text_bytes)
{
	char copies[16][CLI_WORD_BYTES];
	struct word_list list = {.words = copies};
	const char *found;

	while (*words && list.count < ARRAY_LEN(copies)) {
		size_t len = strcspn(words, " ");
		size_t room = len < CLI_WORD_BYTES ? len + 1 : CLI_WORD_BYTES;

		text_copy(copies[list.count++], room, words);
		words += len + (words[len] == ' ');
	}
	found = cli_suggest(word, word_at, &list);
	if (found == NULL)
		return NULL;
	text_copy(text, text_bytes, found);
	return text;
}
