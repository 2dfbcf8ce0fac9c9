/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a copy: a small text file that says which copy it is of and how far that is. Main
 * thread. Written to a second file, synced and renamed, so that there is always a whole one; what
 * it says was flushed to the destination before.
 */
#include "cli/copy.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL_HEAD  "weft-copy 1\n"
#define JOURNAL_BYTES (2 * COPY_IDENTITY_BYTES + 256)

int copy_journal_load(const char *path, const char *identity, uint64_t *ret_done_bytes)
{
	char text[JOURNAL_BYTES + 1], expected[JOURNAL_BYTES];
	char *done, *line_end;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	got = read(fd, text, JOURNAL_BYTES);
	close(fd);
	if (got < 0)
		return -errno;
	text[got] = '\0';
	done = strstr(text, "\ndone ");
	line_end = done != NULL ? strchr(done + 1, '\n') : NULL;
	if (strncmp(text, JOURNAL_HEAD, strlen(JOURNAL_HEAD)) != 0 || line_end == NULL ||
	    line_end[1] != '\0')
		return -EINVAL;
	*line_end = '\0';
	if (text_parse_u64(done + strlen("\ndone "), UINT64_MAX, ret_done_bytes) != 0)
		return -EINVAL;
	done[1] = '\0';
	snprintf(expected, sizeof(expected), "%s%s", JOURNAL_HEAD, identity);
	return strcmp(text, expected) == 0 ? 0 : -ESTALE;
}

/* The name of a file is on stable media when its folder is. */
static int folder_sync(const char *path)
{
	char copy[PATH_MAX];
	int fd, res;

	if (text_copy(copy, sizeof(copy), path) >= sizeof(copy))
		return -ENAMETOOLONG;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	res = fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	return res;
}

static int text_write(const char *path, const char *text, size_t len_bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	ssize_t put;
	int res = 0;

	if (fd < 0)
		return -errno;
	put = write(fd, text, len_bytes);
	if (put != (ssize_t)len_bytes)
		res = put < 0 ? -errno : -ENOSPC;
	else if (fsync(fd) != 0)
		res = -errno;
	close(fd);
	return res;
}

int copy_journal_save(const char *path, const char *identity, uint64_t done_bytes)
{
	char text[JOURNAL_BYTES], new_path[PATH_MAX];
	int len_bytes = snprintf(text, sizeof(text), "%s%sdone %" PRIu64 "\n", JOURNAL_HEAD,
				 identity, done_bytes);
	int res;

	if ((size_t)len_bytes >= sizeof(text) ||
	    (size_t)snprintf(new_path, sizeof(new_path), "%s.new", path) >= sizeof(new_path))
		return -ENAMETOOLONG;
	res = text_write(new_path, text, (size_t)len_bytes);
	if (res == 0 && rename(new_path, path) != 0)
		res = -errno;
	return res == 0 ? folder_sync(path) : res;
}
