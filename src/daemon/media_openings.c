/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Openings of media in one transaction: see daemon/media_openings.h.
 *
 * An opening has two owners: the transaction, until the transaction has ended, and its driver,
 * until the driver has called `done`. The last one frees the opening. Control thread.
 */
#include "daemon/media_openings.h"

#include "base/clock.h"
#include "daemon/media_registry.h"
#include "media/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct medium_opening {
	struct list node;
	struct media_openings *openings; /* NULL: the transaction has ended */
	struct media_open_request request;
	/* Copies of what the terms point to, for as long as the driver needs them. */
	struct media_terms terms;
	struct media_record known;
	char told[MEDIA_DEVICE_ID_BYTES];
	struct media_count *count;
	/* What the opening is for. */
	struct uuid uuid;
	char *spec;
	bool is_in_progress; /* the driver has not called `done` yet */
	/* The result for the transaction. */
	bool has_result;
	int res;
	struct media *media;
	struct media_error error;
};

void media_openings_init(struct media_openings *openings, struct media_count *count)
{
	list_init(&openings->all);
	openings->count = count;
}

static void opening_free(struct medium_opening *opening)
{
	media_count_end(opening->count);
	free(opening->spec);
	free(opening);
}

/* Undoes and closes a medium that was never served. NULL: none. */
static void medium_discard(struct media *media, struct media_count *count)
{
	if (!media)
		return;
	media_count_add(count, media);
	(void)media_undo(media);
	media_close(media);
}

static bool is_any_awaited(const struct media_openings *openings)
{
	list_for_each(node, &openings->all) {
		if (!list_entry(node, struct medium_opening, node)->has_result)
			return true;
	}
	return false;
}

/* ---- the wait ------------------------------------------------------------------------------- */

static void wait_over(struct reactor_msg *msg)
{
	struct media_openings *openings = container_of(msg, struct media_openings, msg);
	void (*done)(void *arg, int res) = openings->done;

	openings->is_posted = false;
	openings->done = NULL;
	openings->has_waited = true;
	done(openings->arg, openings->res);
}

static void wait_end(struct media_openings *openings, int res)
{
	if (!openings->done || openings->is_posted)
		return;
	openings->is_posted = true;
	openings->res = res;
	reactor_timer_cancel(&openings->limit);
	reactor_post(openings->control, &openings->msg, wait_over);
}

/* The opening is cancelled with the end of its transaction. A refused change names the medium; the
 * log of a start does not. */
static void opening_time_out(struct medium_opening *opening)
{
	opening->has_result = true;
	opening->res = -ETIMEDOUT;
	if (opening->terms.must_not_wait)
		media_fail(&opening->error, 0,
			   "the medium has not opened within %d s: check that its file or device "
			   "can be reached, then try again",
			   MEDIA_OPEN_LIMIT_S);
	else
		media_fail(&opening->error, 0,
			   "%.120s has not opened within %d s: check that its file or device can "
			   "be reached",
			   opening->spec, MEDIA_OPEN_LIMIT_S);
}

static void limit_due(struct reactor_timer *timer)
{
	struct media_openings *openings = container_of(timer, struct media_openings, limit);

	list_for_each(node, &openings->all) {
		struct medium_opening *opening = list_entry(node, struct medium_opening, node);

		if (!opening->has_result)
			opening_time_out(opening);
	}
	wait_end(openings, 0);
}

void media_openings_wait(struct media_openings *openings, struct reactor *control,
			 void (*done)(void *arg, int res), void *arg)
{
	CHECK(!openings->done);
	openings->control = control;
	openings->done = done;
	openings->arg = arg;
	reactor_timer_init(control, &openings->limit, limit_due);
	if (is_any_awaited(openings))
		reactor_timer_arm(&openings->limit,
				  reactor_now_ns(control) + MEDIA_OPEN_LIMIT_S * NS_PER_S);
	else
		wait_end(openings, 0);
}

void media_openings_stop(struct media_openings *openings)
{
	wait_end(openings, -ESHUTDOWN);
}

/* ---- openings ------------------------------------------------------------------------------- */

static void opening_done(struct media_open_request *request, int res)
{
	struct medium_opening *opening = container_of(request, struct medium_opening, request);
	struct media_openings *openings = opening->openings;

	opening->is_in_progress = false;
	if (!openings || opening->has_result) {
		medium_discard(request->media, opening->count);
		if (!openings)
			opening_free(opening);
		return;
	}
	opening->has_result = true;
	opening->res = res;
	opening->media = request->media;
	if (res < 0)
		opening->error = request->error;
	if (!is_any_awaited(openings))
		wait_end(openings, 0);
}

static struct medium_opening *opening_create(struct media_openings *openings,
					     const struct media_wish *wish,
					     const struct media_terms *terms)
{
	struct medium_opening *opening = calloc(1, sizeof(*opening));

	if (!opening)
		return NULL;
	opening->spec = strdup(wish->spec);
	if (!opening->spec) {
		free(opening);
		return NULL;
	}
	opening->openings = openings;
	opening->request.done = opening_done;
	opening->uuid = *wish->uuid;
	opening->terms = *terms;
	if (terms->known) {
		opening->known = *terms->known;
		opening->terms.known = &opening->known;
	}
	if (terms->told) {
		memcpy(opening->told, terms->told, sizeof(opening->told));
		opening->terms.told = opening->told;
	}
	opening->count = openings->count;
	media_count_begin(opening->count);
	list_push_back(&openings->all, &opening->node);
	return opening;
}

/* The transaction needs the opening no more. */
static void opening_leave(struct medium_opening *opening)
{
	list_remove(&opening->node);
	opening->openings = NULL;
	medium_discard(opening->media, opening->count);
	if (opening->is_in_progress)
		media_open_cancel(&opening->request); /* may free the opening */
	else
		opening_free(opening);
}

static struct medium_opening *opening_find(const struct media_openings *openings,
					   const struct media_wish *wish)
{
	list_for_each(node, &openings->all) {
		struct medium_opening *opening = list_entry(node, struct medium_opening, node);

		if (uuid_equal(&opening->uuid, wish->uuid) &&
		    strcmp(opening->spec, wish->spec) == 0)
			return opening;
	}
	return NULL;
}

bool media_openings_was_late(const struct media_openings *openings, const struct media_wish *wish)
{
	return opening_find(openings, wish) != NULL;
}

static int opening_take(struct medium_opening *opening, const struct media_terms *terms,
			struct media **ret_media, struct media_error *ret_error)
{
	if (terms->told)
		memcpy(terms->told, opening->told, sizeof(opening->told));
	if (opening->res < 0)
		*ret_error = opening->error;
	else
		*ret_media = opening->media;
	opening->media = NULL;
	return opening->res;
}

int media_openings_open(struct media_openings *openings, const struct media_wish *wish,
			const struct media_terms *terms, struct media **ret_media,
			struct media_error *ret_error)
{
	struct medium_opening *opening = opening_find(openings, wish);
	bool was_late = opening != NULL;
	int res;

	if (!opening) {
		opening = opening_create(openings, wish, terms);
		if (!opening)
			return media_fail(ret_error, -ENOMEM, "out of memory");
		opening->is_in_progress = true;
		media_open_begin(&opening->request, opening->spec, &opening->terms);
	}
	if (!opening->has_result)
		return -EINPROGRESS;
	res = opening_take(opening, terms, ret_media, ret_error);
	/* A late failure stays, so that its transaction does not try again. */
	if (res == 0 || !was_late)
		opening_leave(opening);
	return res;
}

void media_openings_end(struct media_openings *openings)
{
	CHECK(!openings->done);
	openings->has_waited = false;
	list_for_each_safe(node, &openings->all)
		opening_leave(list_entry(node, struct medium_opening, node));
}
