/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict readers of JSON values that track their place in the document. Control thread only;
 * private to the control plane.
 */
#ifndef WEFT_CONFIG_CONFIG_JSON_H
#define WEFT_CONFIG_CONFIG_JSON_H

#include "config/config.h"

#include <jansson.h>

/* The reader's place in the document as a path: "subsystems[0].namespaces[1]". */
struct config_cursor {
	struct config_errors *errors;
	char path[192];
	bool lacks_memory; /* an error was caused by lack of memory, not by the document */
};

/* Goes one level down. Pass the result to config_cursor_leave. index SIZE_MAX: no index. */
size_t config_cursor_enter(struct config_cursor *at, const char *key, size_t index);
void config_cursor_leave(struct config_cursor *at, size_t mark);

/* Adds an error at the cursor, or at `key` below it. */
void config_complain(struct config_cursor *at, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds an error for lack of memory, and sets lacks_memory. */
void config_complain_memory(struct config_cursor *at, const char *key);

/* False, with errors, unless `object` is an object with no keys other than `keys`. */
bool config_object_check(struct config_cursor *at, const json_t *object, const char *const *keys,
			 size_t key_count);

/* Return false and leave *ret_value unchanged when the key is absent or its value is wrong. Only a
 * wrong value adds an error. */
bool config_get_text(struct config_cursor *at, const json_t *object, const char *key,
		     const char **ret_value);
bool config_get_bool(struct config_cursor *at, const json_t *object, const char *key,
		     bool *ret_value);
bool config_get_u32(struct config_cursor *at, const json_t *object, const char *key, uint32_t min,
		    uint32_t max, uint32_t *ret_value);
/* Allows at most max_count elements. */
bool config_get_array(struct config_cursor *at, const json_t *object, const char *key,
		      size_t max_count, const json_t **ret_array);
/* Elements must be valid, distinct NQNs; others add an error and are left out. The caller frees
 * *ret_names. */
bool config_get_nqns(struct config_cursor *at, const json_t *object, const char *key,
		     size_t max_count, char (**ret_names)[NVME_NQN_BYTES], unsigned *ret_count);
/* Whether an NQN may name a subsystem or a host; false with an error. */
bool config_nqn_check(struct config_cursor *at, const char *key, const char *nqn);

#endif
