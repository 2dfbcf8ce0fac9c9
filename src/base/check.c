/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a process whose invariant broke: one line on standard error, then abort().
 *
 * Any thread, any state: nothing here allocates, locks or uses stdio, because the heap or a lock
 * may be what is broken.
 */
#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void (*_Atomic check_last_words)(void);

struct check_text {
	char bytes[512];
	size_t len_bytes;
};

static void check_text_add(struct check_text *text, const char *more)
{
	/* Keeps one byte for the newline. */
	size_t room = sizeof(text->bytes) - 1 - text->len_bytes;
	size_t len = strlen(more);

	if (len > room)
		len = room;
	memcpy(text->bytes + text->len_bytes, more, len);
	text->len_bytes += len;
}

static const char *check_number(int number, char digits[12])
{
	char *at = digits + 11;
	unsigned rest = number < 0 ? 0 : (unsigned)number;

	*at = 0;
	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	return at;
}

void check_set_last_words(void (*fn)(void))
{
	atomic_store(&check_last_words, fn);
}

_Noreturn void check_failed(const char *file, int line, const char *what)
{
	/* Called once: a CHECK that fails inside last_words, or meanwhile in another thread, only
	 * prints and aborts. */
	void (*last_words)(void) = atomic_exchange(&check_last_words, NULL);
	struct check_text text = {.len_bytes = 0};
	char digits[12];

	if (last_words)
		last_words();
	check_text_add(&text, file);
	check_text_add(&text, ":");
	check_text_add(&text, check_number(line, digits));
	check_text_add(&text, ": check failed: ");
	check_text_add(&text, what);
	text.bytes[text.len_bytes++] = '\n';
	if (write(STDERR_FILENO, text.bytes, text.len_bytes) < 0)
		abort();
	abort();
}
