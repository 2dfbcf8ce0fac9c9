/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of the target in the words of `weft ctl`: the target names a place in the document, but
 * the user typed an option. Only for commands that edit one element: a user who applies a document
 * needs the place in it.
 *
 * Main thread.
 */
#include "base/check.h"
#include "base/tool_error.h"
#include "cli/ctl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES    64
#define PLACE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_.[]"

static bool is_option(const char *name)
{
	const struct cli_option *option = ctl_field_options();

	while (option->name && strcmp(option->name, name) != 0)
		option++;
	return option->name != NULL;
}

/* Makes "hosts" of "subsystems[0].namespaces[1].hosts[2]", and "pool-folder" of
 * "subsystems[0].pool.folder". */
static void key_of(const char *place, size_t place_len, char *name)
{
	const char *end = place + place_len, *begin = end;

	while (begin > place && begin[-1] != '.')
		begin--;
	if (begin > place + 1 && begin[-2] != ']')
		for (begin--; begin > place && begin[-1] != '.';)
			begin--;
	snprintf(name, NAME_BYTES, "%.*s", (int)strcspn(begin, "[:"), begin);
	for (char *c = name; *c; c++)
		if (*c == '_' || *c == '.')
			*c = '-';
}

/* Makes "--media", or "NQN" for a value that is a word of the command. False: the message names no
 * place in one element. */
static bool label_make(const char *text, char *label, size_t label_bytes)
{
	size_t len = strspn(text, PLACE_LETTERS);
	char name[NAME_BYTES];

	if ((strncmp(text, "subsystems[", 11) != 0 && strncmp(text, "ports[", 6) != 0) ||
	    strncmp(text + len, ": ", 2) != 0 || !memchr(text, '.', len))
		return false;
	key_of(text, len, name);
	len = strlen(name);
	/* A list is "hosts", the option that adds one host is "host". */
	if (!is_option(name) && len > 1 && name[len - 1] == 's')
		name[len - 1] = 0;
	snprintf(label, label_bytes, "--%s", name);
	if (is_option(name))
		return true;
	for (char *c = name; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	snprintf(label, label_bytes, "%s", name);
	return true;
}

/* True when the text continues its subject without a colon. */
static bool is_predicate(const char *text)
{
	static const char *const verbs[] = {"must ", "is ", "has ", "needs ", "cannot "};

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strncmp(text, verbs[i], strlen(verbs[i])) == 0)
			return true;
	return false;
}

void ctl_problem_print(const struct ctl *ctl, const char *text)
{
	static const char missing[] = "is missing";
	char label[NAME_BYTES + 2];
	const char *rest;

	if (!ctl->edits_element || !label_make(text, label, sizeof(label))) {
		tool_error("ctl", "%s", text);
		return;
	}
	rest = strstr(text, ": ") + 2;
	if (strncmp(rest, missing, sizeof(missing) - 1) == 0)
		tool_error("ctl", "%s is required%s", label, rest + sizeof(missing) - 1);
	else if (is_predicate(rest))
		tool_error("ctl", "%s %s", label, rest);
	else
		tool_error("ctl", "%s: %s", label, rest);
}
