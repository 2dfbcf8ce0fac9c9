/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MEDIA_EXTENTS for media that know their holes; private to src/media. Helper threads.
 */
#ifndef WEFT_MEDIA_EXTENTS_H
#define WEFT_MEDIA_EXTENTS_H

#include "media/media.h"

/* Both fill io->iov and io->result. 0 or -errno; -EOPNOTSUPP: the extents are unknown. */
int extents_of_file(struct media_io *io, int fd);
int extents_of_memory(struct media_io *io, const uint8_t *base);

#endif
