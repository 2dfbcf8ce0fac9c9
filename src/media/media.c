/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions about an open medium, and its end. A wrapper passes each question to its store, the
 * innermost medium (media_store). opening.c opens media.
 *
 * Control thread, and may block, except media_loss.
 */
#include "media/driver.h"
#include "media/event.h"
#include "media/member_lock.h"
#include "media/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool media_is_loss(int res)
{
	switch (res) {
	case 0:
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -EBUSY: /* also -EWOULDBLOCK: another process has the store open */
	case -EAGAIN:
	case -EINPROGRESS: /* still opening */
	case -EINVAL:      /* the spec is wrong */
	case -EINTR:
		return false;
	default:
		return true;
	}
}

struct media *media_store(const struct media *media)
{
	while (media->is_wrapper)
		media = media->children[0];
	return (struct media *)media;
}

void media_inherit(struct media *to, const struct media *from)
{
	to->size_bytes = from->size_bytes;
	to->block_bytes = from->block_bytes;
	to->buffer_align_bytes = from->buffer_align_bytes;
	to->has_volatile_cache = from->has_volatile_cache;
	to->is_read_only = from->is_read_only;
	to->is_thin = from->is_thin;
	to->can_discard = from->can_discard;
	to->reads_zero_after_discard = from->reads_zero_after_discard;
	to->knows_extents = from->knows_extents;
	to->works_in_submit = from->works_in_submit;
	to->optimal_io_bytes = from->optimal_io_bytes;
	to->write_granularity_bytes = from->write_granularity_bytes;
	to->discard_granularity_bytes = from->discard_granularity_bytes;
	to->boundary_bytes = from->boundary_bytes;
}

static int reopen_parsed(struct media *store, const struct media_spec *spec,
			 struct media **ret_media, struct media_error *ret_error);

/* Reopens the store, then opens the wrapper around it. */
static int reopen_around(struct media *store, const struct media_spec *spec,
			 struct media **ret_media, struct media_error *ret_error)
{
	struct media **children = calloc(1, sizeof(struct media *));
	struct media_opening opening = {
		.spec = spec, .children = children, .child_count = 1, .is_reopen = true};
	int res;

	if (!children)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	res = reopen_parsed(store, &spec->children[0], &children[0], ret_error);
	if (res == 0) {
		res = spec->driver->open(&opening, ret_media, ret_error);
		CHECK(res != -EINPROGRESS);
		if (res < 0) {
			(void)media_undo(children[0]);
			media_close(children[0]);
		}
	}
	if (res < 0) {
		free(children);
		return res;
	}
	(*ret_media)->children = children;
	(*ret_media)->child_count = 1;
	(*ret_media)->is_wrapper = true;
	return 0;
}

static int reopen_parsed(struct media *store, const struct media_spec *spec,
			 struct media **ret_media, struct media_error *ret_error)
{
	char *text = strdup(spec->text);
	int res;

	if (!text)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	if (spec->is_wrapper)
		res = reopen_around(store, spec, ret_media, ret_error);
	else
		res = store->ops->reopen(store, spec, ret_media, ret_error);
	if (res < 0) {
		free(text);
		return res;
	}
	(*ret_media)->spec = text;
	return 0;
}

int media_reopen(struct media *media, const char *spec, struct media **ret_media,
		 struct media_error *ret_error)
{
	struct media *store = media_store(media);
	struct media_spec parsed;
	int res = media_spec_parse(spec, &parsed, ret_error);

	if (res < 0)
		return res;
	/* The children would stay as they are. */
	if (store->child_count > 0)
		res = media_fail(ret_error, -EBUSY,
				 "%s: a medium made of other media cannot change while it is "
				 "served; remove it, then add it again",
				 store->ops->name);
	else if (!store->ops->reopen)
		res = media_fail(ret_error, -EBUSY, "%s: cannot change while it is served",
				 store->ops->name);
	else
		res = reopen_parsed(store, &parsed, ret_media, ret_error);
	media_spec_free(&parsed);
	return res;
}

bool media_is_current(const struct media *media, const char *spec)
{
	const struct media *store = media_store(media);

	return strcmp(media->spec, spec) == 0 &&
	       (!store->ops->is_current || store->ops->is_current(store));
}

uint64_t media_used_bytes(struct media *media)
{
	struct media *store = media_store(media);

	return store->ops->used_bytes ? store->ops->used_bytes(store) : store->size_bytes;
}

int media_member(const struct media *media)
{
	const struct media *store = media_store(media);

	return store->ops->member ? store->ops->member(store) : -1;
}

static int lock_fd(const struct media *media)
{
	const struct media *store = media_store(media);

	return store->ops->lock_fd ? store->ops->lock_fd(store) : -1;
}

int media_member_watch(const struct media *media)
{
	int fd = lock_fd(media);

	return fd < 0 ? -EINVAL : member_lock_watch(fd);
}

bool media_member_is_watched(const struct media *media, int watch_fd)
{
	int fd = lock_fd(media);

	return fd >= 0 && member_lock_is_same(fd, watch_fd);
}

bool media_get_record(const struct media *media, struct media_record *ret_record)
{
	const struct media *store = media_store(media);

	return store->ops->get_record && store->ops->get_record(store, ret_record);
}

bool media_problem(struct media *media, struct media_error *ret_problem)
{
	struct media *store = media_store(media);

	return store->ops->problem && store->ops->problem(store, ret_problem);
}

bool media_is_cut(struct media *media)
{
	struct media *store = media_store(media);

	return store->ops->is_cut && store->ops->is_cut(store);
}

void media_note_known(struct media *media, const char *path, const struct media_record *known)
{
	struct media *store = media_store(media);

	if (store->ops->note_known)
		store->ops->note_known(store, path, known);
}

bool media_is_buffered(const struct media *media)
{
	const struct media *store = media_store(media);

	return store->ops->is_buffered && store->ops->is_buffered(store);
}

bool media_is_another(const struct media *media)
{
	const struct media *store = media_store(media);

	return store->ops->is_another && store->ops->is_another(store);
}

bool media_is_nameless(const struct media *media)
{
	const struct media *store = media_store(media);

	return store->ops->is_nameless && store->ops->is_nameless(store);
}

bool media_has_lost_writes(const struct media *media)
{
	const struct media *store = media_store(media);

	return store->ops->has_lost_writes && store->ops->has_lost_writes(store);
}

uint64_t media_loss(const struct media *media)
{
	const struct media *store = media_store(media);

	return store->ops->loss ? store->ops->loss(store) : 0;
}

void media_forgive(struct media *media)
{
	struct media *store = media_store(media);

	if (store->ops->forgive)
		store->ops->forgive(store);
}

bool media_undo(struct media *media)
{
	struct media *store = media_store(media);

	return !store->ops->undo || store->ops->undo(store);
}

/* Moves all stores of the same kind as stores[0] to `alike` and returns their number. */
static unsigned stores_take_alike(struct media **stores, unsigned count, struct media **alike)
{
	const struct media_ops *ops = stores[0]->ops;
	unsigned taken = 0;

	for (unsigned i = 0; i < count; i++) {
		if (stores[i] && stores[i]->ops == ops) {
			alike[taken++] = stores[i];
			stores[i] = NULL;
		}
	}
	return taken;
}

int media_sync(struct media *const *media, unsigned count, struct media_error *ret_error)
{
	struct media **stores = calloc(2 * (size_t)count + 1, sizeof(struct media *));
	struct media **alike;
	int res = 0;

	if (!stores)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	alike = stores + count;
	for (unsigned i = 0; i < count; i++)
		stores[i] = media_store(media[i]);
	for (unsigned i = 0; i < count && res == 0; i++) {
		const struct media_ops *ops = stores[i] ? stores[i]->ops : NULL;

		if (ops && ops->sync)
			res = ops->sync(alike, stores_take_alike(stores + i, count - i, alike),
					ret_error);
	}
	free(stores);
	return res;
}

int media_check_spec(const char *spec, struct media_error *ret_error)
{
	struct media_spec parsed;
	int res = media_spec_parse(spec, &parsed, ret_error);

	if (res == 0)
		media_spec_free(&parsed);
	return res;
}

void media_count_begin(struct media_count *count)
{
	count->open++;
	count->ending++;
}

void media_count_end(struct media_count *count)
{
	count->open--;
	count->ending--;
	count->ended(count);
}

void media_count_add(struct media_count *count, struct media *media)
{
	media->count = count;
	count->open++;
}

static void media_close_now(struct media *media)
{
	struct media **children = media->children;
	struct media_count *count = media->count;
	unsigned child_count = media->child_count;
	char *text = media->spec;

	media_channel_close(media);
	media->ops->close(media);
	for (unsigned i = 0; i < child_count; i++) {
		if (count)
			media_count_add(count, children[i]);
		media_close(children[i]);
	}
	free(children);
	free(text);
	if (count)
		media_count_end(count);
}

void media_close(struct media *media)
{
	if (!media)
		return;
	if (media->count)
		media->count->ending++;
	media_states_end(media, media_close_now);
}
