/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's view of reservations (NVMe Base 2.1, section 8.1.22): which namespaces have
 * registered hosts, and which host holds the reservation. An administrator can clear a reservation
 * whose hosts are gone.
 *
 * Control reactor only, which owns the reservations.
 */
#include "api/api_call.h"
#include "ns/reservation.h"
#include "target/reservation_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static json_t *registrants_json(const struct reservation_info *info)
{
	json_t *list = json_array();
	char host[UUID_TEXT_BYTES], key[24];

	for (uint32_t i = 0; i < info->registrant_count; i++) {
		/* A key has 64 bits, more than the JSON numbers of many readers hold. */
		snprintf(key, sizeof(key), "0x%016llx",
			 (unsigned long long)info->registrants[i].key);
		json_array_append_new(list,
				      json_pack("{s:s, s:s}", "host_id",
						uuid_format(&info->registrants[i].host_id, host),
						"key", key));
	}
	return list;
}

/* NULL: no host is registered. */
static json_t *reservation_json(const struct subsystem *subsystem, const struct ns *ns)
{
	struct reservation_info info;
	char holder[UUID_TEXT_BYTES];
	json_t *object;

	reservation_describe(ns_backing_live(ns->backing), &info);
	if (info.registrant_count == 0 && info.type == RESERVATION_NONE)
		return NULL;
	object = json_pack("{s:s, s:I, s:s, s:I, s:b, s:o}", "subsystem", subsystem->nqn, "nsid",
			   (json_int_t)ns->nsid, "type", reservation_type_name(info.type),
			   "generation", (json_int_t)info.generation, "persists_through_power_loss",
			   info.persists, "registrants", registrants_json(&info));
	if (object && info.has_holder)
		json_object_set_new(object, "holder",
				    json_string(uuid_format(&info.holder, holder)));
	return object;
}

void api_reservations_get(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	json_t *list = json_array();

	for (unsigned i = 0; snapshot && i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++) {
			json_t *object = reservation_json(subsystem, &subsystem->namespaces[n]);

			if (object)
				json_array_append_new(list, object);
		}
	}
	api_answer(call, json_pack("{s:o}", "reservations", list));
}

static void reservation_cleared(void *arg, int res)
{
	struct api_call *call = arg;

	if (res < 0)
		api_fail(call, res == -ENOSPC ? 507 : 500, "the reservation was not cleared: %s",
			 strerror(-res));
	else
		api_answer(call, json_pack("{s:b}", "cleared", true));
}

void api_reservation_delete(struct api_call *call)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	const struct subsystem *subsystem =
		snapshot ? snapshot_find_subsystem(snapshot, call->params[0]) : NULL;
	const struct ns *ns = subsystem ? subsystem_find_ns(subsystem, call->number) : NULL;
	struct daemon_facts facts;

	if (!ns) {
		api_fail(call, 404, "there is no namespace %u in subsystem %.223s", call->number,
			 call->params[0]);
		return;
	}
	daemon_get_facts(call->api->daemon, &facts);
	reservation_clear_by_admin(facts.target, ns_backing_live(ns->backing), reservation_cleared,
				   call);
}
