/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft ctl` that are fields of the document. One option is made for each row of the
 * tables of config/fields.h; given options become a JSON object with the document's keys. The
 * target checks values, and reports what is wrong and where. Main thread.
 */
#include "base/check.h"
#include "base/text.h"
#include "cli/ctl.h"
#include "config/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROWS_MAX 64

/* ---- values --------------------------------------------------------------------------------- */

static bool bool_parse(const char *text, bool *ret_value)
{
	*ret_value = strcmp(text, "yes") == 0 || strcmp(text, "true") == 0;
	return *ret_value || strcmp(text, "no") == 0 || strcmp(text, "false") == 0;
}

static json_t *object_below(json_t *object, const char *key, json_t *taken_new)
{
	json_t *below = json_object_get(object, key);

	if (below) {
		json_decref(taken_new);
		return below;
	}
	json_object_set_new(object, key, taken_new);
	return json_object_get(object, key);
}

/* Adds one element to a list field. 0 or, after a message, -1. */
static int list_take(struct ctl *ctl, const struct cli_given *given, json_t *taken_value)
{
	const struct ctl_detail *detail = given->option->detail;
	const char *text = json_string_value(taken_value);
	bool is_any = strstr(given->option->argument, "any") && strcmp(text, "any") == 0;
	const json_t *before = json_object_get(ctl->fields, detail->key);

	if (before && (is_any || json_is_string(before))) {
		json_decref(taken_value);
		return cli_given_error(given, "any cannot be combined with names of hosts");
	}
	if (is_any)
		return json_object_set_new(ctl->fields, detail->key, taken_value);
	object_below(ctl->fields, detail->key, json_array());
	if (strcmp(text, "none") != 0)
		json_array_append(json_object_get(ctl->fields, detail->key), taken_value);
	json_decref(taken_value);
	return 0;
}

static int field_take(void *to, const struct cli_given *given)
{
	const struct ctl_detail *detail = given->option->detail;
	enum field_kind kind = detail->field ? detail->field->kind : FIELD_TEXT;
	json_t *json = json_string(given->value);
	struct ctl *ctl = to;
	json_t *object = ctl->fields;
	uint64_t number;
	bool value;

	if (!json)
		return cli_given_error(given, "must be UTF-8");
	if (detail->below)
		object = object_below(ctl->fields, detail->below, json_object());
	switch (kind) {
	case FIELD_NQNS:
		return list_take(ctl, given, json);
	case FIELD_U16:
	case FIELD_U32:
		json_decref(json);
		if (text_parse_u64(given->value, INT64_MAX, &number) < 0)
			return cli_given_error(given, "must be a number, not \"%s\"", given->value);
		return json_object_set_new(object, detail->key, json_integer((int64_t)number));
	case FIELD_BOOL:
		json_decref(json);
		if (!bool_parse(given->value, &value))
			return cli_given_error(given, "must be yes or no, not \"%s\"",
					       given->value);
		return json_object_set_new(object, detail->key, json_boolean(value));
	default:
		return json_object_set_new(object, detail->key, json);
	}
}

/* ---- rows from the tables -------------------------------------------------------------------- */

/* Objects whose fields are options, and the commands that take them. */
static const struct element {
	const struct config_object *object;
	unsigned takes;
	const char *whom;
} elements[] = {
	{&config_subsystem_object, CTL_SUBSYSTEM, "subsystems"},
	{&config_ns_object, CTL_NS, "namespaces"},
	{&config_port_object, CTL_PORT, "ports"},
};

static const struct cli_option size_option = {
	"size",
	0,
	"SIZE",
	"size of the namespace, for example 20G, instead of size= in --media",
	.take = field_take,
	.detail = &(const struct ctl_detail){CTL_NS, "namespaces", "size"}};

/* Made once and kept until the program ends. */
static struct {
	struct cli_option options[ROWS_MAX + 1];
	struct ctl_detail details[ROWS_MAX];
	unsigned count;
} rows;

/* The string is never freed. */
__attribute__((format(printf, 1, 2))) static char *text_make(const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	CHECK(n >= 0);
	return text;
}

/* The option's name: the key with dashes instead of underscores. */
static const char *name_make(const struct config_field *field, const char *below)
{
	char *name;

	if (field->option)
		return field->option;
	name = text_make("%s%s%s", below ? below : "", below ? "-" : "", field->key);
	for (char *c = name; *c != 0; c++)
		*c = *c == '_' ? '-' : *c;
	return name;
}

/* The allowed values, for example "off auto on"; NULL: any value. */
static const char *words_make(const struct config_field *field)
{
	char words[256] = "";
	size_t used = 0;

	if (field->kind == FIELD_BOOL)
		return "yes no";
	for (unsigned i = 0; i < field->word_count && used < sizeof(words); i++)
		if (field->words[i])
			used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s",
						 used > 0 ? " " : "", field->words[i]);
	return used > 0 ? text_make("%s", words) : NULL;
}

/* The help text, followed by the default. */
static const char *help_make(const struct config_object *object, const struct config_field *field)
{
	const char *again = field->kind == FIELD_NQNS      ? "; repeatable"
			    : field->change == FIELD_FIXED ? "; fixed while the target runs"
							   : "";
	json_t *value = config_field_default(object, field);
	const char *help;

	if (json_is_integer(value))
		help = text_make("%s (%lld)%s", field->help, (long long)json_integer_value(value),
				 again);
	else if (json_is_boolean(value))
		help = text_make("%s (%s)%s", field->help, json_is_true(value) ? "yes" : "no",
				 again);
	else if (value || field->absent)
		help = text_make("%s (%s)%s", field->help,
				 value ? json_string_value(value) : field->absent, again);
	else
		help = text_make("%s%s", field->help, again);
	json_decref(value);
	return help;
}

/* A field of two objects is one option for both; the first object's help is used. */
static bool row_share(const char *name, const struct element *element)
{
	for (unsigned i = 0; i < rows.count; i++) {
		struct ctl_detail *detail = &rows.details[i];

		if (strcmp(rows.options[i].name, name) != 0)
			continue;
		detail->takes |= element->takes;
		detail->whom = text_make("%s and %s", detail->whom, element->whom);
		return true;
	}
	return false;
}

static void row_add(const struct element *element, const struct config_object *object,
		    const struct config_field *field, const char *below)
{
	const char *name;

	if (!field->argument && field->kind != FIELD_BOOL && field->word_count == 0)
		return;
	/* Only options with an explicit name in the table are shared. */
	if (field->option && row_share(field->option, element))
		return;
	name = name_make(field, below);
	CHECK(rows.count < ROWS_MAX);
	rows.details[rows.count] =
		(struct ctl_detail){element->takes, element->whom, field->key, field, below};
	rows.options[rows.count] = (struct cli_option){
		.name = name,
		.argument = field->argument ? field->argument : "{words}",
		.help = help_make(object, field),
		.words = words_make(field),
		.is_path = field->argument && strcmp(field->argument, "PATH") == 0,
		.take = field_take,
		.detail = &rows.details[rows.count],
	};
	rows.count++;
}

static void rows_add(const struct element *element, const struct config_object *object,
		     const char *below)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field->type && strcmp(field->type, "object") == 0 && field->object)
			rows_add(element, field->object, field->key);
		else
			row_add(element, object, field, below);
	}
}

const struct cli_option *ctl_field_options(void)
{
	if (rows.count > 0)
		return rows.options;
	for (unsigned i = 0; i < ARRAY_LEN(elements); i++) {
		rows_add(&elements[i], elements[i].object, NULL);
		if (elements[i].takes == CTL_NS)
			rows.options[rows.count++] = size_option;
	}
	return rows.options;
}

/* Accepts the option's name or the document's key. */
int ctl_unset_take(void *to, const struct cli_given *given)
{
	struct ctl *ctl = to;

	for (const struct cli_option *option = ctl_field_options(); option->name; option++) {
		const struct ctl_detail *detail = option->detail;

		if (strcmp(option->name, given->value) != 0 &&
		    strcmp(detail->key, given->value) != 0)
			continue;
		ctl_option_note(ctl, option);
		return json_object_set_new(ctl->fields, detail->below ? detail->below : detail->key,
					   json_null());
	}
	return cli_given_error(given, "%s: unknown field", given->value);
}
