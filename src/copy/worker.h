/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all files of a copy share: the copy itself. It goes in pieces of one size; workers, a thread
 * each, take them in order and do one at a time: read, then write what is not zero and erase what
 * is. The main thread shows progress, writes the journal and takes signals.
 *
 * Everything behind a lock is in struct copy.
 */
#ifndef WEFT_COPY_WORKER_H
#define WEFT_COPY_WORKER_H

#include "copy/end.h"

#include <pthread.h>

#define COPY_GRAIN_BYTES 65536u /* zeroes are looked for in units of this */

enum copy_phase {
	COPY_COPYING,
	COPY_VERIFYING
};

struct copy_worker {
	struct copy *copy;
	pthread_t thread;
	uint64_t at; /* the piece it works on, or UINT64_MAX */
	uint8_t *buf;
	uint8_t *other; /* of the destination, when it verifies */
};

struct copy {
	const struct copy_options *options;
	struct copy_end from;
	struct copy_end to;
	uint64_t total_bytes; /* UINT64_MAX: nobody knows before its end */
	enum copy_phase phase;
	int done_fd; /* readable when the last worker has ended */
	int stop_fd; /* readable once it is stopped */
	struct copy_worker *workers;
	unsigned worker_count;
	pthread_mutex_t lock;
	pthread_cond_t stopped;
	pthread_mutex_t stream_lock; /* whose turn it is to read standard input */
	bool has_stream_ended;       /* under it */
	pthread_cond_t written;      /* stream_bytes has changed */
	/* Under the lock. */
	uint64_t stream_bytes; /* of standard output: written */
	unsigned running;
	bool is_stopped; /* by a failure or a signal */
	uint64_t next_bytes;
	uint64_t done_bytes; /* in all, this run */
	uint64_t zero_bytes;
	uint64_t rate_ns; /* when the next piece may begin */
	int result;       /* the first failure, and where and at what */
	uint64_t failed_at;
	const char *failed_doing;
};

/* Starts the workers on [first_bytes, total_bytes). 0 or -errno. */
int copy_workers_start(struct copy *copy, enum copy_phase phase, uint64_t first_bytes);
/* After done_fd. */
void copy_workers_join(struct copy *copy);
void copy_workers_stop(struct copy *copy);
/* Everything before this is done. */
uint64_t copy_workers_watermark(struct copy *copy);

#endif
