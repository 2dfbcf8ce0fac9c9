/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict readers of JSON values: right type, right range, no unknown key. A wrong value adds an
 * error with its place in the document and what would be right; then reading continues.
 *
 * Control thread only. The document comes from the machine's administrator, not from the network.
 */
#include "config/config_json.h"

#include "base/log.h"

#include "base/text.h"
#include "wire/nqn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void config_errors_add(struct config_errors *errors, const char *format, ...)
{
	va_list args;

	if (errors->count < CONFIG_ERRORS_MAX) {
		va_start(args, format);
		vsnprintf(errors->texts[errors->count], CONFIG_ERROR_TEXT_BYTES, format, args);
		va_end(args);
	}
	errors->count++;
}

void config_errors_print(const struct config_errors *errors, FILE *out)
{
	unsigned kept = errors->count < CONFIG_ERRORS_MAX ? errors->count : CONFIG_ERRORS_MAX;

	for (unsigned i = 0; i < kept; i++) {
		char shown[2 * CONFIG_ERROR_TEXT_BYTES];

		fprintf(out, "  %s\n", text_escape(errors->texts[i], shown, sizeof(shown)));
	}
	if (errors->count > kept)
		fprintf(out, "  ... and %u more\n", errors->count - kept);
}

void config_errors_log(const char *what, const struct config_errors *errors)
{
	unsigned kept = errors->count < CONFIG_ERRORS_MAX ? errors->count : CONFIG_ERRORS_MAX;

	for (unsigned i = 0; i < kept; i++)
		log_error("control", "%s: %s", what, errors->texts[i]);
	if (errors->count > kept)
		log_error("control", "%s: ... and %u errors more", what, errors->count - kept);
}

size_t config_cursor_enter(struct config_cursor *at, const char *key, size_t index)
{
	size_t mark = strlen(at->path);
	const char *dot = mark > 0 ? "." : "";

	if (index == SIZE_MAX)
		snprintf(at->path + mark, sizeof(at->path) - mark, "%s%.64s", dot, key);
	else
		snprintf(at->path + mark, sizeof(at->path) - mark, "%s%.64s[%zu]", dot, key, index);
	return mark;
}

void config_cursor_leave(struct config_cursor *at, size_t mark)
{
	at->path[mark] = 0;
}

void config_complain(struct config_cursor *at, const char *key, const char *format, ...)
{
	char text[CONFIG_ERROR_TEXT_BYTES];
	size_t mark = strlen(at->path);
	va_list args;

	if (key)
		config_cursor_enter(at, key, SIZE_MAX);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (at->path[0] == 0)
		config_errors_add(at->errors, "%s", text);
	else
		config_errors_add(at->errors, "%s: %s", at->path, text);
	config_cursor_leave(at, mark);
}

void config_complain_memory(struct config_cursor *at, const char *key)
{
	config_complain(at, key, "out of memory");
	at->lacks_memory = true;
}

static const char *config_type_name(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a whole number";
	case JSON_REAL:
		return "a number with a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	default:
		return "null";
	}
}

static void config_complain_type(struct config_cursor *at, const char *key, const char *wanted,
				 const json_t *value)
{
	config_complain(at, key, "must be %s, not %s", wanted, config_type_name(value));
}

static void config_join_keys(const char *const *keys, size_t key_count, char *text,
			     size_t text_bytes)
{
	size_t used = 0;

	text[0] = 0;
	for (size_t i = 0; i < key_count && used < text_bytes; i++)
		used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i == 0 ? "" : ", ",
					 keys[i]);
}

bool config_object_check(struct config_cursor *at, const json_t *object, const char *const *keys,
			 size_t key_count)
{
	char known[512];
	bool is_good = true;
	const char *key;
	json_t *value;

	if (!json_is_object(object)) {
		config_complain_type(at, NULL, "an object", object);
		return false;
	}
	config_join_keys(keys, key_count, known, sizeof(known));
	json_object_foreach((json_t *)object, key, value)
	{
		bool is_known = false;

		for (size_t i = 0; i < key_count; i++)
			is_known |= strcmp(key, keys[i]) == 0;
		if (is_known)
			continue;
		config_complain(at, key, "is not a known key; known keys: %s", known);
		is_good = false;
	}
	return is_good;
}

bool config_get_text(struct config_cursor *at, const json_t *object, const char *key,
		     const char **ret_value)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return false;
	if (!json_is_string(value)) {
		config_complain_type(at, key, "a string", value);
		return false;
	}
	*ret_value = json_string_value(value);
	return true;
}

bool config_get_bool(struct config_cursor *at, const json_t *object, const char *key,
		     bool *ret_value)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return false;
	if (!json_is_boolean(value)) {
		config_complain_type(at, key, "true or false", value);
		return false;
	}
	*ret_value = json_is_true(value);
	return true;
}

bool config_get_u32(struct config_cursor *at, const json_t *object, const char *key, uint32_t min,
		    uint32_t max, uint32_t *ret_value)
{
	const json_t *value = json_object_get(object, key);
	json_int_t number;

	if (!value)
		return false;
	if (!json_is_integer(value)) {
		config_complain_type(at, key, "a whole number", value);
		return false;
	}
	number = json_integer_value(value);
	if (number < (json_int_t)min || number > (json_int_t)max) {
		config_complain(at, key, "is %" JSON_INTEGER_FORMAT ", must be %u to %u", number,
				min, max);
		return false;
	}
	*ret_value = (uint32_t)number;
	return true;
}

bool config_get_array(struct config_cursor *at, const json_t *object, const char *key,
		      size_t max_count, const json_t **ret_array)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return false;
	if (!json_is_array(value)) {
		config_complain_type(at, key, "a list", value);
		return false;
	}
	if (json_array_size(value) > max_count) {
		config_complain(at, key, "has %zu elements; the maximum is %zu",
				json_array_size(value), max_count);
		return false;
	}
	*ret_array = value;
	return true;
}

bool config_nqn_check(struct config_cursor *at, const char *key, const char *nqn)
{
	const char *problem;

	if (strlen(nqn) >= NVME_NQN_BYTES) {
		config_complain(at, key, "is %zu bytes long, an NQN has at most %d", strlen(nqn),
				NVME_NQN_BYTES - 1);
		return false;
	}
	problem = nqn_problem(nqn);
	if (problem) {
		config_complain(at, key, "\"%s\" %s; an NQN looks like %s", nqn, problem,
				TARGET_DEFAULT_NQN);
		return false;
	}
	if (nqn_is_discovery(nqn)) {
		config_complain(
			at, key,
			"is the name of the discovery service, which every port has anyway");
		return false;
	}
	return true;
}

bool config_get_nqns(struct config_cursor *at, const json_t *object, const char *key,
		     size_t max_count, char (**ret_names)[NVME_NQN_BYTES], unsigned *ret_count)
{
	char(*names)[NVME_NQN_BYTES];
	const json_t *array;
	unsigned count = 0;

	if (!config_get_array(at, object, key, max_count, &array))
		return false;
	names = calloc(json_array_size(array) + 1, sizeof(*names));
	if (!names) {
		config_complain_memory(at, key);
		return false;
	}
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *value = json_array_get(array, i);
		size_t mark = config_cursor_enter(at, key, i);
		bool is_new = true;

		if (!json_is_string(value)) {
			config_complain_type(at, NULL, "a string", value);
		} else if (config_nqn_check(at, NULL, json_string_value(value))) {
			text_copy(names[count], NVME_NQN_BYTES, json_string_value(value));
			for (unsigned n = 0; n < count; n++)
				is_new &= strcmp(names[n], names[count]) != 0;
			if (!is_new)
				config_complain(at, NULL, "\"%s\" is listed twice", names[count]);
			count += is_new;
		}
		config_cursor_leave(at, mark);
	}
	*ret_names = names;
	*ret_count = count;
	return true;
}
