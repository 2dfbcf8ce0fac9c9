/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a block device, for its record: after a restart /dev/sdb may be another disk of
 * the same size. The identity is what the disk reports (base/device_id.c). For a loop device the
 * identity is the inode and time of birth of its file, because that file's device number may change
 * at a restart. For a partition the identity is the disk's and the offset, or PARTUUID where the
 * disk has none.
 *
 * A device with another identity than the recorded one makes the namespace lost. The device is
 * served only after the operator saw its identity and accepted it (recheck); a third device is
 * refused again. The same holds when the identity is uncertain: a deleted file of a loop device
 * shows no time of birth, and its inode alone may belong to another file. The message then does not
 * claim another device.
 *
 * Control thread only.
 */
#include "media/file_device.h"

#include "media/file_loop.h"

#include "base/clock.h"
#include "base/device_id.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define ID_NONE       "none" /* as shown to the operator */
#define ID_SHOWN      60     /* characters per ID in a message; the last ones differ */
#define PART_UUID_KEY "PARTUUID="
#define FORM_BORN     "born:"
#define DELETED       " (deleted)" /* suffix of the name in sysfs */

/* The disk of a partition; otherwise the device itself. */
static dev_t disk_of(dev_t dev)
{
	static const char *const partition[] = {"partition", NULL}, *const number[] = {"../dev",
										       NULL};
	char text[DEVICE_ID_BYTES];
	unsigned major_number, minor_number;

	if (!device_attribute_read(dev, partition, text) ||
	    !device_attribute_read(dev, number, text) ||
	    sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
		return dev;
	return makedev(major_number, minor_number);
}

/* The path of a loop device's file in sysfs. False: not a loop device. */
static bool backing_name(dev_t disk, char *file, size_t file_bytes)
{
	char path[64];
	FILE *attribute;
	bool is_read;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/loop/backing_file", major(disk),
		 minor(disk));
	attribute = fopen(path, "re");
	if (!attribute)
		return false;
	is_read = fgets(file, (int)file_bytes, attribute) != NULL;
	fclose(attribute);
	if (is_read)
		file[strcspn(file, "\n")] = '\0';
	return is_read;
}

/* Time of birth of the file of a loop device. 0: cannot be determined. */
static uint64_t backing_birth(dev_t disk, ino_t inode)
{
	char file[PATH_MAX];
	struct statx stx;

	if (!backing_name(disk, file, sizeof(file)))
		return 0;
	memset(&stx, 0, sizeof(stx));
	/* In this mount namespace, or by now, the path may lead to another file. */
	if (statx(AT_FDCWD, file, AT_STATX_DONT_SYNC, STATX_INO | STATX_BTIME, &stx) != 0 ||
	    !(stx.stx_mask & STATX_BTIME) || stx.stx_ino != inode)
		return 0;
	return (uint64_t)stx.stx_btime.tv_sec * NS_PER_S + stx.stx_btime.tv_nsec;
}

static bool loop_identify(dev_t disk, char text[DEVICE_ID_BYTES])
{
	static const char *const offset[] = {"loop/offset", NULL};
	char begin[DEVICE_ID_BYTES];
	uint64_t born_ns;
	ino_t inode;
	dev_t dev;

	if (!file_loop_backing(disk, &dev, &inode))
		return false;
	(void)device_attribute_read(disk, offset, begin);
	born_ns = backing_birth(disk, inode);
	if (born_ns)
		snprintf(text, DEVICE_ID_BYTES, "loop:%ju:" FORM_BORN "%" PRIu64 ":%.20s",
			 (uintmax_t)inode, born_ns, begin);
	else
		snprintf(text, DEVICE_ID_BYTES, "loop:%ju:on:%u:%u:%.20s", (uintmax_t)inode,
			 major(dev), minor(dev), begin);
	return true;
}

/* The UUID in the partition table, if the kernel reports it. */
static bool partition_identify(dev_t dev, char text[DEVICE_ID_BYTES])
{
	char path[64], line[256];
	bool is_found = false;
	FILE *events;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major(dev), minor(dev));
	events = fopen(path, "re");
	if (!events)
		return false;
	while (!is_found && fgets(line, sizeof(line), events))
		is_found = strncmp(line, PART_UUID_KEY, strlen(PART_UUID_KEY)) == 0;
	fclose(events);
	line[strcspn(line, "\n")] = '\0';
	if (is_found)
		snprintf(text, DEVICE_ID_BYTES, "partition:%.80s", line + strlen(PART_UUID_KEY));
	return is_found;
}

bool file_device_identify(dev_t dev, char id[MEDIA_DEVICE_ID_BYTES])
{
	static const char *const start[] = {"start", NULL};
	char text[DEVICE_ID_BYTES] = "", begin[DEVICE_ID_BYTES] = "";
	dev_t disk = disk_of(dev);

	id[0] = '\0';
	if (!device_is_shown(dev))
		return false;
	if (device_id_read(disk, text) || loop_identify(disk, text)) {
		if (disk != dev)
			(void)device_attribute_read(dev, start, begin);
	} else if (disk == dev || !partition_identify(dev, text)) {
		return true;
	}
	snprintf(id, MEDIA_DEVICE_ID_BYTES, "%s%s%.20s", text, begin[0] ? "+" : "", begin);
	for (char *at = id; *at; at++) {
		if (isspace((unsigned char)*at))
			*at = '_';
	}
	return true;
}

static const char *shown(const char *id)
{
	size_t len = strlen(id);

	return len > ID_SHOWN ? id + (len - ID_SHOWN) : id;
}

/* Both are loop devices with files of the same inode, but the time of birth is known for only one:
 * the files may be the same. */
static bool is_unsure(const char *id, const char *known)
{
	unsigned long long inode, known_inode;
	int form = 0, known_form = 0;

	return sscanf(id, "loop:%llu:%n", &inode, &form) == 1 && form > 0 &&
	       sscanf(known, "loop:%llu:%n", &known_inode, &known_form) == 1 && known_form > 0 &&
	       inode == known_inode &&
	       (strncmp(id + form, FORM_BORN, strlen(FORM_BORN)) == 0) !=
		       (strncmp(known + known_form, FORM_BORN, strlen(FORM_BORN)) == 0);
}

/* A deleted file keeps its data while the loop device is attached. */
static int fail_unsure(dev_t dev, const struct media_spec *spec, struct media_error *ret_error)
{
	char file[PATH_MAX];
	size_t len = backing_name(disk_of(dev), file, sizeof(file)) ? strlen(file) : 0;
	bool is_deleted =
		len > strlen(DELETED) && strcmp(file + len - strlen(DELETED), DELETED) == 0;

	return media_fail(
		ret_error, -EUCLEAN,
		"%.50s: its backing file %s, so weft cannot check that this is the served "
		"device; %sif this is the served device, recheck the namespace",
		spec->path,
		is_deleted ? "was deleted" : "could not be identified then, or cannot now",
		is_deleted ? "losetup -d would free the data: copy them first; " : "");
}

int file_device_check(dev_t dev, const struct media_spec *spec, struct media_error *ret_error)
{
	const char *known = spec->known->device_id;
	char id[MEDIA_DEVICE_ID_BYTES];

	/* No ID was recorded by an earlier version, or the device had none, or the present ID
	 * cannot be read. */
	if (known[0] == '\0' || !file_device_identify(dev, id) || strcmp(id, known) == 0)
		return 0;
	if (id[0] == '\0')
		snprintf(id, sizeof(id), "%s", ID_NONE);
	if (spec->told && strcmp(id, spec->told) == 0)
		return 0;
	if (spec->told)
		memcpy(spec->told, id, sizeof(id));
	if (is_unsure(id, known))
		return fail_unsure(dev, spec, ret_error);
	return media_fail(ret_error, -EUCLEAN,
			  "%.50s is another device than was served: %s in place of %s; recheck to "
			  "serve this device",
			  spec->path, shown(id), shown(known));
}
