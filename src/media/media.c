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

/* The store itself, under whatever faults. */
static struct media *media_innermost(struct media *media)
{
	struct media *inner;

	while ((inner = media_fault_inner(media)))
		media = inner;
	return media;
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
	struct media *store = media_innermost(media);
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
	return strcmp(media->spec, spec) == 0 &&
	       media_file_is_current(media_innermost((struct media *)media));
}

uint64_t media_used_bytes(struct media *media)
{
	return media_file_used_bytes(media_innermost(media));
}

int media_member(const struct media *media)
{
	if (media_is_lost(media))
		return media_lost_member(media);
	return media_file_member(media_innermost((struct media *)media));
}

int media_member_watch(const struct media *media)
{
	int fd = media_file_lock_fd(media_innermost((struct media *)media));

	return fd < 0 ? -EINVAL : member_lock_watch(fd);
}

bool media_member_is_watched(const struct media *media, int watch_fd)
{
	int fd = media_file_lock_fd(media_innermost((struct media *)media));

	return fd >= 0 && member_lock_is_same(fd, watch_fd);
}

bool media_get_record(const struct media *media, struct media_record *ret_record)
{
	const struct media *store = media_innermost((struct media *)media);

	return media_lost_record(store, ret_record) || media_file_record(store, ret_record);
}

bool media_problem(struct media *media, struct media_error *ret_problem)
{
	return media_lost_problem(media, ret_problem) ||
	       media_file_problem(media_innermost(media), ret_problem);
}

bool media_is_cut(struct media *media)
{
	return media_file_is_cut(media_innermost(media));
}

void media_note_known(struct media *media, const char *path, const struct media_record *known)
{
	media_file_note_known(media_innermost(media), path, known);
}

bool media_is_buffered(const struct media *media)
{
	return media_file_is_buffered(media_innermost((struct media *)media));
}

bool media_is_another(const struct media *media)
{
	return media_file_is_another(media_innermost((struct media *)media));
}

bool media_is_nameless(const struct media *media)
{
	return media_file_is_nameless(media_innermost((struct media *)media));
}

bool media_has_lost_writes(const struct media *media)
{
	return media_file_has_lost_writes(media_innermost((struct media *)media));
}

uint64_t media_loss(const struct media *media)
{
	return media_file_loss(media_innermost((struct media *)media));
}

void media_forgive(struct media *media)
{
	media_file_forgive(media_innermost(media));
}

void media_undo(struct media *media)
{
	media_file_undo(media_innermost(media));
}

int media_sync(struct media *const *media, unsigned count, struct media_error *ret_error)
{
	struct media **stores = calloc(count + 1, sizeof(struct media *));
	int res;

	if (!stores)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < count; i++)
		stores[i] = media_innermost(media[i]);
	res = media_file_sync(stores, count, ret_error);
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
