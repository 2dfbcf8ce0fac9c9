/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that is whole or is not there: failures of the allocator are counted, and a text is measured
 * first and then written into a buffer that never grows. Control thread.
 */
#include "config/json_whole.h"

#include <stdlib.h>

static unsigned losses;

static void *malloc_counted(size_t len_bytes)
{
	void *memory = malloc(len_bytes);

	losses += memory == NULL;
	return memory;
}

void json_whole_watch(void)
{
	json_set_alloc_funcs(malloc_counted, free);
}

unsigned json_whole_losses(void)
{
	return losses;
}

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
