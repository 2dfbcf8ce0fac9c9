/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The medium of a namespace whose file or device is lost: missing at the start, cut, or not the one
 * that was served. The medium has the size that hosts know and fails every operation. The namespace
 * stays in the configuration, inaccessible (target/target.h, TARGET_ANA_GROUP_LOST), until the file
 * is back or is recreated.
 *
 * Any reactor. Only the information for the operator changes, on the control thread. Every
 * operation ends inside submit.
 */
#include "media/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lost_media {
	struct media media;
	int member; /* of the cluster that shares the store; -1: not shared */
	struct media_record record;
	struct media_error problem;       /* control thread */
	char told[MEDIA_DEVICE_ID_BYTES]; /* ID of the device found; control thread */
};

static void lost_submit(struct media_io *io)
{
	io->done(io, -EIO);
}

static void lost_close(struct media *media)
{
	free(container_of(media, struct lost_media, media));
}

static bool lost_problem(struct media *media, struct media_error *ret_problem)
{
	*ret_problem = container_of(media, const struct lost_media, media)->problem;
	return true;
}

static int lost_member(const struct media *media)
{
	return container_of(media, const struct lost_media, media)->member;
}

static bool lost_get_record(const struct media *media, struct media_record *ret_record)
{
	*ret_record = container_of(media, const struct lost_media, media)->record;
	return true;
}

static const struct media_ops lost_ops = {
	.name = "lost",
	.submit = lost_submit,
	.close = lost_close,
	.get_record = lost_get_record,
	.member = lost_member,
	.problem = lost_problem,
};

int media_open_lost(const char *spec, const struct media_terms *terms,
		    const struct media_error *problem, struct media **ret_media)
{
	struct lost_media *lost = calloc(1, sizeof(*lost));
	struct media *media;

	if (!lost)
		return -ENOMEM;
	media = &lost->media;
	media->spec = strdup(spec);
	if (!media->spec) {
		free(lost);
		return -ENOMEM;
	}
	lost->member = terms->is_shared ? (int)terms->member : -1;
	lost->record = *terms->known;
	lost->problem = *problem;
	if (terms->told)
		memcpy(lost->told, terms->told, sizeof(lost->told));
	media->ops = &lost_ops;
	media->block_bytes =
		lost->record.block_bytes ? lost->record.block_bytes : MEDIA_BLOCK_DEFAULT;
	/* A namespace has at least one block. */
	media->size_bytes = lost->record.size_bytes / media->block_bytes * media->block_bytes;
	if (media->size_bytes == 0)
		media->size_bytes = media->block_bytes;
	media->buffer_align_bytes = 1;
	*ret_media = media;
	return 0;
}

bool media_is_lost(const struct media *media)
{
	return media->ops == &lost_ops;
}

char *media_lost_told(struct media *media)
{
	return media_is_lost(media) ? container_of(media, struct lost_media, media)->told : NULL;
}

void media_lost_note(struct media *media, const struct media_error *problem)
{
	if (media_is_lost(media))
		container_of(media, struct lost_media, media)->problem = *problem;
}
