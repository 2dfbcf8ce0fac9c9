/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a copy may continue from its journal. Main thread; blocks.
 *
 * Continuing trusts the data already in the destination, so the journal must belong to these two
 * ends, unchanged. A new file may get a removed file's inode number, so ends are identified by
 * their time of birth too (identity.c). Another copy may also have overwritten the file. So a
 * destination file carries its journal's random ID as an extended attribute, where the file system
 * supports them. Every copy to the file replaces or removes the attribute.
 *
 * The identity of a namespace or device shows neither a Format nor writes, and no counter of a
 * namespace is certain to survive a restart of its target. So the copied part of such ends is read
 * back and compared before the copy continues.
 */
#include "copy/journal.h"

#include "base/text.h"
#include "base/tool_error.h"
#include "base/uuid.h"
#include "copy/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TAG_NAME     "user.weft.copy"
#define REASON_BYTES 512

/* A journal with the name of an end would replace that end when saved. */
static int refuse_end(const struct copy_options *options)
{
	tool_error(options->ns.command, "%s is FROM or TO; name another file for the journal",
		   options->journal);
	return -EINVAL;
}

int copy_resume_load(const struct copy_options *options, struct copy_journal *ret_journal)
{
	const char *path = options->journal;
	int res;

	memset(ret_journal, 0, sizeof(*ret_journal));
	if (path == NULL)
		return 0;
	/* Check first: opening a destination of that name would create the file. */
	if (strcmp(path, options->from) == 0 || strcmp(path, options->to) == 0)
		return refuse_end(options);
	res = copy_journal_load(path, ret_journal);
	ret_journal->is_there = res == 0;
	if (res == 0 || res == -ENOENT)
		return 0;
	if (res == -EPROTONOSUPPORT)
		tool_error(options->ns.command,
			   "the journal %s is of an earlier version, which is not reliable; "
			   "remove it to copy everything again",
			   path);
	else if (res == -EINVAL)
		tool_error(options->ns.command, "%s is not a journal of a copy; name another file",
			   path);
	else
		tool_error(options->ns.command, "cannot read the journal %s: %s", path,
			   strerror(-res));
	return res;
}

/* ---- the tag of a destination file --------------------------------------------------------- */

/* Whether the file carries the tag `id`. */
static bool tag_is(const struct copy_end *to, const char *id)
{
	char found[COPY_ID_BYTES];
	ssize_t got = fgetxattr(to->fd, TAG_NAME, found, sizeof(found) - 1);

	return got >= 0 && (size_t)got == strlen(id) && memcmp(found, id, (size_t)got) == 0;
}

static bool tag_set(const struct copy_end *to, const char *id)
{
	return to->is_regular && fsetxattr(to->fd, TAG_NAME, id, strlen(id), 0) == 0;
}

/* Errors are ignored: without extended attributes there is no tag to remove. */
static void tag_remove(const struct copy_end *to)
{
	if (to->is_regular)
		(void)fremovexattr(to->fd, TAG_NAME);
}

/* ---- before a copy -------------------------------------------------------------------------- */

/* Writes what has changed since the journal was saved, or "". */
static void find_change(const struct copy *copy, const struct copy_journal *journal,
			char reason[REASON_BYTES])
{
	const struct copy_end *from = &copy->from, *to = &copy->to;

	reason[0] = '\0';
	if (strcmp(journal->from, from->identity) != 0 || journal->total_bytes != copy->total_bytes)
		snprintf(reason, REASON_BYTES, "%.400s is another source, or was written to",
			 from->name);
	else if (strcmp(journal->to, to->identity) != 0)
		snprintf(reason, REASON_BYTES, "%.400s is another destination, or was recreated",
			 to->name);
	else if (to->is_regular && to->size_bytes != journal->total_bytes)
		snprintf(reason, REASON_BYTES, "%.400s has %" PRIu64 " bytes and had %" PRIu64,
			 to->name, to->size_bytes, journal->total_bytes);
	else if (to->is_regular && journal->is_tagged && !tag_is(to, journal->id))
		snprintf(reason, REASON_BYTES, "another copy wrote to %.400s", to->name);
}

/* Whether `path` and the end are the same file, under any name. */
static bool is_journal(const struct copy_end *end, const char *path)
{
	struct stat ours, its;

	return !end->is_ns && stat(path, &its) == 0 && fstat(end->fd, &ours) == 0 &&
	       ours.st_dev == its.st_dev && ours.st_ino == its.st_ino;
}

/* A change of a source file shows in its identity, and of a destination file in its tag. */
bool copy_resume_must_compare(const struct copy *copy, const struct copy_journal *journal)
{
	return journal->is_there && journal->done_bytes > 0 &&
	       !(copy->from.is_regular && copy->to.is_regular && journal->is_tagged);
}

static int resume_check(const struct copy *copy, const struct copy_journal *journal)
{
	const struct copy_options *options = copy->options;
	char reason[REASON_BYTES], text[32];

	find_change(copy, journal, reason);
	if (reason[0] != '\0') {
		tool_error(options->ns.command,
			   "%s is the journal of another copy, or one end has changed since: %s. "
			   "Remove the journal to copy everything again",
			   options->journal, reason);
		return -ESTALE;
	}
	if (!options->is_quiet)
		fprintf(stderr, "weft copy: continues at %s%s\n",
			text_format_size(journal->done_bytes, text, sizeof(text)),
			copy_resume_must_compare(copy, journal)
				? " when the part before is compared"
				: "");
	return 0;
}

int copy_resume_begin(const struct copy *copy, struct copy_journal *journal)
{
	const struct copy_options *options = copy->options;
	struct uuid id;

	if (options->journal == NULL) {
		tag_remove(&copy->to);
		return 0;
	}
	if (is_journal(&copy->from, options->journal) || is_journal(&copy->to, options->journal))
		return refuse_end(options);
	if (journal->is_there)
		return resume_check(copy, journal);
	uuid_random(&id);
	uuid_format(&id, journal->id);
	text_copy(journal->from, sizeof(journal->from), copy->from.identity);
	text_copy(journal->to, sizeof(journal->to), copy->to.identity);
	journal->total_bytes = copy->total_bytes;
	journal->is_tagged = tag_set(&copy->to, journal->id);
	if (!journal->is_tagged)
		tag_remove(&copy->to);
	return 0;
}

void copy_resume_end(const struct copy *copy)
{
	const char *path = copy->options->journal;

	if (path == NULL)
		return;
	if (unlink(path) != 0 && errno != ENOENT)
		tool_error(copy->options->ns.command, "cannot remove the journal %s: %s", path,
			   strerror(errno));
	/* After the journal: if unlink fails, the missing tag makes the journal invalid. */
	tag_remove(&copy->to);
}
