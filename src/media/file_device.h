/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a block device: see media/file_device.c. Control thread only; blocks for a few
 * system calls.
 */
#ifndef WEFT_MEDIA_FILE_DEVICE_H
#define WEFT_MEDIA_FILE_DEVICE_H

#include "media/spec.h"

/* Fills id with the identity, a string without spaces that stays the same while the device has the
 * same bytes. "": the device has none. False: the kernel's information on devices is not visible
 * here. */
bool file_device_identify(dev_t dev, char id[MEDIA_DEVICE_ID_BYTES]);
/* 0 when the block device is the one of spec->known or the one accepted in spec->told. Otherwise
 * -EUCLEAN, and spec->told is set to the device's identity. */
int file_device_check(dev_t dev, const struct media_spec *spec, struct media_error *ret_error);

#endif
