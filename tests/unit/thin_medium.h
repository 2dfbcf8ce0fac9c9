/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kind of medium for tests: "thin:SPEC", a store that is made of one other medium. It answers
 * questions for itself, as a thin volume or a mirror with one side left does. Every I/O fails. For
 * programs with their own media_drivers.
 */
#ifndef WEFT_TESTS_THIN_MEDIUM_H
#define WEFT_TESTS_THIN_MEDIUM_H

#include "media/driver.h"

#include <errno.h>
#include <stdlib.h>

#define THIN_USED_BYTES 4096u

static void thin_submit(struct media_io *io)
{
	io->done(io, -EIO);
}

static uint64_t thin_used_bytes(struct media *media)
{
	return THIN_USED_BYTES;
}

static void thin_close(struct media *media)
{
	free(media);
}

/* media_reopen refuses media that are made of others before it gets here. */
static int thin_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		       struct media_error *ret_error)
{
	return media_fail(ret_error, -EPROTO, "thin: reopened without its child");
}

static const struct media_ops thin_ops = {
	.name = "thin",
	.submit = thin_submit,
	.close = thin_close,
	.reopen = thin_reopen,
	.used_bytes = thin_used_bytes,
};

static int thin_parse(struct media_spec *spec, char *body, unsigned depth,
		      struct media_error *ret_error)
{
	int res = media_spec_add_children(spec, 1, ret_error);

	return res < 0 ? res : media_spec_parse_child(spec, 0, body, depth, ret_error);
}

static int thin_open(struct media_opening *opening, struct media **ret_media,
		     struct media_error *ret_error)
{
	struct media *media = calloc(1, sizeof(*media));

	if (!media)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	media->ops = &thin_ops;
	media->size_bytes = opening->children[0]->size_bytes;
	media->block_bytes = opening->children[0]->block_bytes;
	media->buffer_align_bytes = 1;
	*ret_media = media;
	return 0;
}

static const struct media_driver thin_driver = {
	.name = "thin",
	.form = "thin:SPEC",
	.kind = MEDIA_SPEC_VOLUME,
	.options = "",
	.parse = thin_parse,
	.open = thin_open,
};

#endif
