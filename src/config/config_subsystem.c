/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a subsystem of the configuration with its allowed hosts and its pool, and its serial
 * number, when the document gives one. Its namespaces: config_ns.c; identities: config_identity.c.
 *
 * Control thread only.
 */
#include "config/config_parse.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Serial and model number: printable ASCII. NVMe Base 2.1, section 5.1.13.2.1. */
static void parse_ascii(struct config_cursor *at, const json_t *object, const char *key, char *to,
			size_t to_bytes)
{
	const char *text = NULL;

	if (!config_get_text(at, object, key, &text))
		return;
	if (text[0] == 0 || strlen(text) >= to_bytes) {
		config_complain(at, key, "must have 1 to %zu characters, has %zu", to_bytes - 1,
				strlen(text));
		return;
	}
	for (const char *c = text; *c != 0; c++) {
		if (*c < ' ' || *c > '~') {
			config_complain(at, key, "must be printable ASCII");
			return;
		}
	}
	text_copy(to, to_bytes, text);
}

static void namespaces_parse(struct config_cursor *at, const json_t *object,
			     struct config_subsystem *subsystem)
{
	const json_t *array = NULL;

	if (!config_get_array(at, object, "namespaces", CONFIG_NSID_MAX, &array))
		return;
	subsystem->namespaces = calloc(json_array_size(array) + 1, sizeof(*subsystem->namespaces));
	if (!subsystem->namespaces) {
		config_complain_memory(at, "namespaces");
		return;
	}
	for (size_t i = 0; i < json_array_size(array); i++) {
		size_t mark = config_cursor_enter(at, "namespaces", i);

		config_ns_parse(at, json_array_get(array, i), (unsigned)i,
				&subsystem->namespaces[i]);
		config_cursor_leave(at, mark);
	}
	subsystem->ns_count = (unsigned)json_array_size(array);
}

/* The path becomes part of a medium's spec, where a comma would end it. */
static bool folder_is_good(const char *folder)
{
	return folder[0] == '/' && !strchr(folder, ',') && strlen(folder) <= CONFIG_POOL_FOLDER_MAX;
}

static void pool_parse(struct config_cursor *at, const json_t *object,
		       struct config_subsystem *subsystem)
{
	static const char *const keys[] = {"folder", "capacity"};
	const char *folder = NULL, *capacity = NULL;

	config_object_check(at, object, keys, ARRAY_LEN(keys));
	if (!json_is_object(object))
		return;
	if (!json_object_get(object, "folder"))
		config_complain(at, "folder",
				"is missing; give the folder in which hosts' namespaces become "
				"files, such as \"/var/lib/weft/pool\"");
	if (!json_object_get(object, "capacity"))
		config_complain(at, "capacity",
				"is missing; give what all namespaces in the folder may have "
				"together, such as \"1T\"");
	if (config_get_text(at, object, "capacity", &capacity) &&
	    (text_parse_size(capacity, &subsystem->pool_bytes) || subsystem->pool_bytes == 0 ||
	     subsystem->pool_bytes > INT64_MAX)) {
		config_complain(at, "capacity",
				"\"%s\" is not a size; write bytes or 512M, 10G, 2T", capacity);
		subsystem->pool_bytes = 1;
	}
	if (!config_get_text(at, object, "folder", &folder))
		return;
	if (!folder_is_good(folder)) {
		config_complain(at, "folder",
				"\"%s\" must be an absolute path without a comma, of at most %d "
				"bytes",
				folder, CONFIG_POOL_FOLDER_MAX);
		return;
	}
	subsystem->pool_folder = strdup(folder);
	if (!subsystem->pool_folder)
		config_complain_memory(at, "folder");
}

void config_subsystem_parse(struct config_cursor *at, const json_t *object,
			    struct config_subsystem *subsystem)
{
	static const char *const keys[] = {"nqn",   "serial", "model", "allow_any_host",
					   "hosts", "rights", "pool",  "namespaces"};
	const char *nqn = NULL;

	text_copy(subsystem->model, sizeof(subsystem->model), CONFIG_DEFAULT_MODEL);
	config_object_check(at, object, keys, ARRAY_LEN(keys));
	if (!json_is_object(object))
		return;
	if (!json_object_get(object, "nqn"))
		config_complain(at, "nqn", "is missing; give a name such as %s",
				TARGET_DEFAULT_NQN);
	else if (config_get_text(at, object, "nqn", &nqn) && config_nqn_check(at, "nqn", nqn))
		text_copy(subsystem->nqn, sizeof(subsystem->nqn), nqn);
	parse_ascii(at, object, "serial", subsystem->serial, sizeof(subsystem->serial));
	parse_ascii(at, object, "model", subsystem->model, sizeof(subsystem->model));
	config_get_nqns(at, object, "hosts", CONFIG_HOSTS_MAX, &subsystem->hosts,
			&subsystem->host_count);
	/* Whoever lists hosts means those; a bad entry must not open the door to everybody. */
	subsystem->allows_any_host = !json_object_get(object, "hosts");
	config_get_bool(at, object, "allow_any_host", &subsystem->allows_any_host);
	if (json_object_get(object, "rights")) {
		size_t mark = config_cursor_enter(at, "rights", SIZE_MAX);

		config_rights_parse(at, json_object_get(object, "rights"), subsystem);
		config_cursor_leave(at, mark);
	}
	if (json_object_get(object, "pool")) {
		size_t mark = config_cursor_enter(at, "pool", SIZE_MAX);

		pool_parse(at, json_object_get(object, "pool"), subsystem);
		config_cursor_leave(at, mark);
	}
	namespaces_parse(at, object, subsystem);
}
