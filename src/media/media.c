/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing backing stores: a plain switch over the kinds that a spec can name.
 *
 * Control thread; both may block. A new kind is a constructor in spec.h, a name in spec.c and a
 * case here.
 */
#include "media/media.h"
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
