/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: documents are read as they were written, a change writes only the difference, values
 * are kept and forgotten, batches are all or nothing. Damage, other versions, locks and read-only
 * files are reported with a remedy and change nothing.
 */
#include "store_world.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOME_DIFF "+ something\n"

static void use_folder(const char *name)
{
	snprintf(dir, sizeof(dir), "%s/%s", root, name);
	EXPECT_EQ(0, mkdir(dir, 0700));
}

static int open_bad(const char *expected)
{
	struct store_error error = {""};
	struct store *store;
	int res = store_open(dir, &first, &store, &error);

	EXPECT(!store);
	EXPECT(strstr(error.text, dir) != NULL);
	EXPECT(strstr(error.text, expected) != NULL);
	if (!strstr(error.text, expected))
		printf("# it says: %s\n", error.text);
	store_close(store);
	return res;
}

static void sql(const char *text)
{
	EXPECT_EQ(SQLITE_OK, sql_in(STORE_FILE, text));
}

static json_t *document_make(unsigned subsystems, unsigned namespaces)
{
	json_t *document = json_pack("{s:i,s:{s:i},s:[],s:[{s:i,s:s},{s:i,s:s}]}", "version", 1,
				     "limits", "ctrls_max", 7, "subsystems", "ports", "id", 2,
				     "address", "::1", "id", 10, "address", "127.0.0.1");
	char nqn[64];

	for (unsigned i = 0; i < subsystems; i++) {
		json_t *list = json_array();

		for (unsigned n = 1; n <= namespaces; n++)
			json_array_append_new(list,
					      json_pack("{s:i,s:s}", "nsid", n, "media", "mem:1M"));
		snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.weft:%04u", i);
		json_array_append_new(
			json_object_get(document, "subsystems"),
			json_pack("{s:s,s:s,s:o}", "nqn", nqn, "model", "m é", "namespaces", list));
	}
	return document;
}

static json_t *ns_of(json_t *document, unsigned subsystem, unsigned index)
{
	return json_array_get(
		json_object_get(json_array_get(json_object_get(document, "subsystems"), subsystem),
				"namespaces"),
		index);
}

static void expect_document(struct store *store, const json_t *wanted)
{
	struct store_error error = {""};
	json_t *document = NULL;

	EXPECT_EQ(0, store_load_document(store, &document, &error));
	EXPECT(json_equal((json_t *)wanted, document));
	json_decref(document);
}

static void a_new_one_is_private_and_empty(void)
{
	struct store_error error = {""};
	struct store_counters counters;
	struct store *store;
	struct stat info;
	json_t *document;

	use_folder("new");
	store = open_good();
	EXPECT_EQ(0, stat(path_of(STORE_FILE), &info));
	EXPECT_EQ(0600, info.st_mode & 0777);
	EXPECT_EQ(0, store_generation(store));
	EXPECT_STR("", store_source_hash(store));
	EXPECT_EQ(-ENOENT, store_load_document(store, &document, &error));
	store_get_counters(store, &counters);
	EXPECT_EQ(0, counters.starts);
	EXPECT(counters.is_clean);
	EXPECT(uuid_equal(&first.id, &counters.id));
	store_close(store);
	EXPECT(access(path_of("weft.db.new"), F_OK) != 0);
}

static void a_half_made_one_is_made_again(void)
{
	struct store *store;
	FILE *file;

	use_folder("half");
	file = fopen(path_of("weft.db.new"), "w");
	fputs("half", file);
	fclose(file);
	file = fopen(path_of("weft.db.new-wal"), "w");
	fputs("half", file);
	fclose(file);
	store = open_good();
	store_close(store);
	EXPECT(access(path_of("weft.db.new"), F_OK) != 0);
}

static void counters_survive(void)
{
	struct store_counters counters = {.starts = 1ull << 40, .unsafe_shutdowns = 5};
	struct store_error error;
	struct store *store;

	use_folder("counters");
	store = open_good();
	uuid_random(&counters.id);
	EXPECT_EQ(0, store_set_counters(store, &counters, &error));
	store_close(store);
	store = open_good();
	counters.starts = 0;
	store_get_counters(store, &counters);
	EXPECT_EQ(1ull << 40, counters.starts);
	EXPECT_EQ(5, counters.unsafe_shutdowns);
	EXPECT(!counters.is_clean);
	store_close(store);
}

static void documents_come_back_as_they_went_in(void)
{
	json_t *one, *two, *none;
	struct store *store;

	use_folder("documents");
	store = open_good();
	one = document_make(3, 12);
	keep(store, NULL, one, SOME_DIFF);
	EXPECT_EQ(1, store_generation(store));
	expect_document(store, one);
	two = json_deep_copy(one);
	json_object_set_new(ns_of(two, 1, 10), "label", json_string("changed"));
	json_array_remove(json_object_get(two, "subsystems"), 0);
	json_array_remove(json_object_get(two, "ports"), 1);
	json_object_del(two, "limits");
	keep(store, one, two, SOME_DIFF);
	store_close(store);
	store = open_good();
	EXPECT_EQ(2, store_generation(store));
	expect_document(store, two);
	/* From the same rows to none. */
	none = json_pack("{s:[],s:[]}", "subsystems", "ports");
	keep(store, two, none, SOME_DIFF);
	expect_document(store, none);
	store_close(store);
	json_decref(one);
	json_decref(two);
	json_decref(none);
}

static int rows_written(struct store *store, json_t *before, json_t *after)
{
	sqlite3 *db;
	sqlite3_stmt *stmt;
	int count = -1;

	/* Triggers log every row that is written. */
	sql("CREATE TABLE IF NOT EXISTS written(kind, key); DELETE FROM written;"
	    "CREATE TRIGGER IF NOT EXISTS w1 AFTER INSERT ON object BEGIN"
	    " INSERT INTO written VALUES(new.kind, new.key); END;"
	    "CREATE TRIGGER IF NOT EXISTS w2 AFTER UPDATE ON object BEGIN"
	    " INSERT INTO written VALUES(new.kind, new.key); END;"
	    "CREATE TRIGGER IF NOT EXISTS w3 AFTER DELETE ON object BEGIN"
	    " INSERT INTO written VALUES(old.kind, old.key); END;");
	keep(store, before, after, SOME_DIFF);
	EXPECT_EQ(SQLITE_OK, sqlite3_open(path_of(STORE_FILE), &db));
	EXPECT_EQ(SQLITE_OK,
		  sqlite3_prepare_v2(db, "SELECT count(*) FROM written", -1, &stmt, NULL));
	if (sqlite3_step(stmt) == SQLITE_ROW)
		count = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return count;
}

static void a_change_writes_only_what_differs(void)
{
	json_t *one, *two;
	struct store *store;

	use_folder("differs");
	store = open_good();
	one = document_make(20, 20);
	keep(store, NULL, one, SOME_DIFF);
	two = json_deep_copy(one);
	EXPECT_EQ(0, rows_written(store, one, two));
	json_object_set_new(ns_of(two, 3, 4), "label", json_string("x"));
	EXPECT_EQ(1, rows_written(store, one, two));
	json_array_remove(json_object_get(two, "subsystems"), 19);
	json_object_set_new(ns_of(one, 3, 4), "label", json_string("x"));
	EXPECT_EQ(21, rows_written(store, one, two));
	expect_document(store, two);
	store_close(store);
	json_decref(one);
	json_decref(two);
}

static void a_document_without_identities_is_refused(void)
{
	static const char *const texts[] = {
		"{\"subsystems\":[{\"namespaces\":[]}]}",
		"{\"subsystems\":[{\"nqn\":\"a\",\"namespaces\":[{}]}]}",
		"{\"ports\":[{\"address\":\"x\"}]}",
	};
	struct store_error error = {""};
	struct store *store;
	json_t *good;

	use_folder("identities");
	store = open_good();
	good = document_make(1, 1);
	keep(store, NULL, good, SOME_DIFF);
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *bad = json_loads(texts[i], 0, NULL);
		struct store_change change = {.before = good, .after = bad, .generation = 9};

		error.text[0] = 0;
		EXPECT_EQ(-EINVAL, store_keep_document(store, &change, &error));
		EXPECT(strstr(error.text, "cannot save the state: Invalid") != NULL);
		json_decref(bad);
	}
	EXPECT_EQ(1, store_generation(store));
	expect_document(store, good);
	store_close(store);
	json_decref(good);
}

static unsigned allocs_left; /* 0: none fails */

static void *malloc_or_not(size_t len_bytes)
{
	return allocs_left > 0 && --allocs_left == 0 ? NULL : malloc(len_bytes);
}

/* Whichever allocation of the JSON library fails: all of the change is kept, or nothing. */
static void a_change_without_memory_keeps_all_or_nothing(void)
{
	json_t *one, *two;
	struct store *store;
	unsigned failures = 0;
	bool was_short = true;

	json_set_alloc_funcs(malloc_or_not, free);
	use_folder("memory");
	store = open_good();
	one = document_make(1, 1);
	two = json_deep_copy(one);
	json_object_set_new(ns_of(two, 0, 0), "labels_that_are_longer_than_any_buffer",
			    json_string("that the JSON library begins with"));
	keep(store, NULL, one, SOME_DIFF);
	for (unsigned n = 1; was_short && n < 2000; n++) {
		struct store_change change = {.before = one,
					      .after = two,
					      .generation = store_generation(store) + 1,
					      .origin = "test",
					      .diff = "+ something\n"};
		struct store_error error = {""};
		int res;

		allocs_left = n;
		res = store_keep_document(store, &change, &error);
		was_short = allocs_left == 0;
		allocs_left = 0;
		expect_document(store, res < 0 ? one : two);
		if (res == 0)
			keep(store, two, one, SOME_DIFF);
		else
			failures++;
	}
	EXPECT(failures > 5 && !was_short);
	store_close(store);
	json_decref(one);
	json_decref(two);
	json_set_alloc_funcs(malloc, free);
}

static void source_and_generation_go_together(void)
{
	struct store_change change = {.generation = 4, .source_hash = "abc", .origin = "x"};
	struct store_error error;
	struct store *store;
	json_t *document = document_make(1, 1);

	use_folder("source");
	store = open_good();
	change.after = document;
	EXPECT_EQ(0, store_keep_document(store, &change, &error));
	keep(store, document, document, SOME_DIFF);
	store_close(store);
	store = open_good();
	EXPECT_EQ(5, store_generation(store));
	EXPECT_STR("abc", store_source_hash(store));
	store_close(store);
	json_decref(document);
}

struct seen {
	unsigned count;
	uint64_t generations[4];
	char origin[256];
};

static void audit_seen(void *arg, const struct store_audit *audit)
{
	struct seen *seen = arg;

	if (seen->count < 4)
		seen->generations[seen->count] = audit->generation;
	EXPECT(audit->time_ms > 1600000000000ull);
	EXPECT_STR("+ something\n", audit->diff);
	snprintf(seen->origin, sizeof(seen->origin), "%s", audit->origin);
	seen->count++;
}

static void every_change_leaves_an_audit_row(void)
{
	struct seen seen = {0};
	struct store *store;
	json_t *document = document_make(1, 1);

	use_folder("audit");
	store = open_good();
	keep(store, NULL, document, SOME_DIFF);
	keep(store, document, document, SOME_DIFF);
	keep(store, document, document, SOME_DIFF);
	EXPECT_EQ(0, store_list_audit(store, 2, audit_seen, &seen));
	EXPECT_EQ(2, seen.count);
	EXPECT_EQ(3, seen.generations[0]);
	EXPECT_EQ(2, seen.generations[1]);
	EXPECT_STR("test", seen.origin);
	store_close(store);
	json_decref(document);
}

static void expect_kept(struct store *store, const char *key, const void *wanted, size_t bytes)
{
	void *value;
	size_t got;

	EXPECT_EQ(0, store_recall(store, "kind", key, &value, &got));
	EXPECT_EQ(bytes, got);
	EXPECT(value && memcmp(value, wanted, bytes) == 0);
	free(value);
}

static void values_are_kept_and_forgotten(void)
{
	static const uint8_t blob[] = {0, 1, 0, 255};
	struct store *store;
	void *value;
	size_t bytes;

	use_folder("kept");
	store = open_good();
	EXPECT_EQ(-ENOENT, store_recall(store, "kind", "key", &value, &bytes));
	EXPECT_EQ(0, store_keep(store, "kind", "key", blob, sizeof(blob)));
	EXPECT_EQ(0, store_keep(store, "kind", "empty", "", 0));
	EXPECT_EQ(0, store_keep(store, "other", "key", "x", 1));
	store_close(store);
	store = open_good();
	expect_kept(store, "key", blob, sizeof(blob));
	expect_kept(store, "empty", "", 0);
	EXPECT_EQ(0, store_keep(store, "kind", "key", "y", 1));
	expect_kept(store, "key", "y", 1);
	EXPECT_EQ(0, store_keep(store, "kind", "key", NULL, 0));
	EXPECT_EQ(0, store_keep(store, "kind", "key", NULL, 0));
	EXPECT_EQ(-ENOENT, store_recall(store, "kind", "key", &value, &bytes));
	EXPECT_EQ(0, store_recall(store, "other", "key", &value, &bytes));
	free(value);
	store_close(store);
}

static void a_batch_is_whole(void)
{
	struct store *store;
	char key[16];

	use_folder("batch");
	store = open_good();
	EXPECT_EQ(0, store_batch_begin(store));
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%u", i);
		EXPECT_EQ(0, store_keep(store, "kind", key, &i, sizeof(i)));
	}
	EXPECT_EQ(0, store_batch_end(store));
	store_close(store);
	store = open_good();
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%u", i);
		expect_kept(store, key, &i, sizeof(i));
	}
	store_close(store);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void make_full_one(void)
{
	json_t *document = document_make(50, 10);
	struct store *store = open_good();

	keep(store, NULL, document, SOME_DIFF);
	store_close(store);
	json_decref(document);
}

static void a_damaged_one_is_told(void)
{
	struct stat info;
	int fd;

	use_folder("garbage");
	make_full_one();
	EXPECT_EQ(0, truncate(path_of(STORE_FILE), 0));
	EXPECT_EQ(-EUCLEAN, open_bad("empty"));
	fd = open(path_of(STORE_FILE), O_WRONLY);
	EXPECT_EQ(4, write(fd, "abcd", 4));
	EXPECT_EQ(-EUCLEAN, open_bad("move the file aside"));
	close(fd);
	EXPECT_EQ(0, stat(path_of(STORE_FILE), &info));
	EXPECT_EQ(4, info.st_size);

	use_folder("truncated");
	make_full_one();
	EXPECT_EQ(0, stat(path_of(STORE_FILE), &info));
	EXPECT_EQ(0, truncate(path_of(STORE_FILE), info.st_size / 2));
	EXPECT_EQ(-EUCLEAN, open_bad("move the file aside"));

	use_folder("overwritten");
	make_full_one();
	fd = open(path_of(STORE_FILE), O_WRONLY);
	for (off_t at = 4096; at < info.st_size; at += 4096)
		EXPECT_EQ(16, pwrite(fd, "garbage garbage!", 16, at));
	close(fd);
	EXPECT_EQ(-EUCLEAN, open_bad("move the file aside"));
}

/* Every page is well-formed and the tables are readable: only the integrity check finds the index
 * whose rows are in another order than its definition. */
static void an_index_that_contradicts_its_table_is_told(void)
{
	use_folder("index");
	make_full_one();
	sql("PRAGMA writable_schema = ON;"
	    "UPDATE sqlite_master SET sql = 'CREATE INDEX object_of ON object(of_key, of_kind)'"
	    " WHERE name = 'object_of'");
	EXPECT_EQ(-EUCLEAN, open_bad("move the file aside"));
}

static void rows_that_make_no_sense_are_told(void)
{
	struct store_error error = {""};
	struct store *store;
	json_t *document;

	use_folder("rows");
	make_full_one();
	sql("UPDATE object SET json = '{\"nsid\"' WHERE kind = 'namespace'");
	store = open_good();
	EXPECT_EQ(-EUCLEAN, store_load_document(store, &document, &error));
	EXPECT(strstr(error.text, "backup") != NULL);
	store_close(store);
	sql("UPDATE meta SET value = 'x' WHERE name = 'id'");
	EXPECT_EQ(-EUCLEAN, open_bad("counters"));
	sql("DROP TABLE kept");
	EXPECT(open_bad("lacks a table") < 0);
}

static void another_version_is_told(void)
{
	use_folder("version");
	make_full_one();
	sql("PRAGMA user_version = 999");
	EXPECT_EQ(-EPROTO, open_bad("newer weft"));
	sql("PRAGMA user_version = 1; PRAGMA application_id = 17");
	EXPECT_EQ(-EUCLEAN, open_bad("not a state store of weft"));
}

static void a_locked_one_is_told(void)
{
	struct store_error error = {""};
	struct store_change change = {.generation = 2};
	json_t *document = document_make(1, 1);
	struct store *store;
	sqlite3 *db;

	use_folder("locked");
	store = open_good();
	keep(store, NULL, document, SOME_DIFF);
	EXPECT_EQ(SQLITE_OK, sqlite3_open(path_of(STORE_FILE), &db));
	EXPECT_EQ(SQLITE_OK, sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
	change.after = document;
	EXPECT_EQ(-EBUSY, store_keep_document(store, &change, &error));
	EXPECT(strstr(error.text, "another program") != NULL);
	EXPECT_EQ(-EBUSY, store_keep(store, "kind", "key", "x", 1));
	EXPECT_EQ(SQLITE_OK, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
	EXPECT_EQ(0, store_keep_document(store, &change, &error));
	sqlite3_close(db);
	store_close(store);
	json_decref(document);
}

static void a_folder_that_is_not_there_is_told(void)
{
	snprintf(dir, sizeof(dir), "%s/nowhere", root);
	EXPECT_EQ(-ENOENT, open_bad("cannot be created"));
}

int main(void)
{
	if (!root_make())
		return 1;
	TAP_RUN(a_new_one_is_private_and_empty);
	TAP_RUN(a_half_made_one_is_made_again);
	TAP_RUN(counters_survive);
	TAP_RUN(documents_come_back_as_they_went_in);
	TAP_RUN(a_change_writes_only_what_differs);
	TAP_RUN(a_document_without_identities_is_refused);
	TAP_RUN(a_change_without_memory_keeps_all_or_nothing);
	TAP_RUN(source_and_generation_go_together);
	TAP_RUN(every_change_leaves_an_audit_row);
	TAP_RUN(values_are_kept_and_forgotten);
	TAP_RUN(a_batch_is_whole);
	TAP_RUN(a_damaged_one_is_told);
	TAP_RUN(an_index_that_contradicts_its_table_is_told);
	TAP_RUN(rows_that_make_no_sense_are_told);
	TAP_RUN(another_version_is_told);
	TAP_RUN(a_locked_one_is_told);
	TAP_RUN(a_folder_that_is_not_there_is_told);
	return root_end();
}
