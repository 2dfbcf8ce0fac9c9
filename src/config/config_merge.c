/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft serve --merge`: puts a document (or the flags) over the saved state. New elements are
 * added, given values of existing elements are changed, nothing is removed, and everything not
 * mentioned stays. The tables of fields (config/fields.h) define how:
 * - a value replaces the saved one, lists of NQNs are united, objects are merged field by field;
 * - elements of a list are matched by the field that names them, an element without a name by its
 *   table's find function. An element without a match is added, under a free number where its name
 *   is a number;
 * - a field with its own merge function is an exception, explained there.
 * Control thread only. The result is read and checked like any other document.
 */
#include "config/config_merge.h"

#include "config/document.h"
#include "config/fields.h"

#include <errno.h>

static void object_merge(struct config_merge *merge, const struct config_object *object,
			 json_t *saved, const json_t *more);

/* ---- values ---------------------------------------------------------------------------------- */

void config_merge_set(struct config_merge *merge, json_t *saved, const char *key,
		      const json_t *value)
{
	merge->is_out_of_memory |= json_object_set_new(saved, key, json_deep_copy(value)) < 0;
}

static json_t *list_of(struct config_merge *merge, json_t *saved, const char *key)
{
	json_t *list = document_list(saved, key);

	merge->is_out_of_memory |= !list;
	return list;
}

static void list_add(struct config_merge *merge, json_t *list, json_t *taken_element)
{
	merge->is_out_of_memory |= json_array_append_new(list, taken_element) < 0;
}

void config_merge_unite(struct config_merge *merge, json_t *saved, const char *key,
			const json_t *list)
{
	json_t *united = list_of(merge, saved, key);

	for (size_t i = 0; i < json_array_size(list); i++) {
		if (!document_list_has(united, json_array_get(list, i)))
			list_add(merge, united, json_deep_copy(json_array_get(list, i)));
	}
}

/* ---- elements of a list ---------------------------------------------------------------------- */

/* `found`: names of saved elements that already match other elements of `more`. */
static json_t *element_find(const struct config_object *object, const json_t *list,
			    const json_t *found, const json_t *element)
{
	const char *key = config_object_name(object)->key;
	const json_t *name = json_object_get(element, key);

	if (!name)
		return object->find ? object->find(list, found, element) : NULL;
	return json_is_string(name)
		       ? document_find_text(list, key, json_string_value(name), NULL)
		       : document_find_number(list, key, json_integer_value(name), NULL);
}

/* Adds a copy of the element, under a free number when it has no name. */
static json_t *element_add(struct config_merge *merge, const struct config_object *object,
			   json_t *list, const json_t *element)
{
	const char *key = config_object_name(object)->key;
	json_t *added = json_deep_copy(element);

	if (!json_object_get(added, key))
		json_object_set_new(added, key, json_integer(document_number_free(list, key)));
	list_add(merge, list, added);
	return json_array_get(list, json_array_size(list) - 1);
}

static void list_merge(struct config_merge *merge, const struct config_field *field, json_t *saved,
		       const json_t *elements)
{
	const struct config_object *object = field->object;
	json_t *list = list_of(merge, saved, field->key);
	const json_t *above = merge->above;
	json_t *found = json_array();

	merge->above = saved;
	for (size_t i = 0; i < json_array_size(elements); i++) {
		const json_t *element = json_array_get(elements, i);
		json_t *same = element_find(object, list, found, element);

		if (same)
			object_merge(merge, object, same, element);
		else
			same = element_add(merge, object, list, element);
		json_array_append(found, json_object_get(same, config_object_name(object)->key));
	}
	merge->above = above;
	json_decref(found);
}

/* ---- objects --------------------------------------------------------------------------------- */

static void below_merge(struct config_merge *merge, const struct config_field *field, json_t *saved,
			const json_t *value)
{
	if (!json_is_object(json_object_get(saved, field->key)))
		json_object_set_new(saved, field->key, json_object());
	object_merge(merge, field->object, json_object_get(saved, field->key), value);
}

static void field_merge(struct config_merge *merge, const struct config_field *field, json_t *saved,
			const json_t *more)
{
	const json_t *value = json_object_get(more, field->key);

	if (field->merge)
		field->merge(merge, field, saved, more);
	else if (field->kind == FIELD_NQNS)
		config_merge_unite(merge, saved, field->key, value);
	else if (field->object && json_is_array(value))
		list_merge(merge, field, saved, value);
	else if (field->object)
		below_merge(merge, field, saved, value);
	else
		config_merge_set(merge, saved, field->key, value);
}

static void object_merge(struct config_merge *merge, const struct config_object *object,
			 json_t *saved, const json_t *more)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		if (json_object_get(more, object->fields[i].key))
			field_merge(merge, &object->fields[i], saved, more);
	}
}

/* ---- the document ---------------------------------------------------------------------------- */

int config_merge(json_t *document, const json_t *more, struct config_errors *errors)
{
	struct config_merge merge = {.errors = errors};
	unsigned before = errors->count;

	object_merge(&merge, &config_root_object, document, more);
	if (merge.is_out_of_memory) {
		config_errors_add(errors, "out of memory");
		return -ENOMEM;
	}
	return errors->count > before ? -EINVAL : 0;
}
