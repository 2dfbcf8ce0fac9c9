/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MEDIA_EXTENTS for media that can tell; private to src/media. Helper threads.
 */
#ifndef WEFT_MEDIA_EXTENTS_H
#define WEFT_MEDIA_EXTENTS_H

#include "media/media.h"

/* Each 0 or -errno; -EOPNOTSUPP: nothing can be told. */
int extents_of_file(struct media_io *io, int fd);
int extents_of_memory(struct media_io *io, const uint8_t *base);

#endif
