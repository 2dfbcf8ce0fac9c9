/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way from what lives long to the store of the process, which target/ and ns/ do not know.
 */
#ifndef WEFT_NS_KEEPER_H
#define WEFT_NS_KEEPER_H

#include <stddef.h>

/*
 * Where what must survive is kept: given by control, called on the control reactor, may block. Keys
 * are text, values are the caller's own encoding. 0 or -errno; keep: on return it is on stable
 * storage, or nothing has changed. Without one (tests), nothing survives.
 */
struct keeper {
	/* value NULL: forget. */
	int (*keep)(void *arg, const char *kind, const char *key, const void *value,
		    size_t value_bytes);
	/* -ENOENT: there is none. The caller frees *ret_value. */
	int (*recall)(void *arg, const char *kind, const char *key, void **ret_value,
		      size_t *ret_bytes);
	void *arg;
};

#endif
