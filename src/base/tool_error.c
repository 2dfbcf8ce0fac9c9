/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error lines of sub-commands. See tool_error.h. Any thread: one call writes a line, so that lines
 * of two threads do not mix.
 */
#include "base/tool_error.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

void tool_verror(const char *command, const char *format, va_list args)
{
	char *text = NULL, *shown;

	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	shown = text_escape_dup(text ? text : "out of memory");
	fprintf(stderr, "weft %s: %s\n", command, shown ? shown : "out of memory");
	free(shown);
	free(text);
}

void tool_error(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tool_verror(command, format, args);
	va_end(args);
}
