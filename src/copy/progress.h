/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the progress of a copy. Main thread.
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
/* Prints a line when one is due. */
void copy_progress_show(struct copy_progress *progress, struct copy *copy);
/* Clears the terminal's line, then prints the summary unless the copy failed. */
void copy_progress_end(struct copy_progress *progress, struct copy *copy);

#endif
