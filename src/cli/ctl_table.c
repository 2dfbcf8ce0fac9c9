/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for people: columns as wide as their contents, numbers right-aligned; and JSON fields as
 * strings. Main thread.
 */
#include "cli/ctl.h"
#include "cli/print.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void ctl_table_begin(struct ctl_table *table, const char *const *titles)
{
	*table = (struct ctl_table){0};
	while (titles[table->columns])
		table->columns++;
	CHECK(table->columns <= CTL_COLUMNS_MAX);
	ctl_table_row(table, titles);
}

void ctl_table_row(struct ctl_table *table, const char *const *texts)
{
	size_t count = (size_t)(table->rows + 1) * table->columns;
	char **cells = realloc(table->cells, count * sizeof(*cells));

	CHECK(cells);
	table->cells = cells;
	for (unsigned i = 0; i < table->columns; i++) {
		cells[table->rows * table->columns + i] = strdup(cli_shown(texts[i]));
		CHECK(cells[table->rows * table->columns + i]);
	}
	table->rows++;
}

static void row_print(const struct ctl_table *table, unsigned row, const unsigned *widths)
{
	char *const *cells = &table->cells[row * table->columns];

	for (unsigned i = 0; i < table->columns; i++) {
		bool is_number = table->cells[i][0] == '>';
		const char *text = cells[i] + (row == 0 && is_number);
		bool is_last = i + 1 == table->columns;

		if (is_number)
			printf("%*s%s", (int)widths[i], text, is_last ? "\n" : "  ");
		else if (is_last)
			printf("%s\n", text);
		else
			printf("%-*s  ", (int)widths[i], text);
	}
}

void ctl_table_end(struct ctl_table *table, const char *none)
{
	unsigned widths[CTL_COLUMNS_MAX] = {0};

	for (unsigned i = 0; i < table->rows * table->columns; i++) {
		size_t len = strlen(table->cells[i]) - (table->cells[i][0] == '>');

		if (len > widths[i % table->columns])
			widths[i % table->columns] = (unsigned)len;
	}
	if (table->rows == 1)
		printf("%s\n", none);
	for (unsigned row = 0; table->rows > 1 && row < table->rows; row++)
		row_print(table, row, widths);
	for (unsigned i = 0; i < table->rows * table->columns; i++)
		free(table->cells[i]);
	free(table->cells);
}

static void list_join(const json_t *list, char *text, size_t text_bytes)
{
	size_t used = 0, i;
	json_t *value;

	text[0] = 0;
	json_array_foreach((json_t *)list, i, value)
	{
		if (json_is_string(value) && used < text_bytes)
			used += (size_t)snprintf(text + used, text_bytes - used, "%s%s",
						 used > 0 ? "," : "", cli_shown_json(value));
	}
	if (used == 0)
		snprintf(text, text_bytes, "none");
}

const char *ctl_text(const json_t *object, const char *key, char *text, size_t text_bytes)
{
	const json_t *value = json_object_get(object, key);

	if (!value || json_is_null(value))
		snprintf(text, text_bytes, "-");
	else if (json_is_string(value))
		snprintf(text, text_bytes, "%s", cli_shown_json(value));
	else if (json_is_integer(value))
		snprintf(text, text_bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_boolean(value))
		snprintf(text, text_bytes, "%s", json_is_true(value) ? "yes" : "no");
	else if (json_is_real(value))
		snprintf(text, text_bytes, "%.1f", json_real_value(value));
	else
		list_join(value, text, text_bytes);
	return text;
}

const char *ctl_time(const json_t *object, const char *key, char *text, size_t text_bytes)
{
	time_t when = (time_t)json_number_value(json_object_get(object, key));
	struct tm parts;

	text[0] = 0;
	if (gmtime_r(&when, &parts))
		strftime(text, text_bytes, "%Y-%m-%dT%H:%M:%SZ", &parts);
	return text;
}

uint64_t ctl_number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}
