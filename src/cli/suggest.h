/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggests the word that the user meant by an unknown word. Main thread.
 */
#ifndef WEFT_CLI_SUGGEST_H
#define WEFT_CLI_SUGGEST_H

#include <stddef.h>

#define CLI_WORD_BYTES 48 /* longer words are never suggested */

/*
 * The candidate nearest to `word`, or NULL when none is near enough. Candidates are read with `at`
 * by index until it returns NULL; a candidate may be repeated.
 */
const char *cli_suggest(const char *word, const char *(*at)(const void *context, size_t index),
			const void *context);
/* The word nearest to `word` in a list separated by blanks, copied to `text`. NULL: none is near
 * enough. */
const char *cli_suggest_word(const char *word, const char *words, char *text, size_t text_bytes);

#endif
