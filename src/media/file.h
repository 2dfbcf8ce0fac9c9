/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What file_open.c (control thread: finding out what the file can do) and file.c (reactors: doing
 * it) share. Immutable after opening but for the atomic, which only ever turns true.
 */
#ifndef WEFT_MEDIA_FILE_H
#define WEFT_MEDIA_FILE_H

#include "media/media.h"

struct file_media {
	struct media media;
	int fd;
	bool is_block_device;
	_Atomic bool lacks_zero_range; /* learnt from the first refusal; saves asking again */
};

extern const struct media_ops file_ops;

#endif
