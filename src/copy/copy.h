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
	uint64_t rate; /* bytes per second; 0: no limit */
	const char *journal;
	bool does_verify;
	bool is_sparse;
	bool has_progress; /* print progress lines even without a terminal */
	bool is_quiet;
};

/* Whether `name` means standard input or output ("-"). */
bool copy_stream_is_named(const char *name);

/*
 * Opens both ends, checks that they fit, copies and, with does_verify, compares. Call on the main
 * thread before other threads start: it blocks SIGTERM and SIGINT and reads them itself; the first
 * signal stops the copy in order. 0, -EINTR or another -errno, after a message.
 */
int copy_run(const struct copy_options *options);

#endif
