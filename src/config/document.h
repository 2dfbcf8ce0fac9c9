/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding things in a document that is JSON still: elements of its lists by what names them, and
 * free numbers. For edits, which are checked as a whole afterwards (config_load_json).
 *
 * Control thread only. What is returned is borrowed from the document.
 */
#ifndef WEFT_CONFIG_DOCUMENT_H
#define WEFT_CONFIG_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The string of a key; "" when there is none. */
const char *document_text(const json_t *object, const char *key);
/* The list of a key, which is made when there is none; NULL when out of memory. */
json_t *document_list(json_t *object, const char *key);

/* NULL and SIZE_MAX when there is none. ret_index may be NULL. */
json_t *document_find_text(const json_t *list, const char *key, const char *text,
			   size_t *ret_index);
json_t *document_find_number(const json_t *list, const char *key, json_int_t number,
			     size_t *ret_index);
json_t *document_subsystem(const json_t *document, const char *nqn, size_t *ret_index);
json_t *document_ns(const json_t *subsystem, json_int_t nsid, size_t *ret_index);
json_t *document_port(const json_t *document, json_int_t id, size_t *ret_index);

/* Where a list of strings has this one; SIZE_MAX: nowhere. */
size_t document_index_of(const json_t *list, const char *text);
bool document_list_has(const json_t *list, const json_t *value);
/* The lowest number from 1 on that no element of the list has under the key. */
json_int_t document_number_free(const json_t *list, const char *key);

#endif
