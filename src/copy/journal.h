/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a copy: which ends, and how far all is on stable media, so that a copy that was
 * interrupted goes on from there. Main thread.
 */
#ifndef WEFT_COPY_JOURNAL_H
#define WEFT_COPY_JOURNAL_H

#include "copy/end.h"

#define COPY_ID_BYTES 37 /* a UUID */

struct copy;

struct copy_journal {
	bool is_there;          /* a file has it, and the copy goes on from done_bytes */
	char id[COPY_ID_BYTES]; /* random, of the copy */
	bool is_tagged;         /* the destination file has the ID as an extended attribute */
	char from[COPY_IDENTITY_BYTES];
	char to[COPY_IDENTITY_BYTES];
	uint64_t total_bytes;
	uint64_t done_bytes; /* up to here all is on stable media */
};

/* 0; -ENOENT: there is none; -EINVAL: it is no journal; -EPROTONOSUPPORT: of an earlier version;
 * another -errno. */
int copy_journal_load(const char *path, struct copy_journal *ret_journal);
/* In one step: after a crash it is the old one or this one. */
int copy_journal_save(const char *path, const struct copy_journal *journal);

/* Before the destination is opened: reads the journal, if there is one. 0 or -errno, after a
 * message. */
int copy_resume_load(const struct copy_options *options, struct copy_journal *ret_journal);
/* With both ends open: sees that they are those of the journal, or begins a journal. Nothing is
 * written to the destination before. 0 or -errno, after a message. */
int copy_resume_begin(const struct copy *copy, struct copy_journal *journal);
/* The copy is done, or must not go on: removes the journal. */
void copy_resume_end(const struct copy *copy);

#endif
