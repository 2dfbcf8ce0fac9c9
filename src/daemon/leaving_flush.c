/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flushes of backings that leave; see leaving_flush.h. At most FLUSHES_MAX are in flight.
 *
 * A flush that hangs in the kernel outlives the wait: it holds its backing, and is freed when it
 * ends.
 */
#include "daemon/leaving_flush.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/media_registry_private.h"

#include <stdlib.h>
#include <string.h>

#define FLUSHES_MAX 64 /* in flight at a time */
#define LIMIT_NS    (5 * NS_PER_S)

struct leaving_backing {
	struct media_io io;
	struct leaving *leaving;
	struct ns_backing *backing; /* a counted reference; NULL: its flush has ended */
};

struct leaving {
	struct media_registry *registry; /* valid until `done` was called */
	struct reactor_timer limit;
	void (*done)(void *arg); /* NULL: already called */
	void *arg;
	unsigned count, next, busy;
	bool is_walking; /* leaving_go is on the stack */
	struct leaving_backing backings[];
};

static bool backing_leaves(const struct backing_entry *entry)
{
	const struct media *media = ns_backing_media(entry->backing);

	return !entry->entry.is_used && !entry->entry.is_new && media->has_volatile_cache &&
	       !media_is_lost(media) && ns_live_has_written(ns_backing_live(entry->backing));
}

static void backing_not_flushed(struct media_registry *registry, const struct ns_backing *backing,
				const char *why)
{
	const struct media *media = ns_backing_media(backing);

	log_error("control",
		  "%s: the flush of the removed namespace failed (%s): acknowledged writes may be "
		  "lost; its hosts are notified if the namespace comes back",
		  media->spec, why);
	if (ns_live_note_loss(ns_backing_live(backing), media_loss(media), &registry->keeper) < 0)
		log_error("control", "%s: cannot save that acknowledged writes may be lost",
			  media->spec);
	if (registry->peers)
		peers_note_loss(registry->peers);
}

static void leaving_done(struct leaving *leaving)
{
	void (*done)(void *arg) = leaving->done;

	leaving->done = NULL;
	reactor_timer_cancel(&leaving->limit);
	done(leaving->arg);
}

static void leaving_go(struct leaving *leaving);

static void backing_flushed(struct media_io *io, int res)
{
	struct leaving_backing *at = container_of(io, struct leaving_backing, io);
	struct leaving *leaving = at->leaving;

	if (res < 0 && leaving->done)
		backing_not_flushed(leaving->registry, at->backing, strerror(-res));
	ns_backing_put(at->backing);
	at->backing = NULL;
	leaving->busy--;
	if (!leaving->is_walking)
		leaving_go(leaving);
}

static void leaving_go(struct leaving *leaving)
{
	leaving->is_walking = true;
	while (leaving->done && leaving->next < leaving->count && leaving->busy < FLUSHES_MAX) {
		leaving->busy++;
		media_submit(&leaving->backings[leaving->next++].io);
	}
	leaving->is_walking = false;
	if (leaving->busy > 0)
		return;
	if (leaving->done)
		leaving_done(leaving);
	free(leaving);
}

static void on_limit(struct reactor_timer *timer)
{
	struct leaving *leaving = container_of(timer, struct leaving, limit);

	for (unsigned i = 0; i < leaving->count; i++) {
		struct leaving_backing *at = &leaving->backings[i];

		if (!at->backing)
			continue;
		backing_not_flushed(leaving->registry, at->backing, "timed out");
		if (i >= leaving->next) {
			ns_backing_put(at->backing);
			at->backing = NULL;
		}
	}
	leaving->next = leaving->count;
	/* Flushes in flight hold their backings. */
	leaving_done(leaving);
}

static struct leaving *leaving_create(struct media_registry *registry, struct reactor *control,
				      unsigned count)
{
	struct leaving *leaving =
		calloc(1, sizeof(*leaving) + count * sizeof(leaving->backings[0]));

	if (!leaving)
		return NULL;
	list_for_each(node, &registry->backings) {
		const struct backing_entry *entry =
			list_entry(node, struct backing_entry, entry.node);
		struct leaving_backing *at = &leaving->backings[leaving->count];

		if (!backing_leaves(entry))
			continue;
		leaving->count++;
		at->leaving = leaving;
		at->backing = ns_backing_get(entry->backing);
		at->io.reactor = control;
		at->io.media = ns_backing_media(entry->backing);
		at->io.kind = MEDIA_FLUSH;
		at->io.done = backing_flushed;
	}
	return leaving;
}

void leaving_flush(struct media_registry *registry, struct reactor *control,
		   void (*done)(void *arg), void *arg)
{
	struct leaving *leaving;
	unsigned count = 0;

	list_for_each(node, &registry->backings)
		count += backing_leaves(list_entry(node, struct backing_entry, entry.node));
	if (count == 0) {
		done(arg);
		return;
	}
	leaving = leaving_create(registry, control, count);
	if (!leaving) {
		list_for_each(node, &registry->backings) {
			const struct backing_entry *entry =
				list_entry(node, struct backing_entry, entry.node);

			if (backing_leaves(entry))
				backing_not_flushed(registry, entry->backing, "out of memory");
		}
		done(arg);
		return;
	}
	leaving->registry = registry;
	leaving->done = done;
	leaving->arg = arg;
	reactor_timer_init(control, &leaving->limit, on_limit);
	reactor_timer_arm(&leaving->limit, reactor_now_ns(control) + LIMIT_NS);
	leaving_go(leaving);
}
