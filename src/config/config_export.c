/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration as a document: every default and every identity is spelt out, in one order
 * of keys and elements, so that equal configurations give equal bytes, and reading the document
 * back gives the same configuration. What is written of an object is in its table
 * (config/fields.h). The UUID that memory got for this run is not of the document, because the next
 * run makes another one (config_identity.c); only edits see it.
 *
 * Control thread only. What the program adds by itself (the discovery port, the subsystem of the
 * self-check) is not of the document and is left out.
 */
#include "config/config_parse.h"
#include "config/fields.h"

json_t *config_ns_to_json(const struct config_ns *ns)
{
	static const struct config_writing writing = {.is_edit = true};

	return config_object_write(&writing, &config_ns_object, ns);
}

json_t *config_ns_to_document(const struct config_ns *ns)
{
	static const struct config_writing writing = {.is_edit = false};

	return config_object_write(&writing, &config_ns_object, ns);
}

json_t *config_subsystem_to_json(const struct config_subsystem *subsystem)
{
	static const struct config_writing writing = {.is_edit = true};

	return config_object_write(&writing, &config_subsystem_object, subsystem);
}

json_t *config_port_to_json(const struct config *config, const struct config_port *port)
{
	const struct config_writing writing = {.config = config};

	return config_object_write(&writing, &config_port_object, port);
}

json_t *config_limits_to_json(const struct target_limits *limits)
{
	static const struct config_writing writing;

	return config_object_write(&writing, &config_limits_object, limits);
}

json_t *config_cluster_to_json(const struct config_cluster *cluster)
{
	static const struct config_writing writing;

	return config_object_write(&writing, &config_cluster_object, cluster);
}

static json_t *subsystems_to_json(const struct config_writing *writing)
{
	const struct config *config = writing->config;
	json_t *list = json_array();

	for (unsigned i = 0; list && i < config->subsystem_count; i++) {
		if (config->subsystems[i].is_implied)
			continue;
		if (json_array_append_new(list,
					  config_object_write(writing, &config_subsystem_object,
							      &config->subsystems[i])) < 0) {
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
	const struct config_writing writing = {.config = config, .is_edit = is_edit};
	json_t *root = json_object();

	if (root && !(config_put(root, "version", json_integer(CONFIG_DOCUMENT_VERSION)) &&
		      config_put(root, "subsystems", subsystems_to_json(&writing)) &&
		      config_put(root, "ports", ports_to_json(config)) &&
		      config_put(root, "limits", config_limits_to_json(&config->limits)) &&
		      (!config->cluster ||
		       config_put(root, "cluster", config_cluster_to_json(config->cluster))))) {
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
