/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's ports, and the ANA states of groups on them (NVMe Base 2.1, section 8.1.1).
 *
 * Control reactor only. A port that the program adds by itself (discovery on 8009) is shown and
 * marked, but is not part of the document and cannot be changed here.
 */
#include "api/api_call.h"
#include "config/fields.h"
#include "daemon/ana_change.h"
#include "target/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static json_t *port_json(const struct api_call *call, const struct config *config,
			 const struct config_port *port)
{
	json_t *object = config_port_to_json(config, port);
	char text[NET_ADDR_TEXT_BYTES];
	struct net_addr bound;

	if (!object)
		return NULL;
	json_object_set_new(object, "implied", json_boolean(port->is_implied));
	if (target_port_addr(daemon_target(call->api->daemon), port->id, &bound) == 0)
		json_object_set_new(object, "listening",
				    json_string(net_addr_format(&bound, text)));
	return object;
}

static bool config_has_port(const struct config *config, uint16_t id)
{
	for (unsigned i = 0; config && i < config->port_count; i++) {
		if (config->ports[i].id == id)
			return true;
	}
	return false;
}

/* A port that is served, and not part of the document. */
static json_t *port_implied_json(const struct api_call *call, const struct port *port)
{
	struct config_port config = {.id = 0};

	config_object_init(&config_port_object, &config);
	config.transport = port_transport(port)->trtype;
	config.listen = port->listen;
	config.is_implied = true;
	config_object_from_served(&config_port_object, port, &config);
	return port_json(call, daemon_config(call->api->daemon), &config);
}

void api_ports_get(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	const struct config *config = daemon_config(call->api->daemon);
	json_t *list = json_array();

	for (unsigned i = 0; config && i < config->port_count; i++)
		json_array_append_new(list, port_json(call, config, &config->ports[i]));
	for (unsigned i = 0; snapshot && i < snapshot->port_count; i++) {
		if (!config_has_port(config, snapshot->ports[i].id))
			json_array_append_new(list, port_implied_json(call, &snapshot->ports[i]));
	}
	api_answer(call, json_pack("{s:o}", "ports", list));
}

/* NULL: the port is unknown, and the call was answered. */
static const struct config_port *port_of(struct api_call *call)
{
	const struct config *config = daemon_config(call->api->daemon);
	uint32_t id = (uint32_t)strtoul(call->params[0], NULL, 0);

	for (unsigned i = 0; config && i < config->port_count; i++) {
		if (config->ports[i].id == id)
			return &config->ports[i];
	}
	api_fail(call, 404, "there is no port %u; `weft ctl port list` lists them", id);
	return NULL;
}

void api_port_get(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	const struct config *config = daemon_config(call->api->daemon);
	uint16_t id = call->number <= UINT16_MAX ? (uint16_t)call->number : 0;
	const struct port *served = snapshot ? snapshot_find_port(snapshot, id) : NULL;
	const struct config_port *port;

	if (served && !config_has_port(config, id)) {
		api_answer(call, port_implied_json(call, served));
		return;
	}
	port = port_of(call);
	if (port)
		api_answer(call, port_json(call, config, port));
}

/* ---- changes -------------------------------------------------------------------------------- */

static int port_add(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *port = json_deep_copy(call->body);
	const json_t *id = json_object_get(port, "id");
	json_int_t number;

	if (!id) {
		json_object_set_new(port, "id",
				    json_integer(document_number_free(
					    json_object_get(document, "ports"), "id")));
		id = json_object_get(port, "id");
	}
	number = json_integer_value(id);
	if (json_is_integer(id) && number >= 0 && number <= UINT16_MAX &&
	    document_port(document, (uint32_t)number, NULL)) {
		config_errors_add(errors, "there is a port %u already", (unsigned)number);
		json_decref(port);
		return -EEXIST;
	}
	call->extra = json_pack("{s:I}", "id", number);
	api_made(call, "/ports/%u", (unsigned)number);
	if (!call->location) {
		json_decref(port);
		return -ENOMEM;
	}
	return json_array_append_new(document_list(document, "ports"), port) < 0 ? -ENOMEM : 0;
}

void api_ports_post(struct api_call *call)
{
	api_change(call, port_add);
}

static int port_edit(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *port = document_port(document, call->number, NULL);

	if (!port)
		return document_no_port(call->number, errors);
	if (document_keeps(&config_port_object, port, call->body, errors) < 0)
		return -EINVAL;
	return document_merge(port, call->body);
}

void api_port_patch(struct api_call *call)
{
	api_change(call, port_edit);
}

static int port_remove(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *ports = document_list(document, "ports");
	size_t index;

	if (!document_port(document, call->number, &index))
		return document_no_port(call->number, errors);
	if (json_array_size(ports) == 1) {
		config_errors_add(errors, "port %u is the only port; add another port first",
				  call->number);
		return -EBUSY;
	}
	return json_array_remove(ports, index);
}

void api_port_delete(struct api_call *call)
{
	api_change(call, port_remove);
}

/* ---- ANA ------------------------------------------------------------------------------------ */

/* Marks the groups that the port has states for, or that its namespaces are in. */
static void groups_mark(const struct port *port, uint8_t marks[TARGET_ANA_GROUP_MAX + 1])
{
	for (unsigned i = 0; i < port->ana_count; i++)
		marks[port->ana[i].group] = 1;
	for (unsigned i = 0; i < port->subsystem_count; i++) {
		const struct subsystem *subsystem = port->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++)
			marks[subsystem->namespaces[n].ana_group] = 1;
	}
}

void api_ana_get(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	uint16_t id = call->number <= UINT16_MAX ? (uint16_t)call->number : 0;
	const struct port *port = snapshot ? snapshot_find_port(snapshot, id) : NULL;
	uint8_t marks[TARGET_ANA_GROUP_MAX + 1] = {0};
	json_t *list;

	/* A discovery port beside the document is served too, and has no groups. */
	if (!port && !port_of(call))
		return;
	list = json_array();
	if (port)
		groups_mark(port, marks);
	for (uint32_t group = 1; group <= TARGET_ANA_GROUP_MAX; group++) {
		if (marks[group])
			json_array_append_new(
				list, json_pack("{s:I, s:s}", "group", (json_int_t)group, "state",
						ana_state_name(port_ana_state(port, group))));
	}
	api_answer(call, json_pack("{s:o}", "groups", list));
}

static int ana_edit(struct api_call *call, json_t *document, struct config_errors *errors)
{
	const json_t *state = json_object_get(call->body, "state");
	uint32_t id = (uint32_t)strtoul(call->params[0], NULL, 0);
	json_t *port = document_port(document, id, NULL);
	json_t *list;
	size_t index;

	if (!port)
		return document_no_port(id, errors);
	if (!json_is_string(state) || json_object_size(call->body) != 1) {
		config_errors_add(errors, "the body must be {\"state\": STATE}, with an ANA state "
					  "such as \"optimized\"");
		return -EINVAL;
	}
	list = document_list(port, "ana");
	if (document_find_number(list, "group", call->number, &index))
		json_array_remove(list, index);
	return json_array_append_new(list, json_pack("{s:I, s:O}", "group",
						     (json_int_t)call->number, "state", state)) < 0
		       ? -ENOMEM
		       : 0;
}

/* Takes two steps where commands may be under way: daemon/ana_change.h. */
void api_ana_put(struct api_call *call)
{
	const char *state = json_string_value(json_object_get(call->body, "state"));
	uint64_t port_id = strtoull(call->params[0], NULL, 0);
	struct ana_change change = {
		.group = call->number,
		.expected_generation = call->expected_generation,
		.is_dry_run = call->is_dry_run,
		.origin = "rest",
		.done = api_change_done,
		.arg = call,
	};

	if (call->number == 0 || call->number > CONFIG_ANA_GROUP_MAX) {
		api_fail(call, 404, "there is no ANA group %u; groups are 1 to %d", call->number,
			 CONFIG_ANA_GROUP_MAX);
		return;
	}
	/* `change` has no second step: the document has this state until another change. */
	if (!state || json_object_size(call->body) != 1 || port_id > UINT16_MAX ||
	    !config_ana_state_parse(state, &change.to) || change.to == ANA_CHANGE) {
		api_change(call, ana_edit);
		return;
	}
	change.port_id = (uint16_t)port_id;
	if (ana_change(call->api->daemon, &change) < 0)
		api_fail(call, 503, "the target is out of memory");
}
