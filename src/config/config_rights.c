/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the rights of hosts: what each host of a subsystem may change of the state that
 * hosts share (enum host_right of target/target.h). A subsystem's "rights" is an object. Its keys
 * are NQNs of hosts, or "any" for every host that may connect; its values are lists of rights.
 *
 * Control thread only.
 */
#include "base/text.h"
#include "config/config_parse.h"
#include "target/host_rights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RIGHTS_KNOWN "write-protect, format, label and namespaces"

static void list_parse(struct config_cursor *at, const char *host, const json_t *list,
		       uint32_t *ret_rights)
{
	*ret_rights = 0;
	if (!json_is_array(list)) {
		config_complain(at, host, "must be a list of rights: " RIGHTS_KNOWN);
		return;
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		uint32_t right = name ? host_right_parse(name) : 0;

		if (right == 0)
			config_complain(at, host, "\"%s\" is not a right; rights are " RIGHTS_KNOWN,
					name ? name : "");
		*ret_rights |= right;
	}
}

/* Rights of a host that cannot connect are a typing error, or would take effect unnoticed when the
 * host is added again. */
static bool host_is_allowed(const struct config_subsystem *subsystem, const char *host_nqn)
{
	for (unsigned i = 0; !subsystem->allows_any_host && i < subsystem->host_count; i++)
		if (strcmp(subsystem->hosts[i], host_nqn) == 0)
			return true;
	return subsystem->allows_any_host;
}

static void host_parse(struct config_cursor *at, const char *host, uint32_t rights,
		       struct config_subsystem *subsystem)
{
	struct host_rights *entry = &subsystem->host_rights[subsystem->host_rights_count];

	if (!config_nqn_check(at, host, host))
		return;
	if (!host_is_allowed(subsystem, host)) {
		config_complain(at, host,
				"has rights but is not among \"hosts\"; add the host "
				"there or remove its rights");
		return;
	}
	if (rights == 0)
		return;
	text_copy(entry->host_nqn, sizeof(entry->host_nqn), host);
	entry->rights = rights;
	subsystem->host_rights_count++;
}

static int by_host(const void *a, const void *b)
{
	const struct host_rights *x = a, *y = b;

	return strcmp(x->host_nqn, y->host_nqn);
}

void config_rights_parse(struct config_cursor *at, const json_t *object,
			 struct config_subsystem *subsystem)
{
	const char *host;
	json_t *list;

	if (!json_is_object(object)) {
		config_complain(at, NULL, "must be an object: hosts, or \"any\", and their rights");
		return;
	}
	if (json_object_size(object) > CONFIG_HOSTS_MAX + 1) {
		config_complain(at, NULL, "has %zu hosts; the maximum is %d",
				json_object_size(object), CONFIG_HOSTS_MAX);
		return;
	}
	subsystem->host_rights =
		calloc(json_object_size(object) + 1, sizeof(*subsystem->host_rights));
	if (!subsystem->host_rights) {
		config_complain_memory(at, NULL);
		return;
	}
	json_object_foreach((json_t *)object, host, list)
	{
		uint32_t rights;

		list_parse(at, host, list, &rights);
		if (strcmp(host, CONFIG_RIGHTS_ANY) == 0)
			subsystem->rights_of_all = rights;
		else
			host_parse(at, host, rights, subsystem);
	}
	if (subsystem->host_rights_count > 1)
		qsort(subsystem->host_rights, subsystem->host_rights_count,
		      sizeof(*subsystem->host_rights), by_host);
}

json_t *config_rights_to_json(uint32_t rights)
{
	json_t *list = json_array();

	for (uint32_t right = 1; list && right <= HOST_RIGHTS_ALL; right <<= 1) {
		if ((rights & right) != 0 &&
		    json_array_append_new(list, json_string(host_right_name(right))) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

json_t *config_subsystem_rights_to_json(const struct config_subsystem *subsystem)
{
	json_t *object = json_object();
	int res = 0;

	if (object && subsystem->rights_of_all != 0)
		res = json_object_set_new(object, CONFIG_RIGHTS_ANY,
					  config_rights_to_json(subsystem->rights_of_all));
	for (unsigned i = 0; object && res == 0 && i < subsystem->host_rights_count; i++)
		res = json_object_set_new(object, subsystem->host_rights[i].host_nqn,
					  config_rights_to_json(subsystem->host_rights[i].rights));
	if (res == 0)
		return object;
	json_decref(object);
	return NULL;
}

int config_rights_split(const char *text, uint32_t *ret_rights, char **ret_problem)
{
	char *copy = strdup(text), *rest = copy, *word;

	*ret_rights = 0;
	*ret_problem = NULL;
	if (!copy)
		return -ENOMEM;
	while ((word = strsep(&rest, ","))) {
		uint32_t right =
			strcmp(word, "all") == 0 ? HOST_RIGHTS_ALL : host_right_parse(word);

		if (right == 0 && strcmp(word, "none") != 0) {
			*ret_problem = strdup(word);
			free(copy);
			return -EINVAL;
		}
		*ret_rights |= right;
	}
	free(copy);
	return 0;
}
