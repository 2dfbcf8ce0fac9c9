/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identifiers of block devices, from sysfs. The kernel assigns device names (/dev/sdb) and
 * numbers in the order in which it finds the devices, so both may change after a restart or when a
 * disk is pulled. The identifiers read here belong to the disk: its World Wide Identifier, the UUID
 * of a device mapper or array device, the serial number of a virtual disk.
 */
#include "base/device_id.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FOLDER_BYTES 64

static void folder_of(dev_t dev, char text[FOLDER_BYTES])
{
	snprintf(text, FOLDER_BYTES, "/sys/dev/block/%u:%u", major(dev), minor(dev));
}

bool device_line_read(const char *path, char text[DEVICE_ID_BYTES])
{
	FILE *file = fopen(path, "re");
	char line[DEVICE_ID_BYTES] = "";

	text[0] = '\0';
	if (file == NULL)
		return false;
	if (fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	text_escape(line, text, DEVICE_ID_BYTES);
	return text[0] != '\0';
}

bool device_attribute_read(dev_t dev, const char *const *names, char text[DEVICE_ID_BYTES])
{
	char folder[FOLDER_BYTES], path[FOLDER_BYTES + 64];

	folder_of(dev, folder);
	text[0] = '\0';
	for (; *names != NULL; names++) {
		snprintf(path, sizeof(path), "%s/%s", folder, *names);
		if (device_line_read(path, text))
			return true;
	}
	return false;
}

bool device_is_shown(dev_t dev)
{
	char folder[FOLDER_BYTES];

	folder_of(dev, folder);
	return access(folder, F_OK) == 0;
}

bool device_id_read(dev_t dev, char text[DEVICE_ID_BYTES])
{
	static const char *const names[] = {
		"wwid",    "device/wwid", "../wwid", "../device/wwid", "dm/uuid",
		"md/uuid", "../md/uuid",  "serial",  "../serial",      NULL};

	return device_attribute_read(dev, names, text);
}
