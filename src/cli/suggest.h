/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which word was meant by one that does not exist. Main thread.
 */
#ifndef WEFT_CLI_SUGGEST_H
#define WEFT_CLI_SUGGEST_H

#include <stddef.h>

#define CLI_WORD_BYTES 48 /* longer words are never meant */

/*
 * The candidate nearest to `word`, or NULL when none is near enough to be meant. Candidates are
 * asked for by index until `at` answers NULL; equal ones may repeat.
 */
const char *cli_suggest(const char *word, const char *(*at)(const void *context, size_t index),
			const void *context);
/* The same for a list of words separated by blanks; copied to `text`. NULL: none. */
const char *cli_suggest_word(const char *word, const char *words, char *text, size_t text_bytes);

#endif
