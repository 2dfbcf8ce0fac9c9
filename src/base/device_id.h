/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which disk a block device is, whatever its name and number: see base/device_id.c. Any thread;
 * blocks for a few system calls.
 */
#ifndef WEFT_BASE_DEVICE_ID_H
#define WEFT_BASE_DEVICE_ID_H

#include <stdbool.h>
#include <sys/types.h>

#define DEVICE_ID_BYTES 160

/* The identifier that the device has for good; a partition's is its disk's. False, with "": it has
 * none. */
bool device_id_read(dev_t dev, char text[DEVICE_ID_BYTES]);
/* The first of these attributes that the device has, in its folder of sysfs; the list ends with
 * NULL. False, with "": it has none of them. */
bool device_attribute_read(dev_t dev, const char *const *names, char text[DEVICE_ID_BYTES]);
/* Whether the kernel shows the device here at all: without sysfs nothing can be said of it. */
bool device_is_shown(dev_t dev);
/* The first line of a file that the kernel provides, in printable characters. */
bool device_line_read(const char *path, char text[DEVICE_ID_BYTES]);

#endif
