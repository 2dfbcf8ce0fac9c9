/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's view of namespaces that were removed and of which something is kept: see
 * daemon/removed_ns.h. Control reactor only.
 */
#include "api/api_call.h"
#include "daemon/media_registry.h"

#include <errno.h>
#include <string.h>

static void removed_look(void *arg, const struct uuid *uuid, const char *path, uint64_t since_s)
{
	char text[UUID_TEXT_BYTES];

	json_array_append_new(arg, json_pack("{s:s, s:s, s:I}", "uuid", uuid_format(uuid, text),
					     "path", path, "removed_s", (json_int_t)since_s));
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
		api_fail(call, 404, "nothing is kept of a removed namespace %.64s",
			 call->params[0]);
	else if (res < 0)
		api_fail(call, res == -ENOSPC ? 507 : 500, "it was not dropped: %s",
			 strerror(-res));
	else
		api_answer(call, json_pack("{s:b}", "dropped", true));
}
