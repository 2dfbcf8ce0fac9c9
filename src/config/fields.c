/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tables of fields do: read an object of the document, write it, compare two, and copy
 * what a snapshot has too. Control thread only.
 */
#include "config/fields.h"

#include "base/check.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 32 /* of one object */
#define ID_BYTES   16

static void *value_of(const struct config_field *field, void *of)
{
	return (uint8_t *)of + field->offset;
}

static const void *const_value_of(const struct config_field *field, const void *of)
{
	return (const uint8_t *)of + field->offset;
}

static unsigned count_of(const struct config_field *field, const void *of)
{
	unsigned count;

	memcpy(&count, (const uint8_t *)of + field->count_offset, sizeof(count));
	return count;
}

static char *text_of(const struct config_field *field, const void *of)
{
	char *text;

	memcpy(&text, const_value_of(field, of), sizeof(text));
	return text;
}

static void *names_of(const struct config_field *field, const void *of)
{
	void *names;

	memcpy(&names, const_value_of(field, of), sizeof(names));
	return names;
}

/* Numbers, booleans and words, whose members have 1, 2 or 4 bytes. */
static uint32_t number_get(const void *from, size_t bytes)
{
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;

	switch (bytes) {
	case 1:
		memcpy(&u8, from, sizeof(u8));
		return u8;
	case 2:
		memcpy(&u16, from, sizeof(u16));
		return u16;
	default:
		memcpy(&u32, from, sizeof(u32));
		return u32;
	}
}

static void number_set(void *to, size_t bytes, uint32_t number)
{
	uint8_t u8 = (uint8_t)number;
	uint16_t u16 = (uint16_t)number;

	if (bytes == 1)
		memcpy(to, &u8, sizeof(u8));
	else if (bytes == 2)
		memcpy(to, &u16, sizeof(u16));
	else
		memcpy(to, &number, sizeof(number));
}

/* 0: the value is no number. */
static size_t number_bytes(const struct config_field *field)
{
	_Static_assert(sizeof(bool) == 1 && sizeof(enum zero_copy) == 4,
		       "as number_get reads them");
	switch (field->kind) {
	case FIELD_BOOL:
		return 1;
	case FIELD_U16:
		return 2;
	case FIELD_U32:
	case FIELD_WORD:
		return 4;
	default:
		return 0;
	}
}

static bool id_is_none(const void *id)
{
	static const uint8_t none[ID_BYTES];

	return memcmp(id, none, sizeof(none)) == 0;
}

void config_object_init(const struct config_object *object, void *to)
{
	if (object->prepare) {
		object->prepare(to);
		return;
	}
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (number_bytes(field) > 0)
			number_set(value_of(field, to), number_bytes(field), field->number);
		else if (field->kind == FIELD_CHARS && field->text)
			text_copy(value_of(field, to), field->max + 1, field->text);
	}
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

/* "off", "auto" or "on" */
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
		number_set(value_of(field, to), number_bytes(field), (uint32_t)index);
		return;
	}
	words_list(field, known, sizeof(known));
	config_complain(at, field->key, "\"%s\" must be %s", text, known);
}

/* Such as serial and model number: NVMe Base 2.1, section 5.1.13.2.1. */
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
	text_copy(value_of(field, to), field->max + 1, text);
}

static void text_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	const char *text = NULL;
	char *copy;

	if (!config_get_text(at, object, field->key, &text))
		return;
	if (strlen(text) > field->max) {
		config_complain(at, field->key, "has %zu bytes, at most %u are possible",
				strlen(text), field->max);
		return;
	}
	if (text[0] == 0)
		return;
	copy = strdup(text);
	if (!copy)
		config_complain_memory(at, field->key);
	memcpy(value_of(field, to), &copy, sizeof(copy));
}

static void nqns_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	char(*names)[NVME_NQN_BYTES];
	unsigned count;

	if (!config_get_nqns(at, object, field->key, field->max, &names, &count))
		return;
	memcpy(value_of(field, to), &names, sizeof(names));
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
			number_set(value_of(field, to), number_bytes(field), number);
		break;
	case FIELD_BOOL:
		if (config_get_bool(at, object, field->key, &flag))
			number_set(value_of(field, to), number_bytes(field), flag);
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
		return *(const char *)const_value_of(field, from) != 0;
	case FIELD_TEXT:
		return text_of(field, from) != NULL;
	case FIELD_ID:
		return !id_is_none(const_value_of(field, from));
	case FIELD_FUNCTIONS:
		return field->write != NULL;
	default:
		return true;
	}
}

static json_t *field_write(const struct config_writing *writing, const struct config_field *field,
			   const void *from)
{
	const void *value = const_value_of(field, from);

	if (field->write)
		return field->write(writing, field, from);
	switch (field->kind) {
	case FIELD_U16:
	case FIELD_U32:
		return json_integer(number_get(value, number_bytes(field)));
	case FIELD_BOOL:
		return json_boolean(number_get(value, number_bytes(field)));
	case FIELD_WORD:
		return json_string(config_word_name(field->words, field->word_count,
						    number_get(value, number_bytes(field))));
	case FIELD_CHARS:
		return json_string(value);
	case FIELD_TEXT:
		return json_string(text_of(field, from));
	case FIELD_NQNS:
		return config_names_to_json(names_of(field, from), count_of(field, from));
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
	if (field->missing || field->absent || number_bytes(field) == 0)
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
	const char(*x)[NVME_NQN_BYTES] = names_of(field, a);
	const char(*y)[NVME_NQN_BYTES] = names_of(field, b);

	if (count_of(field, a) != count_of(field, b))
		return false;
	for (unsigned i = 0; i < count_of(field, a); i++) {
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
	const void *x = const_value_of(field, a), *y = const_value_of(field, b);
	bool is_written = field_is_written(&writing, field, a);

	if (is_written != field_is_written(&writing, field, b))
		return false;
	if (!is_written)
		return true;
	switch (field->kind) {
	case FIELD_CHARS:
		return strcmp(x, y) == 0;
	case FIELD_TEXT:
		return strcmp(text_of(field, a), text_of(field, b)) == 0;
	case FIELD_ID:
		return memcmp(x, y, ID_BYTES) == 0;
	case FIELD_NQNS:
		return names_same(field, a, b);
	case FIELD_FUNCTIONS:
		return json_same(&writing, field, a, b);
	default:
		return memcmp(x, y, number_bytes(field)) == 0;
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

/* ---- the rest of its life -------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

void config_object_sort(const struct config_object *object, void *of)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		/* qsort wants an array even for no elements. */
		if (field->kind == FIELD_NQNS && count_of(field, of) > 1)
			qsort(names_of(field, of), count_of(field, of), NVME_NQN_BYTES, by_text);
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
			free(names_of(field, of));
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
		memcpy(to, from, ID_BYTES);
		break;
	default:
		CHECK(number_bytes(field) > 0);
		number_set(to, to_bytes, number_get(from, from_bytes));
	}
}

void config_object_serve(const struct config_object *object, const void *from, void *served)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];

		if (field->served_bytes > 0)
			field_copy(field, const_value_of(field, from), number_bytes(field),
				   (uint8_t *)served + field->served_offset, field->served_bytes);
	}
}

void config_object_from_served(const struct config_object *object, const void *served, void *to)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];
		size_t bytes = field->kind == FIELD_CHARS ? field->max + 1 : number_bytes(field);

		if (field->served_bytes > 0)
			field_copy(field, (const uint8_t *)served + field->served_offset,
				   field->served_bytes, value_of(field, to), bytes);
	}
}
