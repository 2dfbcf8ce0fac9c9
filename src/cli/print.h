/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing of untrusted strings: strings from a target, a host or the REST API are escaped
 * (text_escape), and JSON is printed in ASCII, so that no escape sequence reaches the terminal and
 * no string forges a line. tools/tidy finds prints that bypass these functions. Main thread.
 */
#ifndef WEFT_CLI_PRINT_H
#define WEFT_CLI_PRINT_H

#include <jansson.h>

/* Returns the string escaped, valid until the CLI_SHOWN_MAXth further call; "" for NULL. */
#define CLI_SHOWN_MAX 16
const char *cli_shown(const char *text);
/* Returns the string of a JSON value, escaped like cli_shown; "" when the value is not a string. */
const char *cli_shown_json(const json_t *value);
/* Makes a JSON string of a string that may not be UTF-8, and is then escaped. NULL: out of
 * memory. */
json_t *cli_json_text(const char *text);
/* Prints on standard output, indented, with a newline. 0, or -1: `root` is NULL, or the output
 * failed. */
int cli_json_print(const json_t *root);
/* Same, with numbers of at most 9 digits, for measurements. */
int cli_json_print_measured(const json_t *root);

#endif
