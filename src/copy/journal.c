/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a copy: a small text file that names the copy and its progress. Main thread. A
 * save writes and syncs a second file, then renames it, so that a complete journal always exists.
 * The recorded progress was flushed to the destination before.
 */
#include "copy/journal.h"

#include "base/folder_sync.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL_HEAD   "weft-copy 2"
#define JOURNAL_BEFORE "weft-copy 1" /* refused: identified the destination too loosely */
#define JOURNAL_BYTES  (2 * COPY_IDENTITY_BYTES + 512)

/* ---- reading -------------------------------------------------------------------------------- */

/* The value of the line "NAME VALUE\n" at *at, which moves past the line. NULL: another line. */
static const char *line_take(char **at, const char *name)
{
	size_t name_bytes = strlen(name);
	char *line_end = strchr(*at, '\n');
	char *value = *at + name_bytes + 1;

	if (line_end == NULL || strncmp(*at, name, name_bytes) != 0 || (*at)[name_bytes] != ' ')
		return NULL;
	*line_end = '\0';
	*at = line_end + 1;
	return value;
}

static bool text_take(char **at, const char *name, char *to, size_t to_bytes)
{
	const char *value = line_take(at, name);

	return value != NULL && text_copy(to, to_bytes, value) < to_bytes;
}

static bool number_take(char **at, const char *name, uint64_t max, uint64_t *ret_value)
{
	const char *value = line_take(at, name);

	return value != NULL && text_parse_u64(value, max, ret_value) == 0;
}

static int journal_parse(char *text, struct copy_journal *ret_journal)
{
	uint64_t is_tagged;
	char *at = text;

	if (strncmp(at, JOURNAL_BEFORE "\n", strlen(JOURNAL_BEFORE) + 1) == 0)
		return -EPROTONOSUPPORT;
	if (strncmp(at, JOURNAL_HEAD "\n", strlen(JOURNAL_HEAD) + 1) != 0)
		return -EINVAL;
	at += strlen(JOURNAL_HEAD) + 1;
	if (!text_take(&at, "id", ret_journal->id, sizeof(ret_journal->id)) ||
	    !number_take(&at, "tagged", 1, &is_tagged) ||
	    !text_take(&at, "from", ret_journal->from, sizeof(ret_journal->from)) ||
	    !text_take(&at, "to", ret_journal->to, sizeof(ret_journal->to)) ||
	    !number_take(&at, "bytes", UINT64_MAX, &ret_journal->total_bytes) ||
	    !number_take(&at, "done", ret_journal->total_bytes, &ret_journal->done_bytes) ||
	    *at != '\0')
		return -EINVAL;
	ret_journal->is_tagged = is_tagged != 0;
	return 0;
}

int copy_journal_load(const char *path, struct copy_journal *ret_journal)
{
	char text[JOURNAL_BYTES + 1];
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int res;

	if (fd < 0)
		return -errno;
	got = read(fd, text, JOURNAL_BYTES);
	res = got < 0 ? -errno : 0;
	close(fd);
	if (res != 0)
		return res;
	text[got] = '\0';
	return journal_parse(text, ret_journal);
}

/* ---- writing -------------------------------------------------------------------------------- */

static int text_write(int fd, const char *text, size_t len_bytes)
{
	ssize_t put = write(fd, text, len_bytes);

	if (put != (ssize_t)len_bytes)
		return put < 0 ? -errno : -ENOSPC;
	return fsync(fd) == 0 ? 0 : -errno;
}

int copy_journal_save(const char *path, const struct copy_journal *journal)
{
	char text[JOURNAL_BYTES], new_path[PATH_MAX];
	int len_bytes = snprintf(text, sizeof(text),
				 JOURNAL_HEAD "\nid %s\ntagged %d\nfrom %s\nto %s\nbytes %" PRIu64
					      "\ndone %" PRIu64 "\n",
				 journal->id, journal->is_tagged, journal->from, journal->to,
				 journal->total_bytes, journal->done_bytes);
	int fd, res;

	if ((size_t)len_bytes >= sizeof(text) ||
	    (size_t)snprintf(new_path, sizeof(new_path), "%s.XXXXXX", path) >= sizeof(new_path))
		return -ENAMETOOLONG;
	/* A unique name: a fixed one might be an end of this copy. */
	fd = mkostemp(new_path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	res = text_write(fd, text, (size_t)len_bytes);
	close(fd);
	if (res == 0 && rename(new_path, path) != 0)
		res = -errno;
	if (res != 0) {
		unlink(new_path);
		return res;
	}
	/* The new name is on stable media once the folder is synced. */
	return folder_sync_of(path);
}
