/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds elements of lists by name, and free numbers, in a document that is still JSON. For edits,
 * which are checked as a whole afterwards (config_load_json). Control thread only. Returned values
 * are borrowed from the document.
 */
#ifndef WEFT_CONFIG_DOCUMENT_H
#define WEFT_CONFIG_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The string under `key`; "" when missing or of another type. */
const char *document_text(const json_t *object, const char *key);
/* The list under `key`, created when missing; NULL when out of memory. */
json_t *document_list(json_t *object, const char *key);

/* Return NULL and SIZE_MAX when not found. ret_index may be NULL. */
json_t *document_find_text(const json_t *list, const char *key, const char *text,
			   size_t *ret_index);
json_t *document_find_number(const json_t *list, const char *key, json_int_t number,
			     size_t *ret_index);
json_t *document_subsystem(const json_t *document, const char *nqn, size_t *ret_index);
json_t *document_ns(const json_t *subsystem, json_int_t nsid, size_t *ret_index);
json_t *document_port(const json_t *document, json_int_t id, size_t *ret_index);

/* Index of the string `text` in a list; SIZE_MAX: not found. */
size_t document_index_of(const json_t *list, const char *text);
bool document_list_has(const json_t *list, const json_t *value);
/* The lowest number from 1 that no element of the list has under `key`. */
json_int_t document_number_free(const json_t *list, const char *key);

#endif
