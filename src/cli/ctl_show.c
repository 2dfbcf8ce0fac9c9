/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The show commands of `weft ctl`: a line for each field in the object's table (config/fields.h),
 * in the order of the table, so that a new field is shown without a change here. A command supplies
 * a function for a field that is more than a key and a value. Main thread.
 */
#include "cli/ctl.h"
#include "cli/print.h"
#include "config/fields.h"

#include <stdio.h>
#include <string.h>

#define KEY_COLUMNS 15 /* minimum; wider when a key of the object is longer */

int ctl_key_width(const struct config_object *object)
{
	size_t width = KEY_COLUMNS;

	for (unsigned i = 0; i < object->field_count; i++) {
		size_t len = strlen(object->fields[i].key);

		width = len > width ? len : width;
	}
	return (int)width;
}

void ctl_field_show(const json_t *answer, const struct config_object *object, const char *key)
{
	char text[4096];

	printf("%-*s %s\n", ctl_key_width(object), key, ctl_text(answer, key, text, sizeof(text)));
}

/* Prints the value of the first field, then the other fields with their keys: "pool /srv/pool,
 * capacity 1T". */
static void below_show(const json_t *answer, const struct config_object *object,
		       const struct config_field *field)
{
	const json_t *value = json_object_get(answer, field->key);
	char text[4096];

	printf("%-*s", ctl_key_width(object), field->key);
	for (unsigned i = 0; i < field->object->field_count; i++) {
		const char *key = field->object->fields[i].key;

		if (i == 0)
			printf(" %s", ctl_text(value, key, text, sizeof(text)));
		else if (json_object_get(value, key))
			printf(", %s %s", key, ctl_text(value, key, text, sizeof(text)));
	}
	putchar('\n');
}

static const struct ctl_special *special_find(const struct ctl_special *specials, const char *key)
{
	while (specials->key && strcmp(specials->key, key) != 0)
		specials++;
	return specials->key ? specials : NULL;
}

void ctl_object_show(const json_t *answer, const struct config_object *object,
		     const struct ctl_special *specials)
{
	for (unsigned i = 0; i < object->field_count; i++) {
		const struct config_field *field = &object->fields[i];
		const struct ctl_special *special = special_find(specials, field->key);

		if (special && special->show)
			special->show(answer);
		else if (special || !json_object_get(answer, field->key))
			continue;
		else if (field->object)
			below_show(answer, object, field);
		else
			ctl_field_show(answer, object, field->key);
	}
}
