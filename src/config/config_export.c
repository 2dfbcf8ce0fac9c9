/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration as a document: every default and every identity is spelt out, in one order
 * of keys and elements, so that equal configurations give equal bytes, and reading the document
 * back gives the same configuration. The UUID that memory got for this run is not of the document,
 * because the next run makes another one (config_identity.c); only edits see it.
 *
 * Control thread only. What the program adds by itself (the discovery port, the subsystem of the
 * self-check) is not of the document and is left out.
 */
#include "config/config_parse.h"

#include <stdlib.h>
#include <string.h>

/* Takes the value over. False when there was no memory for it or its place. */
static bool put(json_t *object, const char *key, json_t *taken_value)
{
	return json_object_set_new(object, key, taken_value) == 0;
}

static json_t *names_to_json(char (*names)[NVME_NQN_BYTES], unsigned count)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < count; i++) {
		if (json_array_append_new(list, json_string(names[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Before config_identify there may be none. */
static bool ns_put_identity(json_t *object, const struct config_ns *ns)
{
	char uuid[UUID_TEXT_BYTES], nguid[33];
	bool has_nguid = false;

	for (unsigned i = 0; i < 16; i++) {
		has_nguid |= ns->nguid[i] != 0;
		snprintf(nguid + 2 * i, 3, "%02x", ns->nguid[i]);
	}
	return (uuid_is_nil(&ns->uuid) ||
		put(object, "uuid", json_string(uuid_format(&ns->uuid, uuid)))) &&
	       (!has_nguid || put(object, "nguid", json_string(nguid)));
}

static bool ns_put_all(json_t *object, const struct config_ns *ns)
{
	bool is_good;

	is_good = put(object, "nsid", json_integer(ns->nsid)) &&
		  put(object, "media", json_string(ns->media)) && ns_put_identity(object, ns) &&
		  put(object, "read_only", json_boolean(ns->is_read_only)) &&
		  put(object, "write_protect",
		      json_string(config_write_protect_name(ns->write_protect))) &&
		  put(object, "ana_group", json_integer(ns->ana_group)) &&
		  put(object, "private", json_boolean(ns->is_private)) &&
		  put(object, "clustered", json_boolean(ns->is_clustered));
	if (is_good && ns->is_masked)
		is_good = put(object, "hosts", names_to_json(ns->hosts, ns->host_count));
	if (is_good && ns->hidden_count > 0)
		is_good = put(object, "hidden_from",
			      names_to_json(ns->hidden_from, ns->hidden_count));
	if (is_good && ns->label)
		is_good = put(object, "label", json_string(ns->label));
	return is_good;
}

json_t *config_ns_to_json(const struct config_ns *ns)
{
	json_t *object = json_object();

	if (object && !ns_put_all(object, ns)) {
		json_decref(object);
		return NULL;
	}
	return object;
}

json_t *config_ns_to_document(const struct config_ns *ns)
{
	json_t *object = config_ns_to_json(ns);

	if (object && ns->has_made_identity && config_ns_is_volatile(ns)) {
		json_object_del(object, "uuid");
		json_object_del(object, "nguid");
	}
	return object;
}

static json_t *namespaces_to_json(const struct config_subsystem *subsystem, bool is_edit)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < subsystem->ns_count; i++) {
		const struct config_ns *ns = &subsystem->namespaces[i];

		if (json_array_append_new(list, is_edit ? config_ns_to_json(ns)
							: config_ns_to_document(ns)) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *pool_to_json(const struct config_subsystem *subsystem)
{
	char capacity[24];

	snprintf(capacity, sizeof(capacity), "%llu", (unsigned long long)subsystem->pool_bytes);
	return json_pack("{s:s,s:s}", "folder", subsystem->pool_folder, "capacity", capacity);
}

static bool subsystem_put_all(json_t *object, const struct config_subsystem *subsystem,
			      bool is_edit)
{
	bool is_good = put(object, "nqn", json_string(subsystem->nqn)) &&
		       (subsystem->serial[0] == 0 ||
			put(object, "serial", json_string(subsystem->serial))) &&
		       put(object, "model", json_string(subsystem->model)) &&
		       put(object, "allow_any_host", json_boolean(subsystem->allows_any_host)) &&
		       put(object, "hosts", names_to_json(subsystem->hosts, subsystem->host_count));

	if (is_good)
		is_good = put(object, "rights", config_subsystem_rights_to_json(subsystem));
	if (is_good && subsystem->pool_folder)
		is_good = put(object, "pool", pool_to_json(subsystem));
	return is_good && put(object, "namespaces", namespaces_to_json(subsystem, is_edit));
}

static json_t *subsystem_to_json(const struct config_subsystem *subsystem, bool is_edit)
{
	json_t *object = json_object();

	if (object && !subsystem_put_all(object, subsystem, is_edit)) {
		json_decref(object);
		return NULL;
	}
	return object;
}

json_t *config_subsystem_to_json(const struct config_subsystem *subsystem)
{
	return subsystem_to_json(subsystem, true);
}

static bool is_offer_of_document(const struct config *config, const char *nqn)
{
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		if (config->subsystems[i].is_implied && strcmp(config->subsystems[i].nqn, nqn) == 0)
			return false;
	}
	return true;
}

static json_t *offers_to_json(const struct config *config, const struct config_port *port)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < port->subsystem_count; i++) {
		if (!is_offer_of_document(config, port->subsystems[i]))
			continue;
		if (json_array_append_new(list, json_string(port->subsystems[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *ana_to_json(const struct config_port *port)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < port->ana_count; i++) {
		json_t *entry = json_pack("{s:I,s:s}", "group", (json_int_t)port->ana[i].group,
					  "state", config_ana_state_name(port->ana[i].state));

		if (json_array_append_new(list, entry) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool port_put_all(json_t *object, const struct config *config,
			 const struct config_port *port)
{
	char host[NET_ADDR_TEXT_BYTES], service[8];
	bool is_good;

	net_addr_format_host(&port->listen, host);
	snprintf(service, sizeof(service), "%u", net_addr_port(&port->listen));
	is_good = put(object, "id", json_integer(port->id)) &&
		  put(object, "transport", json_string("tcp")) &&
		  put(object, "address", json_string(host)) &&
		  put(object, "service", json_string(service));
	if (is_good && port->advertise[0] != 0)
		is_good = put(object, "advertise", json_string(port->advertise));
	is_good = is_good && put(object, "discovery", json_boolean(port->is_discovery_only));
	if (is_good && !port->offers_all && !port->is_discovery_only)
		is_good = put(object, "subsystems", offers_to_json(config, port));
	return is_good && put(object, "ana", ana_to_json(port)) &&
	       put(object, "zero_copy", json_string(config_zero_copy_name(port->zero_copy))) &&
	       put(object, "zero_copy_min_bytes", json_integer(port->zero_copy_min_bytes));
}

json_t *config_port_to_json(const struct config *config, const struct config_port *port)
{
	json_t *object = json_object();

	if (object && !port_put_all(object, config, port)) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *limits_to_json(const struct target_limits *limits)
{
	json_t *object = json_object();
	bool is_good = object != NULL;

	for (unsigned i = 0; is_good && i < CONFIG_LIMIT_COUNT; i++) {
		uint32_t value;

		memcpy(&value, (const uint8_t *)limits + config_limits[i].offset, sizeof(value));
		is_good = put(object, config_limits[i].key, json_integer(value));
	}
	is_good = is_good &&
		  put(object, "header_digest", json_boolean(limits->allows_header_digest)) &&
		  put(object, "data_digest", json_boolean(limits->allows_data_digest));
	if (!is_good) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *subsystems_to_json(const struct config *config, bool is_edit)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < config->subsystem_count; i++) {
		if (config->subsystems[i].is_implied)
			continue;
		if (json_array_append_new(list,
					  subsystem_to_json(&config->subsystems[i], is_edit)) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *ports_to_json(const struct config *config)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < config->port_count; i++) {
		if (config->ports[i].is_implied)
			continue;
		if (json_array_append_new(list, config_port_to_json(config, &config->ports[i])) <
		    0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *document_make(const struct config *config, bool is_edit)
{
	json_t *root = json_object();

	if (root && !(put(root, "version", json_integer(CONFIG_DOCUMENT_VERSION)) &&
		      put(root, "subsystems", subsystems_to_json(config, is_edit)) &&
		      put(root, "ports", ports_to_json(config)) &&
		      put(root, "limits", limits_to_json(&config->limits)) &&
		      (!config->cluster ||
		       put(root, "cluster", config_cluster_to_json(config->cluster))))) {
		json_decref(root);
		return NULL;
	}
	return root;
}

json_t *config_to_json(const struct config *config)
{
	return document_make(config, false);
}

json_t *config_to_edit_json(const struct config *config)
{
	return document_make(config, true);
}
