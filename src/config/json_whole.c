/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON is read and written completely or not at all. Failed allocations are counted. A string is
 * measured first, then written into a buffer that never grows. Control thread.
 *
 * While JSON is read, a reserve replaces the allocator when that fails, because Jansson's lexer
 * keeps using its old buffer when it cannot get a larger one. After a failure, reading ends with
 * the current piece of input, at most INPUT_BYTES. The result is discarded and the reserve is
 * emptied.
 */
#include "config/json_whole.h"

#include "base/check.h"

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES     256   /* "[]" takes 100 bytes of memory */
#define READ_BYTES      16384 /* size of the first buffer for a stream */
#define TOKEN_BYTES     65536 /* a longer string or number gets a reserve of its own */
#define RESERVE_ALIGN   16
#define RESERVE_BYTES   (1024 * 1024)
#define RESERVE_ONE_MAX (2 * TOKEN_BYTES + RESERVE_ALIGN) /* the lexer's buffer doubles */

static unsigned losses;
static bool is_reading;
static alignas(RESERVE_ALIGN) unsigned char reserve[RESERVE_BYTES];
static size_t reserve_used_bytes;
/* For the one buffer that is larger than RESERVE_ONE_MAX; NULL: no token is that long. */
static unsigned char *long_reserve;
static size_t long_reserve_bytes; /* 0: none, or in use */

/* ---- the allocator --------------------------------------------------------------------------- */

static void *reserve_take(size_t len_bytes)
{
	void *memory = &reserve[reserve_used_bytes];

	if (len_bytes > RESERVE_ONE_MAX) {
		memory = len_bytes <= long_reserve_bytes ? long_reserve : NULL;
		long_reserve_bytes = 0;
		return memory;
	}
	if (len_bytes + RESERVE_ALIGN > RESERVE_BYTES - reserve_used_bytes)
		return NULL;
	reserve_used_bytes += (len_bytes + RESERVE_ALIGN - 1) / RESERVE_ALIGN * RESERVE_ALIGN;
	return memory;
}

static bool is_of_reserve(const void *memory)
{
	return (uintptr_t)memory - (uintptr_t)reserve < sizeof(reserve) ||
	       (memory && memory == long_reserve);
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

/* Length of the longest string, number or invalid token. */
static size_t longest_token_bytes(const char *text, size_t len_bytes)
{
	bool is_in_text = false, is_escaped = false;
	size_t longest = 0, token = 0;

	for (size_t i = 0; i < len_bytes; i++) {
		bool is_end = is_in_text ? text[i] == '"' && !is_escaped
					 : strchr("\" \t\r\n,:[]{}", text[i]) != NULL;

		is_escaped = is_in_text && text[i] == '\\' && !is_escaped;
		if (is_end) {
			is_in_text = text[i] == '"' && !is_in_text;
			token = 0;
		} else if (++token > longest) {
			longest = token;
		}
	}
	return longest;
}

struct json_input {
	const char *at;
	size_t left_bytes;
	unsigned losses; /* the count when reading began */
};

static size_t input_more(void *buffer, size_t bytes, void *arg)
{
	struct json_input *input = arg;

	if (losses != input->losses)
		return (size_t)-1;
	if (bytes > INPUT_BYTES)
		bytes = INPUT_BYTES;
	if (bytes > input->left_bytes)
		bytes = input->left_bytes;
	memcpy(buffer, input->at, bytes);
	input->at += bytes;
	input->left_bytes -= bytes;
	return bytes;
}

static void error_out_of_memory(json_error_t *error)
{
	static const char text[] = "out of memory";

	if (!error)
		return;
	memset(error, 0, sizeof(*error));
	memcpy(error->text, text, sizeof(text));
	/* json_error_code reads the code from this byte. */
	error->text[sizeof(error->text) - 1] = (char)json_error_out_of_memory;
}

static bool reserve_open(size_t token_bytes)
{
	if (token_bytes > TOKEN_BYTES) {
		long_reserve_bytes = 2 * token_bytes + RESERVE_ALIGN;
		long_reserve = malloc(long_reserve_bytes);
		if (!long_reserve) {
			losses++;
			return false;
		}
	}
	is_reading = true;
	return true;
}

static void reserve_close(void)
{
	is_reading = false;
	reserve_used_bytes = 0;
	free(long_reserve);
	long_reserve = NULL;
	long_reserve_bytes = 0;
}

json_t *json_whole_load(const char *text, size_t len_bytes, size_t flags, json_error_t *ret_error)
{
	struct json_input input = {.at = text, .left_bytes = len_bytes, .losses = losses};
	json_t *json;

	CHECK(!is_reading);
	if (!reserve_open(longest_token_bytes(text, len_bytes))) {
		reserve_close();
		error_out_of_memory(ret_error);
		return NULL;
	}
	json = json_load_callback(input_more, &input, flags, ret_error);
	if (losses != input.losses) {
		json_decref(json);
		json = NULL;
		error_out_of_memory(ret_error);
	}
	reserve_close();
	return json;
}

/* Reads the whole stream. NULL: out of memory, or the callback failed. The caller frees the
 * result. */
static char *stream_read(json_load_callback_t more, void *arg, size_t *ret_bytes)
{
	size_t room = READ_BYTES, used = 0, got;
	char *text = malloc(room);

	while (text && (got = more(text + used, room - used, arg)) > 0) {
		char *larger = text;

		if (got != (size_t)-1) {
			used += got;
			larger = used == room ? realloc(text, room * 2) : text;
		}
		if (got == (size_t)-1 || !larger) {
			free(text);
			return NULL;
		}
		room *= used == room ? 2 : 1;
		text = larger;
	}
	*ret_bytes = used;
	return text;
}

json_t *json_whole_read(json_load_callback_t more, void *arg, size_t flags, json_error_t *ret_error)
{
	size_t len_bytes = 0;
	char *text = stream_read(more, arg, &len_bytes);
	json_t *json;

	if (!text) {
		error_out_of_memory(ret_error);
		return NULL;
	}
	json = json_whole_load(text, len_bytes, flags, ret_error);
	free(text);
	return json;
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
