/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft serve --merge`: a document (or the flags) over the saved state. What the document adds is
 * added, what it says of a thing that exists is changed, nothing is removed, and what it does not
 * mention stays:
 *
 * - subsystems are the same by NQN, namespaces by NSID, ports by id; a namespace without an NSID by
 *   its medium, a port without an id by its address. What is not found is added under a free
 * number;
 * - keys are set; lists of hosts, rights and of a port's subsystems are united. A list of hosts
 * where any host was allowed restricts: that is what it says;
 * - a namespace keeps its medium (--merge refuses another one) and its size when the document gives
 *   a smaller one;
 * - the cluster stays (start.c refuses another one).
 *
 * Control thread only. The result is read and checked as any other document.
 */
#include "base/net_addr.h"
#include "config/config_parse.h"
#include "config/document.h"
#include "media/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct merge {
	struct config_errors *errors;
	const char *nqn; /* of the subsystem that is merged */
	bool is_out_of_memory;
};

static json_t *list_of(struct merge *merge, json_t *object, const char *key)
{
	json_t *list = document_list(object, key);

	merge->is_out_of_memory |= !list;
	return list;
}

static void key_set(struct merge *merge, json_t *object, const char *key, const json_t *value)
{
	merge->is_out_of_memory |= json_object_set_new(object, key, json_deep_copy(value)) < 0;
}

static void list_add(struct merge *merge, json_t *list, json_t *taken_element)
{
	merge->is_out_of_memory |= json_array_append_new(list, taken_element) < 0;
}

static void list_unite(struct merge *merge, json_t *object, const char *key, const json_t *more)
{
	json_t *list = list_of(merge, object, key);

	for (size_t i = 0; i < json_array_size(more); i++) {
		if (!document_list_has(list, json_array_get(more, i)))
			list_add(merge, list, json_deep_copy(json_array_get(more, i)));
	}
}

/* ---- namespaces -------------------------------------------------------------------------------
 */

/* One file, or memory: the same data, however it is opened. */
static bool same_media(const char *a, const char *b)
{
	char *x = config_media_identity(a), *y = config_media_identity(b);
	bool is_same = x && y && strcmp(x, y) == 0;

	free(x);
	free(y);
	return is_same;
}

static uint64_t media_bytes(const char *text)
{
	const struct media_spec *at;
	struct media_spec spec;
	uint64_t bytes;

	if (media_spec_parse(text, &spec, NULL))
		return 0;
	at = media_spec_store(&spec);
	bytes = at->size_bytes;
	media_spec_free(&spec);
	return bytes;
}

/* The namespace that has the medium: a file by its path, memory by its whole text. */
static json_t *find_media(const json_t *list, const json_t *taken, const char *media)
{
	char *path = config_media_path(media);
	json_t *found = NULL;

	for (size_t i = 0; !found && i < json_array_size(list); i++) {
		json_t *ns = json_array_get(list, i);
		const char *other = document_text(ns, "media");

		if (document_list_has(taken, json_object_get(ns, "nsid")))
			continue;
		if (path ? same_media(media, other) : strcmp(media, other) == 0)
			found = ns;
	}
	free(path);
	return found;
}

static void ns_merge(struct merge *merge, json_t *ns, const json_t *more)
{
	const char *media = document_text(ns, "media"), *wanted = document_text(more, "media");
	const char *key;
	json_t *value;

	if (!same_media(media, wanted)) {
		config_errors_add(
			merge->errors,
			"--merge: namespace %.223s/%lld has %.100s, not %.100s; give the new one "
			"another NSID, or replace the saved state with --reset",
			merge->nqn, (long long)json_integer_value(json_object_get(ns, "nsid")),
			media, wanted);
		return;
	}
	json_object_foreach((json_t *)more, key, value)
	{
		if (strcmp(key, "media") == 0 && media_bytes(wanted) < media_bytes(media))
			continue;
		if (strcmp(key, "hidden_from") == 0 ||
		    (strcmp(key, "hosts") == 0 && json_object_get(ns, "hosts")))
			list_unite(merge, ns, key, value);
		else
			key_set(merge, ns, key, value);
	}
}

static void namespaces_merge(struct merge *merge, json_t *subsystem, const json_t *more)
{
	json_t *list = list_of(merge, subsystem, "namespaces");
	json_t *taken = json_array(); /* NSIDs that an element without one has found */

	for (size_t i = 0; i < json_array_size(more); i++) {
		const json_t *element = json_array_get(more, i);
		const json_t *nsid = json_object_get(element, "nsid");
		json_t *ns =
			nsid ? document_find_number(list, "nsid", json_integer_value(nsid), NULL)
			     : find_media(list, taken, document_text(element, "media"));

		if (ns) {
			ns_merge(merge, ns, element);
		} else {
			ns = json_deep_copy(element);
			if (!nsid)
				json_object_set_new(
					ns, "nsid",
					json_integer(document_number_free(list, "nsid")));
			list_add(merge, list, json_incref(ns));
			json_decref(ns);
		}
		json_array_append(taken, json_object_get(ns, "nsid"));
	}
	json_decref(taken);
}

/* ---- subsystems -------------------------------------------------------------------------------
 */

/* Of each host that is named. */
static void rights_unite(struct merge *merge, json_t *subsystem, const json_t *more)
{
	const char *host;
	json_t *rights;

	if (!json_is_object(json_object_get(subsystem, "rights")))
		json_object_set_new(subsystem, "rights", json_object());
	json_object_foreach((json_t *)more, host, rights)
	{
		list_unite(merge, json_object_get(subsystem, "rights"), host, rights);
	}
}

static void subsystem_merge(struct merge *merge, json_t *subsystem, const json_t *more)
{
	const char *key;
	json_t *value;

	merge->nqn = document_text(more, "nqn");
	json_object_foreach((json_t *)more, key, value)
	{
		if (strcmp(key, "namespaces") == 0)
			namespaces_merge(merge, subsystem, value);
		else if (strcmp(key, "hosts") == 0)
			list_unite(merge, subsystem, key, value);
		else if (strcmp(key, "rights") == 0)
			rights_unite(merge, subsystem, value);
		else
			key_set(merge, subsystem, key, value);
	}
	/* As in a document: whoever lists hosts means those. */
	if (json_object_get(more, "hosts") && !json_object_get(more, "allow_any_host"))
		merge->is_out_of_memory |=
			json_object_set_new(subsystem, "allow_any_host", json_false()) < 0;
}

static void subsystems_merge(struct merge *merge, json_t *document, const json_t *more)
{
	json_t *list = list_of(merge, document, "subsystems");

	for (size_t i = 0; i < json_array_size(more); i++) {
		const json_t *element = json_array_get(more, i);
		json_t *found =
			document_find_text(list, "nqn", document_text(element, "nqn"), NULL);

		if (found)
			subsystem_merge(merge, found, element);
		else
			list_add(merge, list, json_deep_copy(element));
	}
}

/* ---- ports ------------------------------------------------------------------------------------
 */

static bool port_addr(const json_t *port, struct net_addr *ret_addr)
{
	const char *address = document_text(port, "address"),
		   *service = document_text(port, "service");
	char text[NET_ADDR_TEXT_BYTES + 16];

	if (address[0] == 0)
		address = CONFIG_DEFAULT_ADDRESS;
	snprintf(text, sizeof(text), strchr(address, ':') ? "[%s]:%s" : "%s:%s", address, service);
	return net_addr_parse(service[0] ? text : address, CONFIG_DEFAULT_PORT, ret_addr) == 0;
}

static json_t *find_port(const json_t *list, const json_t *port)
{
	const json_t *id = json_object_get(port, "id");
	struct net_addr wanted, addr;

	if (id)
		return document_find_number(list, "id", json_integer_value(id), NULL);
	if (!port_addr(port, &wanted))
		return NULL;
	for (size_t i = 0; i < json_array_size(list); i++) {
		char a[NET_ADDR_TEXT_BYTES], b[NET_ADDR_TEXT_BYTES];

		if (port_addr(json_array_get(list, i), &addr) &&
		    strcmp(net_addr_format(&wanted, a), net_addr_format(&addr, b)) == 0)
			return json_array_get(list, i);
	}
	return NULL;
}

static void ana_merge(struct merge *merge, json_t *port, const json_t *more)
{
	json_t *list = list_of(merge, port, "ana");

	for (size_t i = 0; i < json_array_size(more); i++) {
		const json_t *entry = json_array_get(more, i);
		json_t *found = document_find_number(
			list, "group", json_integer_value(json_object_get(entry, "group")), NULL);

		if (found)
			key_set(merge, found, "state", json_object_get(entry, "state"));
		else
			list_add(merge, list, json_deep_copy(entry));
	}
}

static void port_merge(struct merge *merge, json_t *port, const json_t *more)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)more, key, value)
	{
		if (strcmp(key, "ana") == 0) {
			ana_merge(merge, port, value);
		} else if (strcmp(key, "subsystems") != 0) {
			key_set(merge, port, key, value);
		} else if (json_object_get(port, key)) {
			/* Without a list the port offers all of them already. */
			list_unite(merge, port, key, value);
		}
	}
}

static void ports_merge(struct merge *merge, json_t *document, const json_t *more)
{
	json_t *list = list_of(merge, document, "ports");

	for (size_t i = 0; i < json_array_size(more); i++) {
		const json_t *element = json_array_get(more, i);
		json_t *port = find_port(list, element);

		if (port) {
			port_merge(merge, port, element);
			continue;
		}
		port = json_deep_copy(element);
		if (!json_object_get(port, "id"))
			json_object_set_new(port, "id",
					    json_integer(document_number_free(list, "id")));
		list_add(merge, list, port);
	}
}

/* ---- the document -----------------------------------------------------------------------------
 */

int config_merge(json_t *document, const json_t *more, struct config_errors *errors)
{
	struct merge merge = {.errors = errors};
	unsigned before = errors->count;
	const char *key;
	json_t *value;

	subsystems_merge(&merge, document, json_object_get(more, "subsystems"));
	ports_merge(&merge, document, json_object_get(more, "ports"));
	if (!json_is_object(json_object_get(document, "limits")))
		json_object_set_new(document, "limits", json_object());
	json_object_foreach(json_object_get(more, "limits"), key, value)
	{
		key_set(&merge, json_object_get(document, "limits"), key, value);
	}
	if (merge.is_out_of_memory) {
		config_errors_add(errors, "out of memory");
		return -ENOMEM;
	}
	return errors->count > before ? -EINVAL : 0;
}
