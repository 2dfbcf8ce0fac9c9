/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's former generations of the desired state: list them, show one, and return to one. A
 * rollback is a change like any other: checked, applied, kept and audited, or nothing happens.
 *
 * Control reactor only.
 */
#include "api/api_call.h"
#include "base/text.h"
#include "daemon/rollback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static json_t *generation_json(const struct api_call *call,
			       const struct store_generation *generation)
{
	bool is_current = generation->generation == daemon_generation(call->api->daemon);

	return json_pack("{s:I, s:f, s:s, s:b, s:o}", "generation",
			 (json_int_t)generation->generation, "time_s",
			 (double)generation->time_ms / 1000, "origin", generation->origin,
			 "current", is_current, "diff", api_diff_json(generation->diff));
}

struct history_listing {
	const struct api_call *call;
	uint64_t wanted; /* 0: all */
	json_t *list;
};

static void listing_add(void *arg, const struct store_generation *generation)
{
	struct history_listing *listing = arg;

	if (listing->wanted == 0 || listing->wanted == generation->generation)
		json_array_append_new(listing->list, generation_json(listing->call, generation));
}

/* 0, or -errno after the call was answered. */
static int listing_read(struct api_call *call, uint64_t wanted, json_t **ret_list)
{
	struct history_listing listing = {.call = call, .wanted = wanted, .list = json_array()};
	int res = store_list_history(daemon_store(call->api->daemon), listing_add, &listing);

	*ret_list = listing.list;
	if (res < 0) {
		json_decref(listing.list);
		api_fail(call, 500, "the state store cannot be read: %s", strerror(-res));
	}
	return res;
}

void api_history_get(struct api_call *call)
{
	json_t *list;

	if (listing_read(call, 0, &list) == 0)
		api_answer(call, json_pack("{s:o}", "history", list));
}

/* Takes the generation in the path. 0, or -1 after the call was answered. */
static int generation_take(struct api_call *call, uint64_t *ret_generation)
{
	if (text_parse_u64(call->params[0], INT64_MAX, ret_generation) == 0 && *ret_generation > 0)
		return 0;
	api_fail(call, 404, "a generation must be a number from 1 on");
	return -1;
}

void api_generation_get(struct api_call *call)
{
	json_t *document, *list, *answer;
	struct store_error error;
	uint64_t generation;
	char *folder;
	int res;

	if (generation_take(call, &generation) < 0)
		return;
	res = store_load_generation(daemon_store(call->api->daemon), generation, &document, &folder,
				    &error);
	if (res < 0) {
		api_fail(call, res == -ENOENT ? 404 : 500, "%s", error.text);
		return;
	}
	free(folder);
	if (listing_read(call, generation, &list) < 0) {
		json_decref(document);
		return;
	}
	answer = json_incref(json_array_get(list, 0));
	json_decref(list);
	json_object_set_new(answer, "config", document);
	api_answer(call, answer);
}

static int generation_restore(struct api_call *call, json_t *document, struct config_errors *errors)
{
	uint64_t generation = 0;

	/* Cannot fail: the number was checked when the call came. */
	text_parse_u64(call->params[0], INT64_MAX, &generation);
	return rollback_edit(daemon_store(call->api->daemon), generation, document, errors);
}

void api_rollback_post(struct api_call *call)
{
	uint64_t generation;

	if (generation_take(call, &generation) < 0)
		return;
	snprintf(call->origin, sizeof(call->origin), "rest, rollback to generation %llu",
		 (unsigned long long)generation);
	api_change(call, generation_restore);
}
