/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the tables of fields: writes an object as JSON, and compares two objects by what would be
 * written. Control thread only.
 */
#include "config/field_value.h"

#include <stdlib.h>

static bool id_is_none(const void *id)
{
	static const uint8_t none[FIELD_ID_BYTES];

	return memcmp(id, none, sizeof(none)) == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

bool config_put(json_t *object, const char *key, json_t *taken_value)
{
	return json_object_set_new(object, key, taken_value) == 0;
}

json_t *config_names_to_json(char (*names)[NVME_NQN_BYTES], unsigned count)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < count; i++) {
		if (json_array_append_new(list, json_string(names[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool field_is_written(const struct config_writing *writing, const struct config_field *field,
			     const void *from)
{
	if (field->is_written && !field->is_written(writing, from))
		return false;
	switch (field->kind) {
	case FIELD_CHARS:
		return *(const char *)field_const_value(field, from) != 0;
	case FIELD_TEXT:
		return field_text(field, from) != NULL;
	case FIELD_ID:
		return !id_is_none(field_const_value(field, from));
	case FIELD_FUNCTIONS:
		return field->write != NULL;
	default:
		return true;
	}
}

static json_t *field_write(const struct config_writing *writing, const struct config_field *field,
			   const void *from)
{
	const void *value = field_const_value(field, from);

	if (field->write)
		return field->write(writing, field, from);
	switch (field->kind) {
	case FIELD_U16:
	case FIELD_U32:
		return json_integer(field_number_get(value, field_number_bytes(field)));
	case FIELD_BOOL:
		return json_boolean(field_number_get(value, field_number_bytes(field)));
	case FIELD_WORD:
		return json_string(
			config_word_name(field->words, field->word_count,
					 field_number_get(value, field_number_bytes(field))));
	case FIELD_CHARS:
		return json_string(value);
	case FIELD_TEXT:
		return json_string(field_text(field, from));
	case FIELD_NQNS:
		return config_names_to_json(field_names(field, from), field_count(field, from));
	default:
		return NULL;
	}
}

json_t *config_object_write(const struct config_writing *writing,
			    const struct config_object *object, const void *from)
{
	json_t *json = json_object();

	for (unsigned i = 0; json && i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field_is_written(writing, field, from) &&
		    !config_put(json, field->key, field_write(writing, field, from))) {
			json_decref(json);
			return NULL;
		}
	}
	return json;
}

json_t *config_field_default(const struct config_object *object, const struct config_field *field)
{
	static const struct config_writing writing;
	json_t *json = NULL;
	void *scratch;

	if (field->text)
		return json_string(field->text);
	if (field->missing || field->absent || field_number_bytes(field) == 0)
		return NULL;
	scratch = calloc(1, object->bytes);
	if (scratch) {
		config_object_init(object, scratch);
		json = field_write(&writing, field, scratch);
	}
	free(scratch);
	return json;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool names_same(const struct config_field *field, const void *a, const void *b)
{
	const char(*x)[NVME_NQN_BYTES] = field_names(field, a);
	const char(*y)[NVME_NQN_BYTES] = field_names(field, b);

	if (field_count(field, a) != field_count(field, b))
		return false;
	for (unsigned i = 0; i < field_count(field, a); i++) {
		if (strcmp(x[i], y[i]) != 0)
			return false;
	}
	return true;
}

static bool json_same(const struct config_writing *writing, const struct config_field *field,
		      const void *a, const void *b)
{
	json_t *x = field_write(writing, field, a), *y = field_write(writing, field, b);
	bool is_same = x && y && json_equal(x, y);

	json_decref(x);
	json_decref(y);
	return is_same;
}

static bool field_same(const struct config_field *field, const void *a, const void *b)
{
	static const struct config_writing writing = {.is_edit = true};
	const void *x = field_const_value(field, a), *y = field_const_value(field, b);
	bool is_written = field_is_written(&writing, field, a);

	if (is_written != field_is_written(&writing, field, b))
		return false;
	if (!is_written)
		return true;
	switch (field->kind) {
	case FIELD_CHARS:
		return strcmp(x, y) == 0;
	case FIELD_TEXT:
		return strcmp(field_text(field, a), field_text(field, b)) == 0;
	case FIELD_ID:
		return memcmp(x, y, FIELD_ID_BYTES) == 0;
	case FIELD_NQNS:
		return names_same(field, a, b);
	case FIELD_FUNCTIONS:
		return json_same(&writing, field, a, b);
	default:
		return memcmp(x, y, field_number_bytes(field)) == 0;
	}
}

bool config_object_same(const struct config_object *object, const void *a, const void *b)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		if (!field_same(&object->fields[i], a, b))
			return false;
	}
	return true;
}

const struct config_field *config_object_fixed(const struct config_object *object, const void *from,
					       const void *to)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field->change == FIELD_FIXED && !field_same(field, from, to))
			return field;
	}
	return NULL;
}
