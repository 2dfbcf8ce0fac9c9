/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null medium: reads return zeroes, writes are discarded. For measuring everything but storage.
 *
 * Any reactor; its state never changes, so no field is atomic. Every operation ends inside submit.
 */
#include "media/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void null_submit(struct media_io *io)
{
	if (io->kind == MEDIA_READ) {
		for (unsigned i = 0; i < io->iov_count; i++)
			memset(io->iov[i].iov_base, 0, io->iov[i].iov_len);
	}
	io->done(io, 0);
}

static void null_close(struct media *media)
{
	free(media);
}

static int null_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		       struct media_error *ret_error)
{
	if (spec->size_bytes < media->size_bytes)
		return media_fail(ret_error, -EINVAL,
				  "null: has %llu bytes and cannot shrink to %llu; remove the "
				  "namespace and add it again",
				  (unsigned long long)media->size_bytes,
				  (unsigned long long)spec->size_bytes);
	return media_null_open(spec, ret_media, ret_error);
}

static const struct media_ops null_ops = {
	.name = "null",
	.submit = null_submit,
	.close = null_close,
	.reopen = null_reopen,
};

int media_null_open(const struct media_spec *spec, struct media **ret_media,
		    struct media_error *ret_error)
{
	struct media *media = calloc(1, sizeof(*media));

	if (!media)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	media->ops = &null_ops;
	media->size_bytes = spec->size_bytes;
	media->block_bytes = spec->block_bytes ? spec->block_bytes : MEDIA_BLOCK_DEFAULT;
	media->buffer_align_bytes = 1;
	media->can_discard = true;
	media->reads_zero_after_discard = true;
	media->works_in_submit = true;
	*ret_media = media;
	return 0;
}
