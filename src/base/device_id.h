/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies the disk of a block device, independent of its name and number: see base/device_id.c.
 * Any thread; blocks for a few system calls.
 */
#ifndef WEFT_BASE_DEVICE_ID_H
#define WEFT_BASE_DEVICE_ID_H

#include <stdbool.h>
#include <sys/types.h>

#define DEVICE_ID_BYTES 160

/* Reads the permanent identifier of the device; for a partition, of its disk. False, with "": the
 * device has none. */
bool device_id_read(dev_t dev, char text[DEVICE_ID_BYTES]);
/* Reads the first of these sysfs attributes that the device has; the list ends with NULL. False,
 * with "": the device has none of them. */
bool device_attribute_read(dev_t dev, const char *const *names, char text[DEVICE_ID_BYTES]);
/* True when sysfs has the device. Without sysfs, nothing is known about a device. */
bool device_is_shown(dev_t dev);
/* Reads the first line of a file in sysfs or procfs, with unprintable characters escaped. False,
 * with "": no such line. */
bool device_line_read(const char *path, char text[DEVICE_ID_BYTES]);

#endif
