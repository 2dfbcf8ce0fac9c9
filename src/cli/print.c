/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing of untrusted strings. See print.h.
 *
 * Escaped strings are kept in a ring, so that several of them can be arguments of one printf. Main
 * thread.
 */
#include "cli/print.h"

#include "base/check.h"
#include "base/json_text.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

const char *cli_shown(const char *text)
{
	static char *shown[CLI_SHOWN_MAX];
	static unsigned next;
	char **slot = &shown[next++ % CLI_SHOWN_MAX];

	free(*slot);
	*slot = text_escape_dup(text ? text : "");
	CHECK(*slot);
	return *slot;
}

const char *cli_shown_json(const json_t *value)
{
	return cli_shown(json_string_value(value));
}

json_t *cli_json_text(const char *text)
{
	json_t *value = json_string(text);

	return value ? value : json_string(cli_shown(text));
}

static int json_print(const json_t *root, size_t flags)
{
	char *text = root ? json_dumps(root, flags | JSON_ENSURE_ASCII) : NULL;

	/* JSON_ENSURE_ASCII leaves DEL, which occurs only inside strings. */
	for (const char *c = text; c && *c; c++) {
		if (*c == 0x7f)
			fputs("\\u007f", stdout);
		else
			putchar(*c);
	}
	putchar('\n');
	free(text);
	return text && !ferror(stdout) ? 0 : -1;
}

int cli_json_print(const json_t *root)
{
	return json_print(root, JSON_TEXT_FLAGS);
}

int cli_json_print_measured(const json_t *root)
{
	return json_print(root, JSON_TEXT_MEASURED);
}
