/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing backing stores: a plain switch over the kinds that a spec can name.
 *
 * Control thread; both may block. A new kind is a constructor in spec.h, a name in spec.c and a
 * case here.
 */
#include "media/media.h"
#include "media/member_lock.h"
#include "media/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int open_parsed(const struct media_spec *spec, struct media **ret_media,
		       struct media_error *ret_error);

static int open_fault(const struct media_spec *spec, struct media **ret_media,
		      struct media_error *ret_error)
{
	struct media *inner;
	int res = open_parsed(spec->inner, &inner, ret_error);

	if (res < 0)
		return res;
	res = media_fault_open(spec, inner, ret_media, ret_error);
	if (res < 0)
		media_close(inner);
	return res;
}

static int open_kind(const struct media_spec *spec, struct media **ret_media,
		     struct media_error *ret_error)
{
	switch (spec->kind) {
	case MEDIA_SPEC_FILE:
		return media_file_open(spec, ret_media, ret_error);
	case MEDIA_SPEC_MEM:
		return media_mem_open(spec, ret_media, ret_error);
	case MEDIA_SPEC_NULL:
		return media_null_open(spec, ret_media, ret_error);
	case MEDIA_SPEC_FAULT:
		return open_fault(spec, ret_media, ret_error);
	}
	CHECK(!"a kind of medium without a constructor");
	return -EINVAL;
}

static int open_parsed(const struct media_spec *spec, struct media **ret_media,
		       struct media_error *ret_error)
{
	char *text = strdup(spec->text);
	int res;

	if (!text)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	res = open_kind(spec, ret_media, ret_error);
	if (res < 0) {
		free(text);
		return res;
	}
	(*ret_media)->spec = text;
	return 0;
}

int media_open(const char *spec, struct media **ret_media, struct media_error *ret_error)
{
	struct media_spec parsed;
	int res = media_spec_parse(spec, &parsed, ret_error);

	if (res < 0)
		return res;
	res = open_parsed(&parsed, ret_media, ret_error);
	media_spec_free(&parsed);
	return res;
}

static const struct media_spec *spec_innermost(const struct media_spec *spec)
{
	while (spec->inner)
		spec = spec->inner;
	return spec;
}

int media_open_on(const char *spec, const struct media_terms *terms, struct media **ret_media,
		  struct media_error *ret_error)
{
	struct media_spec parsed, *store;
	int res = media_spec_parse(spec, &parsed, ret_error);

	if (res < 0)
		return res;
	store = (struct media_spec *)spec_innermost(&parsed);
	store->is_shared = terms->is_shared;
	store->member = terms->member;
	store->known = terms->known;
	store->is_recreated = terms->is_recreated;
	store->must_not_wait = terms->must_not_wait;
	store->told = terms->told;
	if (terms->is_recreated && terms->known && store->size_bytes == 0)
		store->size_bytes = terms->known->size_bytes;
	if (store->kind == MEDIA_SPEC_FILE || !terms->is_shared)
		res = open_parsed(&parsed, ret_media, ret_error);
	else
		res = media_fail(ret_error, -EINVAL, "only a file or a block device can be shared");
	media_spec_free(&parsed);
	return res;
}

int media_open_shared(const char *spec, unsigned member, struct media **ret_media,
		      struct media_error *ret_error)
{
	const struct media_terms terms = {.is_shared = true, .member = member};

	return media_open_on(spec, &terms, ret_media, ret_error);
}

bool media_is_loss(int res)
{
	switch (res) {
	case 0:
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -EBUSY: /* and -EWOULDBLOCK: another process has it */
	case -EAGAIN:
	case -EINVAL: /* the spec is wrong */
	case -EINTR:
		return false;
	default:
		return true;
	}
}

/* The store itself, under the media that wrap one other medium. */
static struct media *store_of(const struct media *media)
{
	const struct media *inner;

	while ((inner = media_fault_inner(media)))
		media = inner;
	return (struct media *)media;
}

static int reopen_parsed(struct media *store, const struct media_spec *spec,
			 struct media **ret_media, struct media_error *ret_error)
{
	struct media *inner;
	char *text;
	int res;

	text = strdup(spec->text);
	if (!text)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	if (spec->inner) {
		res = reopen_parsed(store, spec->inner, &inner, ret_error);
		if (res == 0) {
			res = media_fault_open(spec, inner, ret_media, ret_error);
			if (res < 0) {
				media_undo(inner);
				media_close(inner);
			}
		}
	} else {
		res = store->ops->reopen(store, spec, ret_media, ret_error);
	}
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
	struct media *store = store_of(media);
	struct media_spec parsed;
	int res = media_spec_parse(spec, &parsed, ret_error);

	if (res < 0)
		return res;
	if (!store->ops->reopen)
		res = media_fail(ret_error, -EBUSY, "%s: cannot change while it is served",
				 store->ops->name);
	else
		res = reopen_parsed(store, &parsed, ret_media, ret_error);
	media_spec_free(&parsed);
	return res;
}

bool media_is_current(const struct media *media, const char *spec)
{
	const struct media *store = store_of(media);

	return strcmp(media->spec, spec) == 0 &&
	       (!store->ops->is_current || store->ops->is_current(store));
}

uint64_t media_used_bytes(struct media *media)
{
	struct media *store = store_of(media);

	return store->ops->used_bytes ? store->ops->used_bytes(store) : store->size_bytes;
}

int media_member(const struct media *media)
{
	const struct media *store = store_of(media);

	return store->ops->member ? store->ops->member(store) : -1;
}

/* The descriptor that holds the locks of a shared store; -1: the store is not shared. */
static int lock_fd(const struct media *media)
{
	const struct media *store = store_of(media);

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
	const struct media *store = store_of(media);

	return store->ops->get_record && store->ops->get_record(store, ret_record);
}

bool media_problem(struct media *media, struct media_error *ret_problem)
{
	struct media *store = store_of(media);

	return store->ops->problem && store->ops->problem(store, ret_problem);
}

bool media_is_cut(struct media *media)
{
	struct media *store = store_of(media);

	return store->ops->is_cut && store->ops->is_cut(store);
}

void media_note_known(struct media *media, const char *path, const struct media_record *known)
{
	struct media *store = store_of(media);

	if (store->ops->note_known)
		store->ops->note_known(store, path, known);
}

bool media_is_buffered(const struct media *media)
{
	const struct media *store = store_of(media);

	return store->ops->is_buffered && store->ops->is_buffered(store);
}

bool media_is_another(const struct media *media)
{
	const struct media *store = store_of(media);

	return store->ops->is_another && store->ops->is_another(store);
}

bool media_is_nameless(const struct media *media)
{
	const struct media *store = store_of(media);

	return store->ops->is_nameless && store->ops->is_nameless(store);
}

bool media_has_lost_writes(const struct media *media)
{
	const struct media *store = store_of(media);

	return store->ops->has_lost_writes && store->ops->has_lost_writes(store);
}

uint64_t media_loss(const struct media *media)
{
	const struct media *store = store_of(media);

	return store->ops->loss ? store->ops->loss(store) : 0;
}

void media_forgive(struct media *media)
{
	struct media *store = store_of(media);

	if (store->ops->forgive)
		store->ops->forgive(store);
}

void media_undo(struct media *media)
{
	struct media *store = store_of(media);

	if (store->ops->undo)
		store->ops->undo(store);
}

/* Moves the stores of the first one's kind to `alike`; returns how many these are. */
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
		stores[i] = store_of(media[i]);
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

void media_close(struct media *media)
{
	char *text;

	if (!media)
		return;
	text = media->spec;
	media->ops->close(media);
	free(text);
}
