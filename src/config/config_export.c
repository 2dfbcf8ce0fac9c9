/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration as a document with every default and identity, with keys and elements in a
 * fixed order, so that equal configurations give equal bytes and reading the document back gives
 * the same configuration. The tables of fields define what is written of each object
 * (config/fields.h). The UUID that a memory medium got for this run is left out, because the next
 * run makes another (config_identity.c); only edits see it.
 *
 * Control thread only.
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

json_t *config_to_json(const struct config *config)
{
	const struct config_writing writing = {.config = config};

	return config_object_write(&writing, &config_root_object, config);
}

json_t *config_to_edit_json(const struct config *config)
{
	const struct config_writing writing = {.config = config, .is_edit = true};

	return config_object_write(&writing, &config_root_object, config);
}
