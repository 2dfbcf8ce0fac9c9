/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's whole document of desired state: read, replace (all or nothing), and translate
 * from a document that nvmetcli, the kernel target's tool, has saved.
 *
 * Control reactor only.
 */
#include "api/api_call.h"

#include <errno.h>

void api_config_get(struct api_call *call)
{
	const struct config *config = daemon_config(call->api->daemon);

	api_answer(call, config ? config_to_json(config) : NULL);
}

static int config_replace(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_object_clear(document);
	return json_object_update(document, call->body) < 0 ? -ENOMEM : 0;
}

void api_config_put(struct api_call *call)
{
	/* Forced: a file or device that has grown by itself is a change too. */
	call->is_forced = true;
	api_change(call, config_replace);
}

static json_t *notes_json(const struct config_errors *notes)
{
	unsigned kept = notes->count < CONFIG_ERRORS_MAX ? notes->count : CONFIG_ERRORS_MAX;
	json_t *list = json_array();

	for (unsigned i = 0; i < kept; i++)
		json_array_append_new(list, json_string(notes->texts[i]));
	return list;
}

void api_config_import(struct api_call *call)
{
	struct config_errors errors = {.count = 0}, notes = {.count = 0};
	json_t *document = config_import_nvmetcli(call->body, &errors, &notes);

	if (!document) {
		api_fail_errors(call, 400, "not a document of `nvmetcli save`", &errors);
		return;
	}
	json_decref(call->body);
	call->body = document;
	call->extra = json_pack("{s:O, s:o}", "config", document, "notes", notes_json(&notes));
	/* Without apply the document is only checked. */
	call->is_dry_run |= !call->is_apply;
	api_change(call, config_replace);
}
