/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that is whole or is not there: failures of the allocator are counted, and a text is measured
 * first and then written into a buffer that never grows. Control thread.
 *
 * While JSON is read, a reserve stands in for the allocator when that fails: Jansson's lexer goes
 * on with the buffer it has when it cannot get a larger one. The reading ends with the piece of
 * input that it has, at most INPUT_BYTES; its result is thrown away, and the reserve is empty
 * again.
 */
#include "config/json_whole.h"

#include "base/check.h"

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES     256 /* an empty array takes two bytes of input and a hundred of memory */
#define RESERVE_ALIGN   16
#define RESERVE_BYTES   (1024 * 1024)
#define RESERVE_ONE_MAX (2 * JSON_WHOLE_TOKEN_MAX + RESERVE_ALIGN) /* the lexer's buffer doubles   \
								    */

static unsigned losses;
static bool is_reading;
static alignas(RESERVE_ALIGN) unsigned char reserve[RESERVE_BYTES];
static size_t reserve_used_bytes;

/* ---- the allocator --------------------------------------------------------------------------- */

static void *reserve_take(size_t len_bytes)
{
	void *memory = &reserve[reserve_used_bytes];

	if (len_bytes > RESERVE_ONE_MAX ||
	    len_bytes + RESERVE_ALIGN > RESERVE_BYTES - reserve_used_bytes)
		return NULL;
	reserve_used_bytes += (len_bytes + RESERVE_ALIGN - 1) / RESERVE_ALIGN * RESERVE_ALIGN;
	return memory;
}

static bool is_of_reserve(const void *memory)
{
	return (uintptr_t)memory - (uintptr_t)reserve < sizeof(reserve);
}

static void *malloc_counted(size_t len_bytes)
{
	void *memory = malloc(len_bytes);

	if (memory)
		return memory;
	losses++;
	return is_reading ? reserve_take(len_bytes) : NULL;
}

static void free_counted(void *memory)
{
	if (!is_of_reserve(memory))
		free(memory);
}

void json_whole_watch(void)
{
	json_set_alloc_funcs(malloc_counted, free_counted);
}

unsigned json_whole_losses(void)
{
	return losses;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct json_reading {
	json_load_callback_t more;
	void *arg;
	unsigned losses; /* when it began */
	size_t token_bytes;
	bool is_in_text;
	bool is_escaped;
	bool is_token_too_long;
};

/* Follows texts and what stands between blanks and punctuation, to know how long they get. */
static void tokens_measure(struct json_reading *reading, const char *piece, size_t len_bytes)
{
	for (size_t i = 0; i < len_bytes; i++) {
		bool is_end = reading->is_in_text
				      ? piece[i] == '"' && !reading->is_escaped
				      : piece[i] == '"' || strchr(" \t\r\n,:[]{}", piece[i]);

		reading->is_escaped =
			reading->is_in_text && piece[i] == '\\' && !reading->is_escaped;
		if (is_end) {
			reading->is_in_text = piece[i] == '"' && !reading->is_in_text;
			reading->token_bytes = 0;
		} else if (++reading->token_bytes > JSON_WHOLE_TOKEN_MAX) {
			reading->is_token_too_long = true;
		}
	}
}

static size_t reading_more(void *buffer, size_t bytes, void *arg)
{
	struct json_reading *reading = arg;
	size_t got;

	if (losses != reading->losses)
		return (size_t)-1;
	got = reading->more(buffer, bytes < INPUT_BYTES ? bytes : INPUT_BYTES, reading->arg);
	if (got == (size_t)-1)
		return got;
	tokens_measure(reading, buffer, got);
	return reading->is_token_too_long ? (size_t)-1 : got;
}

static void error_set(json_error_t *error, enum json_error_code code, const char *text)
{
	memset(error->text, 0, sizeof(error->text));
	memcpy(error->text, text, strlen(text));
	/* Where json_error_code finds it. */
	error->text[sizeof(error->text) - 1] = (char)code;
}

json_t *json_whole_read(json_load_callback_t more, void *arg, size_t flags, json_error_t *ret_error)
{
	struct json_reading reading = {.more = more, .arg = arg, .losses = losses};
	json_error_t error;
	json_t *json;

	CHECK(!is_reading);
	is_reading = true;
	json = json_load_callback(reading_more, &reading, flags, ret_error ? ret_error : &error);
	if (losses != reading.losses) {
		json_decref(json);
		json = NULL;
	}
	is_reading = false;
	reserve_used_bytes = 0;
	if (ret_error && losses != reading.losses)
		error_set(ret_error, json_error_out_of_memory, "out of memory");
	else if (ret_error && reading.is_token_too_long)
		error_set(ret_error, json_error_invalid_syntax,
			  "a text or number has more than 65536 bytes");
	return json;
}

struct text_left {
	const char *at;
	size_t bytes;
};

static size_t text_more(void *buffer, size_t bytes, void *arg)
{
	struct text_left *left = arg;

	if (bytes > left->bytes)
		bytes = left->bytes;
	memcpy(buffer, left->at, bytes);
	left->at += bytes;
	left->bytes -= bytes;
	return bytes;
}

json_t *json_whole_load(const char *text, size_t len_bytes, size_t flags, json_error_t *ret_error)
{
	struct text_left left = {.at = text, .bytes = len_bytes};

	return json_whole_read(text_more, &left, flags, ret_error);
}

int json_whole_errno(const json_error_t *error)
{
	return json_error_code(error) == json_error_out_of_memory ? -ENOMEM : -EINVAL;
}

/* ---- writing --------------------------------------------------------------------------------- */

char *json_whole_text(const json_t *value, size_t flags)
{
	size_t len = json_dumpb(value, NULL, 0, flags);
	char *text = len > 0 ? malloc(len + 1) : NULL;

	if (!text)
		return NULL;
	if (json_dumpb(value, text, len, flags) != len) {
		free(text);
		return NULL;
	}
	text[len] = 0;
	return text;
}
