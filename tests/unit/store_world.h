/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores for their tests: opened in a folder of the program, filled with documents, and read as
 * another program would.
 */
#ifndef WEFT_TESTS_STORE_WORLD_H
#define WEFT_TESTS_STORE_WORLD_H

#include "store/store.h"
#include "temp_folder.h"

#include <sqlite3.h>

static char dir[128]; /* of the store, below root */
static const struct store_counters first = {.is_clean = true, .id = {{1, 2, 3}}};

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static struct store *open_good(void)
{
	struct store_error error = {""};
	struct store *store;

	EXPECT_EQ(0, store_open(dir, &first, &store, &error));
	EXPECT_STR("", error.text);
	if (!store)
		abort();
	return store;
}

/* Runs SQL on a database of the folder, as another program. Returns SQLite's result. */
static int sql_in(const char *file, const char *text)
{
	sqlite3 *db;
	int code = sqlite3_open(path_of(file), &db);

	if (code == SQLITE_OK)
		code = sqlite3_exec(db, text, NULL, NULL, NULL);
	sqlite3_close(db);
	return code;
}

__attribute__((unused)) static void keep_by(struct store *store, const char *origin,
					    const json_t *before, const json_t *after)
{
	struct store_change change = {.before = before,
				      .after = after,
				      .generation = store_generation(store) + 1,
				      .origin = origin,
				      .diff = "~ something\n"};
	struct store_error error = {""};

	EXPECT_EQ(0, store_keep_document(store, &change, &error));
	EXPECT_STR("", error.text);
}

static void keep(struct store *store, const json_t *before, const json_t *after, const char *diff)
{
	struct store_change change = {.before = before,
				      .after = after,
				      .generation = store_generation(store) + 1,
				      .origin = "test",
				      .diff = diff};
	struct store_error error = {""};

	EXPECT_EQ(0, store_keep_document(store, &change, &error));
	EXPECT_STR("", error.text);
}

#endif
