/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface through which target/ and ns/ keep long-lived state in the state store, without
 * knowing the store.
 */
#ifndef WEFT_NS_KEEPER_H
#define WEFT_NS_KEEPER_H

#include <stddef.h>

/*
 * Supplied by control; called on the control reactor; may block. Keys are strings, values have the
 * caller's encoding. Both return 0 or -errno. After keep returns 0 the value is durable; after an
 * error nothing has changed. Without a keeper (tests), nothing survives the process.
 */
struct keeper {
	/* value NULL: deletes the entry. */
	int (*keep)(void *arg, const char *kind, const char *key, const void *value,
		    size_t value_bytes);
	/* -ENOENT: no such entry. The caller frees *ret_value. */
	int (*recall)(void *arg, const char *kind, const char *key, void **ret_value,
		      size_t *ret_bytes);
	void *arg;
};

#endif
