/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON is read while the Nth allocation fails, for N = 1, 2, … until none does. Either the whole
 * value is returned, or the error reports lack of memory; a value never lacks characters, and
 * nothing leaks. One thread.
 */
#include "alloc_wrap.h"
#include "tap.h"

#include "base/check.h"
#include "config/json_whole.h"

#include <errno.h>
#include <string.h>

#define ALLOCATIONS_MAX 3000
#define LONG_BYTES      60000

/* Returns a new reference, or NULL. */
static json_t *read_with_nth_failing(const char *text, unsigned n, json_error_t *error)
{
	json_t *json;

	alloc_wrap_begin(n);
	json = json_whole_load(text, strlen(text), JSON_REJECT_DUPLICATES, error);
	alloc_wrap_fail(0);
	return json;
}

static void read_whole_or_not(const char *text)
{
	json_t *whole = json_loads(text, 0, NULL);
	unsigned refused = 0, n = 0;
	bool has_failed = true;

	CHECK(whole != NULL);
	while (has_failed && n < ALLOCATIONS_MAX) {
		unsigned losses = json_whole_losses();
		json_error_t error;
		json_t *json = read_with_nth_failing(text, ++n, &error);

		has_failed = alloc_wrap_has_failed();
		EXPECT_EQ(has_failed ? losses + 1 : losses, json_whole_losses());
		EXPECT_THAT(has_failed ? !json : json_equal(json, whole), "allocation %u of %.40s",
			    n, text);
		if (!json) {
			EXPECT_EQ(-ENOMEM, json_whole_errno(&error));
			EXPECT_STR("out of memory", error.text);
		}
		refused += !json;
		json_decref(json);
		EXPECT_EQ(0, alloc_wrap_end("reading"));
	}
	printf("# %u allocations\n", refused);
	EXPECT(refused >= 4 && refused + 1 == n);
	json_decref(whole);
}

static void values_of_all_kinds(void)
{
	read_whole_or_not(
		"{\"a\": [1, -2.5e10, true, null, \"x\"], \"b\": {\"c\": {\"d\": [[], {}]}}}");
}

/* Longer than the lexer's initial sixteen bytes. */
static void long_texts_and_numbers(void)
{
	read_whole_or_not("{\"a name of more than sixteen bytes\": "
			  "\"nqn.2014-08.org.nvmexpress:uuid:11111111-2222\"}");
	read_whole_or_not("[123456789012345678, 0.12345678901234567890123456789]");
	read_whole_or_not(
		"[\"a text with \\\" in it, \\\\\", \"and \\u00e9\\u00e9\\u00e9\\u00e9\"]");
}

static void very_long_text(void)
{
	static char text[LONG_BYTES + 16];

	memset(text, 'x', sizeof(text));
	memcpy(text, "[\"", 2);
	memcpy(text + LONG_BYTES, "\", 1]", sizeof("\", 1]"));
	read_whole_or_not(text);
}

static void deep_arrays(void)
{
	static char text[2 * 1000 + 1];

	memset(text, '[', 1000);
	memset(text + 1000, ']', 1000);
	read_whole_or_not(text);
}

/* Longer than the static reserve. */
static void endless_text_and_number(void)
{
	static char text[300000 + 16];

	memset(text, 'x', sizeof(text));
	memcpy(text, "[\"", 2);
	memcpy(text + 300000, "\", 1]", sizeof("\", 1]"));
	read_whole_or_not(text);
	memset(text, '1', sizeof(text));
	memcpy(text, "[0.", 3);
	memcpy(text + 300000, ", 1]", sizeof(", 1]"));
	read_whole_or_not(text);
}

static void errors_have_their_place(void)
{
	json_error_t error;

	EXPECT(!json_whole_load("{\n \"a\": }", 10, 0, &error));
	EXPECT_EQ(2, error.line);
	EXPECT_EQ(-EINVAL, json_whole_errno(&error));
}

int main(void)
{
	json_whole_watch();
	TAP_RUN(values_of_all_kinds);
	TAP_RUN(long_texts_and_numbers);
	TAP_RUN(very_long_text);
	TAP_RUN(deep_arrays);
	TAP_RUN(endless_text_and_number);
	TAP_RUN(errors_have_their_place);
	return tap_end();
}
