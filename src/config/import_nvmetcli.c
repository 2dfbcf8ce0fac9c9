/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a file saved by nvmetcli, the tool of the Linux kernel's target (`nvmetcli save`,
 * usually /etc/nvmet/config.json), to a document of weft, so that users can migrate. The saved form
 * mirrors /sys/kernel/config/nvmet: hosts, ports and subsystems, each with attributes as strings.
 *
 * Control thread only. Wrong input is an error. What weft lacks or leaves out on purpose is a note,
 * so that nobody is surprised later. config_load_json checks the result like any document.
 */
#include "base/text.h"
#include "config/config_parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct import {
	struct config_errors *errors;
	struct config_errors *notes;
};

/* The kernel's attributes are strings; a handmade file may have numbers. */
static bool attr_u32(const json_t *attrs, const char *key, uint32_t *ret_value)
{
	const json_t *value = json_object_get(attrs, key);
	uint64_t number;

	if (json_is_integer(value) && json_integer_value(value) >= 0 &&
	    json_integer_value(value) <= UINT32_MAX) {
		*ret_value = (uint32_t)json_integer_value(value);
		return true;
	}
	if (!json_is_string(value) || text_parse_u64(json_string_value(value), UINT32_MAX, &number))
		return false;
	*ret_value = (uint32_t)number;
	return true;
}

static const char *attr_text(const json_t *attrs, const char *key)
{
	const char *text = json_string_value(json_object_get(attrs, key));

	return text ? text : "";
}

/* "1", 1 and true mean true; `otherwise` is the default. */
static bool attr_bool(const json_t *attrs, const char *key, bool otherwise)
{
	const json_t *value = json_object_get(attrs, key);
	uint32_t number;

	if (json_is_boolean(value))
		return json_is_true(value);
	return attr_u32(attrs, key, &number) ? number != 0 : otherwise;
}

/* A nil UUID or NGUID means "none" to the kernel. */
static bool id_is_nil(const char *text)
{
	return strspn(text, "0-") == strlen(text);
}

/* ---- namespaces -------------------------------------------------------------------------------
 */

/* Saved NGUIDs have the hyphens of a UUID. Only the hyphens are removed here: the document's rules
 * refuse a malformed NGUID, which would otherwise change unnoticed. */
static void nguid_copy(const char *text, json_t *ns)
{
	char *digits = strdup(text);
	size_t count = 0;

	if (!digits)
		return;
	for (; *text != 0; text++) {
		if (*text != '-')
			digits[count++] = *text;
	}
	json_object_set_new(ns, "nguid", json_stringn(digits, count));
	free(digits);
}

static void ns_import(struct import *import, const json_t *from, const char *nqn, json_t *to_list)
{
	const json_t *device = json_object_get(from, "device");
	const char *path = attr_text(device, "path");
	const char *uuid = attr_text(device, "uuid"), *nguid = attr_text(device, "nguid");
	uint32_t nsid = 0, group = 1;
	char *media;
	json_t *ns;

	if (!attr_u32(from, "nsid", &nsid)) {
		config_errors_add(import->errors, "%s: a namespace without \"nsid\"", nqn);
		return;
	}
	if (!attr_bool(from, "enable", false)) {
		config_errors_add(import->notes, "%s, namespace %u is not enabled: left out", nqn,
				  nsid);
		return;
	}
	if (path[0] == 0 || strchr(path, ',')) {
		config_errors_add(import->errors, "%s, namespace %u: \"device\".\"path\" is %s",
				  nqn, nsid,
				  path[0] == 0 ? "missing" : "not a path that can be a medium");
		return;
	}
	if (asprintf(&media, "file:%s", path) < 0)
		return;
	attr_u32(from, "ana_grpid", &group);
	ns = json_pack("{s:I,s:s,s:I}", "nsid", (json_int_t)nsid, "media", media, "ana_group",
		       (json_int_t)group);
	free(media);
	if (!id_is_nil(uuid))
		json_object_set_new(ns, "uuid", json_string(uuid));
	if (!id_is_nil(nguid))
		nguid_copy(nguid, ns);
	if (attr_bool(from, "buffered_io", false) || attr_bool(device, "buffered_io", false))
		config_errors_add(import->notes,
				  "%s, namespace %u: \"buffered_io\" is not carried over; direct "
				  "I/O is used wherever the file allows",
				  nqn, nsid);
	json_array_append_new(to_list, ns);
}

/* ---- subsystems -------------------------------------------------------------------------------
 */

/* Notes the attributes that are not carried over. */
static void attrs_note(struct import *import, const char *what, const json_t *attrs,
		       const char *const *known, size_t known_count)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)attrs, key, value)
	{
		bool is_known = false;

		for (size_t i = 0; i < known_count; i++)
			is_known |= strcmp(key, known[i]) == 0;
		if (!is_known)
			config_errors_add(import->notes, "%s: \"%s\" is not carried over", what,
					  key);
	}
}

static void subsystem_import(struct import *import, const json_t *from, json_t *to_list)
{
	static const char *const known[] = {"allow_any_host", "serial",     "model",
					    "attr_serial",    "attr_model", "version"};
	const json_t *attrs = json_object_get(from, "attr");
	const json_t *hosts = json_object_get(from, "allowed_hosts");
	const char *nqn = attr_text(from, "nqn");
	json_t *namespaces = json_array(), *allowed = json_array(), *subsystem, *item;
	size_t i;

	if (nqn[0] == 0) {
		config_errors_add(import->errors, "a subsystem without \"nqn\"");
		json_decref(namespaces);
		json_decref(allowed);
		return;
	}
	json_array_foreach(hosts, i, item) json_array_append(allowed, item);
	json_array_foreach(json_object_get(from, "namespaces"), i, item)
		ns_import(import, item, nqn, namespaces);
	subsystem = json_pack("{s:s,s:b,s:o,s:o}", "nqn", nqn, "allow_any_host",
			      attr_bool(attrs, "allow_any_host", false), "hosts", allowed,
			      "namespaces", namespaces);
	if (attr_text(attrs, "serial")[0] != 0)
		json_object_set(subsystem, "serial", json_object_get(attrs, "serial"));
	if (attr_text(attrs, "model")[0] != 0)
		json_object_set(subsystem, "model", json_object_get(attrs, "model"));
	attrs_note(import, nqn, attrs, known, sizeof(known) / sizeof(known[0]));
	if (json_is_object(json_object_get(from, "passthru")) &&
	    attr_bool(json_object_get(from, "passthru"), "enable", false))
		config_errors_add(import->notes, "%s: passthru is not carried over", nqn);
	json_array_append_new(to_list, subsystem);
}

/* ---- ports ------------------------------------------------------------------------------------
 */

static void ana_import(struct import *import, const json_t *from, uint32_t port_id, json_t *to_list)
{
	const char *text = attr_text(json_object_get(from, "ana"), "state");
	enum ana_state state;
	uint32_t group;

	if (!attr_u32(from, "grpid", &group) || !config_ana_state_parse(text, &state)) {
		config_errors_add(
			import->errors,
			"port %u: an ANA group without \"grpid\" or with the state \"%s\"", port_id,
			text);
		return;
	}
	if (state != ANA_OPTIMIZED)
		json_array_append_new(to_list, json_pack("{s:I,s:s}", "group", (json_int_t)group,
							 "state", ana_state_name(state)));
}

static void port_notes(struct import *import, const json_t *from, uint32_t id, const char *what)
{
	static const char *const known[] = {"inline_data_size"};
	uint32_t size;

	if (json_array_size(json_object_get(from, "referrals")) > 0)
		config_errors_add(import->notes, "%s: its referrals are not carried over", what);
	if (attr_u32(json_object_get(from, "param"), "inline_data_size", &size) && size != 0)
		config_errors_add(import->notes,
				  "%s: \"inline_data_size\" %u is not carried over; see "
				  "\"limits\".\"in_capsule_bytes\", which applies to all ports",
				  what, size);
	attrs_note(import, what, json_object_get(from, "param"), known, 1);
}

static void port_import(struct import *import, const json_t *from, json_t *to_list)
{
	const json_t *addr = json_object_get(from, "addr");
	const char *transport = attr_text(addr, "trtype"), *address = attr_text(addr, "traddr");
	const char *service = attr_text(addr, "trsvcid");
	json_t *ana, *port, *item;
	uint32_t id = 0;
	char what[32];
	size_t i;

	if (!attr_u32(from, "portid", &id)) {
		config_errors_add(import->errors, "a port without \"portid\"");
		return;
	}
	snprintf(what, sizeof(what), "port %u", id);
	if (strcmp(transport, "tcp") != 0) {
		config_errors_add(import->notes, "%s has the transport \"%s\", not tcp: left out",
				  what, transport);
		return;
	}
	/* Our IDs start at 1, the kernel's at 0. */
	if (id == 0) {
		id = 65535;
		config_errors_add(import->notes, "port 0 becomes port %u", id);
	}
	ana = json_array();
	json_array_foreach(json_object_get(from, "ana_groups"), i, item)
		ana_import(import, item, id, ana);
	port = json_pack("{s:I,s:s,s:s,s:o}", "id", (json_int_t)id, "address",
			 address[0] ? address : CONFIG_DEFAULT_ADDRESS, "service",
			 service[0] ? service : "4420", "ana", ana);
	item = json_object_get(from, "subsystems");
	json_object_set_new(port, "subsystems",
			    json_is_array(item) ? json_copy(item) : json_array());
	if (strcmp(attr_text(addr, "treq"), "required") == 0)
		config_errors_add(import->notes,
				  "%s: \"treq\" is not carried over: there is no TLS", what);
	port_notes(import, from, id, what);
	json_array_append_new(to_list, port);
}

/* ---- the document -----------------------------------------------------------------------------
 */

static void hosts_note(struct import *import, const json_t *hosts)
{
	json_t *host;
	size_t i;

	json_array_foreach(hosts, i, host)
	{
		const char *nqn = attr_text(host, "nqn"), *key;
		json_t *value;

		json_object_foreach(host, key, value)
		{
			if (strncmp(key, "dhchap", 6) == 0 && json_is_string(value) &&
			    json_string_value(value)[0] != 0 && strcmp(key, "dhchap_hash") != 0 &&
			    strcmp(key, "dhchap_dhgroup") != 0)
				config_errors_add(
					import->notes,
					"host %s: \"%s\" is not carried over: this target "
					"does not authenticate hosts",
					nqn, key);
		}
	}
}

/* If no port can be carried over, the document gets the default port: add a note. */
static void ports_import(struct import *import, const json_t *from, json_t *document)
{
	json_t *ports = json_array(), *item;
	size_t i;

	json_array_foreach(from, i, item) port_import(import, item, ports);
	if (json_array_size(ports) > 0) {
		json_object_set_new(document, "ports", ports);
		return;
	}
	config_errors_add(import->notes, "no port can be carried over: %s:%d offers all subsystems",
			  CONFIG_DEFAULT_ADDRESS, CONFIG_DEFAULT_PORT);
	json_decref(ports);
}

json_t *config_import_nvmetcli(const json_t *saved, struct config_errors *errors,
			       struct config_errors *notes)
{
	struct import import = {errors, notes};
	unsigned before = errors->count;
	json_t *document, *subsystems, *item;
	struct config *config = NULL;
	size_t i;

	if (!json_is_object(saved) || (!json_is_array(json_object_get(saved, "subsystems")) &&
				       !json_is_array(json_object_get(saved, "ports")))) {
		config_errors_add(errors, "not a document of `nvmetcli save`, which is an object "
					  "with \"hosts\", \"ports\" and \"subsystems\"");
		return NULL;
	}
	subsystems = json_array();
	json_array_foreach(json_object_get(saved, "subsystems"), i, item)
		subsystem_import(&import, item, subsystems);
	document = json_pack("{s:i,s:o}", "version", CONFIG_DOCUMENT_VERSION, "subsystems",
			     subsystems);
	if (!document) {
		config_errors_add(errors, "out of memory");
		return NULL;
	}
	ports_import(&import, json_object_get(saved, "ports"), document);
	hosts_note(&import, json_object_get(saved, "hosts"));
	if (errors->count == before)
		config_load_json(document, &config, errors);
	config_free(config);
	if (errors->count != before) {
		json_decref(document);
		return NULL;
	}
	return document;
}
