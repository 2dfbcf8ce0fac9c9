/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds files that a loop device uses. A loop device takes no lock on its file, so an image mounted
 * through one could be served and its file system destroyed. A file is therefore compared with the
 * files of this machine's loop devices when the file is opened and at each health check.
 *
 * LOOP_GET_STATUS64 gives the device and inode of the file. Where the process must not open loop
 * devices, the path in sysfs is looked up instead. That path may not exist in this mount namespace;
 * such a file is not found.
 *
 * Control thread only. A start opens many files, so the table of loop devices is read again only
 * when the kernel has announced a change of any device, or after TABLE_AGE_NS.
 */
#include "media/file_loop.h"

#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SYS_BLOCK    "/sys/block"
#define EVENT_NUMBER "/sys/kernel/uevent_seqnum"
#define TABLE_AGE_NS (100 * NS_PER_MS)

struct loop {
	unsigned number; /* of /dev/loopN */
	dev_t dev;       /* of its file; also inode */
	ino_t inode;
	bool is_read_only;
};

static struct loop *table;
static size_t table_count;
static uint64_t table_read_ns; /* 0: never */
static char table_event[32];   /* the kernel's event number at that time; "": unknown */

/* The first line of a file. False: the file is missing or empty. */
static bool line_read(const char *path, char *text, size_t text_bytes)
{
	FILE *file = fopen(path, "re");
	bool is_read;

	if (!file)
		return false;
	is_read = fgets(text, (int)text_bytes, file) != NULL;
	fclose(file);
	if (is_read)
		text[strcspn(text, "\n")] = '\0';
	return is_read;
}

static bool attribute_read(unsigned number, const char *name, char *text, size_t text_bytes)
{
	char path[64];

	snprintf(path, sizeof(path), SYS_BLOCK "/loop%u/%s", number, name);
	return line_read(path, text, text_bytes);
}

static bool status_read(unsigned number, struct loop *ret_loop)
{
	struct loop_info64 info;
	char path[32];
	bool is_read;
	int fd;

	snprintf(path, sizeof(path), "/dev/loop%u", number);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	is_read = ioctl(fd, LOOP_GET_STATUS64, &info) == 0;
	close(fd);
	if (is_read) {
		ret_loop->dev = (dev_t)info.lo_device;
		ret_loop->inode = (ino_t)info.lo_inode;
		ret_loop->is_read_only = (info.lo_flags & LO_FLAGS_READ_ONLY) != 0;
	}
	return is_read;
}

/* False: the device has no file, or the file cannot be identified. */
static bool loop_read(unsigned number, struct loop *ret_loop)
{
	char path[PATH_MAX], is_read_only[8];
	struct stat st;

	if (!attribute_read(number, "loop/backing_file", path, sizeof(path)))
		return false;
	ret_loop->number = number;
	if (status_read(number, ret_loop))
		return true;
	if (stat(path, &st) < 0)
		return false;
	ret_loop->dev = st.st_dev;
	ret_loop->inode = st.st_ino;
	ret_loop->is_read_only = attribute_read(number, "ro", is_read_only, sizeof(is_read_only)) &&
				 is_read_only[0] == '1';
	return true;
}

static void table_add(const struct loop *loop)
{
	struct loop *grown = reallocarray(table, table_count + 1, sizeof(*table));

	if (!grown)
		return;
	table = grown;
	table[table_count++] = *loop;
}

static void table_refresh(void)
{
	uint64_t now_ns = clock_monotonic_ns();
	char event[sizeof(table_event)] = "";
	struct dirent *entry;
	DIR *folder;

	/* Read the number before the devices: a change during the scan gets a later number. */
	(void)line_read(EVENT_NUMBER, event, sizeof(event));
	if (table_read_ns != 0 && now_ns - table_read_ns < TABLE_AGE_NS &&
	    strcmp(event, table_event) == 0)
		return;
	table_read_ns = now_ns;
	memcpy(table_event, event, sizeof(table_event));
	table_count = 0;
	folder = opendir(SYS_BLOCK);
	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		struct loop loop;
		unsigned number;

		if (sscanf(entry->d_name, "loop%u", &number) == 1 && loop_read(number, &loop))
			table_add(&loop);
	}
	closedir(folder);
}

int file_loop_find(dev_t dev, ino_t inode)
{
	table_refresh();
	for (size_t i = 0; i < table_count; i++) {
		if (table[i].dev == dev && table[i].inode == inode && !table[i].is_read_only)
			return (int)table[i].number;
	}
	return -1;
}

bool file_loop_backing(dev_t device, dev_t *ret_dev, ino_t *ret_inode)
{
	if (major(device) != LOOP_MAJOR)
		return false;
	table_refresh();
	for (size_t i = 0; i < table_count; i++) {
		char text[32];

		/* Compare device numbers: partitions of a loop device have a different major
		 * number. */
		if (!attribute_read(table[i].number, "dev", text, sizeof(text)))
			continue;
		if (strtoul(text, NULL, 10) != major(device) || !strchr(text, ':') ||
		    strtoul(strchr(text, ':') + 1, NULL, 10) != minor(device))
			continue;
		*ret_dev = table[i].dev;
		*ret_inode = table[i].inode;
		return true;
	}
	return false;
}
