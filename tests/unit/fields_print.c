/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the tables of fields (config/fields.h) as JSON for tools/fields: an object per table, with
 * the schema of each field.
 */
#include "base/check.h"
#include "config/fields.h"

#include <stdio.h>
#include <string.h>

static const struct config_object *const objects[] = {
	&config_root_object,   &config_subsystem_object, &config_pool_object,
	&config_ns_object,     &config_port_object,      &config_ana_object,
	&config_limits_object, &config_cluster_object,   &config_peer_object,
};

static const char *type_of(const struct config_field *field)
{
	switch (field->kind) {
	case FIELD_U16:
	case FIELD_U32:
		return "integer";
	case FIELD_BOOL:
		return "boolean";
	case FIELD_NQNS:
		return "array";
	default:
		return field->type ? field->type : "string";
	}
}

static json_t *words_of(const struct config_field *field)
{
	json_t *words = json_array();

	for (unsigned i = 0; i < field->word_count; i++)
		if (field->words[i])
			json_array_append_new(words, json_string(field->words[i]));
	return words;
}

static const char *const changes[] = {
	[FIELD_LIVE] = "live", [FIELD_FIXED] = "fixed", [FIELD_NAMES] = "names"};

static json_t *field_json(const struct config_object *object, const struct config_field *field)
{
	json_t *json =
		json_pack("{s:s, s:s, s:b, s:s}", "type", type_of(field), "help", field->help,
			  "required", field->missing != NULL, "change", changes[field->change]);
	bool is_number = strcmp(type_of(field), "integer") == 0;

	if (is_number)
		json_object_set_new(json, "minimum", json_integer(field->min));
	if (is_number)
		json_object_set_new(json, "maximum", json_integer(field->max));
	if (field->word_count > 0)
		json_object_set_new(json, "enum", words_of(field));
	if (field->kind == FIELD_NQNS ||
	    (field->kind == FIELD_FUNCTIONS && field->max > 0 && !is_number))
		json_object_set_new(json, "maxItems", json_integer(field->max));
	if (field->kind == FIELD_TEXT && field->max < UINT32_MAX)
		json_object_set_new(json, "maxLength", json_integer(field->max));
	json_object_set_new(json, "default", config_field_default(object, field));
	if (field->object)
		json_object_set_new(json, "object", json_string(field->object->name));
	return json;
}

static json_t *object_json(const struct config_object *object)
{
	json_t *json = json_object();

	for (unsigned i = 0; i < object->field_count; i++)
		json_object_set_new(json, object->fields[i].key,
				    field_json(object, &object->fields[i]));
	return json;
}

int main(void)
{
	json_t *json = json_object();

	for (unsigned i = 0; i < ARRAY_LEN(objects); i++)
		json_object_set_new(json, objects[i]->name, object_json(objects[i]));
	json_dumpf(json, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(json);
	return 0;
}
