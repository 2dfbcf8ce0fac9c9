/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that is whole or is not there. Jansson leaves out what it has no memory for, in copies,
 * edits and texts, and often does not say so: a document would lose a member and be kept like that.
 * Its allocator counts the failures here; whoever makes a value that matters compares before and
 * after. Reading is worse: a text or number whose buffer cannot grow loses characters, or is read
 * past its end, so that all JSON of the control plane is read by the functions below.
 *
 * Control thread, which is the only one with JSON.
 */
#ifndef WEFT_CONFIG_JSON_WHOLE_H
#define WEFT_CONFIG_JSON_WHOLE_H

#include <jansson.h>

/* Before the first value is made; without it nothing is counted. */
void json_whole_watch(void);
/* How many allocations have failed so far. */
unsigned json_whole_losses(void);

/*
 * As json_loadb and json_load_callback: a new reference, or NULL with an error, also when out of
 * memory. ret_error may be NULL. A callback that fails, with (size_t)-1, has told its caller why.
 */
json_t *json_whole_load(const char *text, size_t len_bytes, size_t flags, json_error_t *ret_error);
json_t *json_whole_read(json_load_callback_t more, void *arg, size_t flags,
			json_error_t *ret_error);
/* Of a NULL that they returned: -ENOMEM or -EINVAL. */
int json_whole_errno(const json_error_t *error);

/*
 * As json_dumps, which leaves out the name of a member when its buffer cannot grow: here it is all
 * of the text, or NULL when out of memory. The caller frees it.
 */
char *json_whole_text(const json_t *value, size_t flags);

#endif
