/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all files of a copy share: the copy itself. A copy is divided into pieces of one size.
 * Workers, one thread each, take pieces in order, one at a time: read the piece, write what is not
 * zero and erase what is. The main thread shows progress, writes the journal and handles signals.
 *
 * All state under a lock is in struct copy.
 */
#ifndef WEFT_COPY_WORKER_H
#define WEFT_COPY_WORKER_H

#include "copy/end.h"

#include <pthread.h>

#define COPY_GRAIN_BYTES 65536u /* unit in which data is searched for zeroes */

enum copy_phase {
	COPY_COMPARING, /* before an interrupted copy continues: what was copied by then */
	COPY_COPYING,
	COPY_VERIFYING, /* after the copy: everything */
};

struct copy_worker {
	struct copy *copy;
	pthread_t thread;
	uint64_t at; /* offset of the piece in work, or UINT64_MAX */
	uint8_t *buf;
	uint8_t *other; /* data of the destination; NULL while copying */
};

struct copy {
	const struct copy_options *options;
	struct copy_end from;
	struct copy_end to;
	uint64_t total_bytes; /* UINT64_MAX: unknown until the stream ends */
	enum copy_phase phase;
	uint64_t end_bytes; /* of this phase; total_bytes unless comparing */
	int done_fd;        /* readable when the last worker has ended */
	int stop_fd;        /* readable once the copy is stopped */
	struct copy_worker *workers;
	unsigned worker_count;
	pthread_mutex_t lock;
	pthread_cond_t stopped;
	pthread_mutex_t stream_lock; /* held while reading standard input */
	bool has_stream_ended;       /* under stream_lock */
	pthread_cond_t written;      /* signalled when stream_bytes changes */
	/* Under `lock`. */
	uint64_t stream_bytes; /* written to standard output */
	unsigned running;
	bool is_stopped; /* by a failure or a signal */
	uint64_t next_bytes;
	uint64_t done_bytes; /* total of this run */
	uint64_t zero_bytes;
	uint64_t rate_ns; /* when the next piece may start */
	int result;       /* the first failure, with its offset and operation */
	uint64_t failed_at;
	const char *failed_doing;
};

/* Starts the workers on [first_bytes, end_bytes). 0 or -errno. */
int copy_workers_start(struct copy *copy, enum copy_phase phase, uint64_t first_bytes,
		       uint64_t end_bytes);
/* Call when done_fd is readable. */
void copy_workers_join(struct copy *copy);
void copy_workers_stop(struct copy *copy);
/* Every byte before the returned offset is done. */
uint64_t copy_workers_watermark(struct copy *copy);

#endif
