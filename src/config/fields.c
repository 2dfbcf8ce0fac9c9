/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the tables of fields: reads an object of the document, sorts and frees what its fields
 * point to, and copies the values that a snapshot has too. Writing and comparing: fields_write.c.
 * Control thread only.
 */
#include "base/check.h"
#include "base/text.h"
#include "config/field_value.h"

#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 32 /* per object */

void config_object_init(const struct config_object *object, void *to)
{
	if (object->prepare) {
		object->prepare(to);
		return;
	}
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field_number_bytes(field) > 0)
			field_number_set(field_value(field, to), field_number_bytes(field),
					 field->number);
		else if (field->kind == FIELD_CHARS && field->text)
			text_copy(field_value(field, to), field->max + 1, field->text);
	}
}

const struct config_field *config_object_name(const struct config_object *object)
{
	for (unsigned i = 0; i < object->field_count; i++)
		if (object->fields[i].change == FIELD_NAMES)
			return &object->fields[i];
	return NULL;
}

/* ---- words ----------------------------------------------------------------------------------- */

int config_word_find(const char *const *words, unsigned count, const char *text)
{
	for (unsigned i = 0; i < count; i++) {
		if (words[i] && strcmp(words[i], text) == 0)
			return (int)i;
	}
	return -1;
}

const char *config_word_name(const char *const *words, unsigned count, unsigned index)
{
	return index < count && words[index] ? words[index] : "unknown";
}

/* Joins the words as in: "off", "auto" or "on" */
static void words_list(const struct config_field *field, char *text, size_t text_bytes)
{
	unsigned left = 0, used = 0;

	for (unsigned i = 0; i < field->word_count; i++)
		left += field->words[i] != NULL;
	for (unsigned i = 0; i < field->word_count && used < text_bytes; i++) {
		if (!field->words[i])
			continue;
		left--;
		used += (unsigned)snprintf(text + used, text_bytes - used, "\"%s\"%s",
					   field->words[i],
					   left > 1    ? ", "
					   : left == 1 ? " or "
						       : "");
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

static void word_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	const char *text = NULL;
	char known[256] = "";
	int index;

	if (!config_get_text(at, object, field->key, &text))
		return;
	index = config_word_find(field->words, field->word_count, text);
	if (index >= 0) {
		field_number_set(field_value(field, to), field_number_bytes(field),
				 (uint32_t)index);
		return;
	}
	words_list(field, known, sizeof(known));
	config_complain(at, field->key, "\"%s\" must be %s", text, known);
}

/* For example serial and model number: NVMe Base 2.1, section 5.1.13.2.1. */
static void chars_parse(struct config_cursor *at, const json_t *object,
			const struct config_field *field, void *to)
{
	const char *text = NULL;

	if (!config_get_text(at, object, field->key, &text))
		return;
	if (text[0] == 0 || strlen(text) > field->max) {
		config_complain(at, field->key, "must have 1 to %u characters, has %zu", field->max,
				strlen(text));
		return;
	}
	for (const char *c = text; *c != 0; c++) {
		if (*c < ' ' || *c > '~') {
			config_complain(at, field->key, "must be printable ASCII");
			return;
		}
	}
	text_copy(field_value(field, to), field->max + 1, text);
}

static void text_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	const char *text = NULL;
	char *copy;

	if (!config_get_text(at, object, field->key, &text))
		return;
	if (strlen(text) > field->max) {
		config_complain(at, field->key, "has %zu bytes; the maximum is %u", strlen(text),
				field->max);
		return;
	}
	if (text[0] == 0)
		return;
	copy = strdup(text);
	if (!copy)
		config_complain_memory(at, field->key);
	memcpy(field_value(field, to), &copy, sizeof(copy));
}

static void nqns_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	char(*names)[NVME_NQN_BYTES];
	unsigned count;

	if (!config_get_nqns(at, object, field->key, field->max, &names, &count))
		return;
	memcpy(field_value(field, to), &names, sizeof(names));
	memcpy((uint8_t *)to + field->count_offset, &count, sizeof(count));
}

static void kind_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	uint32_t number;
	bool flag;

	switch (field->kind) {
	case FIELD_U16:
	case FIELD_U32:
		if (config_get_u32(at, object, field->key, field->min, field->max, &number))
			field_number_set(field_value(field, to), field_number_bytes(field), number);
		break;
	case FIELD_BOOL:
		if (config_get_bool(at, object, field->key, &flag))
			field_number_set(field_value(field, to), field_number_bytes(field), flag);
		break;
	case FIELD_WORD:
		word_parse(at, object, field, to);
		break;
	case FIELD_CHARS:
		chars_parse(at, object, field, to);
		break;
	case FIELD_TEXT:
		text_parse(at, object, field, to);
		break;
	case FIELD_NQNS:
		nqns_parse(at, object, field, to);
		break;
	default:
		break;
	}
}

bool config_object_parse(struct config_cursor *at, const struct config_object *object,
			 const json_t *json, void *to)
{
	const char *keys[FIELDS_MAX];

	CHECK(object->field_count <= FIELDS_MAX);
	for (unsigned i = 0; i < object->field_count; i++)
		keys[i] = object->fields[i].key;
	config_object_check(at, json, keys, object->field_count);
	if (!json_is_object(json))
		return false;
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field->missing && !json_object_get(json, field->key))
			config_complain(at, field->key, "is missing; %s", field->missing);
		(field->parse ? field->parse : kind_parse)(at, json, field, to);
		if (field->check)
			field->check(at, json, to);
	}
	return true;
}

/* ---- sorting and freeing --------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

void config_object_sort(const struct config_object *object, void *of)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		/* qsort needs an array even for 0 elements, and the pointer may be NULL. */
		if (field->kind == FIELD_NQNS && field_count(field, of) > 1)
			qsort(field_names(field, of), field_count(field, of), NVME_NQN_BYTES,
			      by_text);
		if (field->sort)
			field->sort(of);
	}
}

void config_object_release(const struct config_object *object, void *of)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field->release)
			field->release(of);
		else if (field->kind == FIELD_TEXT || field->kind == FIELD_NQNS)
			free(field_names(field, of));
	}
}

/* ---- the snapshot ---------------------------------------------------------------------------- */

static void field_copy(const struct config_field *field, const void *from, size_t from_bytes,
		       void *to, size_t to_bytes)
{
	switch (field->kind) {
	case FIELD_CHARS:
		text_copy(to, to_bytes, from);
		break;
	case FIELD_ID:
		memcpy(to, from, FIELD_ID_BYTES);
		break;
	default:
		CHECK(field_number_bytes(field) > 0);
		field_number_set(to, to_bytes, field_number_get(from, from_bytes));
	}
}

void config_object_serve(const struct config_object *object, const void *from, void *served)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field->served_bytes > 0)
			field_copy(field, field_const_value(field, from), field_number_bytes(field),
				   (uint8_t *)served + field->served_offset, field->served_bytes);
	}
}

void config_object_from_served(const struct config_object *object, const void *served, void *to)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];
		size_t bytes =
			field->kind == FIELD_CHARS ? field->max + 1 : field_number_bytes(field);

		if (field->served_bytes > 0)
			field_copy(field, (const uint8_t *)served + field->served_offset,
				   field->served_bytes, field_value(field, to), bytes);
	}
}
