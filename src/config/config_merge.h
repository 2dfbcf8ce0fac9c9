/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for fields with their own merge function (config_merge.c). Private to config/. Control
 * thread only.
 */
#ifndef WEFT_CONFIG_CONFIG_MERGE_H
#define WEFT_CONFIG_CONFIG_MERGE_H

#include "config/config.h"

struct config_merge {
	struct config_errors *errors;
	const json_t *above; /* the saved object that holds the list being merged */
	bool is_out_of_memory;
};

/* Replaces or adds the value of `key`. */
void config_merge_set(struct config_merge *merge, json_t *saved, const char *key,
		      const json_t *value);
/* Adds the elements of `list` that the saved list lacks. Creates the saved list when missing. */
void config_merge_unite(struct config_merge *merge, json_t *saved, const char *key,
			const json_t *list);

#endif
