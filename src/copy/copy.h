/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a file, a block device or a stream to a namespace, or back, or one namespace to another:
 * the library behind `weft copy`.
 */
#ifndef WEFT_COPY_COPY_H
#define WEFT_COPY_COPY_H

#include "client/ns_handle.h"

#define COPY_DEPTH_MAX 256
#define COPY_PIECE_MAX (64u << 20)

struct copy_options {
	struct ns_options ns;
	const char *from;
	const char *to;
	unsigned depth;
	uint32_t piece_bytes;
	uint64_t rate; /* bytes a second; 0: as fast as it goes */
	const char *journal;
	bool does_verify;
	bool is_sparse;
	bool has_progress; /* lines, also without a terminal */
	bool is_quiet;
};

/* Whether an end of this name is standard input or output ("-"). */
bool copy_stream_is_named(const char *name);

/*
 * Opens both ends, sees that they fit, copies and, if asked, compares. On the main thread, before
 * others are started: it blocks SIGTERM and SIGINT and takes them, and the first one ends the copy
 * in order. 0, -EINTR or another -errno, after a message.
 */
int copy_run(const struct copy_options *options);

#endif
