/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An end of a copy: a file, a block device, a namespace, or standard input or output. Opened and
 * closed on the main thread; used by all workers at once.
 */
#ifndef WEFT_COPY_END_H
#define WEFT_COPY_END_H

#include "client/ns_handle.h"
#include "copy/copy.h"

#include <stdatomic.h>
#include <sys/stat.h>

#define COPY_IDENTITY_BYTES 512

enum copy_role {
	COPY_FROM,
	COPY_TO,
	COPY_TO_AGAIN, /* like COPY_TO, but must exist, because a journal exists */
};

/* A file, a block device, a namespace, or standard input or output ("-"). */
struct copy_end {
	const char *command;
	const char *name; /* as given by the user */
	bool is_source;
	bool is_ns;
	bool is_regular; /* a regular file, not a device */
	bool is_stream;  /* read or written once, in order; stream.c. size_bytes is UINT64_MAX */
	bool does_wait;  /* call poll(2) before reading or writing the stream */
	int fd;
	struct ns_handle handle;
	uint64_t size_bytes;
	uint32_t block_bytes;  /* unit of reads and writes; 1 for files and devices */
	struct timespec mtime; /* modification time at opening; for a source file */
	_Atomic bool cannot_zero;
	char identity[COPY_IDENTITY_BYTES]; /* for the journal: equal identity, same end */
};

/* All functions below that return int: 0 or -errno. copy_end_open prints a message. */
int copy_end_open(struct copy_end *end, struct weft *weft, const struct copy_options *options,
		  enum copy_role role);
void copy_end_close(struct copy_end *end);
/* Sets the size of a destination file, and discards its content unless is_resumed. Other ends:
 * nothing. */
int copy_end_size(struct copy_end *end, uint64_t bytes, bool is_resumed);
/* Reads zeroes past the end that a file had when it was opened. -ESTALE: the file ends earlier
 * now. */
int copy_end_read(const struct copy_end *end, void *buf, uint64_t offset, size_t bytes);
int copy_end_write(const struct copy_end *end, const void *buf, uint64_t offset, size_t bytes);
/* Erases a range: a hole, or Write Zeroes that may deallocate. -EOPNOTSUPP: write zeroes
 * instead. */
int copy_end_zero(struct copy_end *end, uint64_t offset, size_t bytes);
int copy_end_flush(const struct copy_end *end);
/* Whether a file is known to have no data in the range; false when unknown. A truncated file has no
 * data past its new end, so check the size afterwards. */
bool copy_end_is_hole(const struct copy_end *end, uint64_t offset, size_t bytes);
/* Drops the page cache of the end, so that later reads come from the medium. */
void copy_end_forget(const struct copy_end *end);

/* Any thread. 0, or -ESTALE when the size has changed. */
int copy_end_check_size(const struct copy_end *end);
/* Main thread. 0, or -ESTALE after a message when the end has changed since the copy began. */
int copy_end_check(const struct copy_end *end);
/* Whether both ends are certainly the same namespace. */
bool copy_end_is_same(const struct copy_end *a, const struct copy_end *b);

/* Opens a file or block device and locks it against targets and other copies: file.c. */
int copy_file_open(struct copy_end *end, const struct copy_options *options, enum copy_role role);

/* Fill in `identity`: identity.c. */
void copy_identify_ns(struct copy_end *end, const char *nqn);
void copy_identify_file(struct copy_end *end, const struct stat *info, bool is_source);
void copy_identify_device(struct copy_end *end, const struct stat *info);

int copy_stream_open(struct copy_end *end, bool is_source);
/* *ret_bytes is less than `bytes` only at the end of the stream. -ECANCELED: stop_fd became
 * readable. */
int copy_stream_read(const struct copy_end *end, int stop_fd, uint8_t *buf, size_t bytes,
		     size_t *ret_bytes);
int copy_stream_write(const struct copy_end *end, int stop_fd, const uint8_t *buf, size_t bytes);
int copy_stream_flush(const struct copy_end *end);

#endif
