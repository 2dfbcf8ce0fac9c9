/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Former generations in the store: each can be read as it was, whatever rows were added, changed
 * and removed since; the oldest are forgotten by count and by bytes; a store of version 1 is
 * migrated and its state starts the history; a copy of the store is a store.
 */
#include "store_world.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct store *open_in(const char *name)
{
	snprintf(dir, sizeof(dir), "%s/%s", root, name);
	mkdir(dir, 0700);
	return open_good();
}

/* The bits of `number` select the subsystems, and `number` is in their content. */
static json_t *document_of(unsigned number, size_t text_bytes)
{
	json_t *document =
		json_pack("{s:i,s:{s:i},s:[],s:[{s:i,s:i}]}", "version", 1, "limits", "x",
			  (int)number / 3, "subsystems", "ports", "id", 1, "ana", (int)number);
	char *text = calloc(1, text_bytes + 1);
	char nqn[32];

	memset(text, 'x', text_bytes);
	for (unsigned i = 0; i < 4; i++) {
		if (!(number >> i & 1))
			continue;
		snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.weft:%u", i);
		json_array_append_new(json_object_get(document, "subsystems"),
				      json_pack("{s:s,s:i,s:[{s:i,s:s},{s:i,s:i}]}", "nqn", nqn,
						"model", (int)number / 5, "namespaces", "nsid", 1,
						"media", text, "nsid", 2, "group", (int)number));
	}
	free(text);
	return document;
}

static void expect_generation(struct store *store, uint64_t generation, const json_t *wanted)
{
	struct store_error error = {""};
	json_t *document = NULL;
	char *folder = NULL;

	EXPECT_EQ(0, store_load_generation(store, generation, &document, &folder, &error));
	EXPECT_STR("", error.text);
	EXPECT(json_equal((json_t *)wanted, document));
	EXPECT(folder && folder[0] == '/');
	json_decref(document);
	free(folder);
}

static void expect_none(struct store *store, uint64_t generation)
{
	struct store_error error = {""};
	json_t *document = NULL;
	char *folder = NULL;

	EXPECT_EQ(-ENOENT, store_load_generation(store, generation, &document, &folder, &error));
	EXPECT(strstr(error.text, "weft ctl history") != NULL);
}

struct listed {
	unsigned count;
	uint64_t newest, oldest;
	char diff[64];
};

static void on_listed(void *arg, const struct store_generation *generation)
{
	struct listed *listed = arg;

	if (listed->count++ == 0) {
		listed->newest = generation->generation;
		snprintf(listed->diff, sizeof(listed->diff), "%s", generation->diff);
		EXPECT_STR("test", generation->origin);
		EXPECT(generation->time_ms > 1600000000000ull);
	} else {
		EXPECT(generation->generation < listed->oldest);
	}
	listed->oldest = generation->generation;
}

static struct listed list(struct store *store)
{
	struct listed listed = {0};

	EXPECT_EQ(0, store_list_history(store, on_listed, &listed));
	return listed;
}

/* Some more than are kept, with the store closed and opened in between. */
static void every_generation_that_is_kept_comes_back(void)
{
	enum {
		COUNT = STORE_HISTORY_MAX + 9
	};
	struct store *store = open_in("all");
	json_t *documents[COUNT + 1] = {NULL};
	struct listed listed;
	char diff[32];

	for (unsigned i = 1; i <= COUNT; i++) {
		documents[i] = document_of(i * 7 % 16, 10);
		snprintf(diff, sizeof(diff), "~ number %u\n", i);
		keep(store, documents[i - 1], documents[i], diff);
	}
	store_close(store);
	store = open_in("all");
	listed = list(store);
	EXPECT_EQ(COUNT, listed.newest);
	EXPECT_EQ(COUNT - STORE_HISTORY_MAX, listed.oldest);
	EXPECT_EQ(STORE_HISTORY_MAX + 1, listed.count);
	EXPECT_STR(diff, listed.diff);
	for (unsigned i = COUNT - STORE_HISTORY_MAX; i <= COUNT; i++)
		expect_generation(store, i, documents[i]);
	expect_none(store, COUNT - STORE_HISTORY_MAX - 1);
	expect_none(store, COUNT + 1);
	store_close(store);
	/* No rows of the forgotten generations are left. */
	EXPECT_EQ(SQLITE_OK,
		  sql_in(STORE_FILE, "SELECT CASE WHEN (SELECT min(generation) FROM undo)"
				     " <= 9 THEN abs(-9223372036854775808) END"));
	for (unsigned i = 1; i <= COUNT; i++)
		json_decref(documents[i]);
}

/* Each change takes the length of the text in the history. The newest is kept regardless. */
static void large_ones_are_forgotten_earlier(void)
{
	size_t text_bytes = (size_t)STORE_HISTORY_BYTES_MAX / 4;
	struct store *store = open_in("large");
	json_t *before = NULL, *documents[8];
	struct listed listed;

	for (unsigned i = 0; i < 8; i++) {
		documents[i] = document_of(1, i == 7 ? text_bytes * 5 : text_bytes + i);
		keep(store, before, documents[i], "");
		before = documents[i];
	}
	listed = list(store);
	EXPECT(listed.count >= 4 && listed.count <= 6);
	for (uint64_t g = listed.oldest; g <= 8; g++)
		expect_generation(store, g, documents[g - 1]);
	/* Going back from here needs the 40 MiB of the former document. */
	keep(store, before, documents[0], "");
	EXPECT_EQ(2, list(store).count);
	expect_generation(store, 8, documents[7]);
	store_close(store);
	for (unsigned i = 0; i < 8; i++)
		json_decref(documents[i]);
}

/* The limit in bytes counts names too: rows that only record a new object have no document. */
static void every_byte_of_an_undo_row_counts(void)
{
	json_t *a = document_of(1, 10), *b = document_of(6, 10);
	struct store *store = open_in("bytes");

	keep(store, NULL, a, "");
	keep(store, a, b, "");
	store_close(store);
	EXPECT_EQ(SQLITE_OK,
		  sql_in(STORE_FILE, "SELECT CASE WHEN undo_bytes IS NOT (SELECT sum("
				     "length(kind) + length(key) +"
				     " ifnull(length(of_key), 0) + ifnull(length(json), 0))"
				     " FROM undo WHERE generation = 2)"
				     " THEN abs(-9223372036854775807 - 1) END"
				     " FROM history WHERE generation = 2"));
	json_decref(a);
	json_decref(b);
}

static void the_same_generation_again_adds_nothing(void)
{
	struct store *store = open_in("same");
	json_t *a = document_of(1, 10), *b = document_of(2, 10);
	struct store_change change = {
		.before = b, .after = b, .generation = 2, .source_hash = "other", .origin = "x"};
	struct store_error error;

	keep(store, NULL, a, "");
	keep(store, a, b, "first\n");
	EXPECT_EQ(0, store_keep_document(store, &change, &error));
	EXPECT_EQ(2, list(store).count);
	EXPECT_STR("first\n", list(store).diff);
	EXPECT_STR("other", store_source_hash(store));
	expect_generation(store, 1, a);
	store_close(store);
	json_decref(a);
	json_decref(b);
}

/* As version 1 left it: without the tables of the history. */
static void a_store_of_version_1_is_migrated(void)
{
	struct store *store = open_in("old");
	json_t *a = document_of(5, 10), *b = document_of(6, 10);
	struct listed listed;

	keep(store, NULL, a, "+ old\n");
	store_close(store);
	EXPECT_EQ(SQLITE_OK, sql_in(STORE_FILE, "DROP TABLE history; DROP TABLE undo;"
						"PRAGMA user_version = 1"));
	store = open_in("old");
	listed = list(store);
	EXPECT_EQ(1, listed.count);
	EXPECT_EQ(1, listed.newest);
	EXPECT_STR("+ old\n", listed.diff);
	keep(store, a, b, "");
	expect_generation(store, 1, a);
	expect_generation(store, 2, b);
	store_close(store);
	/* A store that never kept a state has no history. */
	store_close(open_in("old-empty"));
	EXPECT_EQ(SQLITE_OK, sql_in(STORE_FILE, "DROP TABLE history; DROP TABLE undo;"
						"PRAGMA user_version = 1"));
	store = open_in("old-empty");
	EXPECT_EQ(0, list(store).count);
	keep(store, NULL, a, "");
	EXPECT_EQ(1, list(store).count);
	store_close(store);
	json_decref(a);
	json_decref(b);
}

static void a_copy_is_a_store(void)
{
	struct store *store = open_in("copied");
	json_t *a = document_of(5, 10), *b = document_of(6, 10), *document;
	struct store_error error = {""};
	char path[256], from[256];
	struct stat info;

	keep(store, NULL, a, "");
	keep(store, a, b, "");
	EXPECT_EQ(0, store_keep(store, "kind", "key", "value", 5));
	snprintf(from, sizeof(from), "%s/copy", dir);
	EXPECT_EQ(0, store_copy(store, from, &error));
	EXPECT_EQ(0, stat(from, &info));
	EXPECT_EQ(0600, info.st_mode & 0777);
	/* Over the remains of a failed attempt, and over a former copy. */
	EXPECT_EQ(0, store_copy(store, from, &error));
	store_close(store);
	store_close(open_in("copy"));
	snprintf(path, sizeof(path), "%s/copy/%s", root, STORE_FILE);
	EXPECT_EQ(0, rename(from, path));
	store = open_in("copy");
	EXPECT_EQ(2, store_generation(store));
	EXPECT_EQ(0, store_load_document(store, &document, &error));
	EXPECT(json_equal(document, b));
	expect_generation(store, 1, a);
	json_decref(document);
	EXPECT(store_copy(store, "/nowhere/copy", &error) < 0);
	store_close(store);
	json_decref(a);
	json_decref(b);
}

#define HOST STORE_ORIGIN_HOST "nqn.2014-08.org.example:h"

static void on_counted(void *arg, const struct store_generation *generation)
{
	unsigned *counts = arg;

	counts[strncmp(generation->origin, STORE_ORIGIN_HOST, strlen(STORE_ORIGIN_HOST)) == 0]++;
}

/* Checks the byte counts in the history, as another program. */
static void expect_bytes_true(void)
{
	EXPECT_EQ(SQLITE_OK,
		  sql_in(STORE_FILE, "SELECT CASE WHEN (SELECT sum(undo_bytes) FROM history)"
				     " IS NOT (SELECT sum(length(kind) + length(key) +"
				     " ifnull(length(of_key), 0) + ifnull(length(json), 0))"
				     " FROM undo) THEN abs(-9223372036854775807 - 1) END"));
}

/* A host changes something all day; the operator now and then. */
static void hosts_do_not_push_out_what_the_operator_did(void)
{
	enum {
		COUNT = 5 * STORE_HISTORY_MAX,
		EVERY = 25,
	};
	struct store *store = open_in("hosts");
	json_t *documents[COUNT + 1] = {NULL};
	unsigned counts[2] = {0};

	for (unsigned i = 1; i <= COUNT; i++) {
		documents[i] = document_of(i * 7 % 16, 10);
		keep_by(store, i % EVERY == 1 ? "rest" : HOST, documents[i - 1], documents[i]);
	}
	for (unsigned i = 1; i <= COUNT; i += EVERY)
		expect_generation(store, i, documents[i]);
	for (unsigned i = COUNT - STORE_HISTORY_MAX; i <= COUNT; i++)
		expect_generation(store, i, documents[i]);
	expect_none(store, 2);
	EXPECT_EQ(0, store_list_history(store, on_counted, counts));
	EXPECT_EQ((COUNT + EVERY - 1) / EVERY, counts[0]);
	EXPECT_EQ(STORE_HISTORY_MAX + 1, counts[1]);
	store_close(store);
	expect_bytes_true();
	for (unsigned i = 1; i <= COUNT; i++)
		json_decref(documents[i]);
}

static json_t *document_with_ns(const char *uuid, const char *label)
{
	return json_pack("{s:i,s:[],s:[{s:s,s:[{s:i,s:s,s:s,s:s}]}]}", "version", 1, "ports",
			 "subsystems", "nqn", "nqn.2026-11.io.weft:a", "namespaces", "nsid", 1,
			 "uuid", uuid, "media", "file:/a", "label", label);
}

static void on_former(void *arg, const json_t *ns)
{
	const char *uuid = json_string_value(json_object_get(ns, "uuid"));
	unsigned *counts = arg;

	for (unsigned i = 0; i < 3; i++)
		counts[i] += strcmp(uuid, (const char *[]){"first", "guest", "last"}[i]) == 0;
}

/* Folded generations still record who had a file in between; labels take no room. */
static void folding_forgets_no_owner_of_a_file(void)
{
	struct store *store = open_in("owners");
	json_t *before = document_with_ns("first", "");
	unsigned counts[3] = {0};

	keep_by(store, "rest", NULL, before);
	for (unsigned i = 0; i < 4 * STORE_HISTORY_MAX; i++) {
		char label[16];
		json_t *after;

		snprintf(label, sizeof(label), "%u", i);
		after = document_with_ns(i == 9 ? "guest" : i < 9 ? "first" : "last", label);
		keep_by(store, HOST, before, after);
		json_decref(before);
		before = after;
	}
	EXPECT_EQ(0, store_each_former_ns(store, 1, on_former, counts));
	EXPECT_EQ(1, counts[0]);
	EXPECT_EQ(1, counts[1]);
	EXPECT(counts[2] >= STORE_HISTORY_MAX && counts[2] <= STORE_HISTORY_MAX + 1);
	json_decref(before);
	before = document_with_ns("first", "");
	expect_generation(store, 1, before);
	json_decref(before);
	store_close(store);
	expect_bytes_true();
}

static void on_audited(void *arg, const struct store_audit *audit)
{
	unsigned *counts = arg;

	counts[0] += strcmp(audit->origin, "rest") == 0;
	counts[1] += strcmp(audit->origin, HOST) == 0;
	counts[2] += strcmp(audit->origin, STORE_ORIGIN_HOST "other") == 0;
}

static void hosts_do_not_push_out_the_audit(void)
{
	struct store *store = open_in("audit");
	json_t *a = document_of(1, 10);
	unsigned counts[3] = {0};

	keep_by(store, "rest", NULL, a);
	keep_by(store, STORE_ORIGIN_HOST "other", a, a);
	store_close(store);
	EXPECT_EQ(
		SQLITE_OK,
		sql_in(STORE_FILE,
		       "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 20000)"
		       " INSERT INTO audit(time_ms, generation, origin, diff) SELECT 1, 1, '" HOST
		       "', 'x' FROM n"));
	store = open_in("audit");
	for (unsigned i = 0; i < STORE_AUDIT_TRIM_EVERY; i++)
		keep_by(store, HOST, a, a);
	EXPECT_EQ(0, store_list_audit(store, 100000, on_audited, counts));
	EXPECT_EQ(1, counts[0]);
	EXPECT_EQ(1, counts[2]);
	EXPECT(counts[1] >= STORE_AUDIT_ONE_MAX &&
	       counts[1] < STORE_AUDIT_ONE_MAX + STORE_AUDIT_TRIM_EVERY);
	store_close(store);
	json_decref(a);
}

int main(void)
{
	if (!root_make())
		return 1;
	TAP_RUN(every_generation_that_is_kept_comes_back);
	TAP_RUN(large_ones_are_forgotten_earlier);
	TAP_RUN(hosts_do_not_push_out_what_the_operator_did);
	TAP_RUN(folding_forgets_no_owner_of_a_file);
	TAP_RUN(hosts_do_not_push_out_the_audit);
	TAP_RUN(every_byte_of_an_undo_row_counts);
	TAP_RUN(the_same_generation_again_adds_nothing);
	TAP_RUN(a_store_of_version_1_is_migrated);
	TAP_RUN(a_copy_is_a_store);
	return root_end();
}
