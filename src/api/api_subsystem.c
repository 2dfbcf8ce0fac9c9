/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's subsystems and the hosts that they allow. Every change edits the document of
 * desired state. The edited document is checked as a whole, so that each rule is in one place
 * (config/config*.c).
 *
 * Control reactor only.
 */
#include "api/api_call.h"
#include "base/text.h"
#include "config/fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct config_subsystem *api_subsystem_of(struct api_call *call)
{
	const struct config *config = daemon_config(call->api->daemon);
	const struct config_subsystem *subsystem =
		config ? config_find_subsystem(config, call->params[0]) : NULL;

	if (!subsystem || subsystem->is_implied) {
		api_fail(call, 404,
			 "there is no subsystem %.223s; `weft ctl subsystem list` lists them",
			 call->params[0]);
		return NULL;
	}
	return subsystem;
}

/* Lists have the number of namespaces only, because a subsystem may have thousands. */
static json_t *subsystem_json(const struct config_subsystem *subsystem, bool has_namespaces)
{
	struct config_subsystem shown = *subsystem;
	json_t *object;

	if (!has_namespaces)
		shown.ns_count = 0;
	object = config_subsystem_to_json(&shown);
	if (!object)
		return NULL;
	json_object_set_new(object, "namespace_count", json_integer(subsystem->ns_count));
	if (!has_namespaces)
		json_object_del(object, "namespaces");
	return object;
}

void api_subsystems_get(struct api_call *call)
{
	const struct config *config = daemon_config(call->api->daemon);
	json_t *list = json_array();

	for (unsigned i = 0; config && i < config->subsystem_count; i++) {
		if (!config->subsystems[i].is_implied)
			json_array_append_new(list, subsystem_json(&config->subsystems[i], false));
	}
	api_answer(call, json_pack("{s:o}", "subsystems", list));
}

void api_subsystem_get(struct api_call *call)
{
	const struct config_subsystem *subsystem = api_subsystem_of(call);

	if (subsystem)
		api_answer(call, subsystem_json(subsystem, true));
}

static int subsystem_add(struct api_call *call, json_t *document, struct config_errors *errors)
{
	const char *nqn = json_string_value(json_object_get(call->body, "nqn"));
	char *part;

	if (nqn && document_subsystem(document, nqn, NULL)) {
		config_errors_add(errors, "there is a subsystem %.223s already", nqn);
		return -EEXIST;
	}
	part = text_path_part(nqn ? nqn : "");
	if (part)
		api_made(call, "/subsystems/%s", part);
	free(part);
	if (!call->location)
		return -ENOMEM;
	return json_array_append(document_list(document, "subsystems"), call->body) < 0 ? -ENOMEM
											: 0;
}

void api_subsystems_post(struct api_call *call)
{
	api_change(call, subsystem_add);
}

static int subsystem_edit(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *subsystem = document_subsystem(document, call->params[0], NULL);
	const json_t *any, *hosts;

	if (!subsystem)
		return document_no_subsystem(call->params[0], errors);
	if (document_keeps(&config_subsystem_object, subsystem, call->body, errors) < 0)
		return -EINVAL;
	any = json_object_get(call->body, "allow_any_host");
	hosts = json_object_get(call->body, "hosts");
	if (json_is_true(any) && json_array_size(hosts) > 0) {
		config_errors_add(errors, "hosts: cannot be combined with \"allow_any_host\"; "
					  "leave out one of the two");
		return -EINVAL;
	}
	/* As in a document, a list of hosts turns "allow_any_host" off. */
	if (json_is_array(hosts) && !any)
		json_object_set_new(subsystem, "allow_any_host", json_false());
	return document_merge(subsystem, call->body);
}

void api_subsystem_patch(struct api_call *call)
{
	api_change(call, subsystem_edit);
}

/* Removes the subsystem from all ports that name it. */
static void ports_forget(json_t *document, const char *nqn)
{
	json_t *port;
	size_t p, n;

	json_array_foreach(document_list(document, "ports"), p, port)
	{
		json_t *list = json_object_get(port, "subsystems");

		n = document_index_of(list, nqn);
		if (n != SIZE_MAX)
			json_array_remove(list, n);
	}
}

static int subsystem_remove(struct api_call *call, json_t *document, struct config_errors *errors)
{
	size_t index;

	if (!document_subsystem(document, call->params[0], &index))
		return document_no_subsystem(call->params[0], errors);
	ports_forget(document, call->params[0]);
	return json_array_remove(document_list(document, "subsystems"), index);
}

void api_subsystem_delete(struct api_call *call)
{
	api_change(call, subsystem_remove);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

void api_hosts_get(struct api_call *call)
{
	const struct config_subsystem *subsystem = api_subsystem_of(call);
	json_t *list;

	if (!subsystem)
		return;
	list = json_array();
	for (unsigned i = 0; i < subsystem->host_count; i++)
		json_array_append_new(list, json_string(subsystem->hosts[i]));
	api_answer(call,
		   json_pack("{s:b, s:o, s:o}", "allow_any_host", subsystem->allows_any_host,
			     "hosts", list, "rights", config_subsystem_rights_to_json(subsystem)));
}

static int host_add(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *subsystem = document_subsystem(document, call->params[0], NULL);
	const json_t *nqn = json_object_get(call->body, "nqn");
	char *subsystem_part, *host_part;

	if (!subsystem)
		return document_no_subsystem(call->params[0], errors);
	if (!json_is_string(nqn) || json_object_size(call->body) != 1) {
		config_errors_add(errors, "the body must be {\"nqn\": \"NQN of the host\"}");
		return -EINVAL;
	}
	if (json_is_true(json_object_get(subsystem, "allow_any_host"))) {
		config_errors_add(
			errors,
			"the subsystem allows any host, so that adding one would restrict "
			"nothing; to allow only this host: weft ctl subsystem set %.223s "
			"--host %.223s",
			call->params[0], json_string_value(nqn));
		return -EBUSY;
	}
	if (document_index_of(json_object_get(subsystem, "hosts"), json_string_value(nqn)) !=
	    SIZE_MAX) {
		config_errors_add(errors, "the host %.223s is allowed already",
				  json_string_value(nqn));
		return -EEXIST;
	}
	subsystem_part = text_path_part(call->params[0]);
	host_part = text_path_part(json_string_value(nqn));
	if (subsystem_part && host_part)
		api_made(call, "/subsystems/%s/hosts/%s", subsystem_part, host_part);
	free(subsystem_part);
	free(host_part);
	if (!call->location)
		return -ENOMEM;
	return json_array_append_new(document_list(subsystem, "hosts"), json_deep_copy(nqn)) < 0
		       ? -ENOMEM
		       : 0;
}

void api_hosts_post(struct api_call *call)
{
	api_change(call, host_add);
}

static int host_remove(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *subsystem = document_subsystem(document, call->params[0], NULL);
	size_t index;

	if (!subsystem)
		return document_no_subsystem(call->params[0], errors);
	index = document_index_of(json_object_get(subsystem, "hosts"), call->params[1]);
	if (index == SIZE_MAX) {
		config_errors_add(errors, "the subsystem %.223s does not list the host %.223s",
				  call->params[0], call->params[1]);
		return -ENOENT;
	}
	if (json_is_true(json_object_get(subsystem, "allow_any_host"))) {
		config_errors_add(errors,
				  "the subsystem allows any host, so that %.223s could still "
				  "connect; to allow no host: weft ctl subsystem set %.223s --host "
				  "none",
				  call->params[1], call->params[0]);
		return -EBUSY;
	}
	/* A host that is allowed again later must not get its former rights. */
	json_object_del(json_object_get(subsystem, "rights"), call->params[1]);
	return json_array_remove(document_list(subsystem, "hosts"), index);
}

void api_host_delete(struct api_call *call)
{
	api_change(call, host_remove);
}
