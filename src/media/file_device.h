/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which block device a file medium is: see media/file_device.c. Control thread only; blocks for a
 * few system calls.
 */
#ifndef WEFT_MEDIA_FILE_DEVICE_H
#define WEFT_MEDIA_FILE_DEVICE_H

#include "media/spec.h"

/* One word, the same for as long as the device has the same bytes; "": it has none. False: what the
 * kernel knows of devices cannot be seen from here. */
bool file_device_identify(dev_t dev, char id[MEDIA_DEVICE_ID_BYTES]);
/* Whether a block device is the one of spec->known, or the one that the operator was told of; else
 * -EUCLEAN, and spec->told says which one it is. */
int file_device_check(dev_t dev, const struct media_spec *spec, struct media_error *ret_error);

#endif
