/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a copy: both ends, and how much is on stable media, so that an interrupted copy
 * can continue. Main thread.
 */
#ifndef WEFT_COPY_JOURNAL_H
#define WEFT_COPY_JOURNAL_H

#include "copy/end.h"

#define COPY_ID_BYTES 37 /* a UUID */

struct copy;

struct copy_journal {
	bool is_there;          /* read from a file: the copy continues at done_bytes */
	char id[COPY_ID_BYTES]; /* of the copy; random */
	bool is_tagged;         /* the destination file carries the ID as an extended attribute */
	char from[COPY_IDENTITY_BYTES];
	char to[COPY_IDENTITY_BYTES];
	uint64_t total_bytes;
	uint64_t done_bytes; /* everything before this offset is on stable media */
};

/* 0, -ENOENT: no file, -EINVAL: not a journal, -EPROTONOSUPPORT: of an earlier version, or another
 * -errno. */
int copy_journal_load(const char *path, struct copy_journal *ret_journal);
/* Replaces the journal atomically: after a crash the file has the old or the new content. */
int copy_journal_save(const char *path, const struct copy_journal *journal);

/* Reads the journal, if there is one. Call before the destination is opened. 0 or -errno, after a
 * message. */
int copy_resume_load(const struct copy_options *options, struct copy_journal *ret_journal);
/* Call with both ends open, before writing to the destination: checks that the ends match the
 * journal, or starts a new journal. 0 or -errno, after a message. */
int copy_resume_begin(const struct copy *copy, struct copy_journal *journal);
/* Whether what the journal claims must be compared with both ends before the copy continues. */
bool copy_resume_must_compare(const struct copy *copy, const struct copy_journal *journal);
/* Removes the journal, because the copy is complete or must not be resumed. */
void copy_resume_end(const struct copy *copy);

#endif
