/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's view of removed namespaces, and of what is kept of them: see daemon/removed_ns.h.
 * Control reactor only.
 */
#include "api/api_call.h"
#include "daemon/media_registry.h"
#include "daemon/removed_ns.h"
#include "ns/ns_live.h"

#include <errno.h>
#include <string.h>

static void removed_look(void *arg, const struct removed_ns *removed)
{
	json_t *kept = json_array();
	char text[UUID_TEXT_BYTES];

	if (removed->kept & NS_LIVE_HAS_RESERVATION)
		json_array_append_new(kept, json_string("reservation"));
	if (removed->kept & NS_LIVE_HAS_BAD_BLOCKS)
		json_array_append_new(kept, json_string("bad-blocks"));
	json_array_append_new(arg,
			      json_pack("{s:s, s:s, s:I, s:o}", "uuid",
					uuid_format(&removed->uuid, text), "path", removed->path,
					"removed_s", (json_int_t)removed->since_s, "kept", kept));
}

void api_removed_get(struct api_call *call)
{
	json_t *list = json_array();

	media_registry_each_removed(daemon_registry(call->api->daemon), removed_look, list);
	api_answer(call, json_pack("{s:o}", "removed", list));
}

void api_removed_delete(struct api_call *call)
{
	struct uuid uuid;
	int res = uuid_parse(call->params[0], &uuid) == 0
			  ? media_registry_drop_removed(daemon_registry(call->api->daemon), &uuid)
			  : -ENOENT;

	if (res == -ENOENT)
		api_fail(call, 404,
			 "there is no removed namespace %.64s with kept state; `weft ctl removed` "
			 "lists them",
			 call->params[0]);
	else if (res < 0)
		api_fail(call, res == -ENOSPC ? 507 : 500, "cannot drop the kept state: %s",
			 strerror(-res));
	else
		api_answer(call, json_pack("{s:b}", "dropped", true));
}
