/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign text on its way to a person: whatever a target, a host or the REST API says is shown
 * escaped (text_escape), and JSON is printed in ASCII, so that no escape sequence reaches the
 * terminal and no text forges a line. tools/tidy finds prints that go around this. Main thread.
 */
#ifndef WEFT_CLI_PRINT_H
#define WEFT_CLI_PRINT_H

#include <jansson.h>

/* The text escaped, valid until this was called CLI_SHOWN_MAX times more; "" for NULL. */
#define CLI_SHOWN_MAX 16
const char *cli_shown(const char *text);
/* The string of a JSON value, escaped likewise; "" when it is none. */
const char *cli_shown_json(const json_t *value);
/* A JSON string of text that may not be UTF-8, which is escaped then. NULL: out of memory. */
json_t *cli_json_text(const char *text);
/* On standard output, indented, with a newline. 0, or -1: `root` is NULL, or it cannot be written.
 */
int cli_json_print(const json_t *root);
/* Likewise, numbers with no more digits than a measurement has. */
int cli_json_print_measured(const json_t *root);

#endif
