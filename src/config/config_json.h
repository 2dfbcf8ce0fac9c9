/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict readers of JSON values that know where in the document they are. Control thread only;
 * private to the control plane.
 */
#ifndef WEFT_CONFIG_CONFIG_JSON_H
#define WEFT_CONFIG_CONFIG_JSON_H

#include "config/config.h"

#include <jansson.h>

/* Where the reader stands, as text: "subsystems[0].namespaces[1]". */
struct config_cursor {
	struct config_errors *errors;
	char path[192];
	bool lacks_memory; /* an error is the lack of it, not the document's */
};

/* Goes one step down; the result is given to config_cursor_leave. Index: SIZE_MAX for none. */
size_t config_cursor_enter(struct config_cursor *at, const char *key, size_t index);
void config_cursor_leave(struct config_cursor *at, size_t mark);

/* An error at the cursor, or at a key below it. */
void config_complain(struct config_cursor *at, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same for lack of memory. */
void config_complain_memory(struct config_cursor *at, const char *key);

/* False, with an error, unless `object` is an object with no other keys than these. */
bool config_object_check(struct config_cursor *at, const json_t *object, const char *const *keys,
			 size_t key_count);

/* Each leaves *ret_value alone and returns false when the key is absent or wrong; wrong values
 * leave an error, absent ones do not. */
bool config_get_text(struct config_cursor *at, const json_t *object, const char *key,
		     const char **ret_value);
bool config_get_bool(struct config_cursor *at, const json_t *object, const char *key,
		     bool *ret_value);
bool config_get_u32(struct config_cursor *at, const json_t *object, const char *key, uint32_t min,
		    uint32_t max, uint32_t *ret_value);
/* At most max_count elements. */
bool config_get_array(struct config_cursor *at, const json_t *object, const char *key,
		      size_t max_count, const json_t **ret_array);
/* Elements must be well-formed, distinct NQNs; bad ones are left out. Allocates *ret_names. */
bool config_get_nqns(struct config_cursor *at, const json_t *object, const char *key,
		     size_t max_count, char (**ret_names)[NVME_NQN_BYTES], unsigned *ret_count);
/* An NQN that may name a subsystem or a host. */
bool config_nqn_check(struct config_cursor *at, const char *key, const char *nqn);

#endif
