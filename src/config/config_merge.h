/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rows of the tables need to merge a field of their own (config_merge.c). Private to
 * config/. Control thread only.
 */
#ifndef WEFT_CONFIG_CONFIG_MERGE_H
#define WEFT_CONFIG_CONFIG_MERGE_H

#include "config/config.h"

struct config_merge {
	struct config_errors *errors;
	const json_t *above; /* the object that has the list of the element that is merged */
	bool is_out_of_memory;
};

/* The value replaces the saved one, or is added. */
void config_merge_set(struct config_merge *merge, json_t *saved, const char *key,
		      const json_t *value);
/* Elements that the saved list lacks are added to it; the list is made when there is none. */
void config_merge_unite(struct config_merge *merge, json_t *saved, const char *key,
			const json_t *list);

#endif
