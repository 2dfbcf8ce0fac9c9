/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds elements in a document that is still JSON. In an edited document every element has its name
 * and every list is present. In a document as its author wrote it, names and lists may be missing
 * or of a wrong type; they count as not found. Control thread only.
 */
#include "config/document.h"

#include <stdlib.h>
#include <string.h>

const char *document_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

json_t *document_list(json_t *object, const char *key)
{
	json_t *list = json_object_get(object, key);

	if (!json_is_array(list)) {
		json_object_set_new(object, key, json_array());
		list = json_object_get(object, key);
	}
	return list;
}

static json_t *found(const json_t *list, size_t index, size_t *ret_index)
{
	if (ret_index)
		*ret_index = index;
	return index == SIZE_MAX ? NULL : json_array_get(list, index);
}

json_t *document_find_text(const json_t *list, const char *key, const char *text, size_t *ret_index)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *value =
			json_string_value(json_object_get(json_array_get(list, i), key));

		if (value && strcmp(value, text) == 0)
			return found(list, i, ret_index);
	}
	return found(list, SIZE_MAX, ret_index);
}

json_t *document_find_number(const json_t *list, const char *key, json_int_t number,
			     size_t *ret_index)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *value = json_object_get(json_array_get(list, i), key);

		if (json_is_integer(value) && json_integer_value(value) == number)
			return found(list, i, ret_index);
	}
	return found(list, SIZE_MAX, ret_index);
}

json_t *document_subsystem(const json_t *document, const char *nqn, size_t *ret_index)
{
	return document_find_text(json_object_get(document, "subsystems"), "nqn", nqn, ret_index);
}

json_t *document_ns(const json_t *subsystem, json_int_t nsid, size_t *ret_index)
{
	return document_find_number(json_object_get(subsystem, "namespaces"), "nsid", nsid,
				    ret_index);
}

json_t *document_port(const json_t *document, json_int_t id, size_t *ret_index)
{
	return document_find_number(json_object_get(document, "ports"), "id", id, ret_index);
}

size_t document_index_of(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *value = json_string_value(json_array_get(list, i));

		if (value && strcmp(value, text) == 0)
			return i;
	}
	return SIZE_MAX;
}

bool document_list_has(const json_t *list, const json_t *value)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (json_equal(json_array_get(list, i), value))
			return true;
	}
	return false;
}

json_int_t document_number_free(const json_t *list, const char *key)
{
	size_t count = json_array_size(list);
	/* With `count` elements, one of the numbers 1 to count + 1 is always free. */
	bool *is_taken = calloc(count + 2, sizeof(*is_taken));
	json_int_t number = 1;

	/* Slower search when the allocation failed. */
	while (!is_taken && document_find_number(list, key, number, NULL))
		number++;
	for (size_t i = 0; is_taken && i < count; i++) {
		json_int_t taken =
			json_integer_value(json_object_get(json_array_get(list, i), key));

		if (taken > 0 && taken <= (json_int_t)count)
			is_taken[taken] = true;
	}
	while (is_taken && is_taken[number])
		number++;
	free(is_taken);
	return number;
}
