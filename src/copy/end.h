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
	COPY_TO_AGAIN, /* a journal tells of it: it must be there */
};

/* A file, a block device, a namespace, or standard input or output ("-"). */
struct copy_end {
	const char *command;
	const char *name; /* as the user gave it */
	bool is_source;
	bool is_ns;
	bool is_regular; /* a file, not a device */
	bool is_stream;  /* once, in order; stream.c. size_bytes is UINT64_MAX */
	bool does_wait;  /* the stream may not be ready for more */
	int fd;
	struct ns_handle handle;
	uint64_t size_bytes;
	uint32_t block_bytes;  /* what is read and written is a multiple; 1 for a file */
	struct timespec mtime; /* of a source that is a file, when it was opened */
	_Atomic bool cannot_zero;
	char identity[COPY_IDENTITY_BYTES]; /* for the journal: the same thing, if it is equal */
};

/* All: 0 or -errno. copy_end_open has printed a message. */
int copy_end_open(struct copy_end *end, struct weft *weft, const struct copy_options *options,
		  enum copy_role role);
void copy_end_close(struct copy_end *end);
/* A file that is written to gets its size; what was in it goes, unless is_resumed. */
int copy_end_size(struct copy_end *end, uint64_t bytes, bool is_resumed);
/* Behind the end that a file had there are zeroes. -ESTALE: it ends earlier now. */
int copy_end_read(const struct copy_end *end, void *buf, uint64_t offset, size_t bytes);
int copy_end_write(const struct copy_end *end, const void *buf, uint64_t offset, size_t bytes);
/* Zeroes without data: a hole, or Write Zeroes that may deallocate. -EOPNOTSUPP: write them. */
int copy_end_zero(struct copy_end *end, uint64_t offset, size_t bytes);
int copy_end_flush(const struct copy_end *end);
/* Whether a file is known to have no data there; false when that cannot be known. A file that was
 * cut has none behind its new end: check the size after it. */
bool copy_end_is_hole(const struct copy_end *end, uint64_t offset, size_t bytes);
/* What is read from now on comes from the medium. */
void copy_end_forget(const struct copy_end *end);

/* Any thread. 0, or -ESTALE: it is not as large as it was. */
int copy_end_check_size(const struct copy_end *end);
/* Main thread. 0, or -ESTALE after a message: it is not what it was when the copy began. */
int copy_end_check(const struct copy_end *end);
/* Whether both ends are certainly one and the same namespace. */
bool copy_end_is_same(const struct copy_end *a, const struct copy_end *b);

/* Opens a file or a block device, and keeps targets and other copies off it: file.c. */
int copy_file_open(struct copy_end *end, const struct copy_options *options, enum copy_role role);

/* Fill in identity: identity.c. */
void copy_identify_ns(struct copy_end *end, const char *nqn);
void copy_identify_file(struct copy_end *end, const struct stat *info, bool is_source);
void copy_identify_device(struct copy_end *end, const struct stat *info);

int copy_stream_open(struct copy_end *end, bool is_source);
/* Less than `bytes` only at the end. -ECANCELED: stop_fd became readable. */
int copy_stream_read(const struct copy_end *end, int stop_fd, uint8_t *buf, size_t bytes,
		     size_t *ret_bytes);
int copy_stream_write(const struct copy_end *end, int stop_fd, const uint8_t *buf, size_t bytes);
int copy_stream_flush(const struct copy_end *end);

#endif
