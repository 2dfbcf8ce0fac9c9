/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes JSON completely or not at all. When Jansson runs out of memory it drops members
 * in copies, edits and output, often without an error, so a document would be stored incomplete.
 * Here its allocator counts failures: compare the count before and after making a value that
 * matters. In reading, a string or number whose buffer cannot grow loses characters, or is read
 * past its end. So all JSON of the control plane is read by the functions below.
 *
 * Control thread, the only one that uses JSON.
 */
#ifndef WEFT_CONFIG_JSON_WHOLE_H
#define WEFT_CONFIG_JSON_WHOLE_H

#include <jansson.h>

/* Installs the counting allocator. Call before the first value is made. */
void json_whole_watch(void);
/* The number of failed allocations so far. */
unsigned json_whole_losses(void);

/*
 * Like json_loadb and json_load_callback. Return a new reference, or NULL with an error, also when
 * out of memory. ret_error may be NULL. A callback that fails with (size_t)-1 reports the reason to
 * its own caller.
 */
json_t *json_whole_load(const char *text, size_t len_bytes, size_t flags, json_error_t *ret_error);
json_t *json_whole_read(json_load_callback_t more, void *arg, size_t flags,
			json_error_t *ret_error);
/* The error of a NULL result: -ENOMEM or -EINVAL. */
int json_whole_errno(const json_error_t *error);

/*
 * Like json_dumps, which drops the name of a member when its buffer cannot grow; this returns the
 * whole string, or NULL when out of memory. The caller frees it.
 */
char *json_whole_text(const json_t *value, size_t flags);

#endif
