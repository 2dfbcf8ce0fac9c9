/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a copy is, for people. Main thread.
 */
#ifndef WEFT_COPY_PROGRESS_H
#define WEFT_COPY_PROGRESS_H

#include "copy/worker.h"

struct copy_progress {
	uint64_t begin_ns;
	uint64_t shown_ns;
	uint64_t first_bytes;
	bool is_terminal;
};

void copy_progress_begin(struct copy_progress *progress, const struct copy *copy,
			 uint64_t first_bytes);
/* When it is time for it. */
void copy_progress_show(struct copy_progress *progress, struct copy *copy);
/* Leaves the terminal's line; then the sum on standard output, unless it failed. */
void copy_progress_end(struct copy_progress *progress, struct copy *copy);

#endif
